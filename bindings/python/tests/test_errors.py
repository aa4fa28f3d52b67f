"""Exceptions: a class per kind, with the facts as attributes."""

import pickle

import pytest
import thalweg
from thalweg import errors


def test_every_kind_has_a_class_that_python_knows_too():
    known = {
        "Io": OSError, "NotFound": KeyError, "AlreadyExists": FileExistsError, "PermissionDenied": PermissionError,
        "NoSpace": OSError, "NoMemory": MemoryError, "Corrupt": ValueError, "Torn": EOFError, "OutOfBounds": IndexError,
        "Unsupported": NotImplementedError, "Config": ValueError, "InvalidArgument": ValueError,
        "PeerLost": ConnectionError, "Timeout": TimeoutError, "NotReady": BlockingIOError, "EndOfStream": EOFError,
    }  # fmt: skip
    assert {k.__name__ for k in errors._KINDS.values()} == set(known)
    for name, own in known.items():
        kind = getattr(thalweg, name)
        assert issubclass(kind, thalweg.Error)
        assert issubclass(kind, own)
        assert str(kind("what happened")) == "what happened"


def test_an_error_tells_where(run):
    f = thalweg.open(run)
    with pytest.raises(thalweg.NotFound) as caught:
        f._reader.read("T", [9], bytearray_of(8))
    e = caught.value
    assert (e.variable, e.step, e.file, e.rank, e.kind) == ("T", 9, run, None, "not found")
    assert "4 steps" in e.what


def bytearray_of(n):
    import numpy as np

    return np.zeros(n, np.uint8)


def test_a_file_that_is_none(tmp_path):
    with pytest.raises(FileNotFoundError) as caught:
        thalweg.open(tmp_path / "none.bp")
    assert isinstance(caught.value, thalweg.NotFound)
    torn = tmp_path / "torn.bp"
    torn.write_bytes(b"\0" * 100)
    with pytest.raises(thalweg.Error) as refused:
        thalweg.open(torn)
    assert type(refused.value) in (thalweg.Torn, thalweg.Corrupt)
    assert refused.value.file == str(torn)


def test_errors_can_be_sent_elsewhere():
    e = errors._make(5, "no space", what="no", rank=3, group="g", step=2, variable=None,
                     file="f", byte=7, safe="steps 0..=1", reported_by=None)  # fmt: skip
    again = pickle.loads(pickle.dumps(e))
    assert type(again) is thalweg.NoSpace
    assert (str(again), again.rank, again.step, again.byte, again.safe) == ("no space", 3, 2, 7, "steps 0..=1")
