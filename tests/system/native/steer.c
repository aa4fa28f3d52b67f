/* steer asks|offers|rules FILE: writes an output each time step, until it is asked to stop. `asks`: the program leaves out what is not
 * wanted. `rules`: it asks itself: every tenth output once T was above 20 in three, an end above 100.
 * Rank 0 prints a line per check. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <thalweg.h>
#include <time.h>

enum { ROWS = 8, COLUMNS = 16, MOST = 3000 };

static int rank, ranks;

static int on_all(int holds, MPI_Op how)
{
    int all;
    MPI_Allreduce(&holds, &all, 1, MPI_INT, how, MPI_COMM_WORLD);
    return all;
}

static void check(const char *what, int holds)
{
    if (!holds) fprintf(stderr, "rank %d: %s: %s\n", rank, what, thalweg_last_error()->text);
    const int all = on_all(holds, MPI_MIN);
    if (rank == 0) printf("%s%s\n", all ? "ok " : "not ok ", what);
}

int main(int argc, char **argv)
{
    static const char document[] =
        "<adios-config host-language='C'><adios-group name='heat'>"
        "<var name='rows' type='integer'/><var name='all' type='integer'/><var name='first' type='integer'/><var name='step' type='integer'/>"
        "<global-bounds dimensions='all,16' offsets='first,0'><var name='T' type='double' dimensions='rows,16'/>"
        "<var name='v' type='double' dimensions='rows,16'/></global-bounds></adios-group>"
        "<method group='heat' method='MPI'>control=yes%s</method></adios-config>";
    static const char rules[] = ";rules=when max(T) > 20 for 3 steps: every=10, only=T | when max(T) > 100: stop | when not finite(v): stop";
    char config[1200];
    if (argc < 3) return 2;
    snprintf(config, sizeof config, document, strcmp(argv[1], "rules") == 0 ? rules : "");
    const int asks = strcmp(argv[1], "asks") == 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    double T[ROWS * COLUMNS];
    const int rows = ROWS, all = ROWS * ranks, first = ROWS * rank;
    thalweg_session *session;
    check("the session opens", !thalweg_session_open_text_mpi(&session, config, "config", MPI_COMM_WORLD));

    int stop = 0, alike = 1, fine = 1, asked_v = 1, v_is_wanted = 1;
    for (int step = 0; step < MOST && fine && !stop; step++) {
        thalweg_output *output;
        int wanted = 1;
        if (asks) {
            fine = !thalweg_wanted(session, "heat", argv[2], (uint64_t)step, NULL, &wanted)
                && !thalweg_wanted(session, "heat", argv[2], (uint64_t)step, "v", &v_is_wanted);
            alike = alike && on_all(wanted, MPI_MIN) == on_all(wanted, MPI_MAX);
            asked_v = asked_v && v_is_wanted;
        }
        for (int i = 0; i < ROWS * COLUMNS; i++) T[i] = step + 0.001 * (first * COLUMNS + i);
        if (wanted) {
            fine = fine && !thalweg_output_open_mpi(&output, session, "heat", argv[2], step ? THALWEG_APPEND : THALWEG_WRITE, MPI_COMM_WORLD);
            fine = fine && !thalweg_write(output, "rows", &rows) && !thalweg_write(output, "all", &all) && !thalweg_write(output, "first", &first)
                && !thalweg_write(output, "step", &step) && !thalweg_write(output, "T", T)
                && !thalweg_write_deferred(output, "v", T) && !thalweg_output_close(output);
        }
        fine = fine && !thalweg_stop_requested(session, &stop);
        alike = alike && on_all(stop, MPI_MIN) == on_all(stop, MPI_MAX);
        nanosleep(&(struct timespec){ 0, 10 * 1000 * 1000 }, NULL);
    }
    check("all outputs are written", fine);
    check("ranks get the same answers", alike);
    check("the program was asked to stop", stop);
    if (asks) check("an array is no longer wanted", !asked_v);
    check("the session closes", !thalweg_session_close(session));
    MPI_Finalize();
    return 0;
}
