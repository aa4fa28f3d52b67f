/* The program's MPI; with -D_NOMPI, replacements of the MPI names for one process without MPI. */
#ifndef THALWEG_ADIOS_MPI_H
#define THALWEG_ADIOS_MPI_H

#ifdef _NOMPI
#include "mpidummy.h"
#else
#include "mpi.h"
#endif
#include "thalweg_of_mpi.h"

#endif
