// As pair.c, with thalweg.hpp.
#include <cstdio>
#include <mpi.h>
#include <thalweg.hpp>

int main(int argc, char** argv)
{
    int rank = 0, size = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    try {
        auto session = thalweg::Session::from_text("<adios-config><adios-group name=\"g\"><var name=\"rank\" type=\"integer\"/>"
                                                   "</adios-group><method group=\"g\" method=\"MPI\"/></adios-config>",
                                                   "text", MPI_COMM_WORLD);
        auto output = session.open("g", "pair.bp", thalweg::Mode::write);
        output.write("rank", rank);
        output.close();
        session.close();
        std::printf("rank %d of %d: written\n", rank, size);
    } catch (const thalweg::Error& e) {
        std::printf("rank %d of %d: refused: %s\n", rank, size, e.what());
    }
    MPI_Finalize();
}
