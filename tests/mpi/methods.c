/* Writes with methods that only the XML names, and checks what was written, value by value:
 *
 *   methods write FOLDER NAME...          every rank: FOLDER/NAME.xml says how FOLDER/NAME.bp is written; the folder FILES of the environment has the files instead
 *   methods check FOLDER RANKS STEPS NAME...
 *                                         one process: reads so many steps of FOLDER/NAME.bp with adios_read.h
 *   methods has FOLDER RANKS STEPS NAME   as check, where there may be more steps
 *   methods die FOLDER NAME RANK          as write, but steps without end; this rank ends itself in the middle of one
 *   methods fill FOLDER NAME              as write, but steps until a close fails; every rank says which, and how
 *
 * The part that reads is compiled against ADIOS 1.13, too. What is written is a function of step and rank. In each step
 * one rank writes much more than the others and one writes nothing of what may be left out; in odd steps there is a
 * variable that only some ranks write. The last two steps are of another session, with a buffer smaller than the group. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <signal.h>
#include <unistd.h>

#include "mpi.h"
#include "adios.h"
#include "adios_read.h"

extern int adios_errno; /* ADIOS 1.13 declares it elsewhere */

enum { STEPS = 5, SESSION = 3, LARGE = 200000 };

/* Elements that a rank writes of "field" and "mine": the same numbers in each step, dealt out anew. */
static uint64_t size_of(int rank, int ranks, int step)
{
    int place = (rank + step) % ranks;
    return place == 0 ? LARGE : place == 1 ? 0 : (uint64_t)(3 + place * 5 % 7);
}

static uint64_t before(int rank, int ranks, int step)
{
    uint64_t sum = 0;
    for (int r = 0; r < rank; r++) sum += size_of(r, ranks, step);
    return sum;
}

static double value(int step, int rank, uint64_t i) { return step * 1e7 + rank * 1e6 + (double)(i % 65521) + 0.25; }
static int plane(int step, int rank, int row) { return 1000 * step + 10 * rank + row; }
static int writes_some(int rank, int ranks, int step) { return step % 2 == 1 && (rank % 3 == 2 || rank == ranks - 1); }

static void must(int holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "%s: %s\n", what, adios_errmsg());
        // So that the rank that has failed first says why, too.
        sleep(2);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

/* Returns what close returned. A rank may die before that. */
static int write_step(const char *file, int step, int dies)
{
    int rank, ranks;
    int64_t f;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    uint64_t n = size_of(rank, ranks, step), from = n ? before(rank, ranks, step) : 0, total = before(ranks, ranks, step);
    double *field = malloc((n + 1) * sizeof *field), some[2] = {step + 0.5 * rank, -rank};
    float *mine = malloc((n + 1) * sizeof *mine);
    int rows[3] = {plane(step, rank, 0), plane(step, rank, 1), plane(step, rank, 2)};
    char note[32];
    snprintf(note, sizeof note, "step %d", step);
    for (uint64_t i = 0; i < n; i++) {
        field[i] = value(step, rank, i);
        mine[i] = (float)(i % 4099) + 10000.0f * (float)rank;
    }
    must(adios_open(&f, "fields", file, step == 0 ? "w" : "a", MPI_COMM_WORLD) == 0, "adios_open");
    must(adios_write(f, "n", &n) == 0, "n");
    must(adios_write(f, "before", &from) == 0, "before");
    must(adios_write(f, "total", &total) == 0, "total");
    must(adios_write(f, "rank", &rank) == 0, "rank");
    must(adios_write(f, "ranks", &ranks) == 0, "ranks");
    must(adios_write(f, "note", note) == 0, "note");
    /* Where the disk is full a large block may fail here; close tells of it again, on all ranks. */
    adios_write(f, "field", field);
    adios_write(f, "/deep/plane", rows);
    if (n > 0) adios_write(f, "mine", mine);
    if (writes_some(rank, ranks, step)) adios_write(f, "some", some);
    if (dies) raise(SIGKILL);
    int closed = adios_close(f);
    free(field);
    free(mine);
    return closed;
}

static void write_all(const char *folder, const char *name)
{
    char config[4096], file[4096];
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    const char *files = getenv("FILES");
    snprintf(config, sizeof config, "%s/%s.xml", folder, name);
    snprintf(file, sizeof file, "%s/%s.bp", files ? files : folder, name);
    for (int session = 0; session < 2; session++) {
        must(adios_init(config, MPI_COMM_WORLD) == 0, "adios_init");
        if (session == 1) adios_set_max_buffer_size(1);
        for (int step = session ? SESSION : 0; step < (session ? STEPS : SESSION); step++)
            must(write_step(file, step, 0) == 0, "adios_close");
        const char *number = getenv("FINALIZE");
        must(adios_finalize(number ? atoi(number) : rank) == 0, "adios_finalize");
    }
}

/* Steps without end; each is said when it is closed. One rank kills itself in the fourth, between its writes and its close. */
static void die(const char *folder, const char *name, int victim)
{
    char config[4096], file[4096];
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    snprintf(config, sizeof config, "%s/%s.xml", folder, name);
    snprintf(file, sizeof file, "%s/%s.bp", folder, name);
    must(adios_init(config, MPI_COMM_WORLD) == 0, "adios_init");
    for (int step = 0;; step++) {
        must(write_step(file, step, step == 3 && rank == victim) == 0, "adios_close");
        if (rank == 0) {
            printf("closed %d\n", step);
            fflush(stdout);
        }
    }
}

/* Writes until the disk is full. */
static void fill(const char *folder, const char *name)
{
    char config[4096], file[4096];
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    snprintf(config, sizeof config, "%s/%s.xml", folder, name);
    snprintf(file, sizeof file, "%s/full/%s.bp", folder, name);
    must(adios_init(config, MPI_COMM_WORLD) == 0, "adios_init");
    int step = 0;
    while (step < 100 && write_step(file, step, 0) == 0) step++;
    printf("step %d: error %d\n", step, adios_errno);
    fflush(stdout);
    MPI_Barrier(MPI_COMM_WORLD);
    /* There is no room for an index either. */
    adios_finalize(rank);
}

static int wrong = 0;

static int expect(int holds, const char *name, const char *what, int step)
{
    if (!holds && wrong++ < 20) fprintf(stderr, "%s: %s, step %d, is not what was written\n", name, what, step);
    return holds;
}

static void *read_all(ADIOS_FILE *f, const char *name, const char *variable, int step, ADIOS_SELECTION *selection, size_t bytes)
{
    void *data = malloc(bytes + 1);
    memset(data, 0xa5, bytes + 1);
    if (adios_schedule_read(f, selection, variable, step, 1, data) != 0 || adios_perform_reads(f, 1) != 0)
        expect(0, name, variable, step);
    return data;
}

static void check(const char *folder, const char *name, int ranks, int steps, int more)
{
    char file[4096];
    snprintf(file, sizeof file, "%s/%s.bp", folder, name);
    ADIOS_FILE *f = adios_read_open_file(file, ADIOS_READ_METHOD_BP, MPI_COMM_SELF);
    if (!expect(f != NULL, name, "the file", 0)) return;
    expect(f->last_step == steps - 1 || (more && f->last_step >= steps), name, "the number of steps", f->last_step);
    for (int step = 0; step < steps; step++) {
        uint64_t zero[2] = {0, 0}, total = before(ranks, ranks, step), whole[2] = {3, (uint64_t)ranks};
        ADIOS_SELECTION *all = adios_selection_boundingbox(1, zero, &total);
        double *field = read_all(f, name, "field", step, all, total * sizeof *field);
        for (int rank = 0; rank < ranks; rank++)
            for (uint64_t i = 0, at = before(rank, ranks, step); i < size_of(rank, ranks, step); i++)
                if (!expect(field[at + i] == value(step, rank, i), name, "field", step)) break;
        free(field);
        adios_selection_delete(all);

        all = adios_selection_boundingbox(2, zero, whole);
        int *rows = read_all(f, name, "/deep/plane", step, all, 3 * ranks * sizeof *rows);
        for (int i = 0; i < 3 * ranks; i++) expect(rows[i] == plane(step, i % ranks, i / ranks), name, "plane", step);
        free(rows);
        adios_selection_delete(all);

        int block = 0;
        for (int rank = 0; rank < ranks; rank++) {
            uint64_t n = size_of(rank, ranks, step);
            if (n == 0) continue;
            ADIOS_SELECTION *one = adios_selection_writeblock(block++);
            float *mine = read_all(f, name, "mine", step, one, n * sizeof *mine);
            for (uint64_t i = 0; i < n; i++)
                if (!expect(mine[i] == (float)(i % 4099) + 10000.0f * (float)rank, name, "mine", step)) break;
            free(mine);
            adios_selection_delete(one);
        }

        block = 0;
        for (int rank = 0; rank < ranks; rank++) {
            if (!writes_some(rank, ranks, step)) continue;
            ADIOS_SELECTION *one = adios_selection_writeblock(block++);
            /* Steps of a variable are counted among those that it has. */
            double *some = read_all(f, name, "some", step / 2, one, 2 * sizeof *some);
            expect(some[0] == step + 0.5 * rank && some[1] == -rank, name, "some", step);
            free(some);
            adios_selection_delete(one);
        }
    }
    ADIOS_VARINFO *info = adios_inq_var(f, "rank");
    if (expect(info && adios_inq_var_blockinfo(f, info) == 0, name, "rank", 0)) {
        expect((info->nsteps == steps || more) && info->nblocks[steps - 1] == ranks, name, "the number of ranks", steps - 1);
        adios_free_varinfo(info);
    }
    adios_read_close(f);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    if (argc > 3 && strcmp(argv[1], "write") == 0) {
        for (int i = 3; i < argc; i++) write_all(argv[2], argv[i]);
    } else if (argc == 5 && strcmp(argv[1], "die") == 0) {
        die(argv[2], argv[3], atoi(argv[4]));
    } else if (argc == 4 && strcmp(argv[1], "fill") == 0) {
        fill(argv[2], argv[3]);
    } else if (argc > 5 && (strcmp(argv[1], "check") == 0 || strcmp(argv[1], "has") == 0)) {
        adios_read_init_method(ADIOS_READ_METHOD_BP, MPI_COMM_SELF, "verbose=0");
        for (int i = 5; i < argc; i++) check(argv[2], argv[i], atoi(argv[3]), atoi(argv[4]), argv[1][0] == 'h');
        adios_read_finalize_method(ADIOS_READ_METHOD_BP);
    } else {
        fprintf(stderr, "usage: methods write|check|has|die|fill ...\n");
        MPI_Finalize();
        return 2;
    }
    MPI_Finalize();
    return wrong ? 1 : 0;
}
