/* heat_xml CONFIG.xml FILE STEPS: a small output described in XML. */
#include "heat.h"

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    if (argc != 4) return 2;
    Part p = part_of(MPI_COMM_WORLD);
    double t[ROWS * NX];
    must(adios_init(argv[1], p.comm), "adios_init");
    for (int step = 0; step < atoi(argv[3]); step++) {
        int64_t fd;
        uint64_t total = 0, bytes = 4 * 4 + 8 + 8 + 6 + 2 + 8 + (uint64_t)p.rows * NX * 8;
        adios_start_calculation();
        fill(&p, step, t);
        adios_stop_calculation();
        must(adios_open(&fd, "heat", argv[2], step ? "a" : "w", p.comm), "adios_open");
        must(adios_group_size(fd, bytes, &total), "adios_group_size");
        if (total < bytes) return 3;
        write_small(fd, &p, step);
        must(adios_write(fd, "t", t), "t");
        for (int i = 0; i < ROWS * NX; i++) t[i] = -1; /* the write has returned, so this changes nothing */
        must(adios_close(fd), "adios_close");
        adios_end_iteration();
    }
    must(adios_finalize(p.rank), "adios_finalize");
    MPI_Finalize();
    return 0;
}
