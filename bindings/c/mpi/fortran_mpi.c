/* Communicators as Fortran knows them, for bindings/fortran. */
#include "thalweg_fortran.h"

int thalweg_fortran_init(const char *config, MPI_Fint comm) { return adios_init(config, MPI_Comm_f2c(comm)); }

int thalweg_fortran_init_noxml(MPI_Fint comm) { return adios_init_noxml(MPI_Comm_f2c(comm)); }

int thalweg_fortran_open(int64_t *fd, const char *group, const char *name, const char *mode, MPI_Fint comm)
{
    return adios_open(fd, group, name, mode, MPI_Comm_f2c(comm));
}

int thalweg_fortran_read_init(enum ADIOS_READ_METHOD method, MPI_Fint comm, const char *parameters)
{
    return adios_read_init_method(method, MPI_Comm_f2c(comm), parameters);
}

ADIOS_FILE *thalweg_fortran_read_open(const char *name, enum ADIOS_READ_METHOD method, MPI_Fint comm,
                                      enum ADIOS_LOCKMODE lock_mode, float timeout_sec)
{
    return adios_read_open(name, method, MPI_Comm_f2c(comm), lock_mode, timeout_sec);
}

ADIOS_FILE *thalweg_fortran_read_open_file(const char *name, enum ADIOS_READ_METHOD method, MPI_Fint comm)
{
    return adios_read_open_file(name, method, MPI_Comm_f2c(comm));
}
