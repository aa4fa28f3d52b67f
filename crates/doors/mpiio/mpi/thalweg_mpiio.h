/* What door.c calls in libthalweg-core: bindings/c/src/mpiio.rs, where each function is described. Both change together.
 *
 * Functions that return int return the number of an error class, 0 where all is well, unless said otherwise.
 */
#ifndef THALWEG_MPIIO_H
#define THALWEG_MPIIO_H

#include <stdint.h>

#include "thalweg_mpi.h"

typedef struct ThalwegMpiioFile ThalwegMpiioFile;
typedef struct ThalwegMpiioPattern ThalwegMpiioPattern;

/* Memory of a program: instances of a datatype; bytes where there is no pattern. */
typedef struct ThalwegMpiioMemory {
    void *start;
    uint64_t count;
    const ThalwegMpiioPattern *pattern;
} ThalwegMpiioMemory;

/* Access modes. */
enum {
    THALWEG_MPIIO_RDONLY = 1,
    THALWEG_MPIIO_WRONLY = 2,
    THALWEG_MPIIO_RDWR = 4,
    THALWEG_MPIIO_CREATE = 8,
    THALWEG_MPIIO_EXCL = 16,
    THALWEG_MPIIO_DELETE_ON_CLOSE = 32,
    THALWEG_MPIIO_UNIQUE_OPEN = 64,
    THALWEG_MPIIO_SEQUENTIAL = 128,
    THALWEG_MPIIO_APPEND = 256,
};

/* Which place is read or written; bits say that all ranks make the call, and may wait for each other. */
enum {
    THALWEG_MPIIO_OFFSET = 0,
    THALWEG_MPIIO_INDIVIDUAL = 1,
    THALWEG_MPIIO_SHARED = 2,
    THALWEG_MPIIO_COLLECTIVE = 8,
    THALWEG_MPIIO_WAITING = 16,
    THALWEG_MPIIO_ORDERED = 3 | THALWEG_MPIIO_COLLECTIVE | THALWEG_MPIIO_WAITING,
};

/* What `ask` answers. */
enum {
    THALWEG_MPIIO_LENGTH = 0,
    THALWEG_MPIIO_POSITION = 1,
    THALWEG_MPIIO_SHARED_POSITION = 2,
    THALWEG_MPIIO_BYTE_OFFSET = 3, /* of an offset in etypes */
    THALWEG_MPIIO_IS_ATOMIC = 4,
    THALWEG_MPIIO_DISPLACEMENT = 5, /* of the view */
};

/* What `change` changes; collective. */
enum { THALWEG_MPIIO_SET_SIZE = 0, THALWEG_MPIIO_PREALLOCATE = 1, THALWEG_MPIIO_SET_ATOMICITY = 2, THALWEG_MPIIO_SYNC = 3 };

/* Error classes: crates/doors/mpiio/src/class.rs. */
enum {
    THALWEG_MPIIO_OTHER = 1,
    THALWEG_MPIIO_ARGUMENT,
    THALWEG_MPIIO_MODE,
    THALWEG_MPIIO_NOT_SAME,
    THALWEG_MPIIO_NO_SUCH_FILE,
    THALWEG_MPIIO_EXISTS,
    THALWEG_MPIIO_BAD_FILE,
    THALWEG_MPIIO_ACCESS,
    THALWEG_MPIIO_NO_SPACE,
    THALWEG_MPIIO_QUOTA,
    THALWEG_MPIIO_READ_ONLY,
    THALWEG_MPIIO_IN_USE,
    THALWEG_MPIIO_UNSUPPORTED,
    THALWEG_MPIIO_IO,
    THALWEG_MPIIO_NO_MEMORY,
    THALWEG_MPIIO_TYPE,
};

/* Words of datatypes: crates/doors/mpiio/src/tree.rs. */
enum {
    THALWEG_MPIIO_ELEMENTARY = 0,
    THALWEG_MPIIO_DUP,
    THALWEG_MPIIO_CONTIGUOUS,
    THALWEG_MPIIO_VECTOR,
    THALWEG_MPIIO_HVECTOR,
    THALWEG_MPIIO_INDEXED,
    THALWEG_MPIIO_HINDEXED,
    THALWEG_MPIIO_INDEXED_BLOCK,
    THALWEG_MPIIO_HINDEXED_BLOCK,
    THALWEG_MPIIO_STRUCT,
    THALWEG_MPIIO_SUBARRAY,
    THALWEG_MPIIO_DARRAY,
    THALWEG_MPIIO_RESIZED,
};

int thalweg_core_mpiio_is_ours(const char *path); /* 1: ours, 0: not; negative: a class */
/* Hints: keys and values in turn, each with its NUL, in so many bytes; null for none. */
int thalweg_core_mpiio_open(ThalwegMpiioFile **file, const char *path, uint32_t mode, const char *hints, uint64_t hints_bytes,
                            const ThalwegMpiTable *table, void *comm);
int thalweg_core_mpiio_close(ThalwegMpiioFile *file);
int thalweg_core_mpiio_delete(const char *path);
/* Whether a profile is taken: calls of the file are then told, with their names without MPI_File_, and the bytes that they moved. */
int thalweg_core_mpiio_is_profiled(const ThalwegMpiioFile *file);
void thalweg_core_mpiio_call_begins(const ThalwegMpiioFile *file, int64_t *at, uint64_t *waited);
void thalweg_core_mpiio_call_ends(const ThalwegMpiioFile *file, const char *name, int64_t at, uint64_t waited, uint64_t bytes);
int thalweg_core_mpiio_pattern(ThalwegMpiioPattern **pattern, const int64_t *words, uint64_t count);
void thalweg_core_mpiio_pattern_free(ThalwegMpiioPattern *pattern);
int64_t thalweg_core_mpiio_pattern_extent(const ThalwegMpiioPattern *pattern);
int thalweg_core_mpiio_set_view(const ThalwegMpiioFile *file, int64_t displacement, const ThalwegMpiioPattern *etype,
                                const ThalwegMpiioPattern *filetype, const char *hints, uint64_t hints_bytes);
int thalweg_core_mpiio_set_hints(const ThalwegMpiioFile *file, const char *hints, uint64_t hints_bytes);
/* Key and value of hint `number` in use, in places for `room` bytes each; 0 behind the last one. */
int thalweg_core_mpiio_hint(const ThalwegMpiioFile *file, uint64_t number, char *key, char *value, uint64_t room);
int thalweg_core_mpiio_seek(const ThalwegMpiioFile *file, int64_t offset, int whence, int shared);
int thalweg_core_mpiio_ask(const ThalwegMpiioFile *file, int what, int64_t argument, int64_t *answer);
int thalweg_core_mpiio_change(const ThalwegMpiioFile *file, int what, int64_t argument);
int thalweg_core_mpiio_write(const ThalwegMpiioFile *file, int at, int64_t offset, const ThalwegMpiioMemory *from, uint64_t *moved);
int thalweg_core_mpiio_read(const ThalwegMpiioFile *file, int at, int64_t offset, const ThalwegMpiioMemory *into, uint64_t *moved);

#endif
