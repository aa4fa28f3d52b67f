!> Outputs in flight, of adios_open and a method with async=yes: closed without waiting, and waited for later; see docs/guide/async.md.
!> `err` is 0 or a status of thalweg.h; `output_error` gives its text.
module thalweg_async_mod
  use, intrinsic :: iso_c_binding, only: c_associated, c_char, c_funloc, c_funptr, c_int, c_int64_t, c_null_char, &
    c_null_ptr, c_ptr
  use thalweg_bridge, only: bridge_last_error
  implicit none
  private
  public :: output_start_close, output_test, output_wait, output_on_completion, output_drop, outputs_wait, outputs_progress
  public :: output_error, output_completion, output_alloc, output_commit, output_free, output_lend

  !> A closed output that may still be written.
  type, public :: output_pending
    private
    type(c_ptr) :: handle = c_null_ptr
  end type output_pending

  abstract interface
    !> Called with the status of an output, and the context given with the callback.
    subroutine output_completion(status, context) bind(c)
      import :: c_int, c_ptr
      integer(c_int), value :: status
      type(c_ptr), value :: context
    end subroutine output_completion
  end interface

  interface
    integer(c_int) function c_start_close(fd, pending) bind(c, name='thalweg_adios_start_close')
      import :: c_int, c_int64_t, c_ptr
      integer(c_int64_t), value :: fd
      type(c_ptr), intent(out) :: pending
    end function c_start_close

    integer(c_int) function c_test(pending, complete) bind(c, name='thalweg_test')
      import :: c_int, c_ptr
      type(c_ptr), value :: pending
      integer(c_int), intent(out) :: complete
    end function c_test

    integer(c_int) function c_wait(pending) bind(c, name='thalweg_wait')
      import :: c_int, c_ptr
      type(c_ptr), value :: pending
    end function c_wait

    integer(c_int) function c_on_completion(pending, callback, context) bind(c, name='thalweg_on_completion')
      import :: c_int, c_funptr, c_ptr
      type(c_ptr), value :: pending
      type(c_funptr), value :: callback
      type(c_ptr), value :: context
    end function c_on_completion

    subroutine c_drop(pending) bind(c, name='thalweg_pending_drop')
      import :: c_ptr
      type(c_ptr), value :: pending
    end subroutine c_drop

    integer(c_int) function c_wait_all() bind(c, name='thalweg_adios_wait_all')
      import :: c_int
    end function c_wait_all

    integer(c_int) function c_alloc(bytes, memory) bind(c, name='thalweg_adios_alloc')
      import :: c_int, c_int64_t, c_ptr
      integer(c_int64_t), value :: bytes
      type(c_ptr), intent(out) :: memory
    end function c_alloc

    integer(c_int) function c_commit(fd, name, memory) bind(c, name='thalweg_adios_commit')
      import :: c_int, c_int64_t, c_ptr, c_char
      integer(c_int64_t), value :: fd
      character(kind=c_char), intent(in) :: name(*)
      type(c_ptr), value :: memory
    end function c_commit

    integer(c_int) function c_lend(fd, name, memory) bind(c, name='thalweg_adios_lend')
      import :: c_int, c_int64_t, c_ptr, c_char
      integer(c_int64_t), value :: fd
      character(kind=c_char), intent(in) :: name(*)
      type(c_ptr), value :: memory
    end function c_lend

    integer(c_int) function c_free(memory) bind(c, name='thalweg_free')
      import :: c_int, c_ptr
      type(c_ptr), value :: memory
    end function c_free

    integer(c_int) function c_progress() bind(c, name='thalweg_adios_progress')
      import :: c_int
    end function c_progress
  end interface

contains

  !> Collective: as adios_close, without waiting for the output where its method has async=yes. A failure of the output is told by a
  !> test or wait.
  subroutine output_start_close(fd, pending, err)
    integer(c_int64_t), intent(in) :: fd
    type(output_pending), intent(out) :: pending
    integer, intent(out) :: err
    type(c_ptr) :: handle
    handle = c_null_ptr
    err = c_start_close(fd, handle)
    if (err == 0) pending%handle = handle
  end subroutine output_start_close

  !> Whether the output has been written, without waiting; `err` is then its status.
  subroutine output_test(pending, complete, err)
    type(output_pending), intent(in) :: pending
    logical, intent(out) :: complete
    integer, intent(out) :: err
    integer(c_int) :: answer
    answer = 0
    err = c_test(pending%handle, answer)
    complete = answer /= 0
  end subroutine output_test

  !> Waits until the output has been written, and those before it. `err` is its status, the same on all ranks. Ends `pending`.
  subroutine output_wait(pending, err)
    type(output_pending), intent(inout) :: pending
    integer, intent(out) :: err
    err = c_wait(pending%handle)
    pending%handle = c_null_ptr
  end subroutine output_wait

  !> Calls `callback` once, when the output has been written, inside a later call of this process. Does not end `pending`.
  subroutine output_on_completion(pending, callback, context, err)
    type(output_pending), intent(in) :: pending
    procedure(output_completion) :: callback
    type(c_ptr), intent(in) :: context
    integer, intent(out) :: err
    err = c_on_completion(pending%handle, c_funloc(callback), context)
  end subroutine output_on_completion

  !> Ends `pending` without waiting: the output goes on.
  subroutine output_drop(pending)
    type(output_pending), intent(inout) :: pending
    if (c_associated(pending%handle)) call c_drop(pending%handle)
    pending%handle = c_null_ptr
  end subroutine output_drop

  !> Memory of the library, which the program fills and commits: nothing is copied, also with async=yes. It has at least `bytes` bytes, at
  !> a multiple of 64; `c_f_pointer` makes an array of it. It counts in the buffer limit; if that has no room, this waits until outputs in
  !> flight have ended. Not collective.
  subroutine output_alloc(bytes, memory, err)
    integer(c_int64_t), intent(in) :: bytes
    type(c_ptr), intent(out) :: memory
    integer, intent(out) :: err
    memory = c_null_ptr
    err = c_alloc(bytes, memory)
  end subroutine output_alloc

  !> As adios_write, of an array in memory of output_alloc, which becomes the library's: `memory` is null then, and arrays in it are not to
  !> be used again. If it fails, nothing has changed. Arrays below 256 KiB or with a transform are copied.
  subroutine output_commit(fd, name, memory, err)
    integer(c_int64_t), intent(in) :: fd
    character(len=*), intent(in) :: name
    type(c_ptr), intent(inout) :: memory
    integer, intent(out) :: err
    err = c_commit(fd, trim(name) // c_null_char, memory)
    if (err == 0) memory = c_null_ptr
  end subroutine output_commit

  !> As adios_write, of an array of the program's own that stays unchanged until the output has been written, and may be read meanwhile:
  !> nothing is copied. `memory`: its c_loc; the array is contiguous and has the target or asynchronous attribute. Arrays below 256 KiB or
  !> with a transform are copied.
  subroutine output_lend(fd, name, memory, err)
    integer(c_int64_t), intent(in) :: fd
    character(len=*), intent(in) :: name
    type(c_ptr), intent(in) :: memory
    integer, intent(out) :: err
    err = c_lend(fd, trim(name) // c_null_char, memory)
  end subroutine output_lend

  !> Gives memory back that is not committed.
  subroutine output_free(memory, err)
    type(c_ptr), intent(inout) :: memory
    integer, intent(out) :: err
    err = c_free(memory)
    memory = c_null_ptr
  end subroutine output_free

  !> Collective: waits for all outputs. `err` is the first failure that was not told before, the same on all ranks.
  subroutine outputs_wait(err)
    integer, intent(out) :: err
    err = c_wait_all()
  end subroutine outputs_wait

  !> Moves messages of outputs in flight between ranks, and calls the callbacks of those that were written. Returns at once.
  subroutine outputs_progress(err)
    integer, intent(out) :: err
    err = c_progress()
  end subroutine outputs_progress

  !> The text of the last failure.
  subroutine output_error(text)
    character(len=*), intent(out) :: text
    call bridge_last_error(text)
  end subroutine output_error
end module thalweg_async_mod
