!> Input windows: owners read windows of a file ahead, ranks ask for bytes and go on computing; see docs/guide/windows.md. The calls are
!> those of thalweg.h. `err` is 0 or a status of thalweg.h; `windows_error` of thalweg_windows_mod gives its text. Windows and requests are
!> numbers; offsets and lengths are in bytes.
module thalweg_input_mod
  use, intrinsic :: iso_c_binding, only: c_char, c_double, c_int, c_int32_t, c_int64_t, c_null_char, c_null_ptr, c_ptr
  use thalweg_windows_mod, only: window_options
  implicit none
  private
  public :: input_open, input_open_processes, input_length, input_start, input_read, input_test, input_wait, input_end
  public :: input_finish
  public :: input_progress, input_close

  !> A file open for input windows.
  type, public :: input_file
    private
    type(c_ptr) :: handle = c_null_ptr
  end type input_file

  interface
    integer(c_int) function c_open(file, path, memory, comm) bind(c, name='thalweg_fortran_input_open')
      import :: c_int, c_int64_t, c_char, c_ptr
      type(c_ptr), intent(out) :: file
      character(kind=c_char), intent(in) :: path(*)
      integer(c_int64_t), value :: memory
      integer(c_int), value :: comm
    end function c_open

    integer(c_int) function c_open_processes(file, path, memory, folder, rank, ranks, within) &
      bind(c, name='thalweg_input_open_processes')
      import :: c_int, c_int32_t, c_int64_t, c_char, c_double, c_ptr
      type(c_ptr), intent(out) :: file
      character(kind=c_char), intent(in) :: path(*), folder(*)
      integer(c_int64_t), value :: memory
      integer(c_int32_t), value :: rank, ranks
      real(c_double), value :: within
    end function c_open_processes

    integer(c_int64_t) function c_length(file) bind(c, name='thalweg_input_length')
      import :: c_int64_t, c_ptr
      type(c_ptr), value :: file
    end function c_length

    integer(c_int) function c_start(file, window, offset, length, options) bind(c, name='thalweg_input_start')
      import :: c_int, c_int64_t, c_ptr, window_options
      type(c_ptr), value :: file
      integer(c_int64_t), intent(out) :: window
      integer(c_int64_t), value :: offset, length
      type(window_options), intent(in) :: options
    end function c_start

    integer(c_int) function c_read(file, window, offset, bytes, request) bind(c, name='thalweg_input_read')
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), value :: file
      integer(c_int64_t), value :: window, offset, bytes
      integer(c_int64_t), intent(out) :: request
    end function c_read

    integer(c_int) function c_test(file, request, data, bytes, complete) bind(c, name='thalweg_input_test')
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), value :: file
      integer(c_int64_t), value :: request
      type(*), intent(inout) :: data(*)
      integer(c_int64_t), value :: bytes
      integer(c_int), intent(out) :: complete
    end function c_test

    integer(c_int) function c_wait(file, request, data, bytes) bind(c, name='thalweg_input_wait')
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), value :: file
      integer(c_int64_t), value :: request
      type(*), intent(inout) :: data(*)
      integer(c_int64_t), value :: bytes
    end function c_wait

    integer(c_int) function c_end(file, window) bind(c, name='thalweg_input_end')
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), value :: file
      integer(c_int64_t), value :: window
    end function c_end

    integer(c_int) function c_finish(file, window) bind(c, name='thalweg_input_finish')
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), value :: file
      integer(c_int64_t), value :: window
    end function c_finish

    integer(c_int) function c_progress(file) bind(c, name='thalweg_input_progress')
      import :: c_int, c_ptr
      type(c_ptr), value :: file
    end function c_progress

    integer(c_int) function c_close(file) bind(c, name='thalweg_input_close')
      import :: c_int, c_ptr
      type(c_ptr), value :: file
    end function c_close
  end interface

contains

  !> Collective over the ranks of `comm`, a communicator of the module `mpi` (`comm%mpi_val` for one of `mpi_f08`).
  !>
  !> memory: most bytes that this process holds as an owner; by default 256 MiB.
  subroutine input_open(file, path, comm, err, memory)
    type(input_file), intent(out) :: file
    character(len=*), intent(in) :: path
    integer, intent(in) :: comm
    integer, intent(out) :: err
    integer(c_int64_t), intent(in), optional :: memory
    err = c_open(file%handle, trim(path) // c_null_char, given(memory), int(comm, c_int))
  end subroutine input_open

  !> Collective: processes of one machine that meet in a folder. within: longest wait for the others, in seconds.
  subroutine input_open_processes(file, path, folder, rank, ranks, within, err, memory)
    type(input_file), intent(out) :: file
    character(len=*), intent(in) :: path, folder
    integer, intent(in) :: rank, ranks
    real(c_double), intent(in) :: within
    integer, intent(out) :: err
    integer(c_int64_t), intent(in), optional :: memory
    err = c_open_processes(file%handle, trim(path) // c_null_char, given(memory), trim(folder) // c_null_char, &
      int(rank, c_int32_t), int(ranks, c_int32_t), within)
  end subroutine input_open_processes

  !> Bytes of the file when it was opened.
  integer(c_int64_t) function input_length(file)
    type(input_file), intent(in) :: file
    input_length = c_length(file%handle)
  end function input_length

  !> Every rank starts the same windows in the same order; waits for nobody.
  subroutine input_start(file, window, offset, length, err, options)
    type(input_file), intent(in) :: file
    integer(c_int64_t), intent(out) :: window
    integer(c_int64_t), intent(in) :: offset, length
    integer, intent(out) :: err
    type(window_options), intent(in), optional :: options
    if (present(options)) then
      err = c_start(file%handle, window, offset, length, options)
    else
      err = c_start(file%handle, window, offset, length, window_options())
    end if
  end subroutine input_start

  !> Asks for bytes of the window; returns at once.
  subroutine input_read(file, window, offset, bytes, request, err)
    type(input_file), intent(in) :: file
    integer(c_int64_t), intent(in) :: window, offset, bytes
    integer(c_int64_t), intent(out) :: request
    integer, intent(out) :: err
    err = c_read(file%handle, window, offset, bytes, request)
  end subroutine input_read

  !> Whether the bytes of a request are there: they are then in `data`.
  subroutine input_test(file, request, data, bytes, complete, err)
    type(input_file), intent(in) :: file
    integer(c_int64_t), intent(in) :: request
    type(*), intent(inout) :: data(*)
    integer(c_int64_t), intent(in) :: bytes
    logical, intent(out) :: complete
    integer, intent(out) :: err
    integer(c_int) :: answer
    err = c_test(file%handle, request, data, bytes, answer)
    complete = answer /= 0
  end subroutine input_test

  !> Waits for the bytes of a request.
  subroutine input_wait(file, request, data, bytes, err)
    type(input_file), intent(in) :: file
    integer(c_int64_t), intent(in) :: request
    type(*), intent(inout) :: data(*)
    integer(c_int64_t), intent(in) :: bytes
    integer, intent(out) :: err
    err = c_wait(file%handle, request, data, bytes)
  end subroutine input_wait

  !> This rank reads nothing more from the window.
  subroutine input_end(file, window, err)
    type(input_file), intent(in) :: file
    integer(c_int64_t), intent(in) :: window
    integer, intent(out) :: err
    err = c_end(file%handle, window)
  end subroutine input_end

  !> The same, and serves other ranks until all have ended their parts: before collective calls of the program's own.
  subroutine input_finish(file, window, err)
    type(input_file), intent(in) :: file
    integer(c_int64_t), intent(in) :: window
    integer, intent(out) :: err
    err = c_finish(file%handle, window)
  end subroutine input_finish

  !> Serves other ranks and reads at most one fraction.
  subroutine input_progress(file, err)
    type(input_file), intent(in) :: file
    integer, intent(out) :: err
    err = c_progress(file%handle)
  end subroutine input_progress

  !> Collective.
  subroutine input_close(file, err)
    type(input_file), intent(inout) :: file
    integer, intent(out) :: err
    err = c_close(file%handle)
    file%handle = c_null_ptr
  end subroutine input_close

  integer(c_int64_t) function given(memory)
    integer(c_int64_t), intent(in), optional :: memory
    given = 0
    if (present(memory)) given = memory
  end function given
end module thalweg_input_mod
