/* in_flight LEVEL FOLDER: outputs in flight, with MPI for `multiple` threads or a `single` one. Rank 0 prints a line per check. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <thalweg.h>

enum { N = 100000 };

static int rank, ranks;

static void check(const char *what, int holds)
{
    int all;
    if (!holds) fprintf(stderr, "rank %d: %s: %s\n", rank, what, thalweg_last_error()->text);
    MPI_Allreduce(&holds, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (rank == 0) printf("%s%s\n", all ? "ok " : "not ok ", what);
}

static void ended(int status, void *context)
{
    *(int *)context = status == THALWEG_OK ? 1 : -1;
}

static int written(thalweg_session *session, const char *path, int step, const double *T, thalweg_output **output)
{
    const int n = N;
    return thalweg_output_open_mpi(output, session, "heat", path, step ? THALWEG_APPEND : THALWEG_WRITE, MPI_COMM_WORLD)
        || thalweg_write(*output, "n", &n) || thalweg_write(*output, "T", T);
}

int main(int argc, char **argv)
{
    static const char config[] =
        "<adios-config host-language='C'><adios-group name='heat'>"
        "<var name='n' type='integer'/><var name='T' type='double' dimensions='n'/></adios-group>"
        "<method group='heat' method='%s'>async=yes</method></adios-config>";
    static const char *const methods[] = { "POSIX", "MPI", "MPI_COLLECTIVE", "MPI_AGGREGATE" };
    if (argc < 3) return 2;
    const int multiple = strcmp(argv[1], "multiple") == 0;
    MPI_Init_thread(&argc, &argv, multiple ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &(int){ 0 });
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (rank == 0) mkdir(argv[2], 0777);
    MPI_Barrier(MPI_COMM_WORLD);
    double *T = calloc(N, sizeof *T);
    if (!T) return 2;

    for (size_t m = 0; m < sizeof methods / sizeof *methods; m++) {
        char xml[1000], path[1000];
        thalweg_session *session;
        thalweg_output *output;
        thalweg_pending *pending[4];
        int called = 0, complete = 0, fine = 1;
        snprintf(xml, sizeof xml, config, methods[m]);
        snprintf(path, sizeof path, "%s/%s-%s.bp", argv[2], methods[m], argv[1]);
        check("the session opens", !thalweg_session_open_text_mpi(&session, xml, "config", MPI_COMM_WORLD));

        /* The last rank closes after the others have. */
        fine = !written(session, path, 0, T, &output);
        MPI_Barrier(MPI_COMM_WORLD);
        const int late = rank == ranks - 1;
        for (int other = 0; late && other < rank; other++)
            MPI_Recv(NULL, 0, MPI_BYTE, other, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        fine = fine && !thalweg_output_start_close(output, &pending[0]);
        if (!late) MPI_Send(NULL, 0, MPI_BYTE, ranks - 1, 7, MPI_COMM_WORLD);
        memset(T, 1, N * sizeof *T);
        check("an output is closed before all ranks close", fine);
        check("the callback is taken", !thalweg_on_completion(pending[0], ended, &called));
        check("the output ends", !thalweg_wait(pending[0]) && called == 1);

        for (int step = 1; step < 4 && fine; step++)
            fine = !written(session, path, step, T, &output) && !thalweg_output_start_close(output, &pending[step]);
        check("outputs are in flight", fine && !thalweg_test(pending[1], &complete));
        check("the last one ends", !thalweg_wait(pending[3]));
        check("those before have ended", !thalweg_test(pending[1], &complete) && complete);
        thalweg_pending_drop(pending[1]);
        thalweg_pending_drop(pending[2]);
        check("all are waited for", !thalweg_wait_all(session) && !thalweg_progress(session));

        /* Memory of the library. */
        const int n = N;
        const thalweg_box box = { 1, NULL, NULL, (const uint64_t[]){ N } };
        void *memory = NULL, *kept = NULL, *other = NULL;
        fine = !thalweg_alloc(session, N * sizeof *T, &memory) && !thalweg_alloc(session, N * sizeof *T, &other);
        check("memory is aligned", fine && (uintptr_t)memory % 64 == 0);
        for (int i = 0; fine && i < N; i++) ((double *)memory)[i] = rank + 1, ((double *)other)[i] = rank + 2;
        kept = memory;
        fine = !thalweg_output_open_mpi(&output, session, "heat", path, THALWEG_APPEND, MPI_COMM_WORLD);
        check("a block without its extents is refused", thalweg_commit(output, "T", NULL, memory) == THALWEG_INVALID_ARGUMENT);
        check("memory of others is refused", thalweg_commit(output, "T", &box, T) == THALWEG_INVALID_ARGUMENT);
        check("memory is committed", !thalweg_write(output, "n", &n) && !thalweg_commit(output, "T", NULL, memory));
        check("but once", thalweg_commit(output, "T", NULL, kept) == THALWEG_INVALID_ARGUMENT && thalweg_free(kept));
        check("two blocks", !thalweg_commit(output, "T", &box, other) && !thalweg_output_close(output));

        double *lent = calloc(N, sizeof *lent);
        for (int i = 0; lent && i < N; i++) lent[i] = rank + 3;
        fine = lent && !thalweg_output_open_mpi(&output, session, "heat", path, THALWEG_APPEND, MPI_COMM_WORLD)
            && !thalweg_write(output, "n", &n) && !thalweg_lend(output, "T", NULL, lent);
        check("memory is lent", fine && thalweg_lend(output, "T", NULL, NULL) == THALWEG_INVALID_ARGUMENT
              && !thalweg_output_start_close(output, &pending[0]));
        check("and may be read until its output ends", lent[N - 1] > 2 && !thalweg_wait(pending[0]));
        memset(lent, 0, N * sizeof *lent);
        free(lent);
        check("no bytes have an address", !thalweg_alloc(session, 0, &memory) && memory);
        check("the session ends", !thalweg_session_close(session));
        check("memory is freed", !thalweg_free(memory) && thalweg_free(memory) && !thalweg_free(NULL));

        thalweg_reader *reader;
        thalweg_file_info info = { 0 };
        const int opened = !thalweg_reader_open(&reader, path);
        check("the file opens", opened);
        check("it has all steps", opened && !thalweg_reader_info(reader, &info) && info.steps == 6 && info.finished);
        thalweg_summary sum = { 0 };
        check("committed values are read", opened && !thalweg_reader_summary(reader, "T", 4, 1, &sum) && sum.elements == (uint64_t)ranks * 2 * N
              && (int)sum.min == 1 && (int)sum.max == ranks + 1);
        check("lent ones, too", opened && !thalweg_reader_summary(reader, "T", 5, 1, &sum) && sum.elements == (uint64_t)ranks * N
              && (int)sum.min == 3 && (int)sum.max == ranks + 2);

        thalweg_reader_close(reader);
    }

    /* A new file at each step: MPICH has 2,048 communicators. */
    if (ranks == 2) {
        thalweg_session *session;
        thalweg_output *output;
        thalweg_pending *pending;
        const int n = 4;
        char xml[1000], path[1000];
        snprintf(xml, sizeof xml, config, "MPI");
        int fine = !thalweg_session_open_text_mpi(&session, xml, "config", MPI_COMM_WORLD);
        for (int step = 0; step < 2200 && fine; step++) {
            snprintf(path, sizeof path, "%s/%s.%d.bp", argv[2], argv[1], step);
            fine = !thalweg_output_open_mpi(&output, session, "heat", path, THALWEG_WRITE, MPI_COMM_WORLD)
                && !thalweg_write(output, "n", &n) && !thalweg_write(output, "T", T)
                && !thalweg_output_start_close(output, &pending);
            thalweg_pending_drop(fine ? pending : NULL);
            if (rank == 0 && step >= 100) {
                snprintf(path, sizeof path, "%s/%s.%d.bp", argv[2], argv[1], step - 100);
                remove(path);
            }
        }
        check("2,200 files are written", fine && !thalweg_wait_all(session) && !thalweg_session_close(session));
    }
    free(T);
    MPI_Finalize();
    return 0;
}
