"""The types that the package promises."""

import subprocess
import sys

import pytest
from conftest import ROOT

PACKAGE = ROOT / "bindings" / "python"


def test_the_package_is_typed_strictly(tmp_path):
    pytest.importorskip("mypy")
    command = [sys.executable, "-m", "mypy", "--config-file", PACKAGE / "pyproject.toml", "--cache-dir", tmp_path]
    done = subprocess.run([*command, PACKAGE / "python" / "thalweg"], cwd=PACKAGE, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_stubs_are_those_of_the_extension():
    pytest.importorskip("mypy")
    command = [sys.executable, "-m", "mypy.stubtest", "thalweg._core"]
    done = subprocess.run(command, cwd="/", capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


USE = """
import numpy as np
import thalweg
with thalweg.open("run.bp") as f:
    v: thalweg.Variable = f["T"]
    n: int = len(f.steps)
    a = np.asarray(v)
    low: float | None = v.mean()
    for step in thalweg.follow("run.bp", timeout=1.0):
        reveal_type(step.number)
with thalweg.Writer("out.bp", thalweg.Schema("g").scalar("n", "i4")) as w, w.step(size=100) as s:
    s["n"] = 3
    s.write("v", np.zeros(3), shape=(3,), offset=(0,))
"""


def test_a_program_that_uses_it_is_checked(tmp_path):
    pytest.importorskip("mypy")
    program = tmp_path / "use.py"
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", tmp_path / "cache", program]
    program.write_text(USE)
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert 'int"' in done.stdout
    program.write_text(USE + "thalweg.Writer(3.5)\n")
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1
    assert "arg-type" in done.stdout
