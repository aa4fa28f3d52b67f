/* dump FILE file|stream: all that adios_read.h tells about a file, as text. Compiled against ADIOS 1.13 and against
 * Thalweg; what the two print of one file is compared. Rank 0 prints. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mpi.h"
#include "adios_read.h"
#include "adios_error.h"

static void value(enum ADIOS_DATATYPES type, const void *at)
{
    if (!at) {
        printf("-");
        return;
    }
    switch (type) {
    case adios_byte: printf("%d", *(const signed char *)at); break;
    case adios_unsigned_byte: printf("%u", *(const unsigned char *)at); break;
    case adios_short: printf("%d", *(const short *)at); break;
    case adios_unsigned_short: printf("%u", *(const unsigned short *)at); break;
    case adios_integer: printf("%d", *(const int *)at); break;
    case adios_unsigned_integer: printf("%u", *(const unsigned *)at); break;
    case adios_long: printf("%lld", *(const long long *)at); break;
    case adios_unsigned_long: printf("%llu", *(const unsigned long long *)at); break;
    case adios_real: printf("%.6g", *(const float *)at); break;
    case adios_double: printf("%.12g", *(const double *)at); break;
    case adios_long_double: printf("%.12Lg", *(const long double *)at); break;
    case adios_complex: printf("%.6g,%.6g", ((const float *)at)[0], ((const float *)at)[1]); break;
    case adios_double_complex: printf("%.12g,%.12g", ((const double *)at)[0], ((const double *)at)[1]); break;
    case adios_string: printf("\"%s\"", (const char *)at); break;
    default: printf("?");
    }
}

static void numbers(const char *what, int n, const uint64_t *list)
{
    printf(" %s=", what);
    if (!list) printf("none");
    for (int i = 0; list && i < n; i++) printf("%s%llu", i ? "x" : "", (unsigned long long)list[i]);
}

/* A smallest or largest value: of complex ones three doubles, of magnitude, real and imaginary part. */
static void bound(enum ADIOS_DATATYPES type, const void *at)
{
    if (at && (type == adios_complex || type == adios_double_complex))
        printf("%.6g,%.6g,%.6g", ((const double *)at)[0], ((const double *)at)[1], ((const double *)at)[2]);
    else value(type, at);
}

static void real(const double *at)
{
    if (at) printf("%.9g", *at);
    else printf("-");
}

static void statistics(const ADIOS_VARINFO *v)
{
    const ADIOS_VARSTAT *s = v->statistics;
    /* There those of a single complex value are not three doubles. */
    if (v->ndim == 0 && (v->type == adios_complex || v->type == adios_double_complex)) return;
    if (!s) {
        printf("    no statistics\n");
        return;
    }
    printf("    min=");
    bound(v->type, s->min);
    printf(" max=");
    bound(v->type, s->max);
    printf(" avg=");
    real(s->avg);
    printf(" std=");
    real(s->std_dev);
    printf("\n");
    for (int i = 0; s->steps && i < v->nsteps; i++) {
        printf("      step %d min=", i);
        bound(v->type, s->steps->mins ? s->steps->mins[i] : NULL);
        printf(" max=");
        bound(v->type, s->steps->maxs ? s->steps->maxs[i] : NULL);
        printf(" avg=");
        real(s->steps->avgs ? s->steps->avgs[i] : NULL);
        printf(" std=");
        real(s->steps->std_devs ? s->steps->std_devs[i] : NULL);
        printf("\n");
    }
    for (int i = 0; s->blocks && i < v->sum_nblocks; i++) {
        printf("      block %d min=", i);
        bound(v->type, s->blocks->mins ? s->blocks->mins[i] : NULL);
        printf(" max=");
        bound(v->type, s->blocks->maxs ? s->blocks->maxs[i] : NULL);
        printf(" avg=");
        real(s->blocks->avgs ? s->blocks->avgs[i] : NULL);
        printf(" std=");
        real(s->blocks->std_devs ? s->blocks->std_devs[i] : NULL);
        printf("\n");
    }
}

/* Streams of ADIOS 1.13 show attributes in the step alone that they were written in. */
static int with_attributes = 1;

static void variable(ADIOS_FILE *f, int id)
{
    ADIOS_VARINFO *v = adios_inq_var_byid(f, id);
    if (!v) {
        printf("  var %d %s: error %d\n", id, f->var_namelist[id], adios_errno);
        return;
    }
    printf("  var %d %s: id=%d type=%s ndim=%d", id, f->var_namelist[id], v->varid, adios_type_to_string(v->type),
           v->ndim);
    numbers("dims", v->ndim, v->dims);
    printf(" nsteps=%d global=%d sum_nblocks=%d nblocks=", v->nsteps, v->global, v->sum_nblocks);
    for (int i = 0; i < v->nsteps; i++) printf("%s%d", i ? "," : "", v->nblocks[i]);
    printf(" value=");
    value(v->type, v->value);
    printf(" attrs=");
    for (int i = 0; with_attributes && i < v->nattrs; i++) printf("%s%s", i ? "," : "", f->attr_namelist[v->attr_ids[i]]);
    printf("\n");
    int code = adios_inq_var_blockinfo(f, v);
    if (code) printf("    blockinfo: error %d\n", code);
    for (int i = 0; v->blockinfo && i < v->sum_nblocks; i++) {
        printf("    block %d process=%u time=%u", i, v->blockinfo[i].process_id, v->blockinfo[i].time_index);
        numbers("start", v->ndim, v->blockinfo[i].start);
        numbers("count", v->ndim, v->blockinfo[i].count);
        printf("\n");
    }
    if (v->type != adios_string) {
        code = adios_inq_var_stat(f, v, 1, 1);
        if (code) printf("    statistics: error %d\n", code);
        statistics(v);
    }
    code = adios_inq_var_meshinfo(f, v);
    if (!code && v->meshinfo) printf("    mesh=%d centering=%d\n", v->meshinfo->meshid, v->meshinfo->centering);

    /* All values of every step where the shape stays, for global arrays. */
    if (v->ndim == 0 || v->global) {
        for (int step = 0; step < v->nsteps; step++) {
            uint64_t n = 1;
            for (int d = 0; d < v->ndim; d++) n *= v->dims[d];
            size_t bytes = v->type == adios_string ? 1000 : n * (size_t)adios_type_size(v->type, "");
            char *data = calloc(bytes + 1, 1);
            /* A box, as there none ends the program where an array has a transform. */
            uint64_t zeros[16] = {0};
            ADIOS_SELECTION *s = v->ndim > 0 ? adios_selection_boundingbox(v->ndim, zeros, v->dims) : NULL;
            code = adios_schedule_read_byid(f, s, id, step, 1, data);
            if (!code) code = adios_perform_reads(f, 1);
            adios_selection_delete(s);
            printf("    values of step %d (%d):", step, code);
            if (v->type == adios_string) n = 1;
            for (uint64_t i = 0; !code && i < n; i++) {
                printf(" ");
                value(v->type, data + i * (size_t)adios_type_size(v->type, ""));
            }
            printf("\n");
            free(data);
        }
    }
    for (int block = 0, step = 0, in_step = 0; v->ndim > 0 && v->blockinfo && block < v->sum_nblocks; block++) {
        while (step < v->nsteps && in_step >= v->nblocks[step]) step++, in_step = 0;
        uint64_t n = 1;
        for (int d = 0; d < v->ndim; d++) n *= v->blockinfo[block].count[d];
        /* There blocks with a time dimension have counts that happen to be in memory. */
        if (n > 1000000) n = 0;
        char *data = calloc(n + 1000, 16);
        ADIOS_SELECTION *s = adios_selection_writeblock(in_step++);
        code = n ? adios_schedule_read_byid(f, s, id, step, 1, data) : 0;
        if (n && !code) code = adios_perform_reads(f, 1);
        printf("    block %d of step %d (%d):", in_step - 1, step, code);
        for (uint64_t i = 0; !code && i < n; i++) {
            printf(" ");
            value(v->type, data + i * (size_t)adios_type_size(v->type, ""));
        }
        printf("\n");
        adios_selection_delete(s);
        free(data);
    }
    adios_free_varinfo(v);
}

static void attribute(ADIOS_FILE *f, int id)
{
    enum ADIOS_DATATYPES type = adios_unknown;
    int size = 0;
    void *data = NULL;
    int code = adios_get_attr_byid(f, id, &type, &size, &data);
    if (code) {
        printf("  attr %d %s: error %d\n", id, f->attr_namelist[id], code);
        return;
    }
    printf("  attr %d %s: type=%s size=%d", id, f->attr_namelist[id], adios_type_to_string(type), size);
    if (type == adios_string_array)
        for (int i = 0; i < size / (int)sizeof(char *); i++) printf(" \"%s\"", ((char **)data)[i]);
    else if (type == adios_string) printf(" \"%s\"", (char *)data);
    else
        for (int i = 0; i < size / adios_type_size(type, NULL); i++) {
            printf(" ");
            value(type, (char *)data + i * adios_type_size(type, NULL));
        }
    printf("\n");
    free(data);
}

/* Bytes that no name here has are shown as `?`: the reference names what happens to be in memory, and a line feed among that would
 * be a line more. */
static void texts(const char *what, int n, char **list)
{
    printf(" %s=", what);
    if (!list) printf("none");
    for (int i = 0; list && i < n; i++) {
        printf("%s", i ? "," : "");
        for (const char *c = list[i] ? list[i] : "none"; *c; c++) putchar(*c > 32 && *c < 127 ? *c : '?');
    }
}

static void reals(const char *what, int n, const double *list)
{
    printf(" %s=", what);
    if (!list) printf("none");
    for (int i = 0; list && i < n; i++) printf("%s%g", i ? "," : "", list[i]);
}

static void mesh(ADIOS_FILE *f, int id)
{
    ADIOS_MESH *m = adios_inq_mesh_byid(f, id);
    if (!m) {
        printf("  mesh %d %s: error\n", id, f->mesh_namelist[id]);
        return;
    }
    if (m->file_name) {
        printf("  mesh %d %s: id=%d file=%s\n", id, m->name, m->id, m->file_name);
        ADIOS_FILE *other = adios_read_open_file(m->file_name, ADIOS_READ_METHOD_BP, MPI_COMM_SELF);
        int code = other ? adios_complete_meshinfo(f, other, m) : -1;
        printf("    completed (%d)", code);
        if (other) adios_read_close(other);
        if (code) {
            printf("\n");
            return;
        }
    } else {
        printf("  mesh %d %s: id=%d", id, m->name, m->id);
    }
    printf(" type=%d varying=%d", m->type, m->time_varying);
    if (m->type == ADIOS_MESH_UNIFORM) {
        const MESH_UNIFORM *u = m->uniform;
        numbers("dimensions", u->num_dimensions, u->dimensions);
        reals("origins", u->num_dimensions, u->origins);
        reals("spacings", u->num_dimensions, u->spacings);
        reals("maximums", u->num_dimensions, u->maximums);
    } else if (m->type == ADIOS_MESH_RECTILINEAR) {
        const MESH_RECTILINEAR *r = m->rectilinear;
        numbers("dimensions", r->num_dimensions, r->dimensions);
        texts("coordinates", r->use_single_var ? 1 : r->num_dimensions, r->coordinates);
    } else if (m->type == ADIOS_MESH_STRUCTURED) {
        const MESH_STRUCTURED *s = m->structured;
        numbers("dimensions", s->num_dimensions, s->dimensions);
        printf(" nspaces=%d", s->nspaces);
        texts("points", s->use_single_var ? 1 : s->num_dimensions, s->points);
    } else {
        const MESH_UNSTRUCTURED *u = m->unstructured;
        printf(" nspaces=%d npoints=%llu", u->nspaces, (unsigned long long)u->npoints);
        texts("points", u->nvar_points, u->points);
        numbers("counts", u->ncsets, u->ccounts);
        texts("data", u->ncsets, u->cdata);
        for (int i = 0; i < u->ncsets; i++) printf(" cell=%d", u->ctypes[i]);
    }
    printf("\n");
#ifdef THALWEG_VERSION
    adios_free_meshinfo(m); /* there it frees what it did not take */
#endif
}

static void everything(ADIOS_FILE *f)
{
    with_attributes = f->current_step == 0;
    printf("step %d last %d streaming %d endianness %d version %d vars %d\n", f->current_step, f->last_step,
           f->is_streaming, f->endianness, f->version & 255, f->nvars);
    for (int i = 0; i < f->nvars; i++) variable(f, i);
    if (!with_attributes) return;
    printf("attrs %d meshes %d links %d\n", f->nattrs, f->nmeshes, f->nlinks);
    for (int i = 0; i < f->nattrs; i++) attribute(f, i);
    for (int i = 0; i < f->nmeshes; i++) mesh(f, i);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (argc < 3) return 2;
    adios_read_init_method(ADIOS_READ_METHOD_BP, MPI_COMM_WORLD, "verbose=0");
    if (strcmp(argv[2], "stream") == 0) {
        ADIOS_FILE *f = adios_read_open(argv[1], ADIOS_READ_METHOD_BP, MPI_COMM_WORLD, ADIOS_LOCKMODE_NONE, 0.0f);
        if (!f) {
            if (rank == 0) printf("open: error %d\n", adios_errno);
        } else {
            do {
                if (rank == 0) everything(f);
                adios_release_step(f);
            } while (adios_advance_step(f, 0, 0.0f) == 0);
            /* There the end of a file that is done is told as a step that is not there yet. */
            if (rank == 0) printf("end %d\n", adios_errno == err_end_of_stream || adios_errno == err_step_notready);
            adios_read_close(f);
        }
    } else {
        ADIOS_FILE *f = adios_read_open_file(argv[1], ADIOS_READ_METHOD_BP, MPI_COMM_WORLD);
        if (!f) {
            if (rank == 0) printf("open: error %d\n", adios_errno);
        } else {
            if (rank == 0) everything(f);
            char **groups = NULL;
            int n = adios_get_grouplist(f, &groups);
            for (int g = 0; rank == 0 && g < n; g++) {
                int code = adios_group_view(f, g);
                printf("group %s (%d):\n", groups[g], code);
                for (int i = 0; i < f->nvars; i++) {
                    ADIOS_VARINFO *v = adios_inq_var_byid(f, i);
                    printf("  var %s %d\n", f->var_namelist[i], v ? v->varid : -1);
                    adios_free_varinfo(v);
                }
                for (int i = 0; i < f->nattrs; i++) attribute(f, i);
            }
            if (n > 0) adios_group_view(f, -1);
            adios_read_close(f);
        }
    }
    adios_read_finalize_method(ADIOS_READ_METHOD_BP);
    MPI_Finalize();
    return 0;
}
