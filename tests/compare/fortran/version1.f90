! Version 1 of the read interface by bare calls; compiled against ADIOS 1.13 and against Thalweg, unchanged.
!   version1 write FILE STEPS      each rank writes its part of an array, and a local array
!   version1 read FILE STEPS SAID  all ranks open the file; each says in SAID.RANK what it finds
! Extents of the arrays must differ from STEPS.
program version1
  implicit none
  include 'mpif.h'
  integer, parameter :: adios_integer = 2, adios_double = 6, adios_string = 9
  integer, parameter :: out = 10
  integer :: rank, ranks, steps, err
  character(20) :: what, number
  character(200) :: path, argument

  call MPI_Init(err)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, err)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, err)
  call get_command_argument(1, what)
  call get_command_argument(2, path)
  call get_command_argument(3, argument)
  read (argument, *) steps
  if (what == "write") then
    call write_file()
  else
    call get_command_argument(4, argument)
    write (number, '(i0)') rank
    open (out, file=trim(argument) // "." // trim(number), status="replace", action="write")
    call read_file()
    close (out)
  end if
  call MPI_Finalize(err)
contains
  subroutine must(what)
    character(*), intent(in) :: what
    if (err == 0) return
    print '(2a,i0)', what, " fails: ", err
    call MPI_Abort(MPI_COMM_WORLD, 1, err)
  end subroutine must

  subroutine write_file()
    integer(8) :: group, id, fd, total
    integer :: step, i
    real(8) :: t(3, 2)
    real(4) :: own(2)
    call adios_init_noxml(MPI_COMM_WORLD, err)
    call must("adios_init_noxml")
    call adios_set_max_buffer_size(10)
    call adios_declare_group(group, "g", "", 1, err)
    call adios_select_method(group, "MPI", "", "", err)
    call adios_define_var(group, "columns", "", adios_integer, "", "", "", id)
    call adios_define_var(group, "first", "", adios_integer, "", "", "", id)
    call adios_define_var(group, "n", "", adios_integer, "", "", "", id)
    call adios_define_var(group, "t", "", adios_double, "3,2", "3,columns", "0,first", id)
    call adios_define_var(group, "own", "in/a/path", 5, "2", "", "", id)
    call adios_define_var(group, "note", "", adios_string, "", "", "", id)
    call adios_define_attribute(group, "unit", "t", adios_string, "Kelvin", "", err)
    call adios_define_attribute(group, "limit", "", adios_integer, "7", "", err)
    do step = 0, steps - 1
      call adios_open(fd, "g", trim(path), merge("w", "a", step == 0), MPI_COMM_WORLD, err)
      call must("adios_open")
      call adios_group_size(fd, 200_8, total, err)
      call adios_write(fd, "columns", 2 * ranks, err)
      call adios_write(fd, "first", 2 * rank, err)
      call adios_write(fd, "n", step + 10, err)
      t = reshape([(100d0 * step + 10 * rank + i, i=1, 6)], [3, 2])
      call adios_write(fd, "t", t, err)
      own = [rank + 0.5, step + 0.25]
      call adios_write(fd, "in/a/path/own", own, err)
      call adios_write(fd, "note", "hello", err)
      call must("adios_write")
      call adios_close(fd, err)
      call must("adios_close")
    end do
    call adios_finalize(rank, err)
    call must("adios_finalize")
  end subroutine write_file

  subroutine read_file()
    integer(8) :: fp, gp
    integer :: groups, vars, attrs, first, found, last, i
    character(30) :: names(20), attributes(20)
    call adios_set_read_method(0, err)
    call must("adios_set_read_method")
    call adios_read_init(MPI_COMM_WORLD, err)
    call must("adios_read_init")
    call adios_fopen(fp, trim(path), MPI_COMM_WORLD, groups, err)
    call must("adios_fopen")
    names = " "
    attributes = " "
    call adios_inq_file(fp, vars, attrs, first, found, names, err)
    call must("adios_inq_file")
    write (out, '(5(a,i0),2a)') "rank ", rank, ": groups ", groups, ", variables ", vars, ", attributes ", attrs, &
      ", first step ", first, ": ", trim(names(1))
    call adios_gopen(fp, gp, trim(names(1)), vars, attrs, err)
    call must("adios_gopen")
    call adios_inq_group(gp, names, attributes, first, last, err)
    call must("adios_inq_group")
    do i = 1, vars
      call variable(gp, trim(names(i)))
    end do
    do i = 1, attrs
      call attribute(gp, trim(attributes(i)))
    end do
    call variable(gp, "nobody")
    call adios_gclose(gp, err)
    call must("adios_gclose")
    call adios_fclose(fp, err)
    call must("adios_fclose")
    call adios_read_finalize(err)
    call must("adios_read_finalize")
  end subroutine read_file

  subroutine variable(gp, name)
    integer(8), intent(in) :: gp
    character(*), intent(in) :: name
    integer :: kind, ndim, timedim, ints(100)
    integer(8) :: dims(10), start(10), count(10), bytes
    real(8) :: doubles(1000)
    real(4) :: reals(100)
    character(20) :: text
    dims = 0
    call adios_inq_var(gp, name, kind, ndim, dims, timedim, err)
    if (err /= 0) then
      write (out, '(2a)') name, ": an error"
      return
    end if
    ! ADIOS 1.13 gives time first, and reads it last.
    if (ndim > 1 .and. timedim == ndim - 1 .and. dims(1) == steps) dims(1:ndim) = cshift(dims(1:ndim), 1)
    write (out, '(2a,2(i0,a),10(i0,1x))') name, ": type ", kind, ", dimensions ", ndim, ": ", dims(1:ndim)
    start = 0
    count = dims
    doubles = -1
    reals = -1
    ints = -1
    text = "?"
    select case (kind)
    case (adios_double)
      call adios_read_var(gp, name, start, count, doubles, bytes)
      write (out, '(i0,a,100(1x,f0.2))') bytes, " bytes:", doubles(1:max(0, int(bytes / 8)))
      ! A part: the last column of the last step.
      start(2) = dims(2) - 1
      count(2) = 1
      call adios_read_var_real8(gp, name, start, count, doubles, bytes)
      write (out, '(i0,a,100(1x,f0.2))') bytes, " bytes of a column:", doubles(1:max(0, int(bytes / 8)))
    case (adios_integer)
      call adios_read_var(gp, name, start, count, ints, bytes)
      write (out, '(i0,a,100(1x,i0))') bytes, " bytes:", ints(1:max(0, int(bytes / 4)))
    case (adios_string)
      call adios_read_var(gp, name, start, count, text, bytes)
      write (out, '(2a)') "text: ", text(1:scan(text // char(0), char(0) // " ") - 1)
    case default
      ! Of the first step, which is all that ADIOS 1.13 reads of a local array here.
      if (ndim > 1) count(2) = 1
      call adios_read_local_var(gp, name, rank, start, count, reals, bytes)
      write (out, '(i0,a,100(1x,f0.2))') bytes, " bytes of this rank:", reals(1:max(0, int(bytes / 4)))
    end select
  end subroutine variable

  subroutine attribute(gp, name)
    integer(8), intent(in) :: gp
    character(*), intent(in) :: name
    integer :: kind, length, n
    character(20) :: text
    call adios_inq_attr(gp, name, kind, length, err)
    call must("adios_inq_attr")
    write (out, '(2a,2(i0,a))') name, ": type ", kind, ", ", length, " bytes"
    if (kind == adios_string) then
      text = "?"
      call adios_get_attr(gp, name, text, err)
      call must("adios_get_attr of a text")
      write (out, '(2a)') "text: ", text(1:scan(text // char(0), char(0) // " ") - 1)
    else if (kind == adios_integer) then
      call adios_get_attr(gp, name, n, err)
      call must("adios_get_attr")
      write (out, '(a,i0)') "number: ", n
    end if
  end subroutine attribute
end program version1
