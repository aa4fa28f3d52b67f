/* Kinds of meshes and cells, and meshes as adios_inq_mesh_byid describes them. */
#ifndef THALWEG_ADIOS_SCHEMA_H
#define THALWEG_ADIOS_SCHEMA_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum ADIOS_MESH_TYPE {
    ADIOS_MESH_UNIFORM = 1,
    ADIOS_MESH_STRUCTURED = 2,
    ADIOS_MESH_RECTILINEAR = 3,
    ADIOS_MESH_UNSTRUCTURED = 4
};

enum ADIOS_CELL_TYPE {
    ADIOS_CELL_PT = 1,
    ADIOS_CELL_LINE = 2,
    ADIOS_CELL_TRI = 3,
    ADIOS_CELL_QUAD = 4,
    ADIOS_CELL_HEX = 5,
    ADIOS_CELL_PRI = 6,
    ADIOS_CELL_TET = 7,
    ADIOS_CELL_PYR = 8
};

/* In these four structures, the length of an array is the number before it; parts that the file does not have are null.
 * Texts are names of variables. */

typedef struct {
    int num_dimensions;
    uint64_t *dimensions;
    double *origins;
    double *spacings;
    double *maximums;
} MESH_UNIFORM;

typedef struct {
    int use_single_var; /* 1: one variable has the coordinates of all dimensions; 0: one variable per dimension */
    int num_dimensions;
    uint64_t *dimensions;
    char **coordinates;
} MESH_RECTILINEAR;

typedef struct {
    int use_single_var;
    int num_dimensions;
    uint64_t *dimensions;
    int nspaces;
    char **points;
} MESH_STRUCTURED;

typedef struct {
    int nspaces;
    uint64_t npoints;
    int nvar_points; /* number of variables in `points` */
    char **points;
    int ncsets; /* number of cell sets, described by the three arrays below */
    uint64_t *ccounts;
    char **cdata;
    enum ADIOS_CELL_TYPE *ctypes;
} MESH_UNSTRUCTURED;

typedef struct {
    int id;
    char *name;
    char *file_name; /* null: the mesh is in the file itself */
    int time_varying;
    enum ADIOS_MESH_TYPE type;
    union { /* selected by `type` */
        MESH_UNIFORM *uniform;
        MESH_RECTILINEAR *rectilinear;
        MESH_STRUCTURED *structured;
        MESH_UNSTRUCTURED *unstructured;
    };
} ADIOS_MESH;

#ifdef __cplusplus
}
#endif

#endif
