/* What the writers of this bench share: what each rank writes, raw writes to compare with, and the turns they take.
 *
 * Every rank has a slab of a global array of doubles, MIB mebibytes, the slabs lying behind each other along the slowest
 * dimension: for a file that holds the array in order that is the best case. One measurement lasts from before the
 * open until after the close of the slowest rank. Step 0 of a run is told apart: it finds no buffer and no page warm. */
#ifndef WORLD_H
#define WORLD_H

#include <errno.h>
#include <fcntl.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NY = 256, NX = 256 };

typedef struct {
    MPI_Comm comm;
    int rank, ranks;
    int rows;      /* of NY x NX doubles, in this rank's slab */
    uint64_t bytes;
    double *data;
} World;

typedef struct Contender {
    const char *name;
    void (*write)(const World *w, const char *name, const char *path);
} Contender;

static inline void stop(const World *w, const char *doing, const char *why)
{
    fprintf(stderr, "rank %d: %s: %s\n", w->rank, doing, why);
    MPI_Abort(w->comm, 1);
}

static inline void raw_write(const World *w, int fd, uint64_t offset)
{
    for (uint64_t done = 0; done < w->bytes;) {
        ssize_t n = pwrite(fd, (const char *)w->data + done, w->bytes - done, (off_t)(offset + done));
        if (n <= 0) stop(w, "pwrite", strerror(errno));
        done += (uint64_t)n;
    }
    if (close(fd)) stop(w, "close", strerror(errno));
}

/* The same bytes by the same ranks, one pwrite each, into one file. */
static inline void write_raw_shared(const World *w, const char *name, const char *path)
{
    (void)name;
    int fd = -1;
    if (w->rank == 0) fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    MPI_Barrier(w->comm);
    if (w->rank != 0) fd = open(path, O_WRONLY);
    if (fd < 0) stop(w, path, strerror(errno));
    raw_write(w, fd, (uint64_t)w->rank * w->bytes);
}

/* ... and into a file each. */
static inline void write_raw_each(const World *w, const char *name, const char *path)
{
    (void)name;
    char own[4096];
    snprintf(own, sizeof own, "%s.%d", path, w->rank);
    int fd = open(own, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (fd < 0) stop(w, own, strerror(errno));
    raw_write(w, fd, 0);
}

/* Removes whatever a contender made of `path`. Its pages need not be written back then. */
static inline void remove_output(const World *w, const char *path)
{
    MPI_Barrier(w->comm);
    if (w->rank == 0) {
        char name[4096];
        const char *base = strrchr(path, '/') + 1;
        unlink(path);
        for (int r = 0; r < w->ranks; r++) {
            snprintf(name, sizeof name, "%s.%d", path, r);
            unlink(name);
            snprintf(name, sizeof name, "%s.dir/%s.%d", path, base, r);
            unlink(name);
        }
        snprintf(name, sizeof name, "%s.dir", path);
        if (rmdir(name) && errno != ENOENT) stop(w, name, strerror(errno));
    }
    MPI_Barrier(w->comm);
}

/* begin FOLDER MIB: MPI, and a slab of noise. */
static inline World world_begin(int *argc, char ***argv)
{
    MPI_Init(argc, argv);
    World w = {.comm = MPI_COMM_WORLD};
    MPI_Comm_rank(w.comm, &w.rank);
    MPI_Comm_size(w.comm, &w.ranks);
    if (*argc < 4) stop(&w, "arguments", "FOLDER MIB STEPS ...");
    uint64_t mib = strtoull((*argv)[2], NULL, 10);
    w.rows = (int)(mib * 1048576 / (NY * NX * sizeof(double)));
    w.bytes = (uint64_t)w.rows * NY * NX * sizeof(double);
    w.data = malloc(w.bytes);
    if (!w.data || w.rows == 0) stop(&w, "memory for the data", (*argv)[2]);
    uint64_t state = 88172645463325252ull + (uint64_t)w.rank;
    for (uint64_t i = 0; i < w.bytes / sizeof(double); i++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        w.data[i] = (double)(state >> 11) / 9007199254740992.0;
    }
    return w;
}

/* Lets the contenders take turns, another one first at each step. */
static inline void take_turns(const World *w, const char *folder, int steps, const char *label, const Contender *all, int n)
{
    for (int step = 0; step <= steps; step++) {
        for (int i = 0; i < n; i++) {
            const Contender *c = &all[(i + step) % n];
            char path[2048];
            snprintf(path, sizeof path, "%s/%s.bp", folder, c->name);
            remove_output(w, path);
            w->data[step] += 1.0; /* every step is another one */
            MPI_Barrier(w->comm);
            double before = MPI_Wtime();
            c->write(w, c->name, path);
            double mine = MPI_Wtime() - before, slowest;
            MPI_Reduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, w->comm);
            if (w->rank == 0) printf("value %s:%s%s %.6f\n", label, c->name, step ? "" : "/first", slowest);
            remove_output(w, path);
        }
    }
}

#endif
