/* heat_noxml METHOD FILE STEPS: the output of heat_xml.c, its group declared from code. Writes t as two blocks. */
#include "heat.h"

#include <string.h>

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    if (argc != 4) return 2;
    Part p = part_of(MPI_COMM_WORLD);
    static double t[ROWS * NX];
    must(adios_init_noxml(p.comm), "adios_init_noxml");
    if (!adios_is_initialized()) return 3;
    adios_set_max_buffer_size(10);

    int64_t group, upper = 0, lower = 0;
    must(adios_declare_group(&group, "heat", "", adios_stat_full), "adios_declare_group");
    must(adios_select_method(group, argv[1], "", ""), "adios_select_method");
    for (int step = 0; step < atoi(argv[3]); step++) {
        /* Dimensions of t as numbers, new ones at each step. The last rank's two blocks differ in size where rows are odd. */
        char dims[32], global[32], offset[32];
        int above = (p.rows + 1) / 2, below = p.rows - above;
        must(adios_delete_vardefs(group), "adios_delete_vardefs");
        const char *integers[] = {"NX", "N", "rows", "first"};
        for (int i = 0; i < 4; i++)
            if (!adios_define_var(group, integers[i], "", adios_integer, "", "", "")) must(-1, integers[i]);
        if (!adios_define_var(group, "time", "", adios_double, "", "", "")) must(-1, "time");
        if (!adios_define_var(group, "large", "", adios_long, "", "", "")) must(-1, "large");
        if (!adios_define_var(group, "note", "", adios_string, "", "", "")) must(-1, "note");
        if (!adios_define_var(group, "mark", "/local", adios_unsigned_byte, "2", "", "")) must(-1, "mark");
        if (!adios_define_var(group, "z", "", adios_complex, "", "", "")) must(-1, "z");
        snprintf(global, sizeof global, "%d,%d", ROWS, NX);
        snprintf(dims, sizeof dims, "%d,%d", above, NX);
        snprintf(offset, sizeof offset, "%d,0", p.first);
        if (!(upper = adios_define_var(group, "t", "", adios_double, dims, global, offset))) must(-1, "upper t");
        if (adios_expected_var_size(upper) != (uint64_t)above * NX * sizeof(double)) return 4;
        if (below) {
            snprintf(dims, sizeof dims, "%d,%d", below, NX);
            snprintf(offset, sizeof offset, "%d,0", p.first + above);
            if (!(lower = adios_define_var(group, "t", "", adios_double, dims, global, offset))) must(-1, "lower t");
        }
        double range[2] = {0.0, 1e6};
        must(adios_delete_attrdefs(group), "adios_delete_attrdefs");
        must(adios_define_attribute(group, "units", "/t", adios_string, "K", ""), "units");
        must(adios_define_attribute_byvalue(group, "range", "/t", adios_double, 2, range), "range");

        int64_t fd;
        must(adios_open(&fd, "heat", argv[2], step ? "a" : "w", p.comm), "adios_open");
        write_small(fd, &p, step);
        fill(&p, step, t);
        must(adios_write_byid(fd, upper, t), "upper t");
        if (below) {
            /* The same memory again: a write returns with it free. */
            memmove(t, t + above * NX, (size_t)(below * NX) * sizeof(double));
            must(adios_write_byid(fd, lower, t), "lower t");
        }
        must(adios_close(fd), "adios_close");
    }
    must(adios_free_group(group), "adios_free_group");
    must(adios_finalize(p.rank), "adios_finalize");
    MPI_Finalize();
    return 0;
}
