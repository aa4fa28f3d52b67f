/* Datatypes of the program as patterns of the library: datatype.c. */
#ifndef THALWEG_MPIIO_DATATYPE_H
#define THALWEG_MPIIO_DATATYPE_H

#include <mpi.h>

#include "thalweg_mpiio.h"

/* How bytes of a datatype lie in a file. */
enum { THALWEG_NATIVE = 0, THALWEG_EXTERNAL32 = 1 };

/* The pattern of a datatype in a file of this representation; the caller frees it. Returns a code of MPI. */
int thalweg_mpiio_pattern_of(MPI_Datatype type, int representation, ThalwegMpiioPattern **pattern);

/* The pattern of a datatype in memory. It is kept with the datatype and freed with it; *pattern is null for a datatype that is one run
 * of *size bytes. Returns a code of MPI. */
int thalweg_mpiio_memory_of(MPI_Datatype type, const ThalwegMpiioPattern **pattern, uint64_t *size);

/* The code of MPI for a class of thalweg_mpiio.h. */
int thalweg_mpiio_code(int class);

#endif
