"""Writes a slab of one rank with the adios2 wheel (BP4, BP5) and with h5py, serial.

    serial.py FOLDER MIB STEPS

One measurement lasts from before the open until after the close. Nothing but the calls of the library is measured.
"""

import os
import shutil
import sys
import time

import adios2.bindings as adios2
import h5py
import numpy as np

folder, mib, steps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
ny = nx = 256
rows = mib * 1048576 // (ny * nx * 8)
data = np.random.default_rng(1).random((rows, ny, nx))
now = np.array(0.5)

adios = adios2.ADIOS()
engines = {}
for engine in ("BP4", "BP5"):
    io = adios.DeclareIO(engine)
    io.SetEngine(engine)
    shape = [rows, ny, nx]
    engines[engine] = io, io.DefineVariable("t", data, shape, [0, 0, 0], shape, True), io.DefineVariable("time", now)


def write_adios2(engine, path):
    io, t, at = engines[engine]
    file = io.Open(path, adios2.Mode.Write)
    file.BeginStep()
    file.Put(at, now)
    file.Put(t, data)  # deferred: the array stays unchanged until EndStep
    file.EndStep()
    file.Close()


def write_h5py(_, path):
    with h5py.File(path, "w", libver="latest") as file:
        file["t"] = data
        file["t"].attrs["time"] = now


def remove(path):
    if os.path.isdir(path):
        shutil.rmtree(path)
    elif os.path.exists(path):
        os.remove(path)


contenders = [("BP4", write_adios2), ("BP5", write_adios2), ("h5py", write_h5py)]
for step in range(steps + 1):
    for i in range(len(contenders)):
        name, write = contenders[(i + step) % len(contenders)]
        path = f"{folder}/{name}.bp"
        remove(path)
        data[0, 0, step] += 1
        before = time.perf_counter()
        write(name, path)
        seconds = time.perf_counter() - before
        print(f"value serial:{name}{'' if step else '/first'} {seconds:.6f}")
        remove(path)
