/* The part of a variable to read. Dimensions are in the order of ADIOS_VARINFO.dims. */
#ifndef THALWEG_ADIOS_SELECTION_H
#define THALWEG_ADIOS_SELECTION_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ADIOS_SELECTION_STRUCT ADIOS_SELECTION;

enum ADIOS_SELECTION_TYPE {
    ADIOS_SELECTION_BOUNDINGBOX = 0,
    ADIOS_SELECTION_POINTS = 1,
    ADIOS_SELECTION_WRITEBLOCK = 2,
    ADIOS_SELECTION_AUTO = 3,
    THALWEG_SELECTION_STRIDED = 100 /* not in ADIOS 1.x */
};

/* A box: first element and number of elements in each dimension. */
typedef struct {
    int ndim;
    uint64_t *start;
    uint64_t *count;
} ADIOS_SELECTION_BOUNDINGBOX_STRUCT;

/* Points, given by their coordinates, one point after the other. They are relative to the container (a box, a block, or
 * null for the whole array); with ndim 1 in a container of several dimensions they are offsets in its row-major order. */
typedef struct {
    int ndim;
    int _free_points_on_delete; /* 0: the program owns `points` */
    uint64_t npoints;
    uint64_t *points;
    ADIOS_SELECTION *container_selection;
} ADIOS_SELECTION_POINTS_STRUCT;

/* A block: the data of one write call on one rank. */
typedef struct {
    int index;
    int is_absolute_index;   /* 0: number in the step; else number over all steps of the variable */
    int is_sub_pg_selection; /* not 0: only `nelements` from `element_offset`, in the order in which they are stored */
    uint64_t element_offset;
    uint64_t nelements;
} ADIOS_SELECTION_WRITEBLOCK_STRUCT;

/* A choice by the library: this rank's share of the blocks. */
typedef struct {
    char *hints;
} ADIOS_SELECTION_AUTO_STRUCT;

/* Every so many elements of a box of a global array, from its first one; not in ADIOS 1.x. */
typedef struct {
    int ndim;
    uint64_t *start;
    uint64_t *count; /* of the box */
    uint64_t *stride;
} THALWEG_SELECTION_STRIDED_STRUCT;

struct ADIOS_SELECTION_STRUCT {
    enum ADIOS_SELECTION_TYPE type;
    union {
        ADIOS_SELECTION_BOUNDINGBOX_STRUCT bb;
        ADIOS_SELECTION_POINTS_STRUCT points;
        ADIOS_SELECTION_WRITEBLOCK_STRUCT block;
        ADIOS_SELECTION_AUTO_STRUCT autosel;
        THALWEG_SELECTION_STRIDED_STRUCT strided;
    } u;
};

#ifndef __INCLUDED_FROM_FORTRAN_API__

/* Each returns a selection for adios_selection_delete, or null. */
ADIOS_SELECTION *adios_selection_boundingbox(int ndim, const uint64_t *start, const uint64_t *count);
/* `points` is not copied: it must not change while the selection is used. */
ADIOS_SELECTION *adios_selection_points(int ndim, uint64_t npoints, const uint64_t *points);
ADIOS_SELECTION *adios_selection_writeblock(int index);
ADIOS_SELECTION *adios_selection_auto(char *hints);
/* Every `stride`-th element of a box along each dimension: (count + stride - 1) / stride elements. Strides are 1 or more. */
ADIOS_SELECTION *thalweg_adios_selection_strided(int ndim, const uint64_t *start, const uint64_t *count, const uint64_t *stride);

/* A copy with one coordinate per dimension of the container. `global` not 0: relative to the whole array, without
 * container; else relative to the container, which both selections then share. */
ADIOS_SELECTION *adios_selection_points_1DtoND(ADIOS_SELECTION *pointsinbox1D, int global);

/* Does nothing for null. */
void adios_selection_delete(ADIOS_SELECTION *selection);

#endif

#ifdef __cplusplus
}
#endif

#endif
