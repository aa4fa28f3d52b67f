"""One writer and one reader of a stream of arrays, each in a process of its own.

    stream.py KIND KEY PLACE STEPS MIB [CONFIGURATION]

KIND: "staging" (method STAGING, the reader follows the file), "mount" (a mount with layout staging, for both), "sst" (adios2), "raw" (bytes over TCP
on loopback). PLACE: an empty folder. Printed: seconds that the writer is blocked by each step after the first, and MiB per second from the
first step's begin until the reader has the last one.
"""

import os
import socket
import subprocess
import sys
import threading
import time

import numpy

kind, key, place, steps, mib, *more = sys.argv[1:]
steps, values = int(steps), (int(mib) << 20) // 8
role = os.environ.get("STREAM_ROLE", "writer")
# Of its own in each run: who follows a file of an earlier one reads that.
path = f"{place}/stream-{os.environ['STREAM_ROUND']}.bp"


def wanted(step):
    """The first and the last value of a step."""
    return 1000.0 + step, 2000.0 + step


def check(step, array):
    if (array[0], array[-1]) != wanted(step) or array.size != values:
        sys.exit(f"step {step} has other values: {array[0]}, {array[-1]}")


def ready():
    """The reader stands before its first wait."""
    print("ready", flush=True)


def read():
    if kind in ("staging", "mount"):
        import thalweg

        ready()
        step, array = 0, numpy.empty(values)
        for step, found in enumerate(thalweg.follow(path, timeout=300, poll=0.001)):
            check(step, found["T"].read_into(array.reshape(found["T"].shape)).reshape(-1))
    elif kind == "sst":
        import adios2.bindings as adios2

        ready()
        # The engine ends with it.
        adios = adios2.ADIOS()
        io = adios.DeclareIO("stream")
        io.SetEngine("SST")
        file = io.Open(path, adios2.Mode.Read)
        array, step = numpy.empty(values), -1
        while file.BeginStep(adios2.StepMode.Read, 300.0) == adios2.StepStatus.OK:
            step += 1
            file.Get(io.InquireVariable("T"), array, adios2.Mode.Deferred)
            file.EndStep()
            check(step, array)
        file.Close()
    else:
        listening = socket.create_server(("127.0.0.1", int(more[0])))
        ready()
        connection, _ = listening.accept()
        array = numpy.empty(values)
        for step in range(steps):
            rest = memoryview(array).cast("B")
            while rest:
                rest = rest[connection.recv_into(rest, min(len(rest), 1 << 20)) :]
            check(step, array)
    if step != steps - 1:
        sys.exit(f"the last step is {step}")
    print(f"ended {time.monotonic()}", flush=True)


def writer():
    """What writes a step and what closes the stream."""
    if kind in ("staging", "mount"):
        import thalweg

        # In a mount with layout staging, every method hands its output over.
        chosen = {"method": "STAGING", "parameters": f"partition={more[0]}"} if kind == "staging" else {"parameters": "async=yes"}
        file = thalweg.Writer(path, **chosen)

        def put(array):
            with file.step() as step:
                step["T"] = array

        return put, file.close
    if kind == "sst":
        import adios2.bindings as adios2

        adios = adios2.ADIOS()
        io = adios.DeclareIO("stream")
        io.SetEngine("SST")
        io.SetParameters({"RendezvousReaderCount": "1", "QueueLimit": "2", "DataTransport": "WAN"})
        variable = io.DefineVariable("T", numpy.empty(values), [values], [0], [values], True)
        file = io.Open(path, adios2.Mode.Write)

        def put(array):
            file.BeginStep()
            file.Put(variable, array, adios2.Mode.Deferred)
            file.EndStep()

        # The engine ends with these.
        put.kept = adios, io
        return put, file.Close
    connection = socket.create_connection(("127.0.0.1", int(more[0])))
    return (lambda array: connection.sendall(memoryview(array).cast("B"))), connection.close


if role == "reader":
    read()
    sys.exit()

reader = subprocess.Popen([sys.executable, *sys.argv], env={**os.environ, "STREAM_ROLE": "reader"}, stdout=subprocess.PIPE, text=True)
if reader.stdout.readline() != "ready\n":
    sys.exit("the reader does not begin")


def watch():
    """A writer may wait for ever for a reader that has died."""
    if reader.wait() != 0:
        print(f"the reader ended with {reader.returncode}", file=sys.stderr, flush=True)
        os._exit(1)


threading.Thread(target=watch, daemon=True).start()
array, blocked = numpy.zeros(values), []
put, close = writer()
begun = time.monotonic()
for step in range(steps):
    array[0], array[-1] = wanted(step)
    before = time.monotonic()
    put(array)
    blocked.append(time.monotonic() - before)
close()
ended = reader.stdout.read().split()
if reader.wait(300) != 0 or ended[:1] != ["ended"]:
    sys.exit("the reader failed")
for seconds in blocked[1:]:
    print(f"value {key}/blocked {seconds:.6f}")
print(f"value {key}/rate {steps * int(mib) / (float(ended[1]) - begun):.3f}")
