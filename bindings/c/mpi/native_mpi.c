/* The functions of thalweg.h whose signature holds an MPI_Comm. Compiled as adios_mpi.c is. */
#ifdef _NOMPI
#include "mpidummy.h"
#define MPI_VERSION 3 /* thalweg.h then declares what is defined here, for the one process there is */
#else
#include <mpi.h>
#endif
#include "thalweg.h"

struct ThalwegMpiTable;

int thalweg_core_session_open(thalweg_session **session, const char *config, const char *xml, const char *name,
                              const struct ThalwegMpiTable *table, void *comm);
int thalweg_core_output_open(thalweg_output **output, thalweg_session *session, const char *group, const char *path,
                             int mode, uint64_t after, const struct ThalwegMpiTable *table, void *comm);
int thalweg_core_reader_open(thalweg_reader **reader, const char *path, const struct ThalwegMpiTable *table, void *comm);
int thalweg_core_reader_follow(thalweg_reader **reader, const char *path, double timeout,
                               const struct ThalwegMpiTable *table, void *comm);
int thalweg_core_file_open(thalweg_file **file, const char *path, const struct ThalwegMpiTable *table, void *comm);
int thalweg_core_windows_open(thalweg_windows **file, const char *path, int keep, uint64_t memory,
                              const struct ThalwegMpiTable *table, void *comm);
int thalweg_core_input_open(thalweg_input **file, const char *path, uint64_t memory, const struct ThalwegMpiTable *table,
                            void *comm);

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

int thalweg_session_open_mpi(thalweg_session **session, const char *config, MPI_Comm comm)
{
    return thalweg_core_session_open(session, config, NULL, NULL, TABLE, wrap(comm));
}

int thalweg_session_open_text_mpi(thalweg_session **session, const char *xml, const char *name, MPI_Comm comm)
{
    return thalweg_core_session_open(session, NULL, xml ? xml : "", name, TABLE, wrap(comm));
}

int thalweg_output_open_mpi(thalweg_output **output, thalweg_session *session, const char *group, const char *path,
                            thalweg_mode mode, MPI_Comm comm)
{
    return thalweg_core_output_open(output, session, group, path, (int)mode, 0, TABLE, wrap(comm));
}

int thalweg_output_open_after_mpi(thalweg_output **output, thalweg_session *session, const char *group, const char *path,
                                  uint64_t step, MPI_Comm comm)
{
    return thalweg_core_output_open(output, session, group, path, 3, step, TABLE, wrap(comm));
}

int thalweg_reader_open_mpi(thalweg_reader **reader, const char *path, MPI_Comm comm)
{
    return thalweg_core_reader_open(reader, path, TABLE, wrap(comm));
}

int thalweg_reader_follow_mpi(thalweg_reader **reader, const char *path, double timeout, MPI_Comm comm)
{
    return thalweg_core_reader_follow(reader, path, timeout, TABLE, wrap(comm));
}

int thalweg_file_open_mpi(thalweg_file **file, const char *path, MPI_Comm comm)
{
    return thalweg_core_file_open(file, path, TABLE, wrap(comm));
}

int thalweg_windows_open_mpi(thalweg_windows **file, const char *path, int keep, uint64_t memory, MPI_Comm comm)
{
    return thalweg_core_windows_open(file, path, keep, memory, TABLE, wrap(comm));
}

int thalweg_input_open_mpi(thalweg_input **file, const char *path, uint64_t memory, MPI_Comm comm)
{
    return thalweg_core_input_open(file, path, memory, TABLE, wrap(comm));
}
