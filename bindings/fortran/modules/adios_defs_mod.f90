!> Constants of the interface: types, statistics, errors, read methods, as in adios_types.h, adios_error.h and
!> adios_read.h; and the message of an error.
module adios_defs_mod
  implicit none
  public

  ! Types: integers of 1, 2, 4, 8 bytes; floating point; complex; texts
  integer, parameter :: adios_unknown = -1
  integer, parameter :: adios_byte = 0, adios_short = 1, adios_integer = 2, adios_long = 4
  integer, parameter :: adios_unsigned_byte = 50, adios_unsigned_short = 51
  integer, parameter :: adios_unsigned_integer = 52, adios_unsigned_long = 54
  integer, parameter :: adios_real = 5, adios_double = 6, adios_long_double = 7
  integer, parameter :: adios_complex = 10, adios_double_complex = 11
  integer, parameter :: adios_string = 9, adios_string_array = 12

  ! Statistics of a group: none; minimum and maximum; count, sum and sum of squares too
  integer, parameter :: adios_stat_no = -1, adios_stat_minmax = 0, adios_stat_full = 1
  integer, parameter :: adios_stat_default = adios_stat_minmax

  ! Read methods: the first three are the same here, the others are not supported
  integer, parameter :: adios_read_method_bp = 0, adios_read_method_bp_aggregate = 1, adios_read_method_bp_staged = 1
  integer, parameter :: adios_read_method_dataspaces = 3, adios_read_method_dimes = 4
  integer, parameter :: adios_read_method_flexpath = 5, adios_read_method_icee = 6
  ! All three are the same here: steps of a file are never removed
  integer, parameter :: adios_lockmode_none = 0, adios_lockmode_current = 1, adios_lockmode_all = 2
  integer, parameter :: adios_selection_type_boundingbox = 0, adios_selection_type_points = 1
  integer, parameter :: adios_selection_type_writeblock = 2, adios_selection_type_auto = 3

  ! Errors
  integer, parameter :: err_no_error = 0
  integer, parameter :: err_no_memory = -1
  integer, parameter :: err_file_open_error = -2
  integer, parameter :: err_file_not_found = -3
  integer, parameter :: err_invalid_file_pointer = -4
  integer, parameter :: err_invalid_group = -5
  integer, parameter :: err_invalid_group_struct = -6
  integer, parameter :: err_invalid_varid = -7
  integer, parameter :: err_invalid_varname = -8
  integer, parameter :: err_corrupted_variable = -9
  integer, parameter :: err_invalid_attrid = -10
  integer, parameter :: err_invalid_attrname = -11
  integer, parameter :: err_corrupted_attribute = -12
  integer, parameter :: err_invalid_attribute_reference = -13
  integer, parameter :: err_invalid_timestep = -14
  integer, parameter :: err_no_data_at_timestep = -15
  integer, parameter :: err_time_at_wrong_dimension = -16
  integer, parameter :: err_invalid_read_method = -17
  integer, parameter :: err_connection_failed = -18
  integer, parameter :: err_out_of_bound = -19
  integer, parameter :: err_operation_not_supported = -20
  integer, parameter :: err_end_of_stream = -21
  integer, parameter :: err_step_notready = -22
  integer, parameter :: err_step_disappeared = -23
  integer, parameter :: err_too_many_files = -24
  integer, parameter :: err_file_read_error = -25
  integer, parameter :: err_unknown_char = -30
  integer, parameter :: err_invalid_host_language = -50
  integer, parameter :: err_global_dim_required = -51
  integer, parameter :: err_global_offset_required = -52
  integer, parameter :: err_invalid_method = -53
  integer, parameter :: err_invalid_buffer_size = -54
  integer, parameter :: err_missing_config_file = -55
  integer, parameter :: err_expected_read_size_mismatch = -56
  integer, parameter :: err_allocating_buffer_size = -57
  integer, parameter :: err_invalid_xml_doc = -58
  integer, parameter :: err_no_group_defined = -59
  integer, parameter :: err_no_method_defined = -60
  integer, parameter :: err_no_buffer_defined = -61
  integer, parameter :: err_missing_invalid_group = -62
  integer, parameter :: err_group_method_mismatch = -63
  integer, parameter :: err_dimension_required = -64
  integer, parameter :: err_offset_required = -65
  integer, parameter :: err_invalid_dimension = -66
  integer, parameter :: err_invalid_global_dimension = -67
  integer, parameter :: err_invalid_offset = -68
  integer, parameter :: err_invalid_var_as_dimension = -69
  integer, parameter :: err_invalid_type_attr = -70
  integer, parameter :: err_invalid_value_attr = -71
  integer, parameter :: err_histogram_error = -72
  integer, parameter :: err_invalid_type_as_dimension = -73
  integer, parameter :: err_invalid_file_mode = -100
  integer, parameter :: err_invalid_file_version = -101
  integer, parameter :: err_invalid_data = -102
  integer, parameter :: err_buffer_overflow = -103
  integer, parameter :: err_too_many_variables = -104
  integer, parameter :: err_invalid_write_method = -105
  integer, parameter :: err_write_error = -106
  integer, parameter :: err_invalid_buffer = -130
  integer, parameter :: err_invalid_buffer_version = -131
  integer, parameter :: err_invalid_buffer_index = -132
  integer, parameter :: err_invalid_buffer_group = -133
  integer, parameter :: err_invalid_buffer_vars = -134
  integer, parameter :: err_invalid_buffer_attrs = -135
  integer, parameter :: err_invalid_argument = -140
  integer, parameter :: err_mesh_file_missing = -146
  integer, parameter :: err_no_matching_mesh_var = -147
  integer, parameter :: err_mesh_missing = -148
  integer, parameter :: err_mesh_name_attr_missing = -149
  integer, parameter :: err_mesh_unstructured_invalid_points = -150
  integer, parameter :: err_mesh_unstructured_invalid_num_points = -151
  integer, parameter :: err_mesh_unstructured_invalid_dim_points = -152
  integer, parameter :: err_mesh_unstructured_missing_one_points = -153
  integer, parameter :: err_mesh_unstructured_missing_points = -154
  integer, parameter :: err_mesh_unstructured_missing_ncsets = -155
  integer, parameter :: err_mesh_unstructured_invalid_ncsets = -156
  integer, parameter :: err_mesh_unstructured_missing_ccount = -157
  integer, parameter :: err_mesh_unstructured_invalid_ccount = -158
  integer, parameter :: err_mesh_unstructured_invalid_ctypes = -159
  integer, parameter :: err_mesh_unstructured_missing_cdata = -160
  integer, parameter :: err_mesh_unstructured_invalid_cdata = -161
  integer, parameter :: err_mesh_unstructured_missing_ctype = -162
  integer, parameter :: err_mesh_unstructured_invalid_ctype = -163
  integer, parameter :: err_mesh_unstructured_centering_missing = -164
  integer, parameter :: err_mesh_unstructured_centering_invalid = -165
  integer, parameter :: err_mesh_unifrom_invalid_num_dims = -170
  integer, parameter :: err_mesh_unifrom_invalid_num_max = -171
  integer, parameter :: err_mesh_unifrom_missing_maximum = -172
  integer, parameter :: err_mesh_unifrom_invalid_var_type = -173
  integer, parameter :: err_mesh_unifrom_missing_one_dim = -174
  integer, parameter :: err_mesh_unifrom_invalid_dim = -175
  integer, parameter :: err_mesh_unifrom_missing_dims = -176
  integer, parameter :: err_mesh_unifrom_max_conflict = -177
  integer, parameter :: err_mesh_recti_invalid_num_dims = -180
  integer, parameter :: err_mesh_recti_missing_dims = -181
  integer, parameter :: err_mesh_recti_missing_one_dim = -182
  integer, parameter :: err_mesh_recti_invalid_dim = -183
  integer, parameter :: err_mesh_recti_invalid_coords = -184
  integer, parameter :: err_mesh_recti_invalid_num_coords = -185
  integer, parameter :: err_mesh_recti_missing_one_coords = -186
  integer, parameter :: err_mesh_recti_missing_coords = -187
  integer, parameter :: err_mesh_structured_invalid_num_dims = -190
  integer, parameter :: err_mesh_structured_missing_dims = -191
  integer, parameter :: err_mesh_structured_missing_one_dim = -192
  integer, parameter :: err_mesh_structured_invalid_dim = -193
  integer, parameter :: err_mesh_structured_invalid_dim_points = -194
  integer, parameter :: err_mesh_structured_invalid_points = -195
  integer, parameter :: err_mesh_structured_missing_one_points = -196
  integer, parameter :: err_mesh_structured_missing_points = -197
  integer, parameter :: err_mesh_structured_invalid_num_points = -198
  integer, parameter :: err_invalid_transform_type = -300
  integer, parameter :: err_transform_failure = -301
  integer, parameter :: err_unsupported_selection = -401
  integer, parameter :: err_invalid_query_value = -402
  integer, parameter :: err_incompatible_queries = -403
  integer, parameter :: err_invalid_selection = -404
  integer, parameter :: err_fgr = -900
  integer, parameter :: err_unspecified = -1000

  interface
    !> The message of the last failed call: rank, variable, file, cause, and the data that are still intact.
    subroutine adios_errmsg(msg)
      character(*), intent(out) :: msg
    end subroutine adios_errmsg
  end interface
end module adios_defs_mod
