/* more FILE: write buffers, paths that change, several methods, a mesh, attributes by value, a buffer of nothing. */
#include "check.h"
#include "heat.h"

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    if (argc != 2) return 2;
    Part p = part_of(MPI_COMM_WORLD);
    adios_set_max_buffer_size(1); /* before there is a session */
    must(adios_init_noxml(p.comm), "adios_init_noxml");

    int64_t group, fd, late;
    int32_t triple[3] = {3, -2, 1};
    const char *names[2] = {"first", "second one"};
    must(adios_declare_group(&group, "more", "", adios_stat_full), "adios_declare_group");
    must(adios_select_method(group, "MPI", "", ""), "adios_select_method");
    must(adios_select_method(group, "POSIX", "", "posix"), "adios_select_method");
    adios_define_var(group, "n", "", adios_integer, "", "", "");
    adios_define_var(group, "first", "", adios_integer, "", "", "");
    adios_define_var(group, "total", "", adios_integer, "", "", "");
    adios_define_var(group, "lent", "", adios_double, "n", "total", "first");
    adios_define_var(group, "level", "", adios_integer, "", "", "");
    adios_define_var(group, "cells", "", adios_integer, "2", "", "");
    must(adios_define_attribute_byvalue(group, "triple", "", adios_integer, 3, triple), "triple");
    must(adios_define_attribute_byvalue(group, "names", "", adios_string_array, 2, names), "names");
    must(adios_define_attribute_byvalue(group, "name", "", adios_string, 1, names[1]), "name");
    must(adios_define_schema_version(group, (char *)"1.1"), "adios_define_schema_version");
    must(adios_define_mesh_uniform((char *)"total", (char *)"0.5", (char *)"2", NULL, NULL, group, "line"), "mesh");
    must(adios_define_mesh_timevarying("no", group, "line"), "adios_define_mesh_timevarying");
    must(adios_define_var_mesh(group, "lent", "line"), "adios_define_var_mesh");
    must(adios_define_var_centering(group, "lent", "point"), "adios_define_var_centering");

    uint64_t size = 0;
    void *memory = NULL;
    int n = 1000, first = n * p.rank, total = n * p.ranks;
    must(adios_open(&fd, "more", argv[1], "w", p.comm), "adios_open");
    check(p.comm, adios_get_write_buffer(fd, "lent", &size, &memory) != 0 && memory == NULL, "memory is lent when its size is known");
    must(adios_write(fd, "n", &n), "n");
    must(adios_write(fd, "first", &first), "first");
    must(adios_write(fd, "total", &total), "total");
    check(p.comm, !adios_get_write_buffer(fd, "lent", &size, &memory) && size == 8000 && memory, "memory is lent");
    double *values = memory;
    for (int i = 0; i < n; i++) values[i] = first + i;
    for (int level = 1; level <= 2; level++) { /* the same variables on two levels */
        char path[32];
        int cells[2] = {level, 10 * level + p.rank};
        snprintf(path, sizeof path, "/level%d", level);
        must(adios_set_path(fd, path), "adios_set_path");
        must(adios_write(fd, "level", &level), "level");
        must(adios_write(fd, "cells", cells), "cells");
    }
    must(adios_set_path_var(fd, "", "lent"), "adios_set_path_var");
    check(p.comm, !adios_close(fd), "two methods write one output");

    /* A mebibyte was allowed for all; no more is lent. */
    n = 200000, first = n * p.rank, total = n * p.ranks;
    must(adios_open(&fd, "more", "large.bp", "w", p.comm), "adios_open");
    must(adios_write(fd, "n", &n), "n");
    must(adios_write(fd, "first", &first), "first");
    must(adios_write(fd, "total", &total), "total");
    check(p.comm, adios_get_write_buffer(fd, "lent", &size, &memory) == err_no_memory && memory == NULL, "the buffer limit holds for memory that is lent");
    must(adios_close(fd), "adios_close");

    /* A variable that comes later; nothing is buffered at all. */
    adios_set_max_buffer_size(0);
    late = adios_define_var(group, "late", "", adios_real, "4", "", "");
    float four[4] = {1, 2, 3, (float)p.rank};
    must(adios_open(&fd, "more", "late.bp", "w", p.comm), "adios_open");
    check(p.comm, !adios_write_byid(fd, late, four), "without a buffer it is written through");
    four[0] = -1;
    must(adios_close(fd), "adios_close");
    must(adios_finalize(p.rank), "adios_finalize");
    MPI_Finalize();
    return checks_failed != 0;
}
