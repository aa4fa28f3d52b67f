/* The version of the implemented interface, for programs that compare it. */
#ifndef THALWEG_ADIOS_VERSION_H
#define THALWEG_ADIOS_VERSION_H

#define ADIOS_VERSION_MAJOR 1
#define ADIOS_VERSION_MINOR 13
#define ADIOS_VERSION_PATCH 1
#define ADIOS_VERSION "1.13.1"
#define ADIOS_VERSION_MAJOR_STRING "1"
#define ADIOS_VERSION_MINOR_STRING "13"
#define ADIOS_VERSION_PATCH_STRING "1"

#define THALWEG_INTERFACE_NUMBER(major, minor, patch) (((major) * 1000L + (minor)) * 1000L + (patch))
#define THALWEG_INTERFACE THALWEG_INTERFACE_NUMBER(ADIOS_VERSION_MAJOR, ADIOS_VERSION_MINOR, ADIOS_VERSION_PATCH)
#define ADIOS_VERSION_GE(major, minor, patch) (THALWEG_INTERFACE >= THALWEG_INTERFACE_NUMBER(major, minor, patch))
#define ADIOS_VERSION_LE(major, minor, patch) (THALWEG_INTERFACE <= THALWEG_INTERFACE_NUMBER(major, minor, patch))

/* Version of the BP format that is written. */
#define ADIOS_VERSION_BP_FORMAT 3

/* Version of this library. */
#define THALWEG_VERSION "0.1.0"

#endif
