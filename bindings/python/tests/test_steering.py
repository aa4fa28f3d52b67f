"""What is written, and how often, changed while a program writes."""

import contextlib
import os
import signal
import threading
import time

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


@contextlib.contextmanager
def running(path, every=0.005):
    """A program that writes, in a thread of its own, until it is asked to stop."""
    failed, ends = [], threading.Event()

    def write_all():
        try:
            with thalweg.Writer(path, parameters="control=yes") as w:
                number = 0
                while not w.stop_requested and not ends.is_set():
                    write(w, number)
                    number += 1
                    time.sleep(every)
        except BaseException as e:
            failed.append(e)

    writer = threading.Thread(target=write_all)
    writer.start()
    try:
        while not os.path.exists(f"{path}.control.run"):
            time.sleep(0.01)
        yield writer
    finally:
        ends.set()
        writer.join()
    assert not failed, failed


def test_an_analysis_changes_what_is_written(tmp_path):
    path = str(tmp_path / "x.bp")
    with pytest.raises(thalweg.NotFound, match="no run that can be steered"):
        thalweg.control(path, every=2)
    with running(path) as writer:
        thinned = thalweg.control(path, every=5, timeout=60)
        boxed = thalweg.control(tmp_path / "x.bp", every=1, only=["u"], box=[slice(2, 4), (5, 10)])
        assert boxed.output > thinned.output >= 1 and boxed.step > thinned.step >= 1
        whole = thalweg.control(path, only="all", box="all")
        with pytest.raises(thalweg.InvalidArgument, match="refuses the change.*no array"):
            thalweg.control(path, only="uu")
        with pytest.raises(thalweg.InvalidArgument, match="refuses the change.*a file cannot have both"):
            thalweg.control(path, method="POSIX")
        other = thalweg.control(path, method="MPI_COLLECTIVE;aggregators=1")
        again = thalweg.control(path, method="declared", stop=False)
        with pytest.raises(thalweg.InvalidArgument, match="refuses the change.*no group"):
            thalweg.control(path, stop_after="nobody")
        assert again.output > other.output > whole.output
        thalweg.control(path, stop=True)
        writer.join()
    with thalweg.open(path) as f:
        steps = [int(n) for n in f["step"][:]]
        assert all(n % 5 == 0 for n in steps if thinned.output <= n < boxed.output)
        assert steps[boxed.step] == boxed.output and steps[boxed.step :] == list(range(boxed.output, steps[-1] + 1))
        assert f.attrs[f"/thalweg/control/{other.output}"] == f"step {other.step}: method=MPI_COLLECTIVE;aggregators=1"
        assert f.attrs[f"/thalweg/control/{again.output}"] == f"step {again.step}: stop=no, method=declared"
        assert steps[other.step] == other.output
        assert f["T"].steps[boxed.step - 1] == boxed.step - 1 and boxed.step not in f["T"].steps and whole.step in f["T"].steps
        number = steps[boxed.step]
        assert f["u"][boxed.step].sum() == 2 * 5 * number and f["u"][whole.step].sum() == 200 * steps[whole.step]


def test_who_waits_for_a_run_that_writes_nothing_can_leave(tmp_path):
    path = str(tmp_path / "x.bp")
    with thalweg.Writer(path, parameters="control=yes") as w:
        write(w, 0)
        with pytest.raises(thalweg.Timeout, match="withdrawn"):
            thalweg.control(path, every=2, timeout=0.2)

        def interrupted(*_):
            raise KeyboardInterrupt

        before = signal.signal(signal.SIGALRM, interrupted)
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.3)
            with pytest.raises(KeyboardInterrupt):
                thalweg.control(path, every=2)
        finally:
            signal.signal(signal.SIGALRM, before)
        assert not os.path.exists(f"{path}.control"), "the change is withdrawn"
        assert write(w, 1) and write(w, 2)
    with pytest.raises(thalweg.NotFound, match="has ended"):
        thalweg.control(path, every=2)


def test_rules_see_arrays_and_scalars_however_they_are_written(tmp_path):
    path = str(tmp_path / "x.bp")
    rules = "when max(T) >= 5 for 2 steps: every=10 | when min(step) > 39: stop | when not finite(u): only=T"
    with thalweg.Writer(path, parameters=f"control=yes;rules={rules}") as w:
        assert [n for n in range(60) if write(w, n)] == [*range(8), 10, 20, 30, 40, 50]
        assert w.stop_requested and w.wanted(60)
        with w.step() as step:
            step["step"] = 60
            step["T"] = np.arange(4.0)
            step.write("u", np.full((10, 20), np.nan), shape=(10, 20), offset=(0, 0))
        assert write(w, 70) and not w.wants("u") and write(w, 80)
    with thalweg.open(path) as f:
        assert list(f["u"].steps)[-1] == f["step"].steps[-1] - 1
        assert f.attrs["/thalweg/control/8"] == "step 8: every=10 (rule: when max(T) >= 5 for 2 steps: every=10)"


def test_mistakes_are_told_at_once(tmp_path):
    path = str(tmp_path / "x.bp")
    with running(path):
        for arguments, why in [
            ({}, "nothing to change"),
            ({"every": 0}, "at least 1"),
            ({"only": []}, "names no array"),
            ({"box": [slice(0, 9, 2)]}, "no part without gaps"),
            ({"box": "3"}, "expected FROM:TO"),
            ({"method": ";owners=2"}, "expected NAME"),
            ({"stop": True, "stop_after": "restart"}, "exclude each other"),
            ({"every": 2, "timeout": -1.0}, "timeout"),
        ]:
            with pytest.raises(thalweg.InvalidArgument, match=why):
                thalweg.control(path, **arguments)


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
