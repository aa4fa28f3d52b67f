/* Reading, by names of ADIOS 1.13's read interface: version 2, or version 1 if ADIOS_USE_READ_API_1 is defined. */
#ifndef THALWEG_ADIOS_READ_H
#define THALWEG_ADIOS_READ_H

#ifdef ADIOS_USE_READ_API_1
#include "adios_read_v1.h"
#else
#include "adios_read_v2.h"
#endif

#endif
