!> The Gray-Scott model on a periodic cube, distributed over MPI ranks: ../solver.c with bit-identical results.
!>
!>   du/dt = Du lap(u) - u v^2 + F (1 - u)
!>   dv/dt = Dv lap(v) + u v^2 - (F + k) v
!>
!> Fields are u(z, y, x): z is the fastest dimension, as in C's u[x][y][z].
module solver
  use, intrinsic :: iso_fortran_env, only: error_unit, int64, real64
  use mpi_f08
  implicit none
  private
  public :: settings_type, solver_type, solver_create, solver_start, solver_step, solver_fingerprint, solver_destroy

  type :: settings_type
    integer :: size = 64 !< cells along each edge of the cube
    real(real64) :: F = 0.02_real64, k = 0.048_real64 !< feed rate, kill rate
    real(real64) :: Du = 0.2_real64, Dv = 0.1_real64 !< diffusion rates, in cell edges squared per unit of time
    real(real64) :: dt = 1.0_real64 !< time step
    real(real64) :: noise = 0.01_real64 !< largest disturbance of u at the start
  end type settings_type

  type :: solver_type
    type(settings_type) :: set
    type(MPI_Comm) :: comm !< cartesian, periodic in three dimensions
    integer :: rank, ranks
    integer :: count(3) !< cells of this rank in x, y, z, without ghost cells
    integer :: offset(3) !< of its first cell in the cube
    integer :: below(3), above(3) !< neighbours
    type(MPI_Datatype) :: layer(4, 3) !< of cells across each dimension: lower ghosts, first, last, upper ghosts
    real(real64), allocatable, dimension(:, :, :) :: u, v, next_u, next_v !< (0:nz+1, 0:ny+1, 0:nx+1)
  end type solver_type

contains

  !> Distributes the cube over the ranks of `comm`. Ends the program if an edge has more ranks than cells.
  subroutine solver_create(s, set, comm)
    type(solver_type), intent(out) :: s
    type(settings_type), intent(in) :: set
    type(MPI_Comm), intent(in) :: comm
    integer :: dims(3), place(3), d, even, more, l, whole(3), part(3), start(3)
    s%set = set
    dims = 0
    call MPI_Comm_size(comm, s%ranks)
    call MPI_Dims_create(s%ranks, 3, dims)
    call MPI_Cart_create(comm, 3, dims, [.true., .true., .true.], .false., s%comm)
    call MPI_Comm_rank(s%comm, s%rank)
    call MPI_Cart_coords(s%comm, s%rank, 3, place)
    do d = 1, 3
      ! The first ranks get one more cell if the edge does not divide evenly.
      even = set%size / dims(d)
      more = mod(set%size, dims(d))
      s%count(d) = even + merge(1, 0, place(d) < more)
      s%offset(d) = place(d) * even + min(place(d), more)
      call MPI_Cart_shift(s%comm, d - 1, 1, s%below(d), s%above(d))
      if (even == 0) then
        if (s%rank == 0) write (error_unit, '(a, i0, a, i0, a)') "gray-scott: ", set%size, &
          " cells cannot be shared among ", dims(d), " ranks"
        call MPI_Abort(s%comm, 1)
      end if
    end do
    whole = s%count + 2
    do d = 1, 3
      do l = 1, 4
        part = s%count
        part(d) = 1
        start = 1
        start(d) = merge((l - 1), s%count(d) + l - 3, l < 3)
        ! Dimensions of the array are z, y, x.
        call MPI_Type_create_subarray(3, whole(3:1:-1), part(3:1:-1), start(3:1:-1), MPI_ORDER_FORTRAN, &
          MPI_DOUBLE_PRECISION, s%layer(l, d))
        call MPI_Type_commit(s%layer(l, d))
      end do
    end do
    associate (nx => s%count(1), ny => s%count(2), nz => s%count(3))
      allocate (s%u(0:nz + 1, 0:ny + 1, 0:nx + 1), source=0.0_real64)
      allocate (s%v, s%next_u, s%next_v, mold=s%u)
      s%v = 0
      s%next_u = 0
      s%next_v = 0
    end associate
  end subroutine solver_create

  !> The number of a cell in the whole cube, from which noise and fingerprint are computed, so that they do not depend
  !> on the ranks.
  pure integer(int64) function cell_number(s, i, j, k)
    type(solver_type), intent(in) :: s
    integer, intent(in) :: i, j, k
    cell_number = ((s%offset(1) + i - 1) * int(s%set%size, int64) + s%offset(2) + j - 1) * s%set%size + s%offset(3) + k - 1
  end function cell_number

  !> Mixes 64 bits well (the finalizer of splitmix64). Its products wrap round: compile with -fwrapv -fno-range-check.
  pure integer(int64) function mix(number)
    integer(int64), intent(in) :: number
    mix = number + int(z'9e3779b97f4a7c15', int64)
    mix = ieor(mix, shiftr(mix, 30)) * int(z'bf58476d1ce4e5b9', int64)
    mix = ieor(mix, shiftr(mix, 27)) * int(z'94d049bb133111eb', int64)
    mix = ieor(mix, shiftr(mix, 31))
  end function mix

  !> The state at step 0: u = 1 and v = 0, a cube with opposite values in the middle, and a little noise.
  subroutine solver_start(s)
    type(solver_type), intent(inout) :: s
    integer :: middle, half, i, j, k
    real(real64) :: random
    logical :: is_seeded
    middle = s%set%size / 2
    half = s%set%size / 10 + 1
    do i = 1, s%count(1)
      do j = 1, s%count(2)
        do k = 1, s%count(3)
          is_seeded = all(abs(s%offset + [i, j, k] - 1 - middle) < half)
          random = real(shiftr(mix(cell_number(s, i, j, k)), 11), real64) * 2.0_real64**(-53) ! in [0, 1)
          s%u(k, j, i) = merge(0.25_real64, 1.0_real64, is_seeded) - s%set%noise * random
          s%v(k, j, i) = merge(0.33_real64, 0.0_real64, is_seeded)
        end do
      end do
    end do
  end subroutine solver_start

  !> Fills the ghost layers of a field, except corners, which the stencil does not use.
  subroutine exchange(s, field)
    type(solver_type), intent(in) :: s
    real(real64), intent(inout), contiguous :: field(:, :, :)
    integer :: d
    do d = 1, 3
      call MPI_Sendrecv(field, 1, s%layer(2, d), s%below(d), 2 * d, field, 1, s%layer(4, d), s%above(d), 2 * d, &
        s%comm, MPI_STATUS_IGNORE)
      call MPI_Sendrecv(field, 1, s%layer(3, d), s%above(d), 2 * d + 1, field, 1, s%layer(1, d), s%below(d), 2 * d + 1, &
        s%comm, MPI_STATUS_IGNORE)
    end do
  end subroutine exchange

  !> One time step.
  subroutine solver_step(s)
    type(solver_type), intent(inout) :: s
    real(real64) :: lap_u, lap_v, reaction
    integer :: i, j, k
    call exchange(s, s%u)
    call exchange(s, s%v)
    associate (u => s%u, v => s%v, p => s%set)
      do i = 1, s%count(1)
        do j = 1, s%count(2)
          do k = 1, s%count(3)
            lap_u = ((u(k, j, i - 1) + u(k, j, i + 1)) + (u(k, j - 1, i) + u(k, j + 1, i)) &
              + (u(k - 1, j, i) + u(k + 1, j, i))) / 6.0_real64 - u(k, j, i)
            lap_v = ((v(k, j, i - 1) + v(k, j, i + 1)) + (v(k, j - 1, i) + v(k, j + 1, i)) &
              + (v(k - 1, j, i) + v(k + 1, j, i))) / 6.0_real64 - v(k, j, i)
            reaction = u(k, j, i) * v(k, j, i) * v(k, j, i)
            s%next_u(k, j, i) = u(k, j, i) + p%dt * (p%Du * lap_u - reaction + p%F * (1.0_real64 - u(k, j, i)))
            s%next_v(k, j, i) = v(k, j, i) + p%dt * (p%Dv * lap_v + reaction - (p%F + p%k) * v(k, j, i))
          end do
        end do
      end do
    end associate
    call swap(s%u, s%next_u)
    call swap(s%v, s%next_v)
  end subroutine solver_step

  subroutine swap(a, b)
    real(real64), allocatable, intent(inout) :: a(:, :, :), b(:, :, :)
    real(real64), allocatable :: c(:, :, :)
    call move_alloc(a, c)
    call move_alloc(b, a)
    call move_alloc(c, b)
  end subroutine swap

  !> A fingerprint of the bits of u and v over all ranks: the same on all ranks and for any number of ranks.
  !> Collective.
  integer(int64) function solver_fingerprint(s) result(all_ranks)
    type(solver_type), intent(in) :: s
    integer(int64) :: mine, cell
    integer :: i, j, k
    ! A sum of mixed terms, so that the order of cells and ranks does not matter.
    mine = 0
    do i = 1, s%count(1)
      do j = 1, s%count(2)
        do k = 1, s%count(3)
          cell = cell_number(s, i, j, k)
          mine = mine + mix(ieor(mix(transfer(s%u(k, j, i), cell) + 2 * cell), &
            mix(transfer(s%v(k, j, i), cell) + 2 * cell + 1)))
        end do
      end do
    end do
    call MPI_Allreduce(mine, all_ranks, 1, MPI_INTEGER8, MPI_SUM, s%comm)
  end function solver_fingerprint

  subroutine solver_destroy(s)
    type(solver_type), intent(inout) :: s
    integer :: d, l
    do d = 1, 3
      do l = 1, 4
        call MPI_Type_free(s%layer(l, d))
      end do
    end do
    deallocate (s%u, s%v, s%next_u, s%next_v)
    call MPI_Comm_free(s%comm)
  end subroutine solver_destroy
end module solver
