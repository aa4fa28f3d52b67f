// The Gray-Scott model on a periodic cube, distributed over MPI ranks: ../solver.c as a class, with bit-identical results.
#pragma once

#include <mpi.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

struct Settings {
    int size = 64;                // cells along each edge of the cube
    double F = 0.02, k = 0.048;   // feed rate, kill rate
    double Du = 0.2, Dv = 0.1;    // diffusion rates, in cell edges squared per unit of time
    double dt = 1.0, noise = 0.01; // time step; largest disturbance of u at the start
};

class Solver {
public:
    Solver(const Settings& settings, MPI_Comm comm) : set(settings)
    {
        int ranks, dims[3] = {0, 0, 0}, place[3];
        const int periodic[3] = {1, 1, 1};
        MPI_Comm_size(comm, &ranks);
        MPI_Dims_create(ranks, 3, dims);
        MPI_Cart_create(comm, 3, dims, periodic, 0, &cart);
        MPI_Comm_rank(cart, &rank);
        MPI_Cart_coords(cart, rank, 3, place);
        for (int d = 0; d < 3; d++) {
            // The first ranks get one more cell if the edge does not divide evenly.
            const int even = set.size / dims[d], more = set.size % dims[d];
            count[at(d)] = even + (place[d] < more);
            offset[at(d)] = place[d] * even + (place[d] < more ? place[d] : more);
            MPI_Cart_shift(cart, d, 1, &below[at(d)], &above[at(d)]);
            if (even == 0) throw std::runtime_error(std::to_string(set.size) + " cells cannot be shared among " + std::to_string(dims[d]) + " ranks");
        }
        for (int d = 0; d < 3; d++) {
            int whole[3], layer[3];
            const int origin[3] = {0, 0, 0};
            for (int e = 0; e < 3; e++) {
                whole[e] = count[at(e)] + 2;
                layer[e] = e == d ? 1 : count[at(e)];
            }
            MPI_Type_create_subarray(3, whole, layer, origin, MPI_ORDER_C, MPI_DOUBLE, &face[at(d)]);
            MPI_Type_commit(&face[at(d)]);
        }
        const auto cells = index(count[0] + 1, count[1] + 1, count[2] + 1) + 1;
        for (auto* field : {&u, &v, &next_u, &next_v}) field->assign(cells, 0.0);
    }
    Solver(const Solver&) = delete;
    Solver& operator=(const Solver&) = delete;
    ~Solver()
    {
        for (auto& type : face) MPI_Type_free(&type);
        MPI_Comm_free(&cart);
    }

    // The state at step 0: u = 1 and v = 0, a cube with opposite values in the middle, and a little noise.
    void start()
    {
        const int middle = set.size / 2, half = set.size / 10 + 1;
        const auto near = [&](int d, int i) { return std::abs(offset[at(d)] + i - 1 - middle) < half; };
        for_each_cell([&](int i, int j, int k, std::size_t c) {
            const bool seeded = near(0, i) && near(1, j) && near(2, k);
            const double random = static_cast<double>(mix(cell_number(i, j, k)) >> 11) * 0x1p-53; // in [0, 1)
            u[c] = (seeded ? 0.25 : 1.0) - set.noise * random;
            v[c] = seeded ? 0.33 : 0.0;
        });
    }

    void step()
    {
        exchange(u);
        exchange(v);
        const std::size_t row = index(0, 1, 0), plane = index(1, 0, 0); // to the neighbours
        for_each_cell([&](int, int, int, std::size_t c) {
            const double lap_u = ((u[c - plane] + u[c + plane]) + (u[c - row] + u[c + row]) + (u[c - 1] + u[c + 1])) / 6.0 - u[c];
            const double lap_v = ((v[c - plane] + v[c + plane]) + (v[c - row] + v[c + row]) + (v[c - 1] + v[c + 1])) / 6.0 - v[c];
            const double reaction = u[c] * v[c] * v[c];
            next_u[c] = u[c] + set.dt * (set.Du * lap_u - reaction + set.F * (1.0 - u[c]));
            next_v[c] = v[c] + set.dt * (set.Dv * lap_v + reaction - (set.F + set.k) * v[c]);
        });
        std::swap(u, next_u);
        std::swap(v, next_v);
    }

    // A fingerprint of the bits of u and v over all ranks: the same for any number of ranks. Collective.
    std::uint64_t fingerprint() const
    {
        std::uint64_t mine = 0, all = 0;
        for_each_cell([&](int i, int j, int k, std::size_t c) {
            std::uint64_t bits_u, bits_v;
            const std::uint64_t cell = cell_number(i, j, k);
            std::memcpy(&bits_u, &u[c], 8);
            std::memcpy(&bits_v, &v[c], 8);
            mine += mix(mix(bits_u + 2 * cell) ^ mix(bits_v + 2 * cell + 1));
        });
        MPI_Allreduce(&mine, &all, 1, MPI_UINT64_T, MPI_SUM, cart);
        return all;
    }

    const Settings set;
    MPI_Comm cart = MPI_COMM_NULL; // periodic in three dimensions
    int rank = 0;
    std::array<int, 3> count{}, offset{}; // cells of this rank without ghost cells, and its first one in the cube; slowest first
    std::vector<double> u, v;             // (count + 2)^3 values: ghost cells all round

private:
    static constexpr std::size_t at(int d) { return static_cast<std::size_t>(d); }

    std::size_t index(int i, int j, int k) const { return (at(i) * at(count[1] + 2) + at(j)) * at(count[2] + 2) + at(k); }

    template <class F>
    void for_each_cell(F f) const
    {
        for (int i = 1; i <= count[0]; i++)
            for (int j = 1; j <= count[1]; j++)
                for (int k = 1; k <= count[2]; k++) f(i, j, k, index(i, j, k));
    }

    // The number of a cell in the whole cube, from which noise and fingerprint are computed.
    std::uint64_t cell_number(int i, int j, int k) const
    {
        const auto size = static_cast<std::uint64_t>(set.size);
        const auto in_cube = [&](int d, int n) { return static_cast<std::uint64_t>(offset[at(d)] + n - 1); };
        return (in_cube(0, i) * size + in_cube(1, j)) * size + in_cube(2, k);
    }

    // Mixes 64 bits well (the finalizer of splitmix64).
    static std::uint64_t mix(std::uint64_t x)
    {
        x += 0x9e3779b97f4a7c15u;
        x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
        x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
        return x ^ (x >> 31);
    }

    // Fills the ghost layers of a field, except corners, which the stencil does not use.
    void exchange(std::vector<double>& field)
    {
        for (int d = 0; d < 3; d++) {
            int first[3] = {1, 1, 1}, end[3] = {1, 1, 1}, low[3] = {1, 1, 1}, high[3] = {1, 1, 1};
            end[d] = count[at(d)];
            low[d] = 0;
            high[d] = count[at(d)] + 1;
            const auto cell = [&](const int* c) { return &field[index(c[0], c[1], c[2])]; };
            MPI_Sendrecv(cell(first), 1, face[at(d)], below[at(d)], 2 * d, cell(high), 1, face[at(d)], above[at(d)], 2 * d, cart, MPI_STATUS_IGNORE);
            MPI_Sendrecv(cell(end), 1, face[at(d)], above[at(d)], 2 * d + 1, cell(low), 1, face[at(d)], below[at(d)], 2 * d + 1, cart, MPI_STATUS_IGNORE);
        }
    }

    std::array<int, 3> below{}, above{}; // neighbours
    std::array<MPI_Datatype, 3> face{};  // one layer of cells across each dimension
    std::vector<double> next_u, next_v;
};
