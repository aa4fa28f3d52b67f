/* Writes through the interface of adios.h: the same source for Thalweg and for ADIOS 1.13.
 *
 *   library FOLDER MIB STEPS LABEL XML NAME...
 *
 * NAME is a group of the XML, or raw-shared, raw-each. */
#include "world.h"

#include <adios.h>
#include <adios_error.h>

static void check(const World *w, int status, const char *doing)
{
    if (status) stop(w, doing, adios_get_last_errmsg());
}

static void write_library(const World *w, const char *group, const char *path)
{
    int64_t file;
    uint64_t total;
    int n[6] = {w->rows, NY, NX, w->rows * w->ranks, w->rows * w->rank, w->ranks};
    double time = 0.5;
    check(w, adios_open(&file, group, path, "w", w->comm), "open");
    adios_group_size(file, sizeof n + sizeof time + w->bytes, &total);
    static const char *names[6] = {"rows", "ny", "nx", "all_rows", "first_row", "ranks"};
    for (int i = 0; i < 6; i++) check(w, adios_write(file, names[i], &n[i]), names[i]);
    check(w, adios_write(file, "time", &time), "time");
    check(w, adios_write(file, "t", w->data), "t");
    check(w, adios_close(file), "close");
}

int main(int argc, char **argv)
{
    World w = world_begin(&argc, &argv);
    if (argc < 7) stop(&w, "arguments", "FOLDER MIB STEPS LABEL XML NAME...");
    check(&w, adios_init(argv[5], w.comm), "init");
    Contender all[16];
    int n = 0;
    for (int i = 6; i < argc && n < 16; i++, n++) {
        all[n].name = argv[i];
        all[n].write = write_library;
        if (!strcmp(argv[i], "raw-shared")) all[n].write = write_raw_shared;
        if (!strcmp(argv[i], "raw-each")) all[n].write = write_raw_each;
    }
    take_turns(&w, argv[1], atoi(argv[3]), argv[4], all, n);
    check(&w, adios_finalize(w.rank), "finalize");
    free(w.data);
    MPI_Finalize();
    return 0;
}
