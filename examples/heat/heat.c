/* heat: a plate that is hot along one edge, shared among MPI ranks by rows. README.md describes the file.
 *
 *   mpicc heat.c $(pkg-config --cflags --libs thalweg) -o heat && mpiexec -n 3 ./heat heat.xml heat.bp */
#include <adios.h>
#include <stdio.h>
#include <stdlib.h>

enum { NY = 24, NX = 32, GAP = 50, OUTPUTS = 5 };

static void must(int status, const char *doing)
{
    if (status == 0) return;
    fprintf(stderr, "heat: %s: %s\n", doing, adios_get_last_errmsg());
    MPI_Abort(MPI_COMM_WORLD, 1);
}

int main(int argc, char **argv)
{
    const char *config = argc > 1 ? argv[1] : "heat.xml", *path = argc > 2 ? argv[2] : "heat.bp";
    MPI_Comm comm = MPI_COMM_WORLD;
    int rank, ranks, ny = NY, nx = NX;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &ranks);

    /* Rows of this rank; the first ranks get one more if the rows do not divide evenly. Row 0 and row rows + 1 are ghosts.
     * */
    int rows = NY / ranks + (rank < NY % ranks);
    int first = rank * (NY / ranks) + (rank < NY % ranks ? rank : NY % ranks);
    int above = rank > 0 ? rank - 1 : MPI_PROC_NULL, below = rank < ranks - 1 ? rank + 1 : MPI_PROC_NULL;
    double (*t)[NX] = calloc((size_t)rows + 2, sizeof *t), (*next)[NX] = calloc((size_t)rows + 2, sizeof *next);
    if (!t || !next) MPI_Abort(comm, 1);
    if (rank == 0)
        for (int x = 0; x < NX; x++) t[1][x] = next[1][x] = 100.0;

    must(adios_init(config, comm), "configuring");
    for (int iteration = 0; iteration <= GAP * (OUTPUTS - 1); iteration++) {
        if (iteration % GAP == 0) {
            int64_t file;
            double time = 0.25 * iteration;
            must(adios_open(&file, "heat", path, iteration == 0 ? "w" : "a", comm), "opening");
            int status = adios_write(file, "ny", &ny) || adios_write(file, "nx", &nx) || adios_write(file, "rows", &rows) ||
                         adios_write(file, "first", &first) || adios_write(file, "iteration", &iteration) ||
                         adios_write(file, "time", &time) || adios_write(file, "T", t[1]);
            must(status, "writing");
            must(adios_close(file), "closing");
        }
        MPI_Sendrecv(t[1], NX, MPI_DOUBLE, above, 0, t[rows + 1], NX, MPI_DOUBLE, below, 0, comm, MPI_STATUS_IGNORE);
        MPI_Sendrecv(t[rows], NX, MPI_DOUBLE, below, 1, t[0], NX, MPI_DOUBLE, above, 1, comm, MPI_STATUS_IGNORE);
        for (int y = 1; y <= rows; y++) {
            if (first + y - 1 == 0 || first + y - 1 == NY - 1) continue; /* edges keep their temperature */
            for (int x = 1; x < NX - 1; x++)
                next[y][x] = t[y][x] + 0.2 * (((t[y - 1][x] + t[y + 1][x]) + (t[y][x - 1] + t[y][x + 1])) - 4.0 * t[y][x]);
        }
        double (*old)[NX] = t;
        t = next;
        next = old;
    }
    must(adios_finalize(rank), "finishing");
    free(t);
    free(next);
    MPI_Finalize();
    return 0;
}
