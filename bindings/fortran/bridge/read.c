#include "bridge.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Dimensions are slowest first in the library, fastest first in Fortran. */
static void turn_round(const uint64_t *from, int ndim, int64_t *to)
{
    for (int d = 0; d < ndim; d++) to[d] = (int64_t)from[ndim - 1 - d];
}

static ADIOS_FILE *file_of(const int64_t *fp) { return (ADIOS_FILE *)(intptr_t)*fp; }
static ADIOS_SELECTION *selection_of(const int64_t *sel) { return (ADIOS_SELECTION *)(intptr_t)*sel; }

static int fail(int number, const char *name, const char *what)
{
    char text[512];
    snprintf(text, sizeof text, "%s: %s", name, what);
    thalweg_core_error(number, text);
    return number;
}

static int no_file(void) { return fail(err_invalid_file_pointer, "the file's handle", "0, no file is open"); }

/* Reads that end with a copy: into an array with gaps, or of texts, which are padded with blanks. */

struct pending {
    struct pending *next;
    const ADIOS_FILE *fp;
    char *piece;       /* the memory into which the library reads */
    int texts;         /* 0: numbers, else the number of texts, each with its zero byte */
    CFI_cdesc_t *into; /* a copy of the argument's descriptor */
};

static struct pending *pending;
static pthread_mutex_t pending_lock = PTHREAD_MUTEX_INITIALIZER;

/* NULL with a message if there is no memory. The result owns `piece`. */
static struct pending *postponed(const ADIOS_FILE *fp, char *piece, int texts, const CFI_cdesc_t *into)
{
    size_t size = sizeof *into + (size_t)into->rank * sizeof into->dim[0];
    struct pending *p = malloc(sizeof *p);
    CFI_cdesc_t *copy = malloc(size);
    if (!piece || !p || !copy) {
        free(piece);
        free(p);
        free(copy);
        fail(err_no_memory, "adios_schedule_read", "no memory");
        return NULL;
    }
    memcpy(copy, into, size);
    *p = (struct pending){.fp = fp, .piece = piece, .texts = texts, .into = copy};
    return p;
}

static void forget(struct pending *p)
{
    free(p->piece);
    free(p->into);
    free(p);
}

static void enlist(struct pending *p)
{
    pthread_mutex_lock(&pending_lock);
    p->next = pending;
    pending = p;
    pthread_mutex_unlock(&pending_lock);
}

/* Copies texts into the elements of the argument, in order. 0: all fit. */
static int place_texts(const char *piece, int texts, const CFI_cdesc_t *into)
{
    size_t length = into->elem_len;
    int64_t elements = thalweg_bridge_elements(into);
    char *padded = calloc((size_t)texts, length + 1);
    int cut = 0;
    if (!padded) return fail(err_no_memory, "adios_perform_reads", "no memory for texts");
    for (int i = 0; i < texts; i++) {
        cut |= thalweg_bridge_pad(piece, padded + (size_t)i * length, length);
        piece += strlen(piece) + 1;
    }
    if (elements < 0 || into->rank == 0)
        memcpy(into->base_addr, padded, (size_t)texts * length);
    else {
        char *all = calloc((size_t)elements, length + 1);
        if (all) {
            /* Further elements keep their values. */
            struct array array;
            if (thalweg_bridge_array(into, &array) == 0) {
                memcpy(all, array.start, (size_t)elements * length);
                thalweg_bridge_free(&array);
            }
            memcpy(all, padded, (size_t)texts * length);
            thalweg_bridge_scatter(into, all);
        }
        free(all);
    }
    free(padded);
    return cut ? fail(err_out_of_bound, "a text", "longer than the character variable; it contains the first characters") : 0;
}

/* Ends the reads of a file; `read` not 0: copies the read values to the arguments. */
static int settle(const ADIOS_FILE *fp, int read)
{
    struct pending *mine = NULL;
    int err = 0;
    pthread_mutex_lock(&pending_lock);
    for (struct pending **at = &pending; *at;) {
        struct pending *p = *at;
        if (p->fp == fp) {
            *at = p->next;
            p->next = mine;
            mine = p;
        } else
            at = &p->next;
    }
    pthread_mutex_unlock(&pending_lock);
    while (mine) { /* in the order in which they were scheduled */
        struct pending *p = mine;
        mine = p->next;
        if (read && p->texts) {
            int one = place_texts(p->piece, p->texts, p->into);
            err = err ? err : one;
        } else if (read)
            thalweg_bridge_scatter(p->into, p->piece);
        forget(p);
    }
    return err;
}

/* Methods, open, steps, close */

void adios_read_init_method_(const int *method, const int *comm, const char *parameters, int *err, size_t length)
{
    TEXT(c_parameters, parameters, length);
    *err = thalweg_fortran_read_init((enum ADIOS_READ_METHOD)*method, *comm, c_parameters);
}
OF_MODULES(adios_read_init_method_);

void adios_read_finalize_method_(const int *method, int *err)
{
    *err = adios_read_finalize_method((enum ADIOS_READ_METHOD)*method);
}

void adios_read_open_(int64_t *fp, const char *file, const int *method, const int *comm, const int *lockmode,
                      const float *timeout, int *err, size_t length)
{
    TEXT(c_file, file, length);
    ADIOS_FILE *opened = thalweg_fortran_read_open(c_file, (enum ADIOS_READ_METHOD)*method, *comm,
                                                   (enum ADIOS_LOCKMODE)*lockmode, *timeout);
    *fp = (int64_t)(intptr_t)opened;
    *err = opened ? 0 : adios_errno;
}
OF_MODULES(adios_read_open_);

void adios_read_open_stream_(int64_t *fp, const char *file, const int *method, const int *comm, const int *lockmode,
                             const float *timeout, int *err, size_t length)
{
    adios_read_open_(fp, file, method, comm, lockmode, timeout, err, length);
}
OF_MODULES(adios_read_open_stream_);

void adios_read_open_file_(int64_t *fp, const char *file, const int *method, const int *comm, int *err, size_t length)
{
    TEXT(c_file, file, length);
    ADIOS_FILE *opened = thalweg_fortran_read_open_file(c_file, (enum ADIOS_READ_METHOD)*method, *comm);
    *fp = (int64_t)(intptr_t)opened;
    *err = opened ? 0 : adios_errno;
}
OF_MODULES(adios_read_open_file_);

void adios_read_close_(const int64_t *fp, int *err)
{
    settle(file_of(fp), 0);
    *err = adios_read_close(file_of(fp));
}

void adios_advance_step_(const int64_t *fp, const int *last, const float *timeout, int *err)
{
    settle(file_of(fp), 0);
    *err = adios_advance_step(file_of(fp), *last, *timeout);
}

void adios_release_step_(const int64_t *fp, int *err)
{
    adios_release_step(file_of(fp));
    *err = adios_errno;
}

void adios_reset_dimension_order_(const int64_t *fp, const int *flag) { adios_reset_dimension_order(file_of(fp), *flag); }

/* A file's contents */

void adios_inq_file_(const int64_t *fp, int *variables, int *attributes, int *current_step, int *last_step, int *err)
{
    const ADIOS_FILE *f = file_of(fp);
    *variables = *attributes = *current_step = *last_step = 0;
    if (!f) {
        *err = no_file();
        return;
    }
    *variables = f->nvars;
    *attributes = f->nattrs;
    *current_step = f->current_step;
    *last_step = f->last_step;
    *err = 0;
}

static int names(const int64_t *fp, char *const *from, int count, char *list, size_t length)
{
    if (!file_of(fp)) return no_file();
    for (int i = 0; i < count; i++) thalweg_bridge_pad(from[i], list + (size_t)i * length, length);
    return 0;
}

void adios_inq_varnames_(const int64_t *fp, char *list, int *err, size_t length)
{
    const ADIOS_FILE *f = file_of(fp);
    *err = names(fp, f ? f->var_namelist : NULL, f ? f->nvars : 0, list, length);
}

void adios_inq_attrnames_(const int64_t *fp, char *list, int *err, size_t length)
{
    const ADIOS_FILE *f = file_of(fp);
    *err = names(fp, f ? f->attr_namelist : NULL, f ? f->nattrs : 0, list, length);
}

void adios_inq_ngroups_(const int64_t *fp, int *count, int *err)
{
    char **list = NULL;
    int n = adios_get_grouplist(file_of(fp), &list);
    *count = n > 0 ? n : 0;
    *err = n < 0 ? adios_errno : 0;
}

void adios_inq_groupnames_(const int64_t *fp, char *to, int *err, size_t length)
{
    char **list = NULL;
    int n = adios_get_grouplist(file_of(fp), &list);
    *err = n < 0 ? adios_errno : names(fp, list, n, to, length);
}

void adios_group_view_(const int64_t *fp, const int *group, int *err) { *err = adios_group_view(file_of(fp), *group); }

void adios_inq_var_(const int64_t *fp, const char *name, int *type, int *nsteps, int *ndim, int64_t *dims, int *err,
                    size_t length)
{
    TEXT(c_name, name, length);
    ADIOS_VARINFO *v = adios_inq_var(file_of(fp), c_name);
    *type = adios_unknown;
    *nsteps = *ndim = 0;
    *err = adios_errno;
    if (!v) return;
    *type = v->type;
    *nsteps = v->nsteps;
    *ndim = v->ndim;
    turn_round(v->dims, v->ndim, dims);
    adios_free_varinfo(v);
    *err = 0;
}

void adios_inq_attr_(const int64_t *fp, const char *name, int *type, int *size, int *err, size_t length)
{
    TEXT(c_name, name, length);
    enum ADIOS_DATATYPES has = adios_unknown;
    void *data = NULL;
    *size = 0;
    *err = adios_get_attr(file_of(fp), c_name, &has, size, &data);
    *type = has;
    free(data);
}

/* Values that are already in memory */

/* Copies `count` contiguous values into an argument of a kind. */
static int give(const void *values, int count, enum ADIOS_DATATYPES type, const CFI_cdesc_t *into,
                enum ADIOS_DATATYPES kind, const char *name)
{
    int64_t elements = thalweg_bridge_elements(into);
    struct array array;
    int err = 0, size = adios_type_size(type, NULL);
    if (type == adios_string || type == adios_string_array) return fail(err_invalid_data, name, "a text, not a number");
    if (elements >= 0 && elements < count) return fail(err_out_of_bound, name, "more values than the argument has elements");
    if ((err = thalweg_bridge_array(into, &array))) return err;
    for (int i = 0; i < count && !err; i++)
        err = thalweg_bridge_value((const char *)values + (size_t)i * (size_t)size, type,
                                   (char *)array.start + (size_t)i * into->elem_len, kind, name);
    if (array.copy) thalweg_bridge_scatter(into, array.copy);
    thalweg_bridge_free(&array);
    return err;
}

static int give_text(const char *text, char *into, size_t length, const char *name)
{
    return thalweg_bridge_pad(text, into, length)
               ? fail(err_out_of_bound, name, "longer than the character variable; it contains the first characters")
               : 0;
}

/* adios_get_scalar: a number into a variable of any kind that can represent it. */
int thalweg_bridge_scalar(int64_t fp, const char *name, size_t length, int kind, const CFI_cdesc_t *into)
{
    TEXT(c_name, name, length);
    ADIOS_VARINFO *v = adios_inq_var(file_of(&fp), c_name);
    if (!v) return adios_errno;
    int err = v->value ? give(v->value, 1, v->type, into, (enum ADIOS_DATATYPES)kind, c_name)
                       : fail(err_invalid_varname, c_name, "an array, not a single value");
    adios_free_varinfo(v);
    return err;
}

int thalweg_bridge_scalar_text(int64_t fp, const char *name, size_t length, char *into, size_t into_length)
{
    TEXT(c_name, name, length);
    ADIOS_VARINFO *v = adios_inq_var(file_of(&fp), c_name);
    if (!v) return adios_errno;
    int err = !v->value                 ? fail(err_invalid_varname, c_name, "an array, not a single value")
              : v->type != adios_string ? fail(err_invalid_data, c_name, "no text")
                                        : give_text(v->value, into, into_length, c_name);
    adios_free_varinfo(v);
    return err;
}

/* Without the module: the unchanged value, of the type in the file. */
void adios_get_scalar_(const int64_t *fp, const char *name, void *data, int *err, size_t length, size_t data_length)
{
    TEXT(c_name, name, length);
    ADIOS_VARINFO *v = adios_inq_var(file_of(fp), c_name);
    *err = adios_errno;
    if (!v) return;
    *err = !v->value                 ? fail(err_invalid_varname, c_name, "an array, not a single value")
           : v->type == adios_string ? give_text(v->value, data, data_length, c_name)
                                     : (memcpy(data, v->value, (size_t)adios_type_size(v->type, NULL)), 0);
    adios_free_varinfo(v);
}

/* adios_get_attr: all values of the attribute. */
int thalweg_bridge_get_attr(int64_t fp, const char *name, size_t length, int kind, const CFI_cdesc_t *into)
{
    TEXT(c_name, name, length);
    enum ADIOS_DATATYPES type = adios_unknown;
    int size = 0;
    void *data = NULL;
    int err = adios_get_attr(file_of(&fp), c_name, &type, &size, &data);
    if (err) return err;
    int one = adios_type_size(type, data);
    err = give(data, one > 0 ? size / one : 0, type, into, (enum ADIOS_DATATYPES)kind, c_name);
    free(data);
    return err;
}

/* One text, or several if the argument is an array. */
int thalweg_bridge_get_attr_text(int64_t fp, const char *name, size_t length, char *into, size_t into_length, int elements)
{
    TEXT(c_name, name, length);
    enum ADIOS_DATATYPES type = adios_unknown;
    int size = 0;
    void *data = NULL;
    int err = adios_get_attr(file_of(&fp), c_name, &type, &size, &data);
    if (err) return err;
    if (type == adios_string)
        err = give_text(data, into, into_length, c_name);
    else if (type == adios_string_array) {
        int count = size / (int)sizeof(char *);
        if (count > elements) err = fail(err_out_of_bound, c_name, "more texts than the argument has elements");
        for (int i = 0; i < count && !err; i++)
            err = give_text(((char **)data)[i], into + (size_t)i * into_length, into_length, c_name);
    } else
        err = fail(err_invalid_data, c_name, "no text");
    free(data);
    return err;
}

int thalweg_bridge_given(enum ADIOS_DATATYPES type, int size, const void *data, void *into, size_t into_length, const char *name)
{
    switch (type) {
    case adios_string: return give_text(data, into, into_length, name);
    case adios_string_array: return fail(err_operation_not_supported, name, "several texts: adios_get_attr of adios_read_mod gives them");
    default: memcpy(into, data, (size_t)size); return 0;
    }
}

void adios_get_attr_(const int64_t *fp, const char *name, void *into, int *err, size_t length, size_t into_length)
{
    TEXT(c_name, name, length);
    enum ADIOS_DATATYPES type = adios_unknown;
    int size = 0;
    void *data = NULL;
    *err = adios_get_attr(file_of(fp), c_name, &type, &size, &data);
    if (*err) return;
    *err = thalweg_bridge_given(type, size, data, into, into_length, c_name);
    free(data);
}

/* adios_get_statistics. Not recorded: a missing minimum or maximum is an error, the others are NaN. */

static double known(const double *value) { return value ? *value : NAN; }

int thalweg_bridge_statistics(int64_t fp, const char *name, size_t length, int kind_number, int kind_size, void *value,
                              void *min, void *max, double *avg, double *std_dev, char *mins, char *maxs, double *avgs,
                              double *std_devs)
{
    TEXT(c_name, name, length);
    enum ADIOS_DATATYPES kind = (enum ADIOS_DATATYPES)kind_number;
    ADIOS_FILE *f = file_of(&fp);
    ADIOS_VARINFO *v = adios_inq_var(f, c_name);
    if (!v) return adios_errno;
    int err = adios_inq_var_stat(f, v, 1, 0);
    const ADIOS_VARSTAT *s = v->statistics;
    if (!err && (!s || !s->min || !s->max))
        err = fail(err_operation_not_supported, c_name, "the file has no minimum and maximum of it");
    if (!err && v->value) err = thalweg_bridge_value(v->value, v->type, value, kind, c_name);
    if (!err) err = thalweg_bridge_value(s->min, v->type, min, kind, c_name);
    if (!err) err = thalweg_bridge_value(s->max, v->type, max, kind, c_name);
    if (!err) {
        *avg = known(s->avg);
        *std_dev = known(s->std_dev);
    }
    for (int i = 0; !err && s->steps && i < v->nsteps; i++) {
        size_t at = (size_t)i * (size_t)kind_size;
        if (s->steps->mins && s->steps->mins[i]) err = thalweg_bridge_value(s->steps->mins[i], v->type, mins + at, kind, c_name);
        if (!err && s->steps->maxs && s->steps->maxs[i])
            err = thalweg_bridge_value(s->steps->maxs[i], v->type, maxs + at, kind, c_name);
        avgs[i] = known(s->steps->avgs ? s->steps->avgs[i] : NULL);
        std_devs[i] = known(s->steps->std_devs ? s->steps->std_devs[i] : NULL);
    }
    adios_free_varinfo(v);
    return err;
}

/* Selections of the library, with reversed dimensions. */

static uint64_t *turned(const int64_t *from, int ndim, int64_t points)
{
    size_t count = (size_t)ndim * (size_t)points;
    uint64_t *to = malloc((count ? count : 1) * sizeof *to);
    if (!to) return NULL;
    for (int64_t p = 0; p < points; p++)
        for (int d = 0; d < ndim; d++) to[p * ndim + d] = (uint64_t)from[p * ndim + ndim - 1 - d];
    return to;
}

void adios_selection_boundingbox_(int64_t *sel, const int *ndim, const int64_t *start, const int64_t *count)
{
    uint64_t *from = turned(start, *ndim, 1), *how_many = turned(count, *ndim, 1);
    *sel = 0;
    if (from && how_many) *sel = (int64_t)(intptr_t)adios_selection_boundingbox(*ndim, from, how_many);
    free(from);
    free(how_many);
}

void thalweg_adios_selection_strided_(int64_t *sel, const int *ndim, const int64_t *start, const int64_t *count, const int64_t *stride)
{
    uint64_t *from = turned(start, *ndim, 1), *how_many = turned(count, *ndim, 1), *every = turned(stride, *ndim, 1);
    *sel = 0;
    if (from && how_many && every) *sel = (int64_t)(intptr_t)thalweg_adios_selection_strided(*ndim, from, how_many, every);
    free(from);
    free(how_many);
    free(every);
}

void adios_selection_points_(int64_t *sel, const int *ndim, const int64_t *npoints, const int64_t *points)
{
    uint64_t *coordinates = *ndim > 0 && *npoints >= 0 ? turned(points, *ndim, *npoints) : NULL;
    ADIOS_SELECTION *made = NULL;
    if (coordinates) made = adios_selection_points(*ndim, (uint64_t)*npoints, coordinates);
    if (made)
        made->u.points._free_points_on_delete = 1; /* the selection owns the copy */
    else
        free(coordinates);
    *sel = (int64_t)(intptr_t)made;
}

void adios_selection_writeblock_(int64_t *sel, const int *index)
{
    *sel = (int64_t)(intptr_t)adios_selection_writeblock(*index);
}

void adios_selection_auto_(int64_t *sel, const char *hints, size_t length)
{
    char *kept = thalweg_bridge_text(hints, length); /* the library's selection refers to this memory */
    *sel = (int64_t)(intptr_t)adios_selection_auto(kept);
    if (!*sel) free(kept);
}

void adios_selection_delete_(const int64_t *sel)
{
    ADIOS_SELECTION *s = selection_of(sel);
    if (s && s->type == ADIOS_SELECTION_AUTO) free(s->u.autosel.hints);
    adios_selection_delete(s);
}

void adios_selection_get_type_(const int64_t *sel, int *type)
{
    const ADIOS_SELECTION *s = selection_of(sel);
    *type = s ? (int)s->type : -1;
}

void adios_selection_get_ndim_(const int64_t *sel, int *ndim)
{
    const ADIOS_SELECTION *s = selection_of(sel);
    *ndim = !s ? 0 : s->type == ADIOS_SELECTION_BOUNDINGBOX ? s->u.bb.ndim : s->type == ADIOS_SELECTION_POINTS ? s->u.points.ndim : 0;
}

void adios_selection_get_boundingbox_(const int64_t *sel, int64_t *start, int64_t *count)
{
    const ADIOS_SELECTION *s = selection_of(sel);
    if (!s || s->type != ADIOS_SELECTION_BOUNDINGBOX) return;
    turn_round(s->u.bb.start, s->u.bb.ndim, start);
    turn_round(s->u.bb.count, s->u.bb.ndim, count);
}

void adios_selection_get_npoints_(const int64_t *sel, int64_t *npoints)
{
    const ADIOS_SELECTION *s = selection_of(sel);
    *npoints = s && s->type == ADIOS_SELECTION_POINTS ? (int64_t)s->u.points.npoints : 0;
}

/* `from_index` counts points from 0. */
void adios_selection_get_points_(const int64_t *sel, int64_t *points, const int64_t *from_index, const int64_t *npoints)
{
    const ADIOS_SELECTION *s = selection_of(sel);
    if (!s || s->type != ADIOS_SELECTION_POINTS) return;
    int ndim = s->u.points.ndim;
    for (int64_t p = 0; p < *npoints && *from_index + p < (int64_t)s->u.points.npoints; p++)
        turn_round(s->u.points.points + (*from_index + p) * ndim, ndim, points + p * ndim);
}

void adios_selection_get_index_(const int64_t *sel, int *index)
{
    const ADIOS_SELECTION *s = selection_of(sel);
    *index = s && s->type == ADIOS_SELECTION_WRITEBLOCK ? s->u.block.index : -1;
}

void adios_selection_get_hints_(const int64_t *sel, char *hints, size_t length)
{
    const ADIOS_SELECTION *s = selection_of(sel);
    thalweg_bridge_pad(s && s->type == ADIOS_SELECTION_AUTO && s->u.autosel.hints ? s->u.autosel.hints : "", hints, length);
}

/* Reading */

enum { LONGEST_TEXT = 65535 }; /* lengths of texts have 16 bits in a file */

static uint64_t product(const uint64_t *count, int ndim)
{
    uint64_t n = 1;
    for (int d = 0; d < ndim; d++) n *= count[d];
    return n;
}

/* Bytes of a read; 0 if unknown before the read. */
static uint64_t needed(ADIOS_FILE *f, const ADIOS_SELECTION *sel, ADIOS_VARINFO *v, int from, int nsteps)
{
    uint64_t one = (uint64_t)adios_type_size(v->type, NULL), total = 0;
    if (v->ndim == 0) return one * (uint64_t)nsteps;
    if (!sel) return product(v->dims, v->ndim) * one * (uint64_t)nsteps;
    switch (sel->type) {
    case ADIOS_SELECTION_BOUNDINGBOX: return product(sel->u.bb.count, sel->u.bb.ndim) * one * (uint64_t)nsteps;
    case ADIOS_SELECTION_POINTS: return sel->u.points.npoints * one * (uint64_t)nsteps;
    case ADIOS_SELECTION_WRITEBLOCK: {
        int before = 0, index = sel->u.block.index;
        if (sel->u.block.is_absolute_index || sel->u.block.is_sub_pg_selection || adios_inq_var_blockinfo(f, v)) return 0;
        for (int s = 0; s < v->nsteps && s < from + nsteps; s++) {
            if (s >= from && index >= 0 && index < v->nblocks[s]) total += product(v->blockinfo[before + index].count, v->ndim) * one;
            before += v->nblocks[s];
        }
        return total;
    }
    default: return 0;
    }
}

/* adios_schedule_read of the module: `data` is filled when adios_perform_reads returns. */
int thalweg_bridge_schedule(int64_t fp, int64_t sel, const char *name, size_t length, int from, int nsteps, int is_character,
                            const CFI_cdesc_t *data)
{
    TEXT(c_name, name, length);
    ADIOS_FILE *f = file_of(&fp);
    const ADIOS_SELECTION *selection = selection_of(&sel);
    ADIOS_VARINFO *v = adios_inq_var(f, c_name);
    if (!v) return adios_errno;
    int64_t elements = thalweg_bridge_elements(data);
    int err = 0, steps = f->is_streaming ? 1 : nsteps;
    struct array array = {0};
    struct pending *later = NULL;
    void *to = NULL;
    if (v->type == adios_string) {
        if (!is_character)
            err = fail(err_invalid_data, c_name, "a text, not a number");
        else if (data->rank > 0 && elements >= 0 && elements < steps)
            err = fail(err_out_of_bound, c_name, "more steps than the argument has elements");
        else if (!(later = postponed(f, calloc(steps > 0 ? (size_t)steps : 1, LONGEST_TEXT + 1), steps, data)))
            err = err_no_memory;
        else
            to = later->piece;
    } else {
        uint64_t bytes = needed(f, selection, v, f->is_streaming ? 0 : from, steps);
        int too_small = elements >= 0 && data->rank > 0 && bytes > (uint64_t)elements * data->elem_len;
        /* A scalar may be an array's first element, except for the read of a single value. */
        too_small |= data->rank == 0 && v->ndim == 0 && steps == 1 && !is_character && bytes > data->elem_len;
        if (too_small) {
            char text[96];
            snprintf(text, sizeof text, "%llu bytes are read, the argument has %llu", (unsigned long long)bytes,
                     (unsigned long long)(data->rank ? (uint64_t)elements * data->elem_len : data->elem_len));
            err = fail(err_out_of_bound, c_name, text);
        }
        if (!err) err = thalweg_bridge_array(data, &array);
        if (!err && array.copy && !(later = postponed(f, array.copy, 0, data))) err = err_no_memory;
        to = array.start;
    }
    if (!err) err = adios_schedule_read_byid(f, selection, v->varid, from, nsteps, to);
    if (later && err)
        forget(later);
    else if (later)
        enlist(later);
    adios_free_varinfo(v);
    return err;
}

/* Without the module. */
void adios_schedule_read_(const int64_t *fp, const int64_t *sel, const char *name, const int *from, const int *nsteps,
                          void *data, int *err, size_t length, size_t data_length)
{
    TEXT(c_name, name, length);
    ADIOS_VARINFO *v = adios_inq_var(file_of(fp), c_name);
    *err = adios_errno;
    if (!v) return;
    int is_text = v->type == adios_string;
    adios_free_varinfo(v);
    if (is_text) {
        CFI_CDESC_T(0) one;
        CFI_establish((CFI_cdesc_t *)&one, data, CFI_attribute_other, CFI_type_char, data_length, 0, NULL);
        *err = thalweg_bridge_schedule(*fp, *sel, name, length, *from, *nsteps, 1, (CFI_cdesc_t *)&one);
    } else
        *err = adios_schedule_read(file_of(fp), selection_of(sel), c_name, *from, *nsteps, data);
}

void adios_perform_reads_(const int64_t *fp, int *err)
{
    *err = adios_perform_reads(file_of(fp), 1);
    int placed = settle(file_of(fp), *err == 0);
    if (*err == 0) *err = placed;
}

/* The specific names of the generic procedures, without a module: the value is converted to the kind in the name. */

static void scalar_of_kind(const int64_t *fp, const char *name, void *data, int *err, size_t length, enum ADIOS_DATATYPES kind)
{
    TEXT(c_name, name, length);
    ADIOS_VARINFO *v = adios_inq_var(file_of(fp), c_name);
    *err = adios_errno;
    if (!v) return;
    *err = v->value ? thalweg_bridge_value(v->value, v->type, data, kind, c_name)
                    : fail(err_invalid_varname, c_name, "an array, not a single value");
    adios_free_varinfo(v);
}

int thalweg_bridge_given_of_kind(enum ADIOS_DATATYPES type, int size, void *data, void *into, enum ADIOS_DATATYPES kind,
                                     const char *name)
{
    if (type == adios_string || type == adios_string_array) return fail(err_invalid_data, name, "a text");
    int from = adios_type_size(type, data), to = adios_type_size(kind, NULL), err = 0;
    for (int i = 0; !err && from > 0 && i < size / from; i++)
        err = thalweg_bridge_value((char *)data + (size_t)i * (size_t)from, type, (char *)into + (size_t)i * (size_t)to, kind, name);
    return err;
}

static void attribute_of_kind(const int64_t *fp, const char *name, void *into, int *err, size_t length, enum ADIOS_DATATYPES kind)
{
    TEXT(c_name, name, length);
    enum ADIOS_DATATYPES type = adios_unknown;
    int size = 0;
    void *data = NULL;
    *err = adios_get_attr(file_of(fp), c_name, &type, &size, &data);
    if (*err) return;
    *err = thalweg_bridge_given_of_kind(type, size, data, into, kind, c_name);
    free(data);
}

#define OF_KIND(name, kind)                                                                                                   \
    void adios_get_scalar_##name##_(const int64_t *fp, const char *varname, void *data, int *err, size_t length)             \
    {                                                                                                                         \
        scalar_of_kind(fp, varname, data, err, length, kind);                                                                 \
    }                                                                                                                         \
    void adios_get_attr_##name##_(const int64_t *fp, const char *attrname, void *attr, int *err, size_t length)              \
    {                                                                                                                         \
        attribute_of_kind(fp, attrname, attr, err, length, kind);                                                             \
    }                                                                                                                         \
    void adios_get_statistics_##name##_(const int64_t *fp, const char *varname, void *value, void *gmin, void *gmax,          \
                                        double *gavg, double *gstd_dev, void *mins, void *maxs, double *avgs,                 \
                                        double *std_devs, int *err, size_t length)                                            \
    {                                                                                                                         \
        *err = thalweg_bridge_statistics(*fp, varname, length, kind, adios_type_size(kind, NULL), value, gmin, gmax, gavg,    \
                                         gstd_dev, mins, maxs, avgs, std_devs);                                               \
    }
OF_KIND(int1, adios_byte)
OF_KIND(int2, adios_short)
OF_KIND(int4, adios_integer)
OF_KIND(int8, adios_long)
OF_KIND(real4, adios_real)
OF_KIND(real8, adios_double)
OF_KIND(complex8, adios_complex)
OF_KIND(complex16, adios_double_complex)
OF_KIND(logical1, adios_byte)
OF_KIND(logical2, adios_short)
OF_KIND(logical4, adios_integer)
OF_KIND(logical8, adios_long)

void adios_get_scalar_char_(const int64_t *fp, const char *name, char *data, int *err, size_t length, size_t data_length)
{
    *err = thalweg_bridge_scalar_text(*fp, name, length, data, data_length);
}

void adios_get_attr_char_(const int64_t *fp, const char *name, char *attr, int *err, size_t length, size_t attr_length)
{
    *err = thalweg_bridge_get_attr_text(*fp, name, length, attr, attr_length, 1);
}

/* A text has no minimum and maximum, and characters cannot represent those of a number: only `err` is set. */
void adios_get_statistics_char_(const int64_t *fp, const char *name, char *value, char *gmin, char *gmax, double *gavg,
                                double *gstd_dev, char *mins, char *maxs, double *avgs, double *std_devs, int *err, size_t length)
{
    (void)fp, (void)value, (void)gmin, (void)gmax, (void)gavg, (void)gstd_dev, (void)mins, (void)maxs, (void)avgs, (void)std_devs;
    TEXT(c_name, name, length);
    *err = fail(err_operation_not_supported, c_name, "characters hold no minimum and maximum");
}

/* Programs of version 1 of the read interface call this at their start; it has no effect. */
void adios_set_application_id_(const int *id, int *err)
{
    (void)id;
    if (err) *err = 0;
}
