"""Access to the MPI that mpi4py has loaded.

Thalweg itself is independent of MPI. One small C file (the shim), compiled against an MPI, provides a table of its
functions. This module finds the shim for the MPI of this process, in this order:

1. `$THALWEG_MPI_LIBRARY`: the path of the shim.
2. One that came with the package: wheels have one for each binary interface of MPI.
3. Cached from an earlier run, in `$THALWEG_CACHE`, else `$XDG_CACHE_HOME/thalweg`, else `~/.cache/thalweg`.
4. Compiled now and cached there, with `$MPICC`, `mpicc.openmpi` or `mpicc.mpich`, or `mpicc`, whichever belongs to
   this MPI.
5. `libthalweg-openmpi` or `libthalweg-mpich` of this release from `./dev install PREFIX`, in `$THALWEG_PREFIX/lib` or
   on the loader's path.

`python -m thalweg.mpi` prints the shim that is found, and compiles it if needed: run it once if compute nodes have no
compiler.
"""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from . import _core
from .errors import Error, InvalidArgument, Unsupported, _kind_and_text
from .processes import Processes

_COMPILERS = {"openmpi": "mpicc.openmpi", "mpich": "mpicc.mpich", "abi": "mpicc_abi"}
# The binary interfaces of MPI, by the names that its libraries are remembered by; Debian calls MPICH's otherwise.
_INTERFACES = {
    "libmpi.so.40": "openmpi",
    "libmpi.so.12": "mpich",
    "libmpich.so.12": "mpich",
    "libmpi_abi.so.1": "abi",
}


def ranks(comm: Any) -> _core.Ranks:
    """The ranks of an mpi4py communicator or of `Processes`; for `None`, this process alone. Collective over `comm`."""
    if comm is None:
        return _core.Ranks.alone()
    if isinstance(comm, Processes):
        return comm._ranks
    if "mpi4py.MPI" not in sys.modules or not isinstance(comm, sys.modules["mpi4py.MPI"].Comm):
        raise InvalidArgument(f"a communicator is one of mpi4py.MPI, Processes, or None, not {type(comm).__name__}")
    from mpi4py import MPI

    library = _collective(comm)
    return library.communicator(MPI._addressof(comm))


@contextmanager
def agreed(members: _core.Ranks, doing: str) -> Iterator[None]:
    """Collective: a step that each rank takes alone. If it fails on one rank, it fails on all."""
    try:
        yield
    except Exception as own:
        try:
            members.agree(doing, _kind_and_text(own))
        except Error:
            pass  # the rank's own exception says more
        raise
    members.agree(doing)


def family() -> str:
    """The MPI that mpi4py has loaded: `openmpi`, `mpich`, `abi` (any MPI, by the binary interface of MPI 5), or its own
    name."""
    from mpi4py import MPI

    # What mpi4py was compiled for: the binary interface of MPI 5 gives this communicator a number of its own.
    if MPI._handleof(MPI.COMM_WORLD) == 0x101:
        return "abi"
    name = MPI.get_vendor()[0]
    # These have MPICH's binary interface.
    of_mpich = ("MPICH", "Intel MPI", "MVAPICH", "MVAPICH2", "Cray MPI", "Microsoft MPI")
    return "openmpi" if name == "Open MPI" else "mpich" if name in of_mpich else name.lower().replace(" ", "")


_loaded: _core.Mpi | None = None


def _collective(comm: Any) -> _core.Mpi:
    """Loads the shim: rank 0 first, so that one process compiles; other ranks search again if they do not see rank
    0's file."""
    global _loaded
    if comm.allreduce(0 if _loaded is not None else 1) == 0 and _loaded is not None:
        return _loaded
    trouble: str | None = None
    if comm.rank == 0:
        try:
            find()
        except Exception as e:
            trouble = str(e) if isinstance(e, Unsupported) else _kind_and_text(e)[1]
    trouble = comm.bcast(trouble)
    if trouble is None:
        try:
            _loaded = _core.Mpi(find())
        except Exception as e:
            trouble = str(e) if isinstance(e, Unsupported) else _kind_and_text(e)[1]
    troubles = [t for t in comm.allgather(trouble) if t is not None]
    if troubles or _loaded is None:
        raise Unsupported(troubles[0] if troubles else "no MPI was loaded")
    return _loaded


@functools.cache
def find() -> str:
    """The shim for the MPI of this process: a path, or a name for the loader.

    Raises `Unsupported`; the message names the searched places and the missing part.
    """
    given = os.environ.get("THALWEG_MPI_LIBRARY")
    if given:
        if not Path(given).is_file():
            raise Unsupported(f"$THALWEG_MPI_LIBRARY names {given}, which is not there")
        return given
    name = family()
    tried: list[str] = []
    packed = _packed(name, tried)
    if packed is not None:
        return packed
    kept = _kept(name)
    if kept.is_file():
        return str(kept)
    compiler = _compiler(name, tried)
    if compiler is not None and _compile(compiler, kept, tried):
        return str(kept)
    prefix = os.environ.get("THALWEG_PREFIX")
    installed = f"libthalweg-{name}.so.{_core.ABI}"
    if prefix:
        # The second is a link to the folder of the libraries, where that is not called lib.
        for folder in ("lib", "libexec/thalweg/lib"):
            path = Path(prefix) / folder / installed
            if path.is_file():
                return str(path)
        tried.append(f"{Path(prefix) / 'lib' / installed} is not there")
    try:
        _core.Mpi(installed)
        return installed
    except Unsupported:
        tried.append(f"the loader finds no {installed}")
    raise Unsupported(
        f"mpi4py runs on {name}, and Thalweg has no library to reach it: {'; '.join(tried)}. "
        f"Install the compiler of that MPI (mpicc), or Thalweg itself (./dev install PREFIX) and set THALWEG_PREFIX, "
        f"or name a library in THALWEG_MPI_LIBRARY; `python -m thalweg.mpi` tries again"
    )


def _libraries(name: str) -> list[str]:
    """The MPI libraries with this binary interface that the process has, by the names that they are remembered by."""
    try:
        with open("/proc/self/maps", errors="replace") as maps:
            paths = {line.split(maxsplit=5)[-1].strip().removesuffix(" (deleted)") for line in maps if "/libmpi" in line}
    except OSError:
        return []
    loaded = {path.rpartition("/")[2] for path in paths}
    return [
        library
        for library, interface in _INTERFACES.items()
        if interface == name and any(found == library or found.startswith(f"{library}.") for found in loaded)
    ]


def _packed(name: str, tried: list[str]) -> str | None:
    """The shim of the package for this MPI. It calls the library that is loaded, by the name that it is remembered by."""
    libraries = _libraries(name)
    if len(libraries) != 1:
        # Of two, nobody says which one mpi4py calls.
        return None
    path = Path(__file__).parent / "shims" / f"{libraries[0]}.so"
    if not path.is_file():
        return None
    try:
        _core.Mpi(str(path))
    except Unsupported as e:
        tried.append(str(e))
        return None
    return str(path)


def _kept(name: str) -> Path:
    folder = os.environ.get("THALWEG_CACHE")
    base = Path(folder) if folder else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "thalweg"
    from mpi4py import MPI

    # Each release of Thalweg and of the MPI gets its own library.
    what = _core.SHIM_SOURCE + _core.SHIM_HEADER + MPI.Get_library_version()
    return base / f"shim-{name}-{hashlib.sha256(what.encode()).hexdigest()[:16]}.so"


def _compiler(name: str, tried: list[str]) -> str | None:
    """A compiler that belongs to this MPI, according to the definitions in its mpi.h."""
    import mpi4py

    candidates = [os.environ.get("MPICC"), mpi4py.get_config().get("mpicc"), _COMPILERS.get(name), "mpicc"]
    for candidate in dict.fromkeys(c for c in candidates if c):
        path = shutil.which(candidate)
        if path is None:
            tried.append(f"no {candidate}")
            continue
        macros = subprocess.run(
            [path, "-E", "-dM", "-x", "c", "-"], input="#include <mpi.h>\n", text=True, capture_output=True, check=False
        ).stdout
        words = {
            "define OPEN_MPI ": "openmpi",
            "define MPICH_VERSION ": "mpich",
            "define MPI_ABI_VERSION ": "abi",
        }
        found = next((mpi for word, mpi in words.items() if word in macros), "another MPI")
        if found == name or (name not in _COMPILERS and macros):
            return path
        tried.append(f"{path} belongs to {found}")
    return None


def _compile(compiler: str, target: Path, tried: list[str]) -> bool:
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent) as folder:
            source = Path(folder) / "shim.c"
            source.write_text(_core.SHIM_SOURCE)
            (Path(folder) / "thalweg_mpi.h").write_text(_core.SHIM_HEADER)
            made = Path(folder) / target.name
            command = [compiler, "-std=c11", "-D_GNU_SOURCE", "-O2", "-fPIC", "-shared", str(source), "-o", str(made)]
            done = subprocess.run(command, text=True, capture_output=True, check=False)
            if done.returncode != 0:
                tried.append(f"{compiler} fails: {done.stderr.strip()[-400:]}")
                return False
            # Atomically, as other processes may create it at the same time.
            made.replace(target)
    except OSError as e:
        tried.append(f"cannot keep a library in {target.parent}: {e}")
        return False
    return True


def _main() -> None:
    from mpi4py import MPI

    print(f"mpi4py: {MPI.Get_library_version().splitlines()[0].strip()}")
    print(f"library: {find()}")
    _core.Mpi(find())
    print("it loads")


if __name__ == "__main__":
    _main()
