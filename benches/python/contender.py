"""Writes and reads what this bench measures, with one library.

    contender.py large|small|read|xarray|files NAME FOLDER OUTPUTS MIB STEPS

`files` writes what `read` and `xarray` read. Only the calls of the library are measured.
"""

import os
import shutil
import sys
import time

import numpy as np

what, name, folder = sys.argv[1:4]
outputs, mib, steps = map(int, sys.argv[4:])
#: Arrays of a small step, and their elements; elements of a step of the series.
ARRAYS, ELEMENTS = 20, 100

path = f"{folder}/{name}.bp"
rng = np.random.default_rng(1)


def remove(path):
    if os.path.isdir(path):
        shutil.rmtree(path)
    elif os.path.exists(path):
        os.remove(path)


def warm(count):
    """Takes the memory that `count` outputs need from the host of a virtual machine, and gives it back to the kernel."""
    piece = np.ones(1 << 20, np.uint8)
    file = os.open(f"{folder}/warm", os.O_CREAT | os.O_WRONLY, 0o600)
    for _ in range(count * mib):
        os.write(file, piece)
    os.close(file)
    os.remove(f"{folder}/warm")


class Raw:
    def __init__(self):
        self.file = os.open(path, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600)

    def step(self, arrays):
        for array in arrays:
            os.write(self.file, array)

    def close(self):
        os.close(self.file)


class Thalweg:
    def __init__(self):
        import thalweg

        self.writer = thalweg.Writer(path)
        self.copy = name != "deferred"

    def step(self, arrays):
        with self.writer.step() as step:
            for key, array in zip(NAMES, arrays):
                step.write(key, array, shape=array.shape, offset=(0,), copy=self.copy)

    def close(self):
        self.writer.close()


class H5py:
    def __init__(self):
        import h5py

        self.file = h5py.File(path, "w", libver="latest")
        self.number = 0

    def step(self, arrays):
        if len(arrays) == 1:
            self.file[f"{NAMES[0]}{self.number}"] = arrays[0]
        else:
            for key, array in zip(NAMES, arrays):
                if self.number == 0:
                    self.file.create_dataset(key, (steps, len(array)), array.dtype)
                self.file[key][self.number] = array
        self.file.flush()
        self.number += 1

    def close(self):
        self.file.close()


class Bp5:
    def __init__(self):
        import adios2.bindings as adios2

        self.put = adios2.Mode.Sync if small else adios2.Mode.Deferred
        self.adios = adios2.ADIOS()
        self.io = self.adios.DeclareIO("bench")
        self.io.SetEngine("BP5")
        self.file = self.io.Open(path, adios2.Mode.Write)
        self.variables = []

    def step(self, arrays):
        if not self.variables:
            places = [(list(a.shape), [0], list(a.shape)) for a in arrays]
            self.variables = [
                self.io.DefineVariable(key, a, *place, True) for key, a, place in zip(NAMES, arrays, places)
            ]
        self.file.BeginStep()
        for variable, array in zip(self.variables, arrays):
            self.file.Put(variable, array, self.put)
        self.file.EndStep()

    def close(self):
        self.file.Close()


NAMES = [f"v{n}" for n in range(ARRAYS)]
WRITERS = {"raw": Raw, "thalweg": Thalweg, "deferred": Thalweg, "h5py": H5py, "BP5": Bp5}
small = what == "small"


def large():
    """A file of several outputs; the first one includes the creation of the file."""
    data = rng.random(mib << 17)
    writer = WRITERS[name]
    if name in ("h5py", "BP5"):
        # Imports are not measured.
        __import__({"h5py": "h5py", "BP5": "adios2.bindings"}[name])
    elif name != "raw":
        import thalweg  # noqa: F401
    warm(outputs)
    for number in range(outputs):
        data[number] += 1
        before = time.perf_counter()
        if number == 0:
            file = writer()
        file.step([data])
        seconds = time.perf_counter() - before
        print(f"value {name}:large:{'later' if number else 'first'} {seconds:.6f}")
    file.close()
    remove(path)


def small_steps():
    data = rng.random((steps, ARRAYS, ELEMENTS))
    # Twice, so that neither imports nor first calls are measured.
    for count in (10, steps):
        before = time.perf_counter()
        file = WRITERS[name]()
        for values in data[:count]:
            file.step(list(values))
        file.close()
        seconds = time.perf_counter() - before
        remove(path)
    print(f"value {name}:small {seconds:.6f}")


def series():
    return rng.random((steps, ELEMENTS))


def files():
    """The same series in a file of each library."""
    data = series()
    if name == "thalweg":
        import thalweg

        with thalweg.Writer(path) as w:
            for values in data:
                with w.step() as s:
                    s.write("v", values, shape=(ELEMENTS,), offset=(0,), dims=("x",))
    elif name == "h5py":
        import h5netcdf

        with h5netcdf.File(path, "w") as file:
            file.dimensions = {"step": steps, "x": ELEMENTS}
            file.create_variable("v", ("step", "x"), float)[...] = data
    else:
        data.tofile(path)
    print(f"value {name}:files {data.sum()}")


def read():
    """One element over all steps, in an open file."""
    if name == "thalweg":
        import thalweg

        v = thalweg.open(path)["v"]
    elif name == "h5py":
        import h5py

        v = h5py.File(path)["v"]
    else:
        v = np.memmap(path, float, "r", shape=(steps, ELEMENTS))
    for turn in range(12):
        before = time.perf_counter()
        values = np.array(v[:, 50 + turn])
        seconds = time.perf_counter() - before
        if turn > 1:
            print(f"value {name}:series {seconds:.9f}")
    print(f"value {name}:series:sum {values.sum():.12g}")


def of_xarray():
    """The mean over all steps by dask, from before the open."""
    import xarray

    engine = "h5netcdf"
    if name == "thalweg":
        from thalweg.xarray_backend import ThalwegBackend as engine
    for turn in range(6):
        before = time.perf_counter()
        if name == "raw":
            mean = np.fromfile(path).reshape(steps, ELEMENTS).mean(0)
        else:
            with xarray.open_dataset(path, engine=engine, chunks={}) as ds:
                mean = ds["v"].mean("step").compute().values
        seconds = time.perf_counter() - before
        if turn > 0:
            print(f"value {name}:xarray {seconds:.6f}")
    print(f"value {name}:xarray:sum {mean.sum():.12g}")


{"large": large, "small": small_steps, "files": files, "read": read, "xarray": of_xarray}[what]()
