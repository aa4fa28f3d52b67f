/* Communicators as Fortran knows them, for bindings/fortran. */
#include "thalweg_fortran.h"

#ifdef _NOMPI
#define from_fortran MPI_Comm_f2c
#else
#include "thalweg_mpi.h"
/* Null in a program that runs with another MPI, whose numbers mean nothing here: the call then says so. */
static MPI_Comm from_fortran(MPI_Fint comm)
{
    return thalweg_mpi_table()->ready() == THALWEG_MPI_READY ? MPI_Comm_f2c(comm) : MPI_COMM_NULL;
}
#endif

int thalweg_fortran_init(const char *config, MPI_Fint comm) { return adios_init(config, from_fortran(comm)); }

int thalweg_fortran_init_noxml(MPI_Fint comm) { return adios_init_noxml(from_fortran(comm)); }

int thalweg_fortran_open(int64_t *fd, const char *group, const char *name, const char *mode, MPI_Fint comm)
{
    return adios_open(fd, group, name, mode, from_fortran(comm));
}

int thalweg_fortran_read_init(enum ADIOS_READ_METHOD method, MPI_Fint comm, const char *parameters)
{
    return adios_read_init_method(method, from_fortran(comm), parameters);
}

ADIOS_FILE *thalweg_fortran_read_open(const char *name, enum ADIOS_READ_METHOD method, MPI_Fint comm,
                                      enum ADIOS_LOCKMODE lock_mode, float timeout_sec)
{
    return adios_read_open(name, method, from_fortran(comm), lock_mode, timeout_sec);
}

ADIOS_FILE *thalweg_fortran_read_open_file(const char *name, enum ADIOS_READ_METHOD method, MPI_Fint comm)
{
    return adios_read_open_file(name, method, from_fortran(comm));
}

/* Of thalweg.h, which declares it for the MPI whose header was included before. */
struct thalweg_windows;
int thalweg_windows_open_mpi(struct thalweg_windows **file, const char *path, int keep, uint64_t memory, MPI_Comm comm);

int thalweg_fortran_windows_open(struct thalweg_windows **file, const char *path, int keep, uint64_t memory, MPI_Fint comm)
{
    return thalweg_windows_open_mpi(file, path, keep, memory, from_fortran(comm));
}

struct thalweg_input;
int thalweg_input_open_mpi(struct thalweg_input **file, const char *path, uint64_t memory, MPI_Comm comm);

int thalweg_fortran_input_open(struct thalweg_input **file, const char *path, uint64_t memory, MPI_Fint comm)
{
    return thalweg_input_open_mpi(file, path, memory, from_fortran(comm));
}
