! heat FILE write|read: as heat.c, with the generated includes of Fortran
program heat
  use mpi
  use adios_write_mod
  implicit none
  integer, parameter :: steps = 3, all_rows = 12
  integer :: rank, ranks, nx, rows, first, step, i, j, ierr, adios_err
  integer(8) :: adios_handle, adios_groupsize, adios_totalsize, adios_buf_size
  real(8), allocatable :: t(:, :), back(:, :)
  real(8) :: total, back_total
  character(len=6) :: text
  character(len=100) :: path, what
  logical :: failed

  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierr)
  call get_command_argument(1, path)
  call get_command_argument(2, what)
  nx = 3
  rows = all_rows / ranks
  first = rank * rows
  failed = .false.
  allocate (t(2 * nx, rows), back(2 * nx, rows))
  call adios_init('heat.xml', MPI_COMM_WORLD, adios_err)
  if (adios_err /= 0) error stop 'adios_init'

  if (what == 'write') then
    do step = 0, steps - 1
      total = step + 0.5d0
      write (text, '(a, i0)') 'step ', step
      do j = 1, rows
        do i = 1, 2 * nx
          t(i, j) = 1000d0 * step + 10d0 * (first + j - 1) + (i - 1)
        end do
      end do
      call adios_open(adios_handle, 'heat', trim(path), merge('a', 'w', step > 0), MPI_COMM_WORLD, adios_err)
      failed = failed .or. adios_err /= 0
      include 'gwrite_heat.fh'
      call adios_close(adios_handle, adios_err)
      failed = failed .or. adios_err /= 0
    end do
  else
    step = -1
    text = ''
    call adios_open(adios_handle, 'heat', trim(path), 'r', MPI_COMM_WORLD, adios_err)
    failed = adios_err /= 0
    include 'gread_heat.fh'
    call adios_close(adios_handle, adios_err)
    failed = failed .or. adios_err /= 0 .or. step /= steps - 1 .or. text /= 'step 2' .or. back_total /= step + 0.5d0
    do j = 1, rows
      do i = 1, 2 * nx
        failed = failed .or. back(i, j) /= 1000d0 * step + 10d0 * (first + j - 1) + (i - 1)
      end do
    end do
  end if
  call adios_finalize(rank, adios_err)
  call MPI_Finalize(ierr)
  if (failed) error stop 1
end program heat
