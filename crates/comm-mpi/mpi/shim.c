/* The one file of Thalweg that knows an MPI library: fills the table of thalweg_mpi.h.
 *
 * Works with any MPI 3.0 or later, at every thread level. Uses only communicators that were handed in, through a
 * duplicate whose errors are returned instead of ending the program.
 */
#include <limits.h>
#include <mpi.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "thalweg_mpi.h"

/* Longer messages are described to MPI as blocks, since its counts are int. Tests set it low. */
#ifndef THALWEG_MPI_LARGE_BYTES
#define THALWEG_MPI_LARGE_BYTES (1u << 30)
#endif

_Static_assert(sizeof(MPI_Request) <= sizeof(ThalwegMpiToken), "a request fits a token");
_Static_assert(sizeof(MPI_Message) <= sizeof(ThalwegMpiToken), "a message fits a token");
_Static_assert(MPI_SUCCESS == 0, "the table's promise");
_Static_assert(THALWEG_MPI_LARGE_BYTES <= INT_MAX, "one block is counted in int");

/* A duplicate of a program's communicator, in use or available for the next request. */
typedef struct Duplicate {
    MPI_Comm comm;
    uint64_t number; /* from 1, the same on all ranks */
    int in_use;
    struct Duplicate *next;
} Duplicate;

/* All duplicates of one communicator of the program. They hang on it as an attribute, so that they go when it goes. */
typedef struct Duplicates {
    Duplicate *first; /* the lowest number first */
    uint64_t made;
    int users; /* the attribute, and every Communicator */
    int gone;  /* the program's communicator was freed */
    struct Duplicates *next;
} Duplicates;

typedef struct Communicator {
    MPI_Comm comm; /* the program's own until it is settled which duplicate is used */
    int settled;
    Duplicates *of; /* null: no duplicate of the program's */
    Duplicate *own; /* the one in use, or offered */
} Communicator;

typedef struct Window {
    MPI_Win win;
    uint32_t size;
    struct Part {
        char *start;
        uint64_t bytes;
    } parts[];
} Window;

static MPI_Comm comm_of(void *comm) { return ((Communicator *)comm)->comm; }

static void keep_request(MPI_Request request, ThalwegMpiToken *token) {
    *token = 0;
    memcpy(token, &request, sizeof request);
}

static MPI_Request request_of(const ThalwegMpiToken *token) {
    MPI_Request request;
    memcpy(&request, token, sizeof request);
    return request;
}

/* About MPI. */

/* What programs that include this MPI's header refer to: see thalweg_of_mpi.h. */
#if defined(OPEN_MPI)
extern const int thalweg_needs_openmpi;
const int thalweg_needs_openmpi = 1;
#elif defined(MPICH_VERSION) || defined(MVAPICH_VERSION) || defined(MVAPICH2_VERSION) || defined(I_MPI_VERSION)
extern const int thalweg_needs_mpich;
const int thalweg_needs_mpich = 1;
#endif

/* Compiled for the binary interface of MPI 5, which is any MPI's. */
#if defined(MPI_ABI_VERSION) && !defined(OPEN_MPI) && !defined(MPICH_VERSION)
#define OF_ANY_MPI 1
#else
#define OF_ANY_MPI 0
#endif

/* Whether calls reach the MPI that this file was compiled for: in a program that is linked with another one they may reach that.
 * Asks without any handle, which may be of another kind there. */
static int is_own(void) {
#if defined(OPEN_MPI)
    const int open_mpi = 1;
#else
    const int open_mpi = 0;
#endif
    static atomic_int known; /* 1: own, 2: another */
    int is = OF_ANY_MPI ? 1 : atomic_load_explicit(&known, memory_order_relaxed);
    if (!is) {
        enum { ENOUGH = 1 << 15 }; /* any MPI's longest text */
        char *text = calloc(1, ENOUGH);
        int length = 0;
        if (!text) return 1;
        int asked = MPI_Get_library_version(text, &length) == MPI_SUCCESS;
        is = asked && (strstr(text, "Open MPI") != NULL) != open_mpi ? 2 : 1;
        free(text);
        atomic_store_explicit(&known, is, memory_order_relaxed);
    }
    return is == 1;
}

static int ready(void) {
    int flag = 0;
    if (!is_own()) return THALWEG_MPI_FOREIGN;
    if (MPI_Initialized(&flag) != MPI_SUCCESS || !flag) return THALWEG_MPI_NOT_STARTED;
    if (MPI_Finalized(&flag) != MPI_SUCCESS || flag) return THALWEG_MPI_FINISHED;
    int level = MPI_THREAD_SINGLE;
    if (MPI_Query_thread(&level) == MPI_SUCCESS && level < MPI_THREAD_SERIALIZED &&
        MPI_Is_thread_main(&flag) == MPI_SUCCESS && !flag)
        return THALWEG_MPI_OTHER_THREAD;
    return THALWEG_MPI_READY;
}

static int thread_level(void) {
    int level = MPI_THREAD_SINGLE;
    MPI_Query_thread(&level);
    if (level >= MPI_THREAD_MULTIPLE) return 3;
    if (level >= MPI_THREAD_SERIALIZED) return 2;
    return level >= MPI_THREAD_FUNNELED ? 1 : 0;
}

static int error_sort(int code) {
    int class = MPI_ERR_OTHER;
    if (ready() != THALWEG_MPI_READY || MPI_Error_class(code, &class) != MPI_SUCCESS) return THALWEG_MPI_OTHER;
    /* Not in every MPI, and some are no constants: no switch. */
#ifdef MPI_ERR_PROC_ABORTED
    if (class == MPI_ERR_PROC_ABORTED) return THALWEG_MPI_PEER_LOST;
#endif
#ifdef MPI_ERR_PROC_FAILED
    if (class == MPI_ERR_PROC_FAILED) return THALWEG_MPI_PEER_LOST;
#endif
#ifdef MPIX_ERR_PROC_FAILED
    if (class == MPIX_ERR_PROC_FAILED) return THALWEG_MPI_PEER_LOST;
#endif
#ifdef MPIX_ERR_PROC_FAILED_PENDING
    if (class == MPIX_ERR_PROC_FAILED_PENDING) return THALWEG_MPI_PEER_LOST;
#endif
#ifdef MPIX_ERR_REVOKED
    if (class == MPIX_ERR_REVOKED) return THALWEG_MPI_PEER_LOST;
#endif
    if (class == MPI_ERR_NO_MEM) return THALWEG_MPI_NO_MEMORY;
    if (class == MPI_ERR_TRUNCATE) return THALWEG_MPI_TRUNCATED;
    if (class == MPI_ERR_UNSUPPORTED_OPERATION) return THALWEG_MPI_UNSUPPORTED;
    if (class == MPI_ERR_ARG || class == MPI_ERR_COMM || class == MPI_ERR_RANK || class == MPI_ERR_TAG ||
        class == MPI_ERR_COUNT || class == MPI_ERR_ROOT || class == MPI_ERR_BUFFER || class == MPI_ERR_SIZE ||
        class == MPI_ERR_RMA_SHARED)
        return THALWEG_MPI_ARGUMENT;
    return THALWEG_MPI_OTHER;
}

static int error_text(int code, char *text, int capacity) {
    char full[MPI_MAX_ERROR_STRING];
    int length = 0;
    if (ready() != THALWEG_MPI_READY || MPI_Error_string(code, full, &length) != MPI_SUCCESS) return 0;
    if (length > capacity) length = capacity;
    memcpy(text, full, (size_t)length);
    return length;
}

/* Communicators. */

/* Takes over `comm`; frees it where there is no memory for a Communicator. */
static int take(MPI_Comm comm, void **made) {
    *made = NULL;
    if (comm == MPI_COMM_NULL) return MPI_SUCCESS;
    Communicator *own = malloc(sizeof *own);
    int code = own ? MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN) : MPI_ERR_NO_MEM;
    if (code != MPI_SUCCESS) {
        MPI_Comm_free(&comm);
        free(own);
        return code;
    }
    *own = (Communicator){.comm = comm, .settled = 1};
    *made = own;
    return MPI_SUCCESS;
}

static int rank_and_size(void *comm, uint32_t *rank, uint32_t *size) {
    int value = 0;
    int code = MPI_Comm_rank(comm_of(comm), &value);
    if (code != MPI_SUCCESS) return code;
    *rank = (uint32_t)value;
    code = MPI_Comm_size(comm_of(comm), &value);
    *size = (uint32_t)value;
    return code;
}

static int largest_tag(void *comm, uint32_t *tag) {
    int *value = NULL;
    int found = 0;
    int code = MPI_Comm_get_attr(comm_of(comm), MPI_TAG_UB, &value, &found);
    *tag = code == MPI_SUCCESS && found && value ? (uint32_t)*value : 0;
    return code;
}

static int duplicate(void *comm, void **made) {
    MPI_Comm new = MPI_COMM_NULL;
    int code = MPI_Comm_dup(comm_of(comm), &new);
    return code == MPI_SUCCESS ? take(new, made) : code;
}

static int split(void *comm, int color, int key, void **made) {
    MPI_Comm new = MPI_COMM_NULL;
    int code = MPI_Comm_split(comm_of(comm), color < 0 ? MPI_UNDEFINED : color, key, &new);
    return code == MPI_SUCCESS ? take(new, made) : code;
}

static int split_by_node(void *comm, void **made) {
    MPI_Comm new = MPI_COMM_NULL;
    int code = MPI_Comm_split_type(comm_of(comm), MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &new);
    return code == MPI_SUCCESS ? take(new, made) : code;
}

/* Duplicates of the program's communicators. Nothing calls MPI while it holds the lock. */

static atomic_flag locked = ATOMIC_FLAG_INIT;
static Duplicates *all_duplicates;
static int duplicates_key = MPI_KEYVAL_INVALID, end_key = MPI_KEYVAL_INVALID;

static void lock(void) {
    while (atomic_flag_test_and_set_explicit(&locked, memory_order_acquire)) {}
}

static void unlock(void) { atomic_flag_clear_explicit(&locked, memory_order_release); }

/* Takes out a duplicate that nobody uses; the lock is held. */
static Duplicate *take_out(Duplicates *of, const Duplicate *wanted) {
    for (Duplicate **at = &of->first; *at; at = &(*at)->next) {
        Duplicate *one = *at;
        if (wanted ? one != wanted : one->in_use) continue;
        *at = one->next;
        return one;
    }
    return NULL;
}

/* Gives a duplicate back, behind those that were given back before: ranks that give them back in the same order find the same one first,
 * although one rank may be further. The lock is held. */
static void give_back(Duplicates *of, Duplicate *one) {
    take_out(of, one);
    one->in_use = 0;
    one->next = NULL;
    Duplicate **at = &of->first;
    while (*at) at = &(*at)->next;
    *at = one;
}

/* One user less; the lock is held. */
static void leave(Duplicates *of) {
    if (--of->users > 0) return;
    for (Duplicates **at = &all_duplicates; *at; at = &(*at)->next) {
        if (*at != of) continue;
        *at = of->next;
        break;
    }
    /* What is left was given up by its user, with something under way on it. */
    while (of->first) free(take_out(of, of->first));
    free(of);
}

/* Frees the duplicates that nobody uses. */
static void free_unused(Duplicates *of) {
    for (;;) {
        lock();
        Duplicate *one = take_out(of, NULL);
        unlock();
        if (!one) return;
        if (ready() == THALWEG_MPI_READY) MPI_Comm_free(&one->comm);
        free(one);
    }
}

/* The program frees its communicator. */
static int on_free(MPI_Comm comm, int key, void *value, void *extra) {
    (void)comm, (void)key, (void)extra;
    Duplicates *of = value;
    free_unused(of);
    lock();
    of->gone = 1;
    leave(of);
    unlock();
    return MPI_SUCCESS;
}

/* The library's work before MPI ends. */
static void (*_Atomic work_at_end)(void);

static void at_end(void (*work)(void)) { atomic_store_explicit(&work_at_end, work, memory_order_release); }

void thalweg_mpi_end(void) {
    void (*work)(void) = atomic_load_explicit(&work_at_end, memory_order_acquire);
    if (work && ready() == THALWEG_MPI_READY) work();
}

/* MPI_Finalize begins: MPI_COMM_SELF is freed before all else. */
static int on_end(MPI_Comm comm, int key, void *value, void *extra) {
    (void)comm, (void)key, (void)value, (void)extra;
    /* MPICH has given up its locks here: threads of ours that call MPI would meet in it. MPI_Finalize of adios_mpi.c has come before. */
#if !defined(OPEN_MPI)
    if (thread_level() < 3)
#endif
        thalweg_mpi_end();
    for (Duplicates *of = all_duplicates; of; of = of->next) free_unused(of);
    return MPI_SUCCESS;
}

/* The duplicates of a communicator of the program; null where MPI has no room for them. */
static Duplicates *duplicates_of(MPI_Comm comm) {
    Duplicates *of = NULL;
    int found = 0;
    if (duplicates_key == MPI_KEYVAL_INVALID) {
        int code = MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, on_end, &end_key, NULL);
        if (code == MPI_SUCCESS) code = MPI_Comm_set_attr(MPI_COMM_SELF, end_key, NULL);
        if (code == MPI_SUCCESS) code = MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, on_free, &duplicates_key, NULL);
        if (code != MPI_SUCCESS) return NULL;
    }
    if (MPI_Comm_get_attr(comm, duplicates_key, &of, &found) != MPI_SUCCESS) return NULL;
    if (!found) {
        of = calloc(1, sizeof *of);
        if (!of) return NULL;
        of->users = 1;
        lock();
        of->next = all_duplicates;
        all_duplicates = of;
        unlock();
        if (MPI_Comm_set_attr(comm, duplicates_key, of) != MPI_SUCCESS) {
            lock();
            leave(of);
            unlock();
            return NULL;
        }
    }
    return of;
}

static int offer(void *comm, uint64_t *number) {
    Communicator *own = comm;
    *number = 0;
    if (own->settled) return 0;
    lock();
    for (Duplicate *one = own->of ? own->of->first : NULL; one && !own->own; one = one->next) {
        if (one->in_use) continue;
        one->in_use = 1;
        own->own = one;
    }
    if (own->own) *number = own->own->number;
    unlock();
    return 1;
}

static int settle(void *comm, uint64_t number) {
    Communicator *own = comm;
    if (own->own && own->own->number == number) {
        own->comm = own->own->comm;
        own->settled = 1;
        return MPI_SUCCESS;
    }
    if (own->own) {
        lock();
        own->own->in_use = 0;
        own->own = NULL;
        unlock();
    }
    MPI_Comm new = MPI_COMM_NULL;
    int code = MPI_Comm_dup(own->comm, &new);
    if (code != MPI_SUCCESS) return code;
    code = MPI_Comm_set_errhandler(new, MPI_ERRORS_RETURN);
    Duplicate *one = code == MPI_SUCCESS && own->of ? malloc(sizeof *one) : NULL;
    if (code == MPI_SUCCESS && own->of && !one) code = MPI_ERR_NO_MEM;
    if (code != MPI_SUCCESS) {
        MPI_Comm_free(&new);
        return code;
    }
    own->comm = new;
    own->settled = 1;
    if (!one) return MPI_SUCCESS;
    own->own = one;
    lock();
    *one = (Duplicate){.comm = new, .number = ++own->of->made, .in_use = 1};
    Duplicate **at = &own->of->first;
    while (*at) at = &(*at)->next;
    *at = one;
    unlock();
    return MPI_SUCCESS;
}

static void release(void *comm, int how) {
    Communicator *own = comm;
    if (own->of) {
        int left = 0;
        /* A message that nobody took would reach whoever uses the duplicate next. */
        if (own->settled && how == THALWEG_MPI_KEEP &&
            (MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, own->comm, &left, MPI_STATUS_IGNORE) != MPI_SUCCESS || left))
            how = THALWEG_MPI_FREE;
        lock();
        if (own->own && !own->settled) {
            own->own->in_use = 0;
            how = THALWEG_MPI_FORGET;
        } else if (own->own && how == THALWEG_MPI_KEEP && !own->of->gone) {
            give_back(own->of, own->own);
            how = THALWEG_MPI_FORGET;
        } else if (own->own) {
            free(take_out(own->of, own->own));
        }
        leave(own->of);
        unlock();
    }
    if (own->settled && how != THALWEG_MPI_FORGET) MPI_Comm_free(&own->comm);
    free(own);
}

/* Point to point. */

/* A datatype for `count` bytes and how many of it; `made` says whether it must be freed. */
static int bytes_type(uint64_t count, MPI_Datatype *type, int *number, int *made) {
    const uint64_t block = THALWEG_MPI_LARGE_BYTES;
    *type = MPI_BYTE;
    *number = (int)count;
    *made = 0;
    if (count <= block) return MPI_SUCCESS;
    if (count / block > INT_MAX) return MPI_ERR_COUNT;
    MPI_Datatype one = MPI_DATATYPE_NULL;
    int code = MPI_Type_contiguous((int)block, MPI_BYTE, &one);
    if (code != MPI_SUCCESS) return code;
    int lengths[2] = {(int)(count / block), (int)(count % block)};
    MPI_Aint offsets[2] = {0, (MPI_Aint)(count - count % block)};
    MPI_Datatype types[2] = {one, MPI_BYTE};
    code = MPI_Type_create_struct(lengths[1] ? 2 : 1, lengths, offsets, types, type);
    MPI_Type_free(&one);
    if (code != MPI_SUCCESS) return code;
    *number = 1;
    *made = 1;
    return MPI_Type_commit(type);
}

static int start_send(void *comm, const void *bytes, uint64_t count, uint32_t to, uint32_t tag,
                      ThalwegMpiToken *token) {
    MPI_Datatype type;
    int number, made;
    int code = bytes_type(count, &type, &number, &made);
    if (code != MPI_SUCCESS) return code;
    MPI_Request request = MPI_REQUEST_NULL;
    code = MPI_Isend(bytes, number, type, (int)to, (int)tag, comm_of(comm), &request);
    if (made) MPI_Type_free(&type); /* lives on until the request is done */
    keep_request(request, token);
    return code;
}

static int start_receive(void *comm, void *bytes, uint64_t count, uint32_t from, uint32_t tag,
                         ThalwegMpiToken *token) {
    MPI_Datatype type;
    int number, made;
    int code = bytes_type(count, &type, &number, &made);
    if (code != MPI_SUCCESS) return code;
    MPI_Request request = MPI_REQUEST_NULL;
    code = MPI_Irecv(bytes, number, type, (int)from, (int)tag, comm_of(comm), &request);
    if (made) MPI_Type_free(&type);
    keep_request(request, token);
    return code;
}

static int match(void *comm, int64_t from, uint32_t tag, int *found, uint32_t *sender, uint64_t *count,
                 ThalwegMpiToken *token) {
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Status status;
    *found = 0;
    int code = MPI_Improbe(from < 0 ? MPI_ANY_SOURCE : (int)from, (int)tag, comm_of(comm), found, &message, &status);
    if (code != MPI_SUCCESS || !*found) return code;
    MPI_Count bytes = 0;
    code = MPI_Get_elements_x(&status, MPI_BYTE, &bytes);
    *sender = (uint32_t)status.MPI_SOURCE;
    *count = (uint64_t)bytes;
    *token = 0;
    memcpy(token, &message, sizeof message);
    return code;
}

static int receive_matched(void *bytes, uint64_t count, ThalwegMpiToken *message_token, ThalwegMpiToken *token) {
    MPI_Datatype type;
    int number, made;
    int code = bytes_type(count, &type, &number, &made);
    if (code != MPI_SUCCESS) return code;
    MPI_Message message;
    memcpy(&message, message_token, sizeof message);
    MPI_Request request = MPI_REQUEST_NULL;
    code = MPI_Imrecv(bytes, number, type, &message, &request);
    if (made) MPI_Type_free(&type);
    keep_request(request, token);
    return code;
}

static int test(ThalwegMpiToken *token, int *done) {
    MPI_Request request = request_of(token);
    int code = MPI_Test(&request, done, MPI_STATUS_IGNORE);
    keep_request(request, token);
    return code;
}

/* Collective. */

static int barrier(void *comm, ThalwegMpiToken *token) {
    MPI_Request request = MPI_REQUEST_NULL;
    int code = MPI_Ibarrier(comm_of(comm), &request);
    keep_request(request, token);
    return code;
}

static int broadcast(void *comm, void *bytes, int count, uint32_t root, ThalwegMpiToken *token) {
    MPI_Request request = MPI_REQUEST_NULL;
    int code = MPI_Ibcast(bytes, count, MPI_BYTE, (int)root, comm_of(comm), &request);
    keep_request(request, token);
    return code;
}

static int gather(void *comm, const void *own, void *all, int count, uint32_t root, ThalwegMpiToken *token) {
    MPI_Request request = MPI_REQUEST_NULL;
    int code = MPI_Igather(own, count, MPI_BYTE, all, count, MPI_BYTE, (int)root, comm_of(comm), &request);
    keep_request(request, token);
    return code;
}

static int scatter(void *comm, const void *all, void *own, int count, uint32_t root, ThalwegMpiToken *token) {
    MPI_Request request = MPI_REQUEST_NULL;
    int code = MPI_Iscatter(all, count, MPI_BYTE, own, count, MPI_BYTE, (int)root, comm_of(comm), &request);
    keep_request(request, token);
    return code;
}

static int all_gather(void *comm, const void *own, void *all, int count, ThalwegMpiToken *token) {
    MPI_Request request = MPI_REQUEST_NULL;
    int code = MPI_Iallgather(own, count, MPI_BYTE, all, count, MPI_BYTE, comm_of(comm), &request);
    keep_request(request, token);
    return code;
}

static int all_gather_lengths(void *comm, const void *own, int own_count, void *all, const int *counts,
                              const int *offsets, ThalwegMpiToken *token) {
    MPI_Request request = MPI_REQUEST_NULL;
    int code = MPI_Iallgatherv(own, own_count, MPI_BYTE, all, counts, offsets, MPI_BYTE, comm_of(comm), &request);
    keep_request(request, token);
    return code;
}

static int all_to_all(void *comm, const void *out, void *in, int count, ThalwegMpiToken *token) {
    MPI_Request request = MPI_REQUEST_NULL;
    int code = MPI_Ialltoall(out, count, MPI_BYTE, in, count, MPI_BYTE, comm_of(comm), &request);
    keep_request(request, token);
    return code;
}

static int exclusive_scan(void *comm, const uint64_t *own, uint64_t *sum, ThalwegMpiToken *token) {
    MPI_Request request = MPI_REQUEST_NULL;
    int code = MPI_Iexscan(own, sum, 1, MPI_UINT64_T, MPI_SUM, comm_of(comm), &request);
    keep_request(request, token);
    return code;
}

static int all_reduce(void *comm, const uint64_t *own, uint64_t *all, int numbers, int how, ThalwegMpiToken *token) {
    MPI_Op op = how == THALWEG_MPI_MIN ? MPI_MIN : how == THALWEG_MPI_MAX ? MPI_MAX : MPI_SUM;
    MPI_Request request = MPI_REQUEST_NULL;
    int code = MPI_Iallreduce(own, all, numbers, MPI_UINT64_T, op, comm_of(comm), &request);
    keep_request(request, token);
    return code;
}

/* Shared windows. */

static int window_make(void *comm, uint64_t bytes, void **made) {
    uint32_t rank = 0, size = 0;
    *made = NULL;
    int code = rank_and_size(comm, &rank, &size);
    if (code != MPI_SUCCESS) return code;
    Window *window = malloc(sizeof *window + size * sizeof window->parts[0]);
    if (!window) return MPI_ERR_NO_MEM;
    void *own = NULL;
    code = MPI_Win_allocate_shared((MPI_Aint)bytes, 1, MPI_INFO_NULL, comm_of(comm), &own, &window->win);
    if (code != MPI_SUCCESS) {
        free(window);
        return code;
    }
    window->size = size;
    code = MPI_Win_set_errhandler(window->win, MPI_ERRORS_RETURN);
    for (uint32_t r = 0; r < size && code == MPI_SUCCESS; r++) {
        MPI_Aint length = 0;
        int unit = 1;
        void *start = NULL;
        code = MPI_Win_shared_query(window->win, (int)r, &length, &unit, &start);
        window->parts[r].start = start;
        window->parts[r].bytes = (uint64_t)length;
    }
    /* One long epoch, so that memory is only ever ordered by window_sync and the barrier of the caller. */
    if (code == MPI_SUCCESS) code = MPI_Win_lock_all(MPI_MODE_NOCHECK, window->win);
    if (code != MPI_SUCCESS) {
        free(window);
        return code;
    }
    *made = window;
    return MPI_SUCCESS;
}

static uint64_t window_length(void *window, uint32_t rank) {
    Window *own = window;
    return rank < own->size ? own->parts[rank].bytes : 0;
}

static void window_put(void *window, uint32_t rank, uint64_t offset, const void *bytes, uint64_t count) {
    if (count) memcpy(((Window *)window)->parts[rank].start + offset, bytes, count);
}

static void window_get(void *window, uint32_t rank, uint64_t offset, void *bytes, uint64_t count) {
    if (count) memcpy(bytes, ((Window *)window)->parts[rank].start + offset, count);
}

static const void *window_start(void *window, uint32_t rank) { return ((Window *)window)->parts[rank].start; }

static int window_sync(void *window) { return MPI_Win_sync(((Window *)window)->win); }

static int window_free(void *window) {
    Window *own = window;
    int code = MPI_Win_unlock_all(own->win);
    if (code == MPI_SUCCESS) code = MPI_Win_free(&own->win);
    free(own);
    return code;
}

static void window_forget(void *window) { free(window); }

const ThalwegMpiTable *thalweg_mpi_table(void) {
    static const ThalwegMpiTable table = {
        .version = THALWEG_MPI_VERSION,
        .table_bytes = sizeof(ThalwegMpiTable),
        .large_bytes = THALWEG_MPI_LARGE_BYTES,
        .ready = ready,
        .thread_level = thread_level,
        .error_sort = error_sort,
        .error_text = error_text,
        .at_end = at_end,
        .rank_and_size = rank_and_size,
        .largest_tag = largest_tag,
        .duplicate = duplicate,
        .split = split,
        .split_by_node = split_by_node,
        .offer = offer,
        .settle = settle,
        .release = release,
        .send = start_send,
        .receive = start_receive,
        .match = match,
        .receive_matched = receive_matched,
        .test = test,
        .barrier = barrier,
        .broadcast = broadcast,
        .gather = gather,
        .scatter = scatter,
        .all_gather = all_gather,
        .all_gather_lengths = all_gather_lengths,
        .all_to_all = all_to_all,
        .exclusive_scan = exclusive_scan,
        .all_reduce = all_reduce,
        .window_make = window_make,
        .window_length = window_length,
        .window_put = window_put,
        .window_get = window_get,
        .window_start = window_start,
        .window_sync = window_sync,
        .window_free = window_free,
        .window_forget = window_forget,
    };
    return &table;
}

void *thalweg_mpi_wrap(MPI_Comm comm) {
    if (ready() != THALWEG_MPI_READY || comm == MPI_COMM_NULL) return NULL;
    int inter = 0;
    if (MPI_Comm_test_inter(comm, &inter) != MPI_SUCCESS || inter) return NULL;
    Communicator *own = malloc(sizeof *own);
    if (!own) return NULL;
    *own = (Communicator){.comm = comm, .of = duplicates_of(comm)};
    if (own->of) {
        lock();
        own->of->users++;
        unlock();
    }
    return own;
}

void *thalweg_mpi_wrap_at(const void *comm) { return comm ? thalweg_mpi_wrap(*(const MPI_Comm *)comm) : NULL; }
