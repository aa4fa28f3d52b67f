! The calls of MPI-IO from Fortran, with mpif.h (-DMPIF), the module mpi (-DMPI) or mpi_f08 (-DF08). Prints "ok NAME" or "not ok NAME".
!
!     calls PATH
#if defined(F08)
#define HANDLE(kind) type(kind)
#define STATUS(name) type(MPI_Status) :: name
#else
#define HANDLE(kind) integer
#define STATUS(name) integer :: name(MPI_STATUS_SIZE)
#endif
! What an error handler was called with.
module handled
#if defined(F08)
    use mpi_f08
#elif defined(MPI)
    use mpi
#endif
    implicit none
#if defined(MPIF)
    include 'mpif.h'
#endif
    integer :: calls_of_handler = 0, class_of_handler = 0

contains

    subroutine handler(file, code)
        HANDLE(MPI_File) :: file
        integer :: code, unread
        calls_of_handler = calls_of_handler + 1
        call MPI_Error_class(code, class_of_handler, unread)
    end subroutine

end module

program calls
    use handled
    implicit none
    integer, parameter :: n = 6
    character(len=1024) :: path
    character(len=MPI_MAX_DATAREP_STRING) :: representation
    HANDLE(MPI_File) :: file
    HANDLE(MPI_Datatype) :: block, etype, filetype
    HANDLE(MPI_Request) :: request
    HANDLE(MPI_Info) :: info
    HANDLE(MPI_Group) :: group
    HANDLE(MPI_Errhandler) :: own_handler, other_handler
    STATUS(status)
    integer :: rank, ranks, code, count, i, amode, class, ignored
    integer :: own(n), got(n), all(n * 64), one(1), more(16 * n)
    character(len=20) :: value
    integer(kind=MPI_OFFSET_KIND) :: zero, place, bytes
    integer(kind=MPI_ADDRESS_KIND) :: extent
    logical :: is_right, flag

    call MPI_Init(code)
    call MPI_Comm_rank(MPI_COMM_WORLD, rank, code)
    call MPI_Comm_size(MPI_COMM_WORLD, ranks, code)
    call get_command_argument(1, path)
    zero = 0
    own = [(rank * 100 + i, i = 1, n)]
    is_right = .true.

    if (rank == 0) call MPI_File_delete(path, MPI_INFO_NULL, code)
    call MPI_Barrier(MPI_COMM_WORLD, code)
    call MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE + MPI_MODE_RDWR, MPI_INFO_NULL, file, code)
    call expect(code == MPI_SUCCESS)
    call MPI_Type_vector(n / 2, 2, 2 * ranks, MPI_INTEGER, block, code)
    call MPI_Type_commit(block, code)
    place = 8 * rank
    call MPI_File_set_view(file, place, MPI_INTEGER, block, 'native', MPI_INFO_NULL, code)
    call expect(code == MPI_SUCCESS)
    call MPI_File_write_all(file, own, n, MPI_INTEGER, status, code)
    call MPI_Get_count(status, MPI_INTEGER, count, code)
    call expect(count == n)
    call MPI_File_sync(file, code)
    got = 0
    call MPI_File_read_at_all(file, zero, got, n, MPI_INTEGER, status, code)
    call expect(all_equal(got, own))
    got = 0
    call MPI_File_iread_at(file, zero, got, n, MPI_INTEGER, request, code)
    call MPI_Wait(request, status, code)
    call MPI_Get_count(status, MPI_INTEGER, count, code)
    call expect(count == n .and. all_equal(got, own))
    call MPI_File_get_view(file, bytes, etype, filetype, representation, code)
    call expect(bytes == place .and. trim(representation) == 'native')
    call MPI_File_get_position(file, place, code)
    call expect(place == n)
    call MPI_File_get_type_extent(file, MPI_DOUBLE_PRECISION, extent, code)
    call expect(extent == 8)
    call told('views, collective and nonblocking calls')

    place = 0
    call MPI_File_set_view(file, place, MPI_INTEGER, MPI_INTEGER, 'native', MPI_INFO_NULL, code)
    call MPI_File_read_at(file, zero, all, n * ranks, MPI_INTEGER, status, code)
    do i = 1, n * ranks
        call expect(all(i) == mod((i - 1) / 2, ranks) * 100 + (i - 1) / (2 * ranks) * 2 + mod(i - 1, 2) + 1)
    end do
    call MPI_File_get_byte_offset(file, int(3, MPI_OFFSET_KIND), bytes, code)
    call expect(bytes == 12)
    call MPI_File_get_size(file, bytes, code)
    call expect(bytes == 4 * n * ranks)
    call MPI_File_get_amode(file, amode, code)
    call expect(amode == MPI_MODE_CREATE + MPI_MODE_RDWR)
    call MPI_File_get_group(file, group, code)
    call MPI_Group_size(group, count, code)
    call expect(count == ranks)
    call MPI_File_get_info(file, info, code)
    call MPI_Info_free(info, code)
    call MPI_File_set_size(file, zero, code)
    call MPI_File_preallocate(file, int(100, MPI_OFFSET_KIND), code)
    call MPI_File_get_size(file, bytes, code)
    call expect(bytes == 100)
    call MPI_File_set_size(file, zero, code)
    call MPI_Barrier(MPI_COMM_WORLD, code)
    call told('sizes and facts')

    one = rank
    call MPI_File_write_ordered(file, one, 1, MPI_INTEGER, status, code)
    call MPI_File_write_shared(file, one, 1, MPI_INTEGER, status, code)
    call MPI_File_sync(file, code)
    call MPI_Barrier(MPI_COMM_WORLD, code)
    call MPI_File_read_at(file, zero, all, 2 * ranks, MPI_INTEGER, status, code)
    call expect(all_equal(all(1:ranks), [(i - 1, i = 1, ranks)]))
    call expect(sum(all(ranks + 1:2 * ranks)) == ranks * (ranks - 1) / 2)
    call MPI_File_seek_shared(file, zero, MPI_SEEK_SET, code)
    call MPI_File_read_ordered(file, one, 1, MPI_INTEGER, status, code)
    call expect(one(1) == rank)
    call MPI_File_get_position_shared(file, place, code)
    call expect(place == ranks)
    call told('ordered and shared calls')

    place = rank * n
    call MPI_File_seek(file, place, MPI_SEEK_SET, code)
    call MPI_File_write_all_begin(file, own, n, MPI_INTEGER, code)
    call MPI_File_write_all_end(file, own, status, code)
    call MPI_Get_count(status, MPI_INTEGER, count, code)
    call expect(count == n)
    call MPI_File_seek(file, place, MPI_SEEK_SET, code)
    call MPI_File_read(file, got, n, MPI_INTEGER, status, code)
    call expect(all_equal(got, own))
    call told('split calls')

    ! Each way to write has n values of its own, each way to read reads n that another way wrote.
    more = [(rank * 1000 + i, i = 1, 16 * n)]
    call MPI_File_set_size(file, zero, code)
    place = rank * 10 * n * 4
    call MPI_File_set_view(file, place, MPI_INTEGER, MPI_INTEGER, 'native', MPI_INFO_NULL, code)
    call MPI_File_write(file, more(part(1)), n, MPI_INTEGER, status, code)
    call moved(n)
    call MPI_File_write_at(file, at(2), more(part(2)), n, MPI_INTEGER, status, code)
    call moved(n)
    call MPI_File_write_at_all(file, at(3), more(part(3)), n, MPI_INTEGER, status, code)
    call moved(n)
    call MPI_File_seek(file, at(4), MPI_SEEK_SET, code)
    own = more(part(4))
    call MPI_File_iwrite(file, own, n, MPI_INTEGER, request, code)
    call done(n)
    own = more(part(5))
    call MPI_File_iwrite_all(file, own, n, MPI_INTEGER, request, code)
    call done(n)
    own = more(part(6))
    call MPI_File_iwrite_at(file, at(6), own, n, MPI_INTEGER, request, code)
    call done(n)
    own = more(part(7))
    call MPI_File_iwrite_at_all(file, at(7), own, n, MPI_INTEGER, request, code)
    call done(n)
    own = more(part(8))
    call MPI_File_write_at_all_begin(file, at(8), own, n, MPI_INTEGER, code)
    call expect(code == MPI_SUCCESS)
    call MPI_File_write_at_all_end(file, own, status, code)
    call moved(n)
    call MPI_File_seek(file, int(2 * n, MPI_OFFSET_KIND), MPI_SEEK_CUR, code)
    call MPI_File_get_position(file, place, code)
    call expect(place == at(8))
    call MPI_File_seek(file, at(9), MPI_SEEK_SET, code)
    own = more(part(9))
    call MPI_File_write_all(file, own, n, MPI_INTEGER, status, code)
    call moved(n)
    call MPI_File_write(file, more(part(10)), n - 1, MPI_INTEGER, status, code)
    call moved(n - 1)
    call MPI_File_write_at(file, at(11) - 1, more(10 * n:10 * n), 1, MPI_INTEGER, status, code)
    call moved(1)
    call MPI_File_sync(file, code)
    call told('each way to write')

    call MPI_File_get_size(file, bytes, code)
    call expect(bytes == 4 * 10 * n * ranks)
    call MPI_File_seek(file, zero, MPI_SEEK_SET, code)
    call MPI_File_read_all(file, got, n, MPI_INTEGER, status, code)
    call is_part(1)
    call MPI_File_iread(file, got, n, MPI_INTEGER, request, code)
    call done(n)
    call is_part(2)
    call MPI_File_iread_all(file, got, n, MPI_INTEGER, request, code)
    call done(n)
    call is_part(3)
    call MPI_File_iread_at_all(file, at(4), got, n, MPI_INTEGER, request, code)
    call done(n)
    call is_part(4)
    call MPI_File_iread_at(file, at(5), got, n, MPI_INTEGER, request, code)
    call done(n)
    call is_part(5)
    call MPI_File_seek(file, at(6), MPI_SEEK_SET, code)
    call MPI_File_read_all_begin(file, got, n, MPI_INTEGER, code)
    call MPI_File_read_all_end(file, got, status, code)
    call moved(n)
    call is_part(6)
    call MPI_File_read_at_all_begin(file, at(7), got, n, MPI_INTEGER, code)
    call MPI_File_read_at_all_end(file, got, status, code)
    call moved(n)
    call is_part(7)
    call MPI_File_read_at(file, at(8), got, n, MPI_INTEGER, status, code)
    call moved(n)
    call is_part(8)
    call MPI_File_read_at_all(file, at(9), got, n, MPI_INTEGER, status, code)
    call moved(n)
    call is_part(9)
    call MPI_File_seek(file, at(10), MPI_SEEK_SET, code)
    call MPI_File_read(file, got, n, MPI_INTEGER, status, code)
    call moved(n)
    call is_part(10)
    ! At the end of the file there is less.
    place = (ranks - rank) * 10 * n - 2
    call MPI_File_read_at(file, place, got, n, MPI_INTEGER, status, code)
    call moved(2)
    call told('each way to read')

    ! Values that say whose they are: each is there once.
    call MPI_File_set_size(file, zero, code)
    place = 0
    call MPI_File_set_view(file, place, MPI_INTEGER, MPI_INTEGER, 'native', MPI_INFO_NULL, code)
    do i = 1, n
        one = rank * n + i
        call MPI_File_iwrite_shared(file, one, 1, MPI_INTEGER, request, code)
        call done(1)
    end do
    call MPI_File_sync(file, code)
    call MPI_Barrier(MPI_COMM_WORLD, code)
    call MPI_File_read_at(file, zero, all, n * ranks, MPI_INTEGER, status, code)
    call moved(n * ranks)
    call expect(each_once(all(1:n * ranks)))
    call MPI_File_seek_shared(file, zero, MPI_SEEK_SET, code)
    all = 0
    do i = 1, n
        if (mod(i, 2) == 0) then
            call MPI_File_read_shared(file, one, 1, MPI_INTEGER, status, code)
            call moved(1)
        else
            call MPI_File_iread_shared(file, one, 1, MPI_INTEGER, request, code)
            call done(1)
        end if
        all(rank * n + i) = one(1)
    end do
    call MPI_Allreduce(MPI_IN_PLACE, all, n * ranks, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, code)
    call expect(each_once(all(1:n * ranks)))
    call MPI_File_seek_shared(file, zero, MPI_SEEK_SET, code)
    own = [(rank * 100 + i, i = 1, n)]
    call MPI_File_write_ordered_begin(file, own, n, MPI_INTEGER, code)
    call expect(code == MPI_SUCCESS)
    call MPI_File_write_ordered_end(file, own, status, code)
    call moved(n)
    call MPI_File_sync(file, code)
    call MPI_Barrier(MPI_COMM_WORLD, code)
    call MPI_File_seek_shared(file, zero, MPI_SEEK_SET, code)
    got = 0
    call MPI_File_read_ordered_begin(file, got, n, MPI_INTEGER, code)
    call MPI_File_read_ordered_end(file, got, status, code)
    call moved(n)
    call expect(all_equal(got, own))
    call MPI_File_read_at(file, zero, all, n * ranks, MPI_INTEGER, status, code)
    do i = 1, n * ranks
        call expect(all(i) == (i - 1) / n * 100 + mod(i - 1, n) + 1)
    end do
    call told('nonblocking shared and split ordered calls')

    call f90_datatypes()
    call told('F90 datatypes')

    call MPI_Info_create(info, code)
    call MPI_Info_set(info, 'ind_wr_buffer_size', '131072', code)
    call MPI_File_set_info(file, info, code)
    call expect(code == MPI_SUCCESS)
    call MPI_Info_free(info, code)
    call MPI_File_get_info(file, info, code)
    value = ''
    call MPI_Info_get(info, 'ind_wr_buffer_size', len(value), value, flag, code)
    call expect(flag .and. trim(value) == '131072')
    call MPI_Info_free(info, code)
    call told('hints')

    call MPI_File_get_atomicity(file, flag, code)
    call expect(.not. flag)
    call MPI_File_set_atomicity(file, .true., code)
    call expect(code == MPI_SUCCESS)
    call MPI_File_get_atomicity(file, flag, code)
    call expect(flag)
    one = -1
    call MPI_File_write_at(file, int(rank, MPI_OFFSET_KIND), one - rank, 1, MPI_INTEGER, status, code)
    call moved(1)
    call MPI_Barrier(MPI_COMM_WORLD, code)
    ! Without a sync.
    call MPI_File_read_at(file, zero, all, ranks, MPI_INTEGER, status, code)
    call expect(all_equal(all(1:ranks), [(-i, i = 1, ranks)]))
    call MPI_Barrier(MPI_COMM_WORLD, code)
    call MPI_File_set_atomicity(file, .false., code)
    call MPI_File_get_atomicity(file, flag, code)
    call expect(code == MPI_SUCCESS .and. .not. flag)
    call told('atomic mode')

    call MPI_File_create_errhandler(handler, own_handler, code)
    call MPI_File_set_errhandler(file, own_handler, code)
    call expect(code == MPI_SUCCESS)
    call MPI_File_get_errhandler(file, other_handler, code)
    call expect(other_handler == own_handler)
    call MPI_File_read_at(file, int(-1, MPI_OFFSET_KIND), one, 1, MPI_INTEGER, status, code)
    call expect(calls_of_handler == 1 .and. class_of_handler == MPI_ERR_ARG)
    call MPI_Error_class(code, class, ignored)
    call expect(class == MPI_ERR_ARG)
    call MPI_File_call_errhandler(file, MPI_ERR_NO_SPACE, code)
    call expect(calls_of_handler == 2 .and. class_of_handler == MPI_ERR_NO_SPACE)
    call MPI_File_set_errhandler(file, MPI_ERRORS_RETURN, code)
    call MPI_File_read_at(file, int(-1, MPI_OFFSET_KIND), one, 1, MPI_INTEGER, status, code)
    call expect(code /= MPI_SUCCESS .and. calls_of_handler == 2)
    call MPI_Errhandler_free(own_handler, code)
    call told('error handlers')

    call MPI_File_close(file, code)
    call expect(code == MPI_SUCCESS)

    call MPI_File_open(MPI_COMM_WORLD, trim(path)//'.missing', MPI_MODE_RDONLY, MPI_INFO_NULL, file, code)
    call MPI_Error_class(code, class, ignored)
    call expect(class == MPI_ERR_NO_SUCH_FILE)
    call MPI_Barrier(MPI_COMM_WORLD, code)
    if (rank == 0) call MPI_File_delete(path, MPI_INFO_NULL, code)
    call told('failures have their class')
    call MPI_Finalize(code)

contains

    subroutine expect(holds)
        logical, intent(in) :: holds
        is_right = is_right .and. holds
    end subroutine

    logical function all_equal(a, b)
        integer, intent(in) :: a(:), b(:)
        integer :: k
        all_equal = size(a) == size(b)
        do k = 1, size(a)
            all_equal = all_equal .and. a(k) == b(k)
        end do
    end function

    ! The places of the values of one way to write.
    function part(way)
        integer, intent(in) :: way
        integer :: part(n), k
        part = [((way - 1) * n + k, k = 1, n)]
    end function

    integer(kind=MPI_OFFSET_KIND) function at(way)
        integer, intent(in) :: way
        at = (way - 1) * n
    end function

    subroutine is_part(way)
        integer, intent(in) :: way
        call expect(all_equal(got, more(part(way))))
        got = 0
    end subroutine

    subroutine moved(wanted)
        integer, intent(in) :: wanted
        call expect(code == MPI_SUCCESS)
        call MPI_Get_count(status, MPI_INTEGER, count, code)
        call expect(count == wanted)
    end subroutine

    subroutine done(wanted)
        integer, intent(in) :: wanted
        call expect(code == MPI_SUCCESS)
        call MPI_Wait(request, status, code)
        call moved(wanted)
    end subroutine

    ! Whether these are the numbers from 1 on.
    logical function each_once(values)
        integer, intent(in) :: values(:)
        integer :: k
        each_once = .true.
        do k = 1, size(values)
            each_once = each_once .and. count_in(values, k) == 1
        end do
    end function

    integer function count_in(values, wanted)
        integer, intent(in) :: values(:), wanted
        integer :: k
        count_in = 0
        do k = 1, size(values)
            if (values(k) == wanted) count_in = count_in + 1
        end do
    end function

    ! Reals in turn with the other ranks', complex numbers, integers: as views, etypes and in memory.
    subroutine f90_datatypes()
        integer, parameter :: r = selected_real_kind(6, 30), c = selected_real_kind(15, 300), k = selected_int_kind(9)
        HANDLE(MPI_Datatype) :: reals, complexes, integers, spread
        real(kind=r) :: real_values(4), all_reals(4 * 64)
        complex(kind=c) :: complex_values(2), got_complexes(2)
        integer(kind=k) :: integer_values(3), got_integers(3)
        integer(kind=MPI_OFFSET_KIND) :: start
        integer :: j
        call MPI_Type_create_f90_real(6, 30, reals, code)
        call expect(code == MPI_SUCCESS)
        call MPI_Type_create_f90_complex(15, 300, complexes, code)
        call MPI_Type_create_f90_integer(9, integers, code)
        call MPI_Type_vector(4, 1, ranks, reals, spread, code)
        call MPI_Type_commit(spread, code)
        real_values = [(real(rank, r) + real(j, r) / 8, j = 1, 4)]
        start = 4 * rank
        call MPI_File_set_size(file, zero, code)
        call MPI_File_set_view(file, start, reals, spread, 'native', MPI_INFO_NULL, code)
        call expect(code == MPI_SUCCESS)
        call MPI_File_write_all(file, real_values, 4, reals, status, code)
        call MPI_Get_count(status, reals, count, code)
        call expect(count == 4)
        call MPI_File_get_position(file, place, code)
        call expect(place == 4)
        call MPI_File_sync(file, code)
        start = 0
        call MPI_File_set_view(file, start, reals, reals, 'native', MPI_INFO_NULL, code)
        call MPI_File_read_at_all(file, zero, all_reals, 4 * ranks, reals, status, code)
        do j = 1, 4 * ranks
            call expect(all_reals(j) == real(mod(j - 1, ranks), r) + real((j - 1) / ranks + 1, r) / 8)
        end do
        call MPI_Barrier(MPI_COMM_WORLD, code)
        start = 1000 + 32 * rank
        complex_values = [(cmplx(rank, j, c), j = 1, 2)]
        call MPI_File_set_view(file, start, complexes, complexes, 'native', MPI_INFO_NULL, code)
        call MPI_File_write_at(file, zero, complex_values, 2, complexes, status, code)
        call MPI_File_get_byte_offset(file, int(2, MPI_OFFSET_KIND), bytes, code)
        call expect(bytes == start + 32)
        got_complexes = 0
        call MPI_File_read_at(file, zero, got_complexes, 2, complexes, status, code)
        call expect(got_complexes(1) == complex_values(1) .and. got_complexes(2) == complex_values(2))
        start = 5000 + 12 * rank
        integer_values = [(rank * 10 + j, j = 1, 3)]
        call MPI_File_set_view(file, start, integers, integers, 'external32', MPI_INFO_NULL, code)
        call expect(code == MPI_SUCCESS)
        call MPI_File_write_at(file, zero, integer_values, 3, integers, status, code)
        got_integers = 0
        call MPI_File_read_at(file, zero, got_integers, 3, integers, status, code)
        call expect(got_integers(1) == integer_values(1) .and. got_integers(3) == integer_values(3))
        start = 0
        call MPI_File_set_view(file, start, MPI_INTEGER, MPI_INTEGER, 'native', MPI_INFO_NULL, code)
        call MPI_Type_free(spread, code)
    end subroutine

    subroutine told(name)
        character(len=*), intent(in) :: name
        logical :: of_all
        call MPI_Allreduce(is_right, of_all, 1, MPI_LOGICAL, MPI_LAND, MPI_COMM_WORLD, code)
        if (rank == 0) print '(a)', trim(merge('ok    ', 'not ok', of_all))//' '//name
        is_right = .true.
    end subroutine

end program
