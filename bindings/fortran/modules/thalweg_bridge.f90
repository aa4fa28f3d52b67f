!> Interfaces of the functions in bridge/*.c that implement the generic names of the modules. An argument `type(*),
!> dimension(..)` accepts any array without a copy: C receives its descriptor.
module thalweg_bridge
  use, intrinsic :: iso_c_binding, only: c_associated, c_char, c_double, c_f_pointer, c_int, c_int64_t, c_null_char, c_ptr, c_size_t
  implicit none

  !> The first fields of thalweg_error.
  type, bind(c) :: last_error
    integer(c_int) :: status
    type(c_ptr) :: text
  end type last_error

  interface
    integer(c_int) function bridge_write(fd, name, length, id, data) bind(c, name='thalweg_bridge_write')
      import :: c_int, c_int64_t, c_size_t, c_char
      integer(c_int64_t), value :: fd
      character(kind=c_char), intent(in) :: name(*)
      integer(c_size_t), value :: length
      integer(c_int64_t), value :: id
      type(*), intent(in), target :: data(..)
    end function bridge_write

    integer(c_int) function bridge_write_byid(fd, id, data) bind(c, name='thalweg_bridge_write_byid')
      import :: c_int, c_int64_t
      integer(c_int64_t), value :: fd, id
      type(*), intent(in), target :: data(..)
    end function bridge_write_byid

    integer(c_int) function bridge_read(fd, name, length, buffer, buffer_size) bind(c, name='thalweg_bridge_read')
      import :: c_int, c_int64_t, c_size_t, c_char
      integer(c_int64_t), value :: fd
      character(kind=c_char), intent(in) :: name(*)
      integer(c_size_t), value :: length
      type(*), intent(inout), target :: buffer(..)
      integer(c_int64_t), value :: buffer_size
    end function bridge_read

    integer(c_int) function bridge_attribute(group, name, name_length, path, path_length, adios, count, values) &
      bind(c, name='thalweg_bridge_attribute')
      import :: c_int, c_int64_t, c_size_t, c_char
      integer(c_int64_t), value :: group
      character(kind=c_char), intent(in) :: name(*)
      integer(c_size_t), value :: name_length
      character(kind=c_char), intent(in) :: path(*)
      integer(c_size_t), value :: path_length
      integer(c_int), value :: adios, count
      type(*), intent(in), target :: values(..)
    end function bridge_attribute

    integer(c_int) function bridge_attribute_text(group, name, name_length, path, path_length, count, values, &
      value_length, is_array) bind(c, name='thalweg_bridge_attribute_text')
      import :: c_int, c_int64_t, c_size_t, c_char
      integer(c_int64_t), value :: group
      character(kind=c_char), intent(in) :: name(*)
      integer(c_size_t), value :: name_length
      character(kind=c_char), intent(in) :: path(*)
      integer(c_size_t), value :: path_length
      integer(c_int), value :: count
      character(kind=c_char), intent(in) :: values(*)
      integer(c_size_t), value :: value_length
      integer(c_int), value :: is_array
    end function bridge_attribute_text

    integer(c_int) function bridge_errno() bind(c, name='thalweg_bridge_errno')
      import :: c_int
    end function bridge_errno

    integer(c_int) function bridge_schedule(fp, sel, name, length, from, nsteps, is_character, data) &
      bind(c, name='thalweg_bridge_schedule')
      import :: c_int, c_int64_t, c_size_t, c_char
      integer(c_int64_t), value :: fp, sel
      character(kind=c_char), intent(in) :: name(*)
      integer(c_size_t), value :: length
      integer(c_int), value :: from, nsteps, is_character
      type(*), intent(inout), target :: data(..)
    end function bridge_schedule

    integer(c_int) function bridge_scalar(fp, name, length, adios, data) bind(c, name='thalweg_bridge_scalar')
      import :: c_int, c_int64_t, c_size_t, c_char
      integer(c_int64_t), value :: fp
      character(kind=c_char), intent(in) :: name(*)
      integer(c_size_t), value :: length
      integer(c_int), value :: adios
      type(*), intent(inout), target :: data(..)
    end function bridge_scalar

    integer(c_int) function bridge_scalar_text(fp, name, length, data, data_length) &
      bind(c, name='thalweg_bridge_scalar_text')
      import :: c_int, c_int64_t, c_size_t, c_char
      integer(c_int64_t), value :: fp
      character(kind=c_char), intent(in) :: name(*)
      integer(c_size_t), value :: length
      character(kind=c_char), intent(inout) :: data(*)
      integer(c_size_t), value :: data_length
    end function bridge_scalar_text

    integer(c_int) function bridge_get_attr(fp, name, length, adios, data) bind(c, name='thalweg_bridge_get_attr')
      import :: c_int, c_int64_t, c_size_t, c_char
      integer(c_int64_t), value :: fp
      character(kind=c_char), intent(in) :: name(*)
      integer(c_size_t), value :: length
      integer(c_int), value :: adios
      type(*), intent(inout), target :: data(..)
    end function bridge_get_attr

    integer(c_int) function bridge_get_attr_text(fp, name, length, data, data_length, elements) &
      bind(c, name='thalweg_bridge_get_attr_text')
      import :: c_int, c_int64_t, c_size_t, c_char
      integer(c_int64_t), value :: fp
      character(kind=c_char), intent(in) :: name(*)
      integer(c_size_t), value :: length
      character(kind=c_char), intent(inout) :: data(*)
      integer(c_size_t), value :: data_length
      integer(c_int), value :: elements
    end function bridge_get_attr_text

    integer(c_int) function bridge_statistics(fp, name, length, adios, size, value, gmin, gmax, gavg, gstd_dev, mins, &
      maxs, avgs, std_devs) bind(c, name='thalweg_bridge_statistics')
      import :: c_int, c_int64_t, c_size_t, c_char, c_double
      integer(c_int64_t), value :: fp
      character(kind=c_char), intent(in) :: name(*)
      integer(c_size_t), value :: length
      integer(c_int), value :: adios, size
      type(*), intent(inout) :: value, gmin, gmax
      real(c_double), intent(inout) :: gavg, gstd_dev
      type(*), intent(inout) :: mins(*), maxs(*)
      real(c_double), intent(inout) :: avgs(*), std_devs(*)
    end function bridge_statistics

    integer(c_int) function bridge_query_read(fp, query, name, length, timestep, result, box, data) &
      bind(c, name='thalweg_bridge_query_read')
      import :: c_int, c_int64_t, c_size_t, c_char
      integer(c_int64_t), value :: fp, query
      character(kind=c_char), intent(in) :: name(*)
      integer(c_size_t), value :: length
      integer(c_int), value :: timestep
      integer(c_int64_t), value :: result, box
      type(*), intent(inout), target :: data(..)
    end function bridge_query_read

    type(c_ptr) function c_last_error() bind(c, name='thalweg_last_error')
      import :: c_ptr
    end function c_last_error
  end interface

contains

  !> The text of the last failure of a call of thalweg.h.
  subroutine bridge_last_error(text)
    character(len=*), intent(out) :: text
    type(last_error), pointer :: e
    character(kind=c_char), pointer :: letters(:)
    integer :: i
    text = ''
    call c_f_pointer(c_last_error(), e)
    if (.not. c_associated(e%text)) return
    call c_f_pointer(e%text, letters, [len(text)])
    do i = 1, len(text)
      if (letters(i) == c_null_char) exit
      text(i:i) = letters(i)
    end do
  end subroutine bridge_last_error
end module thalweg_bridge
