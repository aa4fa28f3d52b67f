"""What is written, and how often, changed while a program writes."""

import os

import numpy as np
import pytest
import thalweg


def ask(path, *lines):
    """As `thalweg control`."""
    control = f"{path}.control"
    with open(os.open(control, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write("\n".join(["thalweg control 1", "id 1", *lines]) + "\n")


def run_file(path):
    with open(f"{path}.control.run") as file:
        return file.read()


def write(w, number):
    if not w.wanted(number):
        return False
    with w.step() as step:
        step["step"] = number
        step["T"] = np.full(100, float(number))
        step.write("u", np.full((10, 20), float(number)), shape=(10, 20), offset=(0, 0))
    return True


def test_steps_and_arrays_that_are_wanted(tmp_path):
    path = str(tmp_path / "x.bp")
    with thalweg.Writer(path, parameters="control=yes") as w:
        assert write(w, 0)
        ask(path, "every 10", "only u", "box 2:4,5:10")
        assert write(w, 1) and w.wants("T") is False and w.wants("u")
        assert "accepted 2 2\n" in run_file(path)
        assert [n for n in range(2, 31) if write(w, n)] == [10, 20, 30]
        with pytest.raises(thalweg.NotFound, match="did you mean"):
            w.wants("TT")
        assert not w.stop_requested
        ask(path, "stop yes")
        assert write(w, 40) and w.stop_requested
    assert not os.path.exists(f"{path}.control.run")
    with thalweg.open(path) as f:
        assert [int(n) for n in f["step"][:]] == [0, 1, 10, 20, 30, 40]
        assert list(f["T"].steps) == [0, 1]
        last = f["u"][-1]
        assert last.sum() == 2 * 5 * 40 and (last[2:4, 5:10] == 40).all()


def test_a_change_of_unknown_names_is_refused(tmp_path):
    path = str(tmp_path / "x.bp")
    with thalweg.Writer(path, parameters="control=yes") as w:
        mistakes = {"only uu": "no array", "box 1:2,3:4,5:6": "no global array", "every 0": "invalid", "evry 2": "unknown line"}
        for number, (line, why) in enumerate(mistakes.items()):
            write(w, 2 * number)
            ask(path, line)
            assert write(w, 2 * number + 1)
            assert not os.path.exists(f"{path}.control")
            assert "refused" in run_file(path) and why in run_file(path), line
        assert [n for n in range(100, 105) if write(w, n)] == [100, 101, 102, 103, 104]


def test_a_control_file_that_others_may_write_is_not_followed(tmp_path, capfd):
    path = str(tmp_path / "x.bp")
    with thalweg.Writer(path, parameters="control=yes") as w:
        write(w, 0)
        ask(path, "every 10")
        os.chmod(f"{path}.control", 0o666)
        assert [n for n in range(1, 5) if write(w, n)] == [1, 2, 3, 4]
    assert os.path.exists(f"{path}.control")
