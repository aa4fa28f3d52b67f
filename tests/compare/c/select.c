/* select GLOBAL LOCAL STEPS BLOCKS FILE: reads parts of the files that `write` makes, each rank its own, and writes what it
 * gets to FILE.<rank>. Only selections that ADIOS 1.13 answers without mistake; the others are in tests/system/c/read.c. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mpi.h"
#include "adios_read.h"

static int rank, size;
static FILE *out;
static ADIOS_FILE *file;

static void begin(const char *path)
{
    file = adios_read_open_file(path, ADIOS_READ_METHOD_BP, MPI_COMM_WORLD);
    fprintf(out, "%s\n", file ? "open" : "cannot open");
    if (!file) exit(1);
}

/* Reads `n` elements and frees the selection. */
static void doubles(const char *what, const char *name, ADIOS_SELECTION *s, int from, int steps, int n)
{
    double *data = malloc(sizeof *data * (size_t)(n + 1));
    for (int i = 0; i <= n; i++) data[i] = -99;
    int code = adios_schedule_read(file, s, name, from, steps, data);
    adios_selection_delete(s);
    adios_perform_reads(file, 1);
    fprintf(out, "%s (%d):", what, code);
    for (int i = 0; i <= n; i++) fprintf(out, " %g", data[i]);
    fprintf(out, "\n");
    free(data);
}

static ADIOS_SELECTION *box(uint64_t a, uint64_t b, uint64_t n, uint64_t m)
{
    const uint64_t start[2] = {a, b}, count[2] = {n, m};
    return adios_selection_boundingbox(2, start, count);
}

static void of_global(void)
{
    uint64_t r = (uint64_t)rank, rows = 3 * (uint64_t)size;
    doubles("own block as a box", "T", box(3 * r, 0, 3, 5), 1, 1, 15);
    doubles("across blocks", "T", box(1, 1, rows - 2, 3), 0, 1, (int)(rows - 2) * 3);
    doubles("a plane", "T", box(0, r % 5, rows, 1), 2, 1, (int)rows);
    doubles("one element, all steps", "T", box(rows - 1, 4, 1, 1), 0, 3, 3);
    doubles("no selection", "T", NULL, 1, 1, 15 * size);
    doubles("no selection, two steps", "T", NULL, 1, 2, 30 * size);
    uint64_t points[8] = {0, 0, rows - 1, 4, 2, r % 5, 1, 3};
    doubles("points", "T", adios_selection_points(2, 4, points), 0, 1, 4);
    doubles("points, all steps", "T", adios_selection_points(2, 4, points), 0, 3, 12);
    uint64_t inside[6] = {0, 0, 1, 2, 0, 1};
    ADIOS_SELECTION *s = adios_selection_points(2, 3, inside);
    s->u.points.container_selection = box(1, 2, 2, 3);
    doubles("points in a box", "T", s, 0, 1, 3);
    uint64_t offsets[3] = {5, 0, 2};
    s = adios_selection_points(1, 3, offsets);
    s->u.points.container_selection = box(1, 2, 2, 3);
    ADIOS_SELECTION *all = adios_selection_points_1DtoND(s, 1), *in = adios_selection_points_1DtoND(s, 0);
    fprintf(out, "converted:");
    for (int i = 0; i < 6; i++)
        fprintf(out, " %d,%d", (int)all->u.points.points[i], (int)in->u.points.points[i]);
    fprintf(out, " %s %s\n", all->u.points.container_selection ? "in" : "no", in->u.points.container_selection ? "in" : "no");
    doubles("offsets in a box", "T", s, 2, 1, 3);
    doubles("converted points", "T", all, 2, 1, 3);
    doubles("converted points in a box", "T", in, 2, 1, 3);
    doubles("a block", "T", adios_selection_writeblock(rank), 1, 1, 15);
    s = adios_selection_writeblock(size + rank);
    s->u.block.is_absolute_index = 1;
    doubles("a block counted over all steps", "T", s, 1, 1, 15);

    /* Several at once. */
    int i[10] = {0}, nx = -1;
    double T[2] = {0};
    const uint64_t start[2] = {0, 3 * r}, count[2] = {5, 2};
    ADIOS_SELECTION *first = adios_selection_boundingbox(2, start, count), *second = box(r, 0, 1, 2);
    adios_schedule_read(file, first, "i", 0, 1, i);
    adios_schedule_read(file, second, "T", 2, 1, T);
    adios_schedule_read(file, NULL, "nx", 0, 1, &nx);
    adios_perform_reads(file, 1);
    adios_selection_delete(first);
    adios_selection_delete(second);
    fprintf(out, "together: %d %g %g:", nx, T[0], T[1]);
    for (int k = 0; k < 10; k++) fprintf(out, " %d", i[k]);
    fprintf(out, "\n");

    int ox[3] = {0};
    s = adios_selection_writeblock(rank);
    adios_schedule_read(file, s, "ox", 0, 1, ox);
    adios_perform_reads(file, 1);
    adios_selection_delete(s);
    fprintf(out, "scalar of a rank: %d\n", ox[0]);
}

static void of_local(void)
{
    float same[7] = {0};
    ADIOS_SELECTION *s = adios_selection_writeblock(rank);
    adios_schedule_read(file, s, "same", 1, 1, same);
    int64_t own[32] = {0};
    adios_schedule_read(file, s, "own", 0, 1, own);
    adios_perform_reads(file, 1);
    adios_selection_delete(s);
    for (int k = 0; k < 7; k++) fprintf(out, " %g", same[k]);
    for (int k = 0; k < 3 + rank; k++) fprintf(out, " %d", (int)own[k]);
    fprintf(out, "\n");
    ADIOS_VARINFO *v = adios_inq_var(file, "own");
    adios_inq_var_blockinfo(file, v);
    for (int k = 0; k < v->sum_nblocks; k++) fprintf(out, " %d", (int)v->blockinfo[k].count[0]);
    fprintf(out, "\n");
    adios_free_varinfo(v);
    { /* a box is of the first block of each step */
        const uint64_t start[2] = {1, 1}, count[2] = {1, 2};
        float part[3] = {0};
        int64_t row[3] = {0};
        for (int step = 0; step < 2; step++) {
            s = adios_selection_boundingbox(1, start + 1, start + 1);
            adios_schedule_read(file, s, "own", step, 1, row + step);
            adios_perform_reads(file, 1);
            adios_selection_delete(s);
        }
        fprintf(out, "a box of the first blocks: %d %d\n", (int)row[0], (int)row[1]);
        s = adios_selection_boundingbox(2, start, count);
        adios_schedule_read(file, s, "same", 0, 1, part);
        adios_perform_reads(file, 1);
        adios_selection_delete(s);
        fprintf(out, "a box of a local array: %g %g %g\n", part[0], part[1], part[2]);
        adios_schedule_read(file, NULL, "same", 0, 1, same);
        adios_perform_reads(file, 1);
        for (int k = 0; k < 7; k++) fprintf(out, " %g", same[k]);
        fprintf(out, "\n");
    }
}

static void of_steps(void)
{
    doubles("a series", "t", NULL, 3, 10, 10);
    uint64_t third[7] = {0};
    adios_schedule_read(file, NULL, "third", 1, 4, third);
    adios_perform_reads(file, 1);
    for (int k = 0; k < 7; k++) fprintf(out, " %d", (int)third[k]);
    fprintf(out, "\n");
    ADIOS_VARINFO *v = adios_inq_var(file, "third");
    fprintf(out, "third has %d steps, value %d\n", v->nsteps, (int)*(uint64_t *)v->value);
    adios_inq_var_stat(file, v, 1, 0);
    adios_free_varinfo(v);
    v = adios_inq_var(file, "t");
    adios_inq_var_stat(file, v, 1, 0);
    for (int k = 0; k < v->nsteps; k++) fprintf(out, " %g", *v->statistics->steps->avgs[k]);
    fprintf(out, "\n");
    adios_free_varinfo(v);
    const uint64_t start = 1, count = 2;
    unsigned short grows[3] = {0};
    ADIOS_SELECTION *s = adios_selection_boundingbox(1, &start, &count);
    if (size > 1) adios_schedule_read(file, s, "grows", 17, 1, grows);
    adios_perform_reads(file, 1);
    adios_selection_delete(s);
    fprintf(out, "grown: %d %d %d\n", grows[0], grows[1], grows[2]);
    double t = -1;
    fprintf(out, "steps there are not: %d %d\n", adios_schedule_read(file, NULL, "third", 6, 1, &t) != 0,
            adios_schedule_read(file, NULL, "t", -1, 1, &t) != 0);
    fprintf(out, "a name there is not: %d %d\n", adios_schedule_read(file, NULL, "none", 0, 1, &t),
            adios_inq_var(file, "none") == NULL);
}

static void of_blocks(void)
{
    for (int block = 0; block < 3; block++)
        doubles("a rank's blocks", "v", adios_selection_writeblock(3 * rank + block), 1, 1, 4);
    doubles("boxes across them", "v", box(1, 1, 2, 2), 0, 2, 8);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc < 6) return 2;
    char name[1000];
    snprintf(name, sizeof name, "%s.%d", argv[5], rank);
    out = fopen(name, "w");
    if (!out) return 2;
    adios_read_init_method(ADIOS_READ_METHOD_BP, MPI_COMM_WORLD, "verbose=0");
    void (*const parts[4])(void) = {of_global, of_local, of_steps, of_blocks};
    for (int i = 0; i < 4; i++) {
        begin(argv[1 + i]);
        parts[i]();
        fprintf(out, "close %d\n", adios_read_close(file));
    }
    adios_read_finalize_method(ADIOS_READ_METHOD_BP);
    fclose(out);
    MPI_Finalize();
    return 0;
}
