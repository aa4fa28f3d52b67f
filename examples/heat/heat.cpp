// heat: a plate that is hot along one edge, shared among MPI ranks by rows. README.md describes the file.
//
//   mpicxx -std=c++17 heat.cpp $(pkg-config --cflags --libs thalweg-cpp) -o heat && mpiexec -n 3 ./heat heat.xml heat.bp
#include <mpi.h>

#include <algorithm>
#include <iostream>
#include <thalweg.hpp>
#include <vector>

constexpr int NY = 24, NX = 32, GAP = 50, OUTPUTS = 5;

static void simulate(const std::string& config, const std::string& path)
{
    const MPI_Comm comm = MPI_COMM_WORLD;
    int rank, ranks;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &ranks);

    // Rows of this rank; the first ranks get one more if the rows do not divide evenly. Row 0 and row rows + 1 are ghosts.
    const int rows = NY / ranks + (rank < NY % ranks), first = rank * (NY / ranks) + std::min(rank, NY % ranks);
    const int above = rank > 0 ? rank - 1 : MPI_PROC_NULL, below = rank < ranks - 1 ? rank + 1 : MPI_PROC_NULL;
    std::vector<double> t(static_cast<std::size_t>((rows + 2) * NX)), next;
    const auto row = [&t](int y) { return t.data() + y * NX; };
    if (rank == 0) std::fill(row(1), row(2), 100.0);
    next = t;

    thalweg::Session session(config, comm);
    for (int iteration = 0; iteration <= GAP * (OUTPUTS - 1); iteration++) {
        if (iteration % GAP == 0) {
            auto output = session.open("heat", path, iteration == 0 ? thalweg::Mode::write : thalweg::Mode::append);
            output.write("ny", NY).write("nx", NX).write("rows", rows).write("first", first);
            output.write("iteration", iteration).write("time", 0.25 * iteration);
            output.write("T", thalweg::View(row(1), static_cast<std::size_t>(rows * NX)));
            output.close();
        }
        MPI_Sendrecv(row(1), NX, MPI_DOUBLE, above, 0, row(rows + 1), NX, MPI_DOUBLE, below, 0, comm, MPI_STATUS_IGNORE);
        MPI_Sendrecv(row(rows), NX, MPI_DOUBLE, below, 1, row(0), NX, MPI_DOUBLE, above, 1, comm, MPI_STATUS_IGNORE);
        for (int y = 1; y <= rows; y++) {
            if (first + y - 1 == 0 || first + y - 1 == NY - 1) continue; // edges keep their temperature
            const double *up = row(y - 1), *here = row(y), *down = row(y + 1);
            for (int x = 1; x < NX - 1; x++)
                next[static_cast<std::size_t>(y * NX + x)] =
                    here[x] + 0.2 * (((up[x] + down[x]) + (here[x - 1] + here[x + 1])) - 4.0 * here[x]);
        }
        std::swap(t, next);
    }
    session.close();
}

int main(int argc, char** argv)
{
    MPI_Init(&argc, &argv);
    try {
        simulate(argc > 1 ? argv[1] : "heat.xml", argc > 2 ? argv[2] : "heat.bp");
    } catch (const thalweg::Error& e) {
        std::cerr << "heat: " << e.what() << '\n';
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Finalize();
}
