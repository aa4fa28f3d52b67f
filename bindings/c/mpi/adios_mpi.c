/* The functions of adios.h and adios_read.h whose signature holds an MPI_Comm, and those with a variable number of arguments. Compiled by
 * each MPI's own compiler, together with shim.c; or by any compiler with -D_NOMPI, together with nompi.c. */
#include <stdarg.h>
#include <stdio.h>

#include "adios.h"
#include "adios_read.h"
#include "thalweg_core.h"

#ifdef _NOMPI
#include "thalweg_nompi.h"
#define TABLE thalweg_nompi_table()
static void *wrap(MPI_Comm comm)
{
    (void)comm;
    return NULL;
}
#else
#include "thalweg_mpi.h"
#include "thalweg_mpi_spawn.h"
#define TABLE table()
static const ThalwegMpiTable *table(void)
{
    thalweg_core_spawner(thalweg_mpi_spawner());
    return thalweg_mpi_table();
}
#define wrap thalweg_mpi_wrap
#endif

#if !defined(_NOMPI) && !defined(OPEN_MPI)
/* Stands before MPICH's, which gives up its locks before it deletes the attributes of MPI_COMM_SELF: threads that write outputs in flight could
 * not call MPI any more. A program that reaches MPI's own first (Python) ends its sessions before. */
int MPI_Finalize(void)
{
    thalweg_mpi_end();
    return PMPI_Finalize();
}
#endif

int adios_init(const char *config, MPI_Comm comm) { return thalweg_core_init(config, TABLE, wrap(comm)); }

int adios_init_noxml(MPI_Comm comm) { return thalweg_core_init_noxml(TABLE, wrap(comm)); }

int adios_open(int64_t *fd, const char *group_name, const char *name, const char *mode, MPI_Comm comm)
{
    return thalweg_core_open(fd, group_name, name, mode, TABLE, wrap(comm));
}

/* Files and streams have the communicator they are opened with; the method needs none. */
int adios_read_init_method(enum ADIOS_READ_METHOD method, MPI_Comm comm, const char *parameters)
{
    (void)comm;
    return thalweg_core_read_init_method(method, parameters);
}

ADIOS_FILE *adios_read_open(const char *fname, enum ADIOS_READ_METHOD method, MPI_Comm comm,
                            enum ADIOS_LOCKMODE lock_mode, float timeout_sec)
{
    return thalweg_core_read_open(fname, method, lock_mode, timeout_sec, TABLE, wrap(comm));
}

ADIOS_FILE *adios_read_open_file(const char *fname, enum ADIOS_READ_METHOD method, MPI_Comm comm)
{
    return thalweg_core_read_open_file(fname, method, TABLE, wrap(comm));
}

enum { LONGEST = 4096 };

void adios_error(enum ADIOS_ERRCODES errcode, char *fmt, ...)
{
    char text[LONGEST];
    va_list arguments;
    va_start(arguments, fmt);
    vsnprintf(text, sizeof text, fmt, arguments);
    va_end(arguments);
    thalweg_core_error(errcode, text);
}

void adios_error_at_line(enum ADIOS_ERRCODES errcode, const char *filename, unsigned int linenum, char *fmt, ...)
{
    char text[LONGEST];
    int length = snprintf(text, sizeof text, "%s:%u: ", filename, linenum);
    if (length < 0 || length >= (int)sizeof text) length = 0;
    va_list arguments;
    va_start(arguments, fmt);
    vsnprintf(text + length, sizeof text - (size_t)length, fmt, arguments);
    va_end(arguments);
    thalweg_core_error(errcode, text);
}
