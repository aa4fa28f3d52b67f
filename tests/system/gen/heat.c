/* heat FILE write|read: steps with the generated includes, or what they read of the last one, checked. */
#include <adios.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 3, ALL_ROWS = 12 };

static double value(int step, int row, int column) { return 1000.0 * step + 10.0 * row + column; }

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    if (argc != 3) return 2;
    int rank, ranks;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    int nx = 3, rows = ALL_ROWS / ranks, failed = 0;
    double *t = malloc(sizeof(double) * rows * 2 * nx);
    char text[32];
    int64_t adios_handle;
    uint64_t adios_groupsize, adios_totalsize;
    if (adios_init("heat.xml", MPI_COMM_WORLD)) return 3;

    if (strcmp(argv[2], "write") == 0) {
        for (int step = 0; step < STEPS; step++) {
            double total = step + 0.5;
            snprintf(text, sizeof text, "step %d", step);
            for (int i = 0; i < rows * 2 * nx; i++) t[i] = value(step, rank * rows + i / (2 * nx), i % (2 * nx));
            failed |= adios_open(&adios_handle, "heat", argv[1], step ? "a" : "w", MPI_COMM_WORLD);
#include "gwrite_heat.ch"
            /* Names and shapes are counted as well. */
            if (adios_groupsize < sizeof(double) * rows * 2 * nx || adios_totalsize < adios_groupsize) failed = 1;
            failed |= adios_close(adios_handle);
        }
    } else {
        uint64_t adios_buf_size;
        int step = -1, first = rank * rows;
        double back_total = -1, *back = t;
        memset(text, 0, sizeof text);
        failed |= adios_open(&adios_handle, "heat", argv[1], "r", MPI_COMM_WORLD);
#include "gread_heat.ch"
        failed |= adios_close(adios_handle);
        if (step != STEPS - 1 || back_total != step + 0.5 || strcmp(text, "step 2")) failed = 1;
        for (int i = 0; i < rows * 2 * nx; i++)
            if (t[i] != value(step, first + i / (2 * nx), i % (2 * nx))) failed = 1;
    }
    adios_finalize(rank);
    free(t);
    MPI_Finalize();
    return failed ? 1 : 0;
}
