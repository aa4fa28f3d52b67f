/* query write FILE: every rank writes two blocks of each variable in each of two steps.
 * query ask FILE: asks for values; prints the blocks that may match, and the points in them that do.
 *
 * Only what ADIOS 1.13 answers without mistake is printed. There, blocks for = and != are more than can match; from the
 * second batch on blocks are repeated; boxes of later steps, boxes that cut rows, and block 0 end the program; other blocks
 * are lost now and then; and what is read of results is another step's, or misplaced where a box cuts blocks. So points are
 * told from values that are read by boxes. The rest is in tests/system/c/query.c. */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mpi.h"
#include "adios.h"
#include "adios_read.h"
#include "adios_query.h"

enum { ROWS = 4, COLUMNS = 3, STEPS = 2, BLOCKS = 2 };

static int rank, size;

static void define(int64_t group)
{
    const char *arrays[][2] = {{"T", "d"}, {"f", "f"}, {"u", "i"}, {"k", "l"}, {"s", "b"}};
    for (int i = 0; i < 5; i++) {
        const char t = arrays[i][1][0];
        adios_define_var(group, arrays[i][0], "",
                         t == 'd'   ? adios_double
                         : t == 'f' ? adios_real
                         : t == 'i' ? adios_integer
                         : t == 'l' ? adios_unsigned_long
                                    : adios_byte,
                         "4,n", "4,all", "0,at");
    }
}

static int write_file(const char *path)
{
    int64_t group, file;
    adios_init_noxml(MPI_COMM_WORLD);
    adios_declare_group(&group, "g", "", adios_stat_full);
    adios_select_method(group, "MPI", "", "");
    adios_define_var(group, "all", "", adios_integer, "", "", "");
    adios_define_var(group, "at", "", adios_integer, "", "", "");
    adios_define_var(group, "n", "", adios_integer, "", "", "");
    define(group);
    for (int step = 0; step < STEPS; step++) {
        if (adios_open(&file, "g", path, step ? "a" : "w", MPI_COMM_WORLD)) return 1;
        for (int b = 0; b < BLOCKS; b++) {
            int all = size * BLOCKS * COLUMNS, n = COLUMNS, at = (rank * BLOCKS + b) * COLUMNS;
            double T[ROWS * COLUMNS];
            float f[ROWS * COLUMNS];
            int u[ROWS * COLUMNS];
            uint64_t k[ROWS * COLUMNS];
            signed char s[ROWS * COLUMNS];
            for (int y = 0; y < ROWS; y++)
                for (int x = 0; x < COLUMNS; x++) {
                    const int i = y * COLUMNS + x, X = at + x;
                    T[i] = X * 1.5 + y * 0.25 + step * 10;
                    f[i] = (float)((X * 7 + y * 3) % 11) / 4 + (float)step;
                    u[i] = (X / 2 + y + step) % 6;
                    k[i] = UINT64_C(9000000000000000) + (uint64_t)(X * 100 + y);
                    s[i] = (signed char)(X + y + step);
                }
            adios_write(file, "all", &all);
            adios_write(file, "at", &at);
            adios_write(file, "n", &n);
            adios_write(file, "T", T);
            adios_write(file, "f", f);
            adios_write(file, "u", u);
            adios_write(file, "k", k);
            adios_write(file, "s", s);
        }
        if (adios_close(file)) return 1;
    }
    return adios_finalize(rank);
}

static ADIOS_FILE *file;
static const char *const signs[] = {"<", "<=", ">", ">=", "=", "!="};

/* One comparison, as the program itself understands it. */
typedef struct {
    const char *name;
    enum ADIOS_PREDICATE_MODE op;
    const char *value;
} comparison;

/* A box of an array at a step as doubles. */
static double *values(const char *name, int step, const uint64_t *start, const uint64_t *count)
{
    const uint64_t n = count[0] * count[1];
    double *all = malloc(n * sizeof *all);
    void *raw = malloc(n * 8);
    ADIOS_SELECTION *box = adios_selection_boundingbox(2, start, count);
    adios_schedule_read(file, box, name, step, 1, raw);
    adios_perform_reads(file, 1);
    for (uint64_t i = 0; i < n; i++)
        all[i] = *name == 'T'   ? ((double *)raw)[i]
                 : *name == 'f' ? ((float *)raw)[i]
                 : *name == 'u' ? ((int *)raw)[i]
                 : *name == 'k' ? (double)((uint64_t *)raw)[i]
                                : ((signed char *)raw)[i];
    adios_selection_delete(box);
    free(raw);
    return all;
}

static int holds(double a, enum ADIOS_PREDICATE_MODE op, double b)
{
    switch (op) {
        case ADIOS_LT: return a < b;
        case ADIOS_LTEQ: return a <= b;
        case ADIOS_GT: return a > b;
        case ADIOS_GTEQ: return a >= b;
        case ADIOS_EQ: return a == b;
        default: return a != b;
    }
}

/* Whether a query's points, found by the library itself, are those that were found here. */
static void check_points(ADIOS_QUERY *q, int step, const uint64_t *count, const char *matches)
{
    if (!adios_query_is_method_available(ADIOS_QUERY_METHOD_FASTBIT)) return;
    const uint64_t n = count[0] * count[1];
    char *found = calloc(n + 1, 1);
    int more = 1;
    adios_query_set_method(q, ADIOS_QUERY_METHOD_FASTBIT);
    while (more) {
        ADIOS_QUERY_RESULT *r = adios_query_evaluate(q, NULL, step, 7);
        more = r->status == ADIOS_QUERY_HAS_MORE_RESULTS;
        for (int i = 0; i < r->nselections; i++) {
            for (uint64_t p = 0; p < r->selections[i].u.points.npoints; p++)
                found[r->selections[i].u.points.points[p]] = 1;
            free(r->selections[i].u.points.points);
        }
        free(r->selections);
        free(r);
    }
    if (memcmp(found, matches, n)) printf("  points of the library DIFFER\n");
    free(found);
}

/* The blocks and points of a query of one comparison, or of two in boxes of the same extents. */
static void ask(const char *what, const comparison *c, int n, enum ADIOS_CLAUSE_OP_MODE combine, int step,
                const uint64_t starts[][2], const uint64_t *count, int whole)
{
    ADIOS_SELECTION *boxes[2] = {0};
    ADIOS_QUERY *single[2] = {0}, *q;
    int exact = 1;
    for (int i = 0; i < n; i++) {
        boxes[i] = whole ? NULL : adios_selection_boundingbox(2, starts[i], count);
        single[i] = adios_query_create(file, boxes[i], c[i].name, c[i].op, c[i].value);
        if (c[i].op == ADIOS_EQ || c[i].op == ADIOS_NE) exact = 0;
    }
    q = n == 2 ? adios_query_combine(single[0], combine, single[1]) : single[0];
    printf("%s, step %d: %s\n", what, step, q->condition);
    const int64_t about = adios_query_estimate(q, step);
    ADIOS_QUERY_RESULT *r = adios_query_evaluate(q, boxes[0], step, 1000);
    const uint64_t all = count[0] * count[1];
    char *matches = calloc(all + 1, 1), *near = calloc(all + 1, 1);
    if (exact) printf("  about %" PRId64 ", method %d, status %d, blocks", about, (int)r->method_used, (int)r->status);
    ADIOS_VARINFO *v = adios_inq_var(file, c[0].name);
    adios_inq_var_blockinfo(file, v);
    for (int i = 0; i < r->nselections; i++) {
        const int block = r->selections[i].u.block.index;
        if (exact) printf(" %d", block);
        int at = block;
        for (int s = 0; s < step; s++) at += v->nblocks[s];
        const ADIOS_VARBLOCK *b = &v->blockinfo[at];
        for (uint64_t y = b->start[0]; y < b->start[0] + b->count[0]; y++)
            for (uint64_t x = b->start[1]; x < b->start[1] + b->count[1]; x++)
                if (y - starts[0][0] < count[0] && x - starts[0][1] < count[1])
                    near[(y - starts[0][0]) * count[1] + x - starts[0][1]] = 1;
    }
    adios_free_varinfo(v);
    double *data[2] = {0};
    for (int i = 0; i < n; i++) data[i] = values(c[i].name, step, starts[i], count);
    printf("%s  points", exact ? "\n" : "");
    for (uint64_t i = 0; i < all; i++) {
        int fits = holds(data[0][i], c[0].op, strtod(c[0].value, NULL));
        if (n == 2) {
            const int other = holds(data[1][i], c[1].op, strtod(c[1].value, NULL));
            fits = combine == ADIOS_QUERY_OP_AND ? fits && other : fits || other;
        }
        matches[i] = (char)fits;
        if (fits) printf(" %" PRIu64 "%s", i, near[i] ? "" : "!missed");
    }
    printf("\n");
    if (step == 0 && !whole && starts[0][1] % COLUMNS == 0) {
        ADIOS_SELECTION *box = adios_selection_boundingbox(2, starts[0], count);
        double *read = malloc(all * sizeof *read);
        for (uint64_t i = 0; i < all; i++) read[i] = -1;
        const int code = adios_query_read_boundingbox(file, q, "T", step, (unsigned)r->nselections, r->selections, box, read);
        double sum = 0;
        for (uint64_t i = 0; i < all; i++)
            if (matches[i]) sum += read[i];
        printf("  read %d, sum of matches %g\n", code, sum);
        free(read);
        adios_selection_delete(box);
    }
    free(r->selections);
    free(r);
    for (uint64_t batch = 1; exact && batch < 4; batch++) {
        /* After the last results there are none, until the query is estimated again. */
        r = adios_query_evaluate(q, boxes[0], step, batch);
        printf("  then %d, by %" PRIu64 " of %" PRId64 ":", r->nselections, batch, adios_query_estimate(q, step));
        free(r->selections);
        free(r);
        int more = 1;
        while (more) {
            r = adios_query_evaluate(q, boxes[0], step, batch);
            more = r->status == ADIOS_QUERY_HAS_MORE_RESULTS;
            printf(" %d", r->nselections);
            free(r->selections);
            free(r);
        }
        printf("\n");
    }
    check_points(q, step, count, matches);
    for (int i = 0; i < n; i++) {
        free(data[i]);
        if (n == 2) adios_query_free(single[i]);
        if (boxes[i]) adios_selection_delete(boxes[i]);
    }
    adios_query_free(q);
    free(matches);
    free(near);
}

/* What is known of a query over one block, by its number. */
static void ask_block(int block, enum ADIOS_PREDICATE_MODE op, const char *value)
{
    ADIOS_SELECTION *s = adios_selection_writeblock(block);
    ADIOS_QUERY *q = adios_query_create(file, s, "T", op, value);
    printf("block %d: T %s %s: about %" PRId64 "\n", block, signs[op], value, adios_query_estimate(q, 0));
    adios_query_free(q);
    adios_selection_delete(s);
}

static void ask_stream(const char *path)
{
    file = adios_read_open(path, ADIOS_READ_METHOD_BP, MPI_COMM_WORLD, ADIOS_LOCKMODE_NONE, 0);
    ADIOS_QUERY *q = adios_query_create(file, NULL, "T", ADIOS_GT, "12");
    do {
        ADIOS_QUERY_RESULT *r = adios_query_evaluate(q, NULL, 0, 1000);
        printf("stream at step %d: status %d, blocks", file->current_step, (int)r->status);
        for (int i = 0; i < r->nselections; i++) printf(" %d", r->selections[i].u.block.index);
        free(r->selections);
        free(r);
        r = adios_query_evaluate(q, NULL, 1, 1000);
        printf("; timestep 1: status %d, error %d\n", (int)r->status, adios_errno);
        free(r->selections);
        free(r);
    } while (adios_advance_step(file, 0, 0) == 0);
    adios_query_free(q);
    adios_read_close(file);
}

static int ask_file(const char *path)
{
    adios_read_init_method(ADIOS_READ_METHOD_BP, MPI_COMM_WORLD, "verbose=0");
    file = adios_read_open_file(path, ADIOS_READ_METHOD_BP, MPI_COMM_WORLD);
    if (!file) return 1;
    ADIOS_VARINFO *v = adios_inq_var(file, "T");
    const uint64_t shape[2] = {v->dims[0], v->dims[1]};
    const int blocks = v->nblocks[0];
    adios_free_varinfo(v);
    const uint64_t corner[2][2] = {{0, 0}, {0, 0}};
    const char *const asked[][4] = {{"T", "4", "10.75", "100"},
                                    {"f", "0.5", "1.25", "3.75"},
                                    {"u", "0", "2", "5"},
                                    {"k", "9000000000000003", "9000000000000400", "0"},
                                    {"s", "0", "4", "7"}};
    for (int step = 0; step < STEPS; step++)
        for (int i = 0; i < 5; i++)
            for (int k = 1; k < 4; k++)
                for (int op = 0; op < 6; op++) {
                    const comparison c = {asked[i][0], (enum ADIOS_PREDICATE_MODE)op, asked[i][k]};
                    ask("everywhere", &c, 1, ADIOS_QUERY_OP_AND, step, corner, shape, 1);
                }
    for (int step = 0; step < STEPS; step++)
        for (int op = 0; op < 4; op++) {
            const comparison c[2] = {{"T", (enum ADIOS_PREDICATE_MODE)op, "6.5"}, {"u", ADIOS_LT, "3"}};
            ask("both", c, 2, ADIOS_QUERY_OP_AND, step, corner, shape, 1);
            ask("one of both", c, 2, ADIOS_QUERY_OP_OR, step, corner, shape, 1);
            if (step > 0) continue;
            const uint64_t inner[2][2] = {{0, 2}, {0, 1}}, part[2] = {ROWS, shape[1] - 3};
            const uint64_t same[2][2] = {{0, 2}, {0, 2}};
            const uint64_t whole[2][2] = {{0, 3}, {0, 0}};
            ask("in a box", c, 1, ADIOS_QUERY_OP_AND, step, inner, part, 0);
            ask("in a box of blocks", c, 1, ADIOS_QUERY_OP_AND, step, whole, part, 0);
            ask("both in a box", c, 2, ADIOS_QUERY_OP_AND, step, same, part, 0);
            ask("one of both in a box", c, 2, ADIOS_QUERY_OP_OR, step, same, part, 0);
        }
    const comparison range[2] = {{"T", ADIOS_GTEQ, "3"}, {"T", ADIOS_LT, "5"}};
    ask("a range", range, 2, ADIOS_QUERY_OP_AND, 0, corner, shape, 1);
    const comparison hole[2] = {{"f", ADIOS_LT, "0.25"}, {"f", ADIOS_GT, "2.25"}};
    ask("outside a range", hole, 2, ADIOS_QUERY_OP_OR, 0, corner, shape, 1);
    for (int block = 1; block < blocks; block++) {
        ask_block(block, ADIOS_GT, "6");
        ask_block(block, ADIOS_LTEQ, "4");
    }
    printf("no value: %s\n", adios_query_create(file, NULL, "T", ADIOS_GT, NULL) ? "query" : "none");
    printf("%d", adios_errno);
    printf(" none: %s", adios_query_combine(NULL, ADIOS_QUERY_OP_OR, NULL) ? "query" : "none");
    printf(" %d\n", adios_errno);
    const char *ops[] = {"<", "LT", "<=", "LE", ">", "GT", ">=", "GE", "=", "EQ", "!=", "NE", "nothing"};
    for (int i = 0; i < 13; i++) printf("%s %d\n", ops[i], (int)adios_query_getOp(ops[i]));
    printf("%zu %zu %zu\n", sizeof(ADIOS_QUERY), sizeof(ADIOS_QUERY_RESULT), sizeof(ADIOS_AVAILABLE_QUERY_METHODS));
    adios_read_close(file);
    ask_stream(path);
    return adios_read_finalize_method(ADIOS_READ_METHOD_BP);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const int code = argc < 3 ? 2 : strcmp(argv[1], "write") ? ask_file(argv[2]) : write_file(argv[2]);
    MPI_Finalize();
    return code;
}
