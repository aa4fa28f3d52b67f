"""Fewer digits of real numbers: fewer bytes from a server, and the same values from everywhere."""

import pickle
import subprocess
import sys

import numpy as np
import pytest
import thalweg
from conftest import field

WRITES = """
import sys
import numpy as np
import thalweg

xml, path = sys.argv[1:]
with thalweg.Writer(path, xml) as w:
    for step in range(3):
        with w.step() as s:
            s["T"] = np.sqrt(np.arange(300_000.0) + step).reshape(300, 1000)
"""
READS = """
import sys
import numpy as np
import thalweg

for step in thalweg.follow(sys.argv[1], digits=3):
    exact = np.sqrt(np.arange(300_000.0) + step.number).reshape(300, 1000)
    rough = step["T"][:]
    assert np.all(rough <= exact) and np.all(exact - rough <= 1e-3 * exact)
    assert not np.array_equal(rough, exact)
"""


def test_so_many_digits_are_kept(run):
    whole = thalweg.open(run)
    assert whole.digits is None
    for digits in (1, 3, 6, 12):
        f = pickle.loads(pickle.dumps(thalweg.open(run, digits=digits)))
        assert f.digits == digits
        rough, exact = f["T"][2], whole["T"][2]
        assert np.all(rough <= exact) and np.all(exact - rough <= 10.0**-digits * exact)
        # A few elements, and a series over the steps, are rounded like the others.
        np.testing.assert_array_equal(f["T"][2, 3:20:4, ::7], rough[3:20:4, ::7])
        assert f["T"][:, 5, 7].tolist() == [f["T"][step][5, 7] for step in range(4)]


def test_xarray_and_streams_take_it_too(run):
    xarray = pytest.importorskip("xarray")
    with xarray.open_dataset(run, engine="thalweg", drop_variables="particles", digits=2) as rough:
        values = rough["T"].isel(step=1).values
    exact = field(1)
    assert np.all(values <= exact) and np.all(exact - values <= 1e-2 * exact)
    step = next(thalweg.follow(run, timeout=10, digits=2))
    assert step.file.digits == 2
    for wrong in (0, -1, 101):
        with pytest.raises(thalweg.InvalidArgument, match="digits"):
            thalweg.open(run, digits=wrong)
    with pytest.raises(TypeError):
        thalweg.open(run, digits=2.5)


def test_through_a_server(staging, tmp_path):
    configuration, environment, readers, _ = staging
    (tmp_path / "s.xml").write_text(f"""<adios-config host-language="C"><adios-group name="fields">
        <global-bounds dimensions="300,1000" offsets="0,0"><var name="T" type="double" dimensions="300,1000"/></global-bounds>
        </adios-group><method group="fields" method="STAGING">partition={configuration}</method></adios-config>""")
    path = str(tmp_path / "run7" / "a.bp")
    subprocess.run([sys.executable, "-c", WRITES, str(tmp_path / "s.xml"), path], env=environment, check=True, timeout=300)
    subprocess.run([sys.executable, "-c", READS, path], env=readers, check=True, timeout=300)
