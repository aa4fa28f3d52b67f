/* What the thin libraries offer Fortran: the functions that take an MPI_Comm, with Fortran's number for it. */
#ifndef THALWEG_FORTRAN_H
#define THALWEG_FORTRAN_H

#include <stdint.h>

#include "adios.h"
#include "adios_read.h"

int thalweg_fortran_init(const char *config, MPI_Fint comm);
int thalweg_fortran_init_noxml(MPI_Fint comm);
int thalweg_fortran_open(int64_t *fd, const char *group, const char *name, const char *mode, MPI_Fint comm);
int thalweg_fortran_read_init(enum ADIOS_READ_METHOD method, MPI_Fint comm, const char *parameters);
ADIOS_FILE *thalweg_fortran_read_open(const char *name, enum ADIOS_READ_METHOD method, MPI_Fint comm,
                                      enum ADIOS_LOCKMODE lock_mode, float timeout_sec);
ADIOS_FILE *thalweg_fortran_read_open_file(const char *name, enum ADIOS_READ_METHOD method, MPI_Fint comm);
struct thalweg_windows;
int thalweg_fortran_windows_open(struct thalweg_windows **file, const char *path, int keep, uint64_t memory, MPI_Fint comm);
struct thalweg_input;
int thalweg_fortran_input_open(struct thalweg_input **file, const char *path, uint64_t memory, MPI_Fint comm);

#endif
