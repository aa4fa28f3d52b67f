/* Thalweg's table of MPI functions: how the library, built once and without MPI, reaches the MPI of the program.
 *
 * shim.c fills the table and is compiled by each MPI's own compiler. The Rust side of the table is
 * crates/comm-mpi/src/ffi.rs; the two change together, and THALWEG_MPI_VERSION with them.
 *
 * Every function that returns int returns an MPI error code, 0 where all is well, unless said otherwise. Nothing here
 * waits for another rank but duplicate, split, split_by_node, settle, window_make and window_free (the caller makes
 * sure first that all ranks have come); all else starts something that `test` finishes. Buffers given to a start must stay
 * where they are until then.
 */
#ifndef THALWEG_MPI_H
#define THALWEG_MPI_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define THALWEG_MPI_VERSION 4u

/* What `ready` answers. */
enum {
    THALWEG_MPI_READY = 0,
    THALWEG_MPI_NOT_STARTED = 1,  /* MPI_Init has not been called */
    THALWEG_MPI_FINISHED = 2,     /* MPI_Finalize has been called */
    THALWEG_MPI_FOREIGN = 4,      /* the program runs with another MPI than this library is built for */
    THALWEG_MPI_OTHER_THREAD = 3, /* the thread level lets only the thread call that initialised MPI */
};

/* What sort of failure an error code means. */
enum {
    THALWEG_MPI_OTHER = 0,
    THALWEG_MPI_ARGUMENT = 1,
    THALWEG_MPI_NO_MEMORY = 2,
    THALWEG_MPI_TRUNCATED = 3,
    THALWEG_MPI_PEER_LOST = 4,
    THALWEG_MPI_UNSUPPORTED = 5,
};

/* How all_reduce combines. */
enum { THALWEG_MPI_SUM = 0, THALWEG_MPI_MIN = 1, THALWEG_MPI_MAX = 2 };

/* How a communicator is released. */
enum {
    THALWEG_MPI_FORGET = 0, /* without a call into MPI */
    THALWEG_MPI_FREE = 1,
    THALWEG_MPI_KEEP = 2, /* nothing is under way on it: where it is a duplicate of the program's, it may be used again */
};

/* An MPI_Request or MPI_Message, whatever it is with this MPI. */
typedef uint64_t ThalwegMpiToken;

typedef struct ThalwegMpiTable {
    uint32_t version;     /* THALWEG_MPI_VERSION */
    uint32_t table_bytes; /* sizeof(ThalwegMpiTable) */
    uint64_t large_bytes; /* a collective call moves at most so many bytes from or to a rank */

    /* About MPI. */
    int (*ready)(void);
    int (*thread_level)(void); /* 0 single, 1 funneled, 2 serialized, 3 multiple */
    int (*error_sort)(int code);
    int (*error_text)(int code, char *text, int capacity); /* bytes written, without a final zero */
    /* Has `work` called when MPI_Finalize begins, once or several times, while MPI can still be called: the attributes of MPI_COMM_SELF are
     * deleted first. Only if thalweg_mpi_wrap was called before. With MPICH at MPI_THREAD_MULTIPLE: see thalweg_mpi_end. */
    void (*at_end)(void (*work)(void));

    /* Communicators, as pointers to a structure of shim.c. */
    int (*rank_and_size)(void *comm, uint32_t *rank, uint32_t *size);
    int (*largest_tag)(void *comm, uint32_t *tag); /* 0: not known from this communicator */
    int (*duplicate)(void *comm, void **made);
    int (*split)(void *comm, int color, int key, void **made); /* color < 0: left out, *made is null */
    int (*split_by_node)(void *comm, void **made);
    /* What thalweg_mpi_wrap returns is at first the program's own communicator: for one collective call, in which the ranks
     * also find out whether all offer the same duplicate of it. `settle` with that number takes it; with 0 it makes a new
     * one, and waits for all ranks. */
    int (*offer)(void *comm, uint64_t *number); /* 0: it is settled; else 1. *number 0: there is none to offer */
    int (*settle)(void *comm, uint64_t number);
    void (*release)(void *comm, int how);

    /* Point to point; messages of any length. from < 0: anyone. */
    int (*send)(void *comm, const void *bytes, uint64_t count, uint32_t to, uint32_t tag, ThalwegMpiToken *request);
    int (*receive)(void *comm, void *bytes, uint64_t count, uint32_t from, uint32_t tag, ThalwegMpiToken *request);
    int (*match)(void *comm, int64_t from, uint32_t tag, int *found, uint32_t *sender, uint64_t *count,
                 ThalwegMpiToken *message);
    int (*receive_matched)(void *bytes, uint64_t count, ThalwegMpiToken *message, ThalwegMpiToken *request);
    int (*test)(ThalwegMpiToken *request, int *done);

    /* Collective; counts are bytes per rank unless said otherwise. */
    int (*barrier)(void *comm, ThalwegMpiToken *request);
    int (*broadcast)(void *comm, void *bytes, int count, uint32_t root, ThalwegMpiToken *request);
    int (*gather)(void *comm, const void *own, void *all, int count, uint32_t root, ThalwegMpiToken *request);
    int (*scatter)(void *comm, const void *all, void *own, int count, uint32_t root, ThalwegMpiToken *request);
    int (*all_gather)(void *comm, const void *own, void *all, int count, ThalwegMpiToken *request);
    int (*all_gather_lengths)(void *comm, const void *own, int own_count, void *all, const int *counts,
                              const int *offsets, ThalwegMpiToken *request);
    int (*all_to_all)(void *comm, const void *out, void *in, int count, ThalwegMpiToken *request);
    int (*exclusive_scan)(void *comm, const uint64_t *own, uint64_t *sum, ThalwegMpiToken *request); /* one number */
    int (*all_reduce)(void *comm, const uint64_t *own, uint64_t *all, int numbers, int how, ThalwegMpiToken *request);

    /* Memory that the ranks of a node share; every rank owns one part. */
    int (*window_make)(void *comm, uint64_t bytes, void **window);
    uint64_t (*window_length)(void *window, uint32_t rank);
    void (*window_put)(void *window, uint32_t rank, uint64_t offset, const void *bytes, uint64_t count);
    void (*window_get)(void *window, uint32_t rank, uint64_t offset, void *bytes, uint64_t count);
    const void *(*window_start)(void *window, uint32_t rank); /* where the part begins, for reading */
    int (*window_sync)(void *window);
    int (*window_free)(void *window);     /* collective */
    void (*window_forget)(void *window);  /* without a call into MPI: the memory stays until the process ends */
} ThalwegMpiTable;

/* Does the work of `at_end` now, if MPI can be called. For an MPI_Finalize that comes before MPI's own. */
void thalweg_mpi_end(void);

/* The table of the MPI that this shim was compiled with. */
const ThalwegMpiTable *thalweg_mpi_table(void);

#ifdef MPI_VERSION
/* The program's communicator for Thalweg to use, by way of a duplicate: see `offer`. `comm` must stay valid until that is
 * settled, in the first collective call. Null where MPI is not running, or `comm` is null or an intercommunicator. Whoever
 * gets it releases it, as MpiCommunicator does when it is dropped. */
void *thalweg_mpi_wrap(MPI_Comm comm);
#endif

/* The same of the MPI_Comm that lies at an address, for those who don't know what an MPI_Comm is (Python). */
void *thalweg_mpi_wrap_at(const void *comm);

#ifdef __cplusplus
}
#endif

#endif
