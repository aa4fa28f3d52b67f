! steer FILE: writes an output each time step, until it is asked to stop.
program steer
  use, intrinsic :: iso_fortran_env, only: int64, real64, output_unit
  use mpi
  use adios_write_mod
  use thalweg_steering_mod
  implicit none
  integer, parameter :: columns = 16, rows = 8, most = 3000
  integer :: rank, ranks, err, step, i
  integer(int64) :: group, fd, id
  logical :: wanted, halt, alike, v_wanted, v_was_left_out
  real(real64) :: T(columns, rows)
  character(len=1000) :: path
  character(len=20) :: shape, offset

  call MPI_Init(err)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, err)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, err)
  call get_command_argument(1, path)
  write (shape, '(i0,a,i0)') columns, ',', rows * ranks
  write (offset, '(a,i0)') '0,', rows * rank
  call adios_init_noxml(MPI_COMM_WORLD, err)
  call adios_declare_group(group, 'heat', '', 1, err)
  call adios_select_method(group, 'MPI', 'control=yes', '', err)
  call adios_define_var(group, 'step', '', adios_integer, '', '', '', id)
  call adios_define_var(group, 'T', '', adios_double, '16,8', trim(shape), trim(offset), id)
  call adios_define_var(group, 'v', '', adios_double, '16,8', trim(shape), trim(offset), id)

  halt = .false.
  alike = .true.
  v_was_left_out = .false.
  step = 0
  do while (step < most .and. .not. halt)
    call output_wanted('heat', path, int(step, int64), wanted, err)
    if (err == 0) call array_wanted('heat', path, 'v', v_wanted, err)
    if (err /= 0) exit
    alike = alike .and. same(wanted)
    v_was_left_out = v_was_left_out .or. .not. v_wanted
    T = reshape([(step + 0.001_real64 * (rank * rows * columns + i), i = 0, rows * columns - 1)], [columns, rows])
    if (wanted) then
      call adios_open(fd, 'heat', trim(path), merge('w', 'a', step == 0), MPI_COMM_WORLD, err)
      if (err == 0) call adios_write(fd, 'step', step, err)
      if (err == 0) call adios_write(fd, 'T', T, err)
      if (err == 0) call adios_write(fd, 'v', T, err)
      if (err == 0) call adios_close(fd, err)
    end if
    if (err == 0) call stop_requested(halt, err)
    if (err /= 0) exit
    alike = alike .and. same(halt)
    call pause_a_moment()
    step = step + 1
  end do
  call check(err == 0, 'all outputs are written')
  call check(alike, 'ranks get the same answers')
  call check(halt, 'the program was asked to stop')
  call check(v_was_left_out, 'an array is no longer wanted')
  call adios_finalize(rank, err)
  call check(err == 0, 'the session ends')
  call MPI_Finalize(err)

contains

  logical function same(word)
    logical, intent(in) :: word
    logical :: every_one, any_one
    call MPI_Allreduce(word, every_one, 1, MPI_LOGICAL, MPI_LAND, MPI_COMM_WORLD, err)
    call MPI_Allreduce(word, any_one, 1, MPI_LOGICAL, MPI_LOR, MPI_COMM_WORLD, err)
    same = every_one .eqv. any_one
  end function same

  subroutine pause_a_moment()
    integer(int64) :: now, begin, rate
    call system_clock(begin, rate)
    do
      call system_clock(now)
      if (now - begin > rate / 100) exit
    end do
  end subroutine pause_a_moment

  subroutine check(holds, what)
    logical, intent(in) :: holds
    character(len=*), intent(in) :: what
    character(len=1000) :: text
    if (.not. holds) then
      call steering_error(text)
      write (*, '(a,i0,4a)') 'rank ', rank, ' does not hold: ', what, ': ', trim(text)
    end if
    if (rank == 0) then
      if (holds) then
        write (output_unit, '(2a)') 'ok ', what
      else
        write (output_unit, '(2a)') 'not ok ', what
      end if
    end if
  end subroutine check
end program steer
