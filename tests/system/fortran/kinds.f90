! Every kind in every rank from 0 to 7: what is written is read back, whole and as sections with gaps. Each procedure is
! written out once per kind by bindings/fortran/each.py.
module kinds
  use, intrinsic :: iso_fortran_env, only: int8, int16, int32, int64, real32, real64, error_unit
  use adios_write_mod
  use adios_read_mod
  implicit none

  integer, parameter :: comm = 0 ! without MPI any number will do
  character(*), parameter :: dimensions(0:7) = [character(13) :: "", "3", "3,2", "3,2,2", "3,2,2,1", "3,2,2,1,2", &
    "3,2,2,1,2,1", "3,2,2,1,2,1,2"]
  character(*), parameter :: path = "kinds.bp"
  integer(int64) :: group, fd, fp
  integer :: failures = 0
contains

  subroutine must(err, doing)
    integer, intent(in) :: err
    character(*), intent(in) :: doing
    character(500) :: message
    if (err == 0) return
    call adios_errmsg(message)
    write (error_unit, '(3a)') doing, ": ", trim(message)
    error stop 1
  end subroutine must

  subroutine check(is_so, what)
    logical, intent(in) :: is_so
    character(*), intent(in) :: what
    if (is_so) return
    write (error_unit, '(2a)') "not so: ", what
    failures = failures + 1
  end subroutine check

#each
  ! Values that differ from each other, by their number.
  function values_@kind@(n) result(values)
    integer, intent(in) :: n
    @type@ :: values(n)
    integer :: i
    do i = 1, n
      call set_@kind@(values(i), i)
    end do
  end function values_@kind@

  subroutine define_@kind@
    integer(int64) :: id
    integer :: rank
    do rank = 0, 7
      call adios_define_var(group, "@kind@_" // achar(iachar("0") + rank), "", @adios@, dimensions(rank), &
        dimensions(rank), repeat("0,", max(rank - 1, 0)) // merge("0", " ", rank > 0), id)
      call check(id /= 0, "@kind@ is defined")
      ! The same again, to be written from a section with gaps.
      call adios_define_var(group, "gaps_@kind@_" // achar(iachar("0") + rank), "", @adios@, dimensions(rank), &
        dimensions(rank), repeat("0,", max(rank - 1, 0)) // merge("0", " ", rank > 0), id)
    end do
  end subroutine define_@kind@

  subroutine write_@kind@
    @type@ :: v(48), w(8), a0, a1(3), a2(3, 2), a3(3, 2, 2), a4(3, 2, 2, 1), a5(3, 2, 2, 1, 2), a6(3, 2, 2, 1, 2, 1)
    @type@ :: a7(3, 2, 2, 1, 2, 1, 2)
    @type@ :: b1(7), b2(7, 4), b3(7, 4, 3), b4(7, 4, 3, 2), b5(7, 4, 3, 2, 4), b6(7, 4, 3, 2, 4, 2)
    @type@ :: b7(7, 4, 3, 2, 4, 2, 4)
    integer :: err(16)
    v = values_@kind@(48)
    w = values_@kind@(8)
    a0 = v(5)
    a1 = v(:3)
    a2 = reshape(v, shape(a2))
    a3 = reshape(v, shape(a3))
    a4 = reshape(v, shape(a4))
    a5 = reshape(v, shape(a5))
    a6 = reshape(v, shape(a6))
    a7 = reshape(v, shape(a7))
    call adios_write(fd, "@kind@_0", a0, err(1))
    call adios_write(fd, "@kind@_1", a1, err(2))
    call adios_write(fd, "@kind@_2", a2, err(3))
    call adios_write(fd, "@kind@_3", a3, err(4))
    call adios_write(fd, "@kind@_4", a4, err(5))
    call adios_write(fd, "@kind@_5", a5, err(6))
    call adios_write(fd, "@kind@_6", a6, err(7))
    call adios_write(fd, "@kind@_7", a7, err(8))
    b1 = w(1)
    b2 = w(1)
    b3 = w(1)
    b4 = w(1)
    b5 = w(1)
    b6 = w(1)
    b7 = w(1)
    b1(6:2:-2) = a1
    b2(2::2, 3:) = a2
    b3(2:6:2, 4:1:-3, :2) = a3
    b4(:5:2, 2:3, 1:3:2, 2:) = a4
    b5(3::2, 2:3, 1:3:2, 2:, 4:1:-2) = a5
    b6(3::2, 2:3, 1:3:2, 2:, 4:1:-2, 2:) = a6
    b7(3::2, 2:3, 1:3:2, 2:, 4:1:-2, 2:, ::3) = a7
    call adios_write(fd, "gaps_@kind@_0", b1(6), err(9))
    call adios_write(fd, "gaps_@kind@_1", b1(6:2:-2), err(10))
    call adios_write(fd, "gaps_@kind@_2", b2(2::2, 3:), err(11))
    call adios_write(fd, "gaps_@kind@_3", b3(2:6:2, 4:1:-3, :2), err(12))
    call adios_write(fd, "gaps_@kind@_4", b4(:5:2, 2:3, 1:3:2, 2:), err(13))
    call adios_write(fd, "gaps_@kind@_5", b5(3::2, 2:3, 1:3:2, 2:, 4:1:-2), err(14))
    call adios_write(fd, "gaps_@kind@_6", b6(3::2, 2:3, 1:3:2, 2:, 4:1:-2, 2:), err(15))
    call adios_write(fd, "gaps_@kind@_7", b7(3::2, 2:3, 1:3:2, 2:, 4:1:-2, 2:, ::3), err(16))
    call must(maxval(abs(err)), "writing @kind@")
  end subroutine write_@kind@

  ! Reads all of it, in mode "r" or with the read interface; into sections with gaps where `with_gaps`.
  subroutine read_@kind@(prefix, in_mode_r)
    character(*), intent(in) :: prefix
    logical, intent(in) :: in_mode_r
    @type@ :: v(48), w(8), a0
    @type@, target :: b1(7), b2(7, 4), b3(7, 4, 3), b4(7, 4, 3, 2), b5(7, 4, 3, 2, 4), b6(7, 4, 3, 2, 4, 2)
    @type@, target :: b7(7, 4, 3, 2, 4, 2, 4)
    integer :: err(0:7)
    integer(int64) :: size
    v = values_@kind@(48)
    w = values_@kind@(8)
    a0 = w(1)
    b1 = w(1)
    b2 = w(1)
    b3 = w(1)
    b4 = w(1)
    b5 = w(1)
    b6 = w(1)
    b7 = w(1)
    if (in_mode_r) then
      size = storage_size(a0) / 8
      call adios_read(fd, prefix // "@kind@_0", a0, size, err(0))
      call adios_read(fd, prefix // "@kind@_1", b1(6:2:-2), 3 * size, err(1))
      call adios_read(fd, prefix // "@kind@_2", b2(2::2, 3:), 6 * size, err(2))
      call adios_read(fd, prefix // "@kind@_3", b3(2:6:2, 4:1:-3, :2), 12 * size, err(3))
      call adios_read(fd, prefix // "@kind@_4", b4(:5:2, 2:3, 1:3:2, 2:), 12 * size, err(4))
      call adios_read(fd, prefix // "@kind@_5", b5(3::2, 2:3, 1:3:2, 2:, 4:1:-2), 24 * size, err(5))
      call adios_read(fd, prefix // "@kind@_6", b6(3::2, 2:3, 1:3:2, 2:, 4:1:-2, 2:), 24 * size, err(6))
      call adios_read(fd, prefix // "@kind@_7", b7(3::2, 2:3, 1:3:2, 2:, 4:1:-2, 2:, ::3), 48 * size, err(7))
    else
      call adios_get_scalar(fp, prefix // "@kind@_0", a0, err(0))
      call adios_schedule_read(fp, 0_int64, prefix // "@kind@_1", 0, 1, b1(6:2:-2), err(1))
      call adios_schedule_read(fp, 0_int64, prefix // "@kind@_2", 0, 1, b2(2::2, 3:), err(2))
      call adios_schedule_read(fp, 0_int64, prefix // "@kind@_3", 0, 1, b3(2:6:2, 4:1:-3, :2), err(3))
      call adios_schedule_read(fp, 0_int64, prefix // "@kind@_4", 0, 1, b4(:5:2, 2:3, 1:3:2, 2:), err(4))
      call adios_schedule_read(fp, 0_int64, prefix // "@kind@_5", 0, 1, b5(3::2, 2:3, 1:3:2, 2:, 4:1:-2), err(5))
      call adios_schedule_read(fp, 0_int64, prefix // "@kind@_6", 0, 1, b6(3::2, 2:3, 1:3:2, 2:, 4:1:-2, 2:), err(6))
      call adios_schedule_read(fp, 0_int64, prefix // "@kind@_7", 0, 1, b7(3::2, 2:3, 1:3:2, 2:, 4:1:-2, 2:, ::3), err(7))
      call must(maxval(abs(err)), "scheduling " // prefix // "@kind@")
      call adios_perform_reads(fp, err(0))
    end if
    call must(maxval(abs(err)), "reading " // prefix // "@kind@")
    call check(same([a0], v(merge(1, 5, prefix == "gaps_"):merge(1, 5, prefix == "gaps_"))), prefix // "@kind@_0")
    call check(same(b1(6:2:-2), v(:3)), prefix // "@kind@_1")
    call check(same([b2(2::2, 3:)], v(:6)), prefix // "@kind@_2")
    call check(same([b3(2:6:2, 4:1:-3, :2)], v(:12)), prefix // "@kind@_3")
    call check(same([b4(:5:2, 2:3, 1:3:2, 2:)], v(:12)), prefix // "@kind@_4")
    call check(same([b5(3::2, 2:3, 1:3:2, 2:, 4:1:-2)], v(:24)), prefix // "@kind@_5")
    call check(same([b6(3::2, 2:3, 1:3:2, 2:, 4:1:-2, 2:)], v(:24)), prefix // "@kind@_6")
    call check(same([b7(3::2, 2:3, 1:3:2, 2:, 4:1:-2, 2:, ::3)], v(:48)), prefix // "@kind@_7")
    ! What is between the elements stays.
    call check(same(b1(1:7:2), spread(w(1), 1, 4)), "gaps of " // prefix // "@kind@_1")
    call check(same([b2(1::2, :)], spread(w(1), 1, 16)), "gaps of " // prefix // "@kind@_2")
    call check(same([b7(:, :, :, :, :, :, 2:3)], spread(w(1), 1, 7*4*3*2*4*2*2)), "gaps of " // prefix // "@kind@_7")
  contains
    logical function same(a, b)
      @type@, intent(in) :: a(:), b(:)
      same = size_of(a) == size_of(b)
      if (same) same = all(transfer(a, [0_int8]) == transfer(b, [0_int8]))
    end function same
    integer function size_of(a)
      @type@, intent(in) :: a(:)
      size_of = ubound(a, 1)
    end function size_of
  end subroutine read_@kind@

#end
#each number
  subroutine set_@kind@(value, number)
    @type@, intent(out) :: value
    integer, intent(in) :: number
    value = number
  end subroutine set_@kind@

#end
  subroutine set_logical1(value, number)
    logical(int8), intent(out) :: value
    integer, intent(in) :: number
    value = mod(number, 3) == 0
  end subroutine set_logical1

  subroutine set_logical2(value, number)
    logical(int16), intent(out) :: value
    integer, intent(in) :: number
    value = mod(number, 3) == 0
  end subroutine set_logical2

  subroutine set_logical4(value, number)
    logical(int32), intent(out) :: value
    integer, intent(in) :: number
    value = mod(number, 3) == 0
  end subroutine set_logical4

  subroutine set_logical8(value, number)
    logical(int64), intent(out) :: value
    integer, intent(in) :: number
    value = mod(number, 3) == 0
  end subroutine set_logical8
end module kinds

program test_kinds
  use kinds
  implicit none
  integer :: err
  integer(int64) :: total

  call adios_init_noxml(comm, err)
  call must(err, "beginning")
  call adios_declare_group(group, "kinds", "", adios_stat_default, err)
  call must(err, "declaring a group")
  call adios_select_method(group, "POSIX", "", "", err)
  call must(err, "selecting a method")
#each
  call define_@kind@
#end
  call adios_open(fd, "kinds", path, "w", comm, err)
  call must(err, "opening")
  call adios_group_size(fd, 100000_int64, total, err)
  call must(err, "saying the size")
#each
  call write_@kind@
#end
  call adios_close(fd, err)
  call must(err, "closing")
  call check(failures == 0, "no failure while writing")

  call adios_open(fd, "kinds", path, "r", comm, err)
  call must(err, "opening to read back")
#each
  call read_@kind@("", .true.)
  call read_@kind@("gaps_", .true.)
#end
  call adios_close(fd, err)
  call must(err, "closing what was read back")
  call adios_finalize(0, err)
  call must(err, "finishing")
  if (failures == 0) print '(a)', "ok every kind and rank is read back in mode r as it was written, with gaps too"

  call adios_read_open_file(fp, path, adios_read_method_bp, comm, err)
  call must(err, "opening the file")
#each
  call read_@kind@("", .false.)
  call read_@kind@("gaps_", .false.)
#end
  call adios_read_close(fp, err)
  call must(err, "closing the file")
  if (failures == 0) print '(a)', "ok every kind and rank is read as it was written, with gaps too"
  if (failures > 0) error stop 1
end program test_kinds
