/* cycles FILE COUNT: opens, asks, reads and closes a file again and again; memory must not grow. FILE has a variable T of
 * two dimensions, as read.c writes it. */
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include "adios_read.h"
#include "check.h"

static long resident_kib(void)
{
    long pages = 0, resident = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (f && fscanf(f, "%ld %ld", &pages, &resident) != 2) resident = 0;
    if (f) fclose(f);
    return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

static int cycle(const char *path, int as_stream)
{
    ADIOS_FILE *f = as_stream
                        ? adios_read_open(path, ADIOS_READ_METHOD_BP, MPI_COMM_WORLD, ADIOS_LOCKMODE_NONE, 0)
                        : adios_read_open_file(path, ADIOS_READ_METHOD_BP, MPI_COMM_WORLD);
    if (!f) return 0;
    int good = 1;
    do {
        ADIOS_VARINFO *v = adios_inq_var(f, "T");
        good &= v && adios_inq_var_blockinfo(f, v) == 0 && adios_inq_var_stat(f, v, 1, 1) == 0;
        const uint64_t start[2] = {0, 0}, count[2] = {2, 4};
        double T[8];
        ADIOS_SELECTION *s = adios_selection_boundingbox(2, start, count);
        good &= adios_schedule_read(f, s, "T", 0, 1, T) == 0 && adios_perform_reads(f, 1) == 0;
        adios_schedule_read(f, s, "T", 0, 1, NULL);
        good &= adios_perform_reads(f, 0) == 0;
        ADIOS_VARCHUNK *chunk = NULL;
        while (adios_check_reads(f, &chunk) > 0) adios_free_chunk(chunk);
        adios_selection_delete(s);
        enum ADIOS_DATATYPES type;
        int size;
        void *unit;
        good &= adios_get_attr(f, "T/unit", &type, &size, &unit) == 0;
        free(unit);
        char **groups;
        good &= adios_get_grouplist(f, &groups) == 1;
        adios_free_varinfo(v);
    } while (as_stream && adios_advance_step(f, 0, 0) == 0);
    return good && adios_read_close(f) == 0;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    if (argc != 3) return 2;
    int count = atoi(argv[2]), good = 1;
    adios_read_init_method(ADIOS_READ_METHOD_BP, MPI_COMM_WORLD, "quiet");
    for (int i = 0; i < count / 10; i++) good &= cycle(argv[1], i % 2);
    long before = resident_kib();
    for (int i = count / 10; i < count; i++) good &= cycle(argv[1], i % 2);
    long more = resident_kib() - before;
    check(MPI_COMM_WORLD, good, "a file is opened, read and closed again and again");
    if (more > 512) fprintf(stderr, "%ld KiB more after %d cycles\n", more, count - count / 10);
    check(MPI_COMM_WORLD, more <= 512, "memory stays as it is");
    adios_read_finalize_method(ADIOS_READ_METHOD_BP);
    MPI_Finalize();
    return checks_failed != 0;
}
