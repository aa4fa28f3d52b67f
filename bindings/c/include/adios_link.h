/* Links: references to variables or images elsewhere. */
#ifndef THALWEG_ADIOS_LINK_H
#define THALWEG_ADIOS_LINK_H

enum ADIOS_LINK_TYPE { LINK_VAR = 1, LINK_IMAGE = 2 };

typedef struct {
    int id;
    char *name;
    int nrefs;
    enum ADIOS_LINK_TYPE *type; /* of each reference, as are the two fields below */
    char **ref_names;
    char **ref_files; /* null: the same file */
} ADIOS_LINK;

#endif
