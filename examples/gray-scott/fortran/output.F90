!> Output of the simulation: group "fields" for analysis, group "restart" for restarts. gray-scott.xml selects the
!> method and the number of files; `thalweg gen` creates from it the calls that are included here.
!>
!> Fields are written and read as sections of arrays with ghost cells.
module output
  use, intrinsic :: iso_fortran_env, only: error_unit, int64, real64
  use mpi_f08
  use adios_write_mod
  use solver
  implicit none
  private
  public :: output_fields, output_restart, restart_read, output_check

contains

  !> Adds a step to `path`, or creates a new file with mode "w". Collective.
  subroutine output_fields(s, step, path, mode)
    type(solver_type), intent(in) :: s
    integer, intent(in) :: step
    character(*), intent(in) :: path, mode
    integer(int64) :: adios_handle, adios_groupsize, adios_totalsize
    integer :: adios_err
    real(real64) :: time
    time = step * s%set%dt
    call adios_open(adios_handle, "fields", path, mode, s%comm, adios_err)
    call output_check(s, adios_err, "opening", path)
#include "gwrite_fields.fh"
    call output_check(s, adios_err, "writing", path)
    call adios_close(adios_handle, adios_err)
    call output_check(s, adios_err, "closing", path)
  end subroutine output_fields

  subroutine output_restart(s, step, path, mode)
    type(solver_type), intent(in) :: s
    integer, intent(in) :: step
    character(*), intent(in) :: path, mode
    integer(int64) :: adios_handle, adios_groupsize, adios_totalsize
    integer :: adios_err
    call adios_open(adios_handle, "restart", path, mode, s%comm, adios_err)
    call output_check(s, adios_err, "opening", path)
#include "gwrite_restart.fh"
    call output_check(s, adios_err, "writing", path)
    call adios_close(adios_handle, adios_err)
    call output_check(s, adios_err, "closing", path)
  end subroutine output_restart

  !> Fills u and v from the last step of `path`, written by any number of ranks and in any language, and returns its step.
  !> Collective; ends the program if the file cannot be read or the cube has another size.
  integer function restart_read(s, path) result(step)
    type(solver_type), intent(inout) :: s
    character(*), intent(in) :: path
    integer(int64) :: adios_handle, adios_groupsize, adios_totalsize, adios_buf_size
    integer :: adios_err, written_size
    ! First the size of the cube: a box of another cube would be read without an error.
    call adios_open(adios_handle, "restart", path, "r", s%comm, adios_err)
    call output_check(s, adios_err, "opening", path)
    call adios_read(adios_handle, "L", written_size, 4_int64, adios_err)
    call output_check(s, adios_err, "reading L of", path)
    call adios_close(adios_handle, adios_err)
    if (written_size /= s%set%size) then
      if (s%rank == 0) write (error_unit, '(3a, i0, a, i0)') "gray-scott: ", trim(path), " holds a cube of ", written_size, &
        " cells along an edge, this run has ", s%set%size
      call MPI_Abort(s%comm, 1)
    end if
    call adios_open(adios_handle, "restart", path, "r", s%comm, adios_err)
    call output_check(s, adios_err, "opening", path)
#include "gread_restart.fh"
    call output_check(s, adios_err, "asking for u and v of", path)
    call adios_close(adios_handle, adios_err)
    call output_check(s, adios_err, "reading", path)
  end function restart_read

  !> Ends the program with the I/O library's message if `err` is not 0.
  subroutine output_check(s, err, doing, path)
    type(solver_type), intent(in) :: s
    integer, intent(in) :: err
    character(*), intent(in) :: doing, path
    character(1000) :: message
    if (err == 0) return
    call adios_errmsg(message)
    write (error_unit, '(a, i0, 7a)') "gray-scott: rank ", s%rank, ", ", doing, " ", trim(path), ": ", trim(message)
    call MPI_Abort(s%comm, 1)
  end subroutine output_check
end module output
