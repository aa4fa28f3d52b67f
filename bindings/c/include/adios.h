/* The write half of the ADIOS 1.13 interface, by Thalweg. (The other half: adios_read.h.)
 *
 * Names, argument order and constants are those of ADIOS 1.13, so programs written for it compile unchanged.
 * docs/guide/coming-from-adios1.md tells where the two differ.
 *
 * Functions return 0, or the number that is also in adios_errno (adios_error.h); adios_get_last_errmsg() then says what
 * happened. Functions that return a handle or a size return 0 where they fail.
 *
 * "Collective": every rank of the communicator makes the call; all get the same outcome.
 */
#ifndef THALWEG_ADIOS_H
#define THALWEG_ADIOS_H

#include <stdint.h>

#include "adios_version.h"
#include "adios_mpi.h"
#include "adios_types.h"
#include "adios_error.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Life cycle */

/* Collective: begins with the groups, methods and buffer that the file describes. `comm` is duplicated. */
int adios_init(const char *config, MPI_Comm comm);
THALWEG_OF_MPI_CALL(int, adios_init, (const char *config, MPI_Comm comm), (config, comm))
/* Collective: begins without any group; they are declared by the functions below. */
int adios_init_noxml(MPI_Comm comm);
THALWEG_OF_MPI_CALL(int, adios_init_noxml, (MPI_Comm comm), (comm))
int adios_is_initialized(void);
/* Collective: closes all files for good. Before MPI_Finalize. */
int adios_finalize(int mype);

/* Output */

/* Collective over `comm`: opens a step of a group, as `*fd`. Modes: "w" a new file, "a" one more step, "u" more of the last
 * step, "r" to read the group back from the last step. */
int adios_open(int64_t *fd, const char *group_name, const char *name, const char *mode, MPI_Comm comm);
THALWEG_OF_MPI_CALL(int, adios_open, (int64_t *fd, const char *group_name, const char *name, const char *mode, MPI_Comm comm),
                    (fd, group_name, name, mode, comm))
/* Optional: the bytes this rank will write, so that memory is taken in one piece. */
int adios_group_size(int64_t fd_p, uint64_t data_size, uint64_t *total_size);
/* Writes one block of a variable: as many bytes as its dimensions say now, a text up to its zero. When it returns, the
 * memory is free again, unless the group says copy-on-write="no". In mode "r": gives a scalar the value by which
 * dimensions and offsets are resolved. */
int adios_write(int64_t fd_p, const char *name, const void *var);
/* The same by the handle of adios_define_var: tells definitions of one name apart. */
int adios_write_byid(int64_t fd_p, int64_t id, const void *var);
/* Memory for a variable, all zero, to be filled before adios_close, which writes it. */
int adios_get_write_buffer(int64_t fd_p, const char *name, uint64_t *size, void **buffer);
/* Mode "r": reads a variable, at once. */
int adios_read(int64_t fd_p, const char *name, void *buffer, uint64_t buffer_size);
/* Until close, variables (or one) are written under another path than declared. */
int adios_set_path(int64_t fd_p, const char *path);
int adios_set_path_var(int64_t fd_p, const char *path, const char *name);
/* Collective: commits. When it returns 0, the step is readable. */
int adios_close(int64_t fd_p);

/* Hints: when the program computes. Both spellings. */
int adios_start_calculation(void);
int adios_stop_calculation(void);
int adios_begin_calculation(void);
int adios_end_calculation(void);
int adios_end_iteration(void);

/* The most memory (MiB) that outputs of this process use, all groups together; 0 writes everything through. */
void adios_set_max_buffer_size(uint64_t max_buffer_size_MB);
int adios_allocate_buffer(enum ADIOS_BUFFER_ALLOC_WHEN adios_buffer_alloc_when, uint64_t buffer_size);

/* Groups without XML */

int adios_declare_group(int64_t *id, const char *name, const char *time_index, enum ADIOS_STATISTICS_FLAG stats);
int adios_free_group(int64_t id);
/* A group may have several methods; each writes the whole group. `parameters`: "key=value;key=value". */
int adios_select_method(int64_t group, const char *method, const char *parameters, const char *base_path);
/* Dimensions are lists as "2*NX+1,4", all empty for a scalar, the latter two empty for a local array. Returns a handle. */
int64_t adios_define_var(int64_t group_id, const char *name, const char *path, enum ADIOS_DATATYPES type,
                         const char *dimensions, const char *global_dimensions, const char *local_offsets);
int adios_delete_vardefs(int64_t id);
/* Bytes of a block, as the scalars of the group's newest open output are now. */
uint64_t adios_expected_var_size(int64_t var_id);
int adios_set_transform(int64_t var_id, const char *transform_type_str);
/* `var` not empty: the value of that scalar; else `value`, as text. */
int adios_define_attribute(int64_t group, const char *name, const char *path, enum ADIOS_DATATYPES type,
                           const char *value, const char *var);
/* `values`: numbers; for adios_string the text; for adios_string_array pointers to texts. */
int adios_define_attribute_byvalue(int64_t group, const char *name, const char *path, enum ADIOS_DATATYPES type,
                                   int nelems, const void *values);
int adios_delete_attrdefs(int64_t id);

/* Accepted: each step is written when it is closed, whatever the size. */
int adios_set_time_aggregation(int64_t groupid, uint64_t buffersize, int64_t syncgroupid);
/* Not offered; fails with err_operation_not_supported. */
void adios_timing_write_xml(int64_t fd_p, const char *filename);

/* Meshes: what viewers need to draw variables. A null pointer leaves an optional part out. */

int adios_define_schema_version(int64_t group_id, char *schema_version);
int adios_define_var_mesh(int64_t group_id, const char *varname, const char *meshname);
int adios_define_var_centering(int64_t group_id, const char *varname, const char *centering);
int adios_define_var_timesteps(const char *timesteps, int64_t group_id, const char *name);
int adios_define_var_timescale(const char *timescale, int64_t group_id, const char *name);
int adios_define_var_timeseriesformat(const char *timeseries, int64_t group_id, const char *name);
int adios_define_var_hyperslab(const char *hyperslab, int64_t group_id, const char *name);
int adios_define_mesh_file(int64_t group_id, char *name, char *file);
int adios_define_mesh_group(const char *group, int64_t group_id, const char *name);
int adios_define_mesh_timevarying(const char *timevarying, int64_t group_id, const char *name);
int adios_define_mesh_timesteps(const char *timesteps, int64_t group_id, const char *name);
int adios_define_mesh_timescale(const char *timescale, int64_t group_id, const char *name);
int adios_define_mesh_timeseriesformat(const char *timeseries, int64_t group_id, const char *name);
int adios_define_mesh_uniform(char *dimensions, char *origin, char *spacing, char *maximum, char *nspace,
                              int64_t group_id, const char *name);
int adios_define_mesh_rectilinear(char *dimensions, char *coordinates, char *nspace, int64_t group_id,
                                  const char *name);
int adios_define_mesh_structured(char *dimensions, char *points, char *nspace, int64_t group_id, const char *name);
int adios_define_mesh_unstructured(char *points, char *data, char *count, char *cell_type, char *npoints,
                                   char *nspace, int64_t group_id, const char *name);

/* The methods of this library */

typedef struct {
    int nmethods;
    char **name;
} ADIOS_AVAILABLE_WRITE_METHODS;

ADIOS_AVAILABLE_WRITE_METHODS *adios_available_write_methods();
void adios_available_write_methods_free(ADIOS_AVAILABLE_WRITE_METHODS *);

#ifdef __cplusplus
}
#endif

#endif
