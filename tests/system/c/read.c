/* read FILE: writes a small file and reads it in every way; prints "ok ..." or "not ok ..." per check. What the interface
 * promises beyond what ADIOS 1.13 does, and what fails. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "adios.h"
#include "adios_read.h"
#include "adios_transform_methods.h"
#include "check.h"

static int rank, size;

static void is(int holds, const char *name) { check(MPI_COMM_WORLD, holds, name); }

static void written(const char *path)
{
    int64_t g = 0, f = 0;
    adios_init_noxml(MPI_COMM_WORLD);
    adios_declare_group(&g, "fields", "", adios_stat_full);
    adios_select_method(g, "MPI", "", "");
    adios_define_var(g, "n", "", adios_integer, "", "", "");
    adios_define_var(g, "N", "", adios_integer, "", "", "");
    adios_define_var(g, "o", "", adios_integer, "", "", "");
    adios_define_var(g, "T", "", adios_double, "n,4", "N,4", "o,0");
    adios_define_var(g, "own", "", adios_integer, "n", "", "");
    adios_define_var(g, "note", "", adios_string, "", "", "");
    adios_define_var(g, "late", "", adios_double, "", "", "");
    adios_define_attribute(g, "unit", "T", adios_string, "K", "");
    const char *words[2] = {"one", "two"};
    adios_define_attribute_byvalue(g, "words", "", adios_string_array, 2, words);
    for (int step = 0; step < 3; step++) {
        int n = 2, N = 2 * size, o = 2 * rank, own[2] = {rank, step};
        double T[8], late = 0.5;
        for (int k = 0; k < 8; k++) T[k] = 100 * step + 8 * rank + k;
        adios_open(&f, "fields", path, step ? "a" : "w", MPI_COMM_WORLD);
        adios_write(f, "n", &n);
        adios_write(f, "N", &N);
        adios_write(f, "o", &o);
        adios_write(f, "T", T);
        adios_write(f, "own", own);
        adios_write(f, "note", step ? "a longer text" : "short");
        if (step == 2) adios_write(f, "late", &late);
        adios_close(f);
    }
    adios_finalize(rank);
}

static void files(const char *path)
{
    is(adios_read_open_file("none.bp", ADIOS_READ_METHOD_BP, MPI_COMM_WORLD) == NULL &&
              adios_errno == err_file_not_found,
          "a file that is not there is told so");
    is(adios_read_open_file(path, ADIOS_READ_METHOD_FLEXPATH, MPI_COMM_WORLD) == NULL &&
              adios_errno == err_invalid_read_method,
          "a method that is not offered is refused");
    is(adios_read_open(path, ADIOS_READ_METHOD_BP, MPI_COMM_WORLD, (enum ADIOS_LOCKMODE)7, 0) == NULL &&
              adios_errno == err_invalid_argument,
          "a lock that is none is refused");
    is(adios_read_close(NULL) == err_invalid_file_pointer, "no file can't be closed");
    ADIOS_FILE *f = adios_read_open_file(path, ADIOS_READ_METHOD_BP_AGGREGATE, MPI_COMM_WORLD);
    is(f != NULL, "a file opens");
    is(f->nvars == 7 && f->nattrs == 2 && f->current_step == 0 && f->last_step == 2 && !f->is_streaming, "what it holds");
    is(strcmp(f->path, path) == 0 && f->version == 3 && f->file_size > 0, "its path, version and size");
    is(adios_advance_step(f, 0, 0) == err_end_of_stream, "a file has no next step");
    is(adios_inq_var_byid(f, 7) == NULL && adios_errno == err_invalid_varid, "a variable that is not there");
    is(adios_inq_var(f, "t") == NULL && adios_errno == err_invalid_varname, "a name that is not there");
    is(adios_inq_var(f, NULL) == NULL && adios_errno == err_invalid_varname, "no name");
    ADIOS_VARINFO *v = adios_inq_var(f, "/T");
    is(v && v->ndim == 2 && v->dims[0] == (uint64_t)(2 * size) && v->nsteps == 3 && v->sum_nblocks == 3 * size,
          "a variable, the slash in front of its name too many");
    is(v->nattrs == 1 && strcmp(f->attr_namelist[v->attr_ids[0]], "T/unit") == 0, "its attributes");
    is(adios_inq_var_blockinfo(f, v) == 0 && v->blockinfo[size + rank].process_id == (uint32_t)rank &&
              v->blockinfo[size + rank].time_index == 2 && v->blockinfo[rank].start[0] == (uint64_t)(2 * rank),
          "its blocks");
    is(adios_inq_var_stat(f, v, 1, 1) == 0 && *(double *)v->statistics->min == 0 &&
              *(double *)v->statistics->steps->maxs[2] == 200 + 8 * size - 1 &&
              *v->statistics->blocks->avgs[rank] == 8 * rank + 3.5,
          "its statistics");
    is(fabs(adios_stat_cor(v, v, "average", 0, 3, 0) - 1) < 1e-12, "its average goes with itself");
    is(adios_stat_cov(v, v, "average", 0, 2, 1) == 2500, "and covaries with itself a step later");
    is(isnan(adios_stat_cov(v, v, "average", 0, 3, 1)) && adios_errno == err_invalid_timestep, "not beyond the last");
    is(adios_inq_var_meshinfo(f, v) != 0 && v->meshinfo == NULL, "it lies on no mesh");
    is(adios_get_absolute_writeblock_index(v, rank, 1) == size + rank, "a block's number over all steps");
    ADIOS_VARTRANSFORM *t = adios_inq_var_transform(f, v);
    is(t && t->transform_type == NO_TRANSFORM && t->sum_nblocks == 3 * size, "it has no transform");
    adios_free_var_transform(t);
    adios_free_varinfo(v);
    adios_free_varinfo(v);
    is(adios_errno == err_invalid_argument, "what is freed twice is refused");
    adios_free_varinfo(NULL);
    is(adios_errno == 0, "nothing can be freed");

    enum ADIOS_DATATYPES type;
    int bytes;
    char **words;
    is(adios_get_attr(f, "words", &type, &bytes, (void **)&words) == 0 && type == adios_string_array &&
              bytes == 2 * (int)sizeof(char *) && strcmp(words[1], "two") == 0,
          "a list of texts");

    free(words);
    is(adios_get_attr(f, "word", &type, &bytes, (void **)&words) == err_invalid_attrname, "an attribute that is not there");
    is(adios_get_attr_byid(f, 9, &type, &bytes, (void **)&words) == err_invalid_attrid, "nor by number");
    is(adios_read_set_data_view(f, LOGICAL_DATA_VIEW) == LOGICAL_DATA_VIEW, "variables are shown as written");
    is(adios_read_get_dimension_order(f) == 0, "dimensions slowest first");

    /* Reads that fail leave the memory alone. */
    double T[64] = {7};
    const uint64_t start[2] = {(uint64_t)(2 * size), 0}, count[2] = {1, 1};
    ADIOS_SELECTION *outside = adios_selection_boundingbox(2, start, count);
    is(adios_schedule_read(f, outside, "T", 0, 1, T) == 0 && adios_perform_reads(f, 1) == err_out_of_bound && T[0] == 7,
          "a box outside is refused");
    adios_selection_delete(outside);
    ADIOS_SELECTION *line = adios_selection_boundingbox(1, start, count);
    is(adios_schedule_read(f, line, "T", 0, 1, T) == err_invalid_argument, "a box of other dimensions is refused");
    adios_selection_delete(line);
    ADIOS_SELECTION *block = adios_selection_writeblock(size);
    is(adios_schedule_read(f, block, "T", 0, 1, T) == 0 && adios_perform_reads(f, 1) == err_out_of_bound,
          "a block that the step does not have is refused");
    adios_selection_delete(block);
    is(adios_schedule_read(f, NULL, "T", 2, 2, T) == err_invalid_timestep, "steps that are not there are refused");
    is(adios_schedule_read(f, NULL, "late", 0, 1, T) == 0 && adios_perform_reads(f, 1) == 0 && T[0] == 0.5,
          "a variable's steps are its own");
    /* One that fails does not keep the others from being read, and two may share memory. */
    double more[64] = {0};
    const uint64_t corner[2] = {0, 1}, one[2] = {1, 1};
    ADIOS_SELECTION *first = adios_selection_boundingbox(2, corner, one), *beyond = adios_selection_writeblock(size);
    adios_schedule_read(f, beyond, "T", 0, 1, more + 32);
    adios_schedule_read(f, first, "T", 0, 3, more);
    adios_schedule_read(f, NULL, "N", 0, 1, T);
    is(adios_perform_reads(f, 1) == err_out_of_bound && more[0] == 1 && more[2] == 201 && *(int *)T == 2 * size,
       "a read that fails leaves the others");
    adios_schedule_read(f, first, "T", 0, 3, more);
    adios_schedule_read(f, first, "T", 1, 2, more + 1);
    is(adios_perform_reads(f, 1) == 0 && more[0] == 1 && more[1] == 101 && more[2] == 201, "two reads may share memory");
    adios_selection_delete(first);
    adios_selection_delete(beyond);
    char note[20];
    is(adios_schedule_read(f, NULL, "note", 1, 1, note) == 0 && adios_perform_reads(f, 1) == err_out_of_bound,
          "a text longer than in the first step is refused");
    block = adios_selection_writeblock(0);
    is(adios_schedule_read(f, block, "note", 1, 1, note) == 0 && adios_perform_reads(f, 1) == 0 &&
              strcmp(note, "a longer text") == 0,
          "and read as a block");
    adios_selection_delete(block);
    /* Two steps of a block lie one behind the other. */
    int own[4] = {0};
    block = adios_selection_writeblock(rank);
    is(adios_schedule_read(f, block, "own", 1, 2, own) == 0 && adios_perform_reads(f, 1) == 0 && own[0] == rank &&
              own[1] == 1 && own[3] == 2,
          "a block of two steps");
    adios_selection_delete(block);
    block = adios_selection_writeblock_bounded(rank, 5, 2, 1);
    is(adios_schedule_read(f, block, "T", 0, 1, T) == 0 && adios_perform_reads(f, 1) == 0 && T[0] == 8 * rank + 5 &&
              T[1] == 8 * rank + 6,
          "a part of a block");
    adios_selection_delete(block);
    const uint64_t from[2] = {0, 1}, over[2] = {2 * (uint64_t)size, 3}, every[2] = {2, 2}, none[2] = {2, 0};
    ADIOS_SELECTION *sparse = thalweg_adios_selection_strided(2, from, over, every);
    is(sparse && sparse->type == THALWEG_SELECTION_STRIDED && sparse->u.strided.stride[1] == 2 &&
              adios_schedule_read(f, sparse, "T", 1, 1, T) == 0 && adios_perform_reads(f, 1) == 0 && T[0] == 101 && T[1] == 103 &&
              T[2 * size - 2] == 100 + 8 * (size - 1) + 1,
          "every second element of a box");
    is(adios_schedule_read(f, sparse, "own", 1, 1, own) == err_invalid_argument, "only of a global array");
    is(adios_schedule_read(f, sparse, "T", 1, 1, NULL) == 0 && adios_perform_reads(f, 0) == 0, "also in pieces");
    ADIOS_VARCHUNK *piece = NULL;
    is(adios_check_reads(f, &piece) == 1 && piece && ((double *)piece->data)[1] == 103 && piece->sel->u.strided.count[1] == 3,
          "which say what they hold");
    adios_free_chunk(piece);
    is(adios_check_reads(f, &piece) == 0, "and end");
    adios_selection_delete(sparse);
    is(!thalweg_adios_selection_strided(2, from, over, none) && adios_errno == err_invalid_selection, "a stride of 0 is refused");
    uint64_t inside[4] = {0, 3, 1, 1};
    ADIOS_SELECTION *points = adios_selection_points(2, 2, inside);
    points->u.points.container_selection = adios_selection_writeblock(rank);
    is(adios_schedule_read(f, points, "T", 0, 1, T) == 0 && adios_perform_reads(f, 1) == 0 && T[0] == 8 * rank + 3 &&
              T[1] == 8 * rank + 5,
          "points in a block");
    adios_selection_delete(points);
    ADIOS_SELECTION *mine = adios_selection_auto(NULL);
    is(adios_schedule_read(f, mine, "T", 1, 1, T) == 0 && adios_perform_reads(f, 1) == 0 && T[0] == 100 + 8 * rank,
          "an automatic selection gives this rank its share");

    ADIOS_PG_INTERSECTIONS *met = NULL;
    const uint64_t middle[2] = {1, 1}, two[2] = {2 * (uint64_t)size - 1, 1};
    ADIOS_SELECTION *across = adios_selection_boundingbox(2, middle, two);
    int T_id = -1;
    for (int i = 0; i < f->nvars; i++)
        if (strcmp(f->var_namelist[i], "T") == 0) T_id = i;
    met = adios_find_intersecting_pgs(f, T_id, across, 1, 1);
    is(met && met->npg == size && met->intersections[0].timestep == 1 && met->intersections[0].blockidx == size &&
              met->intersections[0].intersection_sel->u.bb.start[0] == 1,
          "blocks that a box meets");
    adios_free_pg_intersections(&met);
    is(met == NULL, "are freed with what they hold");

    /* In pieces. */
    double all[64] = {0};
    int pieces = 0, own_memory = 0, sum = 0;
    adios_schedule_read(f, across, "T", 0, 2, NULL);
    adios_schedule_read(f, NULL, "T", 0, 1, all);
    adios_schedule_read(f, mine, "T", 0, 2, NULL);
    is(adios_perform_reads(f, 1) != 0, "reads without memory can't be performed at once");
    adios_schedule_read(f, across, "T", 0, 2, NULL);
    adios_schedule_read(f, NULL, "T", 0, 1, all);
    adios_schedule_read(f, mine, "T", 0, 2, NULL);
    is(adios_perform_reads(f, 0) == 0, "but piece by piece");
    ADIOS_VARCHUNK *chunk = NULL;
    while (adios_check_reads(f, &chunk) > 0) {
        pieces++;
        if (chunk->data == all) own_memory = chunk->nsteps == 1 && all[7] == 7;
        else if (chunk->sel->type == ADIOS_SELECTION_BOUNDINGBOX) sum += chunk->nsteps * ((double *)chunk->data)[0] == 10;
        else sum += ((double *)chunk->data)[0] == 100 * chunk->from_steps + 8 * chunk->sel->u.block.index;
        adios_free_chunk(chunk);
    }
    is(pieces == 4 && own_memory && sum == 3, "each with its selection");
    is(adios_check_reads(f, &chunk) == 0 && chunk == NULL, "until there are no more");
    adios_selection_delete(mine);
    adios_selection_delete(across);

    char **groups;
    is(adios_get_grouplist(f, &groups) == 1 && strcmp(groups[0], "fields") == 0, "its groups");
    is(adios_group_view(f, 1) == err_invalid_group && f->nvars == 7, "a group that is not there");
    is(adios_group_view(f, 0) == 0 && f->nvars == 7 && adios_group_view(f, -1) == 0, "a view of one");
    is(adios_read_close(f) == 0, "it closes");
    is(adios_read_close(f) == err_invalid_file_pointer, "once");
    ADIOS_AVAILABLE_READ_METHODS *methods = adios_available_read_methods();
    is(methods && methods->nmethods == 2 && strcmp(methods->name[0], "BP") == 0, "methods are listed");
    adios_available_read_methods_free(methods);
    ADIOS_AVAILABLE_TRANSFORM_METHODS *transforms = adios_available_transform_methods();
    is(transforms && transforms->ntransforms >= 1 && transforms->description[0], "and transforms");
    adios_available_transform_methods_free(transforms);
}

/* A file whose program had dimensions fastest first and did not say so. */
static void turned_round(const char *path)
{
    ADIOS_FILE *f = adios_read_open_file(path, ADIOS_READ_METHOD_BP, MPI_COMM_WORLD);
    adios_reset_dimension_order(f, 1);
    ADIOS_VARINFO *v = adios_inq_var(f, "T");
    is(adios_read_get_dimension_order(f) == 1 && v && v->ndim == 2 && v->dims[0] == 4 && v->dims[1] == (uint64_t)(2 * size),
       "dimensions are turned round where the program says so");
    is(adios_inq_var_blockinfo(f, v) == 0 && v->blockinfo[rank].start[0] == 0 &&
           v->blockinfo[rank].start[1] == (uint64_t)(2 * rank) && v->blockinfo[rank].count[1] == 2,
       "those of blocks, too");
    adios_free_varinfo(v);
    /* The bytes of a block are as they were; the dimension named last is the slow one now. */
    const uint64_t start[2] = {1, (uint64_t)(2 * rank)}, count[2] = {2, 2};
    ADIOS_SELECTION *s = adios_selection_boundingbox(2, start, count);
    double T[4] = {0};
    is(adios_schedule_read(f, s, "T", 1, 1, T) == 0 && adios_perform_reads(f, 1) == 0 && T[0] == 102 + 8 * rank &&
           T[1] == 103 + 8 * rank && T[2] == 104 + 8 * rank && T[3] == 105 + 8 * rank,
       "and of boxes");
    adios_selection_delete(s);
    adios_reset_dimension_order(f, 0);
    v = adios_inq_var(f, "T");
    is(v && v->dims[1] == 4, "and back");
    adios_free_varinfo(v);
    adios_reset_dimension_order(NULL, 1);
    is(adios_errno == err_invalid_file_pointer, "not of no file");
    adios_read_close(f);
}

static void streams(const char *path)
{
    is(adios_read_open("none.bp", ADIOS_READ_METHOD_BP, MPI_COMM_WORLD, ADIOS_LOCKMODE_NONE, 0.2f) == NULL &&
              adios_errno == err_file_not_found,
          "a stream that does not come in time is told so");
    ADIOS_FILE *f = adios_read_open(path, ADIOS_READ_METHOD_BP, MPI_COMM_WORLD, ADIOS_LOCKMODE_ALL, -1.0f);
    is(f && f->is_streaming && f->current_step == 0 && f->nvars == 6, "a stream shows its first step");
    double T[4];
    const uint64_t start[2] = {0, 0}, count[2] = {1, 4};
    ADIOS_SELECTION *row = adios_selection_boundingbox(2, start, count);
    is(adios_inq_var(f, "late") == NULL, "without variables of later steps");
    is(adios_schedule_read(f, row, "T", 9, 1, T) == 0 && adios_perform_reads(f, 1) == 0 && T[1] == 1, "its values");
    is(adios_schedule_read(f, row, "T", 0, 2, T) == err_invalid_timestep, "one step at a time");
    is(adios_schedule_read(f, row, "T", 0, 1, T) == 0 && adios_advance_step(f, 0, 0.0f) == 0 && f->current_step == 1,
          "it goes on");
    T[1] = -1;
    is(adios_perform_reads(f, 1) == 0 && T[1] == -1, "reads of the step before are forgotten");
    is(adios_schedule_read(f, row, "T", 0, 1, T) == 0 && adios_perform_reads(f, 1) == 0 && T[1] == 101, "to new values");
    adios_release_step(f);
    is(adios_advance_step(f, 1, 0.0f) == 0 && f->current_step == 2 && f->nvars == 7, "to the newest step");
    ADIOS_VARINFO *v = adios_inq_var(f, "late");
    is(v && v->nsteps == 1 && *(double *)v->value == 0.5, "with its variables");
    adios_free_varinfo(v);
    is(adios_advance_step(f, 0, -1.0f) == err_end_of_stream && f->current_step == 2, "until it ends");
    is(adios_read_close(f) == 0, "it closes");
    adios_selection_delete(row);
}

/* Changes one bit of a value in the file, or changes it back; 0 where that is done. */
static int flipped(const char *path)
{
    static char bytes[1 << 20];
    const double known[2] = {102.0, 103.0}; /* T of rank 0 in step 1; the value in front of them is changed */
    FILE *file = fopen(path, "r+b");
    if (!file) return 1;
    const size_t length = fread(bytes, 1, sizeof bytes, file);
    int status = 1;
    for (size_t at = sizeof(double); at + sizeof known <= length; at++) {
        if (memcmp(bytes + at, known, sizeof known)) continue;
        bytes[at - 8] ^= 1;
        status = fseek(file, (long)at - 8, SEEK_SET) || fwrite(bytes + at - 8, 1, 1, file) != 1;
        break;
    }
    return fclose(file) || status;
}

/* One rank alone: the others wait. */
static int reads_of(const char *path, const char *parameters, int step)
{
    double T[4] = {0};
    const uint64_t start[2] = {0, 0}, count[2] = {1, 4};
    adios_read_init_method(ADIOS_READ_METHOD_BP, MPI_COMM_SELF, parameters);
    ADIOS_FILE *f = adios_read_open_file(path, ADIOS_READ_METHOD_BP, MPI_COMM_SELF);
    if (!f) return -1;
    ADIOS_SELECTION *box = adios_selection_boundingbox(2, start, count);
    adios_schedule_read(f, box, "T", step, 1, T);
    const int status = adios_perform_reads(f, 1);
    adios_selection_delete(box);
    adios_read_close(f);
    return status ? status : T[2] == 100 * step + 2 ? 0 : -2;
}

static void checksums(const char *path)
{
    int told = 1, others = 1, unasked = 1, back = 1;
    if (rank == 0) {
        if (!flipped(path)) {
            told = reads_of(path, "verbose=0; reads=checked", 1) != 0 && strstr(adios_errmsg(), "checksum") &&
                   strstr(adios_errmsg(), path);
            others = reads_of(path, "reads=checked", 2) == 0;
            unasked = reads_of(path, "reads=compared", 1) == 0;
        } else {
            told = 0;
        }
        back = !flipped(path) && reads_of(path, "reads=checked", 1) == 0;
        adios_read_init_method(ADIOS_READ_METHOD_BP, MPI_COMM_SELF, "reads=compared");
    }
    is(told, "a changed bit is told where checksums are compared");
    is(others, "what is whole is read");
    is(unasked, "no checksum is compared unasked");
    is(back, "and what was set right");
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc < 2 || size > 8) return 2;
    adios_read_init_method(ADIOS_READ_METHOD_BP, MPI_COMM_WORLD, "verbose=0; max_chunk_size=1");
    written(argv[1]);
    files(argv[1]);
    turned_round(argv[1]);
    streams(argv[1]);
    checksums(argv[1]);
    adios_read_finalize_method(ADIOS_READ_METHOD_BP);
    MPI_Finalize();
    return checks_failed != 0;
}
