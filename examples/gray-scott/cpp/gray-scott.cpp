// gray-scott: ../gray-scott.c in C++, with the same XML and a bit-identical file.
//
//   mpiexec -n 4 ./gray-scott-cpp --size 32 --steps 100 --plotgap 20 --checkpoint 50
//   mpiexec -n 3 ./gray-scott-cpp --size 32 --steps 200 --plotgap 20 --checkpoint 50 --restart
#include "solver.hpp"

#include <cinttypes>
#include <cstdio>
#include <iostream>
#include <map>
#include <thalweg.hpp>

namespace {

struct Options {
    Settings set;
    int steps = 1000, plotgap = 100, checkpoint = 500;
    bool restart = false;
    std::string config = "gray-scott.xml", output = "gs.bp", state = "restart.bp";
};

Options options(int argc, char** argv)
{
    Options o;
    const std::map<std::string, int*> whole{{"--size", &o.set.size}, {"--steps", &o.steps}, {"--plotgap", &o.plotgap}, {"--checkpoint", &o.checkpoint}};
    const std::map<std::string, double*> real{{"--F", &o.set.F},   {"--k", &o.set.k},   {"--Du", &o.set.Du},
                                              {"--Dv", &o.set.Dv}, {"--dt", &o.set.dt}, {"--noise", &o.set.noise}};
    const std::map<std::string, std::string*> names{{"--config", &o.config}, {"--output", &o.output}, {"--state", &o.state}};
    for (int n = 1; n < argc; n++) {
        const std::string name = argv[n];
        if (name == "--restart") {
            o.restart = true;
            continue;
        }
        if (n + 1 == argc) throw std::invalid_argument("unknown option '" + name + "'");
        const std::string value = argv[++n];
        if (whole.count(name)) {
            *whole.at(name) = std::stoi(value);
        } else if (real.count(name)) {
            *real.at(name) = std::stod(value);
        } else if (names.count(name)) {
            *names.at(name) = value;
        } else {
            throw std::invalid_argument("unknown option '" + name + "'");
        }
    }
    return o;
}

thalweg::Dims dims(const std::array<int, 3>& numbers) { return {numbers.begin(), numbers.end()}; }

// Place of this rank's cells in its fields: inside one layer of ghost cells.
thalweg::Memory inside(const Solver& s) { return thalweg::Memory::ghosts(dims(s.count), 1); }

void write_box(thalweg::Output& output, const Solver& s)
{
    output.write("L", s.set.size);
    output.write("nx", s.count[0]).write("ny", s.count[1]).write("nz", s.count[2]);
    output.write("ox", s.offset[0]).write("oy", s.offset[1]).write("oz", s.offset[2]);
}

// Without packing: u and v are written directly from the fields.
void write_arrays(thalweg::Output& output, const Solver& s)
{
    output.write("u", s.u, thalweg::declared, inside(s)).write("v", s.v, thalweg::declared, inside(s));
    output.close();
}

void write_fields(thalweg::Session& session, const Solver& s, int step, const std::string& path, thalweg::Mode mode)
{
    auto output = session.open("fields", path, mode);
    write_box(output, s);
    if (s.rank == 0) { // the same everywhere, so one rank is enough
        output.write("step", step).write("time", step * s.set.dt).write("F", s.set.F).write("k", s.set.k);
        output.write("Du", s.set.Du).write("Dv", s.set.Dv).write("dt", s.set.dt);
    }
    write_arrays(output, s);
}

void write_restart(thalweg::Session& session, const Solver& s, int step, const std::string& path, thalweg::Mode mode)
{
    auto output = session.open("restart", path, mode);
    write_box(output, s);
    if (s.rank == 0) output.write("step", step);
    write_arrays(output, s);
}

// Fills u and v from the last step of `path`, written by any number of ranks, and returns its step.
int read_restart(Solver& s, const std::string& path)
{
    thalweg::Reader file(path, s.cart);
    // First the size of the cube: a box of another cube would be read without an error.
    if (const int size = file.read_value<int>("L"); size != s.set.size)
        throw std::runtime_error(path + " holds a cube of " + std::to_string(size) + " cells along an edge, this run has " + std::to_string(s.set.size));
    const auto box = thalweg::box(dims(s.offset), dims(s.count));
    file.read_into("u", s.u, thalweg::last, box, inside(s));
    file.read_into("v", s.v, thalweg::last, box, inside(s));
    return file.read_value<int>("step");
}

void simulate(const Options& o)
{
    Solver s(o.set, MPI_COMM_WORLD);
    thalweg::Session session(o.config, s.cart);
    const double begin = MPI_Wtime();
    int first = 0, plots = 0;
    auto fields = thalweg::Mode::write, state = thalweg::Mode::write;
    if (o.restart) {
        first = read_restart(s, o.state);
        fields = state = thalweg::Mode::append;
        if (s.rank == 0) std::printf("carrying on from step %d of %s\n", first, o.state.c_str());
    } else {
        s.start();
    }
    for (int step = first; step <= o.steps; step++) {
        if (step > first) s.step();
        if (o.restart && step == first) continue; // the run before wrote this step
        if (o.plotgap && step % o.plotgap == 0) {
            write_fields(session, s, step, o.output, std::exchange(fields, thalweg::Mode::append));
            plots++;
        }
        if (o.checkpoint && step > 0 && step % o.checkpoint == 0)
            write_restart(session, s, step, o.state, std::exchange(state, thalweg::Mode::append));
    }
    session.close();
    const std::uint64_t fingerprint = s.fingerprint();
    if (s.rank == 0)
        std::printf("steps %d to %d, %d outputs of fields: %.2f s\nfingerprint of the final state: %016" PRIx64 "\n", first, o.steps, plots,
                    MPI_Wtime() - begin, fingerprint);
}

} // namespace

int main(int argc, char** argv)
{
    MPI_Init(&argc, &argv);
    try {
        simulate(options(argc, argv));
    } catch (const std::exception& e) {
        std::cerr << "gray-scott: " << e.what() << '\n';
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Finalize();
}
