/* version1 FILE RANKS: says what is in a file, through version 1 of the read interface. Compiled against ADIOS 1.13 and against Thalweg. */
#define ADIOS_USE_READ_API_1
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mpi.h"
#include "adios_read.h"

static void value(enum ADIOS_DATATYPES type, const void *at)
{
    if (!at) printf(" -");
    else if (type == adios_double) printf(" %g", *(const double *)at);
    else if (type == adios_real) printf(" %g", (double)*(const float *)at);
    else if (type == adios_integer) printf(" %d", *(const int *)at);
    else if (type == adios_short) printf(" %d", *(const short *)at);
    else if (type == adios_byte) printf(" %d", *(const signed char *)at);
    else if (type == adios_long) printf(" %lld", (long long)*(const int64_t *)at);
    else if (type == adios_unsigned_long) printf(" %llu", (unsigned long long)*(const uint64_t *)at);
    else if (type == adios_string) printf(" \"%s\"", (const char *)at);
    else printf(" ?");
}

static void values(ADIOS_VARINFO *v, int64_t bytes, const char *data)
{
    int size = adios_type_size(v->type, NULL);
    printf(" %lld:", (long long)bytes);
    if (v->type == adios_string) value(v->type, data);
    for (int64_t at = 0; v->type != adios_string && at < bytes; at += size) value(v->type, data + at);
    printf("\n");
}

static int ranks;

static void variable(ADIOS_GROUP *gp, int i)
{
    const char *name = gp->var_namelist[i];
    ADIOS_VARINFO *v = adios_inq_var(gp, name), *same = adios_inq_var_byid(gp, i);
    if (!v || !same) {
        printf("  var %s: error %d\n", name, adios_errno);
        return;
    }
    /* Not the number of the group, which there is 0. */
    printf("  var %s: varid=%d,%d type=%s ndim=%d timedim=%d dims=", name, v->varid, same->varid,
           adios_type_to_string(v->type), v->ndim, v->timedim);
    uint64_t elements = 1, start[16] = {0}, some[16] = {0}, count[16];
    for (int d = 0; d < v->ndim; d++) {
        printf("%s%llu", d ? "x" : "", (unsigned long long)v->dims[d]);
        elements *= v->dims[d];
        some[d] = v->dims[d] > 1;
        count[d] = v->dims[d] - some[d];
    }
    printf(" value=");
    value(v->type, v->value);
    if (v->type != adios_string) {
        printf(" min=");
        value(v->type, v->gmin);
        printf(" max=");
        value(v->type, v->gmax);
    }
    printf(" lists=%d%d%d%d hist=%d\n", !!v->mins, !!v->maxs, !!v->avgs, !!v->std_devs, !!v->hist);
    /* There a text over several steps is as long as the first says. */
    char *data = calloc(elements + 64, 64);
    printf("    whole");
    values(v, adios_read_var(gp, name, start, v->dims, data), data);
    if (v->type != adios_string && v->ndim > 0) {
        printf("    a part");
        values(v, adios_read_var_byid(gp, i, some, count, data), data);
    }
    if (v->ndim == (v->timedim >= 0)) {
        uint64_t one = 1;
        for (int rank = 0; rank < ranks; rank++) {
            memset(data, 0, 64);
            int64_t bytes = adios_read_local_var(gp, name, rank, start, &one, data);
            printf("    of rank %d", rank);
            values(v, bytes, data);
        }
    }
    free(data);
    adios_free_varinfo(v);
    adios_free_varinfo(same);
}

static void attribute(ADIOS_GROUP *gp, int i)
{
    enum ADIOS_DATATYPES type = adios_unknown;
    int size = 0, size_byid = 0;
    void *data = NULL, *again = NULL;
    int code = adios_get_attr(gp, gp->attr_namelist[i], &type, &size, &data);
    int code_byid = adios_get_attr_byid(gp, i, &type, &size_byid, &again);
    printf("  attr %s: %d %d type=%s size=%d,%d", gp->attr_namelist[i], code, code_byid, adios_type_to_string(type), size, size_byid);
    if (!code && type != adios_string_array) value(type, data);
    printf("\n");
    free(data);
    free(again);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    if (argc < 3) return 2;
    ranks = atoi(argv[2]);
    printf("init %d %d\n", adios_set_read_method(ADIOS_READ_METHOD_BP), adios_read_init(MPI_COMM_SELF));
    ADIOS_FILE *f = adios_fopen(argv[1], MPI_COMM_SELF);
    if (!f) {
        printf("fopen: error %d\n", adios_errno);
        return 1;
    }
    /* Not the number of steps, which there is one less. */
    printf("groups %d vars %d first %d version %d endianness %d\n", f->groups_count, f->vars_count, f->tidx_start, f->version & 255, f->endianness);
    for (int g = 0; g < f->groups_count; g++) {
        ADIOS_GROUP *gp = adios_gopen(f, f->group_namelist[g]);
        if (!gp) {
            printf("group %s: error %d\n", f->group_namelist[g], adios_errno);
            continue;
        }
        printf("group %s: grpid=%d vars=%d file=%d\n", f->group_namelist[g], gp->grpid, gp->vars_count, gp->fp == f);
        for (int i = 0; i < gp->vars_count; i++) variable(gp, i);
        for (int i = 0; i < gp->attrs_count; i++) attribute(gp, i);
        printf("gclose %d\n", adios_gclose(gp));
    }
    printf("no group: %d", adios_gopen(f, "nobody") == NULL);
    printf(" %d; by number: %d", adios_errno, adios_gopen_byid(f, 99) == NULL);
    printf(" %d\n", adios_errno);
    ADIOS_GROUP *gp = adios_gopen_byid(f, 0);
    uint64_t zero = 0;
    char data[64];
    printf("no variable: %d", adios_inq_var(gp, "nobody") == NULL);
    printf(" %d; read: %d\n", adios_errno, (int)adios_read_var(gp, "nobody", &zero, &zero, data));
    adios_gclose(gp);
    printf("fclose %d finalize %d\n", adios_fclose(f), adios_read_finalize());
    printf("no file: %d\n", adios_fopen("nobody.bp", MPI_COMM_SELF) == NULL);
    MPI_Finalize();
    return 0;
}
