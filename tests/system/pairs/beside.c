/* A part of a program for one process: it knows mpidummy.h alone. Linked into a program that runs with a real MPI. */
#include "adios.h"

int size_without_mpi(void)
{
    int size = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    return size;
}
int refused_without_mpi(void) { return adios_init_noxml(MPI_COMM_WORLD); }
