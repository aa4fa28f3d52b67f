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
program calls
#if defined(F08)
    use mpi_f08
#elif defined(MPI)
    use mpi
#endif
    implicit none
#if defined(MPIF)
    include 'mpif.h'
#endif
    integer, parameter :: n = 6
    character(len=1024) :: path
    character(len=MPI_MAX_DATAREP_STRING) :: representation
    HANDLE(MPI_File) :: file
    HANDLE(MPI_Datatype) :: block, etype, filetype
    HANDLE(MPI_Request) :: request
    HANDLE(MPI_Info) :: info
    HANDLE(MPI_Group) :: group
    STATUS(status)
    integer :: rank, ranks, code, count, i, amode, class
    integer :: own(n), got(n), all(n * 64), one(1)
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
    call MPI_File_get_atomicity(file, flag, code)
    call expect(.not. flag)
    call MPI_File_close(file, code)
    call expect(code == MPI_SUCCESS)
    call told('split calls')

    call MPI_File_open(MPI_COMM_WORLD, trim(path)//'.missing', MPI_MODE_RDONLY, MPI_INFO_NULL, file, code)
    call MPI_Error_class(code, class, code)
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

    subroutine told(name)
        character(len=*), intent(in) :: name
        logical :: of_all
        call MPI_Allreduce(is_right, of_all, 1, MPI_LOGICAL, MPI_LAND, MPI_COMM_WORLD, code)
        if (rank == 0) print '(a)', trim(merge('ok    ', 'not ok', of_all))//' '//name
        is_right = .true.
    end subroutine

end program
