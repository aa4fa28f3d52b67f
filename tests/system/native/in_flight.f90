! Outputs in flight from Fortran, with MPI for one thread: in_flight FOLDER
module heard
  use, intrinsic :: iso_c_binding, only: c_f_pointer, c_int, c_ptr
  implicit none
contains
  subroutine ended(status, context) bind(c)
    integer(c_int), value :: status
    type(c_ptr), value :: context
    integer, pointer :: calls
    call c_f_pointer(context, calls)
    calls = calls + merge(1, 1000, status == 0)
  end subroutine ended
end module heard

program in_flight
  use, intrinsic :: iso_fortran_env, only: int64, real64, output_unit
  use, intrinsic :: iso_c_binding, only: c_associated, c_f_pointer, c_loc, c_ptr
  use mpi
  use adios_write_mod
  use adios_read_mod
  use thalweg_async_mod
  use heard
  implicit none
  integer, parameter :: n = 20000, steps = 5
  integer :: rank, ranks, err, i, step, failures = 0
  integer, target :: calls = 0
  integer(int64) :: group, fd, file, total
  logical :: complete
  type(output_pending) :: pending(steps)
  real(real64) :: T(n)
  real(real64), pointer :: U(:)
  real(real64), target :: V(50000), W(50000)
  type(c_ptr) :: memory
  character(len=1000) :: folder, text

  call MPI_Init(err)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, err)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, err)
  call get_command_argument(1, folder)
  call adios_init_noxml(MPI_COMM_WORLD, err)
  call adios_declare_group(group, 'heat', '', 1, err)
  call adios_select_method(group, 'MPI', 'async=yes;in_flight=10', '', err)
  call adios_define_var(group, 'T', '', adios_double, '20000', '', '', fd)
  call adios_define_var(group, 'U', '', adios_double, '50000', '', '', fd)

  do step = 1, steps
    T = step
    call adios_open(fd, 'heat', trim(folder) // '/fortran.bp', merge('w', 'a', step == 1), MPI_COMM_WORLD, err)
    if (err == 0) call adios_write(fd, 'T', T, err)
    if (err == 0) call output_start_close(fd, pending(step), err)
    T = -1
    if (step == 2) call output_on_completion(pending(2), ended, c_loc(calls), i)
  end do
  call check(err == 0, 'outputs are closed')
  call output_drop(pending(1))
  call outputs_progress(err)
  call check(err == 0, 'messages are moved')
  complete = .false.
  do while (.not. complete)
    call output_test(pending(2), complete, err)
  end do
  call check(err == 0, 'an output has been written')
  call output_wait(pending(5), err)
  call check(err == 0 .and. calls == 1, 'the last one, too, and the callback was called once')
  call outputs_wait(err)
  call check(err == 0, 'all have been written')

  ! The folder is a file: the open fails, and closes nothing.
  call output_start_close(fd, pending(1), err)
  call output_error(text)
  call check(err /= 0 .and. index(text, 'no open file') > 0, 'a closed output is not closed again')

  ! Memory of the library.
  call output_alloc(50000_int64 * 8, memory, err)
  call check(err == 0, 'memory is allocated')
  call c_f_pointer(memory, U, [50000])
  U = 9
  call adios_open(fd, 'heat', trim(folder) // '/fortran.bp', 'a', MPI_COMM_WORLD, err)
  call output_commit(fd, 'V', memory, err)
  call check(err /= 0 .and. c_associated(memory), 'an unknown name leaves the memory to the program')
  call output_commit(fd, 'U', memory, err)
  call check(err == 0 .and. .not. c_associated(memory), 'memory is committed')
  call output_start_close(fd, pending(1), err)
  call output_wait(pending(1), err)
  call check(err == 0, 'the output with it has been written')
  W = 11
  call adios_open(fd, 'heat', trim(folder) // '/fortran.bp', 'a', MPI_COMM_WORLD, err)
  call output_lend(fd, 'U', c_loc(W), err)
  call check(err == 0, 'memory is lent')
  call output_start_close(fd, pending(1), err)
  call output_wait(pending(1), err)
  W = 0
  call check(err == 0, 'the output of lent memory has been written')
  call output_alloc(8_int64, memory, err)
  call output_free(memory, err)
  call check(err == 0, 'memory is freed')

  call adios_finalize(rank, err)
  call check(err == 0, 'the session ends')

  call adios_read_open_file(file, trim(folder) // '/fortran.bp', 0, MPI_COMM_WORLD, err)
  call check(err == 0, 'the file opens')
  call adios_schedule_read(file, 0_int64, 'T', steps - 1, 1, T, err)
  call adios_perform_reads(file, err)
  call check(err == 0 .and. all(nint(T) == steps), 'the last step has the values from before the close')
  call adios_schedule_read(file, 0_int64, 'U', 0, 1, V, err)
  call adios_perform_reads(file, err)
  call check(err == 0 .and. all(nint(V) == 9), 'committed values are read')
  call adios_schedule_read(file, 0_int64, 'U', 1, 1, V, err)
  call adios_perform_reads(file, err)
  call check(err == 0 .and. all(nint(V) == 11), 'lent values are read')
  call adios_read_close(file, err)
  call MPI_Finalize(err)
  if (failures > 0) error stop 1

contains
  subroutine check(holds, name)
    logical, intent(in) :: holds
    character(len=*), intent(in) :: name
    integer :: mine, all, failed
    mine = merge(1, 0, holds)
    call MPI_Allreduce(mine, all, 1, MPI_INTEGER, MPI_MIN, MPI_COMM_WORLD, failed)
    if (all == 0) failures = failures + 1
    if (rank == 0) then
      write(output_unit, '(2a)') merge('ok    ', 'not ok', all == 1), ' ' // name
      flush(output_unit)
    end if
  end subroutine check
end program in_flight
