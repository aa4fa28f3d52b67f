/* What part of a variable a program reads. Dimensions come as the file's variables show them in ADIOS_VARINFO.dims. */
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
    ADIOS_SELECTION_AUTO = 3
};

/* A box: where it starts and how many elements it has, in each dimension. */
typedef struct {
    int ndim;
    uint64_t *start;
    uint64_t *count;
} ADIOS_SELECTION_BOUNDINGBOX_STRUCT;

/* Points, coordinate after coordinate. Within a container (a box or a block, or null for the whole array) they are
 * relative to it; with ndim 1 in a container of several dimensions they are offsets in its row-major order. */
typedef struct {
    int ndim;
    int _free_points_on_delete; /* 0: `points` is the program's memory */
    uint64_t npoints;
    uint64_t *points;
    ADIOS_SELECTION *container_selection;
} ADIOS_SELECTION_POINTS_STRUCT;

/* What one rank wrote in one go. */
typedef struct {
    int index;
    int is_absolute_index;   /* 0: counted in the step; else over all steps of the variable */
    int is_sub_pg_selection; /* not 0: only `nelements` from `element_offset`, in the order in which they are stored */
    uint64_t element_offset;
    uint64_t nelements;
} ADIOS_SELECTION_WRITEBLOCK_STRUCT;

/* What the library finds best for this rank: blocks of its own share. */
typedef struct {
    char *hints;
} ADIOS_SELECTION_AUTO_STRUCT;

struct ADIOS_SELECTION_STRUCT {
    enum ADIOS_SELECTION_TYPE type;
    union {
        ADIOS_SELECTION_BOUNDINGBOX_STRUCT bb;
        ADIOS_SELECTION_POINTS_STRUCT points;
        ADIOS_SELECTION_WRITEBLOCK_STRUCT block;
        ADIOS_SELECTION_AUTO_STRUCT autosel;
    } u;
};

#ifndef __INCLUDED_FROM_FORTRAN_API__

/* Each returns a selection for adios_selection_delete, or null. */
ADIOS_SELECTION *adios_selection_boundingbox(int ndim, const uint64_t *start, const uint64_t *count);
/* `points` is not copied: leave it as it is as long as the selection is used. */
ADIOS_SELECTION *adios_selection_points(int ndim, uint64_t npoints, const uint64_t *points);
ADIOS_SELECTION *adios_selection_writeblock(int index);
ADIOS_SELECTION *adios_selection_auto(char *hints);

/* A copy with as many coordinates per point as the container has dimensions. global: relative to the whole array, without
 * container; else relative to the container, which becomes part of both. */
ADIOS_SELECTION *adios_selection_points_1DtoND(ADIOS_SELECTION *pointsinbox1D, int global);

/* Null is nothing. */
void adios_selection_delete(ADIOS_SELECTION *selection);

#endif

#ifdef __cplusplus
}
#endif

#endif
