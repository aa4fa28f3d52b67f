/* What the writers of this bench share: the loads, the turns they take, and how an output is checked.
 *
 * Every rank has a slab of each global array of a load, the slabs lying behind each other along the slowest dimension: for a
 * file that holds arrays in order that is the best case. One measurement lasts from before the first rank's open until after
 * the last rank's close, by the clock that all ranks of a machine share. Nobody syncs: bytes go into the page cache. */
#ifndef WORLD_H
#define WORLD_H

#include <errno.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { COLUMNS = 1024 }; /* doubles in a row of every array: 8 KiB */

/* What an output consists of. */
typedef struct {
    char name[32];
    int variables; /* global arrays, named v000, v001, ... */
    int rows;      /* of COLUMNS doubles, of this rank, in each */
    int steps;     /* outputs measured in one run */
} Load;

typedef struct {
    MPI_Comm comm;
    int rank, ranks;
    Load loads[8];
    int count;
    double *data; /* arrays one behind the other, for the largest load */
} World;

typedef struct {
    const char *name;
    void (*write)(const World *w, const Load *load, const char *name, const char *path);
    /* Reads this rank's part of an array back; NULL where the program has no way to. */
    void (*read)(const World *w, const Load *load, const char *path, int variable, double *into);
} Contender;

static inline void stop(const World *w, const char *doing, const char *why)
{
    fprintf(stderr, "rank %d: %s: %s\n", w->rank, doing, why);
    MPI_Abort(w->comm, 1);
}

static inline size_t values(const Load *load) { return (size_t)load->rows * COLUMNS; }

static inline double *array(const World *w, const Load *load, int variable) { return w->data + variable * values(load); }

/* Arguments: FOLDER LABEL CHECK LOADS, then the program's own. LOADS: NAME:VARIABLES:KIB:STEPS, with commas between. */
static inline World world_begin(int *argc, char ***argv)
{
    MPI_Init(argc, argv);
    World w = {.comm = MPI_COMM_WORLD};
    MPI_Comm_rank(w.comm, &w.rank);
    MPI_Comm_size(w.comm, &w.ranks);
    if (*argc < 5) stop(&w, "arguments", "FOLDER LABEL CHECK LOADS ...");
    size_t most = 0;
    for (char *word = strtok((*argv)[4], ","); word && w.count < 8; word = strtok(NULL, ",")) {
        Load *load = &w.loads[w.count++];
        int kib;
        if (sscanf(word, "%31[^:]:%d:%d:%d", load->name, &load->variables, &kib, &load->steps) != 4) stop(&w, "load", word);
        load->rows = kib / 8;
        if (load->rows * load->variables == 0) stop(&w, "load", word);
        if (load->variables * values(load) > most) most = load->variables * values(load);
    }
    w.data = malloc(most * sizeof(double));
    if (!w.data) stop(&w, "memory", "for the data");
    uint64_t state = 88172645463325252ull + (uint64_t)w.rank;
    for (size_t i = 0; i < most; i++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        w.data[i] = (double)(state >> 11) / 9007199254740992.0;
    }
    return w;
}

static inline double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
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

static inline void check_output(const World *w, const Load *load, const Contender *c, const char *path)
{
    MPI_Barrier(w->comm);
    double *back = malloc(values(load) * sizeof(double));
    for (int v = 0; v < load->variables; v++) {
        memset(back, 0, values(load) * sizeof(double));
        c->read(w, load, path, v, back);
        if (memcmp(back, array(w, load, v), values(load) * sizeof(double))) stop(w, c->name, "another array came back");
    }
    free(back);
}

/* Lets the contenders take turns, each in a folder of its own, another one first at each step. Step 0 is not measured: it
 * finds no buffer and no page warm. With CHECK its outputs are read back and compared. */
static inline void take_turns(World *w, char **argv, const Contender *all, int n)
{
    const char *folder = argv[1], *label = argv[2];
    int check = atoi(argv[3]);
    for (int i = 0; i < n && w->rank == 0; i++) {
        char own[2048];
        snprintf(own, sizeof own, "%s/%s", folder, all[i].name);
        if (mkdir(own, 0755) && errno != EEXIST) stop(w, own, strerror(errno));
    }
    for (int l = 0; l < w->count; l++) {
        const Load *load = &w->loads[l];
        for (int step = 0; step <= load->steps; step++) {
            for (int i = 0; i < n; i++) {
                const Contender *c = &all[(i + step) % n];
                char path[2048];
                snprintf(path, sizeof path, "%s/%s/%s.out", folder, c->name, c->name);
                remove_output(w, path);
                w->data[step] += 1.0; /* every step is another one */
                MPI_Barrier(w->comm);
                double mine[2] = {-now(), 0}, all_ranks[2];
                c->write(w, load, c->name, path);
                mine[1] = now();
                MPI_Reduce(mine, all_ranks, 2, MPI_DOUBLE, MPI_MAX, 0, w->comm);
                if (step == 0 && check && c->read) check_output(w, load, c, path);
                if (step > 0 && w->rank == 0) printf("value %s/%s/%s %.6f\n", load->name, label, c->name, all_ranks[0] + all_ranks[1]);
                remove_output(w, path);
            }
        }
    }
}

#endif
