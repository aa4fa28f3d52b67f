/* query FILE: rank by rank the same questions to a file that all of them write: points, boxes that cut blocks, blocks,
 * batches, NaN, values that are read back, and what makes no sense. */
#include "check.h"
#include "heat.h"
#include <adios_query.h>
#include <inttypes.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

enum { HIGH = 4, WIDE = 3, STEPS = 2 };

static Part p;
static ADIOS_FILE *file;
static uint64_t columns;

/* The value of T at a place; one element of each step is NaN. */
static double at(uint64_t y, uint64_t x, int step)
{
    return y == 1 && x == 1 ? NAN : (double)x + 0.25 * (double)y + 100 * step;
}

static void write_file(const char *path)
{
    int64_t group, fd;
    must(adios_init_noxml(p.comm), "adios_init_noxml");
    must(adios_declare_group(&group, "g", "", adios_stat_full), "adios_declare_group");
    must(adios_select_method(group, "MPI", "", ""), "adios_select_method");
    adios_define_var(group, "first", "", adios_integer, "", "", "");
    adios_define_var(group, "all", "", adios_integer, "", "", "");
    adios_define_var(group, "T", "", adios_double, "4,3", "4,all", "0,first");
    adios_define_var(group, "own", "", adios_long, "3", "", "");
    adios_define_var(group, "name", "", adios_string, "", "", "");
    for (int step = 0; step < STEPS; step++) {
        int first = WIDE * p.rank, all = WIDE * p.ranks;
        double T[HIGH * WIDE];
        int64_t own[3] = {INT64_MIN, p.rank, INT64_MAX};
        for (int i = 0; i < HIGH * WIDE; i++)
            T[i] = at((uint64_t)(i / WIDE), (uint64_t)(first + i % WIDE), step);
        must(adios_open(&fd, "g", path, step ? "a" : "w", p.comm), "adios_open");
        must(adios_write(fd, "first", &first), "first");
        must(adios_write(fd, "all", &all), "all");
        must(adios_write(fd, "T", T), "T");
        must(adios_write(fd, "own", own), "own");
        must(adios_write(fd, "name", "queries"), "name");
        must(adios_close(fd), "adios_close");
    }
    must(adios_finalize(p.rank), "adios_finalize");
}

static ADIOS_SELECTION *box(uint64_t y, uint64_t x, uint64_t rows, uint64_t wide)
{
    const uint64_t start[2] = {y, x}, count[2] = {rows, wide};
    return adios_selection_boundingbox(2, start, count);
}

static void free_result(ADIOS_QUERY_RESULT *r)
{
    for (int i = 0; i < r->nselections; i++)
        if (r->selections[i].type == ADIOS_SELECTION_POINTS) free(r->selections[i].u.points.points);
    free(r->selections);
    free(r);
}

/* The points of T > value in a box, in batches: whether they are those that the box has, in order. */
static int points_are_right(double value, uint64_t y, uint64_t x, uint64_t rows, uint64_t wide, int step, uint64_t batch)
{
    ADIOS_SELECTION *s = box(y, x, rows, wide);
    char text[40];
    snprintf(text, sizeof text, "%.17g", value);
    ADIOS_QUERY *q = adios_query_create(file, s, "T", ADIOS_GT, text);
    adios_query_set_method(q, ADIOS_QUERY_METHOD_FASTBIT);
    uint64_t next = 0, seen = 0;
    int right = q != NULL, more = 1;
    while (right && more) {
        ADIOS_QUERY_RESULT *r = adios_query_evaluate(q, s, step, batch);
        more = r->status == ADIOS_QUERY_HAS_MORE_RESULTS;
        right = r->status != ADIOS_QUERY_RESULT_ERROR && r->npoints <= batch && r->nselections <= 1;
        for (uint64_t i = 0; right && i < r->npoints; i++) {
            const ADIOS_SELECTION_POINTS_STRUCT *points = &r->selections[0].u.points;
            while (next < rows * wide && !(at(y + next / wide, x + next % wide, step) > value)) next++;
            right = points->ndim == 1 && points->container_selection == s && points->points[i] == next++;
        }
        seen += r->npoints;
        right = right && q->resultsReadSoFar == seen;
        free_result(r);
    }
    for (; right && next < rows * wide; next++) right = !(at(y + next / wide, x + next % wide, step) > value);
    adios_query_free(q);
    adios_selection_delete(s);
    return right;
}

static int boxes_are_right(void)
{
    for (int step = 0; step < STEPS; step++)
        for (uint64_t y = 0; y < HIGH; y++)
            for (uint64_t x = 0; x < columns; x += 2)
                for (uint64_t batch = 1; batch < 30; batch += 7) {
                    const double middle = 100 * step + (double)columns / 2;
                    if (!points_are_right(middle, y, x, HIGH - y, columns - x, step, batch)) return 0;
                    if (!points_are_right(-1, y, x, 1, 1, step, batch)) return 0;
                }
    return 1;
}

/* The values at results, read by the selection as it comes, and into a box that cuts blocks. */
static int results_can_be_read(int step)
{
    ADIOS_QUERY *q = adios_query_create(file, NULL, "T", ADIOS_GTEQ, step ? "101.5" : "1.5");
    adios_query_set_method(q, ADIOS_QUERY_METHOD_ALACRITY);
    ADIOS_QUERY_RESULT *r = adios_query_evaluate(q, NULL, step, UINT64_MAX);
    int right = r->nselections == 1 && r->status == ADIOS_QUERY_NO_MORE_RESULTS;
    double *values = calloc(r->npoints + 1, sizeof *values);
    right = right && !adios_schedule_read(file, r->selections, "T", step, 1, values) && !adios_perform_reads(file, 1);
    for (uint64_t i = 0; i < r->npoints; i++) {
        const uint64_t place = r->selections[0].u.points.points[i];
        right = right && values[i] == at(place / columns, place % columns, step) && values[i] >= 1.5 + 100 * step;
    }
    double part[2 * 2] = {-7, -7, -7, -7};
    ADIOS_SELECTION *s = box(0, 1, 2, 2);
    right = right && !adios_query_read_boundingbox(file, q, "T", step, 1, r->selections, s, part);
    /* (0, 1) does not match, (1, 1) is NaN. */
    right = right && part[0] == -7 && part[1] == at(0, 2, step) && part[2] == -7 && part[3] == at(1, 2, step);
    free_result(r);
    adios_query_set_method(q, ADIOS_QUERY_METHOD_MINMAX);
    r = adios_query_evaluate(q, NULL, step, 100);
    right = right && !adios_query_read_boundingbox(file, q, "T", step, (unsigned)r->nselections, r->selections, s, part);
    right = right && part[0] == at(0, 1, step) && isnan(part[2]) && part[3] == at(1, 2, step);
    free_result(r);
    free(values);
    adios_selection_delete(s);
    adios_query_free(q);
    return right;
}

/* Blocks that a query may match, as bits. */
static unsigned blocks(ADIOS_QUERY *q, int step, uint64_t batch)
{
    unsigned all = 0;
    int more = 1;
    while (more) {
        ADIOS_QUERY_RESULT *r = adios_query_evaluate(q, NULL, step, batch);
        more = r->status == ADIOS_QUERY_HAS_MORE_RESULTS;
        for (int i = 0; i < r->nselections; i++) all |= 1u << r->selections[i].u.block.index;
        if (r->status == ADIOS_QUERY_RESULT_ERROR) all = ~0u;
        free_result(r);
    }
    return all;
}

static unsigned blocks_of(ADIOS_SELECTION *s, const char *name, enum ADIOS_PREDICATE_MODE op, const char *value, int step)
{
    ADIOS_QUERY *q = adios_query_create(file, s, name, op, value);
    const unsigned all = blocks(q, step, 1);
    adios_query_free(q);
    if (s) adios_selection_delete(s);
    return all;
}

static int refused(ADIOS_QUERY *q, int code)
{
    const int right = !q && adios_errno == code && *adios_get_last_errmsg();
    adios_query_free(q);
    return right;
}

static int fails(ADIOS_QUERY *q, ADIOS_SELECTION *s, int step, int code)
{
    ADIOS_QUERY_RESULT *r = adios_query_evaluate(q, s, step, 10);
    const int right = r->status == ADIOS_QUERY_RESULT_ERROR && adios_errno == code && !r->nselections;
    free_result(r);
    adios_query_free(q);
    return right;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    if (argc != 2) return 2;
    p = part_of(MPI_COMM_WORLD);
    columns = (uint64_t)(WIDE * p.ranks);
    write_file(argv[1]);
    MPI_Barrier(p.comm);
    must(adios_read_init_method(ADIOS_READ_METHOD_BP, p.comm, "quiet"), "adios_read_init_method");
    file = adios_read_open_file(argv[1], ADIOS_READ_METHOD_BP, p.comm);
    check(p.comm, file != NULL, "a file to ask");
    if (!file) return 1;
    const unsigned every = (1u << p.ranks) - 1, last = 1u << (p.ranks - 1);

    check(p.comm, boxes_are_right(), "points in boxes, in batches of any size");
    check(p.comm, results_can_be_read(0) && results_can_be_read(1), "values at results, of both steps");

    char greatest[20], index[24];
    snprintf(greatest, sizeof greatest, "%d.75", WIDE * p.ranks + 99);
    snprintf(index, sizeof index, "%" PRIu64, columns - 1);
    check(p.comm, blocks_of(NULL, "T", ADIOS_EQ, greatest, 1) == last, "one block holds the greatest value");
    check(p.comm, blocks_of(NULL, "T", ADIOS_EQ, greatest, 0) == 0, "none does at the other step");
    check(p.comm, blocks_of(box(1, 1, 3, columns - 1), "T", ADIOS_GT, "0", 1) == every, "a box that cuts all blocks");
    check(p.comm, blocks_of(adios_selection_writeblock(0), "T", ADIOS_LT, "150", 1) == 1, "a block by its number");
    check(p.comm, blocks_of(NULL, "own", ADIOS_EQ, "-9223372036854775808", 1) == every, "the least of 64 bits");
    check(p.comm, blocks_of(NULL, "own", ADIOS_GT, "9223372036854775806", 1) == every, "the greatest of 64 bits");
    check(p.comm, blocks_of(NULL, "own", ADIOS_GT, "9223372036854775807", 1) == 0, "and nothing above");
    check(p.comm, blocks_of(NULL, "T", ADIOS_GT, "0", STEPS) == 0, "nothing matches at a step that is not there");
    check(p.comm, blocks_of(NULL, "first", ADIOS_GTEQ, "0", 0) == every, "values that ranks wrote are blocks, too");

    uint64_t list[6] = {0, 0, 1, 1, 3, columns - 1};
    ADIOS_SELECTION *points = adios_selection_points(2, 3, list);
    ADIOS_QUERY *q = adios_query_create(file, points, "T", ADIOS_NE, "0");
    ADIOS_QUERY_RESULT *r = adios_query_evaluate(q, NULL, 0, 10);
    /* NaN differs from every number. */
    int right = r->npoints == 2 && r->selections[0].u.points.ndim == 2 && r->selections[0].u.points.points[0] == 1 &&
                r->selections[0].u.points.points[3] == columns - 1 && q->method == ADIOS_QUERY_METHOD_FASTBIT;
    check(p.comm, right, "points among points");
    free_result(r);
    adios_query_free(q);
    adios_selection_delete(points);

    ADIOS_SELECTION *left = box(0, 0, HIGH, WIDE), *here = box(0, columns - WIDE, HIGH, WIDE);
    ADIOS_QUERY *a = adios_query_create(file, left, "T", ADIOS_GTEQ, "1"), *b = adios_query_create(file, here, "T", ADIOS_LT, index);
    ADIOS_QUERY *both = adios_query_combine(a, ADIOS_QUERY_OP_AND, b), *any = adios_query_combine(both, ADIOS_QUERY_OP_OR, a);
    check(p.comm, both && any, "combined queries");
    adios_query_set_method(any, ADIOS_QUERY_METHOD_FASTBIT);
    adios_query_set_method(both, ADIOS_QUERY_METHOD_FASTBIT);
    r = adios_query_evaluate(any, left, 0, 100);
    /* All of T >= 1 but NaN. */
    check(p.comm, r->npoints == 2 * HIGH - 1 && adios_query_estimate(any, 0) >= 0, "one of both, place by place");
    free_result(r);
    r = adios_query_evaluate(both, left, 0, 100);
    right = 1;
    for (uint64_t i = 0; i < r->npoints; i++) {
        const uint64_t place = r->selections[0].u.points.points[i], y = place / WIDE, x = place % WIDE;
        right = right && at(y, x, 0) >= 1 && at(y, columns - WIDE + x, 0) < (double)(columns - 1);
    }
    check(p.comm, right && r->npoints == 3, "both, in boxes that lie apart");
    free_result(r);
    check(p.comm, a->hasParent && both->left == a && !strncmp(both->condition, "((T >= 1) and ", 14), "what programs look at");
    adios_query_free(a);
    adios_query_free(b);
    r = adios_query_evaluate(both, NULL, 1, 100);
    check(p.comm, r->npoints == 0 && r->status == ADIOS_QUERY_NO_MORE_RESULTS, "a combined query outlives its parts");
    free_result(r);

    check(p.comm, refused(adios_query_create(file, NULL, "U", ADIOS_GT, "1"), err_invalid_varname), "no such variable");
    check(p.comm, refused(adios_query_create(file, NULL, "T", ADIOS_GT, "much"), err_invalid_query_value), "no number");
    check(p.comm, refused(adios_query_create(file, NULL, "name", ADIOS_GT, "1"), err_invalid_query_value), "text");
    check(p.comm, refused(adios_query_create(NULL, NULL, "T", ADIOS_GT, "1"), err_invalid_file_pointer), "no file");
    check(p.comm, refused(adios_query_create(file, NULL, "T", (enum ADIOS_PREDICATE_MODE)6, "1"), err_invalid_argument), "no comparison");
    check(p.comm, refused(adios_query_combine(any, ADIOS_QUERY_OP_OR, NULL), err_incompatible_queries), "no query");
    ADIOS_SELECTION *wrong = box(0, 1, HIGH, columns), *smaller = box(0, 0, HIGH, 1);
    check(p.comm, fails(adios_query_create(file, wrong, "T", ADIOS_GT, "1"), NULL, 0, err_incompatible_queries), "a box that leaves the array");
    check(p.comm, fails(adios_query_create(file, left, "T", ADIOS_GT, "1"), smaller, 0, err_incompatible_queries), "results in a box of another size");
    check(p.comm, fails(adios_query_create(file, left, "T", ADIOS_GT, "1"), NULL, -1, err_invalid_timestep), "a step below 0");
    adios_selection_delete(wrong);
    adios_selection_delete(smaller);
    r = adios_query_evaluate((ADIOS_QUERY *)left, NULL, 0, 1);
    check(p.comm, r->status == ADIOS_QUERY_RESULT_ERROR, "a pointer that is no query");
    free_result(r);
    adios_query_free(both);
    adios_query_free(both);
    check(p.comm, adios_errno == err_invalid_argument, "a query that was freed before");
    adios_query_free(any);
    adios_query_free(NULL);

    ADIOS_AVAILABLE_QUERY_METHODS *methods = adios_available_query_methods();
    right = methods->nmethods == 3;
    for (int i = 0; i < methods->nmethods; i++) right = right && adios_query_is_method_available(methods->methodID[i]);
    check(p.comm, right && !strcmp(methods->name[0], "ADIOS_QUERY_METHOD_MINMAX"), "methods have names");
    check(p.comm, !adios_query_is_method_available(ADIOS_QUERY_METHOD_UNKNOWN), "and others there are not");
    adios_available_query_methods_free(methods);

    for (int i = 0; i < 2000; i++) {
        q = adios_query_create(file, left, "T", ADIOS_GT, "1");
        adios_query_set_method(q, i % 2 ? ADIOS_QUERY_METHOD_MINMAX : ADIOS_QUERY_METHOD_FASTBIT);
        free_result(adios_query_evaluate(q, NULL, i % 4 / 2, 3)); /* left in the middle */
        adios_query_free(q);
    }
    q = adios_query_create(file, left, "T", ADIOS_GT, "1");
    must(adios_read_close(file), "adios_read_close");
    check(p.comm, fails(q, NULL, 0, err_invalid_file_pointer), "a query whose file was closed");
    adios_selection_delete(left);
    adios_selection_delete(here);
    must(adios_read_finalize_method(ADIOS_READ_METHOD_BP), "adios_read_finalize_method");
    MPI_Finalize();
    return checks_failed != 0;
}
