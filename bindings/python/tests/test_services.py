"""Services on the way, as the guide shows them: on a staging server, and afterwards."""

import os
import re
import subprocess
import sys
import time

import numpy as np
import thalweg
from conftest import ROOT

PAGE = (ROOT / "docs" / "guide" / "services.md").read_text()
WRITER = """
import numpy as np, sys, thalweg
with thalweg.Writer(sys.argv[1], sys.argv[2]) as w:
    for n in range(3):
        with w.step() as s:
            s["n"] = np.int32(16)
            s["T"] = 300 + np.sin(np.arange(256.0).reshape(16, 16) + n)
"""


def kelvin(step):
    return 300 + np.sin(np.arange(256.0).reshape(16, 16) + step)


def block(language):
    (text,) = re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.M | re.S)
    return text


def commands(word):
    return re.findall(rf"^\$ ({word} [^#\n]*)", PAGE, re.M)


def prepare(folder, prefix, method):
    """The page's configuration with another method, and its functions."""
    (folder / "heat.xml").write_text(re.sub(r"<method .*</method>", method, block("xml")))
    (folder / "heat.c").write_text(block("c"))
    (folder / "heat.py").write_text(block("python"))
    (command,) = commands("cc")
    environment = os.environ | {"PKG_CONFIG_PATH": str(prefix / "lib" / "pkgconfig")}
    subprocess.run(command, shell=True, check=True, cwd=folder, env=environment)
    return environment | {"THALWEG_PYTHON": sys.executable}


def check(path):
    with thalweg.open(path) as file:
        assert len(file.steps) == 3
        for n in range(3):
            celsius = kelvin(n) - 273.15
            assert np.array_equal(file["T"][n], celsius)
            assert np.allclose(file["gradT"][n], np.hypot(*np.gradient(celsius)))
            counts, edges = np.histogram(kelvin(n), 50, (0, 1000))
            assert np.array_equal(file["histogram/T"][n], counts)
            assert np.allclose(file["histogram/T_edges"][n], edges)


def test_a_staging_server_serves_beside_the_program(staging, prefix, tmp_path):
    configuration, environment, _, call = staging
    file = tmp_path / "run7" / "heat.bp"
    method = f'<method group="fields" method="STAGING">partition={configuration}</method>'
    environment = environment | prepare(tmp_path, prefix, method) | {"XDG_RUNTIME_DIR": environment["XDG_RUNTIME_DIR"]}
    subprocess.run([sys.executable, "-c", WRITER, file, "heat.xml"], cwd=tmp_path, env=environment, check=True)
    until = time.monotonic() + 600
    while "everything was served" not in (said := call("status", str(configuration))):
        assert time.monotonic() < until, said
        assert "at work" in said or "to be stored" in said, said
        time.sleep(0.1)
    assert "heat.served.bp; everything was served" in said
    with thalweg.open(str(file)) as own:
        assert all(np.array_equal(own["T"][n], kelvin(n)) for n in range(3))
    check(str(file.with_name("heat.served.bp")))


def test_the_guides_commands_serve_a_file_that_is_there(prefix, tmp_path):
    environment = prepare(tmp_path, prefix, '<method group="fields" method="MPI"/>')
    environment["PATH"] = f"{prefix}/bin:{environment['PATH']}"
    run = [sys.executable, "-W", "ignore", "-c", WRITER, "heat.bp", "heat.xml"]
    subprocess.run(run, cwd=tmp_path, env=environment, check=True)
    both = commands("thalweg copy")
    assert len(both) == 2
    for command in both:
        subprocess.run(command, shell=True, check=True, cwd=tmp_path, env=environment)
        check(str(tmp_path / "heat.served.bp"))
