/* kill CONFIG.xml FILE FIRST [STEPS]: appends steps FIRST, FIRST + 1, ... until it is killed, or so many. What it writes is a function of step
 * and rank, the same as in kill.rs. Every rank prints "pid N", rank 0 "closed N" behind each close. */
#include <adios.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int size_of(long step) { return 16 + (int)(step * 7919 % 613) * (step % 13 == 0 ? 64 : 1); }

static double value(long step, int rank, int i) { return step * 1048576.0 + rank * 65536.0 + i; }

static void must(int status, const char *what)
{
    if (status != 0) {
        fprintf(stderr, "%s: %s\n", what, adios_get_last_errmsg());
        exit(1);
    }
}

int main(int argc, char **argv)
{
    MPI_Comm comm = MPI_COMM_WORLD;
    int rank, ranks;
    if (argc != 4 && argc != 5) {
        fprintf(stderr, "usage: kill CONFIG.xml FILE FIRST [STEPS]\n");
        return 2;
    }
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &ranks);
    printf("pid %d\n", (int)getpid());
    fflush(stdout);
    must(adios_init(argv[1], comm), "adios_init");
    MPI_Barrier(comm);
    if (rank == 0) {
        printf("ready\n");
        fflush(stdout);
    }
    int64_t first = atol(argv[3]);
    for (int64_t step = first; argc == 4 || step < first + atol(argv[4]); step++) {
        int nx = size_of(step);
        char note[32];
        int64_t fd;
        uint64_t total;
        double c[4], *t = malloc(nx * sizeof *t);
        float *extra = malloc(nx * sizeof *extra);
        snprintf(note, sizeof note, "step %ld", (long)step);
        for (int i = 0; i < nx; i++) {
            t[i] = value(step, rank, i);
            extra[i] = (float)(rank + i);
        }
        memcpy(c, t, sizeof c);
        must(adios_open(&fd, "kill", argv[2], step == 0 ? "w" : "a", comm), "adios_open");
        must(adios_group_size(fd, nx * 12 + 100, &total), "adios_group_size");
        must(adios_write(fd, "step", &step), "step");
        must(adios_write(fd, "rank", &rank), "rank");
        must(adios_write(fd, "ranks", &ranks), "ranks");
        must(adios_write(fd, "nx", &nx), "nx");
        must(adios_write(fd, "note", note), "note");
        must(adios_write(fd, "t", t), "t");
        must(adios_write(fd, "c", c), "c");
        if (step % 2 == 0) {
            must(adios_write(fd, "extra", extra), "extra");
        }
        must(adios_close(fd), "adios_close");
        free(t);
        free(extra);
        if (rank == 0) {
            printf("closed %ld\n", (long)step);
            fflush(stdout);
        }
    }
    must(adios_finalize(rank), "adios_finalize");
    return MPI_Finalize();
}
