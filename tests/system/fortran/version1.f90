! Version 1 of the read interface, by bare calls.
program version1
  implicit none
  integer, parameter :: comm = 0, adios_integer = 2, adios_double = 6, adios_string = 9
  integer(8) :: group, fd, fp, gp, id, total, bytes, dims(4), start(4), count(4)
  integer :: err, n, s, i, groups, vars, attrs, first, last, steps, kind, ndim, timedim, length, ns(3), failures = 0
  real(8) :: t(3, 2), back(3, 2, 3), least, most, mean, deviation, leasts(3), mosts(3), means(3), deviations(3)
  character(20) :: names(4), attributes(4), text

  call adios_init_noxml(comm, err)
  call adios_declare_group(group, "g", "", 1, err)
  call adios_select_method(group, "MPI", "", "", err)
  call adios_define_var(group, "n", "", adios_integer, "", "", "", id)
  call adios_define_var(group, "t", "", adios_double, "3,2", "3,2", "0,0", id)
  call adios_define_var(group, "once", "", adios_double, "3,2", "", "", id)
  call adios_define_var(group, "note", "", adios_string, "", "", "", id)
  call adios_define_attribute(group, "unit", "", adios_string, "Kelvin", "", err)
  call adios_define_attribute(group, "limit", "", adios_integer, "7", "", err)
  do s = 0, 2
    call adios_open(fd, "g", "version1.bp", merge("w", "a", s == 0), comm, err)
    call adios_group_size(fd, 200_8, total, err)
    t = reshape([(100d0 * s + i, i=1, 6)], [3, 2])
    call adios_write(fd, "n", s + 10, err)
    call adios_write(fd, "t", t, err)
    if (s == 0) call adios_write(fd, "once", t, err)
    if (s == 0) call adios_write(fd, "note", "hello", err)
    call adios_close(fd, err)
  end do
  call adios_finalize(0, err)

  call adios_set_read_method(0, err)
  call same(err == 0, "adios_set_read_method")
  call adios_set_read_method(3, err)
  call same(err /= 0, "a read method that is not there fails")
  call adios_read_init(comm, err)
  call adios_fopen(fp, "version1.bp", comm, groups, err)
  call same(err == 0 .and. groups == 1, "adios_fopen")
  call adios_inq_file(fp, vars, attrs, first, steps, names, err)
  call same(err == 0 .and. vars == 4 .and. attrs == 2 .and. first == 1 .and. steps == 3 .and. names(1) == "g", "adios_inq_file")
  call adios_gopen(fp, gp, "g", vars, attrs, err)
  call same(err == 0 .and. vars == 4 .and. attrs == 2, "adios_gopen")
  call adios_inq_group(gp, names, attributes, first, last, err)
  call same(err == 0 .and. names(2) == "t" .and. attributes(1) == "unit" .and. last == 3, "adios_inq_group")
  call adios_inq_var(gp, "t", kind, ndim, dims, timedim, err)
  call same(err == 0 .and. kind == adios_double .and. ndim == 3 .and. timedim == 2, "adios_inq_var")
  call same(all(dims(1:3) == [3, 2, 3]), "time is the last dimension")
  start = 0
  call adios_read_var(gp, "t", start, dims, back, bytes)
  call same(bytes == 144 .and. back(3, 2, 3) == 206 .and. back(1, 1, 2) == 101, "adios_read_var of all steps")
  start = [1, 0, 1, 0]
  count = [2, 1, 2, 0]
  back = 0
  call adios_read_var_real8(gp, "t", start, count, back, bytes)
  call same(bytes == 32 .and. all(reshape(back, [4], [0d0]) == [102d0, 103d0, 202d0, 203d0]), "adios_read_var_real8 of a part")
  call adios_inq_var(gp, "once", kind, ndim, dims, timedim, err)
  call same(err == 0 .and. ndim == 2 .and. timedim == -1 .and. all(dims(1:2) == [3, 2]), "what was written once has no time")
  start = [0, 1, 0, 0]
  count = [3, 1, 1, 1]
  call adios_read_local_var(gp, "once", 0, start, count, t, bytes)
  call same(bytes == 24 .and. all(t(:, 1) == [4, 5, 6]), "adios_read_local_var of a part")
  call adios_read_local_var(gp, "once", 1, start, count, t, bytes)
  call same(bytes < 0, "a rank that wrote nothing")
  start = 0
  count = 3
  call adios_read_var(gp, "n", start, count, ns, bytes)
  call same(bytes == 12 .and. all(ns == [10, 11, 12]), "a scalar over its steps")
  text = "?"
  call adios_read_var(gp, "note", start, count, text, bytes)
  call same(bytes > 0 .and. text == "hello", "a text")
  call adios_inq_attr(gp, "unit", kind, length, err)
  call same(err == 0 .and. kind == adios_string .and. length == 7, "adios_inq_attr")
  call adios_get_attr(gp, "unit", text, err)
  call same(err == 0 .and. text == "Kelvin", "adios_get_attr of a text")
  call adios_get_attr(gp, "limit", n, err)
  call same(err == 0 .and. n == 7, "adios_get_attr of a number")
  text = "?"
  call adios_get_attr_char(gp, "unit", text, err)
  call same(err == 0 .and. text == "Kelvin", "adios_get_attr_char")
  call adios_get_attr_real8(gp, "limit", least, err)
  call same(err == 0 .and. least == 7, "adios_get_attr_real8 of an integer")
  call adios_get_attr_int4(gp, "unit", n, err)
  call same(err /= 0, "adios_get_attr_int4 of a text")
  call adios_get_statistics_real8(gp, "t", 0d0, least, most, mean, deviation, leasts, mosts, means, deviations, err)
  call same(err == 0 .and. least == 1 .and. most == 206, "adios_get_statistics_real8 over all steps")
  call same(all(leasts == [1, 101, 201]) .and. all(mosts == [6, 106, 206]), "adios_get_statistics_real8 of each step")
  least = 0
  call adios_get_statistics(gp, "t", 0d0, least, most, mean, deviation, leasts, mosts, means, deviations, err)
  call same(err == 0 .and. least == 1 .and. most == 206, "adios_get_statistics in the variable's own type")
  call adios_get_statistics_int4(gp, "n", s, i, ns(1), mean, deviation, ns, ns, means, deviations, err)
  call same(err == 0 .and. s == 10 .and. i == 10, "adios_get_statistics_int4 of a scalar")
  call adios_get_statistics_real8(gp, "nobody", 0d0, least, most, mean, deviation, leasts, mosts, means, deviations, err)
  call same(err /= 0, "adios_get_statistics_real8 of a variable that is not there")
  call adios_inq_var(gp, "nobody", kind, ndim, dims, timedim, err)
  call same(err /= 0, "a variable that is not there")
  call adios_gclose(gp, err)
  call adios_fclose(fp, err)
  call same(err == 0 .and. fp == 0, "adios_fclose")
  call adios_read_finalize(err)
  if (failures > 0) error stop 1
contains
  subroutine same(is_so, what)
    logical, intent(in) :: is_so
    character(*), intent(in) :: what
    if (is_so) then
      print '(2a)', "ok ", what
    else
      print '(2a)', "not ok ", what
      failures = failures + 1
    end if
  end subroutine same
end program version1
