! heat: a plate that is hot along one edge, shared among MPI ranks by rows. README.md describes the file.
!
!   mpif90 heat.f90 $(pkg-config --cflags --libs thalweg-fortran) -o heat-fortran && mpiexec -n 3 ./heat-fortran heat.xml heat.bp
!
! t(x, y) in Fortran has the memory layout of t[y][x] in C, so both use heat.xml, with dimensions in C's order.
program heat
  use, intrinsic :: iso_fortran_env, only: error_unit, int64, real64
  use mpi_f08
  use adios_write_mod
  implicit none

  integer, parameter :: ny = 24, nx = 32, gap = 50, outputs = 5
  real(real64), allocatable :: t(:, :), next(:, :)
  character(200) :: config = "heat.xml", path = "heat.bp"
  integer(int64) :: file
  integer :: rank, ranks, rows, first, above, below, iteration, x, y, err

  if (command_argument_count() > 0) call get_command_argument(1, config)
  if (command_argument_count() > 1) call get_command_argument(2, path)
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)

  ! Rows of this rank; the first ranks get one more if the rows do not divide evenly. Rows 0 and rows + 1 are ghosts.
  rows = ny / ranks + merge(1, 0, rank < mod(ny, ranks))
  first = rank * (ny / ranks) + min(rank, mod(ny, ranks))
  above = merge(rank - 1, MPI_PROC_NULL, rank > 0)
  below = merge(rank + 1, MPI_PROC_NULL, rank < ranks - 1)
  allocate (t(nx, 0:rows + 1), next(nx, 0:rows + 1), source=0.0_real64)
  if (rank == 0) then
    t(:, 1) = 100.0_real64
    next(:, 1) = 100.0_real64
  end if

  call adios_init(config, MPI_COMM_WORLD, err)
  call must(err, "configuring")
  do iteration = 0, gap * (outputs - 1)
    if (mod(iteration, gap) == 0) then
      call adios_open(file, "heat", path, merge("w", "a", iteration == 0), MPI_COMM_WORLD, err)
      call must(err, "opening")
      call adios_write(file, "ny", ny, err)
      call must(err, "writing")
      call adios_write(file, "nx", nx, err)
      call must(err, "writing")
      call adios_write(file, "rows", rows, err)
      call must(err, "writing")
      call adios_write(file, "first", first, err)
      call must(err, "writing")
      call adios_write(file, "iteration", iteration, err)
      call must(err, "writing")
      call adios_write(file, "time", 0.25_real64 * iteration, err)
      call must(err, "writing")
      call adios_write(file, "T", t(:, 1:rows), err)
      call must(err, "writing")
      call adios_close(file, err)
      call must(err, "closing")
    end if
    call MPI_Sendrecv(t(:, 1), nx, MPI_DOUBLE_PRECISION, above, 0, t(:, rows + 1), nx, MPI_DOUBLE_PRECISION, below, 0, &
      MPI_COMM_WORLD, MPI_STATUS_IGNORE)
    call MPI_Sendrecv(t(:, rows), nx, MPI_DOUBLE_PRECISION, below, 1, t(:, 0), nx, MPI_DOUBLE_PRECISION, above, 1, &
      MPI_COMM_WORLD, MPI_STATUS_IGNORE)
    do y = 1, rows
      if (first + y - 1 == 0 .or. first + y - 1 == ny - 1) cycle ! edges keep their temperature
      do x = 2, nx - 1
        next(x, y) = t(x, y) &
          + 0.2_real64 * (((t(x, y - 1) + t(x, y + 1)) + (t(x - 1, y) + t(x + 1, y))) - 4.0_real64 * t(x, y))
      end do
    end do
    call swap(t, next)
  end do
  call adios_finalize(rank, err)
  call must(err, "finishing")
  call MPI_Finalize()

contains

  subroutine must(err, doing)
    integer, intent(in) :: err
    character(*), intent(in) :: doing
    character(500) :: message
    if (err == 0) return
    call adios_errmsg(message)
    write (error_unit, '(4a)') "heat: ", doing, ": ", trim(message)
    call MPI_Abort(MPI_COMM_WORLD, 1)
  end subroutine must

  subroutine swap(a, b)
    real(real64), allocatable, intent(inout) :: a(:, :), b(:, :)
    real(real64), allocatable :: c(:, :)
    call move_alloc(a, c)
    call move_alloc(b, a)
    call move_alloc(c, b)
  end subroutine swap
end program heat
