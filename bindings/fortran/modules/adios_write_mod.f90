!> Writing, and reading back in mode "r": the procedures of adios.h. `err` is 0 or one of the constants err_* of
!> adios_defs_mod; adios_errmsg then returns the message.
!>
!> Trailing blanks of a character argument are ignored. Data may be of any kind listed in each.py, or characters: a
!> scalar, an array of up to 15 dimensions, or an array section.
module adios_write_mod
  use, intrinsic :: iso_fortran_env, only: int8, int16, int32, int64, real32, real64
  use, intrinsic :: iso_c_binding, only: c_int64_t, c_ptr, c_size_t
  use adios_defs_mod
  use thalweg_bridge, only: bridge_write, bridge_write_byid, bridge_read, bridge_attribute, bridge_attribute_text, &
    bridge_errno
#if f08
  use mpi_f08, only: MPI_Comm
#end
  implicit none
  private :: int8, int16, int32, int64, real32, real64, c_int64_t, c_ptr, c_size_t
#if f08
  private :: MPI_Comm, needs_@mpi@_init_f08, needs_@mpi@_init_noxml_f08, needs_@mpi@_open_f08
#end
#each
  private :: write_@kind@, write_byid_@kind@, read_@kind@
#end
  private :: write_character, write_byid_character, read_character
#each number
  private :: attribute_@kind@
#end
  private :: attribute_character, attribute_characters
  private :: bridge_write, bridge_write_byid, bridge_read, bridge_attribute, bridge_attribute_text, bridge_errno
  private :: schema_version_err, var_mesh_err, var_centering_err, var_timesteps_err, var_timescale_err
  private :: var_timeseriesformat_err, var_hyperslab_err, mesh_file_err, mesh_group_err, mesh_timevarying_err
  private :: mesh_timesteps_err, mesh_timescale_err, mesh_timeseriesformat_err, mesh_uniform_err
  private :: mesh_rectilinear_err, mesh_structured_err, mesh_unstructured_err

  private :: thalweg_needs_@mpi@_adios_init, thalweg_needs_@mpi@_adios_init_noxml, thalweg_needs_@mpi@_adios_open

  ! The linker names of procedures that take a communicator contain the MPI: see bridge/bridge.h.

  ! Life cycle. `comm` is an integer (`use mpi`, mpif.h) or a type(MPI_Comm) (`use mpi_f08`).

  interface adios_init
    !> Collective: starts with the groups, methods and buffer limit of an XML file.
    subroutine thalweg_needs_@mpi@_adios_init(config, comm, err)
      character(*), intent(in) :: config
      integer, intent(in) :: comm
      integer, intent(out) :: err
    end subroutine thalweg_needs_@mpi@_adios_init
#if f08
    module procedure needs_@mpi@_init_f08
#end
  end interface adios_init

  interface adios_init_noxml
    !> Collective: starts without groups. Dimensions of groups declared afterwards are fastest first, as in Fortran.
    subroutine thalweg_needs_@mpi@_adios_init_noxml(comm, err)
      integer, intent(in) :: comm
      integer, intent(out) :: err
    end subroutine thalweg_needs_@mpi@_adios_init_noxml
#if f08
    module procedure needs_@mpi@_init_noxml_f08
#end
  end interface adios_init_noxml

  interface adios_open
    !> Collective over `comm`: opens a step of a group. Modes: "w", "a", "u", "r".
    subroutine thalweg_needs_@mpi@_adios_open(fd, group_name, filename, mode, comm, err)
      import :: int64
      integer(int64), intent(out) :: fd
      character(*), intent(in) :: group_name, filename, mode
      integer, intent(in) :: comm
      integer, intent(out) :: err
    end subroutine thalweg_needs_@mpi@_adios_open
#if f08
    module procedure needs_@mpi@_open_f08
#end
  end interface adios_open

  interface
    logical function adios_is_initialized()
    end function adios_is_initialized

    !> Collective: closes all files for good. Call before MPI_Finalize.
    subroutine adios_finalize(mype, err)
      integer, intent(in) :: mype
      integer, intent(out) :: err
    end subroutine adios_finalize

    subroutine adios_allocate_buffer(sizeMB, err)
      integer, intent(in) :: sizeMB
      integer, intent(out) :: err
    end subroutine adios_allocate_buffer

    !> Sets the buffer limit in MiB: memory for outputs of all groups in this process. 0: no buffering.
    subroutine adios_set_max_buffer_size(sizeMB)
      integer, intent(in) :: sizeMB
    end subroutine adios_set_max_buffer_size

    ! Mark the program's calculation phases.

    subroutine adios_end_iteration(err)
      integer, intent(out) :: err
    end subroutine adios_end_iteration

    subroutine adios_start_calculation(err)
      integer, intent(out) :: err
    end subroutine adios_start_calculation

    subroutine adios_stop_calculation(err)
      integer, intent(out) :: err
    end subroutine adios_stop_calculation

    subroutine adios_begin_calculation(err)
      integer, intent(out) :: err
    end subroutine adios_begin_calculation

    subroutine adios_end_calculation(err)
      integer, intent(out) :: err
    end subroutine adios_end_calculation

    ! Output

    !> Optional: announces the bytes that this rank will write, so that their buffer is allocated in one piece.
    subroutine adios_group_size(fd, data_size, total_size, err)
      import :: int64
      integer(int64), intent(in) :: fd, data_size
      integer(int64), intent(out) :: total_size
      integer, intent(out) :: err
    end subroutine adios_group_size

    !> Collective: commits the step. When `err` is 0, the step is readable.
    subroutine adios_close(fd, err)
      import :: int64
      integer(int64), intent(in) :: fd
      integer, intent(out) :: err
    end subroutine adios_close

    !> Replaces the declared path of variables until close.
    subroutine adios_set_path(fd, path, err)
      import :: int64
      integer(int64), intent(in) :: fd
      character(*), intent(in) :: path
      integer, intent(out) :: err
    end subroutine adios_set_path

    subroutine adios_set_path_var(fd, path, varname, err)
      import :: int64
      integer(int64), intent(in) :: fd
      character(*), intent(in) :: path, varname
      integer, intent(out) :: err
    end subroutine adios_set_path_var

    !> Allocates zeroed memory for a variable, for c_f_pointer. The program fills the memory, adios_close writes it.
    subroutine adios_get_write_buffer(fd, varname, size, buffer, err)
      import :: int64, c_ptr
      integer(int64), intent(in) :: fd
      character(*), intent(in) :: varname
      integer(int64), intent(out) :: size
      type(c_ptr), intent(out) :: buffer
      integer, intent(out) :: err
    end subroutine adios_get_write_buffer

    !> Not supported.
    subroutine adios_timing_write_xml(fd, filename, err)
      import :: int64
      integer(int64), intent(in) :: fd
      character(*), intent(in) :: filename
      integer, intent(out) :: err
    end subroutine adios_timing_write_xml

    ! Groups without XML

    subroutine adios_declare_group(id, groupname, time_index, stats_flag, err)
      import :: int64
      integer(int64), intent(out) :: id
      character(*), intent(in) :: groupname, time_index
      integer, intent(in) :: stats_flag
      integer, intent(out) :: err
    end subroutine adios_declare_group

    subroutine adios_free_group(id, err)
      import :: int64
      integer(int64), intent(in) :: id
      integer, intent(out) :: err
    end subroutine adios_free_group

    subroutine adios_select_method(group_id, method, parameters, base_path, err)
      import :: int64
      integer(int64), intent(in) :: group_id
      character(*), intent(in) :: method, parameters, base_path
      integer, intent(out) :: err
    end subroutine adios_select_method

    !> Dimensions are lists such as "nx,2*ny", fastest first. `id` is 0 on failure.
    subroutine adios_define_var(group_id, varname, path, vartype, dimensions, global_dimensions, local_offsets, id)
      import :: int64
      integer(int64), intent(in) :: group_id
      character(*), intent(in) :: varname, path
      integer, intent(in) :: vartype
      character(*), intent(in) :: dimensions, global_dimensions, local_offsets
      integer(int64), intent(out) :: id
    end subroutine adios_define_var

    subroutine adios_delete_vardefs(group_id, err)
      import :: int64
      integer(int64), intent(in) :: group_id
      integer, intent(out) :: err
    end subroutine adios_delete_vardefs

    !> Bytes of a block with the current scalars of the group's newest open output.
    subroutine adios_expected_var_size(var_id, size)
      import :: int64
      integer(int64), intent(in) :: var_id
      integer(int64), intent(out) :: size
    end subroutine adios_expected_var_size

    subroutine adios_set_transform(var_id, transform_method, err)
      import :: int64
      integer(int64), intent(in) :: var_id
      character(*), intent(in) :: transform_method
      integer, intent(out) :: err
    end subroutine adios_set_transform

    subroutine adios_set_time_aggregation(group_id, buffersize, sync_group_id, err)
      import :: int64
      integer(int64), intent(in) :: group_id, buffersize, sync_group_id
      integer, intent(out) :: err
    end subroutine adios_set_time_aggregation

    !> `varname` not blank: the value is that of the scalar; else `value`, as text.
    subroutine adios_define_attribute(group_id, attrname, path, attrtype, value, varname, err)
      import :: int64
      integer(int64), intent(in) :: group_id
      character(*), intent(in) :: attrname, path
      integer, intent(in) :: attrtype
      character(*), intent(in) :: value, varname
      integer, intent(out) :: err
    end subroutine adios_define_attribute

    subroutine adios_delete_attrdefs(group_id, err)
      import :: int64
      integer(int64), intent(in) :: group_id
      integer, intent(out) :: err
    end subroutine adios_delete_attrdefs
  end interface

  !> Writes one block of a variable: its size follows from the current values of its dimensions; characters in a text
  !> variable are written without trailing blanks. `data` may be reused when this returns, unless the group has
  !> copy-on-write="no". In mode "r": sets a scalar that dimensions and offsets refer to.
  interface adios_write ! (fd, varname, data, err)
#each
    module procedure write_@kind@
#end
    module procedure write_character
  end interface adios_write

  !> Like adios_write, by the number of adios_define_var.
  interface adios_write_byid ! (fd, varid, data, err)
#each
    module procedure write_byid_@kind@
#end
    module procedure write_byid_character
  end interface adios_write_byid

  !> Mode "r": reads a variable immediately; `buffer_size` in bytes. A text is padded with blanks.
  interface adios_read ! (fd, varname, buffer, buffer_size, err)
#each
    module procedure read_@kind@
#end
    module procedure read_character
  end interface adios_read

  !> Defines an attribute with one or several values (`nelems`): numbers, or one or several texts.
  interface adios_define_attribute_byvalue ! (group_id, attrname, path, nelems, values, err)
#each number
    module procedure attribute_@kind@
#end
    module procedure attribute_character, attribute_characters
  end interface adios_define_attribute_byvalue

  ! Meshes: metadata for viewers. A blank text leaves an optional part out. `err` is optional.

  interface adios_define_schema_version
    subroutine adios_define_schema_version(group_id, schema_version)
      import :: int64
      integer(int64), intent(in) :: group_id
      character(*), intent(in) :: schema_version
    end subroutine adios_define_schema_version
    module procedure schema_version_err
  end interface adios_define_schema_version

  interface adios_define_var_mesh
    subroutine adios_define_var_mesh(group_id, varname, meshname)
      import :: int64
      integer(int64), intent(in) :: group_id
      character(*), intent(in) :: varname, meshname
    end subroutine adios_define_var_mesh
    module procedure var_mesh_err
  end interface adios_define_var_mesh

  interface adios_define_var_centering
    subroutine adios_define_var_centering(group_id, varname, centering)
      import :: int64
      integer(int64), intent(in) :: group_id
      character(*), intent(in) :: varname, centering
    end subroutine adios_define_var_centering
    module procedure var_centering_err
  end interface adios_define_var_centering

  interface adios_define_var_timesteps
    subroutine adios_define_var_timesteps(timesteps, group_id, name)
      import :: int64
      character(*), intent(in) :: timesteps
      integer(int64), intent(in) :: group_id
      character(*), intent(in) :: name
    end subroutine adios_define_var_timesteps
    module procedure var_timesteps_err
  end interface adios_define_var_timesteps

  interface adios_define_var_timescale
    subroutine adios_define_var_timescale(timescale, group_id, name)
      import :: int64
      character(*), intent(in) :: timescale
      integer(int64), intent(in) :: group_id
      character(*), intent(in) :: name
    end subroutine adios_define_var_timescale
    module procedure var_timescale_err
  end interface adios_define_var_timescale

  interface adios_define_var_timeseriesformat
    subroutine adios_define_var_timeseriesformat(timeseries, group_id, name)
      import :: int64
      character(*), intent(in) :: timeseries
      integer(int64), intent(in) :: group_id
      character(*), intent(in) :: name
    end subroutine adios_define_var_timeseriesformat
    module procedure var_timeseriesformat_err
  end interface adios_define_var_timeseriesformat

  interface adios_define_var_hyperslab
    subroutine adios_define_var_hyperslab(hyperslab, group_id, name)
      import :: int64
      character(*), intent(in) :: hyperslab
      integer(int64), intent(in) :: group_id
      character(*), intent(in) :: name
    end subroutine adios_define_var_hyperslab
    module procedure var_hyperslab_err
  end interface adios_define_var_hyperslab

  interface adios_define_mesh_file
    subroutine adios_define_mesh_file(group_id, name, file)
      import :: int64
      integer(int64), intent(in) :: group_id
      character(*), intent(in) :: name, file
    end subroutine adios_define_mesh_file
    module procedure mesh_file_err
  end interface adios_define_mesh_file

  interface adios_define_mesh_group
    subroutine adios_define_mesh_group(group, group_id, name)
      import :: int64
      character(*), intent(in) :: group
      integer(int64), intent(in) :: group_id
      character(*), intent(in) :: name
    end subroutine adios_define_mesh_group
    module procedure mesh_group_err
  end interface adios_define_mesh_group

  interface adios_define_mesh_timevarying
    subroutine adios_define_mesh_timevarying(timevarying, group_id, name)
      import :: int64
      character(*), intent(in) :: timevarying
      integer(int64), intent(in) :: group_id
      character(*), intent(in) :: name
    end subroutine adios_define_mesh_timevarying
    module procedure mesh_timevarying_err
  end interface adios_define_mesh_timevarying

  interface adios_define_mesh_timesteps
    subroutine adios_define_mesh_timesteps(timesteps, group_id, name)
      import :: int64
      character(*), intent(in) :: timesteps
      integer(int64), intent(in) :: group_id
      character(*), intent(in) :: name
    end subroutine adios_define_mesh_timesteps
    module procedure mesh_timesteps_err
  end interface adios_define_mesh_timesteps

  interface adios_define_mesh_timescale
    subroutine adios_define_mesh_timescale(timescale, group_id, name)
      import :: int64
      character(*), intent(in) :: timescale
      integer(int64), intent(in) :: group_id
      character(*), intent(in) :: name
    end subroutine adios_define_mesh_timescale
    module procedure mesh_timescale_err
  end interface adios_define_mesh_timescale

  interface adios_define_mesh_timeseriesformat
    subroutine adios_define_mesh_timeseriesformat(timeseries, group_id, name)
      import :: int64
      character(*), intent(in) :: timeseries
      integer(int64), intent(in) :: group_id
      character(*), intent(in) :: name
    end subroutine adios_define_mesh_timeseriesformat
    module procedure mesh_timeseriesformat_err
  end interface adios_define_mesh_timeseriesformat

  interface adios_define_mesh_uniform
    subroutine adios_define_mesh_uniform(dimensions, origin, spacing, maximum, nspace, group_id, name)
      import :: int64
      character(*), intent(in) :: dimensions, origin, spacing, maximum, nspace
      integer(int64), intent(in) :: group_id
      character(*), intent(in) :: name
    end subroutine adios_define_mesh_uniform
    module procedure mesh_uniform_err
  end interface adios_define_mesh_uniform

  interface adios_define_mesh_rectilinear
    subroutine adios_define_mesh_rectilinear(dimensions, coordinates, nspace, group_id, name)
      import :: int64
      character(*), intent(in) :: dimensions, coordinates, nspace
      integer(int64), intent(in) :: group_id
      character(*), intent(in) :: name
    end subroutine adios_define_mesh_rectilinear
    module procedure mesh_rectilinear_err
  end interface adios_define_mesh_rectilinear

  interface adios_define_mesh_structured
    subroutine adios_define_mesh_structured(dimensions, points, nspace, group_id, name)
      import :: int64
      character(*), intent(in) :: dimensions, points, nspace
      integer(int64), intent(in) :: group_id
      character(*), intent(in) :: name
    end subroutine adios_define_mesh_structured
    module procedure mesh_structured_err
  end interface adios_define_mesh_structured

  interface adios_define_mesh_unstructured
    subroutine adios_define_mesh_unstructured(points, data, count, cell_type, npoints, nspace, group_id, name)
      import :: int64
      character(*), intent(in) :: points, data, count, cell_type, npoints, nspace
      integer(int64), intent(in) :: group_id
      character(*), intent(in) :: name
    end subroutine adios_define_mesh_unstructured
    module procedure mesh_unstructured_err
  end interface adios_define_mesh_unstructured

contains

#if f08
  subroutine needs_@mpi@_init_f08(config, comm, err)
    character(*), intent(in) :: config
    type(MPI_Comm), intent(in) :: comm
    integer, intent(out) :: err
    call adios_init(config, comm%MPI_VAL, err)
  end subroutine needs_@mpi@_init_f08

  subroutine needs_@mpi@_init_noxml_f08(comm, err)
    type(MPI_Comm), intent(in) :: comm
    integer, intent(out) :: err
    call adios_init_noxml(comm%MPI_VAL, err)
  end subroutine needs_@mpi@_init_noxml_f08

  subroutine needs_@mpi@_open_f08(fd, group_name, filename, mode, comm, err)
    integer(int64), intent(out) :: fd
    character(*), intent(in) :: group_name, filename, mode
    type(MPI_Comm), intent(in) :: comm
    integer, intent(out) :: err
    call adios_open(fd, group_name, filename, mode, comm%MPI_VAL, err)
  end subroutine needs_@mpi@_open_f08

#end
  ! `target`: the library may keep the address until adios_close (copy-on-write="no").
#each
  subroutine write_@kind@(fd, varname, data, err)
    integer(int64), intent(in) :: fd
    character(*), intent(in) :: varname
    @type@, intent(in), target :: data(..)
    integer, intent(out) :: err
    err = bridge_write(fd, varname, len(varname, c_size_t), 0_c_int64_t, data)
  end subroutine write_@kind@

  subroutine write_byid_@kind@(fd, varid, data, err)
    integer(int64), intent(in) :: fd, varid
    @type@, intent(in), target :: data(..)
    integer, intent(out) :: err
    err = bridge_write_byid(fd, varid, data)
  end subroutine write_byid_@kind@

  subroutine read_@kind@(fd, varname, buffer, buffer_size, err)
    integer(int64), intent(in) :: fd
    character(*), intent(in) :: varname
    @type@, intent(inout), target :: buffer(..)
    integer(int64), intent(in) :: buffer_size
    integer, intent(out) :: err
    err = bridge_read(fd, varname, len(varname, c_size_t), buffer, buffer_size)
  end subroutine read_@kind@

#end
  subroutine write_character(fd, varname, data, err)
    integer(int64), intent(in) :: fd
    character(*), intent(in) :: varname
    character(*), intent(in), target :: data(..)
    integer, intent(out) :: err
    err = bridge_write(fd, varname, len(varname, c_size_t), 0_c_int64_t, data)
  end subroutine write_character

  subroutine write_byid_character(fd, varid, data, err)
    integer(int64), intent(in) :: fd, varid
    character(*), intent(in), target :: data(..)
    integer, intent(out) :: err
    err = bridge_write_byid(fd, varid, data)
  end subroutine write_byid_character

  subroutine read_character(fd, varname, buffer, buffer_size, err)
    integer(int64), intent(in) :: fd
    character(*), intent(in) :: varname
    character(*), intent(inout), target :: buffer(..)
    integer(int64), intent(in) :: buffer_size
    integer, intent(out) :: err
    err = bridge_read(fd, varname, len(varname, c_size_t), buffer, buffer_size)
  end subroutine read_character

#each number
  subroutine attribute_@kind@(group_id, attrname, path, nelems, values, err)
    integer(int64), intent(in) :: group_id
    character(*), intent(in) :: attrname, path
    integer, intent(in) :: nelems
    @type@, intent(in), target :: values(..)
    integer, intent(out) :: err
    err = bridge_attribute(group_id, attrname, len(attrname, c_size_t), path, len(path, c_size_t), &
      @adios@, nelems, values)
  end subroutine attribute_@kind@

#end
  subroutine attribute_character(group_id, attrname, path, nelems, values, err)
    integer(int64), intent(in) :: group_id
    character(*), intent(in) :: attrname, path
    integer, intent(in) :: nelems
    character(*), intent(in) :: values
    integer, intent(out) :: err
    err = bridge_attribute_text(group_id, attrname, len(attrname, c_size_t), path, len(path, c_size_t), nelems, &
      values, len(values, c_size_t), 0)
  end subroutine attribute_character

  subroutine attribute_characters(group_id, attrname, path, nelems, values, err)
    integer(int64), intent(in) :: group_id
    character(*), intent(in) :: attrname, path
    integer, intent(in) :: nelems
    character(*), intent(in), contiguous :: values(:)
    integer, intent(out) :: err
    err = bridge_attribute_text(group_id, attrname, len(attrname, c_size_t), path, len(path, c_size_t), &
      min(nelems, size(values)), values, len(values, c_size_t), 1)
  end subroutine attribute_characters

  subroutine schema_version_err(group_id, schema_version, err)
    integer(int64), intent(in) :: group_id
    character(*), intent(in) :: schema_version
    integer, intent(out) :: err
    call adios_define_schema_version(group_id, schema_version)
    err = bridge_errno()
  end subroutine schema_version_err

  subroutine var_mesh_err(group_id, varname, meshname, err)
    integer(int64), intent(in) :: group_id
    character(*), intent(in) :: varname, meshname
    integer, intent(out) :: err
    call adios_define_var_mesh(group_id, varname, meshname)
    err = bridge_errno()
  end subroutine var_mesh_err

  subroutine var_centering_err(group_id, varname, centering, err)
    integer(int64), intent(in) :: group_id
    character(*), intent(in) :: varname, centering
    integer, intent(out) :: err
    call adios_define_var_centering(group_id, varname, centering)
    err = bridge_errno()
  end subroutine var_centering_err

  subroutine var_timesteps_err(timesteps, group_id, name, err)
    character(*), intent(in) :: timesteps
    integer(int64), intent(in) :: group_id
    character(*), intent(in) :: name
    integer, intent(out) :: err
    call adios_define_var_timesteps(timesteps, group_id, name)
    err = bridge_errno()
  end subroutine var_timesteps_err

  subroutine var_timescale_err(timescale, group_id, name, err)
    character(*), intent(in) :: timescale
    integer(int64), intent(in) :: group_id
    character(*), intent(in) :: name
    integer, intent(out) :: err
    call adios_define_var_timescale(timescale, group_id, name)
    err = bridge_errno()
  end subroutine var_timescale_err

  subroutine var_timeseriesformat_err(timeseries, group_id, name, err)
    character(*), intent(in) :: timeseries
    integer(int64), intent(in) :: group_id
    character(*), intent(in) :: name
    integer, intent(out) :: err
    call adios_define_var_timeseriesformat(timeseries, group_id, name)
    err = bridge_errno()
  end subroutine var_timeseriesformat_err

  subroutine var_hyperslab_err(hyperslab, group_id, name, err)
    character(*), intent(in) :: hyperslab
    integer(int64), intent(in) :: group_id
    character(*), intent(in) :: name
    integer, intent(out) :: err
    call adios_define_var_hyperslab(hyperslab, group_id, name)
    err = bridge_errno()
  end subroutine var_hyperslab_err

  subroutine mesh_file_err(group_id, name, file, err)
    integer(int64), intent(in) :: group_id
    character(*), intent(in) :: name, file
    integer, intent(out) :: err
    call adios_define_mesh_file(group_id, name, file)
    err = bridge_errno()
  end subroutine mesh_file_err

  subroutine mesh_group_err(group, group_id, name, err)
    character(*), intent(in) :: group
    integer(int64), intent(in) :: group_id
    character(*), intent(in) :: name
    integer, intent(out) :: err
    call adios_define_mesh_group(group, group_id, name)
    err = bridge_errno()
  end subroutine mesh_group_err

  subroutine mesh_timevarying_err(timevarying, group_id, name, err)
    character(*), intent(in) :: timevarying
    integer(int64), intent(in) :: group_id
    character(*), intent(in) :: name
    integer, intent(out) :: err
    call adios_define_mesh_timevarying(timevarying, group_id, name)
    err = bridge_errno()
  end subroutine mesh_timevarying_err

  subroutine mesh_timesteps_err(timesteps, group_id, name, err)
    character(*), intent(in) :: timesteps
    integer(int64), intent(in) :: group_id
    character(*), intent(in) :: name
    integer, intent(out) :: err
    call adios_define_mesh_timesteps(timesteps, group_id, name)
    err = bridge_errno()
  end subroutine mesh_timesteps_err

  subroutine mesh_timescale_err(timescale, group_id, name, err)
    character(*), intent(in) :: timescale
    integer(int64), intent(in) :: group_id
    character(*), intent(in) :: name
    integer, intent(out) :: err
    call adios_define_mesh_timescale(timescale, group_id, name)
    err = bridge_errno()
  end subroutine mesh_timescale_err

  subroutine mesh_timeseriesformat_err(timeseries, group_id, name, err)
    character(*), intent(in) :: timeseries
    integer(int64), intent(in) :: group_id
    character(*), intent(in) :: name
    integer, intent(out) :: err
    call adios_define_mesh_timeseriesformat(timeseries, group_id, name)
    err = bridge_errno()
  end subroutine mesh_timeseriesformat_err

  subroutine mesh_uniform_err(dimensions, origin, spacing, maximum, nspace, group_id, name, err)
    character(*), intent(in) :: dimensions, origin, spacing, maximum, nspace
    integer(int64), intent(in) :: group_id
    character(*), intent(in) :: name
    integer, intent(out) :: err
    call adios_define_mesh_uniform(dimensions, origin, spacing, maximum, nspace, group_id, name)
    err = bridge_errno()
  end subroutine mesh_uniform_err

  subroutine mesh_rectilinear_err(dimensions, coordinates, nspace, group_id, name, err)
    character(*), intent(in) :: dimensions, coordinates, nspace
    integer(int64), intent(in) :: group_id
    character(*), intent(in) :: name
    integer, intent(out) :: err
    call adios_define_mesh_rectilinear(dimensions, coordinates, nspace, group_id, name)
    err = bridge_errno()
  end subroutine mesh_rectilinear_err

  subroutine mesh_structured_err(dimensions, points, nspace, group_id, name, err)
    character(*), intent(in) :: dimensions, points, nspace
    integer(int64), intent(in) :: group_id
    character(*), intent(in) :: name
    integer, intent(out) :: err
    call adios_define_mesh_structured(dimensions, points, nspace, group_id, name)
    err = bridge_errno()
  end subroutine mesh_structured_err

  subroutine mesh_unstructured_err(points, data, count, cell_type, npoints, nspace, group_id, name, err)
    character(*), intent(in) :: points, data, count, cell_type, npoints, nspace
    integer(int64), intent(in) :: group_id
    character(*), intent(in) :: name
    integer, intent(out) :: err
    call adios_define_mesh_unstructured(points, data, count, cell_type, npoints, nspace, group_id, name)
    err = bridge_errno()
  end subroutine mesh_unstructured_err
end module adios_write_mod
