/* Three steps on any number of ranks, computing in between; rank 2 comes late to every close. */
#include <adios.h>
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>

static int failed(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, adios_get_last_errmsg());
    MPI_Abort(MPI_COMM_WORLD, 1);
    return 1;
}

int main(int argc, char **argv)
{
    int rank, ranks;
    double values[1024];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc != 3 || adios_init(argv[1], MPI_COMM_WORLD)) return failed("init");
    for (int step = 0; step < 3; step++) {
        int64_t file;
        adios_start_calculation();
        for (int i = 0; i < 1024; i++) values[i] = rank + step * i;
        usleep(20000);
        adios_stop_calculation();
        adios_end_iteration();
        if (adios_open(&file, "g", argv[2], step ? "a" : "w", MPI_COMM_WORLD)) return failed("open");
        if (adios_write(file, "rank", &rank) || adios_write(file, "ranks", &ranks)) return failed("write");
        if (adios_write(file, "v", values)) return failed("write");
        if (rank == 2) usleep(100000);
        if (adios_close(file)) return failed("close");
    }
    if (adios_finalize(rank)) return failed("finalize");
    MPI_Finalize();
    return 0;
}
