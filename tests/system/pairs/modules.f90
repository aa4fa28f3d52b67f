! As pair.c, with the modules.
program pair
    use mpi
    use adios_write_mod
    implicit none
    integer :: rank, ranks, code
    integer(kind=8) :: group, file, total
    call MPI_Init(code)
    call MPI_Comm_rank(MPI_COMM_WORLD, rank, code)
    call MPI_Comm_size(MPI_COMM_WORLD, ranks, code)
    call adios_init_noxml(MPI_COMM_WORLD, code)
    if (code == 0) then
        call adios_declare_group(group, "g", "", adios_stat_no, code)
        call adios_select_method(group, "MPI", "", "", code)
        call adios_define_var(group, "rank", "", adios_integer, "", "", "", total)
        call adios_open(file, "g", "pair.bp", "w", MPI_COMM_WORLD, code)
    end if
    if (code == 0) then
        call adios_group_size(file, 4_8, total, code)
        call adios_write(file, "rank", rank, code)
        call adios_close(file, code)
        call adios_finalize(rank, code)
        print "(a, i0, a, i0, a)", "rank ", rank, " of ", ranks, ": written"
    else
        print "(a, i0, a, i0, a)", "rank ", rank, " of ", ranks, ": refused"
    end if
    call MPI_Finalize(code)
end program
