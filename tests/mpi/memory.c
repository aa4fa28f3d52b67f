/* Outputs while the system gives ever less memory: memory FOLDER NAME. FOLDER/NAME.xml says how FOLDER/NAME.bp is written.
 *
 * The first step has all the memory it wants. Before each further one every rank sees to it that it can get no more than so
 * many MiB, which it may get again afterwards. All ranks must close with one error or none; a step that was closed must read
 * back, whatever became of later ones: it is printed, "closed STEP", or "failed ERROR". */
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "mpi.h"
#include "adios.h"

extern int adios_errno;

enum { BYTES = 8 << 20 };

static void must(int holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "%s: %s\n", what, adios_errmsg());
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

static uint64_t in_use(void)
{
    char line[256];
    uint64_t kib = 0;
    FILE *status = fopen("/proc/self/status", "r");
    must(status != NULL, "/proc/self/status");
    while (fgets(line, sizeof line, status))
        if (strncmp(line, "VmSize:", 7) == 0) kib = strtoull(line + 7, NULL, 10);
    fclose(status);
    return kib << 10;
}

static void allow(rlim_t bytes)
{
    struct rlimit limit;
    must(getrlimit(RLIMIT_AS, &limit) == 0, "getrlimit");
    limit.rlim_cur = bytes;
    must(setrlimit(RLIMIT_AS, &limit) == 0, "setrlimit");
}

int main(int argc, char **argv)
{
    static const unsigned rooms[] = {0, 256, 64, 32, 24, 16, 12, 8, 6, 4, 3, 2, 0};
    static char data[BYTES];
    char config[4096], file[4096];
    int rank, ranks, step = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    must(argc == 3, "arguments");
    /* What is freed goes back to the system at once. */
    must(mallopt(M_MMAP_THRESHOLD, 32 << 10) == 1, "mallopt");
    snprintf(config, sizeof config, "%s/%s.xml", argv[1], argv[2]);
    snprintf(file, sizeof file, "%s/%s.bp", argv[1], argv[2]);
    for (size_t i = 0; i < sizeof rooms / sizeof *rooms; i++) {
        int64_t f;
        /* A session of its own: another would have memory left of the step before. */
        must(adios_init(config, MPI_COMM_WORLD) == 0, "adios_init");
        memset(data, 16 * rank + step % 16, sizeof data);
        malloc_trim(0);
        if (rooms[i]) allow(in_use() + ((uint64_t)rooms[i] << 20));
        int opened = adios_open(&f, "g", file, i == 0 ? "w" : "a", MPI_COMM_WORLD);
        int outcome = opened;
        if (opened == 0) {
            adios_write(f, "a", data);
            adios_write(f, "b", data);
            outcome = adios_close(f);
        }
        int error = outcome ? adios_errno : 0;
        allow(RLIM_INFINITY);
        int ends[2] = {error, -error};
        MPI_Allreduce(MPI_IN_PLACE, ends, 2, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
        must(ends[0] == -ends[1], "all ranks get one error or none");
        if (rank == 0) {
            if (error == 0) printf("closed %d with %u MiB\n", step, rooms[i]);
            else printf("failed %d with %u MiB: %s\n", error, rooms[i], adios_errmsg());
            fflush(stdout);
        }
        if (error == 0) step++;
        must(adios_finalize(rank) == 0, "adios_finalize");
    }
    MPI_Finalize();
    return 0;
}
