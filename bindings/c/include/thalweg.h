/* thalweg.h: Thalweg from C, for new codes. Programs written for ADIOS 1.x take adios.h instead; both write the same files.
 *
 *   thalweg_session *session;
 *   thalweg_output *output;
 *   if (thalweg_session_open(&session, "heat.xml") || thalweg_output_open(&output, session, "heat", "heat.bp", THALWEG_WRITE) ||
 *       thalweg_write(output, "nx", &nx) || thalweg_write(output, "T", t) || thalweg_output_close(output))
 *       fprintf(stderr, "%s\n", thalweg_last_error()->text);
 *
 * Every call that can fail returns 0 or a number of thalweg_status; thalweg_last_error() says the rest. Dimensions are slowest
 * first, in elements; steps count from 0. Calls on one handle take turns, different handles do not wait for each other.
 * docs/guide/c-native.md tells the rest. */
#ifndef THALWEG_H
#define THALWEG_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- When something fails ---- */

typedef enum thalweg_status {
    THALWEG_OK = 0,
    THALWEG_IO = 1,                 /* something below failed that fits no other kind */
    THALWEG_NOT_FOUND = 2,          /* no file, group, variable or step of that name */
    THALWEG_ALREADY_EXISTS = 3,
    THALWEG_PERMISSION_DENIED = 4,
    THALWEG_NO_SPACE = 5,
    THALWEG_NO_MEMORY = 6,          /* memory, or the buffer limit, does not suffice */
    THALWEG_CORRUPT = 7,            /* bytes that should be something are not */
    THALWEG_TORN = 8,               /* bytes end in the middle of something */
    THALWEG_OUT_OF_BOUNDS = 9,
    THALWEG_UNSUPPORTED = 10,
    THALWEG_CONFIG = 11,            /* the XML, a declaration or a parameter is wrong */
    THALWEG_INVALID_ARGUMENT = 12,
    THALWEG_PEER_LOST = 13,         /* another rank, or the writer that is followed, died */
    THALWEG_TIMEOUT = 14,
    THALWEG_NOT_READY = 15,         /* that step has not come yet */
    THALWEG_END_OF_STREAM = 16      /* no further step will come */
} thalweg_status;

/* What is not known is NULL or -1. */
typedef struct thalweg_error {
    thalweg_status status;
    const char *text;      /* everything below, to be shown: one line, and one more with what is still safe */
    const char *what;      /* what failed, and why, without the place */
    int64_t rank;          /* where it happened */
    const char *group;
    int64_t step;
    const char *variable;  /* or attribute */
    const char *object;    /* file or subfile */
    int64_t byte;          /* in that object */
    const char *safe;      /* what is still safe */
    int64_t reported_by;   /* the rank that failed, where this one only heard of it */
} thalweg_error;

/* What a program should know although it goes on: a warning about its configuration, a storage target that failed and was replaced.
 * Without a handler, or with NULL, each kind is one line on the standard error stream. THALWEG_LOG=off|warn|info|debug says how
 * much is told, THALWEG_LOG_FILE names a file for each rank. Any thread may call the handler, one at a time; the text is valid
 * until it returns, and it calls no function of Thalweg. */
typedef enum thalweg_message_level {
    THALWEG_MESSAGE_WARNING = 1,
    THALWEG_MESSAGE_INFORMATION = 2,
    THALWEG_MESSAGE_DETAIL = 3
} thalweg_message_level;
typedef void (*thalweg_message_handler)(int level, const char *text, void *context);
void thalweg_set_message_handler(thalweg_message_handler handler, void *context);

/* The last failure of this thread; never NULL, and valid until this thread's next call that fails. */
const thalweg_error *thalweg_last_error(void);

/* "not found" and the like. */
const char *thalweg_status_text(int status);

/* "0.1.0" and the like. */
const char *thalweg_version(void);

/* ---- Element types ---- */

typedef enum thalweg_type {
    THALWEG_ANY = -1, /* in requests: the type is not checked */
    THALWEG_INT8 = 0,
    THALWEG_INT16 = 1,
    THALWEG_INT32 = 2,
    THALWEG_INT64 = 4,
    THALWEG_FLOAT32 = 5,
    THALWEG_FLOAT64 = 6,
    THALWEG_LONG_DOUBLE = 7,
    THALWEG_STRING = 9,
    THALWEG_COMPLEX64 = 10,  /* two float */
    THALWEG_COMPLEX128 = 11, /* two double */
    THALWEG_STRINGS = 12,    /* several texts; attributes only */
    THALWEG_UINT8 = 50,
    THALWEG_UINT16 = 51,
    THALWEG_UINT32 = 52,
    THALWEG_UINT64 = 54,
    THALWEG_CHAR = 55        /* as adios2 writes it; read, never written */
} thalweg_type;

/* Bytes of one element; 0 for text, and for what is no type. */
size_t thalweg_type_size(thalweg_type type);

/* ---- Sessions: from start to end of a program's output ---- */

typedef struct thalweg_session thalweg_session;

/* Opens a session of the groups and methods in an XML file, or of none where `config` is NULL. For this process alone; with
 * MPI see the end of this file. `*session` is NULL where it fails. */
int thalweg_session_open(thalweg_session **session, const char *config);

/* As above, the XML given as text; `name` is for messages, NULL for none. */
int thalweg_session_open_text(thalweg_session **session, const char *xml, const char *name);

/* Collective: closes all files for good and frees the session, also where it fails. Outputs must be closed before. */
int thalweg_session_close(thalweg_session *session);

/* As thalweg_session_close, without hearing of the other ranks: closes this rank's files for good and frees the session. */
int thalweg_session_finish(thalweg_session *session);

/* As thalweg_session_finish, for the way out after a failure: files end with a full index of the steps that were closed, and
 * without the mark that no step will come, so that a follower learns that the writer failed. A program that exits without closing
 * a session ends so by itself; outputs that are open then are dropped. */
void thalweg_session_drop(thalweg_session *session);

/* The most memory that outputs of this session may use in this process; 0 writes everything through, UINT64_MAX is no limit. */
int thalweg_session_set_buffer(thalweg_session *session, uint64_t bytes);

/* What the program does between its outputs: methods that go on working hear of it, and profiles show it. Not collective. */
int thalweg_session_begin_calculation(thalweg_session *session);
int thalweg_session_end_calculation(thalweg_session *session);
int thalweg_session_end_iteration(thalweg_session *session);

/* ---- Groups, declared in code ---- */

typedef struct thalweg_group thalweg_group; /* lives as long as its session */

typedef enum thalweg_statistics {
    THALWEG_STATISTICS_OFF = 0,
    THALWEG_STATISTICS_MINMAX = 1,
    THALWEG_STATISTICS_FULL = 2,
    THALWEG_STATISTICS_DEFAULT = 3 /* everything; other libraries see minimum and maximum alone */
} thalweg_statistics;

/* Declares a group. Every rank declares the same. */
int thalweg_group_declare(thalweg_group **group, thalweg_session *session, const char *name);

/* A group that is declared already, in XML for example, to add to it. */
int thalweg_group_find(thalweg_group **group, thalweg_session *session, const char *name);

/* Chooses a method, one more each time; `parameters` as "key=value;key=value", `base_path` is put in front of file names. Both
 * may be NULL. */
int thalweg_group_method(thalweg_group *group, const char *method, const char *parameters, const char *base_path);

/* What is recorded of the values of the group's variables; THALWEG_STATISTICS_DEFAULT if nothing is said. */
int thalweg_group_statistics(thalweg_group *group, thalweg_statistics statistics);

/* Names of variables and attributes may hold a path: "/fields/T", "/fields/T/units". */

/* One value, or one text. */
int thalweg_define_scalar(thalweg_group *group, const char *name, thalweg_type type);

/* An array whose dimensions are texts over the group's scalars: "rows,nx" of "ny,nx" at "first,0". `global` and `offset` are NULL
 * or empty for arrays local to a rank. */
int thalweg_define_array(thalweg_group *group, const char *name, thalweg_type type, const char *dimensions, const char *global,
                         const char *offset);

/* A global array of numbers: written with a box that says where the block lies, or as a whole without one. Where `shape` is NULL
 * each box says the shape too. */
int thalweg_define_global(thalweg_group *group, const char *name, thalweg_type type, size_t ndim, const uint64_t *shape);

/* An array local to a rank, of `ndim` dimensions; each box says how large it is. */
int thalweg_define_local(thalweg_group *group, const char *name, thalweg_type type, size_t ndim);

/* Chooses a transform ("zlib:5") for a variable; NULL or empty for none. */
int thalweg_set_transform(thalweg_group *group, const char *variable, const char *transform);

/* An attribute with `count` values of `type`. THALWEG_STRING: `values` is the text itself, `count` 1; THALWEG_STRINGS: pointers
 * to texts. */
int thalweg_define_attribute(thalweg_group *group, const char *name, thalweg_type type, size_t count, const void *values);

/* An attribute with the value that a scalar has when the step is closed. */
int thalweg_define_attribute_of(thalweg_group *group, const char *name, const char *variable);

/* ---- Outputs: one step of one group ---- */

typedef struct thalweg_output thalweg_output;

typedef enum thalweg_mode {
    THALWEG_WRITE = 0,  /* a new file, step 0 */
    THALWEG_APPEND = 1, /* one more step */
    THALWEG_UPDATE = 2  /* more of the last step */
} thalweg_mode;

/* Collective over the session's ranks: opens an output. */
int thalweg_output_open(thalweg_output **output, thalweg_session *session, const char *group, const char *path,
                        thalweg_mode mode);

/* Collective: opens an output behind step `step` of a file, for a run that carries on from an earlier checkpoint: all later steps
 * are dropped, and gone when this returns; an open that fails on any rank drops nothing. */
int thalweg_output_open_after(thalweg_output **output, thalweg_session *session, const char *group, const char *path, uint64_t step);

/* The step that is being written. */
uint64_t thalweg_output_step(thalweg_output *output);

/* How many bytes this rank is about to write; optional, memory is then taken in one piece. */
int thalweg_output_reserve(thalweg_output *output, uint64_t bytes);

/* Where a block lies in the global array. */
typedef struct thalweg_box {
    size_t ndim;
    const uint64_t *shape;  /* of the global array; NULL: as defined, or a local array */
    const uint64_t *offset; /* NULL: zeros */
    const uint64_t *count;
} thalweg_box;

/* Where a block's elements lie in memory, if not one behind the other: a box in a larger array, such as one with ghost cells.
 * As many dimensions as the block has. */
typedef struct thalweg_memory {
    size_t ndim;
    const uint64_t *shape;  /* of the array in memory */
    const uint64_t *offset; /* of the block's first element in it */
} thalweg_memory;

/* A block to be written. What is left 0 or NULL is not checked, or as declared. */
typedef struct thalweg_block_data {
    const void *data;
    uint64_t bytes;               /* of the memory at `data`, checked where not 0 */
    int check_type;               /* whether `type` is to be the variable's */
    thalweg_type type;
    const thalweg_box *box;       /* NULL: as the group's dimensions say */
    const thalweg_memory *memory; /* NULL: the elements lie one behind the other */
    int deferred;                 /* the memory stays unchanged until close, so that nothing is copied */
} thalweg_block_data;

/* Writes one block of a variable; not collective. Blocks of different boxes, and all of a local array, stay several blocks; of a
 * scalar, a text, and the same box of a global array the last value counts. An array defined without extents needs a box. The memory
 * is free again when this returns, unless it is deferred. Dimensions that are scalars are written before the array. */
int thalweg_put(thalweg_output *output, const char *name, const thalweg_block_data *block);

/* The same for what is most often needed: the group says the dimensions, a text ends with a zero byte. */
int thalweg_write(thalweg_output *output, const char *name, const void *data);
int thalweg_write_deferred(thalweg_output *output, const char *name, const void *data);
int thalweg_write_box(thalweg_output *output, const char *name, const thalweg_box *box, const void *data);

/* Collective: commits the step and frees the output, also where that fails. When it returns 0 the step is readable. */
int thalweg_output_close(thalweg_output *output);

/* Collective, instead of close, on a rank that can't go on: the others' close fails, naming this rank and `why`; what they wrote is
 * kept. Frees the output. Returns the failure, never 0. */
int thalweg_output_abandon(thalweg_output *output, const char *why);

/* Frees the output, writes nothing and talks to nobody. Other ranks that close it wait (at most ten minutes) for this one. */
void thalweg_output_drop(thalweg_output *output);

/* ---- Readers ---- */

typedef struct thalweg_reader thalweg_reader;

/* Opens a file; not collective. An output that was cut off, or is being written, is not seen. */
int thalweg_reader_open(thalweg_reader **reader, const char *path);

void thalweg_reader_close(thalweg_reader *reader);

/* What is compared before values are handed over, from the next read on. "compared", as without this call: what process groups in
 * subfiles say of themselves with the index. "checked": also the checksum of every block that is read from; whole blocks are read
 * then. "unchecked": nothing, to save what a damaged file still holds. */
int thalweg_reader_set_reads(thalweg_reader *reader, const char *reads);

/* How many blocks were read without a checksum although "checked" asks for it: other libraries write none. */
int thalweg_reader_blocks_without_checksum(thalweg_reader *reader, uint64_t *blocks);

typedef struct thalweg_file_info {
    uint64_t steps;      /* number of steps: one more than the last one */
    int finished;        /* closed for good: no step will come */
    uint64_t torn_bytes; /* behind the last complete step: an output that was cut off, or is being written */
    size_t variables;
    size_t attributes;
    size_t groups;
} thalweg_file_info;

int thalweg_reader_info(thalweg_reader *reader, thalweg_file_info *info);

/* Names, in the order of the file; NULL beyond the last. Valid until the reader is closed or advanced. */
const char *thalweg_reader_variable_name(thalweg_reader *reader, size_t at);
const char *thalweg_reader_attribute_name(thalweg_reader *reader, size_t at);
const char *thalweg_reader_group_name(thalweg_reader *reader, size_t at);

typedef enum thalweg_kind {
    THALWEG_SCALAR = 0,      /* one value or text */
    THALWEG_LOCAL_VALUE = 1, /* one value per writer; reads as an array of one dimension */
    THALWEG_GLOBAL = 2,      /* blocks of one array */
    THALWEG_LOCAL = 3        /* arrays that have nothing to do with each other */
} thalweg_kind;

typedef struct thalweg_variable {
    const char *name, *group;
    thalweg_type type;
    thalweg_kind kind;
    size_t ndim;
    const uint64_t *shape; /* in the first step; of block 0 for local arrays */
    int shape_changes;     /* other steps or blocks have other shapes */
    uint64_t nsteps;
    const uint64_t *steps; /* in which it was written, rising */
    uint64_t blocks;       /* over all steps */
    const char *transform; /* NULL for none */
} thalweg_variable;

/* What the file says of a variable; valid until the reader is closed or advanced. */
int thalweg_reader_variable(thalweg_reader *reader, const char *name, const thalweg_variable **variable);

/* In all that follows a step below 0 counts from the end of the variable's steps: -1 is the last one. */

/* The shape at a step; `capacity` numbers fit at `shape`. */
int thalweg_reader_shape(thalweg_reader *reader, const char *name, int64_t step, size_t capacity, uint64_t *shape, size_t *ndim);

/* What is recorded of values. Not finite numbers are left out. */
typedef struct thalweg_summary {
    uint64_t blocks, elements;
    int has_bounds;
    double min, max;              /* of complex numbers: of their magnitudes */
    unsigned char min_bytes[16];  /* in the variable's type; not of complex numbers */
    unsigned char max_bytes[16];
    int has_mean;
    double mean, deviation;
} thalweg_summary;

/* Characteristics of `count` steps from `step` on, joined; count UINT64_MAX for all. No value is read. */
int thalweg_reader_summary(thalweg_reader *reader, const char *name, int64_t step, uint64_t count, thalweg_summary *summary);

typedef struct thalweg_block {
    size_t ndim;
    const uint64_t *offset, *count;
    int64_t subfile; /* -1 for the file itself */
    thalweg_summary summary;
} thalweg_block;

typedef struct thalweg_blocks {
    size_t count;
    const thalweg_block *block;
} thalweg_blocks;

/* The blocks of a step, in the order they were written; to be freed. */
int thalweg_reader_blocks(thalweg_reader *reader, const char *name, int64_t step, thalweg_blocks **blocks);
void thalweg_blocks_free(thalweg_blocks *blocks);

typedef struct thalweg_attribute {
    const char *name;
    thalweg_type type;        /* THALWEG_STRING also for several texts */
    size_t count;
    const void *values;       /* of numbers: one behind the other */
    const char *const *texts; /* of texts: each ends with a zero byte */
    const char *variable;     /* the scalar that it has its value of; NULL for none */
} thalweg_attribute;

/* An attribute, as it was written last; valid until the reader is closed or advanced. */
int thalweg_reader_attribute(thalweg_reader *reader, const char *name, const thalweg_attribute **attribute);

typedef enum thalweg_selection_kind {
    THALWEG_SELECT_ALL = 0, /* the global array; block 0 of a local one; the scalar */
    THALWEG_SELECT_BOX = 1,
    THALWEG_SELECT_POINTS = 2,
    THALWEG_SELECT_BLOCK = 3
} thalweg_selection_kind;

typedef struct thalweg_selection {
    thalweg_selection_kind kind;
    size_t ndim;
    const uint64_t *offset, *count; /* of the box */
    uint64_t npoints;
    const uint64_t *points;         /* ndim numbers each */
    uint64_t block;                 /* number within the step */
} thalweg_selection;

/* What is to be read, and where to. */
typedef struct thalweg_request {
    const char *name;
    int check_type;                     /* whether `type` is to be the variable's */
    thalweg_type type;
    int64_t step;
    uint64_t steps;                     /* so many steps one behind the other; 0 is 1 */
    const thalweg_selection *selection; /* NULL: all */
    const thalweg_memory *memory;       /* NULL: the elements come one behind the other */
    void *data;
    uint64_t bytes;                     /* of the memory at `data` */
} thalweg_request;

/* Bytes of memory that a request needs; its `data` and `bytes` may be 0. */
int thalweg_get_bytes(thalweg_reader *reader, const thalweg_request *request, uint64_t *bytes);

/* Reads; not collective. Elements that no block covers stay as they are. A text gets a zero byte behind it where there is room; several
 * steps of texts come one behind the other without. */
int thalweg_get(thalweg_reader *reader, const thalweg_request *request);

/* As thalweg_get, for one step. */
int thalweg_read(thalweg_reader *reader, const char *name, int64_t step, const thalweg_selection *selection, void *data,
                 uint64_t bytes);

/* Notes a request; its memory is filled by thalweg_perform, which reads all that was noted together. The request is checked here, and
 * copied; after a failed perform nothing is noted any more. */
int thalweg_get_deferred(thalweg_reader *reader, const thalweg_request *request);
int thalweg_perform(thalweg_reader *reader);

/* ---- Following a file that is being written ---- */

/* Waits `timeout` seconds for the file and its first step; below 0: for ever. THALWEG_TIMEOUT or THALWEG_NOT_FOUND where it has not come. */
int thalweg_reader_follow(thalweg_reader **reader, const char *path, double timeout);

/* Goes to the next step, or to the newest one where `to_last` is not 0, waiting so many seconds. THALWEG_NOT_READY: none has come, the
 * writer is still there; THALWEG_END_OF_STREAM: none will come; THALWEG_PEER_LOST: the writer died. The reader stays at its step then. */
int thalweg_reader_advance(thalweg_reader *reader, int to_last, double timeout);

/* The step that a following reader is at. */
uint64_t thalweg_reader_step(thalweg_reader *reader);

/* ---- Files by their bytes ----
 *
 * Any file, through the mounts of the process (docs/guide/mounts.md); a path under no mount is a plain file. Calls on one file may come
 * from many threads at once. Others see what was written as docs/consistency.md says: at the latest when the file is closed. */

typedef struct thalweg_file thalweg_file;

typedef enum thalweg_file_flags {
    THALWEG_FILE_READ = 1,
    THALWEG_FILE_WRITE = 2,     /* what was written can be read back, too */
    THALWEG_FILE_CREATE = 4,    /* where it is not there */
    THALWEG_FILE_EXCLUSIVE = 8, /* with CREATE: THALWEG_ALREADY_EXISTS where it is there */
    THALWEG_FILE_TRUNCATE = 16  /* bytes that are there go */
} thalweg_file_flags;

/* Opens a file. `writer` tells the writers of one file apart: its rank in an MPI program, 0 where there is one; of bytes that two
 * writers wrote with nothing ordering them, those of the greater stay. */
int thalweg_file_open(thalweg_file **file, const char *path, int flags, uint32_t writer);

/* Reads from byte `offset` as much as there is; `*got` says how much. Where `got` is NULL, fewer bytes are THALWEG_TORN. */
int thalweg_file_read(thalweg_file *file, void *data, uint64_t bytes, uint64_t offset, uint64_t *got);

/* Collective where ranks opened the file together (thalweg_file_open_mpi), else as thalweg_file_read: every rank calls it, each with memory
 * and an offset of its own, and 0 bytes where it needs none. All ranks get the same status, but for THALWEG_TORN where `got` is NULL. */
int thalweg_file_read_all(thalweg_file *file, void *data, uint64_t bytes, uint64_t offset, uint64_t *got);

/* Writes all bytes from byte `offset`; a gap before them reads as zeros. */
int thalweg_file_write(thalweg_file *file, const void *data, uint64_t bytes, uint64_t offset);

int thalweg_file_length(thalweg_file *file, uint64_t *length);
int thalweg_file_truncate(thalweg_file *file, uint64_t length);

/* What was written is on the device, and seen by others. */
int thalweg_file_sync(thalweg_file *file);

/* What was written is seen by others. The file is given back, also where this fails: then look whether the bytes are there. */
int thalweg_file_close(thalweg_file *file);

typedef struct thalweg_file_about {
    int is_folder;
    uint32_t mode;     /* permission bits */
    uint32_t uid;
    uint32_t gid;
    uint64_t length;
    uint64_t identity; /* another file of the same name has another one */
    int64_t mtime;     /* seconds since 1970 of the last write; 0 where nobody keeps it */
    uint32_t mtime_nanoseconds;
} thalweg_file_about;

int thalweg_file_stat(const char *path, thalweg_file_about *about);

/* Removes a file or an empty folder. */
int thalweg_file_unlink(const char *path);
/* Within one mount. */
int thalweg_file_rename(const char *from, const char *to);
/* And those above it. */
int thalweg_file_make_folder(const char *path);

/* The system's number (errno) for this thread's last failure of a thalweg_file_ call, as the manual pages of open, read and the like have it. */
int thalweg_last_errno(void);

#ifdef __cplusplus
}
#endif

#endif

/* ---- With MPI ----
 *
 * There where <mpi.h> is found, unless _NOMPI is defined; or where it was included before. */
#if !defined(_NOMPI) && !defined(MPI_VERSION)
#if defined(__has_include)
#if __has_include(<mpi.h>)
#include <mpi.h>
#endif
#endif
#endif

#if defined(MPI_VERSION) && !defined(THALWEG_H_MPI)
#define THALWEG_H_MPI
#include "thalweg_of_mpi.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Collective over `comm`, as those without _mpi are for one process. The communicator is duplicated. All ranks get the same status; the
 * one that failed has the cause. Outputs opened without _mpi take the ranks of their session. */
int thalweg_session_open_mpi(thalweg_session **session, const char *config, MPI_Comm comm);
THALWEG_OF_MPI_CALL(int, thalweg_session_open_mpi, (thalweg_session **session, const char *config, MPI_Comm comm),
                    (session, config, comm))
int thalweg_session_open_text_mpi(thalweg_session **session, const char *xml, const char *name, MPI_Comm comm);
THALWEG_OF_MPI_CALL(int, thalweg_session_open_text_mpi,
                    (thalweg_session **session, const char *xml, const char *name, MPI_Comm comm),
                    (session, xml, name, comm))
int thalweg_output_open_mpi(thalweg_output **output, thalweg_session *session, const char *group, const char *path,
                            thalweg_mode mode, MPI_Comm comm);
THALWEG_OF_MPI_CALL(int, thalweg_output_open_mpi,
                    (thalweg_output **output, thalweg_session *session, const char *group, const char *path,
                     thalweg_mode mode, MPI_Comm comm),
                    (output, session, group, path, mode, comm))
int thalweg_output_open_after_mpi(thalweg_output **output, thalweg_session *session, const char *group, const char *path,
                                  uint64_t step, MPI_Comm comm);
THALWEG_OF_MPI_CALL(int, thalweg_output_open_after_mpi,
                    (thalweg_output **output, thalweg_session *session, const char *group, const char *path,
                     uint64_t step, MPI_Comm comm),
                    (output, session, group, path, step, comm))
int thalweg_reader_open_mpi(thalweg_reader **reader, const char *path, MPI_Comm comm);
THALWEG_OF_MPI_CALL(int, thalweg_reader_open_mpi, (thalweg_reader **reader, const char *path, MPI_Comm comm),
                    (reader, path, comm))

/* All ranks are at the same step, thalweg_reader_advance is collective. */
int thalweg_reader_follow_mpi(thalweg_reader **reader, const char *path, double timeout, MPI_Comm comm);
THALWEG_OF_MPI_CALL(int, thalweg_reader_follow_mpi,
                    (thalweg_reader **reader, const char *path, double timeout, MPI_Comm comm),
                    (reader, path, timeout, comm))

/* Opens a file for reading, all ranks together: the index of a `container` is then read once, not by every rank. What any of them closed
 * before is seen. Where the index is `distributed` each rank holds a part of it: thalweg_file_read_all reads anything, and
 * thalweg_file_read, which each rank calls alone, is THALWEG_NOT_READY for bytes that another rank knows of and that were not read
 * together before. All ranks close it. */
int thalweg_file_open_mpi(thalweg_file **file, const char *path, MPI_Comm comm);
THALWEG_OF_MPI_CALL(int, thalweg_file_open_mpi, (thalweg_file **file, const char *path, MPI_Comm comm), (file, path, comm))

#ifdef __cplusplus
}
#endif

#endif
