// read: prints the content of heat.bp, step by step. One process, without MPI.
//
//   c++ -std=c++17 read.cpp $(pkg-config --cflags --libs thalweg-nompi) -o read && ./read heat.bp
#include <cstdio>
#include <thalweg.hpp>

int main(int argc, char** argv)
try {
    const thalweg::Reader file(argc > 1 ? argv[1] : "heat.bp");
    const auto t = file.variable("T");
    const auto ny = t.shape.at(0), nx = t.shape.at(1);
    std::printf("T: %zu steps of %llu x %llu\n", t.steps.size(), static_cast<unsigned long long>(ny), static_cast<unsigned long long>(nx));
    for (const auto step : t.steps) {
        // From the file's characteristics; the middle is the only value of T that is read.
        const auto known = file.summary("T", step, 1);
        const auto middle = file.read<double>("T", step, thalweg::box({ny / 2, nx / 2}, {1, 1}));
        std::printf("step %lld: time %.1f, T from %.3f to %.3f, in the middle %.3f\n", static_cast<long long>(step),
                    file.read_value<double>("time", step), known.min.value(), known.max.value(), middle.front());
    }
} catch (const std::exception& e) {
    std::fprintf(stderr, "read: %s\n", e.what());
    return 1;
}
