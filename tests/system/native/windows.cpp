// Output windows from C++: as windows.c, through the classes.
//
//   windows FOLDER [MEETING RANK RANKS]
#ifndef _NOMPI
#include <mpi.h>
#endif
extern "C" {
#include "check.h"
}
#include <array>
#include <fstream>
#include <iterator>
#include <thalweg.hpp>

static thalweg::Windows open_file(const std::string& path, int argc, char** argv)
{
#ifdef _NOMPI
    if (argc == 5) return thalweg::Windows::of_processes(path, argv[2], (std::uint32_t)my_rank, (std::uint32_t)all_ranks, thalweg::Seconds(30));
    return thalweg::Windows(path);
#else
    (void)argc;
    (void)argv;
    return thalweg::Windows(path, MPI_COMM_WORLD);
#endif
}

static thalweg::Input open_input(const std::string& path, int argc, char** argv)
{
#ifdef _NOMPI
    if (argc == 5) return thalweg::Input::of_processes(path, argv[2], (std::uint32_t)my_rank, (std::uint32_t)all_ranks, thalweg::Seconds(30));
    return thalweg::Input(path);
#else
    (void)argc;
    (void)argv;
    return thalweg::Input(path, MPI_COMM_WORLD);
#endif
}

int main(int argc, char** argv)
{
#ifdef _NOMPI
    if (argc == 5) {
        my_rank = std::stoi(argv[3]);
        all_ranks = std::stoi(argv[4]);
    }
#else
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &my_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &all_ranks);
#endif
    const std::string path = std::string(argv[1]) + "/out";
    const std::uint64_t each = 1000 * sizeof(double), total = each * (std::uint64_t)all_ranks;
    try {
        auto file = open_file(path, argc, argv);
        thalweg::WindowOptions options;
        options.owners = {0};
        options.write_stripe = 4096;
        options.commit_offset = 2 * total;
        options.commit = "valid";
        auto window = file.start(0, total, options);
        std::vector<double> mine(1000, my_rank + 0.5);
        window.write(each * (std::uint64_t)my_rank, mine);
        window.end();
        window.wait();
        check(1, "a vector is written into a window");

        int told = -1;
        auto second = file.start(total, total);
        file.on_complete(second, [&told](int status) { told = status; });
        const std::array<char, 4> start{'a', 'b', 'c', 'd'};
        const std::uint64_t at = total + each * (std::uint64_t)my_rank;
        const bool taken = second.try_write(at, start) == 4;
        second.write(at + 4, std::string(each - 12, 'x')).write(at + each - 8, std::int64_t{7});
        second.end();
        while (told < 0) file.progress();
        check(taken && told == THALWEG_OK, "an array, a text and a number; a callback is called");

        bool thrown = false;
        auto missing = file.start(3 * total, 8);
        missing.end();
        try {
            while (!missing.test()) {}
        } catch (const thalweg::Error& e) {
            thrown = e.kind() == thalweg::Kind::invalid_argument;
        }
        check(thrown, "a failure of a window is thrown on all ranks");
        file.close();

        std::ifstream in(path, std::ios::binary);
        const std::string bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
        double last = 0;
        std::int64_t seven = 0;
        if (bytes.size() >= 2 * total) {
            std::memcpy(&last, bytes.data() + total - sizeof last, sizeof last);
            std::memcpy(&seven, bytes.data() + 2 * total - sizeof seven, sizeof seven);
        }
        check(last == all_ranks - 0.5 && seven == 7 && bytes.substr(total, 5) == "abcdx" && bytes.substr(2 * total) == "valid",
              "the file contains what was written");

        auto input = open_input(path, argc, argv);
        thalweg::WindowOptions two;
        two.active = all_ranks > 1 ? 2 : 1;
        two.fraction = 4096;
        const auto ahead = input.start(0, total, two);
        auto last_one = input.read<double>(ahead, total - sizeof(double), 1);
        auto text = input.read<char>(ahead, 0, 8);
        input.progress();
        std::vector<char> first;
        while (!text.test(first)) {}
        const auto last_value = last_one.wait();
        bool outside = false;
        try {
            input.read<char>(ahead, total, 1);
        } catch (const thalweg::Error& e) {
            outside = e.kind() == thalweg::Kind::out_of_bounds;
        }
        input.finish(ahead); // checks are collective calls
        check(last_value == std::vector<double>{all_ranks - 0.5} && first == std::vector<char>(bytes.begin(), bytes.begin() + 8),
              "numbers are read from an input window");
        check(outside && input.length() == bytes.size(), "bytes outside are refused");
        input.end(input.start(0, 8));
        input.close();

        {
            auto left = open_file(path, argc, argv);
            left.start(0, 8);
        }
        check(1, "a file that is not closed is dropped without waiting");
    } catch (const thalweg::Error& e) {
        check(0, e.what());
    }
#ifndef _NOMPI
    MPI_Finalize();
#endif
    return checks_failed != 0;
}
