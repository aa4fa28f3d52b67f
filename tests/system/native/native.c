/* thalweg.h, from code alone: every kind of variable written and read back, errors with their place. On any number of ranks, with
 * and without MPI. The argument is a folder for files. */
#include "check.h"

#include <complex.h>

enum { ROWS = 4, NX = 1500, STEPS = 3 }; /* rows of a rank; a row is longer than what is always copied */

static char path[4096];
static const char *in(const char *folder, const char *name)
{
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static double value_at(uint64_t step, uint64_t row, uint64_t column) { return 1e6 * (double)step + 1e3 * (double)row + (double)column; }

static int session_open(thalweg_session **session)
{
#ifdef MPI_VERSION
    return thalweg_session_open_mpi(session, NULL, MPI_COMM_WORLD);
#else
    return thalweg_session_open(session, NULL);
#endif
}

static int declare(thalweg_session *session)
{
    thalweg_group *g;
    const uint64_t shape[2] = {(uint64_t)(ROWS * all_ranks), NX};
    const double scale[3] = {1.5, -2.0, 1e300};
    const char *names[2] = {"north", "s\xc3\xbc" "d"};
    return thalweg_group_declare(&g, session, "plate") || thalweg_group_method(g, "MPI", "", NULL) ||
           thalweg_group_statistics(g, THALWEG_STATISTICS_FULL) || thalweg_define_scalar(g, "time", THALWEG_FLOAT64) ||
           thalweg_define_scalar(g, "note", THALWEG_STRING) || thalweg_define_scalar(g, "/count/large", THALWEG_UINT64) ||
           thalweg_define_global(g, "T", THALWEG_FLOAT64, 2, shape) || thalweg_define_global(g, "kept", THALWEG_FLOAT64, 2, NULL) ||
           thalweg_define_global(g, "inside", THALWEG_INT32, 2, shape) || thalweg_define_local(g, "mark", THALWEG_UINT8, 1) ||
           thalweg_define_local(g, "z", THALWEG_COMPLEX128, 1) || thalweg_define_attribute(g, "T/units", THALWEG_STRING, 1, "K") ||
           thalweg_define_attribute(g, "scale", THALWEG_FLOAT64, 3, scale) ||
           thalweg_define_attribute(g, "sides", THALWEG_STRINGS, 2, names) || thalweg_define_attribute_of(g, "T/at", "time");
}

static int write_step(thalweg_session *session, const char *file, uint64_t step)
{
    static double t[ROWS][NX], kept[ROWS][NX];
    static int32_t ghosts[ROWS + 2][NX + 4];
    const uint64_t first = (uint64_t)(my_rank * ROWS);
    for (uint64_t y = 0; y < ROWS; y++)
        for (uint64_t x = 0; x < NX; x++) {
            t[y][x] = value_at(step, first + y, x);
            kept[y][x] = -t[y][x];
        }
    for (uint64_t y = 0; y < ROWS + 2; y++)
        for (uint64_t x = 0; x < NX + 4; x++) {
            int ghost = y == 0 || y == ROWS + 1 || x < 2 || x >= NX + 2;
            ghosts[y][x] = ghost ? -1 : (int32_t)(value_at(step, first + y - 1, x - 2));
        }
    const uint64_t shape[2] = {(uint64_t)(ROWS * all_ranks), NX}, offset[2] = {first, 0}, count[2] = {ROWS, NX};
    const uint64_t memory_shape[2] = {ROWS + 2, NX + 4}, memory_offset[2] = {1, 2};
    const uint64_t marks = (uint64_t)my_rank + 1;
    const thalweg_box box = {2, NULL, offset, count}, full = {2, shape, offset, count};
    const thalweg_box local = {1, NULL, NULL, &marks};
    const thalweg_memory memory = {2, memory_shape, memory_offset};
    unsigned char mark[64];
    memset(mark, 'a' + my_rank, sizeof mark);
    double complex z[2] = {1.0 + 2.0 * I, (double)step - (double)my_rank * I};
    const uint64_t two = 2;
    const thalweg_box pair = {1, NULL, NULL, &two};
    double time = 0.5 * (double)step;
    uint64_t large = ((uint64_t)1 << 63) + step;

    thalweg_output *output;
    if (thalweg_output_open(&output, session, "plate", file, step == 0 ? THALWEG_WRITE : THALWEG_APPEND)) return 1;
    int failed = thalweg_output_step(output) != step || thalweg_output_reserve(output, sizeof t + sizeof kept) ||
                 thalweg_write(output, "time", &time) || thalweg_write(output, "note", step == 1 ? "" : "a text") ||
                 thalweg_write(output, "/count/large", &large) || thalweg_write_box(output, "T", &box, t) ||
                 thalweg_put(output, "kept", &(thalweg_block_data){.data = kept, .bytes = sizeof kept, .check_type = 1,
                                                                   .type = THALWEG_FLOAT64, .box = &full, .deferred = 1}) ||
                 thalweg_put(output, "inside", &(thalweg_block_data){.data = ghosts, .bytes = sizeof ghosts, .box = &box,
                                                                     .memory = &memory}) ||
                 thalweg_write_box(output, "mark", &local, mark) || thalweg_write_box(output, "z", &pair, z);
    memset(t, 0xff, sizeof t); /* a write returns with its memory free; what is deferred stays */
    memset(ghosts, 0xff, sizeof ghosts);
    return thalweg_output_close(output) || failed;
}

static void reads(const char *file)
{
    thalweg_reader *r;
    const thalweg_variable *v;
    const thalweg_attribute *a;
    thalweg_file_info info;
    const uint64_t rows = (uint64_t)(ROWS * all_ranks);
#ifdef MPI_VERSION
    int status = thalweg_reader_open_mpi(&r, file, MPI_COMM_WORLD);
#else
    int status = thalweg_reader_open(&r, file);
#endif
    check(!status, "a file is opened");
    if (status) return;
    check(!thalweg_reader_info(r, &info) && info.steps == STEPS && info.finished && info.torn_bytes == 0 && info.groups == 1 &&
              info.variables == 8 && info.attributes == 4,
          "what a file holds is known at a glance");
    check(!strcmp(thalweg_reader_variable_name(r, 0), "time") && !strcmp(thalweg_reader_group_name(r, 0), "plate") &&
              !thalweg_reader_variable_name(r, 8) && thalweg_reader_attribute_name(r, 3) && !thalweg_reader_attribute_name(r, 4),
          "names come in the order of the file, and end");
    check(!thalweg_reader_variable(r, "T", &v) && v->type == THALWEG_FLOAT64 && v->kind == THALWEG_GLOBAL && v->ndim == 2 &&
              v->shape[0] == rows && v->shape[1] == NX && v->nsteps == STEPS && v->steps[2] == 2 &&
              v->blocks == (uint64_t)(STEPS * all_ranks) && !v->transform && !strcmp(v->group, "plate"),
          "a variable is described");
    check(!thalweg_reader_variable(r, "mark", &v) && v->kind == THALWEG_LOCAL && v->type == THALWEG_UINT8, "local arrays too");

    double box[2][5];
    const uint64_t offset[2] = {1, 10}, count[2] = {2, 5}, points[4] = {0, 0, rows - 1, NX - 1};
    const thalweg_selection of_box = {.kind = THALWEG_SELECT_BOX, .ndim = 2, .offset = offset, .count = count};
    const thalweg_selection of_points = {.kind = THALWEG_SELECT_POINTS, .ndim = 2, .npoints = 2, .points = points};
    const thalweg_selection of_block = {.kind = THALWEG_SELECT_BLOCK, .block = (uint64_t)my_rank};
    check(!thalweg_read(r, "T", 1, &of_box, box, sizeof box) && box[0][0] == value_at(1, 1, 10) &&
              box[1][4] == value_at(1, 2, 14),
          "a box is read");
    check(!thalweg_read(r, "kept", -1, &of_box, box, sizeof box) && box[1][4] == -value_at(2, 2, 14),
          "what was deferred is what memory held until close, and -1 is the last step");
    const uint64_t every[2] = {1, 3};
    const thalweg_selection of_some = {.kind = THALWEG_SELECT_STRIDED, .ndim = 2, .offset = offset, .count = count, .stride = every};
    check(!thalweg_read(r, "T", 1, &of_some, box, 4 * sizeof box[0][0]) && box[0][1] == value_at(1, 1, 13) &&
              box[0][3] == value_at(1, 2, 13) && thalweg_read(r, "T", 1, &of_some, box, sizeof box) == THALWEG_INVALID_ARGUMENT,
          "every third element of a box is read");
    check(!thalweg_reader_set_digits(r, 2) && !thalweg_read(r, "T", 1, &of_box, box, sizeof box) &&
              box[1][4] <= value_at(1, 2, 14) && value_at(1, 2, 14) - box[1][4] <= 0.01 * value_at(1, 2, 14) && !thalweg_reader_set_digits(r, 0) &&
              !thalweg_read(r, "T", 1, &of_box, box, sizeof box) && box[1][4] == value_at(1, 2, 14),
          "two digits of each number are kept, where that is asked for");
    uint64_t bare = 7;
    check(thalweg_reader_set_reads(r, "perhaps") == THALWEG_CONFIG && !thalweg_reader_set_reads(r, "checked") &&
              !thalweg_read(r, "T", 1, &of_box, box, sizeof box) && box[1][4] == value_at(1, 2, 14) &&
              !thalweg_reader_blocks_without_checksum(r, &bare) && bare == 0 && !thalweg_reader_set_reads(r, "compared"),
          "checksums are compared where that is asked for");
    double two[2];
    check(!thalweg_read(r, "T", 2, &of_points, two, sizeof two) && two[0] == value_at(2, 0, 0) &&
              two[1] == value_at(2, rows - 1, NX - 1),
          "points are read");
    static int32_t block[ROWS][NX];
    check(!thalweg_read(r, "inside", 0, &of_block, block, sizeof block) &&
              block[0][0] == (int32_t)value_at(0, (uint64_t)(my_rank * ROWS), 0) &&
              block[ROWS - 1][NX - 1] == (int32_t)value_at(0, (uint64_t)(my_rank * ROWS + ROWS - 1), NX - 1),
          "a block written out of an array with ghost cells is read without them");

    double times[STEPS] = {0};
    double complex z[2];
    uint64_t large, bytes;
    static double column[STEPS][3];
    const uint64_t start[2] = {0, 7}, three[2] = {3, 1};
    const thalweg_selection of_column = {.kind = THALWEG_SELECT_BOX, .ndim = 2, .offset = start, .count = three};
    const thalweg_request series = {.name = "T", .check_type = 1, .type = THALWEG_FLOAT64, .step = 0, .steps = STEPS,
                                    .selection = &of_column, .data = column, .bytes = sizeof column};
    check(!thalweg_get_deferred(r, &(thalweg_request){.name = "time", .steps = STEPS, .data = times, .bytes = sizeof times}) &&
              !thalweg_get_deferred(r, &series) &&
              !thalweg_get_deferred(r, &(thalweg_request){.name = "z", .step = 2, .selection = &of_block, .data = z,
                                                          .bytes = sizeof z}) &&
              column[2][2] == 0.0 && !thalweg_perform(r) && times[2] == 1.0 && column[2][2] == value_at(2, 2, 7) &&
              creal(z[1]) == 2.0 && cimag(z[1]) == -(double)my_rank,
          "requests that were noted are read together");
    check(!thalweg_get_bytes(r, &series, &bytes) && bytes == sizeof column, "how much a request fills is known before");
    static double large_plate[ROWS + 2][9];
    const uint64_t memory_shape[2] = {ROWS + 2, 9}, memory_offset[2] = {1, 2};
    const thalweg_memory memory = {2, memory_shape, memory_offset};
    check(!thalweg_get(r, &(thalweg_request){.name = "T", .step = 1, .selection = &of_box, .memory = &memory,
                                             .data = large_plate, .bytes = sizeof large_plate}) &&
              large_plate[1][2] == value_at(1, 1, 10) && large_plate[2][6] == value_at(1, 2, 14) && large_plate[1][1] == 0.0 &&
              large_plate[0][2] == 0.0 && large_plate[2][7] == 0.0,
          "a box is read into a larger array, and nothing beside it changes");
    check(!thalweg_read(r, "/count/large", 1, NULL, &large, sizeof large) && large == ((uint64_t)1 << 63) + 1,
          "large numbers keep their last bit");

    char note[16];
    memset(note, 'x', sizeof note);
    check(!thalweg_read(r, "note", 0, NULL, note, sizeof note) && !strcmp(note, "a text") &&
              !thalweg_read(r, "note", 1, NULL, note, sizeof note) && !strcmp(note, ""),
          "texts end with a zero byte where there is room");

    uint64_t shape[2];
    size_t ndim = 0;
    thalweg_summary s;
    check(!thalweg_reader_shape(r, "T", -1, 2, shape, &ndim) && ndim == 2 && shape[0] == rows, "a shape at a step");
    check(thalweg_reader_shape(r, "T", 0, 1, shape, &ndim) == THALWEG_INVALID_ARGUMENT && ndim == 2,
          "a shape says how much room it needs");
    check(!thalweg_reader_summary(r, "T", 0, UINT64_MAX, &s) && s.has_bounds && s.min == 0.0 &&
              s.max == value_at(2, rows - 1, NX - 1) && s.elements == STEPS * rows * NX && s.has_mean,
          "characteristics are joined over steps");
    thalweg_blocks *blocks = NULL;
    status = thalweg_reader_blocks(r, "T", 1, &blocks);
    check(!status && blocks->count == (size_t)all_ranks && blocks->block[0].ndim == 2 && blocks->block[0].count[1] == NX &&
              blocks->block[0].offset[0] == 0 && blocks->block[0].summary.min == value_at(1, 0, 0) && blocks->block[0].subfile == -1,
          "blocks are described");
    thalweg_blocks_free(blocks);
    check(!thalweg_reader_attribute(r, "T/units", &a) && a->type == THALWEG_STRING && a->count == 1 && !strcmp(a->texts[0], "K"),
          "an attribute of text");
    check(!thalweg_reader_attribute(r, "scale", &a) && a->type == THALWEG_FLOAT64 && a->count == 3 &&
              ((const double *)a->values)[2] == 1e300,
          "an attribute of numbers");
    check(!thalweg_reader_attribute(r, "sides", &a) && a->type == THALWEG_STRING && a->count == 2 &&
              !strcmp(a->texts[1], "s\xc3\xbc" "d"),
          "an attribute of texts");
    check(!thalweg_reader_attribute(r, "T/at", &a) && a->type == THALWEG_FLOAT64 && a->count == 1 &&
              *(const double *)a->values == 1.0,
          "an attribute of a scalar");

    const thalweg_error *e;
    status = thalweg_read(r, "Tt", 0, NULL, box, sizeof box);
    e = thalweg_last_error();
    check(status == THALWEG_NOT_FOUND && e->status == THALWEG_NOT_FOUND && e->variable && !strcmp(e->variable, "Tt") && e->object &&
              strstr(e->object, "native") && strstr(e->text, "Tt"),
          "a name that is not there is named, with the file");
    const uint64_t outside[2] = {rows - 1, 0};
    const thalweg_selection beyond = {.kind = THALWEG_SELECT_BOX, .ndim = 2, .offset = outside, .count = count};
    check(thalweg_read(r, "T", 0, &beyond, box, sizeof box) == THALWEG_OUT_OF_BOUNDS && thalweg_last_error()->step == 0,
          "a box that leaves the array is out of bounds");
    check(thalweg_read(r, "T", 0, &of_box, box, 8) == THALWEG_INVALID_ARGUMENT, "memory of another size is refused");
    check(thalweg_read(r, "T", STEPS, &of_box, box, sizeof box) == THALWEG_NOT_FOUND, "so is a step that is not there");
    thalweg_request other = series;
    other.type = THALWEG_FLOAT32;
    check(thalweg_get(r, &other) == THALWEG_INVALID_ARGUMENT && strstr(thalweg_last_error()->what, "double"),
          "so is a type that is not the variable's");
    thalweg_reader_close(r);
}

static void failures(thalweg_session *session, const char *folder)
{
    thalweg_output *output;
    thalweg_group *g;
    thalweg_reader *r;
    int number = 7;
    check(thalweg_output_open(&output, session, "plat", in(folder, "native-no.bp"), THALWEG_WRITE) == THALWEG_NOT_FOUND && !output &&
              strstr(thalweg_last_error()->what, "plate"),
          "an unknown group is told, with the nearest name");
    check(thalweg_group_declare(&g, session, "plate") == THALWEG_CONFIG && !g, "a group is declared once");
    check(!thalweg_group_find(&g, session, "plate") && thalweg_group_method(g, "MPIX", NULL, NULL) == THALWEG_CONFIG &&
              thalweg_last_error()->group && !strcmp(thalweg_last_error()->group, "plate"),
          "an unknown method is refused, naming the group");
    check(thalweg_reader_open(&r, in(folder, "not-there.bp")) == THALWEG_NOT_FOUND && !r && thalweg_last_error()->object,
          "a file that is not there");
    check(thalweg_write(NULL, "T", &number) == THALWEG_INVALID_ARGUMENT, "a null handle is refused");
    check(!strcmp(thalweg_status_text(THALWEG_NO_SPACE), "no space left") && thalweg_type_size(THALWEG_COMPLEX128) == 16 &&
              thalweg_type_size((thalweg_type)3) == 0 && starts_with(thalweg_version(), "0."),
          "words, sizes, version");

    /* The first try fails in its arguments, nothing is lost. */
    int status = thalweg_output_open(&output, session, "plate", in(folder, "native-abandoned.bp"), THALWEG_WRITE);
    check(!status, "an output is opened");
    if (status) return;
    const uint64_t first = (uint64_t)(my_rank * ROWS), offset[2] = {first, 0}, count[2] = {ROWS, NX}, far[2] = {first + 1000000, 0};
    const thalweg_box box = {2, NULL, offset, count}, outside = {2, NULL, far, count};
    static double t[ROWS][NX];
    check(thalweg_put(output, "T", &(thalweg_block_data){.data = t, .bytes = 8, .box = &box}) == THALWEG_INVALID_ARGUMENT &&
              thalweg_put(output, "T", &(thalweg_block_data){.data = t, .check_type = 1, .type = THALWEG_INT8, .box = &box}) ==
                  THALWEG_INVALID_ARGUMENT &&
              thalweg_write_box(output, "T", &outside, t) == THALWEG_OUT_OF_BOUNDS &&
              thalweg_write_box(output, "kept", &box, t) == THALWEG_INVALID_ARGUMENT &&
              thalweg_write(output, "U", t) == THALWEG_NOT_FOUND && thalweg_write_box(output, "T", &box, NULL) == THALWEG_INVALID_ARGUMENT,
          "blocks of another size, type, place or name are refused");
    check(!thalweg_write_box(output, "T", &box, t), "and may be written rightly then");
    /* The last rank gives up; the others hear of it. */
    if (my_rank == all_ranks - 1) {
        status = thalweg_output_abandon(output, "the solver diverged");
        check(status == THALWEG_INVALID_ARGUMENT && strstr(thalweg_last_error()->text, "the solver diverged"),
              "a rank that gives up takes part in the close");
    } else {
        status = thalweg_output_close(output);
        check(status == THALWEG_INVALID_ARGUMENT && thalweg_last_error()->reported_by == all_ranks - 1,
              "a rank that gives up takes part in the close");
    }
    /* All drop it: nobody waits, the step is not there, the next output takes its place. */
    status = thalweg_output_open(&output, session, "plate", in(folder, "native-dropped.bp"), THALWEG_WRITE);
    status = status || thalweg_write_box(output, "T", &box, t);
    thalweg_output_drop(output);
    check(!status, "an output is dropped");
    for (uint64_t step = 0; step < 2; step++) status = status || write_step(session, in(folder, "native-dropped.bp"), step);
    check(!status && !thalweg_reader_open(&r, in(folder, "native-dropped.bp")), "what was dropped is in nobody's way");
    if (!status) {
        thalweg_file_info info;
        check(!thalweg_reader_info(r, &info) && info.steps == 2 && info.torn_bytes == 0, "and is not in the file");
        check(thalweg_reader_advance(r, 0, 0.0) == THALWEG_INVALID_ARGUMENT, "a file that was opened is not followed");
        thalweg_reader_close(r);
    }
    thalweg_reader *after = NULL;
    status = thalweg_output_open_after(&output, session, "plate", in(folder, "native-dropped.bp"), 0);
    const double time = 77.0;
    double back = 0.0;
    status = status || thalweg_output_step(output) != 1 || thalweg_write(output, "time", &time) || thalweg_output_close(output);
    check(!status && !thalweg_reader_open(&after, in(folder, "native-dropped.bp")) &&
              !thalweg_read(after, "time", -1, NULL, &back, sizeof back) && back == 77.0,
          "a restart goes on behind an earlier step, later ones are dropped");
    thalweg_reader_close(after);
}

/* Names with several slashes: of scalars, of an array and the scalar that its extent is, of an attribute. */
static void slashes(const char *file)
{
    thalweg_session *session;
    thalweg_group *g;
    thalweg_output *output;
    thalweg_reader *r;
    const int32_t numbers[] = {3, 11, 12};
    const char *const names[] = {"a//b", "//b", "a///b/c"};
    double many[3] = {0.5, 1.5, 2.5}, got[3] = {0};
    int status = session_open(&session);
    check(!status, "a session for names with several slashes");
    if (status) return;
    status = thalweg_group_declare(&g, session, "slashes") || thalweg_group_method(g, "MPI", NULL, NULL);
    for (int i = 0; i < 3; i++) status = status || thalweg_define_scalar(g, names[i], THALWEG_INT32);
    check(!status && !thalweg_define_array(g, "of//them/many", THALWEG_FLOAT64, "a//b", NULL, NULL), "names with several slashes are defined");
    status = thalweg_output_open(&output, session, "slashes", file, THALWEG_WRITE);
    check(!status, "an output of them is opened");
    if (status) return;
    for (int i = 0; i < 3; i++) status = status || thalweg_write(output, names[i], &numbers[i]);
    check(!status && !thalweg_write(output, "of//them/many", many), "they are written as they were defined");
    check(thalweg_write(output, "a/b", &numbers[0]) == THALWEG_NOT_FOUND, "a name with one slash is another one");
    check(!thalweg_output_close(output) && !thalweg_session_close(session), "and closed");
    status = thalweg_reader_open(&r, file);
    check(!status, "they are opened");
    if (status) return;
    for (int i = 0; i < 3; i++) {
        int32_t number = 0;
        status = status || thalweg_read(r, names[i], 0, NULL, &number, sizeof number) || number != numbers[i];
    }
    check(!status && !thalweg_read(r, "of//them/many", 0, NULL, got, sizeof got) && !memcmp(got, many, sizeof got), "they are read by the same names");
    thalweg_reader_close(r);
}

int main(int argc, char **argv)
{
    const char *folder = argc > 1 ? argv[1] : ".";
    (void)argc;
#ifdef MPI_VERSION
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &my_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &all_ranks);
#endif
    thalweg_session *session;
    check(!session_open(&session), "a session without XML");
    check(!declare(session), "a group is declared in code");
    int status = 0;
    for (uint64_t step = 0; step < STEPS; step++) {
        status = status || thalweg_session_begin_calculation(session) || thalweg_session_end_calculation(session) ||
                 thalweg_session_end_iteration(session) || write_step(session, in(folder, "native.bp"), step);
    }
    check(!status, "steps are written, and the session is told what lies between");
    check(thalweg_session_begin_calculation(NULL) == THALWEG_INVALID_ARGUMENT, "no session hears nothing");
    failures(session, folder);
    check(!thalweg_session_close(session), "the session ends");
    reads(in(folder, "native.bp"));
    slashes(in(folder, "native-slashes.bp"));

    check(thalweg_session_open_text(&session, "<adios-config><oops/></adios-config>", "oops.xml") == THALWEG_CONFIG && !session &&
              strstr(thalweg_last_error()->text, "oops.xml:1"),
          "a wrong XML is told with its line");
    check(!session_open(&session) && !thalweg_session_set_buffer(session, 0) && !declare(session), "a session without a buffer");
    status = 0;
    for (uint64_t step = 0; step < 2; step++) status = status || write_step(session, in(folder, "native-through.bp"), step);
    check(!status && !thalweg_session_close(session), "writes everything through");
#ifdef MPI_VERSION
    MPI_Finalize();
#endif
    return checks_failed != 0;
}
