"""Files read as numpy people expect."""

import json
import os
import pickle
import shutil
import sys
import threading

import numpy as np
import pytest
import thalweg
from conftest import field


@pytest.fixture
def f(run):
    return thalweg.open(run)


WHOLE = np.stack([field(n) for n in range(4)])


@pytest.mark.parametrize(
    "key",
    [
        np.s_[...],
        np.s_[:],
        np.s_[()],
        np.s_[-1],
        np.s_[-1, 10:20, :],
        np.s_[1:3, 5, 7],
        np.s_[..., 3],
        np.s_[2, ..., -1],
        np.s_[0, -1, -32],
        np.s_[::2, ::5, ::-7],
        np.s_[::-1, 20:3:-4, 31],
        np.s_[0, 23:0:-1, 0:0],
        np.s_[3:1],
        np.s_[:, [3, 1, 20, 3], 4:6],
        np.s_[1:2, :, [0, 31]],
        np.s_[[3, 0], 2],
        np.s_[[True, False, False, True], 23],
        np.s_[0, np.arange(24) % 5 == 0],
        np.s_[2, [1, 5, 9], [31, 0, 16]],
        np.s_[:, [1, 5], [31, 0]],
        np.s_[0, np.array([], int), 2],
        np.s_[np.int64(1), np.uint8(3)],
        np.s_[..., 2, 5, 6],
    ],
    ids=str,
)
def test_slices_are_those_of_numpy(f, key):
    got, wanted = f["T"][key], WHOLE[key]
    np.testing.assert_array_equal(got, wanted)
    assert np.shape(got) == np.shape(wanted)
    assert np.asarray(got).dtype == np.float64


def test_random_slices_are_those_of_numpy(f):
    random = np.random.default_rng(7)

    def one(n):
        kind = random.integers(4)
        if kind == 0:
            return int(random.integers(-n, n))
        if kind == 1:
            return slice(*sorted(random.integers(-n, n, 2).tolist()), int(random.integers(1, 6)))
        if kind == 2:
            return slice(None, None, -int(random.integers(1, 9)))
        return slice(None)

    for _ in range(300):
        key = tuple(one(n) for n in WHOLE.shape[: random.integers(1, 4)])
        if random.integers(5) == 0 and len(key) > 1:
            key = (*key[:-1], random.integers(0, WHOLE.shape[len(key) - 1], random.integers(1, 8)))
            if isinstance(key[0], int) and len(key) == 3:
                # Numpy puts the array's axis first beside integers around a slice.
                key = (slice(key[0], key[0] + 1 or None), *key[1:])
        np.testing.assert_array_equal(f["T"][key], WHOLE[key], str(key))


def test_an_index_array_keeps_the_place_of_its_axis(f):
    # Numpy would put it first here, as there is an integer beside a slice.
    np.testing.assert_array_equal(f["T"][1, :, [0, 31]], WHOLE[1][:, [0, 31]])


def test_outer_takes_every_index_array_by_itself(f):
    got = f["T"].outer(np.s_[[3, 0], [5, 1, 1], [31, 2, 7, 8]])
    np.testing.assert_array_equal(got, WHOLE[np.ix_([3, 0], [5, 1, 1], [31, 2, 7, 8])])
    np.testing.assert_array_equal(f["psi"].outer(np.s_[[3, 0], [5, 1]]), [[5 + 3j, 1 + 3j], [5, 1]])
    with pytest.raises(thalweg.Unsupported, match="outer"):
        f["T"][[3, 0], [5, 1]]


@pytest.mark.parametrize(
    ("key", "error"),
    [
        (4, IndexError),
        (-5, IndexError),
        (np.s_[0, 24], IndexError),
        (np.s_[0, 0, 0, 0], IndexError),
        (np.s_[0, [0, 24]], IndexError),
        (np.s_[0, [True, False]], IndexError),
        (np.s_[0, None], NotImplementedError),
        (np.s_[0, [[1, 2], [3, 4]]], NotImplementedError),
        (np.s_[0, [0.5]], NotImplementedError),
        (np.s_[0, "x"], IndexError),
        (np.s_[..., ...], IndexError),
    ],
    ids=str,
)
def test_an_index_that_makes_no_sense_is_refused(f, key, error):
    with pytest.raises(error):
        f["T"][key]


def test_the_first_axis_is_the_steps_that_hold_the_variable(f):
    odd = f["odd"]
    assert odd.steps == (1, 3)
    assert odd.shape == (2, 5)
    np.testing.assert_array_equal(odd[-1], np.arange(5) * 3)
    np.testing.assert_array_equal(f.steps[3]["odd"][...], odd[1])
    with pytest.raises(KeyError):
        f.steps[2]["odd"]
    assert "odd" in f.steps[1]
    assert "odd" not in f.steps[0]


def test_scalars_and_texts_have_a_step_axis_alone(f):
    np.testing.assert_array_equal(f["time"][:], [0.0, 0.5, 1.0, 1.5])
    assert f["time"][-1] == 1.5
    assert f["time"].value == 1.5
    assert f["count"][2].dtype == np.int32
    assert f["title"][0] == "Schritt 0 ü"
    assert list(f["title"][::-3]) == ["Schritt 3 ü", "Schritt 0 ü"]
    assert f.steps[2]["time"] == 1.0
    with pytest.raises(IndexError):
        f["time"][0, 0]


def test_complex_numbers(f):
    np.testing.assert_array_equal(f["psi"][2], np.arange(6) + 2j)
    c = f["psi"].characteristics(2)
    assert c.imag == (2.0, 2.0)
    assert c.real == (0.0, 5.0)
    assert c.min is None


def test_local_arrays_are_read_block_by_block(f):
    particles = f["particles"]
    assert particles.kind == "local array"
    blocks = particles.blocks(2)
    assert [b.shape for b in blocks] == [(5,), (10,)]
    np.testing.assert_array_equal(blocks[0][...], np.arange(5))
    np.testing.assert_array_equal(particles.block(1)[2:4], [2, 3])
    with pytest.raises(thalweg.Unsupported, match="2 blocks"):
        particles[0]
    with pytest.raises(thalweg.OutOfBounds):
        particles.block(2)


def test_a_local_array_of_one_block_is_an_array(path):
    with thalweg.Writer(path) as w:
        for n in range(2):
            with w.step() as s:
                s["v"] = np.arange(6).reshape(2, 3) + n
    v = thalweg.open(path)["v"]
    assert v.shape == (2, 2, 3)
    np.testing.assert_array_equal(v[:, 1, ::-1], [[5, 4, 3], [6, 5, 4]])


def test_blocks_tell_where_they_lie(f):
    blocks = f["T"].blocks(1)
    assert [b.offset for b in blocks] == [(0, 0), (0, 16), (12, 0), (12, 16)]
    assert {b.rank for b in blocks} == {0}
    for b in blocks:
        np.testing.assert_array_equal(b.read(), WHOLE[1][b.slices])
        assert b.min == WHOLE[1][b.slices].min()
        assert b.mean == pytest.approx(WHOLE[1][b.slices].mean())
        assert b.std == pytest.approx(WHOLE[1][b.slices].std())
    assert f["T"].chunks == ((12, 12), (16, 16))


def test_characteristics_need_no_values(tmp_path):
    path = str(tmp_path / "run.bp")
    with thalweg.Writer(path, method="POSIX") as w:
        for n in range(3):
            with w.step() as s:
                s.write("T", field(n), shape=(24, 32), offset=(0, 0))
    shutil.rmtree(path + ".dir")
    f = thalweg.open(path)
    assert f["T"].min() == 0.0
    assert f["T"].max(-1) == WHOLE[2].max()
    assert f["T"].mean(1) == pytest.approx(WHOLE[1].mean())
    assert f["T"].std(1) == pytest.approx(WHOLE[1].std())
    assert "0" in f._repr_html_()
    with pytest.raises(thalweg.NotFound):
        f["T"][0]


def test_statistics_that_are_not_recorded_are_none(path):
    schema = thalweg.Schema("g", statistics="off").array("a", "f8", count=3)
    with thalweg.Writer(path, schema) as w, w.step() as s:
        s["a"] = np.arange(3.0)
    a = thalweg.open(path)["a"]
    assert a.min() is None
    assert a.mean() is None
    assert a.blocks()[0].max is None


def test_a_shape_that_changes_is_read_step_by_step(path):
    with thalweg.Writer(path) as w:
        for n in range(1, 4):
            with w.step() as s:
                s.write("v", np.full((2, n), n), shape=(2, n), offset=(0, 0))
    v = thalweg.open(path)["v"]
    assert v.shape == (3, 2, None)
    assert v.shape_at(1) == (2, 2)
    assert v[2].shape == (2, 3)
    np.testing.assert_array_equal(v[1:2], np.full((1, 2, 2), 2))
    with pytest.raises(thalweg.InvalidArgument, match="choose one step"):
        v[:]
    assert v.size == 2 + 4 + 6


def test_reading_into_an_array(f):
    out = np.full((2, 24, 32), -1.0)
    assert f["T"].read_into(out, np.s_[1:3]) is out
    np.testing.assert_array_equal(out, WHOLE[1:3])
    part = np.zeros((24, 64))[:, ::2]
    f["T"].read_into(part, -1)
    np.testing.assert_array_equal(part, WHOLE[3])
    coarse = np.full((8, 7), -1.0)
    f["T"].read_into(coarse, np.s_[2, 1::3, 2:30:4])
    np.testing.assert_array_equal(coarse, WHOLE[2, 1::3, 2:30:4])
    row = np.zeros(32, "f4")
    f["T"].read_into(row, np.s_[0, 3])
    np.testing.assert_array_equal(row, WHOLE[0, 3])
    with pytest.raises(thalweg.InvalidArgument):
        f["T"].read_into(np.zeros(3), 0)
    step, whole, box = f.steps[2]["T"], np.zeros((24, 32)), np.zeros((5, 32))
    assert step.read_into(whole) is whole
    np.testing.assert_array_equal(whole, WHOLE[2])
    np.testing.assert_array_equal(step.read_into(box, np.s_[3:8]), WHOLE[2, 3:8])
    with pytest.raises(thalweg.InvalidArgument):
        step.read_into(np.zeros((2, 24, 32)))


def test_reading_a_local_array_into_an_array(path):
    with thalweg.Writer(path) as w:
        for n in range(3):
            with w.step() as s:
                s["T"] = np.arange(12.0).reshape(3, 4) + n
    T = thalweg.open(path)["T"]
    assert T.kind == "local array"
    out, column, narrow = np.zeros((3, 4)), np.zeros(3), np.zeros((3, 4), "f4")
    spread = np.zeros((3, 8))[:, ::2]
    for step in range(3):
        expected = np.arange(12.0).reshape(3, 4) + step
        for into in (out, spread, narrow):
            assert T.read_into(into, step) is into
            np.testing.assert_array_equal(into, expected)
        np.testing.assert_array_equal(T.read_into(column, (step, slice(None), 2)), expected[:, 2])
        np.testing.assert_array_equal(T[step], expected)
    np.testing.assert_array_equal(T.read_into(np.zeros((2, 3, 4)), np.s_[1:3]), T[1:3])
    for wrong in (np.zeros((4, 3)), np.zeros(12)):
        with pytest.raises(thalweg.InvalidArgument):
            T.read_into(wrong, 0)


def test_reading_into_the_inside_of_an_array_with_ghost_zones(path):
    values = np.arange(150.0 * 120).reshape(150, 120)
    with thalweg.Writer(path) as w:
        for n in range(2):
            with w.step() as s:
                s.write("T", values + n, shape=values.shape, offset=(0, 0))
    T = thalweg.open(path)["T"]
    whole = np.full((124, 104), -1.0)
    # As a view that numpy made, and as one that it must copy to.
    T.read_into(whole[2:-2, 2:-2], np.s_[1, 10:130, 5:105])
    np.testing.assert_array_equal(whole[2:-2, 2:-2], values[10:130, 5:105] + 1)
    whole[2:-2, 2:-2] = -1
    assert (whole == -1).all()
    T.read_into(whole[2:-2:2, 2:-2], np.s_[0, 10:130:2, 5:105])
    np.testing.assert_array_equal(whole[2:-2:2, 2:-2], values[10:130:2, 5:105])
    assert (whole[3:-2:2] == -1).all()


def test_what_no_block_covers_is_zero_or_stays(path):
    with thalweg.Writer(path) as w, w.step() as s:
        s.write("v", np.ones(3), shape=(9,), offset=(2,))
    v = thalweg.open(path)["v"]
    np.testing.assert_array_equal(v[0], [0, 0, 1, 1, 1, 0, 0, 0, 0])
    out = np.full(9, 7.0)
    np.testing.assert_array_equal(v.read_into(out, 0), [7, 7, 1, 1, 1, 7, 7, 7, 7])


def test_attributes(f):
    assert f["T"].attrs["units"] == "K"
    assert f["T"].attrs["range"] == [0.5, 1.5]
    assert f["T"].dims == ("y", "x")
    assert f.attrs["code"] == "heat"
    assert "T/units" in f.attrs
    assert "none" not in f.attrs
    with pytest.raises(KeyError):
        f.attrs["none"]


def test_a_file_is_a_mapping(f):
    assert list(f) == ["T", "time", "count", "title", "psi", "particles", "odd"]
    assert len(f) == 7
    assert "T" in f
    assert "U" not in f
    assert f.get("U") is None
    with pytest.raises(KeyError, match="nearest"):
        f["TT"]
    assert np.asarray(f["T"]).shape == (4, 24, 32)
    assert len(f.steps) == 4
    assert [s.number for s in f.steps[1:]] == [1, 2, 3]
    assert f.finished


def test_a_closed_file_says_so(run):
    with thalweg.open(run) as f:
        T = f["T"]
    assert f.closed
    with pytest.raises(ValueError, match="closed"):
        T[0]
    assert "closed" in repr(f)


def test_files_and_variables_can_be_sent_elsewhere(f):
    again = pickle.loads(pickle.dumps(f["T"]))
    np.testing.assert_array_equal(again[...], WHOLE)
    assert pickle.loads(pickle.dumps(f)).path == f.path


def test_threads_read_at_the_same_time(f):
    wrong = []

    def read(n):
        for i in range(50):
            if not (f["T"][n, i % 24] == WHOLE[n, i % 24]).all():
                wrong.append((n, i))

    threads = [threading.Thread(target=read, args=(n,)) for n in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_strides_far_apart_read_no_more_than_they_must(path):
    import os

    from thalweg import _core

    big = np.arange(1 << 20, dtype="f8").reshape(1024, 1024)
    with thalweg.Writer(path) as w, w.step() as s:
        s.write("v", big, shape=big.shape, offset=(0, 0))
    asked = []

    class Watching:
        def __init__(self, reader):
            self.reader = reader

        def __getattr__(self, name):
            return getattr(self.reader, name)

        def read(self, name, steps, out, **selection):
            asked.append(out.nbytes)
            return self.reader.read(name, steps, out, **selection)

    f = thalweg.File(path, _reader=Watching(_core.Reader(os.fspath(path))))
    np.testing.assert_array_equal(f["v"][0, ::100, ::200], big[::100, ::200])
    assert sum(asked) == 11 * 6 * 8
    asked.clear()
    np.testing.assert_array_equal(f["v"][0, [1000, 3, 4, 5]], big[[1000, 3, 4, 5]])
    assert sorted(asked) == [8192, 3 * 8192]


def test_a_file_says_its_state_as_attributes_and_as_a_dictionary(run):
    status = thalweg.open(run).status
    assert (status.steps, status.finished, status.groups) == (4, True, ["data"])
    assert status["steps"] == 4 and dict(status)["byte_order"] == sys.byteorder
    assert list(status) == "steps finished torn_bytes partial groups writers byte_order subfiles length".split()
    assert json.loads(json.dumps(status))["length"] == os.path.getsize(run)


def test_a_block_that_is_not_there_is_refused_with_their_number(run):
    T = thalweg.open(run)["T"]
    assert T.block(3, 1).offset == (12, 16)
    for number in (-1, 4, 1 << 70):
        with pytest.raises(thalweg.OutOfBounds, match=rf"block {number} of 4"):
            T.block(number, 1)
