/* The read half of the ADIOS 1.13 interface, by Thalweg. Programs include adios_read.h.
 *
 * A file is opened as a file (all steps are there, each variable has its own) or as a stream (one step at a time, also
 * while a program still writes it). Then: names in ADIOS_FILE, adios_inq_var, adios_schedule_read, adios_perform_reads.
 *
 * Functions return 0, or a negative number that is also in adios_errno; those that return a pointer return null where they
 * fail. Structures that a function returns are its own memory: each has a function that frees it, with all it holds.
 *
 * "Collective": every rank of the communicator makes the call; all get the same outcome. All other calls are for any rank.
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

/* An open file. Programs read it and leave it as it is. */
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
    int last_step;    /* the newest that is known */
    int is_streaming; /* 1: a stream; 0: a file */

    char *path;
    int endianness; /* of the bytes in the file; values are read in this machine's. 0: little, 1: big */
    int version;    /* of the BP format */
    uint64_t file_size; /* without subfiles */

    void *internal_data;
};

/* What the writer recorded about values. A null pointer: not recorded, or not asked for. */
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

/* What one rank wrote in one go. */
struct _ADIOS_VARBLOCK {
    uint64_t *start; /* in the global array; zeros for a local array */
    uint64_t *count;
    uint32_t process_id; /* the rank that wrote it, where the file tells; else its number in the step */
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
    int nsteps;     /* in which it was written; 1 for a stream */
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

/* A piece of what was scheduled. */
struct _ADIOS_VARCHUNK {
    int varid;
    enum ADIOS_DATATYPES type;
    int from_steps;
    int nsteps;
    ADIOS_SELECTION *sel; /* the part of the variable that is in `data` */
    void *data;           /* the library's: until the next adios_check_reads or adios_perform_reads */
};

/* The first two mean the same here; the others are not offered. */
enum ADIOS_READ_METHOD {
    ADIOS_READ_METHOD_BP = 0,
    ADIOS_READ_METHOD_BP_AGGREGATE = 1,
    ADIOS_READ_METHOD_DATASPACES = 3,
    ADIOS_READ_METHOD_DIMES = 4,
    ADIOS_READ_METHOD_FLEXPATH = 5,
    ADIOS_READ_METHOD_ICEE = 6
};

/* Steps of a file stay, so a stream over a file needs no lock: all three mean the same. */
enum ADIOS_LOCKMODE { ADIOS_LOCKMODE_NONE = 0, ADIOS_LOCKMODE_CURRENT = 1, ADIOS_LOCKMODE_ALL = 2 };

#ifndef __INCLUDED_FROM_FORTRAN_API__

extern int adios_errno;
const char *adios_errmsg();

/* Optional. `parameters`: "key=value;key=value"; see docs/guide/c-api.md. */
int adios_read_init_method(enum ADIOS_READ_METHOD method, MPI_Comm comm, const char *parameters);
THALWEG_OF_MPI_CALL(int, adios_read_init_method, (enum ADIOS_READ_METHOD method, MPI_Comm comm, const char *parameters),
                    (method, comm, parameters))
int adios_read_finalize_method(enum ADIOS_READ_METHOD method);

/* Collective: opens a stream at its first step. Waits for it up to `timeout_sec`; a negative number waits as long as
 * nothing shows that it will never come. err_file_not_found: not there in time; err_end_of_stream: it ended without a step. */
ADIOS_FILE *adios_read_open(const char *fname, enum ADIOS_READ_METHOD method, MPI_Comm comm,
                            enum ADIOS_LOCKMODE lock_mode, float timeout_sec);
THALWEG_OF_MPI_CALL(ADIOS_FILE *, adios_read_open,
                    (const char *fname, enum ADIOS_READ_METHOD method, MPI_Comm comm, enum ADIOS_LOCKMODE lock_mode,
                     float timeout_sec),
                    (fname, method, comm, lock_mode, timeout_sec))
#define adios_read_open_stream adios_read_open

/* Collective: opens a file, with all steps it has now. */
ADIOS_FILE *adios_read_open_file(const char *fname, enum ADIOS_READ_METHOD method, MPI_Comm comm);
THALWEG_OF_MPI_CALL(ADIOS_FILE *, adios_read_open_file, (const char *fname, enum ADIOS_READ_METHOD method, MPI_Comm comm),
                    (fname, method, comm))
/* Collective: frees the file. Reads that were not performed are forgotten. */
int adios_read_close(ADIOS_FILE *fp);

/* Collective: goes on to the next step of a stream, or to the newest (`last` not 0), and waits for it up to `timeout_sec`
 * (negative: as long as its writer lives). Names in `fp` are then those of that step. err_end_of_stream: the writer has
 * finished, or died; err_step_notready: not yet there. A file's steps are all there: nothing happens. */
int adios_advance_step(ADIOS_FILE *fp, int last, float timeout_sec);
/* Nothing needs to be released: steps of a file stay. */
void adios_release_step(ADIOS_FILE *fp);

/* A variable: by its full name, with or without the first slash, or by its place in var_namelist. */
ADIOS_VARINFO *adios_inq_var(ADIOS_FILE *fp, const char *varname);
ADIOS_VARINFO *adios_inq_var_byid(ADIOS_FILE *fp, int varid);
/* Frees it with its statistics, blocks and mesh. */
void adios_free_varinfo(ADIOS_VARINFO *cp);
/* These three fill in parts of a varinfo. */
int adios_inq_var_stat(ADIOS_FILE *fp, ADIOS_VARINFO *varinfo, int per_step_stat, int per_block_stat);
int adios_inq_var_blockinfo(ADIOS_FILE *fp, ADIOS_VARINFO *varinfo);
int adios_inq_var_meshinfo(ADIOS_FILE *fp, ADIOS_VARINFO *varinfo);

/* A mesh or link, by its place in mesh_namelist or link_namelist. */
ADIOS_MESH *adios_inq_mesh_byid(ADIOS_FILE *fp, int meshid);
/* Fills in a mesh that lies in another file (file_name), from that file. */
int adios_complete_meshinfo(ADIOS_FILE *datafile, ADIOS_FILE *meshfile, ADIOS_MESH *meshinfo);
void adios_free_meshinfo(ADIOS_MESH *meshinfo);
ADIOS_LINK *adios_inq_link_byid(ADIOS_FILE *fp, int linkid);
void adios_free_linkinfo(ADIOS_LINK *linkinfo);

/* Notes down what to read: `nsteps` of the variable's own steps from `from_steps` (0 and 1 for a stream), of each the part
 * in `sel` (null: all of it), into `data`, one behind the other. The selection is copied. With null `data`, for
 * adios_check_reads. */
int adios_schedule_read(const ADIOS_FILE *fp, const ADIOS_SELECTION *sel, const char *varname, int from_steps,
                        int nsteps, void *data);
int adios_schedule_read_byid(const ADIOS_FILE *fp, const ADIOS_SELECTION *sel, int varid, int from_steps, int nsteps,
                             void *data);
/* `param` is for transforms that can be read in parts; there is none. */
int adios_schedule_read_param(const ADIOS_FILE *fp, const ADIOS_SELECTION *sel, const char *varname, int from_steps,
                              int nsteps, const char *param, void *data);
int adios_schedule_read_byid_param(const ADIOS_FILE *fp, const ADIOS_SELECTION *sel, int varid, int from_steps,
                                   int nsteps, const char *param, void *data);

/* blocking: reads all that was scheduled into the memory given. Else returns at once; adios_check_reads then reads and
 * gives piece by piece. */
int adios_perform_reads(const ADIOS_FILE *fp, int blocking);
/* 1: `*chunk` is a piece, or null where there is none yet; 0: there are no more. */
int adios_check_reads(const ADIOS_FILE *fp, ADIOS_VARCHUNK **chunk);
void adios_free_chunk(ADIOS_VARCHUNK *chunk);

/* The value of an attribute, in `*data`, which the program frees by free(). `*size`: its bytes; for a text with its zero;
 * texts of a string array are pointers into the same memory. */
int adios_get_attr(ADIOS_FILE *fp, const char *attrname, enum ADIOS_DATATYPES *type, int *size, void **data);
int adios_get_attr_byid(ADIOS_FILE *fp, int attrid, enum ADIOS_DATATYPES *type, int *size, void **data);

const char *adios_type_to_string(enum ADIOS_DATATYPES type);
/* Bytes of a value; for a text its own and the zero. */
int adios_type_size(enum ADIOS_DATATYPES type, const void *data);

/* The names of groups, which stay the file's; returns how many. */
int adios_get_grouplist(ADIOS_FILE *fp, char ***group_namelist);
/* Shows the variables and attributes of one group alone in `fp`; -1: all again. */
int adios_group_view(ADIOS_FILE *fp, int groupid);

/* How two series over steps go together: of "average", "minimum", "maximum" or "standard deviation" of each step, from
 * time_start to before time_end, the second `lag` steps later. */
double adios_stat_cor(ADIOS_VARINFO *vix, ADIOS_VARINFO *viy, char *characteristic, uint32_t time_start,
                      uint32_t time_end, uint32_t lag);
double adios_stat_cov(ADIOS_VARINFO *vix, ADIOS_VARINFO *viy, char *characteristic, uint32_t time_start,
                      uint32_t time_end, uint32_t lag);

/* Says in which order the writer's program had dimensions, whatever the file says: 1 fastest first (Fortran), 0 slowest
 * first. Before variables are asked for. */
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
