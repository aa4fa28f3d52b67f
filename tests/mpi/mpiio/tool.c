/* A tool that stands between a program and MPI, as Darshan does: counts calls of MPI-IO and passes them to the names with P. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int opens, writes, reads;

int MPI_File_open(MPI_Comm comm, const char *path, int amode, MPI_Info info, MPI_File *file) {
    opens++;
    return PMPI_File_open(comm, path, amode, info, file);
}

int MPI_File_write_at(MPI_File file, MPI_Offset offset, const void *bytes, int count, MPI_Datatype type, MPI_Status *status) {
    writes++;
    return PMPI_File_write_at(file, offset, bytes, count, type, status);
}

int MPI_File_read_at(MPI_File file, MPI_Offset offset, void *bytes, int count, MPI_Datatype type, MPI_Status *status) {
    reads++;
    return PMPI_File_read_at(file, offset, bytes, count, type, status);
}

int MPI_Finalize(void) {
    int rank = 0;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0 && getenv("TOOL")) printf("tool: %d opens, %d writes, %d reads\n", opens, writes, reads);
    return PMPI_Finalize();
}
