! As modules.f90, with communicators of mpi_f08.
program pair
    use mpi_f08
    use adios_write_mod
    implicit none
    integer :: code
    integer(kind=8) :: file
    call MPI_Init(code)
    call adios_init_noxml(MPI_COMM_WORLD, code)
    call adios_open(file, "g", "pair.bp", "w", MPI_COMM_WORLD, code)
    call MPI_Finalize(code)
end program
