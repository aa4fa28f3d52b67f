!> What a run writes, and how often, changed while it runs by `thalweg control`: see docs/guide/steering.md. For outputs of adios_open.
!> `err` is 0 or a status of thalweg.h; `steering_error` gives its text.
module thalweg_steering_mod
  use, intrinsic :: iso_c_binding, only: c_char, c_int, c_int64_t, c_loc, c_null_char, c_null_ptr, c_ptr
  use thalweg_bridge, only: bridge_last_error
  implicit none
  private
  public :: output_wanted, array_wanted, stop_requested, steering_error

  interface
    integer(c_int) function c_wanted(group, path, step, variable, wanted) bind(c, name='thalweg_adios_wanted')
      import :: c_char, c_int, c_int64_t, c_ptr
      character(kind=c_char), intent(in) :: group(*), path(*)
      integer(c_int64_t), value :: step
      type(c_ptr), value :: variable
      integer(c_int), intent(out) :: wanted
    end function c_wanted

    integer(c_int) function c_stop_requested(requested) bind(c, name='thalweg_adios_stop_requested')
      import :: c_int
      integer(c_int), intent(out) :: requested
    end function c_stop_requested
  end interface

contains

  !> Whether an output is wanted that the program is about to open. `step`: the program's number of the output, which grows from output to
  !> output. No message, but all ranks ask alike and get the same answer.
  subroutine output_wanted(group, path, step, wanted, err)
    character(len=*), intent(in) :: group, path
    integer(c_int64_t), intent(in) :: step
    logical, intent(out) :: wanted
    integer, intent(out) :: err
    integer(c_int) :: answer
    answer = 1
    err = c_wanted(trim(group) // c_null_char, trim(path) // c_null_char, step, c_null_ptr, answer)
    wanted = answer /= 0
  end subroutine output_wanted

  !> Whether the next output writes an array.
  subroutine array_wanted(group, path, name, wanted, err)
    character(len=*), intent(in) :: group, path, name
    logical, intent(out) :: wanted
    integer, intent(out) :: err
    character(kind=c_char), target :: text(len_trim(name) + 1)
    integer(c_int) :: answer
    integer :: i
    do i = 1, len_trim(name)
      text(i) = name(i:i)
    end do
    text(len_trim(name) + 1) = c_null_char
    answer = 1
    err = c_wanted(trim(group) // c_null_char, trim(path) // c_null_char, 0_c_int64_t, c_loc(text), answer)
    wanted = answer /= 0
  end subroutine array_wanted

  !> Whether someone has asked that the program stops; the same on all ranks after the same output.
  subroutine stop_requested(requested, err)
    logical, intent(out) :: requested
    integer, intent(out) :: err
    integer(c_int) :: answer
    answer = 0
    err = c_stop_requested(answer)
    requested = answer /= 0
  end subroutine stop_requested

  !> The text of the last failure.
  subroutine steering_error(text)
    character(len=*), intent(out) :: text
    call bridge_last_error(text)
  end subroutine steering_error
end module thalweg_steering_mod
