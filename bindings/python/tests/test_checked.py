"""Values that are compared before they are handed over."""

import pickle
import warnings

import numpy as np
import pytest
import thalweg
from conftest import ROOT, field

FOREIGN = ROOT / "tests" / "fixtures" / "foreign"


def damage(path, value):
    """Changes one bit of the first place that holds this number."""
    with open(path, "r+b") as f:
        content = f.read()
        at = content.index(np.float64(value).tobytes())
        f.seek(at)
        f.write(bytes([content[at] ^ 1]))


def test_a_changed_bit_is_told_where_checksums_are_compared(run):
    damage(run, field(2)[5, 7])
    assert thalweg.open(run)["T"][2].shape == (24, 32)
    f = thalweg.open(run, reads="checked")
    np.testing.assert_array_equal(f["T"][1], field(1))
    for read in (lambda: f["T"][2], lambda: f["T"][2, 0, 0], lambda: pickle.loads(pickle.dumps(f))["T"][2]):
        with pytest.raises(thalweg.Corrupt, match="checksum"):
            read()
    # Another block, and what is known without values.
    np.testing.assert_array_equal(f["T"][2, 12:], field(2)[12:])
    assert f["T"].max(3) == field(3).max()


def test_the_same_through_xarray_and_a_stream(run):
    damage(run, field(2)[5, 7])
    steps = thalweg.follow(run, timeout=10, reads="checked")
    assert next(steps)["T"][0, 0] == 0
    assert next(steps).file.reads == "checked"
    with pytest.raises(thalweg.Corrupt):
        np.asarray(next(steps)["T"])
    xarray = pytest.importorskip("xarray")
    with xarray.open_dataset(run, engine="thalweg", drop_variables="particles") as whole:
        assert whole["T"].values.shape == (4, 24, 32)
    with xarray.open_dataset(run, engine="thalweg", drop_variables="particles", reads="checked") as checked:
        np.testing.assert_array_equal(checked["T"].isel(step=1).values, field(1))
        with pytest.raises(thalweg.Corrupt):
            checked["T"].isel(step=2).values  # noqa: B018


def test_another_word_is_refused(run):
    with pytest.raises(thalweg.Error, match="reads"):
        thalweg.open(run, reads="perhaps")


def test_files_without_checksums_are_read_and_said_once():
    f = thalweg.open(FOREIGN / "adios1-types.bp", reads="checked")
    name = next(n for n, v in f.items() if v.kind == "global array")
    with pytest.warns(UserWarning, match="without checksums"):
        values = f[name][0]
    np.testing.assert_array_equal(values, thalweg.open(FOREIGN / "adios1-types.bp")[name][0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        f[name][0]
