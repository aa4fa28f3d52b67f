"""Thalweg: reads and writes files of parallel simulations with the conventions of numpy.

    import thalweg

    with thalweg.open("run.bp") as f:
        last = f["T"][-1, 10:20, :]          # steps are the first axis; nothing else is read
        print(f["T"].max())                  # from characteristics, without reading values

    with thalweg.Writer("run.bp", comm=MPI.COMM_WORLD) as w:
        with w.step() as step:
            step.write("T", mine, shape=(ny, nx), offset=(first, 0))

The guide is docs/guide/python.md.
"""

import atexit as _atexit

from . import messages as _messages  # noqa: F401  (sends warnings to logging)
from ._core import VERSION as __version__
from ._core import end_mounts as _end_mounts
from ._core import watch_exit as _watch_exit
from .errors import (
    AlreadyExists,
    Config,
    Corrupt,
    EndOfStream,
    Error,
    FileNotFound,
    InvalidArgument,
    Io,
    NoMemory,
    NoSpace,
    NotFound,
    NotReady,
    OutOfBounds,
    PeerLost,
    PermissionDenied,
    Timeout,
    Torn,
    Unsupported,
    WrongType,
)
from .file import File, Step, open
from .follow import follow
from .input import Input, InputWindow, Request
from .processes import Processes
from .schema import Schema
from .steering import Since, control
from .variable import Block, Characteristics, CompressionErrors, Variable
from .windows import Window, Windows
from .writer import Pending, Session, StepWriter, Writer
from .xarray_writing import from_xarray

__all__ = [
    "AlreadyExists",
    "Block",
    "Characteristics",
    "CompressionErrors",
    "Config",
    "Corrupt",
    "EndOfStream",
    "Error",
    "File",
    "FileNotFound",
    "Input",
    "InputWindow",
    "InvalidArgument",
    "Io",
    "NoMemory",
    "NoSpace",
    "NotFound",
    "NotReady",
    "OutOfBounds",
    "PeerLost",
    "Pending",
    "PermissionDenied",
    "Processes",
    "Request",
    "Schema",
    "Session",
    "Since",
    "Step",
    "StepWriter",
    "Timeout",
    "Torn",
    "Unsupported",
    "Variable",
    "Window",
    "Windows",
    "Writer",
    "WrongType",
    "__version__",
    "control",
    "follow",
    "from_xarray",
    "open",
]

# At interpreter exit; handlers registered later, such as the close of open files, run first.
_atexit.register(_end_mounts)
_watch_exit()
