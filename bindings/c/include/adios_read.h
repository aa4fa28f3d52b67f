/* Reading, by names of ADIOS 1.13's version 2 read interface. */
#ifndef THALWEG_ADIOS_READ_H
#define THALWEG_ADIOS_READ_H

#ifdef ADIOS_USE_READ_API_1
#error "version 1 of the read interface is not offered; docs/guide/coming-from-adios1.md has its calls in version 2"
#endif
#include "adios_read_v2.h"

#endif
