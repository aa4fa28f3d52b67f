!> Queries: find blocks or points whose values match; the procedures of adios_query.h. See docs/guide/query.md.
module adios_query_mod
  use, intrinsic :: iso_fortran_env, only: int8, int16, int32, int64, real32, real64
  use, intrinsic :: iso_c_binding, only: c_int64_t, c_size_t
  use adios_defs_mod
  use adios_read_mod
  use thalweg_bridge, only: bridge_query_read
  implicit none
  private :: int8, int16, int32, int64, real32, real64, c_int64_t, c_size_t, bridge_query_read
#each
  private :: read_@kind@
#end

  integer, parameter :: adios_query_method_minmax = 0, adios_query_method_fastbit = 1, adios_query_method_alacrity = 2
  integer, parameter :: adios_lt = 0, adios_lteq = 1, adios_gt = 2, adios_gteq = 3, adios_eq = 4, adios_ne = 5
  integer, parameter :: adios_query_op_and = 0, adios_query_op_or = 1

  !> A query; empty before adios_query_create or adios_query_combine, or after a failure of these.
  type, bind(c) :: ADIOS_QUERY
    private
    integer(c_int64_t) :: q = 0
  end type ADIOS_QUERY

  interface
    logical function adios_query_is_method_available(method)
      integer, intent(in) :: method
    end function adios_query_is_method_available

    !> Compares a variable with a number, given as text, inside a selection; 0: everywhere.
    subroutine adios_query_create(f, sel, varname, pred, value, q)
      import :: int64, ADIOS_QUERY
      integer(int64), intent(in) :: f, sel
      character(*), intent(in) :: varname
      integer, intent(in) :: pred
      character(*), intent(in) :: value
      type(ADIOS_QUERY), intent(out) :: q
    end subroutine adios_query_create

    !> Combines two queries by AND or OR. Free each query separately.
    subroutine adios_query_combine(q1, op, q2, q)
      import :: ADIOS_QUERY
      type(ADIOS_QUERY), intent(in) :: q1
      integer, intent(in) :: op
      type(ADIOS_QUERY), intent(in) :: q2
      type(ADIOS_QUERY), intent(out) :: q
    end subroutine adios_query_combine

    subroutine adios_query_set_method(q, method)
      import :: ADIOS_QUERY
      type(ADIOS_QUERY), intent(in) :: q
      integer, intent(in) :: method
    end subroutine adios_query_set_method

    !> Estimates the number of matching blocks or points from recorded statistics, without reading values. -1 on
    !> failure.
    integer(int64) function adios_query_estimate(q, timestep)
      import :: int64, ADIOS_QUERY
      type(ADIOS_QUERY), intent(in) :: q
      integer, intent(in) :: timestep
    end function adios_query_estimate

    !> The next results, at most `batchsize`. `err`: 1: more results, call again; 0: no further results; negative:
    !> failure. `sel_result` is for the procedures adios_query_result_* below.
    subroutine adios_query_evaluate(q, sel_outboundary, timestep, batchsize, sel_result, err)
      import :: int64, ADIOS_QUERY
      type(ADIOS_QUERY), intent(in) :: q
      integer(int64), intent(in) :: sel_outboundary
      integer, intent(in) :: timestep
      integer(int64), intent(in) :: batchsize
      integer(int64), intent(out) :: sel_result
      integer, intent(out) :: err
    end subroutine adios_query_evaluate

    !> Number of selections, and of points in them; 0 points if the selections are blocks.
    subroutine adios_query_result_count(result, nselections, npoints)
      import :: int64
      integer(int64), intent(in) :: result
      integer, intent(out) :: nselections
      integer(int64), intent(out) :: npoints
    end subroutine adios_query_result_count

    !> One of the selections, counted from 0, for adios_schedule_read and adios_selection_get_*: a block, or points of
    !> the array. Delete it with adios_selection_delete.
    subroutine adios_query_result_selection(result, index, sel)
      import :: int64
      integer(int64), intent(in) :: result
      integer, intent(in) :: index
      integer(int64), intent(out) :: sel
    end subroutine adios_query_result_selection

    subroutine adios_query_result_free(result)
      import :: int64
      integer(int64), intent(in) :: result
    end subroutine adios_query_result_free

    subroutine adios_query_free(q)
      import :: ADIOS_QUERY
      type(ADIOS_QUERY), intent(in) :: q
    end subroutine adios_query_free
  end interface

  !> Reads the values of a variable at results of a query inside the box `bb` into `data`, which contains that box;
  !> other elements keep their values.
  interface adios_query_read_boundingbox ! (fp, q, varname, timestep, result, bb, data, err)
#each
    module procedure read_@kind@
#end
  end interface adios_query_read_boundingbox

contains

#each
  subroutine read_@kind@(fp, q, varname, timestep, result, bb, data, err)
    integer(int64), intent(in) :: fp
    type(ADIOS_QUERY), intent(in) :: q
    character(*), intent(in) :: varname
    integer, intent(in) :: timestep
    integer(int64), intent(in) :: result, bb
    @type@, intent(inout), target :: data(..)
    integer, intent(out) :: err
    err = bridge_query_read(fp, q%q, varname, len(varname, c_size_t), timestep, result, bb, data)
  end subroutine read_@kind@

#end
end module adios_query_mod
