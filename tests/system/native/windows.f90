! Output windows from Fortran, on ranks of MPI or in one process: windows FOLDER
module heard
  use, intrinsic :: iso_c_binding, only: c_f_pointer, c_int, c_int64_t, c_ptr
  implicit none
contains
  subroutine completed(window, status, context) bind(c)
    integer(c_int64_t), value :: window
    integer(c_int), value :: status
    type(c_ptr), value :: context
    integer, pointer :: calls
    call c_f_pointer(context, calls)
    calls = calls + merge(1, 1000, status == 0 .and. window >= 0)
  end subroutine completed
end module heard

program windows
  use, intrinsic :: iso_fortran_env, only: int64, real64, output_unit
  use, intrinsic :: iso_c_binding, only: c_loc
#ifndef NOMPI
  use mpi
#endif
  use thalweg_windows_mod
  use thalweg_input_mod
  use heard
  implicit none
  integer, parameter :: n = 5000
  integer :: rank = 0, ranks = 1, err, comm = 0, i, unit, failures = 0
  integer, target :: calls = 0
  integer(int64) :: window, each, total, taken, request
  logical :: complete, right
  type(windows_file) :: file
  type(window_options) :: options, options_of_input
  type(input_file) :: input
  real(real64) :: mine(n, 2), found
  character(len=5), target :: header = 'valid'
  character(len=1000) :: folder, text

#ifndef NOMPI
  call MPI_Init(err)
  comm = MPI_COMM_WORLD
  call MPI_Comm_rank(comm, rank, err)
  call MPI_Comm_size(comm, ranks, err)
#endif
  call get_command_argument(1, folder)
  each = 8_int64 * n
  total = each * ranks

  call windows_open(file, trim(folder) // '/out', comm, err, memory=128_int64 * 1024)
  call check(err == 0, 'a file is opened')
  options%active = min(ranks, 2)
  options%write_stripe = 32768
  options%fraction = 8192
  options%commit_offset = total
  options%commit = c_loc(header)
  options%commit_bytes = 5
  do i = 1, n
    mine(i, 1) = rank * n + i
    mine(i, 2) = -1
  end do
  call window_start(file, window, 0_int64, total, err, options)
  call window_write(file, window, rank * each, mine(:, 1), each, err)
  call window_end(file, window, err)
  call windows_progress(file, err)
  call window_wait(file, window, err)
  call check(err == 0, 'an array is written')

  call window_start(file, window, total + 5, total, err)
  call window_on_complete(file, window, completed, c_loc(calls), err)
  call check(err == 0, 'a callback is taken')
  call window_write(file, window, total + 5 + rank * each, mine(:, 1), each, err)
  call window_end(file, window, err)
  do while (calls == 0)
    call windows_progress(file, err)
  end do
  call check(err == 0 .and. calls == 1, 'it is called once, with the status')

  ! Every second element: the compiler makes it contiguous.
  call window_start(file, window, 3 * total, 4 * each * ranks, err)
  call window_try_write(file, window, 3 * total + rank * each / 2, mine(1:n:2, 1), each / 2, taken, err)
  call check(err == 0 .and. taken > 0 .and. taken <= each / 2, 'bytes are taken without waiting')
  call window_end(file, window, err)
  complete = .false.
  do while (.not. complete)
    call window_test(file, window, complete, err)
  end do
  call windows_error(text)
  call check(err == 12 .and. index(text, 'were written by no rank') > 0, 'missing bytes are an error on all ranks')
  call windows_close(file, err)
  call check(err == 0, 'the file is closed')

  open(newunit=unit, file=trim(folder) // '/out', access='stream', form='unformatted', action='read')
  read(unit, pos=total - 7) found
  text = ''
  read(unit, pos=total + 1) text(1:5)
  close(unit)
  call check(nint(found) == ranks * n .and. text(1:5) == 'valid', 'the file contains what was written')

  call input_open(input, trim(folder) // '/out', comm, err, memory=128_int64 * 1024)
  taken = input_length(input)
  call check(err == 0 .and. taken >= total, 'a file is opened for reading')
  call input_start(input, window, 0_int64, total, err, options_of_input)
  call input_read(input, window, modulo(rank + 1, ranks) * each, each, request, err)
  call input_progress(input, err)
  call input_wait(input, request, mine(:, 2), each, err)
  right = err == 0 .and. all(nint(mine(:, 2)) == [(modulo(rank + 1, ranks) * n + i, i = 1, n)])
  call input_read(input, window, total - 8, 8_int64, request, err)
  complete = .false.
  do while (.not. complete)
    call input_test(input, request, mine(1:1, 1), 8_int64, complete, err)
  end do
  complete = err == 0 .and. nint(mine(1, 1)) == ranks * n
  call input_read(input, window, total, 8_int64, request, err)
  taken = err
  ! The checks are collective calls: other ranks may wait for bytes of this one until all have finished.
  call input_finish(input, window, err)
  call check(err == 0 .and. taken /= 0, 'bytes outside are refused')
  call check(right, 'an array of another rank is read')
  call check(complete, 'a number is asked for until it is there')
  call input_start(input, window, 0_int64, total, err)
  call input_end(input, window, err)
  call input_close(input, err)
  call check(err == 0, 'the file that was read is closed')

  call windows_open(file, trim(folder) // '/none/out', comm, err)
  call check(err == 2, 'a folder that is not there is an error')
#ifndef NOMPI
  call MPI_Finalize(err)
#endif
  if (failures > 0) error stop 1

contains
  subroutine check(holds, name)
    logical, intent(in) :: holds
    character(len=*), intent(in) :: name
    integer :: mine, all
    mine = merge(1, 0, holds)
    all = mine
#ifndef NOMPI
    call MPI_Allreduce(mine, all, 1, MPI_INTEGER, MPI_MIN, comm, err)
#endif
    if (all == 0) failures = failures + 1
    if (rank == 0) then
      if (all == 1) then
        write(output_unit, '(2a)') 'ok ', name
      else
        write(output_unit, '(2a)') 'not ok ', name
      end if
      flush(output_unit)
    end if
  end subroutine check
end program windows
