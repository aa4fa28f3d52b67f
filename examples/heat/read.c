/* read: prints the content of heat.bp, step by step. One process, without MPI.
 *
 *   cc read.c $(pkg-config --cflags --libs thalweg-nompi) -o read && ./read heat.bp */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <thalweg.h>

static void must(int status)
{
    if (status == THALWEG_OK) return;
    fprintf(stderr, "read: %s\n", thalweg_last_error()->text);
    exit(1);
}

int main(int argc, char **argv)
{
    thalweg_reader *file;
    const thalweg_variable *t;
    must(thalweg_reader_open(&file, argc > 1 ? argv[1] : "heat.bp"));
    must(thalweg_reader_variable(file, "T", &t));
    if (t->ndim != 2) return 1;
    printf("T: %" PRIu64 " steps of %" PRIu64 " x %" PRIu64 "\n", t->nsteps, t->shape[0], t->shape[1]);

    const uint64_t at[2] = {t->shape[0] / 2, t->shape[1] / 2}, one[2] = {1, 1};
    const thalweg_selection cell = {.kind = THALWEG_SELECT_BOX, .ndim = 2, .offset = at, .count = one};
    for (uint64_t n = 0; n < t->nsteps; n++) {
        const int64_t step = (int64_t)t->steps[n];
        double time, middle;
        thalweg_summary known; /* from the file's characteristics; the middle is the only value of T that is read */
        must(thalweg_reader_summary(file, "T", step, 1, &known));
        must(thalweg_read(file, "time", step, NULL, &time, sizeof time));
        must(thalweg_read(file, "T", step, &cell, &middle, sizeof middle));
        printf("step %" PRId64 ": time %.1f, T from %.3f to %.3f, in the middle %.3f\n", step, time, known.min, known.max, middle);
    }
    thalweg_reader_close(file);
    return 0;
}
