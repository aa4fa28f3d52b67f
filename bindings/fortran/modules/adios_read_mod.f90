!> Reading: the procedures of adios_read.h and adios_selection.h. `err` is 0 or one of the constants err_* of
!> adios_defs_mod; adios_errmsg then returns the message.
!>
!> Dimensions, boxes and points have the fastest dimension first and count from 0, whatever language wrote the file.
!> Trailing blanks of a character argument are ignored; texts that are read are padded with blanks.
module adios_read_mod
  use, intrinsic :: iso_fortran_env, only: int8, int16, int32, int64, real32, real64
  use, intrinsic :: iso_c_binding, only: c_size_t
  use adios_defs_mod
  use thalweg_bridge, only: bridge_schedule, bridge_scalar, bridge_scalar_text, bridge_get_attr, bridge_get_attr_text, &
    bridge_statistics
#if f08
  use mpi_f08, only: MPI_Comm
#end
  implicit none
  private :: int8, int16, int32, int64, real32, real64, c_size_t
#if f08
  private :: MPI_Comm, needs_@mpi@_read_init_f08, needs_@mpi@_read_open_f08
  private :: needs_@mpi@_read_open_stream_f08, needs_@mpi@_read_open_file_f08
#end
  private :: bridge_schedule, bridge_scalar, bridge_scalar_text, bridge_get_attr, bridge_get_attr_text, bridge_statistics
#each
  private :: schedule_@kind@, scalar_@kind@, attr_@kind@
#end
#each number
  private :: statistics_@kind@
#end
  private :: schedule_character, scalar_character, attr_character, attr_characters

  private :: thalweg_needs_@mpi@_adios_read_init_method, thalweg_needs_@mpi@_adios_read_open
  private :: thalweg_needs_@mpi@_adios_read_open_stream, thalweg_needs_@mpi@_adios_read_open_file

  ! The linker names of procedures that take a communicator contain the MPI: see bridge/bridge.h.

  ! Open. `comm` is an integer (`use mpi`, mpif.h) or a type(MPI_Comm) (`use mpi_f08`).

  interface adios_read_init_method
    !> Optional. `parameters`: "key=value;key=value".
    subroutine thalweg_needs_@mpi@_adios_read_init_method(method, comm, parameters, err)
      integer, intent(in) :: method, comm
      character(*), intent(in) :: parameters
      integer, intent(out) :: err
    end subroutine thalweg_needs_@mpi@_adios_read_init_method
#if f08
    module procedure needs_@mpi@_read_init_f08
#end
  end interface adios_read_init_method

  interface adios_read_open
    !> Collective: opens a stream at its first step, waiting up to `timeout_sec` seconds for it; negative: for ever,
    !> unless the writer dies.
    subroutine thalweg_needs_@mpi@_adios_read_open(fp, fname, method, comm, lockmode, timeout_sec, err)
      import :: int64, real32
      integer(int64), intent(out) :: fp
      character(*), intent(in) :: fname
      integer, intent(in) :: method, comm, lockmode
      real(real32), intent(in) :: timeout_sec
      integer, intent(out) :: err
    end subroutine thalweg_needs_@mpi@_adios_read_open
#if f08
    module procedure needs_@mpi@_read_open_f08
#end
  end interface adios_read_open

  interface adios_read_open_stream
    subroutine thalweg_needs_@mpi@_adios_read_open_stream(fp, fname, method, comm, lockmode, timeout_sec, err)
      import :: int64, real32
      integer(int64), intent(out) :: fp
      character(*), intent(in) :: fname
      integer, intent(in) :: method, comm, lockmode
      real(real32), intent(in) :: timeout_sec
      integer, intent(out) :: err
    end subroutine thalweg_needs_@mpi@_adios_read_open_stream
#if f08
    module procedure needs_@mpi@_read_open_stream_f08
#end
  end interface adios_read_open_stream

  interface adios_read_open_file
    !> Collective: opens a file with all of its current steps.
    subroutine thalweg_needs_@mpi@_adios_read_open_file(fp, fname, method, comm, err)
      import :: int64
      integer(int64), intent(out) :: fp
      character(*), intent(in) :: fname
      integer, intent(in) :: method, comm
      integer, intent(out) :: err
    end subroutine thalweg_needs_@mpi@_adios_read_open_file
#if f08
    module procedure needs_@mpi@_read_open_file_f08
#end
  end interface adios_read_open_file

  interface
    subroutine adios_read_finalize_method(method, err)
      integer, intent(in) :: method
      integer, intent(out) :: err
    end subroutine adios_read_finalize_method

    !> Collective. Discards scheduled reads.
    subroutine adios_read_close(fp, err)
      import :: int64
      integer(int64), intent(in) :: fp
      integer, intent(out) :: err
    end subroutine adios_read_close

    !> Collective: advances to the next step of a stream, or to the newest (`last` not 0), waiting up to `timeout_sec`
    !> seconds. err_end_of_stream: no further step; err_step_notready: no new step yet.
    subroutine adios_advance_step(fp, last, timeout_sec, err)
      import :: int64, real32
      integer(int64), intent(in) :: fp
      integer, intent(in) :: last
      real(real32), intent(in) :: timeout_sec
      integer, intent(out) :: err
    end subroutine adios_advance_step

    subroutine adios_release_step(fp, err)
      import :: int64
      integer(int64), intent(in) :: fp
      integer, intent(out) :: err
    end subroutine adios_release_step

    !> Overrides the file's order of dimensions: 1 as in Fortran, 0 as in C.
    subroutine adios_reset_dimension_order(fp, flag)
      import :: int64
      integer(int64), intent(in) :: fp
      integer, intent(in) :: flag
    end subroutine adios_reset_dimension_order

    ! Inquiries

    subroutine adios_inq_file(fp, vars_count, attrs_count, current_step, last_step, err)
      import :: int64
      integer(int64), intent(in) :: fp
      integer, intent(out) :: vars_count, attrs_count, current_step, last_step, err
    end subroutine adios_inq_file

    subroutine adios_inq_varnames(fp, vnamelist, err)
      import :: int64
      integer(int64), intent(in) :: fp
      character(*), intent(inout) :: vnamelist(*)
      integer, intent(out) :: err
    end subroutine adios_inq_varnames

    subroutine adios_inq_attrnames(fp, anamelist, err)
      import :: int64
      integer(int64), intent(in) :: fp
      character(*), intent(inout) :: anamelist(*)
      integer, intent(out) :: err
    end subroutine adios_inq_attrnames

    subroutine adios_inq_ngroups(fp, groups_count, err)
      import :: int64
      integer(int64), intent(in) :: fp
      integer, intent(out) :: groups_count, err
    end subroutine adios_inq_ngroups

    subroutine adios_inq_groupnames(fp, gnamelist, err)
      import :: int64
      integer(int64), intent(in) :: fp
      character(*), intent(inout) :: gnamelist(*)
      integer, intent(out) :: err
    end subroutine adios_inq_groupnames

    !> Restricts the file to the variables and attributes of one group, counted from 0; -1: all groups.
    subroutine adios_group_view(fp, groupid, err)
      import :: int64
      integer(int64), intent(in) :: fp
      integer, intent(in) :: groupid
      integer, intent(out) :: err
    end subroutine adios_group_view

    !> `dims` needs room for `ndim` numbers; 16 are always enough.
    subroutine adios_inq_var(fp, varname, vartype, nsteps, ndim, dims, err)
      import :: int64
      integer(int64), intent(in) :: fp
      character(*), intent(in) :: varname
      integer, intent(out) :: vartype, nsteps, ndim
      integer(int64), intent(inout) :: dims(*)
      integer, intent(out) :: err
    end subroutine adios_inq_var

    !> `attrsize` in bytes.
    subroutine adios_inq_attr(fp, attrname, attrtype, attrsize, err)
      import :: int64
      integer(int64), intent(in) :: fp
      character(*), intent(in) :: attrname
      integer, intent(out) :: attrtype, attrsize, err
    end subroutine adios_inq_attr

    ! Selections: 0 means the whole variable

    subroutine adios_selection_boundingbox(sel, ndim, start, count)
      import :: int64
      integer(int64), intent(out) :: sel
      integer, intent(in) :: ndim
      integer(int64), intent(in) :: start(*), count(*)
    end subroutine adios_selection_boundingbox

    !> Every `stride`-th element of a box of a global array along each dimension. Not in ADIOS 1.x.
    subroutine thalweg_adios_selection_strided(sel, ndim, start, count, stride)
      import :: int64
      integer(int64), intent(out) :: sel
      integer, intent(in) :: ndim
      integer(int64), intent(in) :: start(*), count(*), stride(*)
    end subroutine thalweg_adios_selection_strided

    !> `points`: the coordinates of each point, one point after the other; copied.
    subroutine adios_selection_points(sel, ndim, npoints, points)
      import :: int64
      integer(int64), intent(out) :: sel
      integer, intent(in) :: ndim
      integer(int64), intent(in) :: npoints, points(*)
    end subroutine adios_selection_points

    subroutine adios_selection_writeblock(sel, index)
      import :: int64
      integer(int64), intent(out) :: sel
      integer, intent(in) :: index
    end subroutine adios_selection_writeblock

    subroutine adios_selection_auto(sel, hints)
      import :: int64
      integer(int64), intent(out) :: sel
      character(*), intent(in) :: hints
    end subroutine adios_selection_auto

    subroutine adios_selection_delete(sel)
      import :: int64
      integer(int64), intent(in) :: sel
    end subroutine adios_selection_delete

    subroutine adios_selection_get_type(sel, seltype)
      import :: int64
      integer(int64), intent(in) :: sel
      integer, intent(out) :: seltype
    end subroutine adios_selection_get_type

    subroutine adios_selection_get_ndim(sel, ndim)
      import :: int64
      integer(int64), intent(in) :: sel
      integer, intent(out) :: ndim
    end subroutine adios_selection_get_ndim

    subroutine adios_selection_get_boundingbox(sel, start, count)
      import :: int64
      integer(int64), intent(in) :: sel
      integer(int64), intent(inout) :: start(*), count(*)
    end subroutine adios_selection_get_boundingbox

    subroutine adios_selection_get_npoints(sel, npoints)
      import :: int64
      integer(int64), intent(in) :: sel
      integer(int64), intent(out) :: npoints
    end subroutine adios_selection_get_npoints

    !> `npoints` points from point `from_index`, counted from 0.
    subroutine adios_selection_get_points(sel, points, from_index, npoints)
      import :: int64
      integer(int64), intent(in) :: sel
      integer(int64), intent(inout) :: points(*)
      integer(int64), intent(in) :: from_index, npoints
    end subroutine adios_selection_get_points

    subroutine adios_selection_get_index(sel, index)
      import :: int64
      integer(int64), intent(in) :: sel
      integer, intent(out) :: index
    end subroutine adios_selection_get_index

    subroutine adios_selection_get_hints(sel, hints)
      import :: int64
      integer(int64), intent(in) :: sel
      character(*), intent(inout) :: hints
    end subroutine adios_selection_get_hints

    ! Reading

    !> Carries out all scheduled reads.
    subroutine adios_perform_reads(fp, err)
      import :: int64
      integer(int64), intent(in) :: fp
      integer, intent(out) :: err
    end subroutine adios_perform_reads
  end interface

  !> Schedules a read of `nsteps` of the variable's own steps from `from_step` (counted from 0) on: of each step the
  !> part `sel`, contiguous in `data`. `data` may be a section with gaps; it needs the attribute `asynchronous` or
  !> `target` if adios_perform_reads is called in the same procedure. It must not be a temporary value.
  interface adios_schedule_read ! (fp, sel, varname, from_step, nsteps, data, err)
#each
    module procedure schedule_@kind@
#end
    module procedure schedule_character
  end interface adios_schedule_read

  !> A single value, converted to the kind of `data` if the kind can represent it.
  interface adios_get_scalar ! (fp, varname, data, err)
#each
    module procedure scalar_@kind@
#end
    module procedure scalar_character
  end interface adios_get_scalar

  !> All values of an attribute, converted to the kind of `attr`.
  interface adios_get_attr ! (fp, attrname, attr, err)
#each
    module procedure attr_@kind@
#end
    module procedure attr_character, attr_characters
  end interface adios_get_attr

  !> The value of a scalar; minimum, maximum, average and standard deviation over all steps and of each step (NaN if
  !> not recorded).
  interface adios_get_statistics ! (fp, varname, value, gmin, gmax, gavg, gstd_dev, mins, maxs, avgs, std_devs, err)
#each number
    module procedure statistics_@kind@
#end
  end interface adios_get_statistics

contains

#if f08
  subroutine needs_@mpi@_read_init_f08(method, comm, parameters, err)
    integer, intent(in) :: method
    type(MPI_Comm), intent(in) :: comm
    character(*), intent(in) :: parameters
    integer, intent(out) :: err
    call adios_read_init_method(method, comm%MPI_VAL, parameters, err)
  end subroutine needs_@mpi@_read_init_f08

  subroutine needs_@mpi@_read_open_f08(fp, fname, method, comm, lockmode, timeout_sec, err)
    integer(int64), intent(out) :: fp
    character(*), intent(in) :: fname
    integer, intent(in) :: method
    type(MPI_Comm), intent(in) :: comm
    integer, intent(in) :: lockmode
    real(real32), intent(in) :: timeout_sec
    integer, intent(out) :: err
    call adios_read_open(fp, fname, method, comm%MPI_VAL, lockmode, timeout_sec, err)
  end subroutine needs_@mpi@_read_open_f08

  subroutine needs_@mpi@_read_open_stream_f08(fp, fname, method, comm, lockmode, timeout_sec, err)
    integer(int64), intent(out) :: fp
    character(*), intent(in) :: fname
    integer, intent(in) :: method
    type(MPI_Comm), intent(in) :: comm
    integer, intent(in) :: lockmode
    real(real32), intent(in) :: timeout_sec
    integer, intent(out) :: err
    call adios_read_open_stream(fp, fname, method, comm%MPI_VAL, lockmode, timeout_sec, err)
  end subroutine needs_@mpi@_read_open_stream_f08

  subroutine needs_@mpi@_read_open_file_f08(fp, fname, method, comm, err)
    integer(int64), intent(out) :: fp
    character(*), intent(in) :: fname
    integer, intent(in) :: method
    type(MPI_Comm), intent(in) :: comm
    integer, intent(out) :: err
    call adios_read_open_file(fp, fname, method, comm%MPI_VAL, err)
  end subroutine needs_@mpi@_read_open_file_f08

#end
  ! `target`: the library keeps the address until adios_perform_reads.
#each
  subroutine schedule_@kind@(fp, sel, varname, from_step, nsteps, data, err)
    integer(int64), intent(in) :: fp, sel
    character(*), intent(in) :: varname
    integer, intent(in) :: from_step, nsteps
    @type@, intent(inout), target :: data(..)
    integer, intent(out) :: err
    err = bridge_schedule(fp, sel, varname, len(varname, c_size_t), from_step, nsteps, 0, data)
  end subroutine schedule_@kind@

  subroutine scalar_@kind@(fp, varname, data, err)
    integer(int64), intent(in) :: fp
    character(*), intent(in) :: varname
    @type@, intent(inout), target :: data
    integer, intent(out) :: err
    err = bridge_scalar(fp, varname, len(varname, c_size_t), @adios@, data)
  end subroutine scalar_@kind@

  subroutine attr_@kind@(fp, attrname, attr, err)
    integer(int64), intent(in) :: fp
    character(*), intent(in) :: attrname
    @type@, intent(inout), target :: attr(..)
    integer, intent(out) :: err
    err = bridge_get_attr(fp, attrname, len(attrname, c_size_t), @adios@, attr)
  end subroutine attr_@kind@

#end
#each number
  subroutine statistics_@kind@(fp, varname, value, gmin, gmax, gavg, gstd_dev, mins, maxs, avgs, std_devs, err)
    integer(int64), intent(in) :: fp
    character(*), intent(in) :: varname
    @type@, intent(inout) :: value, gmin, gmax
    real(real64), intent(inout) :: gavg, gstd_dev
    @type@, intent(inout) :: mins(*), maxs(*)
    real(real64), intent(inout) :: avgs(*), std_devs(*)
    integer, intent(out) :: err
    err = bridge_statistics(fp, varname, len(varname, c_size_t), @adios@, storage_size(value) / 8, value, gmin, gmax, &
      gavg, gstd_dev, mins, maxs, avgs, std_devs)
  end subroutine statistics_@kind@

#end
  subroutine schedule_character(fp, sel, varname, from_step, nsteps, data, err)
    integer(int64), intent(in) :: fp, sel
    character(*), intent(in) :: varname
    integer, intent(in) :: from_step, nsteps
    character(*), intent(inout), target :: data(..)
    integer, intent(out) :: err
    err = bridge_schedule(fp, sel, varname, len(varname, c_size_t), from_step, nsteps, 1, data)
  end subroutine schedule_character

  subroutine scalar_character(fp, varname, data, err)
    integer(int64), intent(in) :: fp
    character(*), intent(in) :: varname
    character(*), intent(inout) :: data
    integer, intent(out) :: err
    err = bridge_scalar_text(fp, varname, len(varname, c_size_t), data, len(data, c_size_t))
  end subroutine scalar_character

  subroutine attr_character(fp, attrname, attr, err)
    integer(int64), intent(in) :: fp
    character(*), intent(in) :: attrname
    character(*), intent(inout) :: attr
    integer, intent(out) :: err
    err = bridge_get_attr_text(fp, attrname, len(attrname, c_size_t), attr, len(attr, c_size_t), 1)
  end subroutine attr_character

  subroutine attr_characters(fp, attrname, attr, err)
    integer(int64), intent(in) :: fp
    character(*), intent(in) :: attrname
    character(*), intent(inout), contiguous :: attr(:)
    integer, intent(out) :: err
    err = bridge_get_attr_text(fp, attrname, len(attrname, c_size_t), attr, len(attr, c_size_t), size(attr))
  end subroutine attr_characters
end module adios_read_mod
