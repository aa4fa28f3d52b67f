!> The functions of bridge/*.c behind the generic names of the modules. An argument `type(*), dimension(..)` takes any array,
!> without a copy: C gets its descriptor.
module thalweg_bridge
  use, intrinsic :: iso_c_binding, only: c_char, c_int, c_int64_t, c_size_t
  implicit none

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
  end interface
end module thalweg_bridge
