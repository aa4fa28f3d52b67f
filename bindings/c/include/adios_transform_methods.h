/* The transforms of this library, by the names for adios_set_transform and the XML. */
#ifndef THALWEG_ADIOS_TRANSFORM_METHODS_H
#define THALWEG_ADIOS_TRANSFORM_METHODS_H

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    int ntransforms;
    char **name;
    char **description;
} ADIOS_AVAILABLE_TRANSFORM_METHODS;

ADIOS_AVAILABLE_TRANSFORM_METHODS *adios_available_transform_methods();
void adios_available_transform_methods_free(ADIOS_AVAILABLE_TRANSFORM_METHODS *);

#ifdef __cplusplus
}
#endif

#endif
