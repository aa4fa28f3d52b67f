/* slow FILE STEPS MILLISECONDS [never]: appends steps, with a pause before each; "never" ends without closing the file for
 * good, as a program that is killed does. Any number of ranks. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    if (argc < 4) return 2;
    int rank = 0, size = 1, steps = atoi(argv[2]);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int64_t g = 0, f = 0;
    adios_init_noxml(MPI_COMM_WORLD);
    adios_declare_group(&g, "slow", "", adios_stat_default);
    adios_select_method(g, "MPI", "", "");
    adios_define_var(g, "step", "", adios_integer, "", "", "");
    adios_define_var(g, "even", "", adios_integer, "", "", "");
    adios_define_var(g, "N", "", adios_integer, "", "", "");
    adios_define_var(g, "o", "", adios_integer, "", "", "");
    adios_define_var(g, "v", "", adios_integer, "2", "N", "o");
    for (int step = 0; step < steps; step++) {
        int N = 2 * size, o = 2 * rank, v[2] = {100 * step + o, 100 * step + o + 1};
        usleep((useconds_t)atoi(argv[3]) * 1000);
        adios_open(&f, "slow", argv[1], step ? "a" : "w", MPI_COMM_WORLD);
        adios_write(f, "step", &step);
        if (step % 2 == 0) adios_write(f, "even", &step);
        adios_write(f, "N", &N);
        adios_write(f, "o", &o);
        adios_write(f, "v", v);
        adios_close(f);
    }
    if (argc > 4 && strcmp(argv[4], "never") == 0) _exit(0);
    adios_finalize(rank);
    MPI_Finalize();
    return 0;
}
