! Ranks write columns of a global array in three steps, and read it back as a stream. Written out by bindings/fortran/each.py
! for each way to have MPI and the library: `mpi_f08`, `mpi` and `mpif` (mpif.h, no modules at all: what is called is external).
program ranks
#if mpi_f08
  use mpi_f08
  use adios_write_mod
  use adios_read_mod
#end
#if mpi
  use mpi
  use adios_write_mod
  use adios_read_mod
#end
  implicit none
#if mpif
  include 'mpif.h'
#end
#if mpi_f08
  type(MPI_Comm) :: comm
#end
#if mpi
  integer :: comm
#end
#if mpif
  integer :: comm
#end
  integer, parameter :: nx = 5, mine = 3, steps = 3
  integer :: rank, size, err, ny, offset, step, i, j, wrong, all_wrong, vartype, nsteps, ndim, seen
  integer*8 :: group, id, fd, fp, total, dims(16), box, start(2), count(2)
  real*8 :: a(nx, mine), time
  real*8, allocatable :: whole(:, :)
  character*12 :: name, back

  call MPI_Init(err)
  comm = MPI_COMM_WORLD
  call MPI_Comm_rank(comm, rank, err)
  call MPI_Comm_size(comm, size, err)
  ny = mine*size
  offset = mine*rank

  call adios_init_noxml(comm, err)
  call must(err, "beginning")
  call adios_declare_group(group, "columns", "", 0, err)
  call adios_select_method(group, "MPI", "", "", err)
  call adios_define_var(group, "ny", "", 2, "", "", "", id)
  call adios_define_var(group, "offset", "", 2, "", "", "", id)
  call adios_define_var(group, "time", "", 6, "", "", "", id)
  call adios_define_var(group, "name", "", 9, "", "", "", id)
  call adios_define_var(group, "a", "", 6, "5,3", "5,ny", "0,offset", id)
  call adios_define_attribute(group, "units", "/a", 9, "metre  ", "", err)
  call must(err, "defining an attribute")
  do step = 0, steps - 1
    do j = 1, mine
      do i = 1, nx
        a(i, j) = value(i, j + offset, step)
      end do
    end do
    if (step == 0) then
      call adios_open(fd, "columns", "columns.bp", "w", comm, err)
    else
      call adios_open(fd, "columns", "columns.bp", "a", comm, err)
    end if
    call must(err, "opening")
    call adios_group_size(fd, 8_8*nx*mine + 40_8, total, err)
    call must(err, "saying the size")
    call adios_write(fd, "ny", ny, err)
    call must(err, "writing ny")
    call adios_write(fd, "offset", offset, err)
    time = 0.5d0*step
    call adios_write(fd, "time", time, err)
    write (name, '("step ", i0)') step
    call adios_write(fd, "name", name, err)
    call must(err, "writing a name")
    call adios_write(fd, "a", a, err)
    call must(err, "writing a")
    call adios_close(fd, err)
    call must(err, "closing")
  end do
  call adios_finalize(rank, err)
  call must(err, "finishing")

  allocate (whole(nx, ny))
  wrong = 0
  seen = 0
  call adios_read_init_method(0, comm, "", err)
  call adios_read_open(fp, "columns.bp", 0, comm, 0, 10.0, err)
  call must(err, "opening the stream")
  do
    call adios_inq_var(fp, "a", vartype, nsteps, ndim, dims, err)
    call must(err, "asking for a")
    if (vartype /= 6 .or. ndim /= 2 .or. dims(1) /= nx .or. dims(2) /= ny) wrong = wrong + 1
    ! Fastest dimension first, as in the program; all but the first row, to be sure of the order.
    start = (/1, 0/)
    count = (/nx - 1, ny/)
    call adios_selection_boundingbox(box, 2, start, count)
    whole = -1
    call adios_schedule_read(fp, box, "a", 0, 1, whole, err)
    call must(err, "scheduling a")
    back = "????????????"
    call adios_schedule_read(fp, 0_8, "name", 0, 1, back, err)
    call must(err, "scheduling a name")
    call adios_get_scalar(fp, "time", time, err)
    call must(err, "getting the time")
    call adios_perform_reads(fp, err)
    call must(err, "reading")
    call adios_selection_delete(box)
    if (time /= 0.5d0*seen) wrong = wrong + 1
    write (name, '("step ", i0)') seen
    if (back /= name) wrong = wrong + 1
    if (.not. are_right(whole, seen)) wrong = wrong + 1
    seen = seen + 1
    call adios_advance_step(fp, 0, 10.0, err)
    if (err == -21) exit ! err_end_of_stream
    call must(err, "going on to the next step")
  end do
  if (seen /= steps) wrong = wrong + 1
  call adios_read_close(fp, err)
  call must(err, "closing the stream")
  call adios_read_finalize_method(0, err)

  call MPI_Reduce(wrong, all_wrong, 1, MPI_INTEGER, MPI_SUM, 0, comm, err)
  if (rank == 0 .and. all_wrong == 0) print '(a)', "ok ranks read back what they wrote"
  if (rank == 0 .and. all_wrong /= 0) print '(a, i0, a)', "not ok ranks read back what they wrote: ", all_wrong, " mistakes"
  call MPI_Finalize(err)

contains

  real*8 function value(i, j, step)
    integer, intent(in) :: i, j, step
    value = i + 100*j + 10000*step
  end function value

  ! The box from the second row on, packed by the read: its elements come one behind the other.
  logical function are_right(packed, step)
    real*8, intent(in) :: packed(*)
    integer, intent(in) :: step
    integer :: i, j
    are_right = .true.
    do j = 1, ny
      do i = 2, nx
        are_right = are_right .and. packed((j - 1)*(nx - 1) + i - 1) == value(i, j, step)
      end do
    end do
  end function are_right

  subroutine must(err, doing)
    integer, intent(in) :: err
    character(*), intent(in) :: doing
    character*500 :: message
    integer :: ignored
    if (err == 0) return
    call adios_errmsg(message)
    print '(4a)', "not ok ", doing, ": ", trim(message)
    call MPI_Abort(comm, 1, ignored)
  end subroutine must
end program ranks
