/* restart CONFIG.xml FILE STEPS: reads back what heat_xml.c wrote, on any number of ranks. */
#include "check.h"
#include "heat.h"

#include <string.h>

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    if (argc != 4) return 2;
    Part p = part_of(MPI_COMM_WORLD);
    int64_t fd;
    int last = atoi(argv[3]) - 1;
    static double t[ROWS * NX], wanted[ROWS * NX];
    double time = -1;
    char note[32], expected[32];
    snprintf(expected, sizeof expected, "step %d", last);
    memset(note, '#', sizeof note);

    must(adios_init(argv[1], p.comm), "adios_init");
    must(adios_open(&fd, "heat", argv[2], "r", p.comm), "adios_open");
    check(p.comm, !adios_write(fd, "rows", &p.rows) && !adios_write(fd, "first", &p.first),
          "a restart says which box it wants");
    check(p.comm, !adios_read(fd, "t", t, (uint64_t)(p.rows * NX) * sizeof *t), "a restart reads an array");
    check(p.comm, !adios_read(fd, "time", &time, sizeof time) && time == 0.5 * last, "a restart reads the last step");
    check(p.comm, !adios_read(fd, "note", note, sizeof note) && !strcmp(note, expected), "a text that is read ends");
    check(p.comm, adios_read(fd, "t", t, 8) == err_invalid_argument, "an array that is larger than its memory is not read");
    check(p.comm, adios_read(fd, "nothing", t, 8) == err_invalid_varname, "reading an unknown variable fails");
    check(p.comm, adios_write(fd, "t", t) != 0, "an array cannot be set in mode r");
    check(p.comm, adios_set_path(fd, "/x") == err_invalid_file_mode, "paths do not change in mode r");
    must(adios_close(fd), "adios_close");
    fill(&p, last, wanted);
    check(p.comm, !memcmp(t, wanted, (size_t)(p.rows * NX) * sizeof *t), "a restart gets the values of its box");
    check(p.comm, adios_open(&fd, "heat", "no-such-file.bp", "r", p.comm) == err_file_not_found && fd == 0,
          "a file that is not there is said to be missing");
    must(adios_finalize(p.rank), "adios_finalize");
    MPI_Finalize();
    return checks_failed != 0;
}
