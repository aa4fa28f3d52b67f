// An exception passes an output and a session that are open, behind 20 closed steps; or (with a third argument) main returns
// while both live as static objects' equals do: in memory that nobody frees.
#include <cstdio>
#include <stdexcept>
#include <thalweg.hpp>

namespace {
void write(thalweg::Session& session, const char* file)
{
    for (int n = 0; n <= 20; n++) {
        auto output = session.open("g", file, n ? thalweg::Mode::append : thalweg::Mode::write);
        output.write("n", -1);
        output.write("n", n);
        if (n == 20) throw std::runtime_error("oh");
        output.close();
    }
}
}

int main(int argc, char** argv)
{
    if (argc < 2) return 2;
    const char* xml = "<adios-config><adios-group name=\"g\"><var name=\"n\" type=\"integer\"/></adios-group>"
                      "<method group=\"g\" method=\"MPI\"/></adios-config>";
    try {
        if (argc > 2) {
            auto* session = new thalweg::Session(thalweg::Session::from_text(xml, "text"));
            write(*session, argv[1]);
        } else {
            auto session = thalweg::Session::from_text(xml, "text");
            write(session, argv[1]);
        }
    } catch (const std::runtime_error& e) {
        std::printf("caught %s\n", e.what());
    }
}
