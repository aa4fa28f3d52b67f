/* left_in_flight LEVEL FOLDER: writes with async=yes and ends with MPI_Finalize, its sessions open. LEVEL: `multiple` or `single`.
 * left_in_flight check FOLDER: whether all steps of those ranks are in the files. Prints a line per check. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <thalweg.h>

enum { N = 200000, STEPS = 3 };

static const char *const methods[] = { "POSIX", "MPI", "MPI_COLLECTIVE", "MPI_AGGREGATE" };
enum { METHODS = sizeof methods / sizeof *methods };

static int rank, ranks;

static void fill(double *T, int step, int of_rank)
{
    for (int i = 0; i < N; i++) T[i] = i + 1000.0 * step + of_rank;
}

static int write_all(const char *folder, double *T)
{
    static const char config[] =
        "<adios-config host-language='C'><adios-group name='heat'><var name='n' type='integer'/><var name='all' type='integer'/>"
        "<var name='first' type='integer'/><global-bounds dimensions='all' offsets='first'>"
        "<var name='T' type='double' dimensions='n'/></global-bounds></adios-group>"
        "<method group='heat' method='%s'>async=yes</method></adios-config>";
    const int n = N, all = N * ranks, first = N * rank;
    for (int m = 0; m < METHODS; m++) {
        char xml[1000], path[1000];
        thalweg_session *session;
        thalweg_output *output;
        snprintf(xml, sizeof xml, config, methods[m]);
        snprintf(path, sizeof path, "%s/%s.bp", folder, methods[m]);
        if (thalweg_session_open_text_mpi(&session, xml, "config", MPI_COMM_WORLD)) return 1;
        for (int step = 0; step < STEPS; step++) {
            fill(T, step, rank);
            if (thalweg_output_open_mpi(&output, session, "heat", path, step ? THALWEG_APPEND : THALWEG_WRITE, MPI_COMM_WORLD)
                || thalweg_write(output, "n", &n) || thalweg_write(output, "all", &all) || thalweg_write(output, "first", &first)
                || thalweg_write(output, "T", T) || thalweg_output_close(output)) return 1;
        }
    }
    return 0;
}

/* Whether each step has the values of all ranks that wrote. */
static int is_whole(const char *path, double *wanted, double *back)
{
    thalweg_reader *reader;
    thalweg_file_info info = { 0 };
    if (thalweg_reader_open(&reader, path)) return 0;
    int whole = !thalweg_reader_info(reader, &info) && info.steps == STEPS;
    for (int step = 0; step < STEPS && whole; step++) {
        uint64_t all;
        size_t ndim;
        whole = !thalweg_reader_shape(reader, "T", step, 1, &all, &ndim) && all > 0 && all % N == 0;
        for (uint64_t start = 0; start < all && whole; start += N) {
            const uint64_t count = N;
            const thalweg_selection part = { .kind = THALWEG_SELECT_BOX, .ndim = 1, .offset = &start, .count = &count };
            fill(wanted, step, (int)(start / N));
            whole = !thalweg_read(reader, "T", step, &part, back, N * sizeof *back) && !memcmp(wanted, back, N * sizeof *back);
        }
    }
    thalweg_reader_close(reader);
    return whole;
}

int main(int argc, char **argv)
{
    if (argc < 3) return 2;
    const int checks = strcmp(argv[1], "check") == 0, multiple = strcmp(argv[1], "multiple") == 0;
    MPI_Init_thread(&argc, &argv, multiple ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &(int){ 0 });
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    double *T = calloc(N, sizeof *T), *back = calloc(N, sizeof *back);
    if (!T || !back) return 2;
    if (checks) {
        for (int m = 0; m < METHODS; m++) {
            char path[1000];
            snprintf(path, sizeof path, "%s/%s.bp", argv[2], methods[m]);
            printf("%s%s: MPI_Finalize ends the outputs in flight\n", is_whole(path, T, back) ? "ok " : "not ok ", methods[m]);
        }
    } else if (write_all(argv[2], T)) {
        fprintf(stderr, "rank %d: %s\n", rank, thalweg_last_error()->text);
        return 1;
    }
    free(T);
    free(back);
    MPI_Finalize();
    return 0;
}
