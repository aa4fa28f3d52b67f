/* ranks HOW METHOD FILE: ranks that end without having closed what they opened, behind 20 closed steps. HOW is one of
 *   return       main returns after MPI_Finalize, a step is open
 *   exit         exit after MPI_Finalize, a step is open
 *   adios        adios_finalize is never called, a step is open, main returns after MPI_Finalize
 *   early        exit without MPI_Finalize, a step is open
 *   one          the last rank does so while the others wait in the close of the step
 *   abort        MPI_Abort by the last rank
 * Each step has a number, `n`, and a row of each rank in `t`: 100 * step + 10 * rank + column. */
#include <adios.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <thalweg.h>

enum { STEPS = 20, COLUMNS = 3 };

static int rank, ranks;
static const char *method, *file;
static double row[COLUMNS];

static void must(int status, const char *what)
{
    if (!status) return;
    fprintf(stderr, "%s: %s\n", what, thalweg_last_error()->text);
    MPI_Abort(MPI_COMM_WORLD, 9);
}

static double *row_of(int step)
{
    for (int i = 0; i < COLUMNS; i++) row[i] = 100 * step + 10 * rank + i;
    return row;
}

static thalweg_output *step(thalweg_session *session, int n)
{
    thalweg_output *output;
    uint64_t extent[2] = {(uint64_t)ranks, COLUMNS}, start[2] = {(uint64_t)rank, 0}, count[2] = {1, COLUMNS};
    thalweg_box box = {2, extent, start, count};
    must(thalweg_output_open_mpi(&output, session, "g", file, n ? THALWEG_APPEND : THALWEG_WRITE, MPI_COMM_WORLD), "open");
    must(thalweg_write(output, "n", &n), "write");
    must(thalweg_write_box(output, "t", &box, row_of(n)), "write");
    return output;
}

static thalweg_output *by_thalweg(void)
{
    thalweg_session *session;
    thalweg_group *group;
    must(thalweg_session_open_mpi(&session, NULL, MPI_COMM_WORLD), "session");
    must(thalweg_group_declare(&group, session, "g"), "group");
    must(thalweg_group_method(group, method, NULL, NULL), "method");
    must(thalweg_define_scalar(group, "n", THALWEG_INT32), "define");
    must(thalweg_define_global(group, "t", THALWEG_FLOAT64, 2, NULL), "define");
    for (int n = 0; n < STEPS; n++) must(thalweg_output_close(step(session, n)), "close");
    return step(session, STEPS);
}

static void by_adios(void)
{
    int64_t group, handle;
    char offset[20], extent[20];
    snprintf(offset, sizeof offset, "%d,0", rank);
    snprintf(extent, sizeof extent, "%d,3", ranks);
    must(adios_init_noxml(MPI_COMM_WORLD), "adios_init_noxml");
    adios_declare_group(&group, "g", "", adios_stat_default);
    adios_select_method(group, method, "", "");
    adios_define_var(group, "n", "", adios_integer, "", "", "");
    adios_define_var(group, "t", "", adios_double, "1,3", extent, offset);
    for (int n = 0; n <= STEPS; n++) {
        must(adios_open(&handle, "g", file, n ? "a" : "w", MPI_COMM_WORLD), "adios_open");
        must(adios_write(handle, "n", &n), "adios_write");
        must(adios_write(handle, "t", row_of(n)), "adios_write");
        if (n < STEPS) must(adios_close(handle), "adios_close");
    }
}

int main(int argc, char **argv)
{
    if (argc != 4) return 2;
    const char *how = argv[1];
    method = argv[2];
    file = argv[3];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (!strcmp(how, "adios")) {
        by_adios();
        MPI_Finalize();
        return 0;
    }
    thalweg_output *open = by_thalweg();
    if (!strcmp(how, "early")) exit(3);
    if (!strcmp(how, "one") || !strcmp(how, "abort")) {
        if (rank == ranks - 1 && !strcmp(how, "abort")) MPI_Abort(MPI_COMM_WORLD, 3);
        if (rank == ranks - 1) exit(3);
        thalweg_output_close(open);
    }
    MPI_Finalize();
    if (!strcmp(how, "exit")) exit(0);
    return 0;
}
