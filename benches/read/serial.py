"""Writes and reads the arrays of this bench with adios2 and h5py.

    serial.py write|BP3|BP5|h5py FOLDER ROUNDS EDGE SMALL STEPS

`write` makes their own files; BP3 reads those of Thalweg.
"""

import sys
import time

import adios2.bindings as adios2
import h5py
import numpy as np

what, folder = sys.argv[1:3]
rounds, edge, small, steps = map(int, sys.argv[3:])
CUTS = 4


def values(n):
    return np.arange(n**3, dtype=float).reshape(n, n, n)


def write_bp5(path, n, steps):
    adios = adios2.ADIOS()
    io = adios.DeclareIO("write")
    io.SetEngine("BP5")
    size = n // CUTS
    data = values(n)
    variable = io.DefineVariable("v", data, [n] * 3, [0] * 3, [size] * 3, False)
    file = io.Open(path, adios2.Mode.Write)
    for step in range(steps):
        file.BeginStep()
        for block in range(CUTS**3):
            at = [block // CUTS // CUTS * size, block // CUTS % CUTS * size, block % CUTS * size]
            part = data[at[0]:at[0] + size, at[1]:at[1] + size, at[2]:at[2] + size] + step
            variable.SetSelection([at, [size] * 3])
            file.Put(variable, np.ascontiguousarray(part), adios2.Mode.Sync)
        file.EndStep()
    file.Close()


def write():
    start = time.perf_counter()
    for name, n, count in (("array", edge, 1), ("series", small, steps)):
        write_bp5(f"{folder}/{name}.bp5", n, count)
        with h5py.File(f"{folder}/{name}.h5", "w", libver="latest") as file:
            if name == "array":
                file["v"] = values(n)
            else:
                data = file.create_dataset("v", (count, n, n, n), dtype=float)
                for step in range(count):
                    data[step] = values(n) + step
    print(f"value own:write {time.perf_counter() - start:.6f}")


def bytes_read():
    with open("/proc/self/io") as io:
        return int(io.readline().split()[1])


def of_adios2(engine):
    adios = adios2.ADIOS()
    files = []
    for name in ("array", "series"):
        io = adios.DeclareIO(name)
        io.SetEngine(engine)
        path = f"{folder}/{name}.bp5" if engine == "BP5" else f"{folder}/{name}.bp"
        file = io.Open(path, adios2.Mode.ReadRandomAccess)
        files.append((file, io.InquireVariable("v"), adios))

    def read(pattern, offset, count, out):
        file, variable, _ = files[pattern == "series"]
        if pattern == "series":
            variable.SetStepSelection([0, count[0]])
            count = [1, 1, 1]
        variable.SetSelection([offset, count])
        file.Get(variable, out, adios2.Mode.Sync)

    return read


def of_h5py():
    files = [h5py.File(f"{folder}/{name}.h5") for name in ("array", "series")]
    data = [file["v"] for file in files]

    def read(pattern, offset, count, out):
        at = tuple(slice(o, o + c) for o, c in zip(offset, count))
        if pattern == "series":
            at = (slice(0, count[0]), *offset)
        data[pattern == "series"].read_direct(out, at)

    return read


if what == "write":
    write()
    sys.exit()
read = of_h5py() if what == "h5py" else of_adios2(what)
asked = {}
with open(f"{folder}/asked") as text:
    for line in text:
        pattern, *numbers = line.split()
        numbers = list(map(int, numbers))
        asked.setdefault(pattern, []).append((numbers[:3], numbers[3:]))
memory = np.ones(edge**3)
for turn in range(rounds + 1):
    for pattern, calls in asked.items():
        seconds, size, total = 0.0, 0, 0.0
        before = bytes_read()
        for offset, count in calls:
            n = int(np.prod(count))
            out = memory[:n] if pattern == "series" else memory[:n].reshape(count)
            start = time.perf_counter()
            read(pattern, offset, count, out)
            seconds += time.perf_counter() - start
            size += 8 * n
            if turn == 0:
                total += out.sum()
        ratio = (bytes_read() - before) / size
        if turn == 0:
            print(f"value {what}:{pattern}:sum {total:.17g}")
        else:
            print(f"value {what}:{pattern} {seconds:.9f}")
            print(f"value {what}:{pattern}:ratio {ratio:.4f}")
