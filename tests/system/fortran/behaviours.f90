! What a Fortran program may count on beyond kinds and ranks: texts, order of dimensions, sections, selections, errors.
program behaviours
  use, intrinsic :: ieee_arithmetic, only: ieee_is_nan
  use, intrinsic :: iso_c_binding, only: c_f_pointer, c_ptr
  use, intrinsic :: iso_fortran_env, only: int8, int32, int64, real32, real64
  use adios_write_mod
  use adios_query_mod
  implicit none

  integer, parameter :: comm = 0 ! without MPI any number will do
  integer :: err, failures = 0

  call adios_init("behaviours.xml", comm, err)
  call check(err == 0 .and. adios_is_initialized(), "a configuration is found though its name has blanks behind it")
  call write_things
  call memory_until_close
  call attributes_by_value
  call other_calls
  call slashes
  call adios_finalize(0, err)
  call check(err == 0, "finalize succeeds")
  call read_things
  call read_sections
  call selections
  call stream
  call query
  call mistakes
  if (failures > 0) error stop 1

contains

  subroutine check(is_so, what)
    logical, intent(in) :: is_so
    character(*), intent(in) :: what
    character(500) :: message
    if (is_so) then
      print '(2a)', "ok ", what
    else
      call adios_errmsg(message)
      print '(5a)', "not ok ", what, " (last error: ", trim(message), ")"
      failures = failures + 1
    end if
  end subroutine check

  integer(int32) elemental function counted(i, j, step)
    integer, intent(in) :: i, j, step
    counted = i + 10 * j + 100 * step
  end function counted

  function counts_of(step) result(counts)
    integer, intent(in) :: step
    integer(int32) :: counts(3, 4)
    integer :: i, j
    do j = 1, 4
      do i = 1, 3
        counts(i, j) = counted(i, j, step)
      end do
    end do
  end function counts_of

  subroutine write_things
    integer(int64) :: fd
    integer :: step, errs(6), n
    character(20) :: title, letters
    real(real64) :: local(100)
    n = 3
    local = [(1.5_real64 * step, step = 1, 100)]
    do step = 0, 2
      write (title, '("  step ", i0)') step
      letters = "as it is  "
      call adios_open(fd, "things ", "things.bp   ", merge("w", "a", step == 0), comm, errs(1))
      call adios_write(fd, "n  ", n, errs(2))
      call adios_write(fd, "title", title, errs(3))
      call adios_write(fd, "letters", letters, errs(4))
      call adios_write(fd, "scale", 2.5_real32 * (step + 1), errs(5))
      call adios_write(fd, "counts", counts_of(step), errs(6))
      call check(all(errs == 0), "numbers, texts and values of expressions are written")
      call write_assumed_size(fd, local)
      call adios_close(fd, err)
      call check(err == 0, "close succeeds")
    end do
  end subroutine write_things

  ! As codes before Fortran 90 have it: no extent known. And the first element stands for the array.
  subroutine write_assumed_size(fd, local)
    integer(int64), intent(in) :: fd
    real(real64), intent(in) :: local(*)
    call adios_write(fd, "local", local, err)
    call check(err == 0, "an array of assumed size is written")
  end subroutine write_assumed_size

  ! copy-on-write="no": the library looks at the memory again when the file is closed.
  subroutine memory_until_close
    integer(int64) :: fd
    integer, parameter :: n = 20000
    real(real64), allocatable, target :: whole(:), apart(:), other(:)
    integer :: i, errs(5)
    allocate (whole, source=[(real(i, real64), i = 1, n)])
    allocate (apart(3 * n), source=0.0_real64)
    apart(2::3) = [(-real(i, real64), i = 1, n)]
    call adios_open(fd, "borrowed", "borrowed.bp", "w", comm, errs(1))
    call adios_write(fd, "n", n, errs(2))
    call adios_write(fd, "whole", whole, errs(3))
    ! A section with gaps has no memory of its own that could stay: it is copied.
    call adios_write(fd, "section", apart(2::3), errs(4))
    apart = 77
    allocate (other(n), source=55.0_real64) ! where a copy may have been that nobody kept
    call adios_close(fd, errs(5))
    call check(all(errs == 0) .and. other(1) > 0, "memory lent until close is written")
  end subroutine memory_until_close

  subroutine attributes_by_value
    integer(int64) :: group, fd, id
    integer :: errs(12)
    character(6), parameter :: words(3) = [character(6) :: "one", "two  ", "three"]
    integer(int32) :: numbers(6)
    numbers = [1, 2, 3, 4, 5, 6]
    call adios_declare_group(group, "attributes", "", adios_stat_default, errs(1))
    call adios_select_method(group, "POSIX", "", "", errs(2))
    call adios_define_var(group, "x", "", adios_double, "", "", "", id)
    call adios_define_attribute_byvalue(group, "text", "", 1, "a text  ", errs(3))
    call adios_define_attribute_byvalue(group, "texts", "", 3, words, errs(4))
    call adios_define_attribute_byvalue(group, "single", "", 1, 1.25_real32, errs(5))
    call adios_define_attribute_byvalue(group, "odd", "", 3, numbers(1::2), errs(6))
    call adios_define_attribute_byvalue(group, "complex", "", 1, (1.0_real64, -2.0_real64), errs(7))
    call adios_define_attribute(group, "tenth", "/x", adios_double, "0.1", "", errs(8))
    call adios_define_attribute(group, "of", "/x", adios_double, "", "x", errs(9))
    call adios_open(fd, "attributes", "attributes.bp", "w", comm, errs(10))
    call adios_write_byid(fd, id, 9.0_real64, errs(11))
    call adios_close(fd, errs(12))
    call check(all(errs == 0), "attributes are defined by value")
    call adios_define_attribute_byvalue(group, "short", "", 7, numbers, err)
    call check(err == err_invalid_argument, "an attribute of more values than there are is refused")
    call adios_define_mesh_uniform("3,4", "0,0", "1,1", "", "2", group, "mesh", err)
    call check(err == 0, "a mesh is defined, and says so")
    call adios_define_mesh_uniform("3,4", "0,0", "1,1", "", "2", 0_int64, "mesh", err)
    call check(err == err_invalid_group, "a mesh of no group is refused, and says so")
  end subroutine attributes_by_value

  ! Procedures that the others do without.
  subroutine other_calls
    integer(int64) :: group, fd, x, y, size, total
    integer :: errs(12), number
    real(real64), pointer :: memory(:)
    type(c_ptr) :: buffer
    call adios_allocate_buffer(10, errs(1))
    call adios_set_max_buffer_size(10)
    call adios_declare_group(group, "calls", "", adios_stat_full, errs(2))
    call adios_select_method(group, "POSIX", "", "", errs(3))
    call adios_define_var(group, "x", "old", adios_double, "2,3", "", "", x)
    call adios_define_var(group, "y", "", adios_integer, "", "", "", y)
    call adios_set_transform(x, "none", errs(4))
    call adios_expected_var_size(x, size)
    call check(all(errs(:4) == 0) .and. size == 48, "a variable tells its size")
    call adios_start_calculation(errs(1))
    call adios_stop_calculation(errs(2))
    call adios_end_iteration(errs(3))
    call adios_open(fd, "calls", "calls.bp", "w", comm, errs(4))
    call adios_group_size(fd, 52_int64, total, errs(5))
    call adios_set_path_var(fd, "new  ", "old/x ", errs(6))
    call adios_get_write_buffer(fd, "old/x", size, buffer, errs(7))
    call check(all(errs(:7) == 0) .and. size == 48 .and. total >= 52, "memory of the library is lent")
    if (errs(7) == 0) then
      call c_f_pointer(buffer, memory, [6])
      memory = [1, 2, 3, 4, 5, 6]
    end if
    call adios_write_byid(fd, y, 5, errs(8))
    call adios_close(fd, errs(9))
    call check(all(errs(8:9) == 0), "and written by close")
    call adios_set_time_aggregation(group, 0_int64, 0_int64, errs(1))
    call adios_delete_vardefs(group, errs(2))
    call adios_delete_attrdefs(group, errs(3))
    call adios_free_group(group, errs(4))
    call check(all(errs(:4) == 0), "a group is forgotten")
    call adios_read_open_file(fd, "calls.bp", adios_read_method_bp, comm, errs(1))
    call adios_get_scalar(fd, "y", number, errs(2))
    block
      real(real64), target :: values(2, 3)
      call adios_schedule_read(fd, 0_int64, "new/x", 0, 1, values, errs(3))
      call adios_perform_reads(fd, errs(4))
      call check(all(errs(:4) == 0) .and. number == 5 .and. all(values == reshape([1, 2, 3, 4, 5, 6], [2, 3])), &
        "what was lent is found under its new path")
    end block
    call adios_read_close(fd, err)
  end subroutine other_calls

  ! Names with several slashes: of scalars, one with a path, of an array and the scalar that its extent is, of an attribute.
  subroutine slashes
    character(*), parameter :: names(4) = [character(16) :: "a//b", "//b", "a///b/c", "of//them/many"]
    integer(int64) :: group, fd, id
    integer :: errs(12), i, number, vars, attrs, current, last
    real(real64) :: many(3)
    character(20) :: found(6), unit
    call adios_declare_group(group, "slashes", "", adios_stat_full, errs(1))
    call adios_select_method(group, "MPI", "", "", errs(2))
    call adios_define_var(group, "a//b", "", adios_integer, "", "", "", id)
    call adios_define_var(group, "//b", "", adios_integer, "", "", "", id)
    call adios_define_var(group, "c", "a///b", adios_integer, "", "", "", id)
    call adios_define_var(group, "of//them/many", "", adios_double, "a//b", "", "", id)
    call adios_define_attribute(group, "unit", "of//them/many", adios_string, "K", "", errs(3))
    call adios_open(fd, "slashes", "slashes.bp", "w", comm, errs(4))
    do i = 1, 3
      call adios_write(fd, names(i), i + 2, errs(4 + i))
    end do
    call adios_write(fd, names(4), [0.5_real64, 1.5_real64, 2.5_real64], errs(8))
    call adios_write(fd, "a/b", 1, errs(9))
    call check(errs(9) /= 0, "a name with one slash is another one")
    errs(9) = 0
    call adios_close(fd, errs(10))
    call check(all(errs(:10) == 0), "names with several slashes are written as they were defined")
    call adios_read_open_file(fd, "slashes.bp", adios_read_method_bp, comm, errs(1))
    call adios_inq_file(fd, vars, attrs, current, last, errs(2))
    found = " "
    call adios_inq_varnames(fd, found, errs(3))
    call check(all(errs(:3) == 0) .and. vars == 4 .and. all(found(:4) == names), "they are listed so")
    do i = 1, 3
      number = 0
      call adios_get_scalar(fd, names(i), number, errs(i))
      if (number /= i + 2) errs(i) = 99
    end do
    many = 0
    call adios_schedule_read(fd, 0_int64, names(4), 0, 1, many, errs(4))
    call adios_perform_reads(fd, errs(5))
    call adios_get_attr(fd, "of//them/many/unit", unit, errs(6))
    call check(all(errs(:6) == 0) .and. all(many == [0.5_real64, 1.5_real64, 2.5_real64]) .and. unit == "K", &
      "they are read by the same names")
    call adios_read_close(fd, err)
  end subroutine slashes

  subroutine read_things
    integer(int64) :: fp, dims(16)
    integer :: vartype, nsteps, ndim, nvars, nattrs, current, last, i, errs(8), size
    integer(int8) :: tiny
    integer(int64) :: large
    real(real32) :: single
    real(real64) :: double, low, high, mean, deviation, lows(3), highs(3), means(3), deviations(3), odd(3)
    complex(real64) :: pair
    character(20) :: names(10), text, texts(3)
    character(4) :: few
    logical(int32) :: flag
    integer(int32) :: counts(3, 4, 3)

    call adios_read_open_file(fp, "things.bp  ", adios_read_method_bp, comm, err)
    call check(err == 0 .and. fp /= 0, "a file is opened though its name has blanks behind it")
    call adios_inq_file(fp, nvars, nattrs, current, last, err)
    call check(err == 0 .and. nvars == 6 .and. nattrs == 1 .and. last == 2, "the file tells what it holds")
    names = "?"
    call adios_inq_varnames(fp, names, err)
    call check(err == 0 .and. names(1) == "n" .and. names(6) == "local" .and. names(7) == "?", "names have blanks behind them")
    call adios_inq_var(fp, "counts", vartype, nsteps, ndim, dims, err)
    call check(err == 0 .and. vartype == adios_integer .and. nsteps == 3 .and. ndim == 2 .and. all(dims(:2) == [3, 4]), &
      "dimensions come as the program has them")

    call adios_get_scalar(fp, "n", tiny, errs(1))
    call adios_get_scalar(fp, "n", large, errs(2))
    call adios_get_scalar(fp, "n", double, errs(3))
    call adios_get_scalar(fp, "n", pair, errs(4))
    call adios_get_scalar(fp, "scale", single, errs(5))
    call check(all(errs(:5) == 0) .and. tiny == 3 .and. large == 3 .and. double == 3 .and. pair == 3 .and. single == 2.5, &
      "a value is turned into the kind of the variable")
    call adios_get_scalar(fp, "scale", large, err)
    call check(err == err_invalid_data, "a value that a kind cannot hold is refused")
    call adios_get_scalar(fp, "counts", large, err)
    call check(err == err_invalid_varname, "an array is no single value")
    text = "????????????????????"
    call adios_get_scalar(fp, "title", text, err)
    call check(err == 0 .and. text == "  step 0", "a text keeps blanks before it and gets blanks behind it")
    call adios_get_scalar(fp, "title", few, err)
    call check(err == err_out_of_bound .and. few == "  st", "a text that is too long is cut, and that is said")
    call adios_get_scalar(fp, "title", large, err)
    call check(err == err_invalid_data, "a text is no number")
    call adios_get_scalar(fp, "n", text, err)
    call check(err == err_invalid_data, "a number is no text")

    texts = "?"
    call adios_schedule_read(fp, 0_int64, "title", 0, 3, texts, errs(1))
    call adios_schedule_read(fp, 0_int64, "letters", 1, 1, text, errs(2))
    call adios_schedule_read(fp, 0_int64, "counts", 0, 3, counts, errs(3))
    call adios_perform_reads(fp, errs(4))
    call check(all(errs(:4) == 0) .and. texts(1) == "  step 0" .and. texts(3) == "  step 2", "texts of several steps fill an array")
    call check(text == "as it is", "characters of a byte array are read as they are")
    call check(all(counts == reshape([counts_of(0), counts_of(1), counts_of(2)], shape(counts))), &
      "steps come as the last dimension")

    call adios_get_statistics(fp, "counts", i, size, i, mean, deviation, counts(:, 1, 1), counts(:, 2, 1), means, deviations, err)
    call check(err == 0 .and. size == counted(1, 1, 0) .and. i == counted(3, 4, 2) .and. all(counts(:, 1, 1) == &
      [11, 111, 211]) .and. all(counts(:, 2, 1) == [43, 143, 243]), "statistics of whole numbers, over all steps and of each")
    call adios_get_statistics(fp, "scale", double, low, high, mean, deviation, lows, highs, means, deviations, err)
    call check(err == 0 .and. double == 2.5 .and. low == 2.5 .and. high == 7.5 .and. all(highs == [2.5, 5.0, 7.5]), &
      "statistics are turned into the kind of the variables")
    call check(abs(means(2) - 5) < 1e-12 .or. ieee_is_nan(means(2)), "an average is known or no number")
    call adios_read_close(fp, err)
    call check(err == 0, "a file is closed")

    call adios_read_open_file(fp, "attributes.bp", adios_read_method_bp, comm, err)
    call adios_inq_attr(fp, "odd", vartype, size, errs(1))
    call check(errs(1) == 0 .and. vartype == adios_integer .and. size == 12, "an attribute's type and bytes")
    call adios_get_attr(fp, "odd", odd, errs(1))
    call adios_get_attr(fp, "single", double, errs(2))
    call adios_get_attr(fp, "/x/tenth", high, errs(3))
    call adios_get_attr(fp, "complex", pair, errs(4))
    call adios_get_attr(fp, "/x/of", tiny, errs(5))
    call check(all(errs(:5) == 0) .and. all(odd == [1, 3, 5]) .and. double == 1.25 .and. high == 0.1_real64 .and. pair == (1, -2) &
      .and. tiny == 9, "attributes are turned into the kind of the variables")
    call adios_get_attr(fp, "odd", tiny, err)
    call check(err == err_out_of_bound, "several values do not go into one variable")
    text = "????????????????????"
    texts = "?"
    call adios_get_attr(fp, "text", text, errs(1))
    call adios_get_attr(fp, "texts", texts, errs(2))
    call check(all(errs(:2) == 0) .and. text == "a text" .and. all(texts == [character(20) :: "one", "two", "three"]), &
      "texts of attributes")
    flag = .true.
    call adios_read_close(fp, err)
  end subroutine read_things

  subroutine read_sections
    integer(int64) :: fp
    integer, parameter :: n = 20000
    real(real64), allocatable, target :: whole(:), rows(:, :)
    integer :: errs(5), i
    allocate (whole(n), rows(3, n), source=5.0_real64)
    call adios_read_open_file(fp, "borrowed.bp", adios_read_method_bp, comm, errs(1))
    call adios_schedule_read(fp, 0_int64, "whole", 0, 1, whole, errs(2))
    call adios_schedule_read(fp, 0_int64, "section", 0, 1, rows(2, :), errs(3))
    call check(all(rows == 5), "a section stays as it is until the reads are performed")
    call adios_perform_reads(fp, errs(4))
    call check(all(errs(:4) == 0) .and. all(whole == [(i, i = 1, n)]), "memory lent until close held what was written")
    call check(all(rows(2, :) == [(-i, i = 1, n)]), "a section with gaps is written as it was, and read into a section")
    call check(all(rows(1, :) == 5) .and. all(rows(3, :) == 5), "what is between the elements stays")
    call adios_schedule_read(fp, 0_int64, "section", 0, 1, rows(3, :), errs(1))
    call adios_read_close(fp, errs(2))
    call check(all(errs(:2) == 0) .and. all(rows(3, :) == 5), "a read that is not performed changes nothing")
  end subroutine read_sections

  subroutine selections
    integer(int64) :: fp, sel, start(2), count(2), points(2, 3), few(3)
    integer :: errs(5), kind, ndim
    integer(int32) :: box(2, 3), found(3), block(3, 4), section(5, 5)
    character(10) :: hints
    call adios_read_open_file(fp, "things.bp", adios_read_method_bp, comm, err)
    call adios_selection_boundingbox(sel, 2, [1_int64, 0_int64], [2_int64, 3_int64])
    call adios_selection_get_type(sel, kind)
    call adios_selection_get_ndim(sel, ndim)
    call adios_selection_get_boundingbox(sel, start, count)
    call check(kind == adios_selection_type_boundingbox .and. ndim == 2 .and. all(start == [1, 0]) .and. all(count == [2, 3]), &
      "a box is told as it was given")
    call adios_schedule_read(fp, sel, "counts", 2, 1, box, errs(1))
    section = 0
    call adios_schedule_read(fp, sel, "counts", 1, 1, section(2:5:3, ::2), errs(2))
    call adios_perform_reads(fp, errs(3))
    call adios_selection_delete(sel)
    block = counts_of(2)
    call check(all(errs(:3) == 0) .and. all(box == block(2:3, 1:3)), "a box has the fastest dimension first")
    block = counts_of(1)
    call check(all(section(2:5:3, ::2) == block(2:3, 1:3)) .and. sum(section) == sum(block(2:3, 1:3)), "a box goes into a section")

    call thalweg_adios_selection_strided(sel, 2, [0_int64, 1_int64], [3_int64, 3_int64], [2_int64, 2_int64])
    call adios_schedule_read(fp, sel, "counts", 1, 1, box(:, :2), errs(1))
    call adios_perform_reads(fp, errs(2))
    call adios_selection_delete(sel)
    call check(all(errs(:2) == 0) .and. all(box(:, :2) == block(::2, 2::2)), "every second element of a box")

    points = reshape([2_int64, 0_int64, 0_int64, 3_int64, 1_int64, 1_int64], [2, 3])
    call adios_selection_points(sel, 2, 3_int64, points)
    few = -1
    call adios_selection_get_points(sel, few, 1_int64, 1_int64)
    call check(all(few == [0, 3, -1]), "points are told as they were given")
    points = 99 ! they were copied
    call adios_schedule_read(fp, sel, "counts", 0, 1, found, errs(1))
    call adios_perform_reads(fp, errs(2))
    call adios_selection_delete(sel)
    call check(all(errs(:2) == 0) .and. all(found == [counted(3, 1, 0), counted(1, 4, 0), counted(2, 2, 0)]), &
      "points have the fastest dimension first")

    call adios_selection_writeblock(sel, 0)
    call adios_selection_get_index(sel, kind)
    call adios_schedule_read(fp, sel, "counts", 1, 1, block, errs(1))
    call adios_perform_reads(fp, errs(2))
    call check(all(errs(:2) == 0) .and. kind == 0 .and. all(block == counts_of(1)), "a block is read")
    call adios_schedule_read(fp, sel, "counts", 0, 3, block, err)
    call check(err == err_out_of_bound, "three blocks are too much for one array")
    call adios_selection_delete(sel)
    call adios_selection_auto(sel, "hint  ")
    call adios_selection_get_hints(sel, hints)
    call check(hints == "hint", "hints are told as they were given")
    call adios_selection_delete(sel)
    call adios_read_close(fp, err)
  end subroutine selections

  subroutine stream
    integer(int64) :: fp
    integer :: step, errs(4)
    integer(int32) :: counts(3, 4)
    logical :: right
    right = .true.
    call adios_read_open_stream(fp, "things.bp", adios_read_method_bp, comm, adios_lockmode_current, 5.0, err)
    call check(err == 0, "a stream is opened")
    do step = 0, 5
      call adios_schedule_read(fp, 0_int64, "counts", 0, 1, counts, errs(1))
      call adios_perform_reads(fp, errs(2))
      call adios_release_step(fp, errs(3))
      right = right .and. all(errs(:3) == 0) .and. all(counts == counts_of(step))
      call adios_advance_step(fp, 0, 5.0, err)
      if (err /= 0) exit
    end do
    call check(right .and. step == 2 .and. err == err_end_of_stream, "a stream gives its steps and ends")
    call adios_read_close(fp, err)
    call adios_read_open(fp, "missing.bp", adios_read_method_bp, comm, adios_lockmode_none, 0.2, err)
    call check(err == err_file_not_found .and. fp == 0, "a stream that does not come is told after the time given")
  end subroutine stream

  subroutine query
    type(ADIOS_QUERY) :: low, high, both, nothing
    integer(int64) :: fp, box, result, sel, npoints, points(2, 12)
    integer :: nselections, i
    integer(int32) :: values(3, 4), found(12), expected(3, 4)
    logical :: right
    call adios_read_open_file(fp, "things.bp", adios_read_method_bp, comm, err)
    call check(adios_query_is_method_available(adios_query_method_minmax), "a method is available")
    call adios_query_create(fp, 0_int64, "counts ", adios_gt, "12 ", low)
    call adios_query_create(fp, 0_int64, "counts", adios_lt, "32", high)
    call adios_query_combine(low, adios_query_op_and, high, both)
    call check(adios_query_estimate(both, 0) >= 1, "an estimate is given")
    call adios_query_set_method(both, adios_query_method_fastbit)
    call adios_selection_boundingbox(box, 2, [0_int64, 0_int64], [3_int64, 4_int64])
    call adios_query_evaluate(both, box, 0, 100_int64, result, err)
    call adios_query_result_count(result, nselections, npoints)
    ! 13, 21, 22, 23, 31
    call check(err == 0 .and. nselections == 1 .and. npoints == 5, "points are found that match both")
    call adios_query_result_selection(result, 0, sel)
    call adios_selection_get_points(sel, points, 0_int64, npoints)
    expected = counts_of(0)
    right = .true.
    do i = 1, int(npoints)
      associate (value => expected(points(1, i) + 1, points(2, i) + 1))
        right = right .and. value > 12 .and. value < 32
      end associate
    end do
    call check(right, "points of a query have the fastest dimension first")
    found = 0
    call adios_schedule_read(fp, sel, "counts", 0, 1, found, err)
    call adios_perform_reads(fp, err)
    call check(err == 0 .and. sum(found) == 13 + 21 + 22 + 23 + 31, "values are read at the points of a query")
    values = -1
    call adios_query_read_boundingbox(fp, both, "counts", 0, result, box, values, err)
    call check(err == 0 .and. all(values == merge(expected, -1, expected > 12 .and. expected < 32)), &
      "values that match are read into a box")
    call adios_selection_delete(sel)
    call adios_query_result_free(result)
    call adios_query_create(fp, 0_int64, "no such variable", adios_lt, "32", nothing)
    call adios_query_evaluate(nothing, box, 0, 100_int64, result, err)
    call check(err < 0, "a query of nothing fails")
    call adios_query_result_free(result)
    call adios_selection_delete(box)
    call adios_query_free(both)
    call adios_query_free(low)
    call adios_query_free(high)
    call adios_read_close(fp, err)
  end subroutine query

  subroutine mistakes
    integer(int64) :: fd, fp
    integer(int32) :: few(2), counts(3, 4)
    real(real32) :: single
    character(500) :: message
    call adios_read_open_file(fp, "things.bp", adios_read_method_bp, comm, err)
    counts = 7
    call adios_schedule_read(fp, 0_int64, "counts", 0, 2, counts, err)
    call check(err == err_out_of_bound .and. all(counts == 7), "a read larger than its array is refused")
    call adios_schedule_read(fp, 0_int64, "nothing", 0, 1, counts, err)
    call check(err == err_invalid_varname, "a variable that there is not is told")
    call adios_errmsg(message)
    call check(index(message, "nothing") > 0, "the message names it")
    call adios_schedule_read(fp, 0_int64, "title", 0, 1, counts, err)
    call check(err == err_invalid_data, "a text is not read into numbers")
    call adios_read_close(fp, err)
    call adios_read_open_file(fp, "attributes.bp", adios_read_method_bp, comm, err)
    call adios_schedule_read(fp, 0_int64, "x", 0, 1, single, err)
    call check(err == err_out_of_bound, "a value of 8 bytes is not read into a variable of 4")
    call adios_read_close(fp, err)
    call adios_inq_file(0_int64, few(1), few(1), few(1), few(1), err)
    call check(err == err_invalid_file_pointer, "no file is told")
    call adios_read_open_file(fp, "missing.bp", adios_read_method_bp, comm, err)
    call check(err /= 0 .and. fp == 0, "a missing file is told")

    call adios_init("behaviours.xml", comm, err)
    call adios_open(fd, "things", "mistakes.bp", "w", comm, err)
    call adios_write(fd, "n", 3, err)
    call adios_write(fd, "counts", few, err)
    call check(err == err_invalid_argument, "an array smaller than its variable is refused")
    call adios_write(fd, "counts", counts_of(0), err)
    call check(err == 0, "and can be written right")
    call adios_close(fd, err)
    call adios_open(fd, "things", "mistakes.bp", "q", comm, err)
    call check(err == err_invalid_file_mode .and. fd == 0, "a mode that there is not is told")
    call adios_finalize(0, err)
  end subroutine mistakes
end program behaviours
