/* Version 1 of the read interface of ADIOS 1.x, by Thalweg: over the same reader as version 2. Programs include adios_read.h
 * after `#define ADIOS_USE_READ_API_1`.
 *
 * A program opens a file (collective), then a group, then inquires and reads variables. A variable written in several steps
 * has an additional first dimension: time. Functions return 0 or a number of bytes, or a negative number that is also in
 * adios_errno; functions that return a pointer return null on failure.
 */
#ifndef THALWEG_ADIOS_READ_V1_H
#define THALWEG_ADIOS_READ_V1_H

#include <stdint.h>

#include "adios_version.h"
#include "adios_mpi.h"
#include "adios_read_v1_defs.h"
#include "adios_types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    uint64_t fh;
    int groups_count;
    int vars_count; /* of all groups */
    int attrs_count;
    int tidx_start; /* the first step: 1 */
    int ntimesteps;
    int version;        /* of the BP format */
    uint64_t file_size; /* in bytes, without subfiles */
    int endianness;     /* of the bytes in the file: 0 little, 1 big */
    char **group_namelist;
    void *internal_data;
} ADIOS_FILE;

typedef struct {
    uint64_t gh;
    int grpid; /* in group_namelist */
    int vars_count;
    char **var_namelist;
    int attrs_count;
    char **attr_namelist;
    ADIOS_FILE *fp;
    int timestep; /* 0 */
    int lasttimestep;
} ADIOS_GROUP;

typedef struct {
    int grpid;
    int varid; /* in var_namelist of the group */
    enum ADIOS_DATATYPES type;
    int ndim; /* including time */
    uint64_t *dims;
    int timedim; /* number of the time dimension; -1: written in one step */
    int characteristics_count;
    void *value; /* of a scalar, in its first step */
    void *gmin;  /* over all steps; null: not recorded */
    void *gmax;
    double *gavg;
    double *gstd_dev;
    void **mins; /* null, as in ADIOS 1.13 */
    void **maxs;
    double **avgs;
    double **std_devs;
    struct ADIOS_HIST {
        uint32_t num_breaks;
        double max;
        double min;
        double *breaks;
        uint32_t **frequenciess;
        uint32_t *gfrequencies;
    } *hist; /* null */
    void *internal_data;
} ADIOS_VARINFO;

typedef struct {
    uint64_t *start;
    uint64_t *count;
} ADIOS_VARBLOCK;

enum ADIOS_READ_METHOD {
    ADIOS_READ_METHOD_BP = 0,
    ADIOS_READ_METHOD_BP_STAGED = 1,
    ADIOS_READ_METHOD_BP_AGGREGATE = 1,
    ADIOS_READ_METHOD_HDF5 = 2,
    ADIOS_READ_METHOD_DART = 3,
    ADIOS_READ_METHOD_DIMES = 4,
    ADIOS_READ_METHOD_NSSI = 5,
    ADIOS_READ_METHOD_DATATAP = 6,
    ADIOS_READ_METHOD_BP_STAGED1 = 7
};

extern int adios_errno;
const char *adios_errmsg(void);

/* All methods that read BP are the same; others fail. */
int adios_set_read_method(enum ADIOS_READ_METHOD method);
/* Accepted, without effect. */
int adios_set_application_id(int id);
/* Optional. */
int adios_read_init(MPI_Comm comm);
THALWEG_OF_MPI_CALL(int, adios_read_init, (MPI_Comm comm), (comm))
int adios_read_finalize(void);

/* Collective. */
ADIOS_FILE *adios_fopen(const char *fname, MPI_Comm comm);
THALWEG_OF_MPI_CALL(ADIOS_FILE *, adios_fopen, (const char *fname, MPI_Comm comm), (fname, comm))
int adios_fclose(ADIOS_FILE *fp);
void adios_reset_dimension_order(ADIOS_FILE *fp, int is_fortran);

ADIOS_GROUP *adios_gopen(ADIOS_FILE *fp, const char *grpname);
ADIOS_GROUP *adios_gopen_byid(ADIOS_FILE *fp, int grpid);
int adios_gclose(ADIOS_GROUP *gp);

ADIOS_VARINFO *adios_inq_var(ADIOS_GROUP *gp, const char *varname);
ADIOS_VARINFO *adios_inq_var_byid(ADIOS_GROUP *gp, int varid);
void adios_free_varinfo(ADIOS_VARINFO *cp);
double adios_stat_cor(ADIOS_VARINFO *vix, ADIOS_VARINFO *viy, char *characteristic, uint32_t time_start, uint32_t time_end,
                      uint32_t lag);
double adios_stat_cov(ADIOS_VARINFO *vix, ADIOS_VARINFO *viy, char *characteristic, uint32_t time_start, uint32_t time_end,
                      uint32_t lag);

/* A box; `start` and `count` of `ndim` elements each. Returns the bytes read. */
int64_t adios_read_var(ADIOS_GROUP *gp, const char *varname, const uint64_t *start, const uint64_t *count, void *data);
int64_t adios_read_var_byid(ADIOS_GROUP *gp, int varid, const uint64_t *start, const uint64_t *count, void *data);
/* Reads block `idx` of each step, or a box of that block. */
int64_t adios_read_local_var(ADIOS_GROUP *gp, const char *varname, int idx, const uint64_t *start, const uint64_t *count,
                             void *data);

/* The program frees `*data`. */
int adios_get_attr(ADIOS_GROUP *gp, const char *attrname, enum ADIOS_DATATYPES *type, int *size, void **data);
int adios_get_attr_byid(ADIOS_GROUP *gp, int attrid, enum ADIOS_DATATYPES *type, int *size, void **data);

const char *adios_type_to_string(enum ADIOS_DATATYPES type);
int adios_type_size(enum ADIOS_DATATYPES type, void *data);
void adios_print_fileinfo(ADIOS_FILE *fp);
void adios_print_groupinfo(ADIOS_GROUP *gp);

#ifdef __cplusplus
}
#endif

#endif
