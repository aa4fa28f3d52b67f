/* The write half of the ADIOS 1.13 interface, by Thalweg. (The other half: adios_read.h.)
 *
 * Names, argument order and constants are those of ADIOS 1.13, so programs written for it compile unchanged.
 * Differences: docs/guide/coming-from-adios1.md.
 *
 * Functions return 0, or the number that is also in adios_errno (adios_error.h); adios_get_last_errmsg() then returns the
 * message. Functions that return a handle or a size return 0 on failure.
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

/* Collective: starts with the groups, methods and buffer limit of an XML file. `comm` is duplicated. */
int adios_init(const char *config, MPI_Comm comm);
THALWEG_OF_MPI_CALL(int, adios_init, (const char *config, MPI_Comm comm), (config, comm))
/* Collective: starts without groups; declare groups with the functions below. */
int adios_init_noxml(MPI_Comm comm);
THALWEG_OF_MPI_CALL(int, adios_init_noxml, (MPI_Comm comm), (comm))
int adios_is_initialized(void);
/* Collective: closes all files for good. Call before MPI_Finalize. */
int adios_finalize(int mype);

/* Output */

/* Collective over `comm`: opens a step of a group, as `*fd`. Modes: "w" a new file, "a" one more step, "u" more data for the
 * last step, "r" to read the group back from the last step. */
int adios_open(int64_t *fd, const char *group_name, const char *name, const char *mode, MPI_Comm comm);
THALWEG_OF_MPI_CALL(int, adios_open, (int64_t *fd, const char *group_name, const char *name, const char *mode, MPI_Comm comm),
                    (fd, group_name, name, mode, comm))
/* Optional: announces the bytes that this rank will write, so that their buffer is allocated in one piece. */
int adios_group_size(int64_t fd_p, uint64_t data_size, uint64_t *total_size);
/* Writes one block of a variable: its size follows from the current values of its dimensions; a text ends at its zero byte. The memory
 * may be reused when this returns, unless the group has copy-on-write="no". In mode "r": sets a scalar that dimensions and offsets
 * refer to. */
int adios_write(int64_t fd_p, const char *name, const void *var);
/* Like adios_write, by the handle of adios_define_var, for groups with several definitions of one name. */
int adios_write_byid(int64_t fd_p, int64_t id, const void *var);
/* Allocates zeroed memory for a variable. The program fills the memory, adios_close writes it. */
int adios_get_write_buffer(int64_t fd_p, const char *name, uint64_t *size, void **buffer);
/* Mode "r": reads a variable immediately. */
int adios_read(int64_t fd_p, const char *name, void *buffer, uint64_t buffer_size);
/* Replaces the declared path of all variables, or of one, until close. */
int adios_set_path(int64_t fd_p, const char *path);
int adios_set_path_var(int64_t fd_p, const char *path, const char *name);
/* Collective: commits the step. When this returns 0, the step is readable. */
int adios_close(int64_t fd_p);

/* Mark the program's calculation phases and iterations, for methods that work in the background. Start/stop and begin/end are the same. */
int adios_start_calculation(void);
int adios_stop_calculation(void);
int adios_begin_calculation(void);
int adios_end_calculation(void);
int adios_end_iteration(void);

/* Sets the buffer limit in MiB: memory for outputs of all groups in this process. 0: no buffering. */
void adios_set_max_buffer_size(uint64_t max_buffer_size_MB);
int adios_allocate_buffer(enum ADIOS_BUFFER_ALLOC_WHEN adios_buffer_alloc_when, uint64_t buffer_size);

/* Groups without XML */

int adios_declare_group(int64_t *id, const char *name, const char *time_index, enum ADIOS_STATISTICS_FLAG stats);
int adios_free_group(int64_t id);
/* Adds a method to the group; each method writes the whole group. `parameters`: "key=value;key=value". */
int adios_select_method(int64_t group, const char *method, const char *parameters, const char *base_path);
/* Defines a variable and returns its handle. Dimensions are lists such as "2*NX+1,4": all empty for a scalar, the last two empty for a
 * local array. */
int64_t adios_define_var(int64_t group_id, const char *name, const char *path, enum ADIOS_DATATYPES type,
                         const char *dimensions, const char *global_dimensions, const char *local_offsets);
int adios_delete_vardefs(int64_t id);
/* Bytes of a block with the current scalars of the group's newest open output. */
uint64_t adios_expected_var_size(int64_t var_id);
int adios_set_transform(int64_t var_id, const char *transform_type_str);
/* Defines an attribute. `var` not empty: its value is that of the scalar; else `value`, as text. */
int adios_define_attribute(int64_t group, const char *name, const char *path, enum ADIOS_DATATYPES type,
                           const char *value, const char *var);
/* `values`: numbers; for adios_string the text; for adios_string_array pointers to texts. */
int adios_define_attribute_byvalue(int64_t group, const char *name, const char *path, enum ADIOS_DATATYPES type,
                                   int nelems, const void *values);
int adios_delete_attrdefs(int64_t id);

/* Accepted and validated, without effect: each step is written when it is closed. */
int adios_set_time_aggregation(int64_t groupid, uint64_t buffersize, int64_t syncgroupid);
/* Not supported: err_operation_not_supported. */
void adios_timing_write_xml(int64_t fd_p, const char *filename);

/* Meshes: metadata for viewers. A null pointer leaves an optional part out. */

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
