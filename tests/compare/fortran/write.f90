! Writes cases into files; compiled against ADIOS 1.13 and against Thalweg, unchanged. Arguments: case, file.
program write
  use mpi
  use adios_write_mod
  implicit none
  integer, parameter :: steps = 3
  integer(8) :: group, other, id, fd, total
  integer :: err, rank, ranks, step, i, j, n
  integer(4) :: nx, offset
  character(20) :: case, path, word
  integer(1) :: i1(4)
  integer(2) :: i2(2, 2)
  integer(4) :: i4(4, 3)
  integer(8) :: i8(2, 3, 2)
  real(4) :: r4(3, 2)
  real(8) :: r8(4, 3)
  real(8), allocatable :: local(:)
  complex(4) :: c4(2)
  complex(8) :: c8(2, 2)
  character(6) :: letters

  call MPI_Init(err)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, err)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, err)
  call get_command_argument(1, case)
  call get_command_argument(2, path)
  call adios_init_noxml(MPI_COMM_WORLD, err)
  call must(err, "beginning")
  call adios_set_max_buffer_size(10)
  call adios_declare_group(group, "things", "", adios_stat_default, err)
  call must(err, "declaring a group")
  call adios_select_method(group, "MPI", "", "", err)
  call must(err, "selecting a method")
  nx = 4 * ranks
  offset = 4 * rank

  select case (case)
  case ("kinds")
    call adios_define_var(group, "nx", "", adios_integer, "", "", "", id)
    call adios_define_var(group, "offset", "", adios_integer, "", "", "", id)
    call adios_define_var(group, "int1", "", adios_byte, "4", "nx", "offset", id)
    call adios_define_var(group, "int2", "path/to", adios_short, "2,2", "", "", id)
    call adios_define_var(group, "int4", "", adios_integer, "4,3", "nx,3", "offset,0", id)
    call adios_define_var(group, "int8", "", adios_long, "2,3,2", "", "", id)
    call adios_define_var(group, "real4", "/path", adios_real, "3,2", "", "", id)
    call adios_define_var(group, "real8", "", adios_double, "4,3", "nx,3", "offset,0", id)
    call adios_define_var(group, "letters", "", adios_byte, "6", "", "", id)
    call adios_define_var(group, "scalar", "", adios_double, "", "", "", id)
  case ("complex")
    call adios_define_var(group, "complex", "", adios_complex, "2", "", "", id)
    call adios_define_var(group, "pairs", "", adios_double_complex, "2,2", "", "", id)
    call adios_define_var(group, "pair", "", adios_double_complex, "", "", "", id)
  case ("texts")
    call adios_define_var(group, "word", "", adios_string, "", "", "", id)
    call adios_define_var(group, "fixed", "in/a/path", adios_string, "", "", "", id)
    call adios_define_attribute(group, "words  ", "", adios_string, "three of them   ", "", err)
    call adios_define_attribute(group, "number", "word", adios_integer, "42", "", err)
    call adios_define_attribute(group, "real", "/word", adios_double, "2.5", "", err)
    call adios_define_attribute_byvalue(group, "single", "", 1, 1.5, err)
    call adios_define_attribute_byvalue(group, "several", "", 3, [4, 5, 6], err)
    call adios_define_attribute_byvalue(group, "one text", "", 1, "by value  ", err)
    call adios_define_attribute_byvalue(group, "texts", "", 2, ["first    ", "second ab"], err)
    call must(err, "defining attributes")
  case ("local")
    call adios_define_var(group, "n", "", adios_integer, "", "", "", id)
    call adios_define_var(group, "local", "", adios_double, "n", "", "", id)
  case ("empty")
    ! Each second rank has no element.
    call adios_define_var(group, "n", "", adios_integer, "", "", "", id)
    call adios_define_var(group, "total", "", adios_integer, "", "", "", id)
    call adios_define_var(group, "first", "", adios_integer, "", "", "", id)
    call adios_define_var(group, "array", "", adios_double, "2,n", "2,total", "0,first", id)
    call adios_define_var(group, "flat", "", adios_double, "n", "total", "first", id)
  case ("groups")
    call adios_define_var(group, "a", "", adios_double, "", "", "", id)
    call adios_declare_group(other, "others", "", adios_stat_default, err)
    call adios_select_method(other, "MPI", "", "", err)
    call adios_define_var(other, "b", "", adios_integer, "", "", "", id)
  end select

  do step = 0, steps - 1
    do i = 1, 4
      i1(i) = int(i + 10 * step + offset, 1)
      do j = 1, 3
        i4(i, j) = i + offset + 100 * j + 1000 * step
        r8(i, j) = i4(i, j) + 0.5d0
      end do
    end do
    i2 = reshape([1_2, 2_2, 3_2, 4_2], [2, 2]) + int(step, 2)
    i8 = reshape([(int(i, 8) * 10000000000_8, i = 1, 12)], [2, 3, 2])
    r4 = reshape([(0.25 * i + step, i = 1, 6)], [3, 2])
    c4 = [(1.0, 2.0), (3.0, 4.0)]
    c8 = reshape([(1d0, -1d0), (2d0, -2d0), (3d0, -3d0), (4d0, -4d0)], [2, 2])
    call open_("things", group)
    select case (case)
    case ("kinds")
      call adios_write(fd, "nx", nx, err)
      call adios_write(fd, "offset", offset, err)
      call adios_write(fd, "int1", i1, err)
      call adios_write(fd, "path/to/int2", i2, err)
      call adios_write(fd, "int4", i4, err)
      call adios_write(fd, "int8", i8, err)
      call adios_write(fd, "/path/real4", r4, err)
      call adios_write(fd, "real8", r8, err)
      letters = "ab  "
      call adios_write(fd, "letters", letters, err)
      call adios_write(fd, "scalar", r8(2, 2), err)
    case ("complex")
      call adios_write(fd, "complex", c4, err)
      call adios_write(fd, "pairs", c8, err)
      call adios_write(fd, "pair", c8(1, 2), err)
    case ("texts")
      write (word, '("  step ", i0)') step
      call adios_write(fd, "word", word, err)
      call must(err, "writing a word")
      call adios_write(fd, "in/a/path/fixed", "a constant  ", err)
    case ("local")
      n = mod(rank, 2) * 3 + 2
      local = [(1000d0 * rank + i, i = 1, n)]
      call adios_write(fd, "n", n, err)
      call adios_write(fd, "local", local, err)
    case ("empty")
      n = merge(0, 3, mod(rank, 2) == 1)
      local = [(1000d0 * rank + 10 * step + i, i = 1, n)]
      call adios_write(fd, "n", n, err)
      call adios_write(fd, "total", 3 * ((ranks + 1) / 2), err)
      call adios_write(fd, "first", 3 * ((rank + 1) / 2), err)
      call adios_write(fd, "array", reshape([local, local], [2, n]), err)
      call adios_write(fd, "flat", local, err)
    case ("groups")
      call adios_write(fd, "a", step + 0.25d0, err)
    end select
    call must(err, "writing")
    call adios_close(fd, err)
    call must(err, "closing")
  end do
  if (case == "groups") then
    call open_("others", other)
    call adios_write(fd, "b", 77, err)
    call adios_close(fd, err)
    call must(err, "closing the other group")
  end if
  call adios_finalize(rank, err)
  call must(err, "finishing")
  call MPI_Finalize(err)

contains

  subroutine open_(name, id)
    character(*), intent(in) :: name
    integer(8), intent(in) :: id
    if (id == group .and. step == 0) then
      call adios_open(fd, name, path, "w", MPI_COMM_WORLD, err)
    else
      call adios_open(fd, name, path, "a", MPI_COMM_WORLD, err)
    end if
    call must(err, "opening")
    call adios_group_size(fd, 10000_8, total, err)
    call must(err, "saying the size")
  end subroutine open_

  subroutine must(err, doing)
    integer, intent(in) :: err
    character(*), intent(in) :: doing
    integer :: ignored
    if (err == 0) return
    print '(2a, i0)', doing, " failed: ", err
    call MPI_Abort(MPI_COMM_WORLD, 1, ignored)
  end subroutine must
end program write
