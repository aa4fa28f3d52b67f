! left HOW METHOD FILE: a program that ends without having closed what it opened, behind 20 closed steps; with MPI or (-DALONE) without.
! HOW is one of
!   end           the program's end
!   stop          stop
!   error-stop    error stop
!   early         stop without MPI_Finalize
!   one           error stop without MPI_Finalize by the last rank, while the others wait in the close of the step
! What is written is as in ranks.c.
program left
#ifndef ALONE
  use mpi
#endif
  use adios_write_mod
  implicit none
  integer :: comm = 0, rank = 0, ranks = 1, err, n
  integer(8) :: group, fd, id, total
  character(20) :: how, method, offset, extent
  character(200) :: path
  call get_command_argument(1, how)
  call get_command_argument(2, method)
  call get_command_argument(3, path)
#ifndef ALONE
  comm = MPI_COMM_WORLD
  call MPI_Init(err)
  call MPI_Comm_rank(comm, rank, err)
  call MPI_Comm_size(comm, ranks, err)
#endif
  write (offset, '(a,i0)') "0,", rank
  write (extent, '(a,i0)') "3,", ranks
  call adios_init_noxml(comm, err)
  call adios_declare_group(group, "g", "", adios_stat_default, err)
  call adios_select_method(group, trim(method), "", "", err)
  call adios_define_var(group, "n", "", adios_integer, "", "", "", id)
  call adios_define_var(group, "t", "", adios_double, "3,1", trim(extent), trim(offset), id)
  do n = 0, 20
    call adios_open(fd, "g", trim(path), merge("w", "a", n == 0), comm, err)
    call must("adios_open")
    call adios_group_size(fd, 28_8, total, err)
    call adios_write(fd, "n", n, err)
    call must("adios_write")
    call adios_write(fd, "t", [100d0 * n + 10 * rank, 100d0 * n + 10 * rank + 1, 100d0 * n + 10 * rank + 2], err)
    call must("adios_write")
    if (n < 20) call adios_close(fd, err)
    call must("adios_close")
  end do
#ifndef ALONE
  if (how == "one") then
    if (rank == ranks - 1) error stop 3
    call adios_close(fd, err)
  end if
  if (how /= "early") call MPI_Finalize(err)
#endif
  if (how == "stop" .or. how == "early") stop
  if (how == "error-stop") error stop 3
contains
  subroutine must(what)
    character(*), intent(in) :: what
    if (err == 0) return
    print '(2a,i0)', what, " fails: ", err
    error stop 9
  end subroutine must
end program left
