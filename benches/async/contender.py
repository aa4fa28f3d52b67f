"""The programs of load.c with the BP5 engine of adios2, in one process: contender.py PLACE KEY LOAD MIB OUTPUTS STEPS ENGINE.

ENGINE: "none" (no output), or the value of AsyncWrite: "Off", "Naive". The steps are those of work.h, in a library beside; measured is what
load.c measures.
"""

import ctypes
import os
import resource
import sys
import time

import numpy

place, key, load, mib, outputs, steps, engine = sys.argv[1:]
outputs, steps = int(outputs), int(steps)
library = ctypes.CDLL(os.path.join(os.environ["BENCH_FOLDER"], "work.so"))
library.load_begin.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
library.load_array.restype = ctypes.POINTER(ctypes.c_double)
library.load_values.restype = ctypes.c_size_t


def processor():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def arrays():
    return [
        numpy.ctypeslib.as_array(library.load_array(a), (library.load_values(),)) for a in range(library.load_arrays())
    ]


def report(name, value):
    print(f"value {key}/{name} {value:.6f}")


if not library.load_begin(load.encode(), int(mib)):
    sys.exit("no memory")
file = None
if engine != "none":
    import adios2.bindings as adios2

    adios = adios2.ADIOS()
    io = adios.DeclareIO("bench")
    io.SetEngine("BP5")
    io.SetParameter("AsyncWrite", engine)
    file = io.Open(f"{place}/load.bp", adios2.Mode.Write)
    variables = [io.DefineVariable(f"a{i}", a, [a.size], [0], [a.size], True) for i, a in enumerate(arrays())]
library.load_steps(1)

blocked = []
whole, used = time.perf_counter(), processor()
for output in range(outputs):
    library.load_steps(steps)
    begun = time.perf_counter()
    if file:
        file.BeginStep()
        for variable, array in zip(variables, arrays()):
            file.Put(variable, array, adios2.Mode.Deferred)
        file.EndStep()
    blocked.append(time.perf_counter() - begun)
library.load_steps(steps)
if file:
    file.Close()
report("whole", time.perf_counter() - whole)
report("processor", processor() - used)
report("first", blocked[0])
for seconds in blocked[1:]:
    report("blocked", seconds)
