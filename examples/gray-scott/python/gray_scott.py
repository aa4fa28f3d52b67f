"""gray-scott: the program beside it (../gray-scott.c) in numpy, with the same XML and the same file, bit for bit.

    mpiexec -n 4 python gray_scott.py --size 32 --steps 100 --plotgap 20 --checkpoint 50
    mpiexec -n 3 python gray_scott.py --size 32 --steps 200 --plotgap 20 --restart
"""

import argparse
from pathlib import Path

import numpy as np
import thalweg
from mpi4py import MPI


def options():
    parser = argparse.ArgumentParser(description="reaction and diffusion of two chemicals in a periodic cube")
    for name, value in [("size", 64), ("steps", 1000), ("plotgap", 100), ("checkpoint", 500)]:
        parser.add_argument(f"--{name}", type=int, default=value)
    for name, value in [("F", 0.02), ("k", 0.048), ("Du", 0.2), ("Dv", 0.1), ("dt", 1.0), ("noise", 0.01)]:
        parser.add_argument(f"--{name}", type=float, default=value)
    parser.add_argument("--restart", action="store_true")
    parser.add_argument("--config", default=Path(__file__).parent.parent / "gray-scott.xml")
    parser.add_argument("--output", default="gs.bp")
    parser.add_argument("--state", default="restart.bp")
    return parser.parse_args()


def mixed(x):
    """Mixes 64 bits well (the finalizer of splitmix64)."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


class Solver:
    """One rank's box of the cube, with a ghost layer around it."""

    def __init__(self, o, comm):
        self.o = o
        self.comm = comm.Create_cart(MPI.Compute_dims(comm.size, 3), periods=[True] * 3)
        self.count, self.offset = [], []
        for size, place in zip(self.comm.dims, self.comm.coords):
            # The first ranks get one more cell if the edge does not divide evenly.
            even, more = divmod(o.size, size)
            self.count.append(even + (place < more))
            self.offset.append(place * even + min(place, more))
        shape = [n + 2 for n in self.count]
        self.u, self.v, self.next_u, self.next_v = (np.zeros(shape) for _ in range(4))
        self.inner = (slice(1, -1),) * 3

    @property
    def box(self):
        return tuple(slice(a, a + n) for a, n in zip(self.offset, self.count))

    def start(self):
        o = self.o
        x, y, z = np.meshgrid(*(np.arange(a, a + n) for a, n in zip(self.offset, self.count)), indexing="ij")
        middle, half = o.size // 2, o.size // 10 + 1
        seeded = (abs(x - middle) < half) & (abs(y - middle) < half) & (abs(z - middle) < half)
        number = ((x * o.size + y) * o.size + z).astype(np.uint64)
        random = (mixed(number) >> np.uint64(11)).astype(float) * 2.0**-53
        self.u[self.inner] = np.where(seeded, 0.25, 1.0) - o.noise * random
        self.v[self.inner] = np.where(seeded, 0.33, 0.0)

    def exchange(self, field):
        """Fills the ghost layers. Corners stay untouched: the stencil never looks there."""
        for d in range(3):
            below, above = self.comm.Shift(d, 1)
            for of, ghost, to, source in ((1, -1, below, above), (-2, 0, above, below)):
                layer = [slice(1, -1)] * 3
                layer[d] = of
                sent = np.ascontiguousarray(field[tuple(layer)])
                got = np.empty_like(sent)
                self.comm.Sendrecv(sent, to, 0, got, source, 0)
                layer[d] = ghost
                field[tuple(layer)] = got

    def laplacian(self, f):
        """In the order of operations of the program in C."""
        c = slice(1, -1)
        x = f[:-2, c, c] + f[2:, c, c]
        y = f[c, :-2, c] + f[c, 2:, c]
        z = f[c, c, :-2] + f[c, c, 2:]
        return ((x + y) + z) / 6.0 - f[self.inner]

    def step(self):
        o = self.o
        self.exchange(self.u)
        self.exchange(self.v)
        u, v = self.u[self.inner], self.v[self.inner]
        reaction = u * v * v
        self.next_u[self.inner] = u + o.dt * (o.Du * self.laplacian(self.u) - reaction + o.F * (1.0 - u))
        self.next_v[self.inner] = v + o.dt * (o.Dv * self.laplacian(self.v) + reaction - (o.F + o.k) * v)
        self.u, self.next_u = self.next_u, self.u
        self.v, self.next_v = self.next_v, self.v

    def write_box(self, out):
        """The box of this rank; u and v of both groups are described with these names."""
        out["L"] = self.o.size
        for name, n in zip(("nx", "ny", "nz", "ox", "oy", "oz"), (*self.count, *self.offset)):
            out[name] = n

    def write_fields(self, writer, step):
        o = self.o
        with writer.step() as out:
            self.write_box(out)
            if self.comm.rank == 0:  # the same everywhere, so one rank is enough
                out["step"] = step
                out["time"] = step * o.dt
                for name in ("F", "k", "Du", "Dv", "dt"):
                    out[name] = getattr(o, name)
            out["u"] = self.u[self.inner]
            out["v"] = self.v[self.inner]

    def write_state(self, writer, step):
        with writer.step() as out:
            self.write_box(out)
            if self.comm.rank == 0:
                out["step"] = step
            out["u"] = self.u[self.inner]
            out["v"] = self.v[self.inner]

    def read_state(self, path):
        """Each rank its box of the last step, whatever blocks it was written in."""
        with thalweg.open(path) as f:
            self.u[self.inner] = f["u"][(-1, *self.box)]
            self.v[self.inner] = f["v"][(-1, *self.box)]
            return int(f["step"].value)


def main():
    o = options()
    solver = Solver(o, MPI.COMM_WORLD)
    first = 0
    if o.restart:
        first = solver.read_state(o.state)
        if solver.comm.rank == 0:
            print(f"carrying on from step {first} of {o.state} on {solver.comm.size} ranks")
    else:
        solver.start()
    mode, plots = "a" if o.restart else "w", 0
    with thalweg.Session(o.config, solver.comm) as session:
        fields = session.writer(o.output, "fields", mode=mode)
        state = session.writer(o.state, "restart", mode=mode)
        for step in range(first, o.steps + 1):
            if step > first:
                solver.step()
            elif o.restart:
                continue  # the run before wrote this step
            if o.plotgap and step % o.plotgap == 0:
                solver.write_fields(fields, step)
                plots += 1
            if o.checkpoint and step > 0 and step % o.checkpoint == 0:
                solver.write_state(state, step)
    if solver.comm.rank == 0:
        print(f"{solver.comm.size} ranks, steps {first} to {o.steps}, {plots} outputs of fields")


if __name__ == "__main__":
    main()
