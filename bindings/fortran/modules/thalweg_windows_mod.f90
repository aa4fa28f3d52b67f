!> Output windows: ranks write bytes into windows of a file and go on computing; see docs/guide/windows.md. The calls are those of
!> thalweg.h. `err` is 0 or a status of thalweg.h; `windows_error` gives its text. Windows are numbers; offsets and lengths are in bytes.
module thalweg_windows_mod
  use, intrinsic :: iso_c_binding, only: c_char, c_double, c_funloc, c_funptr, c_int, c_int32_t, c_int64_t, c_null_char, &
    c_null_ptr, c_ptr, c_size_t
  use thalweg_bridge, only: bridge_last_error
  implicit none
  private
  public :: windows_open, windows_open_processes, window_start, window_write, window_try_write, window_end, window_test, window_wait
  public :: windows_progress, windows_close, windows_error, window_on_complete, window_completion

  !> A file open for output windows.
  type, public :: windows_file
    private
    type(c_ptr) :: handle = c_null_ptr
  end type windows_file

  !> Options of a window, the same on all ranks except the bytes to commit. A field that is 0 has its default.
  type, bind(c), public :: window_options
    type(c_ptr) :: owners = c_null_ptr           !< c_loc of a list of ranks (32 bits each),
    integer(c_size_t) :: owner_count = 0
    integer(c_int32_t) :: active = 0             !< or so many ranks, from `base` at a distance of `skip`
    integer(c_int32_t) :: base = 0
    integer(c_int32_t) :: skip = 0
    integer(c_int64_t) :: owner_stripe = 0
    integer(c_int64_t) :: write_stripe = 0
    integer(c_int64_t) :: fraction = 0
    integer(c_int64_t) :: alignment = 0
    real(c_double) :: time_limit = 0             !< seconds
    integer(c_int) :: durable = 0
    integer(c_int64_t) :: commit_offset = 0
    type(c_ptr) :: commit = c_null_ptr           !< c_loc of the bytes
    integer(c_int64_t) :: commit_bytes = 0
  end type window_options

  abstract interface
    !> Called with a window, its status, and the context given with the callback.
    subroutine window_completion(window, status, context) bind(c)
      import :: c_int, c_int64_t, c_ptr
      integer(c_int64_t), value :: window
      integer(c_int), value :: status
      type(c_ptr), value :: context
    end subroutine window_completion
  end interface

  interface
    integer(c_int) function c_on_complete(file, window, callback, context) bind(c, name='thalweg_window_on_complete')
      import :: c_funptr, c_int, c_int64_t, c_ptr
      type(c_ptr), value :: file
      integer(c_int64_t), value :: window
      type(c_funptr), value :: callback
      type(c_ptr), value :: context
    end function c_on_complete

    integer(c_int) function c_open(file, path, keep, memory, comm) bind(c, name='thalweg_fortran_windows_open')
      import :: c_int, c_int64_t, c_char, c_ptr
      type(c_ptr), intent(out) :: file
      character(kind=c_char), intent(in) :: path(*)
      integer(c_int), value :: keep
      integer(c_int64_t), value :: memory
      integer(c_int), value :: comm
    end function c_open

    integer(c_int) function c_open_processes(file, path, keep, memory, folder, rank, ranks, within) &
      bind(c, name='thalweg_windows_open_processes')
      import :: c_int, c_int32_t, c_int64_t, c_char, c_double, c_ptr
      type(c_ptr), intent(out) :: file
      character(kind=c_char), intent(in) :: path(*), folder(*)
      integer(c_int), value :: keep
      integer(c_int64_t), value :: memory
      integer(c_int32_t), value :: rank, ranks
      real(c_double), value :: within
    end function c_open_processes

    integer(c_int) function c_start(file, window, offset, length, options) bind(c, name='thalweg_window_start')
      import :: c_int, c_int64_t, c_ptr, window_options
      type(c_ptr), value :: file
      integer(c_int64_t), intent(out) :: window
      integer(c_int64_t), value :: offset, length
      type(window_options), intent(in) :: options
    end function c_start

    integer(c_int) function c_write(file, window, offset, data, bytes) bind(c, name='thalweg_window_write')
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), value :: file
      integer(c_int64_t), value :: window, offset
      type(*), intent(in) :: data(*)
      integer(c_int64_t), value :: bytes
    end function c_write

    integer(c_int) function c_try_write(file, window, offset, data, bytes, taken) bind(c, name='thalweg_window_try_write')
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), value :: file
      integer(c_int64_t), value :: window, offset
      type(*), intent(in) :: data(*)
      integer(c_int64_t), value :: bytes
      integer(c_int64_t), intent(out) :: taken
    end function c_try_write

    integer(c_int) function c_end(file, window) bind(c, name='thalweg_window_end')
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), value :: file
      integer(c_int64_t), value :: window
    end function c_end

    integer(c_int) function c_test(file, window, complete) bind(c, name='thalweg_window_test')
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), value :: file
      integer(c_int64_t), value :: window
      integer(c_int), intent(out) :: complete
    end function c_test

    integer(c_int) function c_wait(file, window) bind(c, name='thalweg_window_wait')
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), value :: file
      integer(c_int64_t), value :: window
    end function c_wait

    integer(c_int) function c_progress(file) bind(c, name='thalweg_windows_progress')
      import :: c_int, c_ptr
      type(c_ptr), value :: file
    end function c_progress

    integer(c_int) function c_close(file) bind(c, name='thalweg_windows_close')
      import :: c_int, c_ptr
      type(c_ptr), value :: file
    end function c_close
  end interface

contains

  !> Collective over the ranks of `comm`, a communicator of the module `mpi` (`comm%mpi_val` for one of `mpi_f08`).
  !>
  !> keep: the bytes of an existing file stay. memory: most bytes that this process holds for the file; by default 256 MiB.
  subroutine windows_open(file, path, comm, err, keep, memory)
    type(windows_file), intent(out) :: file
    character(len=*), intent(in) :: path
    integer, intent(in) :: comm
    integer, intent(out) :: err
    logical, intent(in), optional :: keep
    integer(c_int64_t), intent(in), optional :: memory
    err = c_open(file%handle, trim(path) // c_null_char, kept(keep), given(memory), int(comm, c_int))
  end subroutine windows_open

  !> Collective: processes of one machine that meet in a folder. within: longest wait for the others, in seconds.
  subroutine windows_open_processes(file, path, folder, rank, ranks, within, err, keep, memory)
    type(windows_file), intent(out) :: file
    character(len=*), intent(in) :: path, folder
    integer, intent(in) :: rank, ranks
    real(c_double), intent(in) :: within
    integer, intent(out) :: err
    logical, intent(in), optional :: keep
    integer(c_int64_t), intent(in), optional :: memory
    err = c_open_processes(file%handle, trim(path) // c_null_char, kept(keep), given(memory), trim(folder) // c_null_char, &
      int(rank, c_int32_t), int(ranks, c_int32_t), within)
  end subroutine windows_open_processes

  !> Every rank starts the same windows in the same order; waits for nobody.
  subroutine window_start(file, window, offset, length, err, options)
    type(windows_file), intent(in) :: file
    integer(c_int64_t), intent(out) :: window
    integer(c_int64_t), intent(in) :: offset, length
    integer, intent(out) :: err
    type(window_options), intent(in), optional :: options
    if (present(options)) then
      err = c_start(file%handle, window, offset, length, options)
    else
      err = c_start(file%handle, window, offset, length, window_options())
    end if
  end subroutine window_start

  !> Copies `bytes` bytes of an array; returns at once while there is memory.
  subroutine window_write(file, window, offset, data, bytes, err)
    type(windows_file), intent(in) :: file
    integer(c_int64_t), intent(in) :: window, offset
    type(*), intent(in) :: data(*)
    integer(c_int64_t), intent(in) :: bytes
    integer, intent(out) :: err
    err = c_write(file%handle, window, offset, data, bytes)
  end subroutine window_write

  !> The same without waiting: `taken` bytes were copied, the first ones.
  subroutine window_try_write(file, window, offset, data, bytes, taken, err)
    type(windows_file), intent(in) :: file
    integer(c_int64_t), intent(in) :: window, offset
    type(*), intent(in) :: data(*)
    integer(c_int64_t), intent(in) :: bytes
    integer(c_int64_t), intent(out) :: taken
    integer, intent(out) :: err
    err = c_try_write(file%handle, window, offset, data, bytes, taken)
  end subroutine window_try_write

  !> This rank writes nothing more into the window.
  subroutine window_end(file, window, err)
    type(windows_file), intent(in) :: file
    integer(c_int64_t), intent(in) :: window
    integer, intent(out) :: err
    err = c_end(file%handle, window)
  end subroutine window_end

  !> Whether the window is complete; `err` is then its status.
  subroutine window_test(file, window, complete, err)
    type(windows_file), intent(in) :: file
    integer(c_int64_t), intent(in) :: window
    logical, intent(out) :: complete
    integer, intent(out) :: err
    integer(c_int) :: answer
    err = c_test(file%handle, window, answer)
    complete = answer /= 0
  end subroutine window_test

  !> Waits until all bytes of all ranks are written. `err` is the same on all ranks.
  subroutine window_wait(file, window, err)
    type(windows_file), intent(in) :: file
    integer(c_int64_t), intent(in) :: window
    integer, intent(out) :: err
    err = c_wait(file%handle, window)
  end subroutine window_wait

  !> Calls `callback` once, when the window is complete, inside a later call of this process. The window is gone then, and its status is
  !> told nowhere else.
  subroutine window_on_complete(file, window, callback, context, err)
    type(windows_file), intent(in) :: file
    integer(c_int64_t), intent(in) :: window
    procedure(window_completion) :: callback
    type(c_ptr), intent(in) :: context
    integer, intent(out) :: err
    err = c_on_complete(file%handle, window, c_funloc(callback), context)
  end subroutine window_on_complete

  !> Serves other ranks and writes at most one fraction.
  subroutine windows_progress(file, err)
    type(windows_file), intent(in) :: file
    integer, intent(out) :: err
    err = c_progress(file%handle)
  end subroutine windows_progress

  !> Collective: completes all windows and closes the file.
  subroutine windows_close(file, err)
    type(windows_file), intent(inout) :: file
    integer, intent(out) :: err
    err = c_close(file%handle)
    file%handle = c_null_ptr
  end subroutine windows_close

  !> The text of the last failure.
  subroutine windows_error(text)
    character(len=*), intent(out) :: text
    call bridge_last_error(text)
  end subroutine windows_error

  integer(c_int) function kept(keep)
    logical, intent(in), optional :: keep
    kept = 0
    if (present(keep)) kept = merge(1_c_int, 0_c_int, keep)
  end function kept

  integer(c_int64_t) function given(memory)
    integer(c_int64_t), intent(in), optional :: memory
    given = 0
    if (present(memory)) given = memory
  end function given
end module thalweg_windows_mod
