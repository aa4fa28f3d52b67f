/* Every rank writes its number into one file: with adios.h, or with thalweg.h (-DNATIVE). Says what came of it. */
#include <mpi.h>
#include <stdio.h>

#ifdef NATIVE
#include <thalweg.h>
static int write_numbers(int rank)
{
    thalweg_session *session = NULL;
    thalweg_output *output = NULL;
    thalweg_group *group = NULL;
    if (thalweg_session_open_mpi(&session, NULL, MPI_COMM_WORLD)) return 1;
    return thalweg_group_declare(&group, session, "g") || thalweg_group_method(group, "MPI", NULL, NULL) ||
           thalweg_define_scalar(group, "rank", THALWEG_INT32) ||
           thalweg_output_open(&output, session, "g", "pair.bp", THALWEG_WRITE) || thalweg_write(output, "rank", &rank) ||
           thalweg_output_close(output) || thalweg_session_close(session);
}
static const char *last_error(void) { return thalweg_last_error()->text; }
#else
#include <adios.h>
static int write_numbers(int rank)
{
    int64_t group, file;
    uint64_t total;
    if (adios_init_noxml(MPI_COMM_WORLD)) return 1;
    adios_declare_group(&group, "g", "", adios_stat_no);
    adios_select_method(group, "MPI", "", "");
    adios_define_var(group, "rank", "", adios_integer, "", "", "");
    if (adios_open(&file, "g", "pair.bp", "w", MPI_COMM_WORLD)) return 1;
    adios_group_size(file, 4, &total);
    return adios_write(file, "rank", &rank) || adios_close(file) || adios_finalize(rank);
}
static const char *last_error(void) { return adios_get_last_errmsg(); }
#endif

int main(int argc, char **argv)
{
    int rank = 0, size = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int failed = write_numbers(rank);
    if (failed) printf("rank %d of %d: refused: %s\n", rank, size, last_error());
    else printf("rank %d of %d: written\n", rank, size);
    MPI_Finalize();
    return 0;
}
