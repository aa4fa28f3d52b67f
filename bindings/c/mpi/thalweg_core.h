/* What libthalweg-core offers the thin libraries: the functions of the interface that take an MPI_Comm, without it.
 *
 * `table` and `handle` come from shim.c (thalweg_mpi.h); the core takes the handle over. A null table: this process alone.
 */
#ifndef THALWEG_CORE_H
#define THALWEG_CORE_H

#include <stdint.h>

struct ThalwegMpiTable;

int thalweg_core_init(const char *config, const struct ThalwegMpiTable *table, void *handle);
int thalweg_core_init_noxml(const struct ThalwegMpiTable *table, void *handle);
int thalweg_core_open(int64_t *fd, const char *group, const char *name, const char *mode,
                      const struct ThalwegMpiTable *table, void *handle);
struct _ADIOS_FILE;
int thalweg_core_read_init_method(int method, const char *parameters);
struct _ADIOS_FILE *thalweg_core_read_open(const char *fname, int method, int lock_mode, float timeout_sec,
                                           const struct ThalwegMpiTable *table, void *handle);
struct _ADIOS_FILE *thalweg_core_read_open_file(const char *fname, int method, const struct ThalwegMpiTable *table,
                                                void *handle);

/* Makes this the program's last error, and tells it. */
void thalweg_core_error(int number, const char *text);

#endif
