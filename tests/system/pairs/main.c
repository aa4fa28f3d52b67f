/* The part that knows the real MPI, and nothing of Thalweg. */
#include <mpi.h>
#include <stdio.h>

int size_without_mpi(void);
int refused_without_mpi(void);

int main(int argc, char **argv)
{
    int rank = 0, size = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    printf("rank %d of %d: alone %d, refused %d\n", rank, size, size_without_mpi(), refused_without_mpi() != 0);
    return MPI_Finalize();
}
