! read: prints the content of heat.bp, step by step. One process, without MPI.
!
!   gfortran read.f90 $(pkg-config --cflags --libs thalweg-fortran-nompi) -o read-fortran && ./read-fortran heat.bp
program read
  use, intrinsic :: iso_fortran_env, only: error_unit, int64, real64
  use adios_read_mod
  implicit none

  integer, parameter :: comm = 0 ! without MPI any number will do
  character(200) :: path = "heat.bp"
  integer(int64) :: file, middle, dims(16)
  integer :: vartype, steps, ndim, i, err
  real(real64) :: value, low, high, mean, deviation
  real(real64), allocatable :: lows(:), highs(:), means(:), deviations(:), time(:), middles(:)

  if (command_argument_count() > 0) call get_command_argument(1, path)
  call adios_read_open_file(file, path, adios_read_method_bp, comm, err)
  call must(err, "opening")
  call adios_inq_var(file, "T", vartype, steps, ndim, dims, err)
  call must(err, "asking for T")
  print '("T: ", i0, " steps of ", i0, " x ", i0)', steps, dims(2), dims(1)

  allocate (lows(steps), highs(steps), means(steps), deviations(steps), time(steps), middles(steps))
  ! From the file's characteristics; the middle is the only value of T that is read.
  call adios_get_statistics(file, "T", value, low, high, mean, deviation, lows, highs, means, deviations, err)
  call must(err, "minimum and maximum of T")
  call adios_schedule_read(file, 0_int64, "time", 0, steps, time, err)
  call must(err, "scheduling time")
  call adios_selection_boundingbox(middle, 2, [dims(1) / 2, dims(2) / 2], [1_int64, 1_int64])
  call adios_schedule_read(file, middle, "T", 0, steps, middles, err)
  call must(err, "scheduling T")
  call adios_perform_reads(file, err)
  call must(err, "reading")
  call adios_selection_delete(middle)
  do i = 1, steps
    print '("step ", i0, ": time ", a, ", T from ", a, " to ", a, ", in the middle ", a)', i - 1, &
      decimal(time(i), 1), decimal(lows(i), 3), decimal(highs(i), 3), decimal(middles(i), 3)
  end do
  call adios_read_close(file, err)
  call must(err, "closing")

contains

  subroutine must(err, doing)
    integer, intent(in) :: err
    character(*), intent(in) :: doing
    character(500) :: message
    if (err == 0) return
    call adios_errmsg(message)
    write (error_unit, '(4a)') "read: ", doing, ": ", trim(message)
    error stop 1
  end subroutine must

  !> Formats a number with this many decimals and a zero before the point.
  function decimal(x, decimals)
    real(real64), intent(in) :: x
    integer, intent(in) :: decimals
    character(:), allocatable :: decimal
    character(40) :: form, text
    write (form, '("(f40.", i0, ")")') decimals
    write (text, form) x
    decimal = trim(adjustl(text))
    if (decimal(1:1) == ".") decimal = "0" // decimal
    if (len(decimal) > 1) then
      if (decimal(1:2) == "-.") decimal = "-0" // decimal(2:)
    end if
  end function decimal
end program read
