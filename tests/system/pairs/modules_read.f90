! As modules.f90, a program that reads.
program pair
    use mpi
    use adios_read_mod
    implicit none
    integer :: code
    integer(kind=8) :: file
    call MPI_Init(code)
    call adios_read_init_method(adios_read_method_bp, MPI_COMM_WORLD, "", code)
    call adios_read_open_file(file, "pair.bp", adios_read_method_bp, MPI_COMM_WORLD, code)
    call MPI_Finalize(code)
end program
