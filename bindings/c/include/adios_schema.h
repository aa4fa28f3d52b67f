/* Kinds of meshes and cells, as programs that define meshes name them. */
#ifndef THALWEG_ADIOS_SCHEMA_H
#define THALWEG_ADIOS_SCHEMA_H

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

#endif
