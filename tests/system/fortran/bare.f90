! Bare calls, without any module: the names of kinds behind the generic ones.
program bare
  implicit none
  integer, parameter :: comm = 0, bp = 0, adios_integer = 2, adios_double = 6, adios_string = 9
  integer(8) :: group, fd, fp, id, total, sel, wide
  integer :: err, n, gmin, gmax, mins(2), maxs(2), several(3), failures = 0
  integer(2) :: short
  real(4) :: single
  real(8) :: x, avg, dev, avgs(2), devs(2), row(4), none(0)
  complex(8) :: z
  character(8) :: text

  call adios_init_noxml(comm, err)
  call adios_declare_group(group, "g", "", 1, err)
  call adios_select_method(group, "MPI", "verbose=2", "", err)
  call adios_define_var(group, "n", "", adios_integer, "", "", "", id)
  call adios_define_var(group, "x", "", adios_double, "", "", "", id)
  call adios_define_var(group, "row", "", adios_double, "4", "", "", id)
  call adios_define_var(group, "k", "", adios_integer, "", "", "", id)
  call adios_define_var(group, "none", "", adios_double, "k", "", "", id)
  call adios_define_attribute(group, "limit", "", adios_integer, "7", "", err)
  call adios_define_attribute(group, "unit", "", adios_string, "K", "", err)
  do n = 3, 4
    call adios_open(fd, "g", "bare.bp", merge("w", "a", n == 3), comm, err)
    call adios_group_size(fd, 44_8, total, err)
    call adios_write(fd, "n", n, err)
    x = 2.5d0
    call adios_write(fd, "x", x, err)
    row = [1d0, 2d0, 3d0, 4d0 * n]
    call adios_write(fd, "row", row, err)
    call adios_write(fd, "k", 0, err)
    call adios_write(fd, "none", none, err)
    call same(err == 0, "an array without elements is written")
    call adios_close(fd, err)
    call same(err == 0, "and its step is closed")
  end do
  call adios_finalize(0, err)

  call adios_set_application_id(17, err)
  call same(err == 0, "adios_set_application_id")
  call adios_read_init_method(bp, comm, "verbose=0", err)
  call adios_read_open_file(fp, "bare.bp", bp, comm, err)
  call same(err == 0, "opened")
  call adios_get_scalar_int4(fp, "n", n, err)
  call same(err == 0 .and. n == 3, "adios_get_scalar_int4")
  call adios_get_scalar_int8(fp, "n", wide, err)
  call same(err == 0 .and. wide == 3, "adios_get_scalar_int8 of an integer")
  call adios_get_scalar_int2(fp, "n", short, err)
  call same(err == 0 .and. short == 3, "adios_get_scalar_int2 of an integer")
  call adios_get_scalar_real8(fp, "x", x, err)
  call same(err == 0 .and. x == 2.5d0, "adios_get_scalar_real8")
  call adios_get_scalar_real4(fp, "x", single, err)
  call same(err == 0 .and. single == 2.5, "adios_get_scalar_real4 of a double")
  call adios_get_scalar_complex16(fp, "x", z, err)
  call same(err == 0 .and. z == (2.5d0, 0d0), "adios_get_scalar_complex16 of a double")
  call adios_get_scalar_int4(fp, "row", n, err)
  call same(err /= 0, "an array is no scalar")
  call adios_get_attr_int4(fp, "limit", several, err)
  call same(err == 0 .and. several(1) == 7, "adios_get_attr_int4")
  call adios_get_attr_real8(fp, "limit", row, err)
  call same(err == 0 .and. row(1) == 7, "adios_get_attr_real8 of an integer")
  call adios_get_attr_int4(fp, "unit", several, err)
  call same(err /= 0, "a text is no number")
  call adios_get_attr_char(fp, "unit", text, err)
  call same(err == 0 .and. text == "K", "adios_get_attr_char")
  text = "as it was"
  call adios_get_statistics_char(fp, "n", text, text, text, avg, dev, text, text, avgs, devs, err)
  call same(err == -20 .and. text == "as it wa", "adios_get_statistics_char: characters hold no minimum")
  call adios_get_statistics_int4(fp, "n", n, gmin, gmax, avg, dev, mins, maxs, avgs, devs, err)
  call same(err == 0 .and. gmin == 3 .and. gmax == 4 .and. all(mins == [3, 4]) .and. all(maxs == [3, 4]), &
    "adios_get_statistics_int4")
  call adios_read_close(fp, err)
  call adios_read_finalize_method(bp, err)
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
end program bare
