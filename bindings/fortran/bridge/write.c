#include "bridge.h"

/* Life cycle */

void adios_init_(const char *config, const int *comm, int *err, size_t config_length)
{
    TEXT(file, config, config_length);
    *err = thalweg_fortran_init(file, *comm);
}
OF_MODULES(adios_init_);

void adios_init_noxml_(const int *comm, int *err)
{
    *err = thalweg_fortran_init_noxml(*comm);
    if (*err == 0) *err = thalweg_core_fortran_order();
}
OF_MODULES(adios_init_noxml_);

int adios_is_initialized_(void) { return adios_is_initialized() != 0; }

void adios_finalize_(const int *mype, int *err) { *err = adios_finalize(*mype); }

void adios_allocate_buffer_(const int *size_mb, int *err)
{
    *err = adios_allocate_buffer(ADIOS_BUFFER_ALLOC_NOW, (uint64_t)(*size_mb > 0 ? *size_mb : 0));
}

void adios_set_max_buffer_size_(const int *size_mb) { adios_set_max_buffer_size((uint64_t)(*size_mb > 0 ? *size_mb : 0)); }

void adios_end_iteration_(int *err) { *err = adios_end_iteration(); }
void adios_start_calculation_(int *err) { *err = adios_start_calculation(); }
void adios_stop_calculation_(int *err) { *err = adios_stop_calculation(); }
void adios_begin_calculation_(int *err) { *err = adios_begin_calculation(); }
void adios_end_calculation_(int *err) { *err = adios_end_calculation(); }

/* Output */

void adios_open_(int64_t *fd, const char *group, const char *file, const char *mode, const int *comm, int *err,
                 size_t group_length, size_t file_length, size_t mode_length)
{
    TEXT(c_group, group, group_length);
    TEXT(c_file, file, file_length);
    TEXT(c_mode, mode, mode_length);
    *err = thalweg_fortran_open(fd, c_group, c_file, c_mode, *comm);
}
OF_MODULES(adios_open_);

void adios_group_size_(const int64_t *fd, const int64_t *data_size, int64_t *total_size, int *err)
{
    uint64_t total = 0;
    *err = adios_group_size(*fd, (uint64_t)(*data_size > 0 ? *data_size : 0), &total);
    *total_size = (int64_t)total;
}

/* Only the address is known: for a number the variable's size is read, for a text its length, which gfortran passes after
 * the name's length. */
void adios_write_(const int64_t *fd, const char *name, const void *data, int *err, size_t name_length, size_t data_length)
{
    TEXT(c_name, name, name_length);
    struct thalweg_fortran_memory memory = {.start = data, .room = UNKNOWN_ROOM, .text_room = data_length};
    *err = thalweg_core_fortran_write(*fd, c_name ? c_name : "", 0, &memory);
}

void adios_write_byid_(const int64_t *fd, const int64_t *id, const void *data, int *err, size_t data_length)
{
    struct thalweg_fortran_memory memory = {.start = data, .room = UNKNOWN_ROOM, .text_room = data_length};
    *err = thalweg_core_fortran_write(*fd, NULL, *id, &memory);
}

/* Implements adios_write of the module; `name` NULL: adios_write_byid. */
int thalweg_bridge_write(int64_t fd, const char *name, size_t name_length, int64_t id, const CFI_cdesc_t *data)
{
    struct array array;
    int err = thalweg_bridge_array(data, &array);
    if (err) return err;
    struct thalweg_fortran_memory memory = {array.start, array.room, array.text_room, array.copy != NULL};
    if (name) {
        TEXT(c_name, name, name_length);
        err = thalweg_core_fortran_write(fd, c_name ? c_name : "", 0, &memory);
    } else
        err = thalweg_core_fortran_write(fd, NULL, id, &memory);
    thalweg_bridge_free(&array);
    return err;
}

int thalweg_bridge_write_byid(int64_t fd, int64_t id, const CFI_cdesc_t *data)
{
    return thalweg_bridge_write(fd, NULL, 0, id, data);
}

/* The address of the library's memory, for c_f_pointer. */
void adios_get_write_buffer_(const int64_t *fd, const char *name, int64_t *size, void **buffer, int *err,
                             size_t name_length)
{
    TEXT(c_name, name, name_length);
    uint64_t bytes = 0;
    *err = adios_get_write_buffer(*fd, c_name, &bytes, buffer);
    *size = (int64_t)bytes;
}

void adios_read_(const int64_t *fd, const char *name, void *buffer, const int64_t *buffer_size, int *err,
                 size_t name_length)
{
    TEXT(c_name, name, name_length);
    uint64_t room = *buffer_size > 0 ? (uint64_t)*buffer_size : 0;
    *err = thalweg_core_fortran_read(*fd, c_name, buffer, room, room);
}

/* Implements adios_read of the module. */
int thalweg_bridge_read(int64_t fd, const char *name, size_t name_length, const CFI_cdesc_t *buffer, int64_t buffer_size)
{
    TEXT(c_name, name, name_length);
    struct array array;
    int err = thalweg_bridge_array(buffer, &array);
    if (err) return err;
    uint64_t room = buffer_size > 0 ? (uint64_t)buffer_size : 0;
    uint64_t text_room = array.text_room == UNKNOWN_ROOM ? room : array.text_room;
    err = thalweg_core_fortran_read(fd, c_name, array.start, room < array.room ? room : array.room, text_room);
    if (array.copy) thalweg_bridge_scatter(buffer, array.copy);
    thalweg_bridge_free(&array);
    return err;
}

void adios_set_path_(const int64_t *fd, const char *path, int *err, size_t path_length)
{
    TEXT(c_path, path, path_length);
    *err = adios_set_path(*fd, c_path);
}

void adios_set_path_var_(const int64_t *fd, const char *path, const char *name, int *err, size_t path_length,
                         size_t name_length)
{
    TEXT(c_path, path, path_length);
    TEXT(c_name, name, name_length);
    *err = adios_set_path_var(*fd, c_path, c_name);
}

void adios_close_(const int64_t *fd, int *err) { *err = adios_close(*fd); }

void adios_timing_write_xml_(const int64_t *fd, const char *file, int *err, size_t file_length)
{
    TEXT(c_file, file, file_length);
    adios_timing_write_xml(*fd, c_file);
    *err = adios_errno;
}

/* Groups without XML */

void adios_declare_group_(int64_t *id, const char *name, const char *time_index, const int *stats, int *err,
                          size_t name_length, size_t time_length)
{
    TEXT(c_name, name, name_length);
    TEXT(c_time, time_index, time_length);
    *err = adios_declare_group(id, c_name, c_time, (enum ADIOS_STATISTICS_FLAG)*stats);
}

void adios_free_group_(const int64_t *id, int *err) { *err = adios_free_group(*id); }

void adios_select_method_(const int64_t *group, const char *method, const char *parameters, const char *base_path,
                          int *err, size_t method_length, size_t parameters_length, size_t path_length)
{
    TEXT(c_method, method, method_length);
    TEXT(c_parameters, parameters, parameters_length);
    TEXT(c_path, base_path, path_length);
    *err = adios_select_method(*group, c_method, c_parameters, c_path);
}

void adios_define_var_(const int64_t *group, const char *name, const char *path, const int *type, const char *dimensions,
                       const char *global_dimensions, const char *local_offsets, int64_t *id, size_t name_length,
                       size_t path_length, size_t dimensions_length, size_t global_length, size_t offsets_length)
{
    TEXT(c_name, name, name_length);
    TEXT(c_path, path, path_length);
    TEXT(c_dimensions, dimensions, dimensions_length);
    TEXT(c_global, global_dimensions, global_length);
    TEXT(c_offsets, local_offsets, offsets_length);
    *id = adios_define_var(*group, c_name, c_path, (enum ADIOS_DATATYPES)*type, c_dimensions, c_global, c_offsets);
}

void adios_delete_vardefs_(const int64_t *group, int *err) { *err = adios_delete_vardefs(*group); }

void adios_expected_var_size_(const int64_t *id, int64_t *size) { *size = (int64_t)adios_expected_var_size(*id); }

void adios_set_transform_(const int64_t *id, const char *transform, int *err, size_t length)
{
    TEXT(c_transform, transform, length);
    *err = adios_set_transform(*id, c_transform);
}

void adios_set_time_aggregation_(const int64_t *group, const int64_t *size, const int64_t *sync_group, int *err)
{
    *err = adios_set_time_aggregation(*group, (uint64_t)*size, *sync_group);
}

void adios_define_attribute_(const int64_t *group, const char *name, const char *path, const int *type, const char *value,
                             const char *var, int *err, size_t name_length, size_t path_length, size_t value_length,
                             size_t var_length)
{
    TEXT(c_name, name, name_length);
    TEXT(c_path, path, path_length);
    TEXT(c_value, value, value_length);
    TEXT(c_var, var, var_length);
    *err = adios_define_attribute(*group, c_name, c_path, (enum ADIOS_DATATYPES)*type, c_value, c_var);
}

/* Implements adios_define_attribute_byvalue of the module, except for characters. */
int thalweg_bridge_attribute(int64_t group, const char *name, size_t name_length, const char *path, size_t path_length,
                             int type, int count, const CFI_cdesc_t *values)
{
    TEXT(c_name, name, name_length);
    TEXT(c_path, path, path_length);
    struct array array;
    int64_t there = thalweg_bridge_elements(values);
    if (values->rank && there >= 0 && count > there) {
        thalweg_core_error(err_invalid_argument, "an attribute by value: more values requested than the array has");
        return err_invalid_argument;
    }
    int err = thalweg_bridge_array(values, &array);
    if (err) return err;
    err = adios_define_attribute_byvalue(group, c_name, c_path, (enum ADIOS_DATATYPES)type, count, array.start);
    thalweg_bridge_free(&array);
    return err;
}

/* For characters: one text, or an array of texts. */
int thalweg_bridge_attribute_text(int64_t group, const char *name, size_t name_length, const char *path,
                                  size_t path_length, int count, const char *values, size_t value_length, int is_array)
{
    TEXT(c_name, name, name_length);
    TEXT(c_path, path, path_length);
    if (!is_array) {
        TEXT(value, values, value_length);
        return adios_define_attribute_byvalue(group, c_name, c_path, adios_string, 1, value);
    }
    if (count < 0) count = 0;
    char *texts[count + 1];
    for (int i = 0; i < count; i++) texts[i] = thalweg_bridge_text(values + (size_t)i * value_length, value_length);
    int err = adios_define_attribute_byvalue(group, c_name, c_path, adios_string_array, count, texts);
    for (int i = 0; i < count; i++) thalweg_bridge_forget(&texts[i]);
    return err;
}

void adios_delete_attrdefs_(const int64_t *group, int *err) { *err = adios_delete_attrdefs(*group); }

/* Meshes. These procedures have no `err`, as in ADIOS 1.x; the modules also provide them with `err`. */

void adios_define_schema_version_(const int64_t *group, const char *version, size_t length)
{
    TEXT(c_version, version, length);
    adios_define_schema_version(*group, c_version);
}

/* NAME(group, variable or mesh, value) */
#define OF_GROUP(NAME)                                                                                              \
    void NAME##_(const int64_t *group, const char *name, const char *value, size_t name_length, size_t value_length) \
    {                                                                                                               \
        TEXT(c_name, name, name_length);                                                                            \
        TEXT(c_value, value, value_length);                                                                         \
        NAME(*group, c_name, c_value);                                                                              \
    }
OF_GROUP(adios_define_var_mesh)
OF_GROUP(adios_define_var_centering)
OF_GROUP(adios_define_mesh_file)

/* NAME(value, group, variable or mesh) */
#define VALUE_FIRST(NAME)                                                                                           \
    void NAME##_(const char *value, const int64_t *group, const char *name, size_t value_length, size_t name_length) \
    {                                                                                                               \
        TEXT(c_value, value, value_length);                                                                         \
        TEXT(c_name, name, name_length);                                                                            \
        NAME(c_value, *group, c_name);                                                                              \
    }
VALUE_FIRST(adios_define_var_timesteps)
VALUE_FIRST(adios_define_var_timescale)
VALUE_FIRST(adios_define_var_timeseriesformat)
VALUE_FIRST(adios_define_var_hyperslab)
VALUE_FIRST(adios_define_mesh_group)
VALUE_FIRST(adios_define_mesh_timevarying)
VALUE_FIRST(adios_define_mesh_timesteps)
VALUE_FIRST(adios_define_mesh_timescale)
VALUE_FIRST(adios_define_mesh_timeseriesformat)

void adios_define_mesh_uniform_(const char *dimensions, const char *origin, const char *spacing, const char *maximum,
                                const char *nspace, const int64_t *group, const char *name, size_t dimensions_length,
                                size_t origin_length, size_t spacing_length, size_t maximum_length, size_t nspace_length,
                                size_t name_length)
{
    TEXT(c_dimensions, dimensions, dimensions_length);
    TEXT(c_origin, origin, origin_length);
    TEXT(c_spacing, spacing, spacing_length);
    TEXT(c_maximum, maximum, maximum_length);
    TEXT(c_nspace, nspace, nspace_length);
    TEXT(c_name, name, name_length);
    adios_define_mesh_uniform(c_dimensions, c_origin, c_spacing, c_maximum, c_nspace, *group, c_name);
}

void adios_define_mesh_rectilinear_(const char *dimensions, const char *coordinates, const char *nspace,
                                    const int64_t *group, const char *name, size_t dimensions_length,
                                    size_t coordinates_length, size_t nspace_length, size_t name_length)
{
    TEXT(c_dimensions, dimensions, dimensions_length);
    TEXT(c_coordinates, coordinates, coordinates_length);
    TEXT(c_nspace, nspace, nspace_length);
    TEXT(c_name, name, name_length);
    adios_define_mesh_rectilinear(c_dimensions, c_coordinates, c_nspace, *group, c_name);
}

void adios_define_mesh_structured_(const char *dimensions, const char *points, const char *nspace, const int64_t *group,
                                   const char *name, size_t dimensions_length, size_t points_length, size_t nspace_length,
                                   size_t name_length)
{
    TEXT(c_dimensions, dimensions, dimensions_length);
    TEXT(c_points, points, points_length);
    TEXT(c_nspace, nspace, nspace_length);
    TEXT(c_name, name, name_length);
    adios_define_mesh_structured(c_dimensions, c_points, c_nspace, *group, c_name);
}

void adios_define_mesh_unstructured_(const char *points, const char *data, const char *count, const char *cell_type,
                                     const char *npoints, const char *nspace, const int64_t *group, const char *name,
                                     size_t points_length, size_t data_length, size_t count_length, size_t type_length,
                                     size_t npoints_length, size_t nspace_length, size_t name_length)
{
    TEXT(c_points, points, points_length);
    TEXT(c_data, data, data_length);
    TEXT(c_count, count, count_length);
    TEXT(c_type, cell_type, type_length);
    TEXT(c_npoints, npoints, npoints_length);
    TEXT(c_nspace, nspace, nspace_length);
    TEXT(c_name, name, name_length);
    adios_define_mesh_unstructured(c_points, c_data, c_count, c_type, c_npoints, c_nspace, *group, c_name);
}

/* The result of the last call, for the procedures above. */
int thalweg_bridge_errno(void) { return adios_errno; }

void adios_errmsg_(char *message, size_t length)
{
    const char *text = adios_errmsg();
    thalweg_bridge_pad(text ? text : "", message, length);
}
