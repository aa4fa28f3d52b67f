/* Communicators as Fortran knows them, for bindings/fortran. */
#include "thalweg_fortran.h"

int thalweg_fortran_init(const char *config, MPI_Fint comm) { return adios_init(config, MPI_Comm_f2c(comm)); }

int thalweg_fortran_init_noxml(MPI_Fint comm) { return adios_init_noxml(MPI_Comm_f2c(comm)); }

int thalweg_fortran_open(int64_t *fd, const char *group, const char *name, const char *mode, MPI_Fint comm)
{
    return adios_open(fd, group, name, mode, MPI_Comm_f2c(comm));
}
