/* Version 1 of the read interface, over version 2. Compiled like adios_mpi.c, beside it. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "adios_error.h"
#include "adios_read_v2.h"

/* Names of version 2 that mean something else below. */
typedef ADIOS_FILE File2;
typedef ADIOS_VARINFO Info2;
static File2 *open2(const char *path, MPI_Comm comm) { return adios_read_open_file(path, ADIOS_READ_METHOD_BP, comm); }
static Info2 *info2(File2 *file, int place) { return adios_inq_var_byid(file, place); }
static void free_info2(Info2 *info) { adios_free_varinfo(info); }
static int attribute2(File2 *file, const char *name, enum ADIOS_DATATYPES *type, int *size, void **data)
{
    return adios_get_attr(file, name, type, size, data);
}
static int attribute_byid2(File2 *file, int id, enum ADIOS_DATATYPES *type, int *size, void **data)
{
    return adios_get_attr_byid(file, id, type, size, data);
}
static int type_size2(enum ADIOS_DATATYPES type, void *data) { return adios_type_size(type, data); }
static const char *type_name2(enum ADIOS_DATATYPES type) { return adios_type_to_string(type); }
static void order2(File2 *file, int is_fortran) { adios_reset_dimension_order(file, is_fortran); }
static void print2(File2 *file) { adios_print_fileinfo(file); }
static double cor2(Info2 *x, Info2 *y, char *what, uint32_t from, uint32_t to, uint32_t lag)
{
    return adios_stat_cor(x, y, what, from, to, lag);
}
static double cov2(Info2 *x, Info2 *y, char *what, uint32_t from, uint32_t to, uint32_t lag)
{
    return adios_stat_cov(x, y, what, from, to, lag);
}

#include "adios_read_v1.h"

static void no_memory(void) { adios_error(err_no_memory, "no memory"); }

static char **copied(char **names, int n)
{
    char **copy = calloc((size_t)n + 1, sizeof *copy);
    for (int i = 0; copy && i < n; i++) {
        copy[i] = strdup(names[i]);
        if (!copy[i]) {
            for (int k = 0; k < i; k++) free(copy[k]);
            free(copy);
            copy = NULL;
        }
    }
    if (!copy) no_memory();
    return copy;
}

static void free_names(char **names, int n)
{
    for (int i = 0; names && i < n; i++) free(names[i]);
    free(names);
}

int adios_set_application_id(int id)
{
    (void)id;
    return 0;
}

int adios_set_read_method(enum ADIOS_READ_METHOD method)
{
    switch (method) {
    case ADIOS_READ_METHOD_BP:
    case ADIOS_READ_METHOD_BP_STAGED:
    case ADIOS_READ_METHOD_BP_STAGED1: return 0;
    default: adios_error(err_invalid_read_method, "read method %d is not offered; those of BP files are", (int)method); return adios_errno;
    }
}

int adios_read_init(MPI_Comm comm)
{
    (void)comm;
    return 0;
}

int adios_read_finalize(void) { return 0; }

ADIOS_FILE *adios_fopen(const char *fname, MPI_Comm comm)
{
    File2 *file = open2(fname, comm);
    if (!file) return NULL;
    ADIOS_FILE *fp = calloc(1, sizeof *fp);
    char **groups = NULL;
    int n = adios_get_grouplist(file, &groups);
    if (!fp) no_memory();
    if (n < 0 || !fp || !(fp->group_namelist = copied(groups, n))) {
        free(fp);
        adios_read_close(file);
        return NULL;
    }
    fp->fh = (uint64_t)(uintptr_t)file;
    fp->groups_count = n;
    fp->vars_count = file->nvars;
    fp->attrs_count = file->nattrs;
    fp->tidx_start = 1;
    fp->ntimesteps = file->last_step + 1;
    fp->version = file->version;
    fp->file_size = file->file_size;
    fp->endianness = file->endianness;
    fp->internal_data = file;
    return fp;
}

int adios_fclose(ADIOS_FILE *fp)
{
    if (!fp || !fp->internal_data) {
        adios_error(err_invalid_file_pointer, "no file to close");
        return err_invalid_file_pointer;
    }
    int code = adios_read_close(fp->internal_data);
    free_names(fp->group_namelist, fp->groups_count);
    free(fp);
    return code;
}

void adios_reset_dimension_order(ADIOS_FILE *fp, int is_fortran)
{
    if (fp && fp->internal_data) order2(fp->internal_data, is_fortran);
}

/* Shows the variables of one group; behind it comes `whole`. */
static File2 *only(ADIOS_FILE *fp, int group)
{
    File2 *file = fp ? fp->internal_data : NULL;
    if (!file) {
        adios_error(err_invalid_file_pointer, "no open file");
        return NULL;
    }
    if (group < 0 || group >= fp->groups_count) {
        adios_error(err_invalid_group, "no group %d; the file has %d", group, fp->groups_count);
        return NULL;
    }
    /* With one group there is nothing to choose. */
    return fp->groups_count == 1 || adios_group_view(file, group) == 0 ? file : NULL;
}

static void whole(ADIOS_FILE *fp)
{
    int code = adios_errno;
    if (fp->groups_count > 1) adios_group_view(fp->internal_data, -1);
    adios_errno = code;
}

ADIOS_GROUP *adios_gopen_byid(ADIOS_FILE *fp, int grpid)
{
    File2 *file = only(fp, grpid);
    if (!file) return NULL;
    ADIOS_GROUP *gp = calloc(1, sizeof *gp);
    if (!gp) no_memory();
    if (gp) {
        gp->gh = (uint64_t)(uintptr_t)gp;
        gp->grpid = grpid;
        gp->fp = fp;
        gp->vars_count = file->nvars;
        gp->attrs_count = file->nattrs;
        gp->var_namelist = copied(file->var_namelist, file->nvars);
        gp->attr_namelist = copied(file->attr_namelist, file->nattrs);
        if (!gp->var_namelist || !gp->attr_namelist) {
            adios_gclose(gp);
            gp = NULL;
            no_memory();
        }
    }
    whole(fp);
    return gp;
}

ADIOS_GROUP *adios_gopen(ADIOS_FILE *fp, const char *grpname)
{
    for (int g = 0; fp && grpname && g < fp->groups_count; g++)
        if (strcmp(fp->group_namelist[g], grpname) == 0) return adios_gopen_byid(fp, g);
    if (fp && grpname) adios_error(err_invalid_group, "the file has no group \"%s\"", grpname);
    else adios_error(fp ? err_invalid_group : err_invalid_file_pointer, fp ? "no name of a group" : "no open file");
    return NULL;
}

int adios_gclose(ADIOS_GROUP *gp)
{
    if (!gp) {
        adios_error(err_invalid_group, "no group to close");
        return err_invalid_group;
    }
    free_names(gp->var_namelist, gp->vars_count);
    free_names(gp->attr_namelist, gp->attrs_count);
    free(gp);
    return 0;
}

/* The place of a name; a slash in front may be left out or added. */
static int place_of(const ADIOS_GROUP *gp, const char *name)
{
    for (int i = 0; gp && name && i < gp->vars_count; i++) {
        const char *own = gp->var_namelist[i];
        if (strcmp(own + (own[0] == '/'), name + (name[0] == '/')) == 0) return i;
    }
    if (!gp) adios_error(err_invalid_group, "no open group");
    else if (name) adios_error(err_invalid_varname, "group \"%s\" has no variable \"%s\"", gp->fp->group_namelist[gp->grpid], name);
    else adios_error(err_invalid_varname, "no name of a variable");
    return -1;
}

static Info2 *look(ADIOS_GROUP *gp, int varid)
{
    if (!gp) {
        adios_error(err_invalid_group, "no open group");
        return NULL;
    }
    File2 *file = only(gp->fp, gp->grpid);
    if (!file) return NULL;
    Info2 *info = info2(file, varid);
    whole(gp->fp);
    return info;
}

ADIOS_VARINFO *adios_inq_var_byid(ADIOS_GROUP *gp, int varid)
{
    Info2 *info = look(gp, varid);
    if (!info) return NULL;
    int timed = info->nsteps > 1;
    ADIOS_VARINFO *v = calloc(1, sizeof *v);
    uint64_t *dims = calloc((size_t)(info->ndim + timed) + 1, sizeof *dims);
    if (!v || !dims) {
        free(v);
        free(dims);
        free_info2(info);
        no_memory();
        return NULL;
    }
    if (timed) dims[0] = (uint64_t)info->nsteps;
    for (int d = 0; d < info->ndim; d++) dims[d + timed] = info->dims[d];
    v->grpid = gp->grpid;
    v->varid = varid;
    v->type = info->type;
    v->ndim = info->ndim + timed;
    v->dims = dims;
    v->timedim = timed ? 0 : -1;
    v->value = info->value;
    v->internal_data = info;
    if (info->type != adios_string) {
        File2 *file = only(gp->fp, gp->grpid);
        if (file && adios_inq_var_stat(file, info, 0, 0) == 0 && info->statistics) {
            v->gmin = info->statistics->min;
            v->gmax = info->statistics->max;
            v->gavg = info->statistics->avg;
            v->gstd_dev = info->statistics->std_dev;
        }
        whole(gp->fp);
    }
    return v;
}

ADIOS_VARINFO *adios_inq_var(ADIOS_GROUP *gp, const char *varname)
{
    int place = place_of(gp, varname);
    return place < 0 ? NULL : adios_inq_var_byid(gp, place);
}

void adios_free_varinfo(ADIOS_VARINFO *cp)
{
    if (!cp) return;
    free_info2(cp->internal_data);
    free(cp->dims);
    free(cp);
}

double adios_stat_cor(ADIOS_VARINFO *vix, ADIOS_VARINFO *viy, char *characteristic, uint32_t time_start, uint32_t time_end,
                      uint32_t lag)
{
    return cor2(vix ? vix->internal_data : NULL, viy ? viy->internal_data : NULL, characteristic, time_start, time_end, lag);
}

double adios_stat_cov(ADIOS_VARINFO *vix, ADIOS_VARINFO *viy, char *characteristic, uint32_t time_start, uint32_t time_end,
                      uint32_t lag)
{
    return cov2(vix ? vix->internal_data : NULL, viy ? viy->internal_data : NULL, characteristic, time_start, time_end, lag);
}

/* What a program asks for, time apart. */
struct asked {
    uint64_t from, steps;
    const uint64_t *start, *count;
    uint64_t elements; /* of a step */
};

static int understood(const Info2 *info, const char *name, const uint64_t *start, const uint64_t *count, struct asked *asked)
{
    int timed = info->nsteps > 1;
    if (info->ndim + timed > 0 && (!start || !count)) {
        adios_error(err_invalid_argument, "%s: no box of %d dimensions", name, info->ndim + timed);
        return adios_errno;
    }
    asked->from = timed ? start[0] : 0;
    asked->steps = timed ? count[0] : 1;
    asked->start = start ? start + timed : NULL;
    asked->count = count ? count + timed : NULL;
    asked->elements = 1;
    if (asked->from > (uint64_t)info->nsteps || asked->steps > (uint64_t)info->nsteps - asked->from) {
        adios_error(err_out_of_bound, "%s: %" PRIu64 " steps from %" PRIu64 ", of %d", name, asked->steps, asked->from, info->nsteps);
        return adios_errno;
    }
    for (int d = 0; d < info->ndim; d++)
        if (__builtin_mul_overflow(asked->elements, asked->count[d], &asked->elements)) {
            adios_error(err_out_of_bound, "%s: more elements than 64 bits count", name);
            return adios_errno;
        }
    return 0;
}

/* Reads `steps` steps of what `selection` says, which it frees; returns the bytes. */
static int64_t fetch(File2 *file, Info2 *info, ADIOS_SELECTION *selection, const struct asked *asked, void *data)
{
    int code = 0;
    if (asked->steps > 0 && asked->elements > 0) {
        code = adios_schedule_read_byid(file, selection, info->varid, (int)asked->from, (int)asked->steps, data);
        if (!code) code = adios_perform_reads(file, 1);
    }
    if (selection) adios_selection_delete(selection);
    if (code) return code < 0 ? code : -code;
    uint64_t size = info->type == adios_string && asked->steps > 0 ? strlen(data) + 1 : (uint64_t)type_size2(info->type, NULL);
    return (int64_t)(asked->steps * asked->elements * size);
}

int64_t adios_read_var_byid(ADIOS_GROUP *gp, int varid, const uint64_t *start, const uint64_t *count, void *data)
{
    Info2 *info = look(gp, varid);
    struct asked asked;
    if (!info) return adios_errno;
    int64_t bytes = understood(info, gp->var_namelist[varid], start, count, &asked);
    File2 *file = bytes == 0 ? only(gp->fp, gp->grpid) : NULL;
    if (file) {
        ADIOS_SELECTION *box = info->ndim > 0 ? adios_selection_boundingbox(info->ndim, asked.start, asked.count) : NULL;
        bytes = fetch(file, info, box, &asked, data);
        whole(gp->fp);
    } else if (bytes == 0) bytes = adios_errno;
    free_info2(info);
    return bytes;
}

int64_t adios_read_var(ADIOS_GROUP *gp, const char *varname, const uint64_t *start, const uint64_t *count, void *data)
{
    int place = place_of(gp, varname);
    return place < 0 ? adios_errno : adios_read_var_byid(gp, place, start, count, data);
}

/* Copies a box of a block, both row-major. */
static void cut(const char *from, const uint64_t *extents, const struct asked *asked, int ndim, size_t size, char *to)
{
    uint64_t at[64] = {0}, row = asked->count[ndim - 1];
    for (uint64_t n = 0; n < asked->elements; n += row) {
        uint64_t place = 0;
        for (int d = 0; d < ndim; d++) place = place * extents[d] + asked->start[d] + at[d];
        memcpy(to + n * size, from + place * size, row * size);
        for (int d = ndim - 2; d >= 0 && ++at[d] == asked->count[d]; d--) at[d] = 0;
    }
}

static int64_t of_block(File2 *file, Info2 *info, const char *name, int idx, const struct asked *asked, char *data)
{
    size_t size = info->type == adios_string ? 1 : (size_t)type_size2(info->type, NULL);
    int64_t bytes = 0;
    if (info->ndim > 64) {
        adios_error(err_operation_not_supported, "%s: %d dimensions", name, info->ndim);
        return adios_errno;
    }
    int code = info->ndim > 0 ? adios_inq_var_blockinfo(file, info) : 0;
    if (code) return code;
    for (uint64_t step = asked->from; step < asked->from + asked->steps; step++) {
        struct asked one = {step, 1, asked->start, asked->count, asked->elements};
        if (idx < 0 || idx >= info->nblocks[step]) {
            adios_error(err_out_of_bound, "%s: no block %d in step %" PRIu64 ", which has %d", name, idx, step, info->nblocks[step]);
            return adios_errno;
        }
        if (info->ndim == 0) {
            int64_t got = fetch(file, info, adios_selection_writeblock(idx), &one, data + bytes);
            if (got < 0) return got;
            bytes += got;
            continue;
        }
        int block = idx;
        for (uint64_t s = 0; s < step; s++) block += info->nblocks[s];
        const uint64_t *extents = info->blockinfo[block].count;
        struct asked all = {step, 1, NULL, NULL, 1};
        for (int d = 0; d < info->ndim; d++) {
            all.elements *= extents[d];
            if (asked->start[d] > extents[d] || asked->count[d] > extents[d] - asked->start[d]) {
                adios_error(err_out_of_bound, "%s: a box that leaves block %d of step %" PRIu64 " in dimension %d", name, idx, step, d);
                return adios_errno;
            }
        }
        char *memory = all.elements == asked->elements ? data + bytes : malloc(all.elements * size);
        if (!memory) {
            no_memory();
            return adios_errno;
        }
        int64_t got = fetch(file, info, adios_selection_writeblock(idx), &all, memory);
        if (memory != data + bytes) {
            if (got >= 0) cut(memory, extents, asked, info->ndim, size, data + bytes);
            free(memory);
        }
        if (got < 0) return got;
        bytes += (int64_t)(asked->elements * size);
    }
    return bytes;
}

int64_t adios_read_local_var(ADIOS_GROUP *gp, const char *varname, int idx, const uint64_t *start, const uint64_t *count,
                             void *data)
{
    int place = place_of(gp, varname);
    Info2 *info = place < 0 ? NULL : look(gp, place);
    struct asked asked;
    if (!info) return adios_errno;
    int64_t bytes = understood(info, varname, start, count, &asked);
    File2 *file = bytes == 0 ? only(gp->fp, gp->grpid) : NULL;
    if (file) {
        bytes = of_block(file, info, varname, idx, &asked, data);
        whole(gp->fp);
    } else if (bytes == 0) bytes = adios_errno;
    free_info2(info);
    return bytes;
}

int adios_get_attr_byid(ADIOS_GROUP *gp, int attrid, enum ADIOS_DATATYPES *type, int *size, void **data)
{
    File2 *file = gp ? only(gp->fp, gp->grpid) : NULL;
    if (!gp) adios_error(err_invalid_group, "no open group");
    if (!file) return adios_errno;
    int code = attribute_byid2(file, attrid, type, size, data);
    whole(gp->fp);
    return code;
}

int adios_get_attr(ADIOS_GROUP *gp, const char *attrname, enum ADIOS_DATATYPES *type, int *size, void **data)
{
    File2 *file = gp ? only(gp->fp, gp->grpid) : NULL;
    if (!gp) adios_error(err_invalid_group, "no open group");
    if (!file) return adios_errno;
    int code = attribute2(file, attrname, type, size, data);
    whole(gp->fp);
    return code;
}

const char *adios_type_to_string(enum ADIOS_DATATYPES type) { return type_name2(type); }

int adios_type_size(enum ADIOS_DATATYPES type, void *data) { return type_size2(type, data); }

/* Names by which libraries of ADIOS 1.x are linked, in no header of it. */
const char *adios_type_to_string_int(int type) { return type_name2((enum ADIOS_DATATYPES)type); }

/* Of a text without its zero byte, which adios_type_size counts. */
uint64_t adios_get_type_size(enum ADIOS_DATATYPES type, const void *value)
{
    if (type == adios_string) return value ? strlen(value) : 0;
    return (uint64_t)type_size2(type, (void *)value);
}

void adios_print_fileinfo(ADIOS_FILE *fp)
{
    if (fp && fp->internal_data) print2(fp->internal_data);
}

void adios_print_groupinfo(ADIOS_GROUP *gp)
{
    if (!gp) return;
    printf("group \"%s\": %d variables, %d attributes\n", gp->fp->group_namelist[gp->grpid], gp->vars_count, gp->attrs_count);
    for (int i = 0; i < gp->vars_count; i++) printf("  variable  %s\n", gp->var_namelist[i]);
    for (int i = 0; i < gp->attrs_count; i++) printf("  attribute %s\n", gp->attr_namelist[i]);
}

/* For bindings/fortran: a communicator as Fortran knows it. */
void *thalweg_fortran_fopen_v1(const char *name, MPI_Fint comm);
void *thalweg_fortran_fopen_v1(const char *name, MPI_Fint comm) { return adios_fopen(name, MPI_Comm_f2c(comm)); }
