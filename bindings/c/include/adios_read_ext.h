/* Extensions of version 2: transforms and the storage of variables. */
#ifndef THALWEG_ADIOS_READ_EXT_H
#define THALWEG_ADIOS_READ_EXT_H

#ifdef ADIOS_USE_READ_API_1
#error "adios_read_ext.h extends version 2 of the read interface"
#endif

#include <stdint.h>

#include "adios_read_v2.h"
#include "adios_selection.h"

#ifdef __cplusplus
extern "C" {
#endif

/* View of variables with a transform: the written values, or the stored bytes. */
typedef const void *data_view_t;
extern const data_view_t LOGICAL_DATA_VIEW;
extern const data_view_t PHYSICAL_DATA_VIEW;

typedef int adios_transform_type_t;
extern const adios_transform_type_t NO_TRANSFORM;

typedef struct {
    const void *content;
    uint64_t length;
} ADIOS_TRANSFORM_METADATA;

typedef struct {
    int varid;
    int sum_nblocks;
    adios_transform_type_t transform_type;
    int should_free_transform_metadata;
    ADIOS_TRANSFORM_METADATA *transform_metadatas; /* of each block; null without a transform */
} ADIOS_VARTRANSFORM;

/* The intersection of a block and a selection; both are boxes of the global array. */
typedef struct {
    int timestep;
    int blockidx; /* over all steps */
    int blockidx_in_timestep;
    ADIOS_SELECTION *pg_bounds_sel;
    ADIOS_SELECTION *intersection_sel;
} ADIOS_PG_INTERSECTION;

typedef struct {
    ADIOS_PG_INTERSECTION *intersections;
    int npg;
} ADIOS_PG_INTERSECTIONS;

#ifndef __INCLUDED_FROM_FORTRAN_API__

/* Sets the view; returns the previous one. */
data_view_t adios_read_set_data_view(ADIOS_FILE *fp, data_view_t vt);

ADIOS_VARTRANSFORM *adios_inq_var_transform(const ADIOS_FILE *fp, const ADIOS_VARINFO *varinfo);
void adios_free_var_transform(ADIOS_VARTRANSFORM *vartransform);
/* The number of a transform, by its name in files. */
adios_transform_type_t adios_get_transform_type_by_uid(const char *transform_uid);

/* A part of a block, in elements. */
ADIOS_SELECTION *adios_selection_writeblock_bounded(int index, uint64_t start_elem, uint64_t num_elems,
                                                    int is_timestep_relative);

/* The blocks that a box overlaps. */
ADIOS_PG_INTERSECTIONS *adios_find_intersecting_pgs(const ADIOS_FILE *fp, int varid, const ADIOS_SELECTION *sel,
                                                    const int from_step, const int nsteps);
void adios_free_pg_intersections(ADIOS_PG_INTERSECTIONS **intersections);
/* Converts a block's number in its step to its number over all steps; -1 if there is no such block. */
int adios_get_absolute_writeblock_index(const ADIOS_VARINFO *varinfo, int timestep_relative_idx, int timestep);

/* Order of dimensions in the file: 0 slowest first, 1 fastest first (Fortran). */
int adios_read_get_dimension_order(ADIOS_FILE *);

#endif

#ifdef __cplusplus
}
#endif

#endif
