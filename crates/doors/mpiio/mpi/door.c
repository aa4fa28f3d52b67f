/* The functions of MPI-IO: files below mounts are ours, all others are passed to the MPI library.
 *
 * Both names of every function are defined: Fortran's of Open MPI, and MPICH's mpi_f08, call PMPI_File_x. The next function of the same
 * name does what is not ours, so that tools that stand between a program and MPI (Darshan) work before and behind this library.
 *
 * The handle that a program holds is a file of the MPI itself, opened on /dev/null by this rank alone: the *carrier*. Conversions for
 * Fortran and error handlers need no code here. Our file is found by its carrier.
 */
#include <dlfcn.h>
#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "datatype.h"
#include "thalweg_mpi_spawn.h"
#include "thalweg_mpiio.h"

#define EXPORT __attribute__((visibility("default")))

typedef struct File {
    MPI_File carrier;
    ThalwegMpiioFile *core;
    MPI_Group group;
    char *path;         /* as the program gave it */
    int mode;           /* amode */
    MPI_Offset displacement; /* of the view */
    MPI_Datatype etype, filetype;
    int representation; /* of the view */
    const char *representation_name;
    int is_split; /* between a begin and its end: one of the letters below */
    MPI_Status split;
    int is_profiled;
    struct File *next;
} File;

/* Open files. */

static pthread_rwlock_t files_lock = PTHREAD_RWLOCK_INITIALIZER;
static File *files;
static atomic_int files_count;

static File *find(MPI_File carrier) {
    File *file = NULL;
    if (atomic_load_explicit(&files_count, memory_order_acquire) == 0) return NULL;
    pthread_rwlock_rdlock(&files_lock);
    for (file = files; file && file->carrier != carrier; file = file->next) {}
    pthread_rwlock_unlock(&files_lock);
    return file;
}

static void keep(File *file) {
    pthread_rwlock_wrlock(&files_lock);
    file->next = files;
    files = file;
    atomic_fetch_add_explicit(&files_count, 1, memory_order_release);
    pthread_rwlock_unlock(&files_lock);
}

static void take_out(File *file) {
    pthread_rwlock_wrlock(&files_lock);
    for (File **at = &files; *at; at = &(*at)->next)
        if (*at == file) {
            *at = file->next;
            atomic_fetch_sub_explicit(&files_count, 1, memory_order_release);
            break;
        }
    pthread_rwlock_unlock(&files_lock);
}

/* The functions behind ours. */

static void *next_function(const char *name) {
    void *found = dlsym(RTLD_NEXT, name);
    if (!found) {
        fprintf(stderr, "thalweg: there is no %s behind this library: it must be found before the MPI library\n", name);
        abort();
    }
    return found;
}

#define NEXT(name, params) ((int(*) params)next_function(name))

/* Tells the error handler of MPI_FILE_NULL, that of files which cannot be opened. */
static void raise_at_null(int code) {
#ifdef OPEN_MPI
    /* Open MPI calls it for files alone: a carrier is opened for that. */
    static int (*carry)(MPI_Comm, const char *, int, MPI_Info, MPI_File *);
    static int (*close_carrier)(MPI_File *);
    MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
    MPI_File carrier = MPI_FILE_NULL;
    if (PMPI_File_get_errhandler(MPI_FILE_NULL, &handler) != MPI_SUCCESS) return;
    if (handler != MPI_ERRORS_RETURN) {
        if (!carry) carry = NEXT("PMPI_File_open", (MPI_Comm, const char *, int, MPI_Info, MPI_File *));
        if (!close_carrier) close_carrier = NEXT("PMPI_File_close", (MPI_File *));
        if (carry(MPI_COMM_SELF, "/dev/null", MPI_MODE_RDONLY, MPI_INFO_NULL, &carrier) == MPI_SUCCESS) {
            PMPI_File_set_errhandler(carrier, handler);
            PMPI_File_call_errhandler(carrier, code);
            close_carrier(&carrier);
        }
    }
    PMPI_Errhandler_free(&handler);
#else
    PMPI_File_call_errhandler(MPI_FILE_NULL, code);
#endif
}

/* Tells the error handler of a file; returns what the call returns. */
static int raise_at(MPI_File carrier, int code) {
    if (code == MPI_SUCCESS) return code;
    if (carrier == MPI_FILE_NULL)
        raise_at_null(code);
    else
        PMPI_File_call_errhandler(carrier, code);
    return code;
}

static int raise_class(const File *file, int class) { return raise_at(file->carrier, thalweg_mpiio_code(class)); }

/* What is checked, and what it is when it is wrong. */
#define CHECK(file, is_right, code) \
    do {                            \
        if (!(is_right)) return raise_at((file)->carrier, (code)); \
    } while (0)

/* Open, close, delete. */

static const struct ModeBit {
    int mpi;
    uint32_t ours;
} mode_bits[] = {
    {MPI_MODE_RDONLY, THALWEG_MPIIO_RDONLY},
    {MPI_MODE_WRONLY, THALWEG_MPIIO_WRONLY},
    {MPI_MODE_RDWR, THALWEG_MPIIO_RDWR},
    {MPI_MODE_CREATE, THALWEG_MPIIO_CREATE},
    {MPI_MODE_EXCL, THALWEG_MPIIO_EXCL},
    {MPI_MODE_DELETE_ON_CLOSE, THALWEG_MPIIO_DELETE_ON_CLOSE},
    {MPI_MODE_UNIQUE_OPEN, THALWEG_MPIIO_UNIQUE_OPEN},
    {MPI_MODE_SEQUENTIAL, THALWEG_MPIIO_SEQUENTIAL},
    {MPI_MODE_APPEND, THALWEG_MPIIO_APPEND},
};

static uint32_t mode_of(int amode) {
    uint32_t mode = 0;
    for (size_t i = 0; i < sizeof mode_bits / sizeof mode_bits[0]; i++)
        if (amode & mode_bits[i].mpi) {
            mode |= mode_bits[i].ours;
            amode &= ~mode_bits[i].mpi;
        }
    return amode ? 1u << 31 : mode; /* an unknown bit is refused */
}

static int is_ours(const char *path) {
    /* Before the first mount is opened: it may be a partition that the first open starts. */
    thalweg_core_spawner(thalweg_mpi_spawner());
    return path ? thalweg_core_mpiio_is_ours(path) : 0;
}

/* Hints. */

/* Keys and values of an info object, one after the other, each with its NUL; null without any. A key or value that cannot be read is
 * left out: hints may be ignored. */
static char *hints_of(MPI_Info info, uint64_t *bytes) {
    int keys = 0;
    *bytes = 0;
    if (info == MPI_INFO_NULL || PMPI_Info_get_nkeys(info, &keys) != MPI_SUCCESS || keys <= 0) return NULL;
    char *text = malloc((size_t)keys * (MPI_MAX_INFO_KEY + MPI_MAX_INFO_VAL + 2)), *at = text;
    for (int i = 0; text && i < keys; i++) {
        char *key = at;
        int found = 0;
        if (PMPI_Info_get_nthkey(info, i, key) != MPI_SUCCESS) continue;
        char *value = key + strlen(key) + 1;
        if (PMPI_Info_get(info, key, MPI_MAX_INFO_VAL, value, &found) != MPI_SUCCESS || !found) continue;
        at = value + strlen(value) + 1;
    }
    if (text) *bytes = (uint64_t)(at - text);
    return text;
}

static int open_ours(MPI_Comm comm, const char *path, int amode, MPI_Info info, MPI_File *out) {
    static int (*carry)(MPI_Comm, const char *, int, MPI_Info, MPI_File *);
    static int (*close_carrier)(MPI_File *);
    if (!carry) carry = NEXT("PMPI_File_open", (MPI_Comm, const char *, int, MPI_Info, MPI_File *));
    if (!close_carrier) close_carrier = NEXT("PMPI_File_close", (MPI_File *));
    int inter = 0, size = 1;
    *out = MPI_FILE_NULL;
    if (comm == MPI_COMM_NULL) return raise_at(MPI_FILE_NULL, MPI_ERR_COMM);
    int code = PMPI_Comm_test_inter(comm, &inter);
    if (code == MPI_SUCCESS) code = inter ? MPI_ERR_COMM : PMPI_Comm_size(comm, &size);
    if (code != MPI_SUCCESS) return raise_at(MPI_FILE_NULL, code);
    File *file = calloc(1, sizeof *file);
    if (!file) return raise_at(MPI_FILE_NULL, MPI_ERR_NO_MEM);
    file->group = MPI_GROUP_NULL;
    file->path = strdup(path);
    file->mode = amode;
    file->etype = file->filetype = MPI_BYTE;
    file->representation_name = "native";
    file->carrier = MPI_FILE_NULL;
    uint64_t hints_bytes = 0;
    char *hints = hints_of(info, &hints_bytes);
    int class = thalweg_core_mpiio_open(&file->core, path, mode_of(amode), hints, hints_bytes, size > 1 ? thalweg_mpi_table() : NULL,
                                        size > 1 ? thalweg_mpi_wrap(comm) : NULL);
    free(hints);
    if (class != 0) {
        free(file->path);
        free(file);
        return raise_at(MPI_FILE_NULL, thalweg_mpiio_code(class));
    }
    /* All have it open. The carrier comes last: MPICH counts the handler of MPI_FILE_NULL once too little for a file that is closed. */
    code = carry(MPI_COMM_SELF, "/dev/null", amode & (MPI_MODE_RDONLY | MPI_MODE_WRONLY | MPI_MODE_RDWR), MPI_INFO_NULL, &file->carrier);
    if (code == MPI_SUCCESS) code = PMPI_Comm_group(comm, &file->group);
    int own = code != MPI_SUCCESS, any = own;
    if (size > 1) PMPI_Allreduce(&own, &any, 1, MPI_INT, MPI_MAX, comm);
    if (any) {
        thalweg_core_mpiio_close(file->core);
        if (file->group != MPI_GROUP_NULL) PMPI_Group_free(&file->group);
        if (file->carrier != MPI_FILE_NULL) close_carrier(&file->carrier);
        free(file->path);
        free(file);
        return raise_at(MPI_FILE_NULL, own ? code : MPI_ERR_OTHER);
    }
    file->is_profiled = thalweg_core_mpiio_is_profiled(file->core);
    keep(file);
    *out = file->carrier;
    return MPI_SUCCESS;
}

static void let_go(MPI_Datatype *type);

static int close_ours(File *file, MPI_File *handle) {
    static int (*close_carrier)(MPI_File *);
    if (!close_carrier) close_carrier = NEXT("PMPI_File_close", (MPI_File *));
    CHECK(file, !file->is_split, MPI_ERR_OTHER);
    int class = thalweg_core_mpiio_close(file->core);
    int code = raise_class(file, class);
    take_out(file);
    let_go(&file->etype);
    let_go(&file->filetype);
    PMPI_Group_free(&file->group);
    close_carrier(&file->carrier);
    free(file->path);
    free(file);
    *handle = MPI_FILE_NULL;
    return code;
}

/* The present call of this thread, where its file is profiled. */
static _Thread_local struct {
    int is_told;
    int64_t at;
    uint64_t waited, bytes;
} call;

static void call_begins(const File *file) {
    call.is_told = file->is_profiled;
    if (!call.is_told) return;
    call.bytes = 0;
    thalweg_core_mpiio_call_begins(file->core, &call.at, &call.waited);
}

/* An error handler may have made other calls, and closed the file. */
static int call_ends(MPI_File carrier, const File *file, const char *name, int code) {
    if (!call.is_told) return code;
    call.is_told = 0;
    if (find(carrier) == file) thalweg_core_mpiio_call_ends(file->core, name, call.at, call.waited, call.bytes);
    return code;
}

/* Both names of a function. `FOUND` finds our file (`file`), or says with a null pointer that the call is another's. */
#define BOTH(name, params, arguments, found, ours)                                                          \
    EXPORT int MPI_File_##name params;                                                                      \
    EXPORT int MPI_File_##name params {                                                                     \
        static int(*next) params;                                                                           \
        File *file = found;                                                                                 \
        if (file) return ours;                                                                              \
        if (!next) next = NEXT("MPI_File_" #name, params);                                                  \
        return next arguments;                                                                              \
    }                                                                                                       \
    EXPORT int PMPI_File_##name params {                                                                    \
        static int(*next) params;                                                                           \
        File *file = found;                                                                                 \
        if (file) return ours;                                                                              \
        if (!next) next = NEXT("PMPI_File_" #name, params);                                                 \
        return next arguments;                                                                              \
    }
#define FILE_CALL(name, params, arguments, ours) \
    BOTH(name, params, arguments, find(fh), (call_begins(file), call_ends(fh, file, #name, (ours))))

/* Calls with a path: `ours` is called where the path is ours. */
#define PATH_CALL(prefix, name, params, arguments, asked, ours)                \
    EXPORT int prefix##_File_##name params {                                   \
        static int(*next) params;                                              \
        int is = asked;                                                        \
        if (is < 0) return raise_at(MPI_FILE_NULL, thalweg_mpiio_code(-is));   \
        if (is) return ours;                                                   \
        if (!next) next = NEXT(#prefix "_File_" #name, params);                \
        return next arguments;                                                 \
    }

/* Ranks whose mounts differ would open the file in different ways, and wait for each other for ever: they agree first. */
static int is_ours_for_all(MPI_Comm comm, const char *path) {
    int is = is_ours(path), size = 1, inter = 0;
    /* A communicator that is none is refused by the call itself. */
    if (comm == MPI_COMM_NULL || PMPI_Comm_test_inter(comm, &inter) != MPI_SUCCESS || inter) return is;
    if (PMPI_Comm_size(comm, &size) != MPI_SUCCESS || size == 1) return is;
    int own[2] = {is, -is}, all[2] = {is, -is};
    if (PMPI_Allreduce(own, all, 2, MPI_INT, MPI_MAX, comm) != MPI_SUCCESS || all[0] == -all[1]) return is;
    if (is >= 0)
        fprintf(stderr, "thalweg: MPI-IO: %s is below a mount on some ranks only, or the mount table of a rank cannot be read: nothing is opened\n", path ? path : "");
    return is < 0 ? is : -THALWEG_MPIIO_NOT_SAME;
}

#define OPEN (MPI_Comm comm, const char *path, int amode, MPI_Info info, MPI_File *fh)
PATH_CALL(MPI, open, OPEN, (comm, path, amode, info, fh), is_ours_for_all(comm, path), open_ours(comm, path, amode, info, fh))
PATH_CALL(PMPI, open, OPEN, (comm, path, amode, info, fh), is_ours_for_all(comm, path), open_ours(comm, path, amode, info, fh))

static int delete_ours(const char *path) {
    return raise_at(MPI_FILE_NULL, thalweg_mpiio_code(thalweg_core_mpiio_delete(path)));
}
PATH_CALL(MPI, delete, (const char *path, MPI_Info info), (path, info), is_ours(path), delete_ours(path))
PATH_CALL(PMPI, delete, (const char *path, MPI_Info info), (path, info), is_ours(path), delete_ours(path))

BOTH(close, (MPI_File * fh), (fh), (fh ? find(*fh) : NULL), close_ours(file, fh))

/* Facts. */

static int change(const File *file, int what, int64_t argument) {
    return raise_class(file, thalweg_core_mpiio_change(file->core, what, argument));
}

static int answer(const File *file, int what, int64_t argument, MPI_Offset *out) {
    int64_t number = 0;
    CHECK(file, out, MPI_ERR_ARG);
    int code = raise_class(file, thalweg_core_mpiio_ask(file->core, what, argument, &number));
    if (code == MPI_SUCCESS) *out = (MPI_Offset)number;
    return code;
}

static int get_group(const File *file, MPI_Group *group) { return PMPI_Group_union(file->group, MPI_GROUP_EMPTY, group); }

static int get_amode(const File *file, int *amode) {
    CHECK(file, amode, MPI_ERR_ARG);
    *amode = file->mode;
    return MPI_SUCCESS;
}

/* Collective. A rank without an info object takes part: the others wait for it. */
static int set_info(const File *file, MPI_Info info) {
    uint64_t bytes = 0;
    char *hints = hints_of(info, &bytes);
    int class = thalweg_core_mpiio_set_hints(file->core, hints, bytes);
    free(hints);
    CHECK(file, info != MPI_INFO_NULL, MPI_ERR_INFO);
    return raise_class(file, class);
}

/* The hints in use. */
static int get_info(const File *file, MPI_Info *info) {
    char key[64] = "", value[64] = "";
    CHECK(file, info, MPI_ERR_ARG);
    int code = PMPI_Info_create(info);
    for (uint64_t i = 0; code == MPI_SUCCESS && thalweg_core_mpiio_hint(file->core, i, key, value, sizeof value); i++)
        code = PMPI_Info_set(*info, key, value);
    if (code == MPI_SUCCESS && file->path && strlen(file->path) < MPI_MAX_INFO_VAL) code = PMPI_Info_set(*info, "filename", file->path);
    return raise_at(file->carrier, code);
}

FILE_CALL(set_size, (MPI_File fh, MPI_Offset size), (fh, size), change(file, THALWEG_MPIIO_SET_SIZE, size))
FILE_CALL(preallocate, (MPI_File fh, MPI_Offset size), (fh, size), change(file, THALWEG_MPIIO_PREALLOCATE, size))
FILE_CALL(get_size, (MPI_File fh, MPI_Offset *size), (fh, size), answer(file, THALWEG_MPIIO_LENGTH, 0, size))
FILE_CALL(get_group, (MPI_File fh, MPI_Group *group), (fh, group), get_group(file, group))
FILE_CALL(get_amode, (MPI_File fh, int *amode), (fh, amode), get_amode(file, amode))
FILE_CALL(set_info, (MPI_File fh, MPI_Info info), (fh, info), set_info(file, info))
FILE_CALL(get_info, (MPI_File fh, MPI_Info *info), (fh, info), get_info(file, info))
FILE_CALL(sync, (MPI_File fh), (fh), change(file, THALWEG_MPIIO_SYNC, 0))
FILE_CALL(set_atomicity, (MPI_File fh, int flag), (fh, flag), change(file, THALWEG_MPIIO_SET_ATOMICITY, flag != 0))

static int get_atomicity(const File *file, int *flag) {
    MPI_Offset is = 0;
    CHECK(file, flag, MPI_ERR_ARG);
    int code = answer(file, THALWEG_MPIIO_IS_ATOMIC, 0, &is);
    if (code == MPI_SUCCESS) *flag = is != 0;
    return code;
}
FILE_CALL(get_atomicity, (MPI_File fh, int *flag), (fh, flag), get_atomicity(file, flag))

/* Views. */

static int representation_of(const char *name, const char **kept) {
    if (!strcmp(name, "external32")) {
        *kept = "external32";
        return THALWEG_EXTERNAL32;
    }
    *kept = !strcmp(name, "internal") ? "internal" : "native";
    return !strcmp(name, *kept) ? THALWEG_NATIVE : -1;
}

static int is_predefined(MPI_Datatype type) {
    int combiner = MPI_COMBINER_NAMED;
#if MPI_VERSION >= 4
    MPI_Count ints, addresses, larges, types;
    PMPI_Type_get_envelope_c(type, &ints, &addresses, &larges, &types, &combiner);
#else
    int ints, addresses, types;
    PMPI_Type_get_envelope(type, &ints, &addresses, &types, &combiner);
#endif
    return combiner == MPI_COMBINER_NAMED || combiner == MPI_COMBINER_F90_REAL || combiner == MPI_COMBINER_F90_COMPLEX ||
           combiner == MPI_COMBINER_F90_INTEGER;
}

/* A handle of its own, which may be freed where the datatype is not predefined. */
static int another(MPI_Datatype type, MPI_Datatype *handle) {
    *handle = type;
    return is_predefined(type) ? MPI_SUCCESS : PMPI_Type_dup(type, handle);
}

static void let_go(MPI_Datatype *type) {
    if (!is_predefined(*type)) PMPI_Type_free(type);
}

static int set_view(File *file, MPI_Offset displacement, MPI_Datatype etype, MPI_Datatype filetype, const char *name, MPI_Info info) {
    const char *kept = "native";
    const int is_current = displacement == MPI_DISPLACEMENT_CURRENT;
    int representation = name ? representation_of(name, &kept) : -1;
    ThalwegMpiioPattern *unit = NULL, *pattern = NULL;
    MPI_Datatype own_etype = MPI_BYTE, own_filetype = MPI_BYTE;
    int code = representation < 0                                                     ? MPI_ERR_UNSUPPORTED_DATAREP
               : displacement < 0 && !is_current                                      ? MPI_ERR_ARG
               : etype == MPI_DATATYPE_NULL || filetype == MPI_DATATYPE_NULL          ? MPI_ERR_TYPE
                                                                                      : MPI_SUCCESS;
    if (code == MPI_SUCCESS) code = thalweg_mpiio_pattern_of(etype, representation, &unit);
    if (code == MPI_SUCCESS) code = thalweg_mpiio_pattern_of(filetype, representation, &pattern);
    if (code == MPI_SUCCESS) code = another(etype, &own_etype);
    if (code == MPI_SUCCESS) code = another(filetype, &own_filetype);
    /* A rank that failed so far takes part without its patterns: the others wait for it. */
    if (code != MPI_SUCCESS) {
        thalweg_core_mpiio_pattern_free(pattern);
        pattern = NULL;
    }
    uint64_t hints_bytes = 0;
    char *hints = hints_of(info, &hints_bytes);
    int class = thalweg_core_mpiio_set_view(file->core, is_current ? -1 : displacement < 0 ? 0 : displacement, unit, pattern, hints,
                                            hints_bytes);
    free(hints);
    thalweg_core_mpiio_pattern_free(unit);
    thalweg_core_mpiio_pattern_free(pattern);
    if (code == MPI_SUCCESS) code = thalweg_mpiio_code(class);
    if (code != MPI_SUCCESS) {
        let_go(&own_etype);
        let_go(&own_filetype);
        return raise_at(file->carrier, code);
    }
    let_go(&file->etype);
    let_go(&file->filetype);
    int64_t begins = displacement;
    if (is_current) thalweg_core_mpiio_ask(file->core, THALWEG_MPIIO_DISPLACEMENT, 0, &begins);
    file->displacement = (MPI_Offset)begins;
    file->etype = own_etype;
    file->filetype = own_filetype;
    file->representation = representation;
    file->representation_name = kept;
    return MPI_SUCCESS;
}

static int get_view(const File *file, MPI_Offset *displacement, MPI_Datatype *etype, MPI_Datatype *filetype, char *name) {
    CHECK(file, displacement && etype && filetype && name, MPI_ERR_ARG);
    *displacement = file->displacement;
    strcpy(name, file->representation_name);
    int code = another(file->etype, etype);
    if (code == MPI_SUCCESS) code = another(file->filetype, filetype);
    return raise_at(file->carrier, code);
}

static int get_type_extent(const File *file, MPI_Datatype type, MPI_Count *extent) {
    ThalwegMpiioPattern *pattern = NULL;
    int code = thalweg_mpiio_pattern_of(type, file->representation, &pattern);
    if (code == MPI_SUCCESS) *extent = (MPI_Count)thalweg_core_mpiio_pattern_extent(pattern);
    thalweg_core_mpiio_pattern_free(pattern);
    return raise_at(file->carrier, code);
}

static int get_type_extent_aint(const File *file, MPI_Datatype type, MPI_Aint *extent) {
    MPI_Count wide = 0;
    int code = get_type_extent(file, type, &wide);
    if (code == MPI_SUCCESS) *extent = (MPI_Aint)wide;
    return code;
}

#define SET_VIEW (MPI_File fh, MPI_Offset disp, MPI_Datatype etype, MPI_Datatype filetype, const char *datarep, MPI_Info info)
FILE_CALL(set_view, SET_VIEW, (fh, disp, etype, filetype, datarep, info), set_view(file, disp, etype, filetype, datarep, info))
#define GET_VIEW (MPI_File fh, MPI_Offset *disp, MPI_Datatype *etype, MPI_Datatype *filetype, char *datarep)
FILE_CALL(get_view, GET_VIEW, (fh, disp, etype, filetype, datarep), get_view(file, disp, etype, filetype, datarep))
FILE_CALL(get_type_extent, (MPI_File fh, MPI_Datatype type, MPI_Aint *extent), (fh, type, extent), get_type_extent_aint(file, type, extent))
#if MPI_VERSION >= 4
FILE_CALL(get_type_extent_c, (MPI_File fh, MPI_Datatype type, MPI_Count *extent), (fh, type, extent), get_type_extent(file, type, extent))
#endif

/* Positions. */

static int seek(const File *file, MPI_Offset offset, int whence, int shared) {
    int from = whence == MPI_SEEK_SET ? 0 : whence == MPI_SEEK_CUR ? 1 : whence == MPI_SEEK_END ? 2 : 3;
    return raise_class(file, thalweg_core_mpiio_seek(file->core, offset, from, shared));
}
#define OFFSET (MPI_File fh, MPI_Offset *offset)
FILE_CALL(seek, (MPI_File fh, MPI_Offset offset, int whence), (fh, offset, whence), seek(file, offset, whence, 0))
FILE_CALL(seek_shared, (MPI_File fh, MPI_Offset offset, int whence), (fh, offset, whence), seek(file, offset, whence, 1))
FILE_CALL(get_position, OFFSET, (fh, offset), answer(file, THALWEG_MPIIO_POSITION, 0, offset))
FILE_CALL(get_position_shared, OFFSET, (fh, offset), answer(file, THALWEG_MPIIO_SHARED_POSITION, 0, offset))
FILE_CALL(get_byte_offset, (MPI_File fh, MPI_Offset offset, MPI_Offset *byte), (fh, offset, byte),
          answer(file, THALWEG_MPIIO_BYTE_OFFSET, offset, byte))

/* Data. */

static void told(MPI_Status *status, uint64_t bytes) {
    if (status == MPI_STATUS_IGNORE) return;
    PMPI_Status_set_elements_x(status, MPI_BYTE, (MPI_Count)bytes);
    PMPI_Status_set_cancelled(status, 0);
}

/* Bytes of `count` instances in an external32 file, and of one. */
static int external_bytes(MPI_Count count, MPI_Datatype type, MPI_Count *each, MPI_Count *bytes) {
    MPI_Count size = 0;
    int code = PMPI_Type_size_x(type, &size);
    if (code != MPI_SUCCESS) return code;
#if MPI_VERSION >= 4
    /* MPICH counts the bytes of one datatype in an int. */
    if (size > INT32_MAX) return MPI_ERR_COUNT;
    code = PMPI_Pack_external_size_c("external32", 1, type, each);
#else
    MPI_Aint one = 0;
    if (count > INT32_MAX) return MPI_ERR_COUNT;
    code = PMPI_Pack_external_size("external32", 1, type, &one);
    *each = one;
#endif
    if (code == MPI_SUCCESS && __builtin_mul_overflow(count, *each, bytes)) code = MPI_ERR_COUNT;
    return code;
}

static int to_external(const void *memory, MPI_Count count, MPI_Datatype type, char *packed, MPI_Count bytes) {
#if MPI_VERSION >= 4
    MPI_Count place = 0;
    return PMPI_Pack_external_c("external32", memory, count, type, packed, bytes, &place);
#else
    MPI_Aint place = 0;
    return PMPI_Pack_external("external32", memory, (int)count, type, packed, (MPI_Aint)bytes, &place);
#endif
}

static int from_external(const char *packed, MPI_Count bytes, void *memory, MPI_Count count, MPI_Datatype type) {
#if MPI_VERSION >= 4
    MPI_Count place = 0;
    return PMPI_Unpack_external_c("external32", packed, bytes, &place, memory, count, type);
#else
    MPI_Aint place = 0;
    return PMPI_Unpack_external("external32", packed, (MPI_Aint)bytes, &place, memory, (int)count, type);
#endif
}

/* Packs to external32, writes; or reads, and unpacks. */
static int converted(const File *file, int writes, int at, MPI_Offset offset, void *buffer, MPI_Count count, MPI_Datatype type,
                     uint64_t *moved) {
    MPI_Count each = 0, bytes = 0;
    int code = external_bytes(count, type, &each, &bytes);
    /* As in `transfer`: the others wait for this rank. */
    if (code != MPI_SUCCESS && !(at & THALWEG_MPIIO_WAITING)) return code;
    if (code != MPI_SUCCESS) bytes = 0;
    char *packed = malloc(bytes ? (size_t)bytes : 1);
    ThalwegMpiioMemory memory = {.start = packed, .count = (uint64_t)bytes};
    if (writes && packed && code == MPI_SUCCESS) code = to_external(buffer, count, type, packed, bytes);
    if (!packed && code == MPI_SUCCESS) code = MPI_ERR_NO_MEM;
    const ThalwegMpiioMemory *given = code == MPI_SUCCESS ? &memory : NULL;
    int class = writes ? thalweg_core_mpiio_write(file->core, at, offset, given, moved)
                       : thalweg_core_mpiio_read(file->core, at, offset, given, moved);
    if (code == MPI_SUCCESS) code = thalweg_mpiio_code(class);
    /* Whole instances: what is read of a last one stays out. */
    MPI_Count whole = each > 0 ? (MPI_Count)(*moved / (uint64_t)each) : 0;
    if (code == MPI_SUCCESS && !writes) code = from_external(packed, bytes, buffer, whole, type);
    free(packed);
    if (code == MPI_SUCCESS) {
        MPI_Count size = 0;
        code = PMPI_Type_size_x(type, &size);
        *moved = (uint64_t)whole * (uint64_t)size; /* the status counts bytes of memory */
    }
    return code;
}

/* The one way of all reads and writes; returns a code, and tells no error handler. */
static int transfer(const File *file, int writes, int at, MPI_Offset offset, void *buffer, MPI_Count count, MPI_Datatype type,
                    uint64_t *moved) {
    uint64_t size = 0;
    ThalwegMpiioMemory memory = {.start = buffer};
    *moved = 0;
    if (count >= 0 && type != MPI_DATATYPE_NULL && file->representation == THALWEG_EXTERNAL32)
        return converted(file, writes, at, offset, buffer, count, type, moved);
    int code = count < 0 ? MPI_ERR_COUNT : thalweg_mpiio_memory_of(type, &memory.pattern, &size);
    memory.count = memory.pattern ? (uint64_t)count : (uint64_t)count * size;
    /* Where ranks wait for each other every rank takes part, also one that has nothing to write from. */
    if (code != MPI_SUCCESS && !(at & THALWEG_MPIIO_WAITING)) return code;
    const ThalwegMpiioMemory *given = code == MPI_SUCCESS ? &memory : NULL;
    int class = writes ? thalweg_core_mpiio_write(file->core, at, offset, given, moved)
                       : thalweg_core_mpiio_read(file->core, at, offset, given, moved);
    return code != MPI_SUCCESS ? code : thalweg_mpiio_code(class);
}

static int blocking(const File *file, int writes, int at, MPI_Offset offset, void *buffer, MPI_Count count, MPI_Datatype type,
                    MPI_Status *status) {
    uint64_t moved = 0;
    int code = transfer(file, writes, at, offset, buffer, count, type, &moved);
    call.bytes = moved;
    told(status, moved);
    return raise_at(file->carrier, code);
}

/* Nonblocking calls are complete when they return; their requests say how much was moved. */

static int request_query(void *moved, MPI_Status *status) {
    told(status, *(uint64_t *)moved);
    status->MPI_SOURCE = MPI_UNDEFINED;
    status->MPI_TAG = MPI_UNDEFINED;
    return MPI_SUCCESS;
}

static int request_free(void *moved) {
    free(moved);
    return MPI_SUCCESS;
}

static int request_cancel(void *moved, int complete) {
    (void)moved, (void)complete;
    return MPI_SUCCESS;
}

static int nonblocking(const File *file, int writes, int at, MPI_Offset offset, void *buffer, MPI_Count count, MPI_Datatype type,
                       MPI_Request *request) {
    uint64_t *moved = malloc(sizeof *moved);
    *request = MPI_REQUEST_NULL;
    if (!moved) return raise_at(file->carrier, MPI_ERR_NO_MEM);
    int code = transfer(file, writes, at, offset, buffer, count, type, moved);
    call.bytes = *moved;
    if (code == MPI_SUCCESS) code = PMPI_Grequest_start(request_query, request_free, request_cancel, moved, request);
    if (code == MPI_SUCCESS) return PMPI_Grequest_complete(*request);
    free(moved);
    return raise_at(file->carrier, code);
}

/* Split collective calls: the beginning moves the bytes, the end tells what it did. */

static int begun(File *file, int letter, int at, MPI_Offset offset, void *buffer, MPI_Count count, MPI_Datatype type) {
    CHECK(file, !file->is_split, MPI_ERR_REQUEST);
    uint64_t moved = 0;
    int code = transfer(file, letter == 'W' || letter == 'V' || letter == 'O', at, offset, buffer, count, type, &moved);
    call.bytes = moved;
    told(&file->split, moved);
    if (code == MPI_SUCCESS) file->is_split = letter;
    return raise_at(file->carrier, code);
}

static int ended(File *file, int letter, MPI_Status *status) {
    CHECK(file, file->is_split == letter, MPI_ERR_REQUEST);
    file->is_split = 0;
    if (status != MPI_STATUS_IGNORE) *status = file->split;
    return MPI_SUCCESS;
}

#define RD 0
#define WR 1
#define ONE 0
#define ALL (THALWEG_MPIIO_COLLECTIVE | THALWEG_MPIIO_WAITING)
#define ALL_NOW THALWEG_MPIIO_COLLECTIVE
#define READS void *
#define WRITES const void *
/* DATA(name, kind, which place): blocking, with and without an offset; for `int` and for large counts. */
#define DATA_AT(name, how, writes, who, count_type)                                                                               \
    FILE_CALL(name, (MPI_File fh, MPI_Offset offset, how buf, count_type count, MPI_Datatype type, MPI_Status * status),     \
              (fh, offset, buf, count, type, status),                                                                        \
              blocking(file, writes, THALWEG_MPIIO_OFFSET | (who), offset, (void *)buf, count, type, status))
#define DATA(name, how, writes, place, count_type)                                                      \
    FILE_CALL(name, (MPI_File fh, how buf, count_type count, MPI_Datatype type, MPI_Status * status),   \
              (fh, buf, count, type, status), blocking(file, writes, place, 0, (void *)buf, count, type, status))
#define START_AT(name, how, writes, who, count_type)                                                                              \
    FILE_CALL(name, (MPI_File fh, MPI_Offset offset, how buf, count_type count, MPI_Datatype type, MPI_Request * request),   \
              (fh, offset, buf, count, type, request),                                                                       \
              nonblocking(file, writes, THALWEG_MPIIO_OFFSET | (who), offset, (void *)buf, count, type, request))
#define START(name, how, writes, place, count_type)                                                     \
    FILE_CALL(name, (MPI_File fh, how buf, count_type count, MPI_Datatype type, MPI_Request * request), \
              (fh, buf, count, type, request), nonblocking(file, writes, place, 0, (void *)buf, count, type, request))
#define BEGIN_AT(name, how, letter, count_type)                                                      \
    FILE_CALL(name, (MPI_File fh, MPI_Offset offset, how buf, count_type count, MPI_Datatype type),  \
              (fh, offset, buf, count, type), begun(file, letter, THALWEG_MPIIO_OFFSET | ALL, offset, (void *)buf, count, type))
#define BEGIN(name, how, letter, place, count_type)                                 \
    FILE_CALL(name, (MPI_File fh, how buf, count_type count, MPI_Datatype type),    \
              (fh, buf, count, type), begun(file, letter, place, 0, (void *)buf, count, type))
#define END(name, how, letter) \
    FILE_CALL(name, (MPI_File fh, how buf, MPI_Status * status), (fh, buf, status), ((void)buf, ended(file, letter, status)))

#define EVERY(suffix, count_type)                                                      \
    DATA_AT(read_at##suffix, READS, RD, ONE, count_type)                               \
    DATA_AT(read_at_all##suffix, READS, RD, ALL, count_type)                           \
    DATA_AT(write_at##suffix, WRITES, WR, ONE, count_type)                             \
    DATA_AT(write_at_all##suffix, WRITES, WR, ALL, count_type)                         \
    START_AT(iread_at##suffix, READS, RD, ONE, count_type)                             \
    START_AT(iread_at_all##suffix, READS, RD, ALL_NOW, count_type)                     \
    START_AT(iwrite_at##suffix, WRITES, WR, ONE, count_type)                           \
    START_AT(iwrite_at_all##suffix, WRITES, WR, ALL_NOW, count_type)                   \
    DATA(read##suffix, READS, RD, THALWEG_MPIIO_INDIVIDUAL, count_type)                \
    DATA(read_all##suffix, READS, RD, THALWEG_MPIIO_INDIVIDUAL | ALL, count_type)      \
    DATA(write##suffix, WRITES, WR, THALWEG_MPIIO_INDIVIDUAL, count_type)              \
    DATA(write_all##suffix, WRITES, WR, THALWEG_MPIIO_INDIVIDUAL | ALL, count_type)    \
    START(iread##suffix, READS, RD, THALWEG_MPIIO_INDIVIDUAL, count_type)              \
    START(iread_all##suffix, READS, RD, THALWEG_MPIIO_INDIVIDUAL | ALL_NOW, count_type)\
    START(iwrite##suffix, WRITES, WR, THALWEG_MPIIO_INDIVIDUAL, count_type)            \
    START(iwrite_all##suffix, WRITES, WR, THALWEG_MPIIO_INDIVIDUAL | ALL_NOW, count_type)\
    DATA(read_shared##suffix, READS, RD, THALWEG_MPIIO_SHARED, count_type)             \
    DATA(write_shared##suffix, WRITES, WR, THALWEG_MPIIO_SHARED, count_type)           \
    START(iread_shared##suffix, READS, RD, THALWEG_MPIIO_SHARED, count_type)           \
    START(iwrite_shared##suffix, WRITES, WR, THALWEG_MPIIO_SHARED, count_type)         \
    DATA(read_ordered##suffix, READS, RD, THALWEG_MPIIO_ORDERED, count_type)           \
    DATA(write_ordered##suffix, WRITES, WR, THALWEG_MPIIO_ORDERED, count_type)         \
    BEGIN_AT(read_at_all_begin##suffix, READS, 'S', count_type)                        \
    BEGIN_AT(write_at_all_begin##suffix, WRITES, 'V', count_type)                      \
    BEGIN(read_all_begin##suffix, READS, 'R', THALWEG_MPIIO_INDIVIDUAL | ALL, count_type)\
    BEGIN(write_all_begin##suffix, WRITES, 'W', THALWEG_MPIIO_INDIVIDUAL | ALL, count_type)\
    BEGIN(read_ordered_begin##suffix, READS, 'P', THALWEG_MPIIO_ORDERED, count_type)   \
    BEGIN(write_ordered_begin##suffix, WRITES, 'O', THALWEG_MPIIO_ORDERED, count_type)

EVERY(, int)
#if MPI_VERSION >= 4
EVERY(_c, MPI_Count)
#endif

END(read_at_all_end, READS, 'S')
END(write_at_all_end, WRITES, 'V')
END(read_all_end, READS, 'R')
END(write_all_end, WRITES, 'W')
END(read_ordered_end, READS, 'P')
END(write_ordered_end, WRITES, 'O')
