/* thalweg.h: Thalweg from C, for new codes. Programs written for ADIOS 1.x take adios.h instead; both write the same files.
 *
 *   thalweg_session *session;
 *   thalweg_output *output;
 *   if (thalweg_session_open(&session, "heat.xml") || thalweg_output_open(&output, session, "heat", "heat.bp", THALWEG_WRITE) ||
 *       thalweg_write(output, "nx", &nx) || thalweg_write(output, "T", t) || thalweg_output_close(output))
 *       fprintf(stderr, "%s\n", thalweg_last_error()->text);
 *
 * Every call that can fail returns 0 or a thalweg_status; thalweg_last_error() gives the details. Dimensions are in elements, slowest
 * first; steps count from 0. Calls on one handle are serialized; calls on different handles run in parallel.
 * Guide: docs/guide/c-native.md. */
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
    THALWEG_IO = 1,                 /* an I/O error of no other kind */
    THALWEG_NOT_FOUND = 2,          /* no file, group, variable or step of that name */
    THALWEG_ALREADY_EXISTS = 3,
    THALWEG_PERMISSION_DENIED = 4,
    THALWEG_NO_SPACE = 5,
    THALWEG_NO_MEMORY = 6,          /* out of memory, or beyond the buffer limit */
    THALWEG_CORRUPT = 7,            /* invalid bytes in a file */
    THALWEG_TORN = 8,               /* a file ends in the middle of a record or value */
    THALWEG_OUT_OF_BOUNDS = 9,
    THALWEG_UNSUPPORTED = 10,
    THALWEG_CONFIG = 11,            /* the XML, a declaration or a parameter is wrong */
    THALWEG_INVALID_ARGUMENT = 12,
    THALWEG_PEER_LOST = 13,         /* another rank, or the writer of a followed file, died */
    THALWEG_TIMEOUT = 14,
    THALWEG_NOT_READY = 15,         /* the next step is not written yet */
    THALWEG_END_OF_STREAM = 16      /* the file is closed for good: no further step */
} thalweg_status;

/* Fields without a value are NULL or -1. */
typedef struct thalweg_error {
    thalweg_status status;
    const char *text;      /* the whole message for users: one line, and a second one with `safe` */
    const char *what;      /* operation and cause, without the place */
    int64_t rank;          /* where the failure occurred */
    const char *group;
    int64_t step;
    const char *variable;  /* or attribute */
    const char *object;    /* file or subfile */
    int64_t byte;          /* in that object */
    const char *safe;      /* data that are still intact */
    int64_t reported_by;   /* the rank that failed, if not this one */
} thalweg_error;

/* Messages that are not errors: a warning about the configuration, a failed storage target that was replaced. Without a handler, or
 * with NULL, each kind of message is one line on the standard error stream. THALWEG_LOG=off|warn|info|debug sets the level,
 * THALWEG_LOG_FILE names a file per rank. The handler is called from any thread, one call at a time; the text is valid until the
 * handler returns. The handler must not call functions of Thalweg. */
typedef enum thalweg_message_level {
    THALWEG_MESSAGE_WARNING = 1,
    THALWEG_MESSAGE_INFORMATION = 2,
    THALWEG_MESSAGE_DETAIL = 3
} thalweg_message_level;
typedef void (*thalweg_message_handler)(int level, const char *text, void *context);
void thalweg_set_message_handler(thalweg_message_handler handler, void *context);

/* The last failure of this thread; never NULL, valid until this thread's next failing call. */
const thalweg_error *thalweg_last_error(void);

/* A status as text, such as "not found". */
const char *thalweg_status_text(int status);

/* The library's version, such as "0.1.0". */
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

/* Bytes of one element; 0 for texts and invalid types. */
size_t thalweg_type_size(thalweg_type type);

/* ---- Sessions: from start to end of a program's output ---- */

typedef struct thalweg_session thalweg_session;

/* Opens a session with the groups and methods of an XML file; `config` NULL: with none. For one process; for MPI see the end of this
 * file. After a failure `*session` is NULL. */
int thalweg_session_open(thalweg_session **session, const char *config);

/* Like thalweg_session_open, with the XML as text; `name` (or NULL) appears in messages. */
int thalweg_session_open_text(thalweg_session **session, const char *xml, const char *name);

/* Collective: closes all files for good and frees the session, even after a failure. All outputs must be closed before. */
int thalweg_session_close(thalweg_session *session);

/* Like thalweg_session_close, but not collective: errors of other ranks are not reported. */
int thalweg_session_finish(thalweg_session *session);

/* Like thalweg_session_finish, for a program that failed: files get a full index of the closed steps but are not marked as finished, so
 * that followers learn that the writer failed. A program that exits with an open session does the same; its open outputs are
 * dropped. */
void thalweg_session_drop(thalweg_session *session);

/* Sets the buffer limit: memory for outputs of this session in this process. 0: no buffering; UINT64_MAX: no limit. */
int thalweg_session_set_buffer(thalweg_session *session, uint64_t bytes);

/* Mark the program's calculation phases and iterations between outputs, for methods that work in the background and for profiles. Not
 * collective. */
int thalweg_session_begin_calculation(thalweg_session *session);
int thalweg_session_end_calculation(thalweg_session *session);
int thalweg_session_end_iteration(thalweg_session *session);

/* ---- Groups, declared in code ---- */

typedef struct thalweg_group thalweg_group; /* lives as long as its session */

typedef enum thalweg_statistics {
    THALWEG_STATISTICS_OFF = 0,
    THALWEG_STATISTICS_MINMAX = 1,
    THALWEG_STATISTICS_FULL = 2,
    THALWEG_STATISTICS_DEFAULT = 3 /* all statistics; other libraries see minimum and maximum only */
} thalweg_statistics;

/* Declares a group, the same on every rank. */
int thalweg_group_declare(thalweg_group **group, thalweg_session *session, const char *name);

/* Finds a declared group (of the XML, for example) so that definitions can be added. */
int thalweg_group_find(thalweg_group **group, thalweg_session *session, const char *name);

/* Adds a method to the group. `parameters`: "key=value;key=value"; `base_path` is prepended to file names. Both may be NULL. */
int thalweg_group_method(thalweg_group *group, const char *method, const char *parameters, const char *base_path);

/* Sets the statistics recorded for the group's variables. Without this call: THALWEG_STATISTICS_DEFAULT. */
int thalweg_group_statistics(thalweg_group *group, thalweg_statistics statistics);

/* Names of variables and attributes may hold a path: "/fields/T", "/fields/T/units". */

/* Defines a variable of one value or one text. */
int thalweg_define_scalar(thalweg_group *group, const char *name, thalweg_type type);

/* Defines an array whose dimensions refer to the group's scalars: "rows,nx" of "ny,nx" at "first,0". `global` and `offset` are NULL or
 * empty for local arrays. */
int thalweg_define_array(thalweg_group *group, const char *name, thalweg_type type, const char *dimensions, const char *global,
                         const char *offset);

/* Defines a global array of numbers. Writes pass a box with the block's place, or none to write the whole array. `shape` NULL: each
 * box includes the shape. */
int thalweg_define_global(thalweg_group *group, const char *name, thalweg_type type, size_t ndim, const uint64_t *shape);

/* Defines a local array of `ndim` dimensions; the box of each write sets its extents. */
int thalweg_define_local(thalweg_group *group, const char *name, thalweg_type type, size_t ndim);

/* Sets the transform of a variable ("zlib:5"); NULL or empty: none. */
int thalweg_set_transform(thalweg_group *group, const char *variable, const char *transform);

/* Defines an attribute with `count` values of `type`. THALWEG_STRING: `values` is the text itself, `count` 1; THALWEG_STRINGS: pointers
 * to texts. */
int thalweg_define_attribute(thalweg_group *group, const char *name, thalweg_type type, size_t count, const void *values);

/* Defines an attribute whose value is that of a scalar when the step is closed. */
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

/* Collective: opens an output after step `step` of a file, for a run that continues from an earlier checkpoint. All later steps are
 * removed before this returns; if the open fails on any rank, no step is removed. */
int thalweg_output_open_after(thalweg_output **output, thalweg_session *session, const char *group, const char *path, uint64_t step);

/* The step of the output. */
uint64_t thalweg_output_step(thalweg_output *output);

/* Optional: announces the bytes that this rank will write, so that their buffer is allocated in one piece. */
int thalweg_output_reserve(thalweg_output *output, uint64_t bytes);

/* Where a block lies in the global array. */
typedef struct thalweg_box {
    size_t ndim;
    const uint64_t *shape;  /* of the global array; NULL: as defined, or a local array */
    const uint64_t *offset; /* NULL: zeros */
    const uint64_t *count;
} thalweg_box;

/* Memory selection of a block whose elements are not contiguous: a box in a larger array, such as one with ghost cells. `ndim` is that
 * of the block. */
typedef struct thalweg_memory {
    size_t ndim;
    const uint64_t *shape;  /* of the array in memory */
    const uint64_t *offset; /* of the block's first element in it */
} thalweg_memory;

/* A block to be written. Fields left 0 or NULL are not checked, or have their declared values. */
typedef struct thalweg_block_data {
    const void *data;
    uint64_t bytes;               /* of the memory at `data`, checked where not 0 */
    int check_type;               /* not 0: `type` must be the variable's type */
    thalweg_type type;
    const thalweg_box *box;       /* NULL: from the group's dimensions */
    const thalweg_memory *memory; /* NULL: contiguous elements */
    int deferred;                 /* 1: the memory stays unchanged until close and is not copied; or one of those below */
} thalweg_block_data;

/* `deferred`: `data` is memory of thalweg_alloc, which is committed (see thalweg_commit), or lent (see thalweg_lend). */
#define THALWEG_COMMITTED 2
#define THALWEG_LENT 3

/* Writes one block of a variable; not collective. Several writes of a step: different boxes of a global array, and all writes of a local
 * array, are separate blocks; for a scalar, a text or the same box, the last write counts. An array defined without extents needs a
 * box. The memory may be reused when this returns, unless the write is deferred. Scalars that an array's dimensions refer to are
 * written before the array. */
int thalweg_put(thalweg_output *output, const char *name, const thalweg_block_data *block);

/* thalweg_put for the common cases: extents from the group's dimensions or a box, texts ended by a zero byte. */
int thalweg_write(thalweg_output *output, const char *name, const void *data);
int thalweg_write_deferred(thalweg_output *output, const char *name, const void *data);
int thalweg_write_box(thalweg_output *output, const char *name, const thalweg_box *box, const void *data);

/* Memory of the library, which the program fills and commits: nothing is copied, also by a method with async=yes. At least `bytes` bytes,
 * at a multiple of 64: zeros, or values of an earlier block. It counts in the buffer limit; if that has no room, waits until outputs in
 * flight have ended (THALWEG_NO_MEMORY: none is, or there is none). Not collective. */
int thalweg_alloc(thalweg_session *session, uint64_t bytes, void **memory);

/* thalweg_write, or thalweg_write_box where `box` is not NULL, of a block whose values are in memory of thalweg_alloc, at least as long as
 * the block. On success the memory is the library's: do not use it again. Otherwise it is still the program's. Blocks below 256 KiB,
 * scalars and arrays with a transform are copied. */
int thalweg_commit(thalweg_output *output, const char *name, const thalweg_box *box, void *memory);

/* thalweg_write, or thalweg_write_box where `box` is not NULL, of memory of the program's own that stays unchanged until the output has
 * ended (thalweg_wait, thalweg_wait_all or thalweg_session_close that returns anything but THALWEG_TIMEOUT), and may be read meanwhile: nothing is copied. Blocks below 256 KiB,
 * scalars and arrays with a transform are copied. */
int thalweg_lend(thalweg_output *output, const char *name, const thalweg_box *box, const void *data);

/* Gives memory of thalweg_alloc back that is not committed; NULL is nothing. Also after the session's end. */
int thalweg_free(void *memory);

/* Collective: commits the step and frees the output, even after a failure. When this returns 0, the step is readable. */
int thalweg_output_close(thalweg_output *output);

/* Collective. Like thalweg_output_close; with the method's parameter async=yes it returns when the blocks are copied, and the output is
 * written in the background (docs/guide/async.md). Frees `output`. Returns 0 also if the output fails: thalweg_wait and thalweg_test
 * tell the failure. With async=yes, thalweg_output_close does the same, and failures are returned by the next open of the file, by
 * thalweg_wait_all or by thalweg_session_close, on all ranks. */
typedef struct thalweg_pending thalweg_pending;
int thalweg_output_start_close(thalweg_output *output, thalweg_pending **pending);

/* Not collective. Sets `*complete` to 1 if the output has ended; its status is returned. Returns at once. */
int thalweg_test(thalweg_pending *pending, int *complete);

/* Not collective. Waits until the output has ended, returns its status and frees `pending`. Call it before thalweg_session_close. */
int thalweg_wait(thalweg_pending *pending);

/* Calls `callback` once, when the output has ended, with its status, inside a later call of this process for the session; the failure
 * is not reported elsewhere then. Does not free `pending`. */
typedef void (*thalweg_completion)(int status, void *context);
int thalweg_on_completion(thalweg_pending *pending, thalweg_completion callback, void *context);

/* Frees `pending` without waiting: the output goes on. */
void thalweg_pending_drop(thalweg_pending *pending);

/* Collective: waits for all outputs of the session. Returns the first failure that was not reported before, on all ranks. */
int thalweg_wait_all(thalweg_session *session);

/* Moves messages of outputs in flight, and calls the callbacks of those that have ended. Not collective; returns at once. */
int thalweg_progress(thalweg_session *session);

/* The same for programs of adios.h: `fd` of adios_open, and the session of adios_init. */
int thalweg_adios_alloc(uint64_t bytes, void **memory);
int thalweg_adios_commit(int64_t fd, const char *name, void *memory);
int thalweg_adios_lend(int64_t fd, const char *name, const void *data);
int thalweg_adios_start_close(int64_t fd, thalweg_pending **pending);
int thalweg_adios_wait_all(void);
int thalweg_adios_progress(void);

/* ---- Steering a run (docs/guide/steering.md): a method with control=yes, and `thalweg control` ---- */

/* Sets `*wanted` to 1 if an output of `group` to `path` is wanted that the program is about to open, else to 0. `step` is the program's
 * number of the output, such as its time step; it grows from output to output. Not collective and without a message, but all ranks ask
 * alike and get the same answer. An output that is not wanted may be left out, or opened and closed: then nothing of it is written.
 * `variable` NULL: the output; else an array: whether an output that is opened next writes it. */
int thalweg_wanted(thalweg_session *session, const char *group, const char *path, uint64_t step, const char *variable, int *wanted);

/* Sets `*requested` to 1 if someone has asked that the program stops, else to 0; the same on all ranks after the same output. The library
 * ends no program. */
int thalweg_stop_requested(thalweg_session *session, int *requested);

/* The same for programs of adios.h. */
int thalweg_adios_wanted(const char *group, const char *path, uint64_t step, const char *variable, int *wanted);
int thalweg_adios_stop_requested(int *requested);

/* Collective, in place of close, on a rank that cannot continue: close fails on the other ranks and names this rank; their blocks stay
 * readable. `why` is the cause in the error. Frees the output. Returns the failure, never 0. */
int thalweg_output_abandon(thalweg_output *output, const char *why);

/* Frees the output without writing or communicating. Other ranks that close the output wait for this rank, at most ten minutes. */
void thalweg_output_drop(thalweg_output *output);

/* ---- Readers ---- */

typedef struct thalweg_reader thalweg_reader;

/* Opens a file; not collective. Steps that are incomplete or being written are not visible. */
int thalweg_reader_open(thalweg_reader **reader, const char *path);

void thalweg_reader_close(thalweg_reader *reader);

/* Sets the checks of later reads. "compared", the default: headers of process groups in subfiles must match the index. "checked": also
 * the checksum of every block read, for which whole blocks are read. "unchecked": no checks, to rescue values of a damaged file. */
int thalweg_reader_set_reads(thalweg_reader *reader, const char *reads);

/* Sets how many decimal digits later reads keep of the real and complex numbers of arrays; 0 is all. The relative error is below 10 to the
 * power of -digits (but for denormal numbers); numbers are rounded towards 0. Through a staging or other server fewer bytes come. */
int thalweg_reader_set_digits(thalweg_reader *reader, uint32_t digits);

/* Blocks without a checksum that "checked" reads have met; other libraries write no checksums. */
int thalweg_reader_blocks_without_checksum(thalweg_reader *reader, uint64_t *blocks);

typedef struct thalweg_file_info {
    uint64_t steps;      /* number of steps: the last step + 1 */
    int finished;        /* closed for good: no further step */
    uint64_t torn_bytes; /* bytes after the last complete step: an output that is incomplete or being written */
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
    THALWEG_LOCAL = 3        /* independent arrays */
} thalweg_kind;

typedef struct thalweg_variable {
    const char *name, *group;
    thalweg_type type;
    thalweg_kind kind;
    size_t ndim;
    const uint64_t *shape; /* in the first step; of block 0 for local arrays */
    int shape_changes;     /* other steps or blocks have other shapes */
    uint64_t nsteps;
    const uint64_t *steps; /* in which the variable was written, ascending */
    uint64_t blocks;       /* over all steps */
    const char *transform; /* NULL for none */
} thalweg_variable;

/* Describes a variable; valid until the reader is closed or advanced. */
int thalweg_reader_variable(thalweg_reader *reader, const char *name, const thalweg_variable **variable);

/* Below, a negative step counts from the end of the variable's steps: -1 is the last step. */

/* The shape at a step; `shape` has room for `capacity` numbers. */
int thalweg_reader_shape(thalweg_reader *reader, const char *name, int64_t step, size_t capacity, uint64_t *shape, size_t *ndim);

/* Recorded statistics of values; NaN and infinities are not included. */
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

/* The blocks of a step, in the order they were written; free them with thalweg_blocks_free. */
int thalweg_reader_blocks(thalweg_reader *reader, const char *name, int64_t step, thalweg_blocks **blocks);
void thalweg_blocks_free(thalweg_blocks *blocks);

typedef struct thalweg_attribute {
    const char *name;
    thalweg_type type;        /* THALWEG_STRING also for several texts */
    size_t count;
    const void *values;       /* numbers, contiguous */
    const char *const *texts; /* texts, each ended by a zero byte */
    const char *variable;     /* the scalar that gives the value; NULL: none */
} thalweg_attribute;

/* The last written value of an attribute; valid until the reader is closed or advanced. */
int thalweg_reader_attribute(thalweg_reader *reader, const char *name, const thalweg_attribute **attribute);

typedef enum thalweg_selection_kind {
    THALWEG_SELECT_ALL = 0, /* the global array; block 0 of a local one; the scalar */
    THALWEG_SELECT_BOX = 1,
    THALWEG_SELECT_POINTS = 2,
    THALWEG_SELECT_BLOCK = 3,
    THALWEG_SELECT_STRIDED = 4 /* a box, and `stride` */
} thalweg_selection_kind;

typedef struct thalweg_selection {
    thalweg_selection_kind kind;
    size_t ndim;
    const uint64_t *offset, *count; /* of the box */
    uint64_t npoints;
    const uint64_t *points;         /* ndim numbers each */
    uint64_t block;                 /* number within the step */
    const uint64_t *stride;         /* THALWEG_SELECT_STRIDED: every so many elements of the box along each dimension */
} thalweg_selection;

/* A read request. */
typedef struct thalweg_request {
    const char *name;
    int check_type;                     /* not 0: `type` must be the variable's type */
    thalweg_type type;
    int64_t step;
    uint64_t steps;                     /* number of consecutive steps; 0 is 1 */
    const thalweg_selection *selection; /* NULL: all */
    const thalweg_memory *memory;       /* NULL: contiguous elements */
    void *data;
    uint64_t bytes;                     /* of the memory at `data` */
} thalweg_request;

/* Bytes of memory that a request needs; the request's `data` and `bytes` may be 0. */
int thalweg_get_bytes(thalweg_reader *reader, const thalweg_request *request, uint64_t *bytes);

/* Reads; not collective. Elements covered by no block keep their value in memory. A text is followed by a zero byte if there is room;
 * texts of several steps are contiguous, without zero bytes between them. */
int thalweg_get(thalweg_reader *reader, const thalweg_request *request);

/* Like thalweg_get, for one step. */
int thalweg_read(thalweg_reader *reader, const char *name, int64_t step, const thalweg_selection *selection, void *data,
                 uint64_t bytes);

/* Adds a request to the reader's batch; thalweg_perform reads the batch and fills the memory of all requests. The request is checked
 * and copied here. After thalweg_perform, even a failed one, the batch is empty. */
int thalweg_get_deferred(thalweg_reader *reader, const thalweg_request *request);
int thalweg_perform(thalweg_reader *reader);

/* ---- Following a file that is being written ---- */

/* Opens a file that is being written: waits `timeout` seconds (negative: for ever) for the file and its first step. THALWEG_NOT_FOUND or
 * THALWEG_TIMEOUT: neither appeared in time. */
int thalweg_reader_follow(thalweg_reader **reader, const char *path, double timeout);

/* Goes to the next step, or if `to_last` is not 0 to the newest step, waiting `timeout` seconds. On these errors the reader stays at its
 * step: THALWEG_NOT_READY: no new step yet, the writer is alive; THALWEG_END_OF_STREAM: the file was closed for good;
 * THALWEG_PEER_LOST: the writer died. */
int thalweg_reader_advance(thalweg_reader *reader, int to_last, double timeout);

/* The current step of a following reader. */
uint64_t thalweg_reader_step(thalweg_reader *reader);

/* ---- Files by their bytes ----
 *
 * Any file, through the mounts of the process (docs/guide/mounts.md); a path under no mount is a plain file. Several threads may call on
 * one file at the same time. Written bytes become visible to other processes as docs/consistency.md says, at the latest at close. */

typedef struct thalweg_file thalweg_file;

typedef enum thalweg_file_flags {
    THALWEG_FILE_READ = 1,
    THALWEG_FILE_WRITE = 2,     /* also allows reads */
    THALWEG_FILE_CREATE = 4,    /* creates a missing file */
    THALWEG_FILE_EXCLUSIVE = 8, /* with CREATE: an existing file is THALWEG_ALREADY_EXISTS */
    THALWEG_FILE_TRUNCATE = 16  /* removes the file's bytes */
} thalweg_file_flags;

/* Opens a file. `writer` identifies this writer among the writers of the file: the rank in an MPI program, 0 for a single writer. If two
 * writers write the same bytes in no defined order, those of the greater `writer` stay. */
int thalweg_file_open(thalweg_file **file, const char *path, int flags, uint32_t writer);

/* Reads up to `bytes` bytes from byte `offset`; `*got` is the number read. With `got` NULL, a file that ends earlier is THALWEG_TORN. */
int thalweg_file_read(thalweg_file *file, void *data, uint64_t bytes, uint64_t offset, uint64_t *got);

/* Collective for files of thalweg_file_open_mpi, else thalweg_file_read. Every rank calls this with its own memory and offset; a rank
 * without a read passes 0 bytes. All ranks get the same status, except THALWEG_TORN with `got` NULL. */
int thalweg_file_read_all(thalweg_file *file, void *data, uint64_t bytes, uint64_t offset, uint64_t *got);

/* Writes all bytes from byte `offset`; a gap before them reads as zeros. */
int thalweg_file_write(thalweg_file *file, const void *data, uint64_t bytes, uint64_t offset);

int thalweg_file_length(thalweg_file *file, uint64_t *length);
int thalweg_file_truncate(thalweg_file *file, uint64_t length);

/* Flushes written bytes to the device and makes them visible to other processes. */
int thalweg_file_sync(thalweg_file *file);

/* Makes written bytes visible to other processes and frees the file, even after a failure: then written bytes may be missing. */
int thalweg_file_close(thalweg_file *file);

typedef struct thalweg_file_about {
    int is_folder;
    uint32_t mode;     /* permission bits */
    uint32_t uid;
    uint32_t gid;
    uint64_t length;
    uint64_t identity; /* differs between files that had the same name one after the other */
    int64_t mtime;     /* last write, seconds since 1970; 0: not recorded */
    uint32_t mtime_nanoseconds;
} thalweg_file_about;

int thalweg_file_stat(const char *path, thalweg_file_about *about);

/* Removes a file or an empty folder. */
int thalweg_file_unlink(const char *path);
/* Renames a file or folder within one mount. */
int thalweg_file_rename(const char *from, const char *to);
/* Makes a folder and missing folders above it. */
int thalweg_file_make_folder(const char *path);

/* The errno of this thread's last failed thalweg_file_ call, as in the manual pages of open, read and other calls. */
int thalweg_last_errno(void);

/* ---- Output windows: output in the background ----
 *
 *   thalweg_window window;
 *   thalweg_window_start(file, &window, 0, total, NULL);                   every rank, in the same order; waits for nobody
 *   thalweg_window_write(file, window, offset, data, bytes);               copies and returns; any rank, any bytes of the window
 *   thalweg_window_end(file, window);                                      this rank writes nothing more
 *   ... compute, and now and then: thalweg_windows_progress(file);
 *   thalweg_window_wait(file, window);                                     all bytes of all ranks are written
 *
 * Some ranks, the owners, gather whole stripes and write them, inside calls of the program: no thread is started, and MPI may be
 * initialised for one thread. Charm++'s CkIO calls a window a session. Guide: docs/guide/windows.md. */
typedef struct thalweg_windows thalweg_windows; /* a file open for output windows */
typedef uint64_t thalweg_window;

/* Opens a file for one process; for several see thalweg_windows_open_processes, and with MPI the end of this file.
 * keep: 0 replaces the file, else its bytes stay. memory: most bytes that this process holds for the file, at least 64 KiB; 0: 256 MiB. */
int thalweg_windows_open(thalweg_windows **file, const char *path, int keep, uint64_t memory);

/* Collective: the same for `ranks` processes of one machine, with MPI or without, which meet in `folder`: an existing folder that only
 * this user may write to. within: longest wait for the others, in seconds; then THALWEG_TIMEOUT. */
int thalweg_windows_open_processes(thalweg_windows **file, const char *path, int keep, uint64_t memory, const char *folder,
                                   uint32_t rank, uint32_t ranks, double within);

/* The same on all ranks, except the bytes to commit. A field that is 0 has its default. */
typedef struct thalweg_window_options {
    const uint32_t *owners;  /* the owners: these ranks, */
    size_t owner_count;
    uint32_t active;         /* or so many ranks, */
    uint32_t base;           /* from this one, */
    uint32_t skip;           /* at this distance (1); default: one rank of each node */
    uint64_t owner_stripe;   /* consecutive bytes of one owner; default: one long stripe for each owner */
    uint64_t write_stripe;   /* bytes that an owner gathers before it writes: 64 MiB */
    uint64_t fraction;       /* most bytes of one write: 16 MiB */
    uint64_t alignment;      /* long stripes begin at multiples of this: 1 MiB */
    double time_limit;       /* seconds without any event after which the window fails: 600 */
    int durable;             /* bytes are on the device when the window is complete */
    uint64_t commit_offset;  /* rank 0's: bytes that are written when all others are */
    const void *commit;      /* copied by thalweg_window_start */
    uint64_t commit_bytes;
} thalweg_window_options;

/* Starts a window of `length` bytes from byte `offset` of the file. Windows may be under way at the same time. options: NULL for the
 * defaults. */
int thalweg_window_start(thalweg_windows *file, thalweg_window *window, uint64_t offset, uint64_t length,
                         const thalweg_window_options *options);

/* Copies bytes; returns at once while there is memory, else serves other ranks until there is. */
int thalweg_window_write(thalweg_windows *file, thalweg_window window, uint64_t offset, const void *data, uint64_t bytes);

/* The same without waiting: `*taken` of the bytes were copied, the first ones; 0: call again later. */
int thalweg_window_try_write(thalweg_windows *file, thalweg_window window, uint64_t offset, const void *data, uint64_t bytes,
                             uint64_t *taken);

int thalweg_window_end(thalweg_windows *file, thalweg_window window);

/* Whether the window is complete: its status is then returned, the same on all ranks, and the window is gone. Missing or repeated bytes
 * are THALWEG_INVALID_ARGUMENT; thalweg_last_error()->byte is the first one. */
int thalweg_window_test(thalweg_windows *file, thalweg_window window, int *complete);

/* Waits until the window is complete; its status, as thalweg_window_test. */
int thalweg_window_wait(thalweg_windows *file, thalweg_window window);

/* Calls `callback` with the window's status when it is complete, inside a later call of this process on the file; the callback may make
 * further calls. The window is then gone. */
typedef void (*thalweg_window_callback)(thalweg_window window, int status, void *context);
int thalweg_window_on_complete(thalweg_windows *file, thalweg_window window, thalweg_window_callback callback, void *context);

/* Serves other ranks and writes at most one fraction. */
int thalweg_windows_progress(thalweg_windows *file);

/* Collective: completes all windows and frees the file, even after a failure. The same status on all ranks. */
int thalweg_windows_close(thalweg_windows *file);

/* Frees the file without waiting for other ranks, for programs that failed: windows under way are lost. NULL is allowed. */
void thalweg_windows_drop(thalweg_windows *file);

/* ---- Input windows: input in the background ----
 *
 *   thalweg_input_start(file, &window, 0, total, NULL);                    every rank, in the same order; waits for nobody
 *   thalweg_input_read(file, window, offset, bytes, &request);             asks and returns; any rank, any bytes of the window
 *   ... compute, and now and then: thalweg_input_progress(file);
 *   thalweg_input_wait(file, request, data, bytes);                        the bytes are in `data`
 *   thalweg_input_finish(file, window);                                    all ranks have what they want
 *
 * The owners read the window ahead, inside calls of the program, and send other ranks what they ask for. Guide: docs/guide/windows.md. */
typedef struct thalweg_input thalweg_input; /* a file open for input windows */
typedef uint64_t thalweg_input_window;
typedef uint64_t thalweg_input_request;

/* Opens a file for one process. memory: most bytes that this process holds as an owner, at least 64 KiB; 0: 256 MiB. */
int thalweg_input_open(thalweg_input **file, const char *path, uint64_t memory);

/* Collective: the same for processes of one machine, as thalweg_windows_open_processes. */
int thalweg_input_open_processes(thalweg_input **file, const char *path, uint64_t memory, const char *folder, uint32_t rank,
                                 uint32_t ranks, double within);

/* Bytes of the file when it was opened. */
uint64_t thalweg_input_length(thalweg_input *file);

/* Starts a window of `length` bytes from byte `offset` of the file. Options about writing have no meaning. */
int thalweg_input_start(thalweg_input *file, thalweg_input_window *window, uint64_t offset, uint64_t length,
                        const thalweg_window_options *options);

/* Asks for bytes of the window, any number of times. Returns at once. */
int thalweg_input_read(thalweg_input *file, thalweg_input_window window, uint64_t offset, uint64_t bytes,
                       thalweg_input_request *request);

/* Whether the bytes of a request are there: they are then copied to `data`, and the request is gone; so it is after a failure, which is
 * returned. `bytes` as they were asked for. */
int thalweg_input_test(thalweg_input *file, thalweg_input_request request, void *data, uint64_t bytes, int *complete);

/* Waits for them. */
int thalweg_input_wait(thalweg_input *file, thalweg_input_request request, void *data, uint64_t bytes);

/* Calls `callback` with the request's status and bytes, inside a later call of this process on the file; `data` is the library's, and valid
 * until the callback returns. The request is then gone. */
typedef void (*thalweg_input_callback)(thalweg_input_request request, int status, const void *data, uint64_t bytes, void *context);
int thalweg_input_on_read(thalweg_input *file, thalweg_input_request request, thalweg_input_callback callback, void *context);

/* This rank reads nothing more from the window. Returns at once. */
int thalweg_input_end(thalweg_input *file, thalweg_input_window window);

/* The same, and serves other ranks until all have ended their parts. Before a collective call of the program's own (a barrier, a
 * reduction): else another rank may wait there for bytes that this one owns, and both wait until the time limit. */
int thalweg_input_finish(thalweg_input *file, thalweg_input_window window);

/* Serves other ranks and reads at most one fraction. */
int thalweg_input_progress(thalweg_input *file);

/* Collective: frees the file, even after a failure, when all ranks have ended their parts of all windows. */
int thalweg_input_close(thalweg_input *file);

/* Frees the file without waiting for other ranks. NULL is allowed. */
void thalweg_input_drop(thalweg_input *file);

/* ---- Functions on the way: services of a staging server, and of `thalweg copy` ---- */

/* A block that a function of yours is given. Valid until it returns. */
typedef struct thalweg_block_values {
    const char *variable;  /* full name */
    int64_t step;          /* of the file, from 0 */
    uint64_t number;       /* of the block, among those of its variable in the step */
    int type;              /* thalweg_type */
    uint32_t dimensions;   /* 0 for a single value */
    const uint64_t *shape; /* of the global array; NULL for local arrays and single values */
    const uint64_t *offset; /* first element there; NULL for the same */
    const uint64_t *count; /* extents; NULL for a single value */
    const void *values;    /* aligned to 16 bytes */
    uint64_t bytes;
} thalweg_block_values;

/* What the function fills. */
typedef struct thalweg_function_result {
    int type;              /* thalweg_type */
    uint32_t dimensions;
    const uint64_t *count; /* NULL for a single value */
    void *values;          /* zeros; aligned to 16 bytes */
    uint64_t bytes;
    char *message;         /* room for the reason of a failure */
    size_t message_size;
} thalweg_function_result;

/* A function that <function library="..." name="..."/> in the XML names: exported under that name. It gets one block of each variable of
 * `var`, all with the same box, and returns 0, or anything else for a failure. It is called in a process of its own, one call at a
 * time, and keeps its global variables between calls; after a failure it begins in a new process. Guide: docs/guide/services.md. */
typedef int (*thalweg_function)(const thalweg_block_values *blocks, size_t number, thalweg_function_result *result);

#ifdef __cplusplus
}
#endif

#endif

/* ---- With MPI ----
 *
 * Declared if <mpi.h> was included before or is found, unless _NOMPI is defined. */
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

/* Collective over `comm`, otherwise like the functions without _mpi. The communicator is duplicated. All ranks get the same status; the
 * rank that failed has the cause. Outputs opened without _mpi belong to the ranks of their session. */
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

/* Collective; so is thalweg_reader_advance: all ranks are at the same step. */
int thalweg_reader_follow_mpi(thalweg_reader **reader, const char *path, double timeout, MPI_Comm comm);
THALWEG_OF_MPI_CALL(int, thalweg_reader_follow_mpi,
                    (thalweg_reader **reader, const char *path, double timeout, MPI_Comm comm),
                    (reader, path, timeout, comm))

/* Collective: opens a file for reading. The index of a `container` is read once, not by every rank. Bytes that any rank closed before are
 * visible. With a `distributed` index each rank holds a part of it: thalweg_file_read_all reads any bytes; thalweg_file_read, which
 * is not collective, returns THALWEG_NOT_READY for bytes whose index entry only another rank has. All ranks close the file. */
int thalweg_file_open_mpi(thalweg_file **file, const char *path, MPI_Comm comm);
THALWEG_OF_MPI_CALL(int, thalweg_file_open_mpi, (thalweg_file **file, const char *path, MPI_Comm comm), (file, path, comm))

int thalweg_windows_open_mpi(thalweg_windows **file, const char *path, int keep, uint64_t memory, MPI_Comm comm);
THALWEG_OF_MPI_CALL(int, thalweg_windows_open_mpi,
                    (thalweg_windows **file, const char *path, int keep, uint64_t memory, MPI_Comm comm),
                    (file, path, keep, memory, comm))
int thalweg_input_open_mpi(thalweg_input **file, const char *path, uint64_t memory, MPI_Comm comm);
THALWEG_OF_MPI_CALL(int, thalweg_input_open_mpi, (thalweg_input **file, const char *path, uint64_t memory, MPI_Comm comm),
                    (file, path, memory, comm))

#ifdef __cplusplus
}
#endif

#endif
