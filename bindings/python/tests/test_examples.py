"""The examples in Python give the files that those in C give."""

import os
import shutil
import subprocess

import numpy as np
import pytest
import thalweg
from conftest import ROOT, Mpi

HEAT = ROOT / "examples" / "heat"
GRAY_SCOTT = ROOT / "examples" / "gray-scott"


@pytest.fixture
def openmpi():
    made = Mpi("openmpi")
    if made.launcher is None or shutil.which("mpicc.openmpi") is None:
        pytest.skip("no Open MPI")
    return made


def launch(mpi, ranks, *command):
    env = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    line = [mpi.launcher, "--oversubscribe", "-n", str(ranks), *map(str, command)]
    done = subprocess.run(line, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr


def the_same(prefix, one, two):
    """Variables, blocks, values and attributes; also as `thalweg dump` and bpls of ADIOS 1.13 print them."""
    a, b = thalweg.open(one), thalweg.open(two)
    assert list(a) == list(b)
    assert dict(a.attrs) == dict(b.attrs)
    assert len(a.steps) == len(b.steps) > 1
    for name in a:
        assert (a[name].type, a[name].kind, a[name].shape) == (b[name].type, b[name].kind, b[name].shape)
        np.testing.assert_array_equal(a[name][...], b[name][...])
        for position in range(len(a[name])):
            assert list(map(repr, a[name].blocks(position))) == list(map(repr, b[name].blocks(position)))
    texts = [subprocess.run([prefix / "bin" / "thalweg", "dump", f, *a], capture_output=True, check=True) for f in (one, two)]
    assert texts[0].stdout == texts[1].stdout
    assert len(texts[0].stdout) > 1000
    if shutil.which("bpls"):
        lists = [subprocess.run(["bpls", "-lad", f], capture_output=True, check=True).stdout for f in (one, two)]
        assert lists[0] == lists[1]


@pytest.mark.parametrize("ranks", [1, 3])
def test_heat_in_python_gives_the_file_of_heat_in_c(prefix, openmpi, tmp_path, ranks):
    env = {**os.environ, "PKG_CONFIG_PATH": f"{prefix}/lib/pkgconfig"}
    flags = subprocess.run(
        ["pkg-config", "--cflags", "--libs", "thalweg-openmpi"], env=env, capture_output=True, text=True, check=True
    ).stdout.split()
    program = tmp_path / "heat"
    subprocess.run(["mpicc.openmpi", "-O2", "-ffp-contract=off", HEAT / "heat.c", *flags, "-o", program], check=True)
    launch(openmpi, ranks, program, HEAT / "heat.xml", tmp_path / "c.bp")
    openmpi.run(HEAT / "heat.py", HEAT / "heat.xml", tmp_path / "py.bp", ranks=ranks)
    the_same(prefix, tmp_path / "c.bp", tmp_path / "py.bp")
    said = openmpi.run(HEAT / "read.py", tmp_path / "c.bp", ranks=1).splitlines()
    assert said[0] == "T: 5 steps of 24 x 32"
    assert said[1] == "step 0: time 0.0, T from 0.000 to 100.000, in the middle 0.000"
    assert len(said) == 6


def test_gray_scott_in_python_gives_the_files_of_gray_scott_in_c(prefix, openmpi, tmp_path):
    subprocess.run(
        ["make", "-s", "-C", GRAY_SCOTT, f"OUT={tmp_path}", "MPICC=mpicc.openmpi", f"PREFIX={prefix}"], check=True
    )
    xml = tmp_path / "gray-scott.xml"
    shutil.copy(GRAY_SCOTT / "gray-scott.xml", xml)
    few = ["--size", "12", "--plotgap", "10", "--checkpoint", "20", "--config", xml]
    for ranks, more in ((4, ["--steps", "20"]), (3, ["--steps", "40", "--restart"])):
        files = {who: ["--output", tmp_path / f"gs-{who}.bp", "--state", tmp_path / f"state-{who}.bp"] for who in "cp"}
        launch(openmpi, ranks, tmp_path / "gray-scott", *few, *more, *files["c"])
        openmpi.run(GRAY_SCOTT / "python" / "gray_scott.py", *few, *more, *files["p"], ranks=ranks)
    the_same(prefix, tmp_path / "gs-c.bp", tmp_path / "gs-p.bp")
    the_same(prefix, tmp_path / "state-c.bp", tmp_path / "state-p.bp")
