! Version 1 of the read interface, by bare calls, on a communicator whose ranks are in reverse order.
program version1_ranks
  implicit none
  include 'mpif.h'
  integer, parameter :: adios_integer = 2, adios_double = 6
  integer :: world, comm, rank, ranks, err, s, groups, vars, attrs, first, last, steps, kind, ndim, timedim, failures = 0
  integer(8) :: group, fd, fp, gp, id, total, bytes, dims(4), start(4), count(4)
  real(8) :: t(3, 2), least, most, mean, deviation, leasts(3), mosts(3), means(3), deviations(3)
  real(8), allocatable :: back(:, :, :)
  integer :: ns(3)
  character(20) :: names(6), attributes(2)
  logical :: everywhere

  call MPI_Init(err)
  call MPI_Comm_rank(MPI_COMM_WORLD, world, err)
  call MPI_Comm_split(MPI_COMM_WORLD, 0, -world, comm, err)
  call MPI_Comm_rank(comm, rank, err)
  call MPI_Comm_size(comm, ranks, err)
  call adios_init_noxml(comm, err)
  call adios_declare_group(group, "g", "", 1, err)
  call adios_select_method(group, "MPI_AGGREGATE", "", "", err)
  call adios_define_var(group, "columns", "", adios_integer, "", "", "", id)
  call adios_define_var(group, "first", "", adios_integer, "", "", "", id)
  call adios_define_var(group, "n", "", adios_integer, "", "", "", id)
  call adios_define_var(group, "t", "", adios_double, "3,2", "3,columns", "0,first", id)
  do s = 0, 2
    call adios_open(fd, "g", "version1_ranks.bp", merge("w", "a", s == 0), comm, err)
    call adios_group_size(fd, 200_8, total, err)
    call adios_write(fd, "columns", 2 * ranks, err)
    call adios_write(fd, "first", 2 * rank, err)
    call adios_write(fd, "n", s + 10, err)
    t = s * 100 + rank
    call adios_write(fd, "t", t, err)
    call adios_close(fd, err)
  end do
  call same(err == 0, "written")
  call adios_finalize(rank, err)

  call adios_set_read_method(0, err)
  call adios_read_init(comm, err)
  call same(err == 0, "adios_read_init")
  call adios_fopen(fp, "version1_ranks.bp", comm, groups, err)
  call same(err == 0 .and. groups == 1, "adios_fopen")
  call adios_inq_file(fp, vars, attrs, first, steps, names, err)
  call same(err == 0 .and. vars == 4 .and. first == 1 .and. steps == 3, "adios_inq_file")
  call adios_gopen(fp, gp, "g", vars, attrs, err)
  call adios_inq_group(gp, names, attributes, first, last, err)
  call same(err == 0 .and. names(4) == "t" .and. last == 3, "adios_inq_group")
  call adios_inq_var(gp, "t", kind, ndim, dims, timedim, err)
  call same(kind == adios_double .and. ndim == 3 .and. all(dims(1:3) == [3, 2 * ranks, 3]), "adios_inq_var")
  allocate (back(3, 2 * ranks, 3))
  start = 0
  call adios_read_var(gp, "t", start, dims, back, bytes)
  call same(bytes == 144 * ranks .and. back(2, 2 * ranks, 3) == 200 + ranks - 1, "adios_read_var of everything")
  ! The neighbour's columns of the last step.
  start = [0, 2 * mod(rank + 1, ranks), 2, 0]
  count = [3, 2, 1, 0]
  call adios_read_var_real8(gp, "t", start, count, t, bytes)
  call same(bytes == 48 .and. all(t == 200 + mod(rank + 1, ranks)), "each rank reads another part")
  start = 0
  count = [3, 2, 1, 0]
  call adios_read_local_var(gp, "t", rank, start, count, t, bytes)
  call same(bytes == 48 .and. all(t == rank), "adios_read_local_var: the ranks are those of the communicator")
  count = 3
  call adios_read_var(gp, "n", start, count, ns, bytes)
  call same(bytes == 12 .and. all(ns == [10, 11, 12]), "a scalar over its steps")
  call adios_get_statistics_real8(gp, "t", 0d0, least, most, mean, deviation, leasts, mosts, means, deviations, err)
  call same(least == 0 .and. most == 200 + ranks - 1 .and. all(mosts == [0, 100, 200] + ranks - 1), "adios_get_statistics_real8")
  call adios_gclose(gp, err)
  call adios_fclose(fp, err)
  call same(err == 0 .and. fp == 0, "adios_fclose")

  call adios_fopen(fp, "nowhere.bp", comm, groups, err)
  call same(err /= 0 .and. fp == 0, "a file that is not there is an error on all ranks")
  ! A file that one rank alone opens.
  err = 0
  if (rank == 0) then
    call adios_fopen(fp, "version1_ranks.bp", MPI_COMM_SELF, groups, err)
    if (err == 0) call adios_fclose(fp, err)
  end if
  call same(err == 0, "one rank alone opens it")
  call adios_read_finalize(err)
  call MPI_Finalize(err)
  if (failures > 0) error stop 1
contains
  ! Of all ranks.
  subroutine same(is_so, what)
    logical, intent(in) :: is_so
    character(*), intent(in) :: what
    integer :: code
    call MPI_Allreduce(is_so, everywhere, 1, MPI_LOGICAL, MPI_LAND, MPI_COMM_WORLD, code)
    if (.not. is_so) failures = failures + 1
    if (world /= 0) return
    if (everywhere) then
      print '(2a)', "ok ", what
    else
      print '(2a)', "not ok ", what
      failures = failures + 1
    end if
  end subroutine same
end program version1_ranks
