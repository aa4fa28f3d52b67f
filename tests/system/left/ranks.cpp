// ranks HOW METHOD FILE: ranks that an exception ends behind 20 closed steps, with a step and the session open. HOW is one of
//   caught       all ranks catch it in main
//   uncaught     nobody catches it
// What is written is as in ranks.c.
#include <cstdio>
#include <mpi.h>
#include <stdexcept>
#include <string>
#include <thalweg.hpp>
#include <vector>

namespace {
int rank, ranks;

thalweg::Output step(thalweg::Session& session, const char* file, int n)
{
    const auto here = static_cast<std::uint64_t>(rank), all = static_cast<std::uint64_t>(ranks);
    std::vector<double> row;
    for (int i = 0; i < 3; i++) row.push_back(100 * n + 10 * rank + i);
    auto output = session.open("g", file, n ? thalweg::Mode::append : thalweg::Mode::write, MPI_COMM_WORLD);
    output.write("n", n).write("t", row, {{all, 3}, {here, 0}, {1, 3}});
    return output;
}

void write(const std::string& method, const char* file)
{
    const std::string xml = "<adios-config host-language=\"C\"><adios-group name=\"g\"><var name=\"n\" type=\"integer\"/>"
                            "<var name=\"ranks\" type=\"integer\"/><var name=\"rank\" type=\"integer\"/><global-bounds dimensions=\"ranks,3\" offsets=\"rank,0\">"
                            "<var name=\"t\" type=\"double\" dimensions=\"1,3\"/></global-bounds></adios-group><method group=\"g\" method=\"" +
                            method + "\"/></adios-config>";
    auto session = thalweg::Session::from_text(xml, "text", MPI_COMM_WORLD);
    for (int n = 0; n < 20; n++) step(session, file, n).close();
    auto output = step(session, file, 20);
    throw std::runtime_error("oh");
}
}

int main(int argc, char** argv)
{
    if (argc != 4) return 2;
    const std::string how = argv[1];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (how == "uncaught") write(argv[2], argv[3]);
    try {
        write(argv[2], argv[3]);
    } catch (const thalweg::Error& e) {
        std::printf("rank %d caught %s\n", rank, e.what());
    } catch (const std::runtime_error& e) {
        std::printf("rank %d caught %s\n", rank, e.what());
    }
    MPI_Finalize();
}
