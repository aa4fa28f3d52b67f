/* Writes steps of a file with the group of tests/system/faults.rs, under MPI: faults CONFIG.xml FILE FIRST COUNT
 *
 * Each rank says "rank R: E", E being the first of its error numbers from open, write, close and finalize. It ends with 0
 * whatever these were. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "mpi.h"
#include "adios.h"

extern int adios_errno;

enum { ROW = 40 };

int main(int argc, char **argv)
{
    int rank, ranks, first_error = 0, row = ROW;
    int64_t f;
    double t[ROW];
    if (argc != 5) return 2;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    int first = atoi(argv[3]), count = atoi(argv[4]);
    if (adios_init(argv[1], MPI_COMM_WORLD) != 0) first_error = adios_errno;
    for (int step = first; step < first + count && first_error == 0; step++) {
        for (int i = 0; i < ROW; i++) t[i] = i + 100.0 * rank + 10000.0 * step;
        if (adios_open(&f, "g", argv[2], step == 0 ? "w" : "a", MPI_COMM_WORLD) != 0) {
            first_error = adios_errno;
            break;
        }
        /* What fails here close tells again, and tells it to all. */
        adios_write(f, "n", &row);
        adios_write(f, "ranks", &ranks);
        adios_write(f, "rank", &rank);
        adios_write(f, "t", t);
        if (adios_close(f) != 0) first_error = adios_errno;
    }
    if (adios_finalize(rank) != 0 && first_error == 0) first_error = adios_errno;
    printf("rank %d: %d\n", rank, first_error);
    MPI_Finalize();
    return 0;
}
