/* Counts and times the calls of a program that matter for its output: of MPI by its profiling interface, of the system by taking their
 * names. Loaded before both. At MPI_Finalize rank 0 says the sums over all ranks: `value calls/NAME N` and `value seconds/NAME S`.
 *
 * $CALLS_OF: the name of the contender. What a call makes inside of it counts too: a write of MPI-IO is a call of MPI and one of the system. */
#include <dlfcn.h>
#include <fcntl.h>
#include <mpi.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { WRITE, OPEN, SEND, RECEIVE, COLLECTIVE, FILE_OPEN, FILE_WRITE, KINDS };
static const char *const names[KINDS] = {"write", "open", "MPI_send", "MPI_receive", "MPI_collective", "MPI_File_open", "MPI_File_write"};
static long counts[KINDS];
static double seconds[KINDS];

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void add(int kind, double begin)
{
    __atomic_add_fetch(&counts[kind], 1, __ATOMIC_RELAXED);
    seconds[kind] += now() - begin;
}

/* The next definition of a name of the system. */
static void *next_of(const char *name)
{
    void *next = dlsym(RTLD_NEXT, name);
    if (!next) abort();
    return next;
}

#define WRITES(name, parameters, arguments) \
    ssize_t name parameters \
    { \
        static ssize_t (*next) parameters; \
        if (!next) *(void **)&next = next_of(#name); \
        double begin = now(); \
        ssize_t done = next arguments; \
        if (fd > 2) add(WRITE, begin); \
        return done; \
    }

WRITES(write, (int fd, const void *from, size_t n), (fd, from, n))
WRITES(pwrite, (int fd, const void *from, size_t n, off_t at), (fd, from, n, at))
WRITES(pwrite64, (int fd, const void *from, size_t n, off64_t at), (fd, from, n, at))
WRITES(writev, (int fd, const struct iovec *from, int n), (fd, from, n))
WRITES(pwritev, (int fd, const struct iovec *from, int n, off_t at), (fd, from, n, at))
WRITES(pwritev64, (int fd, const struct iovec *from, int n, off64_t at), (fd, from, n, at))

#define OPENS(name) \
    int name(const char *path, int flags, ...) \
    { \
        static int (*next)(const char *, int, ...); \
        if (!next) *(void **)&next = next_of(#name); \
        va_list more; \
        va_start(more, flags); \
        mode_t mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(more, mode_t) : 0; \
        va_end(more); \
        double begin = now(); \
        int fd = next(path, flags, mode); \
        if (flags & (O_WRONLY | O_RDWR)) add(OPEN, begin); \
        return fd; \
    }

OPENS(open)
OPENS(open64)

#define CALLS(kind, name, parameters, arguments) \
    int MPI_##name parameters \
    { \
        double begin = now(); \
        int status = PMPI_##name arguments; \
        add(kind, begin); \
        return status; \
    }

CALLS(SEND, Send, (const void *b, int n, MPI_Datatype t, int to, int tag, MPI_Comm c), (b, n, t, to, tag, c))
CALLS(SEND, Isend, (const void *b, int n, MPI_Datatype t, int to, int tag, MPI_Comm c, MPI_Request *r), (b, n, t, to, tag, c, r))
CALLS(RECEIVE, Recv, (void *b, int n, MPI_Datatype t, int from, int tag, MPI_Comm c, MPI_Status *s), (b, n, t, from, tag, c, s))
CALLS(RECEIVE, Irecv, (void *b, int n, MPI_Datatype t, int from, int tag, MPI_Comm c, MPI_Request *r), (b, n, t, from, tag, c, r))
CALLS(RECEIVE, Imrecv, (void *b, int n, MPI_Datatype t, MPI_Message *m, MPI_Request *r), (b, n, t, m, r))
CALLS(COLLECTIVE, Bcast, (void *b, int n, MPI_Datatype t, int root, MPI_Comm c), (b, n, t, root, c))
CALLS(COLLECTIVE, Ibcast, (void *b, int n, MPI_Datatype t, int root, MPI_Comm c, MPI_Request *r), (b, n, t, root, c, r))
CALLS(COLLECTIVE, Barrier, (MPI_Comm c), (c))
CALLS(COLLECTIVE, Ibarrier, (MPI_Comm c, MPI_Request *r), (c, r))
CALLS(COLLECTIVE, Allreduce, (const void *b, void *into, int n, MPI_Datatype t, MPI_Op o, MPI_Comm c), (b, into, n, t, o, c))
CALLS(COLLECTIVE, Iallreduce, (const void *b, void *into, int n, MPI_Datatype t, MPI_Op o, MPI_Comm c, MPI_Request *r), (b, into, n, t, o, c, r))
CALLS(COLLECTIVE, Iexscan, (const void *b, void *into, int n, MPI_Datatype t, MPI_Op o, MPI_Comm c, MPI_Request *r), (b, into, n, t, o, c, r))
CALLS(COLLECTIVE, Allgather, (const void *b, int n, MPI_Datatype t, void *into, int m, MPI_Datatype u, MPI_Comm c), (b, n, t, into, m, u, c))
CALLS(COLLECTIVE, Iallgather, (const void *b, int n, MPI_Datatype t, void *into, int m, MPI_Datatype u, MPI_Comm c, MPI_Request *r),
      (b, n, t, into, m, u, c, r))
CALLS(COLLECTIVE, Igather, (const void *b, int n, MPI_Datatype t, void *into, int m, MPI_Datatype u, int root, MPI_Comm c, MPI_Request *r),
      (b, n, t, into, m, u, root, c, r))
CALLS(COLLECTIVE, Igatherv,
      (const void *b, int n, MPI_Datatype t, void *into, const int *m, const int *d, MPI_Datatype u, int root, MPI_Comm c, MPI_Request *r),
      (b, n, t, into, m, d, u, root, c, r))
CALLS(COLLECTIVE, Iscatterv,
      (const void *b, const int *n, const int *d, MPI_Datatype t, void *into, int m, MPI_Datatype u, int root, MPI_Comm c, MPI_Request *r),
      (b, n, d, t, into, m, u, root, c, r))
CALLS(FILE_OPEN, File_open, (MPI_Comm c, const char *p, int mode, MPI_Info i, MPI_File *f), (c, p, mode, i, f))
CALLS(FILE_WRITE, File_write_at, (MPI_File f, MPI_Offset at, const void *b, int n, MPI_Datatype t, MPI_Status *s), (f, at, b, n, t, s))
CALLS(FILE_WRITE, File_write_at_all, (MPI_File f, MPI_Offset at, const void *b, int n, MPI_Datatype t, MPI_Status *s), (f, at, b, n, t, s))

int MPI_Finalize(void)
{
    const char *of = getenv("CALLS_OF");
    long all[KINDS];
    double all_seconds[KINDS];
    int rank;
    PMPI_Reduce(counts, all, KINDS, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    PMPI_Reduce(seconds, all_seconds, KINDS, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 0; i < KINDS && rank == 0 && of; i++) {
        printf("value calls/%s/%s %ld\nvalue seconds/%s/%s %.6f\n", of, names[i], all[i], of, names[i], all_seconds[i]);
    }
    fflush(stdout);
    return PMPI_Finalize();
}
