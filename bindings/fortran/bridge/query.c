#include "bridge.h"

#include <stdlib.h>

#include "adios_query.h"

/* type(ADIOS_QUERY) contains the query's address as a number; results of an evaluation likewise. */
static ADIOS_QUERY *query_of(const int64_t *q) { return (ADIOS_QUERY *)(intptr_t)*q; }
static ADIOS_SELECTION *selection_of(int64_t sel) { return (ADIOS_SELECTION *)(intptr_t)sel; }
static ADIOS_QUERY_RESULT *result_of(int64_t result) { return (ADIOS_QUERY_RESULT *)(intptr_t)result; }

int adios_query_is_method_available_(const int *method)
{
    return adios_query_is_method_available((enum ADIOS_QUERY_METHOD)*method) != 0;
}

void adios_query_create_(const int64_t *fp, const int64_t *sel, const char *name, const int *predicate, const char *value,
                         int64_t *q, size_t name_length, size_t value_length)
{
    TEXT(c_name, name, name_length);
    TEXT(c_value, value, value_length);
    *q = (int64_t)(intptr_t)adios_query_create((ADIOS_FILE *)(intptr_t)*fp, selection_of(*sel), c_name,
                                               (enum ADIOS_PREDICATE_MODE)*predicate, c_value);
}

void adios_query_combine_(const int64_t *q1, const int *op, const int64_t *q2, int64_t *q)
{
    *q = (int64_t)(intptr_t)adios_query_combine(query_of(q1), (enum ADIOS_CLAUSE_OP_MODE)*op, query_of(q2));
}

void adios_query_set_method_(const int64_t *q, const int *method)
{
    adios_query_set_method(query_of(q), (enum ADIOS_QUERY_METHOD)*method);
}

int64_t adios_query_estimate_(const int64_t *q, const int *timestep) { return adios_query_estimate(query_of(q), *timestep); }

/* Results in the library's order, valid until adios_query_result_free. `err`: 1: more results, 0: no further results,
 * negative: failure. */
void adios_query_evaluate_(const int64_t *q, const int64_t *boundary, const int *timestep, const int64_t *batchsize,
                           int64_t *result, int *err)
{
    uint64_t most = *batchsize > 0 ? (uint64_t)*batchsize : 0;
    ADIOS_QUERY_RESULT *found = adios_query_evaluate(query_of(q), selection_of(*boundary), *timestep, most);
    *result = (int64_t)(intptr_t)found;
    *err = !found || found->status == ADIOS_QUERY_RESULT_ERROR ? (adios_errno ? adios_errno : err_unspecified) : (int)found->status;
}

void adios_query_result_count_(const int64_t *result, int *nselections, int64_t *npoints)
{
    const ADIOS_QUERY_RESULT *r = result_of(*result);
    *nselections = r ? r->nselections : 0;
    *npoints = r ? (int64_t)r->npoints : 0;
}

/* Creates a separate selection: a block, or points of the array. */
void adios_query_result_selection_(const int64_t *result, const int *index, int64_t *sel)
{
    const ADIOS_QUERY_RESULT *r = result_of(*result);
    ADIOS_SELECTION *copy = NULL;
    *sel = 0;
    if (!r || *index < 0 || *index >= r->nselections) return;
    ADIOS_SELECTION *s = &r->selections[*index];
    if (s->type == ADIOS_SELECTION_WRITEBLOCK) {
        copy = adios_selection_writeblock(s->u.block.index);
        if (copy) copy->u.block = s->u.block;
    } else if (s->type == ADIOS_SELECTION_POINTS && s->u.points.container_selection)
        copy = adios_selection_points_1DtoND(s, 1);
    else if (s->type == ADIOS_SELECTION_POINTS) {
        size_t count = (size_t)s->u.points.npoints * (size_t)s->u.points.ndim;
        uint64_t *points = malloc((count ? count : 1) * sizeof *points);
        for (size_t i = 0; points && i < count; i++) points[i] = s->u.points.points[i];
        if (points) copy = adios_selection_points(s->u.points.ndim, s->u.points.npoints, points);
        if (copy)
            copy->u.points._free_points_on_delete = 1;
        else
            free(points);
    }
    *sel = (int64_t)(intptr_t)copy;
}

void adios_query_result_free_(const int64_t *result)
{
    ADIOS_QUERY_RESULT *r = result_of(*result);
    if (!r) return;
    for (int i = 0; i < r->nselections; i++)
        if (r->selections[i].type == ADIOS_SELECTION_POINTS) free(r->selections[i].u.points.points);
    free(r->selections);
    free(r);
}

/* Implements adios_query_read_boundingbox of the module. */
int thalweg_bridge_query_read(int64_t fp, int64_t query, const char *name, size_t length, int timestep, int64_t result,
                              int64_t box, const CFI_cdesc_t *data)
{
    TEXT(c_name, name, length);
    const ADIOS_QUERY_RESULT *r = result_of(result);
    struct array array;
    int err = thalweg_bridge_array(data, &array);
    if (err) return err;
    err = adios_query_read_boundingbox((ADIOS_FILE *)(intptr_t)fp, query_of(&query), c_name, timestep,
                                       r && r->nselections > 0 ? (unsigned)r->nselections : 0, r ? r->selections : NULL,
                                       selection_of(box), array.start);
    if (array.copy) thalweg_bridge_scatter(data, array.copy);
    thalweg_bridge_free(&array);
    return err;
}

void adios_query_free_(const int64_t *q) { adios_query_free(query_of(q)); }
