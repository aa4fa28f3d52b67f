/* A program that computes, and writes all of its state every few steps.
 *
 *   load PLACE KEY LOAD MIB OUTPUTS STEPS LEVEL METHOD [PARAMETERS [lend]]
 *
 * PLACE: an empty folder. KEY: how measurements are named. MIB: of an output of one rank. STEPS: computed before each output and after
 * the last one. LEVEL: the thread level of MPI. METHOD: one of ours, or "copy" (into memory that was used before), "pwrite" (a file for
 * each rank). With CHECK in the environment, the last output is read back and compared.
 *
 * Measured: `first` and `blocked`, the seconds that the slowest rank spends in the calls of the first output and of each later one;
 * `whole`, from before the first step until all outputs have ended; `processor`, what all ranks together used of their cores meanwhile. */
#include "work.h"

#include <errno.h>
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <sys/resource.h>
#include <thalweg.h>
#include <time.h>
#include <unistd.h>

enum { MOST_OUTPUTS = 64 };

static int rank, ranks;
static Work work;

static void stop(const char *doing, const char *why)
{
    fprintf(stderr, "rank %d: %s: %s\n", rank, doing, why);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void check(int status, const char *doing)
{
    if (status) stop(doing, thalweg_last_error()->text);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Of all threads of this process. */
static double processor(void)
{
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) + 1e-6 * (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

/* A step and its messages: planes to the neighbours, and a sum over all ranks. */
static void compute(int steps)
{
    const int below = (rank + ranks - 1) % ranks, above = (rank + 1) % ranks;
    for (int step = 0; step < steps; step++) {
        const size_t last = work.values - PLANE * PLANE;
        for (int a = 0; a < work.arrays; a++) {
            MPI_Sendrecv(work.array[a], PLANE * PLANE, MPI_DOUBLE, below, 1, work.halo[a][1], PLANE * PLANE, MPI_DOUBLE, above, 1,
                         MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Sendrecv(work.array[a] + last, PLANE * PLANE, MPI_DOUBLE, above, 2, work.halo[a][0], PLANE * PLANE, MPI_DOUBLE, below, 2,
                         MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
        work_step(&work);
        double sum = work.array[0][0];
        MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    }
}

static thalweg_session *session;

static void begin(const char *method, const char *parameters)
{
    static const char variable[] = "<var name='a%d' type='double' dimensions='n'/>";
    char text[2000], variables[200];
    int used = 0;
    for (int a = 0; a < work.arrays; a++) used += snprintf(variables + used, sizeof variables - (size_t)used, variable, a);
    snprintf(text, sizeof text,
             "<adios-config host-language='C'><adios-group name='load'><var name='n' type='long'/><var name='all' type='long'/>"
             "<var name='first' type='long'/><global-bounds dimensions='all' offsets='first'>%s</global-bounds></adios-group>"
             "<method group='load' method='%s'>%s</method></adios-config>",
             variables, method, parameters);
    check(thalweg_session_open_text_mpi(&session, text, "bench", MPI_COMM_WORLD), "session");
}

/* gray-scott with three arrays for each field: that of the output in flight is lent to it, and not written before it has ended. */
static int lends;
static double *lent[2], *spare[2];
static thalweg_pending *in_flight;

static void take_back(void)
{
    if (in_flight) check(thalweg_wait(in_flight), "wait");
    in_flight = NULL;
    for (int a = 0; a < work.arrays; a++)
        if (lent[a]) spare[a] = lent[a], lent[a] = NULL;
}

/* After the step that reads the lent arrays for the last time. */
static void put_aside(void)
{
    for (int a = 0; a < work.arrays; a++) lent[a] = work.next[a], work.next[a] = spare[a], spare[a] = NULL;
}

static void write_library(int output, const char *path)
{
    thalweg_output *out;
    const int64_t n = (int64_t)work.values, all = n * ranks, first = n * rank;
    check(thalweg_output_open_mpi(&out, session, "load", path, output ? THALWEG_APPEND : THALWEG_WRITE, MPI_COMM_WORLD), "open");
    check(thalweg_write(out, "n", &n) || thalweg_write(out, "all", &all) || thalweg_write(out, "first", &first), "write");
    for (int a = 0; a < work.arrays; a++) {
        char name[8];
        snprintf(name, sizeof name, "a%d", a);
        check(lends ? thalweg_lend(out, name, NULL, work.array[a]) : thalweg_write(out, name, work.array[a]), "write");
    }
    check(lends ? thalweg_output_start_close(out, &in_flight) : thalweg_output_close(out), "close");
}

static void write_plain(int output, const char *path)
{
    const size_t bytes = work.values * sizeof(double);
    char own[4200];
    snprintf(own, sizeof own, "%s.%d", path, rank);
    int file = open(own, O_WRONLY | O_CREAT, 0666);
    if (file < 0) stop(own, strerror(errno));
    for (int a = 0; a < work.arrays; a++) {
        for (size_t done = 0; done < bytes;) {
            ssize_t n = pwrite(file, (const char *)work.array[a] + done, bytes - done,
                               (off_t)(bytes * (size_t)(output * work.arrays + a) + done));
            if (n <= 0) stop("pwrite", strerror(errno));
            done += (size_t)n;
        }
    }
    if (close(file)) stop("close", strerror(errno));
}

/* Whether the last step of the file has these values of this rank. */
static void check_last(const char *path, int outputs, const double *values)
{
    thalweg_reader *reader;
    thalweg_file_info info;
    MPI_Barrier(MPI_COMM_WORLD);
    check(thalweg_reader_open(&reader, path) || thalweg_reader_info(reader, &info), "open the file");
    if (info.steps != (uint64_t)outputs) stop(path, "steps are missing");
    const uint64_t start = (uint64_t)rank * work.values, count = work.values;
    const thalweg_selection mine = {.kind = THALWEG_SELECT_BOX, .ndim = 1, .offset = &start, .count = &count};
    double *back = zeroed(work.values);
    check(!back || thalweg_read(reader, "a0", outputs - 1, &mine, back, work.values * sizeof(double)), "read");
    if (memcmp(back, values, work.values * sizeof(double))) stop(path, "another array came back");
    free(back);
    thalweg_reader_close(reader);
}

int main(int argc, char **argv)
{
    if (argc < 9) return 2;
    const char *key = argv[2], *method = argv[8];
    const int outputs = atoi(argv[5]), steps = atoi(argv[6]), is_single = strcmp(argv[7], "single") == 0;
    const int copies = strcmp(method, "copy") == 0, plain = strcmp(method, "pwrite") == 0, is_null = strcmp(method, "NULL") == 0;
    int level;
    MPI_Init_thread(&argc, &argv, is_single ? MPI_THREAD_SINGLE : MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (!is_single && level < MPI_THREAD_MULTIPLE) stop("MPI", "has no MPI_THREAD_MULTIPLE");
    if (outputs < 1 || outputs > MOST_OUTPUTS) stop("arguments", "number of outputs");
    if (!work_begin(&work, argv[3], (size_t)atoi(argv[4]))) stop("memory", "for the arrays");
    const size_t bytes = work.values * sizeof(double);
    char *copy = copies ? malloc(bytes * (size_t)work.arrays) : NULL;
    double *last = getenv("CHECK") ? zeroed(work.values) : NULL;
    if (copies && !copy) stop("memory", "for the copy");
    if (copies) memset(copy, 1, bytes * (size_t)work.arrays);
    char path[4096];
    snprintf(path, sizeof path, "%s/load.bp", argv[1]);
    if (!copies && !plain) begin(method, argc > 9 ? argv[9] : "");
    lends = argc > 10 && strcmp(argv[10], "lend") == 0;
    for (int a = 0; lends && a < work.arrays; a++)
        if (work.is_atoms || !(spare[a] = zeroed(work.values))) stop("memory", "for a third array");
    compute(1);

    double blocked[MOST_OUTPUTS], slowest[MOST_OUTPUTS];
    MPI_Barrier(MPI_COMM_WORLD);
    double whole = now(), used = processor();
    for (int output = 0; output < outputs; output++) {
        if (lends && output > 0) {
            compute(1);
            put_aside();
            compute(steps - 1);
        } else {
            compute(steps);
        }
        blocked[output] = now();
        if (lends) take_back();
        if (copies)
            for (int a = 0; a < work.arrays; a++) memcpy(copy + (size_t)a * bytes, work.array[a], bytes);
        else if (plain) write_plain(output, path);
        else write_library(output, path);
        blocked[output] = now() - blocked[output];
        if (last && output == outputs - 1) memcpy(last, work.array[0], bytes);
    }
    if (lends) compute(1), put_aside();
    compute(lends ? steps - 1 : steps);
    if (lends) take_back();
    if (!copies && !plain) check(thalweg_session_close(session), "end");
    MPI_Barrier(MPI_COMM_WORLD);
    whole = now() - whole;
    used = processor() - used;
    double all_used = 0;
    MPI_Reduce(&used, &all_used, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    MPI_Reduce(blocked, slowest, outputs, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        printf("value %s/first %.6f\n", key, slowest[0]);
        for (int output = 1; output < outputs; output++) printf("value %s/blocked %.6f\n", key, slowest[output]);
        printf("value %s/whole %.6f\nvalue %s/processor %.6f\n", key, whole, key, all_used);
    }
    /* The copy is used. */
    if (copies && copy[0] == 1 && copy[1] == 1 && copy[2] == 1) fprintf(stderr, "nothing was copied\n");
    if (last && !copies && !plain && !is_null) check_last(path, outputs, last);
    MPI_Finalize();
    return 0;
}
