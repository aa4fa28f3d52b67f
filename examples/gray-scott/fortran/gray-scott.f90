!> gray-scott: reaction and diffusion of two chemicals in a periodic cube, with its output described in gray-scott.xml. The same
!> simulation as ../gray-scott.c, with the same options and files.
!>
!>   mpiexec -n 4 ./gray-scott --size 64 --steps 1000 --plotgap 100 --checkpoint 500
!>   mpiexec -n 3 ./gray-scott --size 64 --steps 2000 --restart
program gray_scott
  use, intrinsic :: iso_fortran_env, only: error_unit, int64, real64
  use mpi_f08
  use adios_write_mod
  use solver
  use output
  implicit none

  type(settings_type) :: set
  type(solver_type) :: s
  integer :: steps = 1000, plotgap = 100, checkpoint = 500, first = 0, plots = 0, step, err
  logical :: is_restart = .false., is_old
  character(500) :: config = "gray-scott.xml", fields_path = "gs.bp", state_path = "restart.bp"
  character(1) :: fields_mode = "w", state_mode = "w"
  real(real64) :: begin, before, writing, mine(2), slowest(2)
  integer(int64) :: fingerprint

  call MPI_Init()
  call read_options
  call solver_create(s, set, MPI_COMM_WORLD)
  call adios_init(config, s%comm, err)
  call output_check(s, err, "configuring from", config)

  begin = MPI_Wtime()
  writing = 0
  if (is_restart) then
    first = restart_read(s, state_path)
    fields_mode = "a"
    state_mode = "a"
    if (s%rank == 0) print '(a, i0, 3a, i0, a)', "carrying on from step ", first, " of ", trim(state_path), " on ", s%ranks, &
      " ranks"
  else
    call solver_start(s)
  end if

  do step = first, steps
    if (step > first) then
      call adios_start_calculation(err) ! from here the network is ours: a method keeps its bytes back
      call solver_step(s)
      call adios_stop_calculation(err)
    end if
    is_old = is_restart .and. step == first ! the run before wrote this step
    before = MPI_Wtime()
    if (.not. is_old .and. is_due(step, plotgap)) then
      call output_fields(s, step, fields_path, fields_mode)
      fields_mode = "a"
      plots = plots + 1
    end if
    if (.not. is_old .and. step > 0 .and. is_due(step, checkpoint)) then
      call output_restart(s, step, state_path, state_mode)
      state_mode = "a"
    end if
    writing = writing + MPI_Wtime() - before
    call adios_end_iteration(err)
  end do
  before = MPI_Wtime()
  call adios_finalize(s%rank, err)
  call output_check(s, err, "finishing", fields_path)
  writing = writing + MPI_Wtime() - before

  mine = [MPI_Wtime() - begin, writing]
  call MPI_Reduce(mine, slowest, 2, MPI_DOUBLE_PRECISION, MPI_MAX, 0, s%comm)
  fingerprint = solver_fingerprint(s)
  if (s%rank == 0) then
    print '(i0, a, i0, a, i0, a, i0, a, f8.2, a, f8.2, a)', s%ranks, " ranks, steps ", first, " to ", steps, ", ", plots, &
      " outputs of fields: ", slowest(1), " s, of which output ", slowest(2), " s"
    print '(2a)', "fingerprint of the final state: ", hexadecimal(fingerprint)
  end if
  call solver_destroy(s)
  call MPI_Finalize()

contains

  character(16) function hexadecimal(number) result(text)
    integer(int64), intent(in) :: number
    character(16), parameter :: digits = "0123456789abcdef"
    integer :: i, digit
    do i = 1, 16
      digit = int(iand(shiftr(number, 64 - 4 * i), 15_int64))
      text(i:i) = digits(digit + 1:digit + 1)
    end do
  end function hexadecimal

  logical function is_due(step, gap)
    integer, intent(in) :: step, gap
    is_due = .false.
    if (gap > 0) is_due = mod(step, gap) == 0
  end function is_due

  subroutine read_options
    character(500) :: option, text
    integer :: at, status
    at = 1
    do while (at <= command_argument_count())
      call get_command_argument(at, option)
      at = at + 1
      if (option == "--restart") then
        is_restart = .true.
        cycle
      end if
      text = ""
      call get_command_argument(at, text)
      at = at + 1
      status = merge(0, 1, text /= "")
      select case (option)
      case ("--size")
        if (status == 0) read (text, *, iostat=status) set%size
        if (set%size < 1) status = 1
      case ("--steps")
        if (status == 0) read (text, *, iostat=status) steps
      case ("--plotgap")
        if (status == 0) read (text, *, iostat=status) plotgap
      case ("--checkpoint")
        if (status == 0) read (text, *, iostat=status) checkpoint
      case ("--F")
        if (status == 0) read (text, *, iostat=status) set%F
      case ("--k")
        if (status == 0) read (text, *, iostat=status) set%k
      case ("--Du")
        if (status == 0) read (text, *, iostat=status) set%Du
      case ("--Dv")
        if (status == 0) read (text, *, iostat=status) set%Dv
      case ("--dt")
        if (status == 0) read (text, *, iostat=status) set%dt
      case ("--noise")
        if (status == 0) read (text, *, iostat=status) set%noise
      case ("--config")
        config = text
      case ("--output")
        fields_path = text
      case ("--state")
        state_path = text
      case default
        status = 1
      end select
      if (status /= 0) then
        write (error_unit, '(a)') "gray-scott: " // trim(option) // " " // trim(text) // " is no option", &
          "usage: gray-scott [--size CELLS] [--steps N] [--plotgap N] [--checkpoint N] [--restart]", &
          "                  [--F X] [--k X] [--Du X] [--Dv X] [--dt X] [--noise X]", &
          "                  [--config gray-scott.xml] [--output gs.bp] [--state restart.bp]"
        call MPI_Abort(MPI_COMM_WORLD, 2)
      end if
    end do
  end subroutine read_options
end program gray_scott
