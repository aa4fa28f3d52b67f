/* Version 1 of the read interface, for Fortran: calls without a module, in a separate library, because some names of
 * version 2 have another meaning here. This library is linked before the other. Dimensions are fastest first, then time;
 * steps and elements count from 0. */
#include <stdlib.h>
#include <string.h>

#include "bridge.h"
#include "thalweg_core.h"

/* Functions of the thin library. */
void *thalweg_fortran_fopen_v1(const char *name, MPI_Fint comm);

#include "adios_read_v1.h"

enum { MOST = 32 };

static ADIOS_FILE *file_of(const int64_t *fp) { return (ADIOS_FILE *)(intptr_t)*fp; }
static ADIOS_GROUP *group_of(const int64_t *gp) { return (ADIOS_GROUP *)(intptr_t)*gp; }

static int fail(int number, const char *text)
{
    thalweg_core_error(number, text);
    return number;
}

void adios_set_read_method_(const int *method, int *err) { *err = adios_set_read_method((enum ADIOS_READ_METHOD)*method); }

void adios_read_init_(const MPI_Fint *comm, int *err)
{
    (void)comm;
    *err = 0;
}

void adios_read_finalize_(int *err) { *err = adios_read_finalize(); }

void adios_fopen_(int64_t *fp, const char *fname, const MPI_Fint *comm, int *groups_count, int *err, size_t length)
{
    TEXT(c_name, fname, length);
    ADIOS_FILE *f = thalweg_fortran_fopen_v1(c_name, *comm);
    *fp = (int64_t)(intptr_t)f;
    *groups_count = f ? f->groups_count : 0;
    *err = f ? 0 : adios_errno;
}

void adios_fclose_(int64_t *fp, int *err)
{
    *err = adios_fclose(file_of(fp));
    *fp = 0;
}

static void names(char **list, int n, char *into, size_t length)
{
    for (int i = 0; i < n; i++) thalweg_bridge_pad(list[i], into + (size_t)i * length, length);
}

void adios_inq_file_(const int64_t *fp, int *vars_count, int *attrs_count, int *tstart, int *ntsteps, char *gnamelist, int *err,
                     size_t length)
{
    const ADIOS_FILE *f = file_of(fp);
    *vars_count = f ? f->vars_count : 0;
    *attrs_count = f ? f->attrs_count : 0;
    *tstart = f ? f->tidx_start : 0;
    *ntsteps = f ? f->ntimesteps : 0;
    if (f) names(f->group_namelist, f->groups_count, gnamelist, length);
    *err = f ? 0 : fail(err_invalid_file_pointer, "adios_inq_file: no open file");
}

void adios_gopen_(const int64_t *fp, int64_t *gp, const char *grpname, int *vars_count, int *attrs_count, int *err, size_t length)
{
    TEXT(c_name, grpname, length);
    ADIOS_GROUP *g = adios_gopen(file_of(fp), c_name);
    *gp = (int64_t)(intptr_t)g;
    *vars_count = g ? g->vars_count : 0;
    *attrs_count = g ? g->attrs_count : 0;
    *err = g ? 0 : adios_errno;
}

void adios_gclose_(int64_t *gp, int *err)
{
    *err = adios_gclose(group_of(gp));
    *gp = 0;
}

void adios_inq_group_(const int64_t *gp, char *vnamelist, char *anamelist, int *ts, int *last_ts, int *err, size_t vlength,
                      size_t alength)
{
    const ADIOS_GROUP *g = group_of(gp);
    if (g) {
        names(g->var_namelist, g->vars_count, vnamelist, vlength);
        names(g->attr_namelist, g->attrs_count, anamelist, alength);
        *ts = g->fp->tidx_start;
        *last_ts = g->fp->tidx_start + g->fp->ntimesteps - 1;
    }
    *err = g ? 0 : fail(err_invalid_group, "adios_inq_group: no open group");
}

void adios_inq_var_(const int64_t *gp, const char *varname, int *vartype, int *ndim, int64_t *dims, int *timedim, int *err,
                    size_t length)
{
    TEXT(c_name, varname, length);
    ADIOS_VARINFO *v = adios_inq_var(group_of(gp), c_name);
    *err = v ? 0 : adios_errno;
    if (!v) return;
    *vartype = v->type;
    *ndim = v->ndim;
    for (int d = 0; d < v->ndim; d++) dims[d] = (int64_t)v->dims[v->ndim - 1 - d];
    *timedim = v->timedim < 0 ? -1 : v->ndim - 1;
    adios_free_varinfo(v);
}

/* Reads block `idx`, or a box if `idx` is negative, into numbers or into a text of `room` characters. */
static int64_t read(const int64_t *gp, const char *name, int idx, const uint64_t *start, const uint64_t *count, void *data, size_t room)
{
    ADIOS_GROUP *g = group_of(gp);
    ADIOS_VARINFO *v = adios_inq_var(g, name);
    uint64_t at[MOST], n[MOST];
    if (!v) return adios_errno;
    if (v->ndim > MOST) {
        adios_free_varinfo(v);
        return fail(err_operation_not_supported, "more dimensions than Fortran has");
    }
    uint64_t steps = 1;
    for (int d = 0; d < v->ndim; d++) {
        at[d] = start[v->ndim - 1 - d];
        n[d] = count[v->ndim - 1 - d];
    }
    if (v->timedim == 0) steps = n[0];
    void *into = data;
    char *text = NULL;
    if (v->type == adios_string) into = text = calloc(steps + 1, 65536);
    int64_t bytes = v->type == adios_string && !text ? fail(err_no_memory, "no memory for a text")
                    : idx < 0                        ? adios_read_var(g, name, at, n, into)
                                                     : adios_read_local_var(g, name, idx, at, n, into);
    if (text && bytes >= 0 && thalweg_bridge_pad(text, data, room)) bytes = fail(err_out_of_bound, "a text longer than the character variable");
    free(text);
    adios_free_varinfo(v);
    return bytes;
}

void adios_read_var_(const int64_t *gp, const char *varname, const uint64_t *start, const uint64_t *count, void *data,
                     int64_t *read_bytes, size_t length, size_t data_length)
{
    TEXT(c_name, varname, length);
    *read_bytes = read(gp, c_name, -1, start, count, data, data_length);
}

void adios_read_local_var_(const int64_t *gp, const char *varname, const int *idx, const uint64_t *start, const uint64_t *count,
                           void *data, int64_t *read_bytes, size_t length, size_t data_length)
{
    TEXT(c_name, varname, length);
    *read_bytes = *idx < 0 ? fail(err_out_of_bound, "a block below 0") : read(gp, c_name, *idx, start, count, data, data_length);
}

/* The procedures named after kinds read the unchanged values of the file, as in ADIOS 1.x. */
#define READ_VAR(name)                                                                                                       \
    void adios_read_var_##name##_(const int64_t *gp, const char *varname, const uint64_t *start, const uint64_t *count,     \
                                  void *data, int64_t *read_bytes, size_t length, size_t data_length)                       \
    {                                                                                                                        \
        adios_read_var_(gp, varname, start, count, data, read_bytes, length, data_length);                                  \
    }
READ_VAR(int1)
READ_VAR(int2)
READ_VAR(int4)
READ_VAR(int8)
READ_VAR(real4)
READ_VAR(real8)
READ_VAR(complex8)
READ_VAR(complex16)
READ_VAR(logical1)
READ_VAR(logical2)
READ_VAR(logical4)
READ_VAR(logical8)
READ_VAR(char)

void adios_inq_attr_(const int64_t *gp, const char *attrname, int *type, int *size, int *err, size_t length)
{
    TEXT(c_name, attrname, length);
    enum ADIOS_DATATYPES has = adios_unknown;
    void *data = NULL;
    *size = 0;
    *err = adios_get_attr(group_of(gp), c_name, &has, size, &data);
    *type = has;
    free(data);
}

void adios_get_attr_(const int64_t *gp, const char *attrname, void *attr, int *err, size_t length, size_t attr_length)
{
    TEXT(c_name, attrname, length);
    enum ADIOS_DATATYPES type = adios_unknown;
    int size = 0;
    void *data = NULL;
    *err = adios_get_attr(group_of(gp), c_name, &type, &size, &data);
    if (!*err) *err = thalweg_bridge_given(type, size, data, attr, attr_length, c_name);
    free(data);
}

void adios_get_attr_char_(const int64_t *gp, const char *attrname, char *attr, int *err, size_t length, size_t attr_length)
{
    adios_get_attr_(gp, attrname, attr, err, length, attr_length);
}

static int attribute_of_kind(const int64_t *gp, const char *attrname, size_t length, void *attr, enum ADIOS_DATATYPES kind)
{
    TEXT(c_name, attrname, length);
    enum ADIOS_DATATYPES type = adios_unknown;
    int size = 0;
    void *data = NULL;
    int err = adios_get_attr(group_of(gp), c_name, &type, &size, &data);
    if (!err) err = thalweg_bridge_given_of_kind(type, size, data, attr, kind, c_name);
    free(data);
    return err;
}

/* Recorded statistics of a variable, as values of a kind; without a kind: of the variable's own type. */
static int statistics(const int64_t *gp, const char *varname, size_t length, enum ADIOS_DATATYPES kind, void *value, void *gmin,
                      void *gmax, double *gavg, double *gstd_dev, void *mins, void *maxs, double *avgs, double *std_devs)
{
    TEXT(c_name, varname, length);
    ADIOS_VARINFO *v = adios_inq_var(group_of(gp), c_name);
    if (!v) return adios_errno;
    if (kind == adios_unknown) kind = v->type;
    adios_free_varinfo(v);
    const ADIOS_GROUP *g = group_of(gp);
    /* Functions of version 2. */
    struct _ADIOS_FILE *file = g->fp->internal_data;
    int err = adios_group_view(file, g->grpid);
    if (!err)
        err = thalweg_bridge_statistics((int64_t)(intptr_t)file, varname, length, kind, adios_type_size(kind, NULL), value, gmin, gmax,
                                        gavg, gstd_dev, mins, maxs, avgs, std_devs);
    adios_group_view(file, -1);
    return err;
}

#define OF_KIND(suffix, kind)                                                                                                 \
    void adios_get_statistics_##suffix(const int64_t *gp, const char *varname, void *value, void *gmin, void *gmax,           \
                                       double *gavg, double *gstd_dev, void *mins, void *maxs, double *avgs,                  \
                                       double *std_devs, int *err, size_t length)                                             \
    {                                                                                                                         \
        *err = statistics(gp, varname, length, kind, value, gmin, gmax, gavg, gstd_dev, mins, maxs, avgs, std_devs);          \
    }
#define ATTRIBUTE_OF_KIND(suffix, kind)                                                                                       \
    OF_KIND(suffix, kind)                                                                                                     \
    void adios_get_attr_##suffix(const int64_t *gp, const char *attrname, void *attr, int *err, size_t length)               \
    {                                                                                                                         \
        *err = attribute_of_kind(gp, attrname, length, attr, kind);                                                           \
    }
OF_KIND(, adios_unknown)
ATTRIBUTE_OF_KIND(int1_, adios_byte)
ATTRIBUTE_OF_KIND(int2_, adios_short)
ATTRIBUTE_OF_KIND(int4_, adios_integer)
ATTRIBUTE_OF_KIND(int8_, adios_long)
ATTRIBUTE_OF_KIND(real4_, adios_real)
ATTRIBUTE_OF_KIND(real8_, adios_double)
ATTRIBUTE_OF_KIND(complex8_, adios_complex)
ATTRIBUTE_OF_KIND(complex16_, adios_double_complex)
ATTRIBUTE_OF_KIND(logical1_, adios_byte)
ATTRIBUTE_OF_KIND(logical2_, adios_short)
ATTRIBUTE_OF_KIND(logical4_, adios_integer)
ATTRIBUTE_OF_KIND(logical8_, adios_long)

/* Dimensions are already in Fortran's order. */
void adios_reset_dimension_order_(const int64_t *fp, const int *flag)
{
    (void)fp;
    (void)flag;
}
