"""The child: calls a function of Python for a Caller (caller.rs). Arguments: the file, the function's name."""

import sys

# A file of the working directory is none of Python's own modules.
sys.path[:] = [folder for folder in sys.path if folder]

import ctypes
import importlib.util
import inspect
import json
import os
import signal
import traceback

# The function has the standard streams for itself: what it prints goes where the caller's errors go.
incoming = os.fdopen(os.dup(0), "rb")
outgoing = os.fdopen(os.dup(1), "wb")
os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
os.dup2(2, 1)
# Where the caller dies, a function that has no end must not stay.
try:
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
except (OSError, AttributeError):
    pass


def answer(failed=None, values=b""):
    outgoing.write(json.dumps({"failed": failed}).encode() + b"\n")
    if failed is None:
        outgoing.write(values)
    outgoing.flush()


def why():
    kind, value, places = sys.exc_info()
    at = [place for place in traceback.extract_tb(places) if os.path.abspath(place.filename) == os.path.abspath(path)]
    where = f" ({os.path.basename(path)}, line {at[-1].lineno})" if at else ""
    return "".join(traceback.format_exception_only(kind, value)).strip() + where


path, name = sys.argv[1:3]
try:
    import numpy

    spec = importlib.util.spec_from_file_location(os.path.splitext(os.path.basename(path))[0], path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no file of Python")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    sys.modules.setdefault(module.__name__, module)
    spec.loader.exec_module(module)
    function = getattr(module, name)
    # What it has a parameter for; without a signature, the arrays alone.
    try:
        parameters = inspect.signature(function).parameters
    except ValueError:
        parameters = {}
    takes_all = any(p.kind == inspect.Parameter.VAR_KEYWORD for p in parameters.values())
except BaseException:
    answer(why())
    sys.exit(0)
answer()

while True:
    line = incoming.readline()
    if not line:
        break
    call = json.loads(line)
    arrays = []
    for argument in call["arguments"]:
        form = argument["form"]
        values = bytearray(incoming.read(form["bytes"]))
        arrays.append(numpy.frombuffer(values, form["dtype"]).reshape(form["count"]))
    form = call["result"]
    result = numpy.zeros(form["count"], form["dtype"])
    extra = {"result": result, "step": call["step"], "blocks": call["arguments"]}
    extra = {key: value for key, value in extra.items() if takes_all or key in parameters}
    try:
        returned = function(*arrays, **extra)
        if returned is not None and returned is not result:
            returned = numpy.asarray(returned)
            if returned.shape != result.shape:
                raise ValueError(f"it returned the shape {returned.shape}; the result has {result.shape}")
            numpy.copyto(result, returned, casting="same_kind")
        elif returned is None and "result" not in parameters:
            raise ValueError("it returned nothing, and takes no result")
    except BaseException:
        answer(why())
    else:
        answer(None, result.tobytes())
