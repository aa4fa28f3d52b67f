"""What the tests share."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import thalweg

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="session")
def prefix():
    """Where the command and the C libraries are; installed where they aren't."""
    found = os.environ.get("PREFIX", ROOT / "build" / "prefix")
    if not (ROOT / found / "bin" / "thalweg").exists():
        subprocess.run([ROOT / "dev", "install", found], check=True)
    return ROOT / found


@pytest.fixture
def staging(prefix, tmp_path):
    """A configuration, the environment, that of readers through a mount, and the command; the server runs."""
    command = prefix / "bin" / "thalweg"
    (tmp_path / "run7").mkdir()
    (tmp_path / "run").mkdir(mode=0o700)
    configuration = tmp_path / "stage.cfg"
    configuration.write_text(
        f"name = stage\nstaging = {tmp_path}/run7\nahpios_server = localhost:{tmp_path}/data\nmetadata = localhost:{tmp_path}/names\n"
    )
    table = tmp_path / "mounts.toml"
    table.write_text(f'[[mount]]\npath = "{tmp_path}/run7"\nlayout = "staging"\npartition = "{configuration}"\n')
    environment = os.environ | {"XDG_RUNTIME_DIR": str(tmp_path / "run"), "THALWEG_PYTHON": sys.executable}

    def call(*words):
        told = subprocess.run([command, "partition", *words], env=environment, check=True, capture_output=True, text=True)
        return told.stdout

    call("create", str(configuration))
    call("start", str(configuration))
    try:
        yield configuration, environment, environment | {"THALWEG_MOUNTS": str(table)}, call
    finally:
        call("stop", str(configuration))


@pytest.fixture
def path(tmp_path):
    """A file that is not there yet."""
    return str(tmp_path / "run.bp")


def field(step=0, shape=(24, 32)):
    """Values that tell where they belong."""
    return np.arange(np.prod(shape), dtype=float).reshape(shape) + 1000.0 * step


@pytest.fixture
def run(path):
    """A file of 4 steps, and an array that half of them have."""
    write_run(path, lambda s, n: n % 2 and s.__setitem__("odd", np.arange(5, dtype="u2") * n))
    return path


def write_run(path, more, **how):
    """Writes 4 steps: a global array in 2 x 2 blocks, a local array, scalars, texts, complex numbers, and what `more` adds to a step."""
    with thalweg.Writer(path, **how) as w:
        w.attribute("units", "K", of="T")
        w.attribute("range", [0.5, 1.5], of="T")
        w.attribute("code", "heat")
        for n in range(4):
            whole = field(n)
            with w.step() as s:
                for i in (0, 12):
                    for j in (0, 16):
                        s.write("T", whole[i : i + 12, j : j + 16], shape=(24, 32), offset=(i, j), dims=("y", "x"))
                s["time"] = 0.5 * n
                s["count"] = np.int32(n)
                s["title"] = f"Schritt {n} ü"
                s["psi"] = (np.arange(6) + 1j * n).astype("c16")
                s.write("particles", np.arange(3 + n, dtype="f4"))
                s.write("particles", np.arange(10, dtype="f4"))
                more(s, n)


class Mpi:
    """Runs a program on ranks of one MPI."""

    def __init__(self, name):
        self.name = name
        self.ranks = {"openmpi": 4, "mpich": 2}[name]
        self.launcher = shutil.which(f"mpiexec.{name}")

    def run(self, program, *arguments, ranks=None, cwd=None, cache=None):
        env = {k: v for k, v in os.environ.items() if not k.startswith(("OMPI_", "PMIX_", "PMI_"))}
        if os.getuid() == 0:
            env.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
        env["THALWEG_CACHE"] = str(cache or ROOT / "build" / "python-shims")
        command = [self.launcher, "-n", str(ranks or self.ranks), sys.executable, str(program), *map(str, arguments)]
        if self.name == "openmpi":
            command.insert(1, "--oversubscribe")
        else:
            env.update(of_mpich())
        done = subprocess.run(command, env=env, cwd=cwd, text=True, capture_output=True, timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


def of_mpich():
    """mpi4py's wheel looks for `libmpi.so.12`, which Debian calls `libmpich.so.12`."""
    folder = ROOT / "build" / "mpich-for-mpi4py"
    link = folder / "libmpi.so.12"
    if not link.exists():
        folder.mkdir(parents=True, exist_ok=True)
        libraries = sorted(Path("/usr/lib").glob("*/libmpich.so.12"))
        if libraries:
            link.unlink(missing_ok=True)
            link.symlink_to(libraries[0])
    return {"MPI4PY_MPIABI": "mpich", "LD_LIBRARY_PATH": f"{folder}:{os.environ.get('LD_LIBRARY_PATH', '')}"}


@pytest.fixture(params=["openmpi", "mpich"])
def mpi(request):
    """An MPI; the test runs with each."""
    pytest.importorskip("mpi4py")
    made = Mpi(request.param)
    if made.launcher is None:
        pytest.skip(f"no mpiexec.{request.param}")
    return made


#: Writes three steps with method sys.argv[2], and prints which of them it was told are written.
THREE = """
import sys
import numpy as np
import thalweg

said = []
for n in range(3):
    try:
        with thalweg.Writer(sys.argv[1], method=sys.argv[2], mode="a") as w, w.step() as s:
            s["u"] = np.full((20, 30), float(n))
            s["n"] = n
        said.append(n)
    except thalweg.Error:
        pass
print(*said)
"""


def each_call_fails_once(folder, file, method, call, is_ours, forget, most=None):
    """Runs THREE under strace, then again with each of our calls failing once: yields which call failed, and which steps were written.

    - `is_ours`: whether a line of strace is a call of the library; `forget`: removes the files; `most`: of the calls, so many.
    """
    program, log = folder / "three.py", folder / "calls.txt"
    program.write_text(THREE)

    def run(*more):
        forget()
        command = ["strace", "-f", "-qq", "-y", "-e", f"trace={call}", *more, sys.executable, program, file, method]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=300)
        return ran.returncode, [int(word) for word in ran.stdout.split()]

    assert run("-o", log) == (0, [0, 1, 2])
    # Calls are counted for each process.
    counts, ours = {}, set()
    for line in log.read_text().splitlines():
        process = line.split()[0]
        if "resumed>" not in line:
            counts[process] = counts.get(process, 0) + 1
            if is_ours(line):
                ours.add(counts[process])
    assert ours
    ours = sorted(ours)
    failed = 0
    for when in ours[:: max(len(ours) // (most or len(ours)), 1)]:
        code, closed = run("-o", os.devnull, "-e", f"inject={call}:error=EIO:when={when}")
        # What Python itself opens or writes is not meant.
        if code == 0:
            failed += len(closed) < 3
            yield when, closed
    assert failed
