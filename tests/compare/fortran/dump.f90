! Prints what a file holds, by the calls of adios_read_mod; compiled against ADIOS 1.13 and against Thalweg, unchanged.
! Arguments: file, "file" or "stream".
program dump
  use mpi
  use adios_read_mod
  implicit none
  integer(8) :: fp, dims(16), sel, start(16), count(16)
  integer :: err, nvars, nattrs, ngroups, last, current, v, vartype, nsteps, ndim, size, i
  character(200) :: path, mode
  character(200), allocatable :: names(:)
  logical :: is_stream

  call MPI_Init(err)
  call get_command_argument(1, path)
  call get_command_argument(2, mode)
  is_stream = mode == "stream"
  call adios_read_init_method(adios_read_method_bp, MPI_COMM_WORLD, "verbose=0", err)
  if (is_stream) then
    call adios_read_open_stream(fp, path, adios_read_method_bp, MPI_COMM_WORLD, adios_lockmode_none, 0.0, err)
  else
    call adios_read_open_file(fp, path, adios_read_method_bp, MPI_COMM_WORLD, err)
  end if
  print '(a, l1)', "opened ", err == 0
  do
    call adios_inq_file(fp, nvars, nattrs, current, last, err)
    call adios_inq_ngroups(fp, ngroups, err)
    print '(4(a, i0))', "groups ", ngroups, " step ", merge(current, 0, is_stream), " last ", merge(last, 0, .not. is_stream)
    allocate (names(max(nvars, nattrs, ngroups) + 1))
    names = ""
    call adios_inq_groupnames(fp, names, err)
    do i = 1, ngroups
      print '(3a)', "group [", trim(names(i)), "]"
    end do
    names = ""
    call adios_inq_varnames(fp, names, err)
    do v = 1, nvars
      if (index(names(v), "__adios__") == 0) call show(names(v))
    end do
    names = ""
    call adios_inq_attrnames(fp, names, err)
    if (is_stream .and. current > 0) nattrs = 0 ! later steps of a stream have them there only where they were written again
    do v = 1, nattrs
      if (index(names(v), "__adios__") == 0) call show_attribute(names(v))
    end do
    deallocate (names)
    if (.not. is_stream) exit
    call adios_advance_step(fp, 0, 0.0, err)
    if (err /= 0) exit
  end do
  call adios_read_close(fp, err)
  call adios_read_finalize_method(adios_read_method_bp, err)
  call MPI_Finalize(err)

contains

  subroutine show(name)
    character(*), intent(in) :: name
    integer :: s, d
    integer(1), allocatable :: i1(:)
    integer(2), allocatable :: i2(:)
    integer(4), allocatable :: i4(:)
    integer(8), allocatable :: i8(:)
    real(4), allocatable :: r4(:)
    real(8), allocatable :: r8(:)
    complex(4), allocatable :: c4(:)
    complex(8), allocatable :: c8(:)
    character(100) :: text
    integer(8) :: n
    call adios_inq_var(fp, name, vartype, nsteps, ndim, dims, err)
    print '(3a, i0, a, i0, a, 16(1x, i0))', "variable [", trim(name), "] type ", vartype, " steps ", nsteps, " dims", dims(:ndim)
    do s = 0, merge(0, nsteps - 1, is_stream)
      do d = 0, min(ndim, 1)
        ! All of it; of arrays then the second half in the fastest dimension.
        sel = 0
        n = product(dims(:ndim))
        start = 0
        count = 1
        count(:ndim) = dims(:ndim)
        if (d == 1) then
          start(1) = dims(1) / 2
          count(1) = dims(1) - start(1)
          n = product(count(:ndim))
        end if
        if (name == "local") then
          if (d == 1) cycle
          call adios_selection_writeblock(sel, 0)
        else if (ndim > 0) then
          call adios_selection_boundingbox(sel, ndim, start, count)
        end if
        select case (vartype)
        case (adios_byte)
          allocate (i1(n), source=-1_1)
          call adios_schedule_read(fp, sel, name, s, 1, i1, err)
          call adios_perform_reads(fp, err)
          print '(a, *(1x, i0))', "  byte", i1
          deallocate (i1)
        case (adios_short)
          allocate (i2(n), source=-1_2)
          call adios_schedule_read(fp, sel, name, s, 1, i2, err)
          call adios_perform_reads(fp, err)
          print '(a, *(1x, i0))', "  short", i2
          deallocate (i2)
        case (adios_integer)
          allocate (i4(n), source=-1_4)
          call adios_schedule_read(fp, sel, name, s, 1, i4, err)
          call adios_perform_reads(fp, err)
          print '(a, *(1x, i0))', "  integer", i4
          deallocate (i4)
        case (adios_long)
          allocate (i8(n), source=-1_8)
          call adios_schedule_read(fp, sel, name, s, 1, i8, err)
          call adios_perform_reads(fp, err)
          print '(a, *(1x, i0))', "  long", i8
          deallocate (i8)
        case (adios_real)
          allocate (r4(n), source=-1.0)
          call adios_schedule_read(fp, sel, name, s, 1, r4, err)
          call adios_perform_reads(fp, err)
          print '(a, *(1x, g0))', "  real", r4
          deallocate (r4)
        case (adios_double)
          allocate (r8(n), source=-1d0)
          call adios_schedule_read(fp, sel, name, s, 1, r8, err)
          call adios_perform_reads(fp, err)
          print '(a, *(1x, g0))', "  double", r8
          deallocate (r8)
        case (adios_complex)
          allocate (c4(n), source=(-1.0, 0.0))
          call adios_schedule_read(fp, sel, name, s, 1, c4, err)
          call adios_perform_reads(fp, err)
          print '(a, *(1x, g0))', "  complex", c4
          deallocate (c4)
        case (adios_double_complex)
          allocate (c8(n), source=(-1d0, 0d0))
          call adios_schedule_read(fp, sel, name, s, 1, c8, err)
          call adios_perform_reads(fp, err)
          print '(a, *(1x, g0))', "  double complex", c8
          deallocate (c8)
        case (adios_string)
          text = "" ! the reference puts no blanks behind a text
          call adios_schedule_read(fp, sel, name, s, 1, text, err)
          call adios_perform_reads(fp, err)
          i = index(text, achar(0))
          if (i > 0) text(i:) = ""
          print '(3a)', "  text [", trim(text), "]"
        end select
        if (ndim > 0) call adios_selection_delete(sel)
      end do
    end do
    if (ndim == 0 .and. vartype == adios_integer) then
      allocate (i4(1))
      call adios_get_scalar(fp, name, i4(1), err)
      print '(a, i0)', "  scalar ", i4
      deallocate (i4)
    end if
    if (ndim > 0 .and. vartype == adios_double) then
      block
        real(8) :: value, low, high, mean, deviation, lows(100), highs(100), means(100), deviations(100)
        call adios_get_statistics(fp, name, value, low, high, mean, deviation, lows, highs, means, deviations, err)
        ! There those of each step are no numbers.
        print '(a, *(1x, g0))', "  between", low, high
      end block
    end if
  end subroutine show

  subroutine show_attribute(name)
    character(*), intent(in) :: name
    integer(4) :: numbers(100)
    real(4) :: single
    real(8) :: double
    character(100) :: text
    call adios_inq_attr(fp, name, vartype, size, err)
    select case (vartype)
    case (adios_integer)
      if (size == 4) then
        call adios_get_attr(fp, name, numbers(1), err)
        print '(3a, i0)', "attribute [", trim(name), "] ", numbers(1)
      else
        print '(3a, i0)', "attribute [", trim(name), "] bytes ", size
      end if
    case (adios_real)
      call adios_get_attr(fp, name, single, err)
      print '(3a, g0)', "attribute [", trim(name), "] ", single
    case (adios_double)
      call adios_get_attr(fp, name, double, err)
      print '(3a, g0)', "attribute [", trim(name), "] ", double
    case (adios_string)
      text = ""
      call adios_get_attr(fp, name, text, err)
      i = index(text, achar(0))
      if (i > 0) text(i:) = ""
      ! With a zero byte, ADIOS 1.13 counts one more.
      print '(3a, i0, 3a)', "attribute [", trim(name), "] bytes ", size, " [", trim(text), "]"
    end select
  end subroutine show_attribute
end program dump
