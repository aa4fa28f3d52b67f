"""Following a file that a running writer still extends."""

import subprocess
import sys
import threading
import time

import pytest
import thalweg

WRITER = """
import sys, time, os, signal
import thalweg
path, steps, pause, end = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), sys.argv[4]
w = thalweg.Writer(path)
for n in range(steps):
    with w.step() as s:
        s["n"] = n
        s["v"] = [float(n)] * 1000
    time.sleep(pause)
if end == "die":
    os.kill(os.getpid(), signal.SIGKILL)
if end == "stay":
    sys.stdin.read()
w.close()
"""


@pytest.fixture
def writer(path):
    running = []

    def start(steps, pause, end="close"):
        command = [sys.executable, "-c", WRITER, path, str(steps), str(pause), end]
        running.append(subprocess.Popen(command, stdin=subprocess.PIPE))
        return running[-1]

    yield start
    for r in running:
        r.kill()
        r.wait()


def test_every_step_comes_once_and_in_order(path, writer):
    writer(8, 0.1)
    seen = []
    for step in thalweg.follow(path, timeout=60):
        assert step["n"] == step.number
        assert step["v"].max() == step.number
        assert (step["v"][...] == step.number).all()
        seen.append(step.number)
    assert seen == list(range(8))


def test_a_reader_that_wants_the_latest_leaves_out_what_it_missed(path, writer):
    writer(30, 0.05)
    seen = []
    for step in thalweg.follow(path, timeout=60, latest=True):
        seen.append(step.number)
        time.sleep(0.4)
    assert seen == sorted(set(seen))
    assert seen[-1] == 29
    assert len(seen) < 30


def test_every_third_step_alone(path, writer):
    writer(8, 0.05)
    assert [(step.number, step["n"]) for step in thalweg.follow(path, timeout=60, every=3)] == [(0, 0), (3, 3), (6, 6)]
    with pytest.raises(thalweg.InvalidArgument, match="every=0"):
        next(thalweg.follow(path, every=0))


def test_a_writer_that_died_is_told_from_one_that_is_slow(path, writer):
    writer(3, 0.05, "die")
    seen = []
    with pytest.raises(thalweg.PeerLost) as caught:
        for step in thalweg.follow(path, timeout=60):
            seen.append(step.number)
    assert seen == [0, 1, 2]
    assert caught.value.step == 2


def test_a_slow_writer_runs_out_of_time(path, writer):
    writer(2, 0.0, "stay")
    assert len(list(zip(range(2), thalweg.follow(path, timeout=60)))) == 2
    seen = []
    before = time.monotonic()
    with pytest.raises(thalweg.Timeout, match="still there"):
        for step in thalweg.follow(path, timeout=1.5):
            seen.append(step.number)
    assert seen == [0, 1]
    assert time.monotonic() - before < 30


def test_a_file_that_never_comes(path):
    before = time.monotonic()
    with pytest.raises(TimeoutError):
        next(thalweg.follow(path, timeout=0.3))
    assert 0.25 < time.monotonic() - before < 10


def test_a_finished_file_is_walked_through(run):
    assert [s.number for s in thalweg.follow(run)] == [0, 1, 2, 3]


def test_other_threads_run_while_one_waits(path):
    from thalweg import _core

    waiting = threading.Thread(target=lambda: pytest.raises(thalweg.NotFound, _core.Follower, path, 3.0, 0.05))
    waiting.start()
    gaps, last = [], time.monotonic()
    while waiting.is_alive():
        time.sleep(0.01)
        now = time.monotonic()
        gaps.append(now - last)
        last = now
    # A thread that kept the interpreter for itself would make one gap of three seconds.
    assert max(gaps) < 2.5
    assert len(gaps) > 10
