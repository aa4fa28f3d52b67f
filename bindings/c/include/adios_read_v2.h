/* The read half of the ADIOS 1.13 interface, by Thalweg. Programs include adios_read.h.
 *
 * Open a file as a file (all steps at once; each variable has its own steps) or as a stream (one step at a time, also while a program
 * writes the file). Then use the names in ADIOS_FILE, adios_inq_var, adios_schedule_read, adios_perform_reads.
 *
 * Functions return 0, or a negative number that is also in adios_errno; functions that return a pointer return null on failure. The
 * library allocates returned structures; each has a function that frees the structure with everything in it.
 *
 * "Collective": every rank of the communicator makes the call, and all get the same outcome. Any rank may make other calls.
 * Dimensions are slowest first, whatever language wrote the file; see adios_reset_dimension_order.
 */
#ifndef THALWEG_ADIOS_READ_V2_H
#define THALWEG_ADIOS_READ_V2_H

#include <inttypes.h>
#include <stdint.h>

#include "adios_version.h"
#include "adios_mpi.h"
#include "adios_types.h"
#include "adios_selection.h"
#include "adios_schema.h"
#include "adios_link.h"
#include "adios_read_v2_fwd.h"
#include "adios_read_ext.h"

#ifdef __cplusplus
extern "C" {
#endif

/* An open file. Programs must not change the fields. */
struct _ADIOS_FILE {
    uint64_t fh;
    int nvars; /* of the whole file, of the group in view, or of a stream's current step */
    char **var_namelist;
    int nattrs;
    char **attr_namelist;
    int nmeshes;
    char **mesh_namelist;
    int nlinks;
    char **link_namelist;

    int current_step; /* of a stream, from 0; 0 for a file */
    int last_step;    /* the newest known step */
    int is_streaming; /* 1: a stream; 0: a file */

    char *path;
    int endianness; /* byte order of the file, 0: little, 1: big; values are read in this machine's byte order */
    int version;    /* of the BP format */
    uint64_t file_size; /* without subfiles */

    void *internal_data;
};

/* Recorded statistics of values. A null pointer: not recorded, or not requested. */
struct _ADIOS_VARSTAT {
    void *min; /* over all steps; of the variable's type */
    void *max;
    double *avg;
    double *std_dev;

    struct ADIOS_STAT_STEP { /* `nsteps` of each */
        void **mins;
        void **maxs;
        double **avgs;
        double **std_devs;
    } *steps;

    struct ADIOS_STAT_BLOCK { /* `sum_nblocks` of each */
        void **mins;
        void **maxs;
        double **avgs;
        double **std_devs;
    } *blocks;

    struct ADIOS_HIST {
        uint32_t num_breaks;
        double max;
        double min;
        double *breaks;
        uint32_t **frequencies;
        uint32_t *gfrequencies;
    } *histogram;
};

/* A block: the data of one write call on one rank. */
struct _ADIOS_VARBLOCK {
    uint64_t *start; /* in the global array; zeros for a local array */
    uint64_t *count;
    uint32_t process_id; /* the writer's rank if recorded, else the block's number in the step */
    uint32_t time_index; /* step of the file + 1 */
};

enum var_centering { point = 1, cell = 2 };

struct _ADIOS_VARMESH {
    int meshid;
    enum var_centering centering;
};

struct _ADIOS_VARINFO {
    int varid; /* in var_namelist */
    enum ADIOS_DATATYPES type;
    int ndim;       /* 0: a scalar */
    uint64_t *dims; /* of the global array in its first step; of the first block of a local array */
    int nsteps;     /* steps in which the variable was written; 1 for a stream */
    void *value;    /* of a scalar, in its first step; null for arrays */
    int global;     /* 1: a global array; 0: a local array */
    int *nblocks;   /* in each of `nsteps` */
    int sum_nblocks;
    int nattrs; /* attributes whose name begins with the variable's and a slash */
    int *attr_ids;
    ADIOS_VARSTAT *statistics; /* by adios_inq_var_stat */
    ADIOS_VARBLOCK *blockinfo; /* `sum_nblocks`, by adios_inq_var_blockinfo */
    ADIOS_VARMESH *meshinfo;   /* by adios_inq_var_meshinfo */
};

/* A part of a scheduled read. */
struct _ADIOS_VARCHUNK {
    int varid;
    enum ADIOS_DATATYPES type;
    int from_steps;
    int nsteps;
    ADIOS_SELECTION *sel; /* the part of the variable that is in `data` */
    void *data;           /* library memory, valid until the next adios_check_reads or adios_perform_reads */
};

/* The first two are the same here; the others are not supported. */
enum ADIOS_READ_METHOD {
    ADIOS_READ_METHOD_BP = 0,
    ADIOS_READ_METHOD_BP_AGGREGATE = 1,
    ADIOS_READ_METHOD_DATASPACES = 3,
    ADIOS_READ_METHOD_DIMES = 4,
    ADIOS_READ_METHOD_FLEXPATH = 5,
    ADIOS_READ_METHOD_ICEE = 6
};

/* Steps of a file are never removed, so streams need no lock: all three are the same. */
enum ADIOS_LOCKMODE { ADIOS_LOCKMODE_NONE = 0, ADIOS_LOCKMODE_CURRENT = 1, ADIOS_LOCKMODE_ALL = 2 };

#ifndef __INCLUDED_FROM_FORTRAN_API__

extern int adios_errno;
const char *adios_errmsg();

/* Optional. `parameters`: "key=value;key=value"; see docs/guide/c-api.md. */
int adios_read_init_method(enum ADIOS_READ_METHOD method, MPI_Comm comm, const char *parameters);
THALWEG_OF_MPI_CALL(int, adios_read_init_method, (enum ADIOS_READ_METHOD method, MPI_Comm comm, const char *parameters),
                    (method, comm, parameters))
int adios_read_finalize_method(enum ADIOS_READ_METHOD method);

/* Collective: opens a stream at its first step, waiting up to `timeout_sec` seconds (negative: for ever, unless the writer dies).
 * err_file_not_found: no step in time; err_end_of_stream: the stream ended without a step. */
ADIOS_FILE *adios_read_open(const char *fname, enum ADIOS_READ_METHOD method, MPI_Comm comm,
                            enum ADIOS_LOCKMODE lock_mode, float timeout_sec);
THALWEG_OF_MPI_CALL(ADIOS_FILE *, adios_read_open,
                    (const char *fname, enum ADIOS_READ_METHOD method, MPI_Comm comm, enum ADIOS_LOCKMODE lock_mode,
                     float timeout_sec),
                    (fname, method, comm, lock_mode, timeout_sec))
#define adios_read_open_stream adios_read_open

/* Collective: opens a file with all of its current steps. */
ADIOS_FILE *adios_read_open_file(const char *fname, enum ADIOS_READ_METHOD method, MPI_Comm comm);
THALWEG_OF_MPI_CALL(ADIOS_FILE *, adios_read_open_file, (const char *fname, enum ADIOS_READ_METHOD method, MPI_Comm comm),
                    (fname, method, comm))
/* Collective: frees the file and discards scheduled reads. */
int adios_read_close(ADIOS_FILE *fp);

/* Collective: advances a stream to the next step, or to the newest (`last` not 0), waiting up to `timeout_sec` seconds (negative: while
 * the writer lives). The names in `fp` become those of the new step. err_end_of_stream: the writer finished or died;
 * err_step_notready: no new step yet. For a file: err_end_of_stream. */
int adios_advance_step(ADIOS_FILE *fp, int last, float timeout_sec);
/* Without effect: steps of a file are never removed. */
void adios_release_step(ADIOS_FILE *fp);

/* Describes a variable, by its full name (the leading slash is optional) or its place in var_namelist. */
ADIOS_VARINFO *adios_inq_var(ADIOS_FILE *fp, const char *varname);
ADIOS_VARINFO *adios_inq_var_byid(ADIOS_FILE *fp, int varid);
/* Frees the structure with its statistics, blocks and mesh. */
void adios_free_varinfo(ADIOS_VARINFO *cp);
/* These three fill in parts of a varinfo. */
int adios_inq_var_stat(ADIOS_FILE *fp, ADIOS_VARINFO *varinfo, int per_step_stat, int per_block_stat);
int adios_inq_var_blockinfo(ADIOS_FILE *fp, ADIOS_VARINFO *varinfo);
int adios_inq_var_meshinfo(ADIOS_FILE *fp, ADIOS_VARINFO *varinfo);

/* A mesh or link, by its place in mesh_namelist or link_namelist. */
ADIOS_MESH *adios_inq_mesh_byid(ADIOS_FILE *fp, int meshid);
/* Completes a mesh from the other file that defines it (file_name). */
int adios_complete_meshinfo(ADIOS_FILE *datafile, ADIOS_FILE *meshfile, ADIOS_MESH *meshinfo);
void adios_free_meshinfo(ADIOS_MESH *meshinfo);
ADIOS_LINK *adios_inq_link_byid(ADIOS_FILE *fp, int linkid);
void adios_free_linkinfo(ADIOS_LINK *linkinfo);

/* Schedules a read of `nsteps` of the variable's own steps from `from_steps` on (1 and 0 for a stream): of each step the part `sel`
 * (null: all), contiguous in `data`. The selection is copied. `data` null: the values are returned by adios_check_reads. */
int adios_schedule_read(const ADIOS_FILE *fp, const ADIOS_SELECTION *sel, const char *varname, int from_steps,
                        int nsteps, void *data);
int adios_schedule_read_byid(const ADIOS_FILE *fp, const ADIOS_SELECTION *sel, int varid, int from_steps, int nsteps,
                             void *data);
/* `param` is for transforms with partial reads; there are none. */
int adios_schedule_read_param(const ADIOS_FILE *fp, const ADIOS_SELECTION *sel, const char *varname, int from_steps,
                              int nsteps, const char *param, void *data);
int adios_schedule_read_byid_param(const ADIOS_FILE *fp, const ADIOS_SELECTION *sel, int varid, int from_steps,
                                   int nsteps, const char *param, void *data);

/* blocking not 0: carries out all scheduled reads into their memory. 0: returns immediately; adios_check_reads then reads and returns
 * the parts. */
int adios_perform_reads(const ADIOS_FILE *fp, int blocking);
/* Returns 1: `*chunk` is a part, or null if none is ready; 0: no parts left. */
int adios_check_reads(const ADIOS_FILE *fp, ADIOS_VARCHUNK **chunk);
void adios_free_chunk(ADIOS_VARCHUNK *chunk);

/* The value of an attribute in `*data`; the program calls free(). `*size`: bytes, including the zero byte of a text. Texts of a string
 * array are pointers into the same memory. */
int adios_get_attr(ADIOS_FILE *fp, const char *attrname, enum ADIOS_DATATYPES *type, int *size, void **data);
int adios_get_attr_byid(ADIOS_FILE *fp, int attrid, enum ADIOS_DATATYPES *type, int *size, void **data);

const char *adios_type_to_string(enum ADIOS_DATATYPES type);
/* Bytes of a value; for a text including the zero byte. */
int adios_type_size(enum ADIOS_DATATYPES type, const void *data);

/* The names of groups, owned by the file. Returns their number. */
int adios_get_grouplist(ADIOS_FILE *fp, char ***group_namelist);
/* Restricts `fp` to the variables and attributes of one group; -1: all groups. */
int adios_group_view(ADIOS_FILE *fp, int groupid);

/* Correlation of two series over steps: of "average", "minimum", "maximum" or "standard deviation" of each step, from
 * time_start to before time_end, the second `lag` steps later. */
double adios_stat_cor(ADIOS_VARINFO *vix, ADIOS_VARINFO *viy, char *characteristic, uint32_t time_start,
                      uint32_t time_end, uint32_t lag);
double adios_stat_cov(ADIOS_VARINFO *vix, ADIOS_VARINFO *viy, char *characteristic, uint32_t time_start,
                      uint32_t time_end, uint32_t lag);

/* Overrides the file's order of dimensions: 1 fastest first (Fortran), 0 slowest first. Call before adios_inq_var. */
void adios_reset_dimension_order(ADIOS_FILE *fp, int is_fortran);

void adios_print_fileinfo(ADIOS_FILE *fp);

typedef struct {
    int nmethods;
    char **name;
    enum ADIOS_READ_METHOD *methodID;
} ADIOS_AVAILABLE_READ_METHODS;

ADIOS_AVAILABLE_READ_METHODS *adios_available_read_methods();
void adios_available_read_methods_free(ADIOS_AVAILABLE_READ_METHODS *);

#endif

#ifdef __cplusplus
}
#endif

#endif
