"""Following a file while its writer runs."""

from __future__ import annotations

import operator
import os
import time
from collections.abc import Iterator

from . import _core
from .errors import InvalidArgument, NotFound, PeerLost, Timeout
from .file import File, Step, kept

# Seconds between two checks for signals, such as Ctrl-C.
_SHORT = 0.2


def follow(
    path: str | os.PathLike[str],
    timeout: float | None = None,
    *,
    poll: float = 0.05,
    latest: bool = False,
    every: int = 1,
    patience: float | None = None,
    reads: str = "compared",
    digits: int | None = None,
) -> Iterator[Step]:
    """The steps of a file, each as soon as its writer has closed it; ends when the file is closed for good.

        for step in thalweg.follow("run.bp", timeout=600):
            print(step.number, step["T"].max())

    - `timeout`: seconds to wait for the file and for each step; `None`: as long as the writer lives.
    - `poll`: seconds between two checks of the file.
    - `latest`: always continues with the newest step; steps in between are left out.
    - `every`: only the steps whose numbers are multiples of this one. Of the others, index entries alone are read.
    - `patience`: for files on another machine's filesystem, seconds without any change after which the writer is
      considered dead.
    - `reads`, `digits`: as for `open`.

    Raises `Timeout` if no step came in time, and `PeerLost` if the writer ended without closing the file for good.
    """
    if operator.index(every) < 1:
        raise InvalidArgument(f"every={every}: a number of steps, 1 or more")
    if latest and every != 1:
        raise InvalidArgument("latest=True leaves out steps as they come, every= by their numbers: one of both")
    path = os.fspath(path)
    follower = _first(path, timeout, poll, reads, kept(digits))
    if patience is not None:
        follower.set_patience(patience)
    if latest and follower.last > follower.step:
        follower.advance(True, 0.0, poll)
    while True:
        if follower.step % every == 0:
            yield Step(File(path, reads=reads, digits=digits, _reader=follower.reader()), follower.step)
        end = None if timeout is None else time.monotonic() + timeout
        while (came := follower.advance(latest, _slice(end), poll)) == "not yet":
            if end is not None and time.monotonic() >= end:
                what = f"{path}: no step after {follower.last} within {timeout} s; the writer is still there"
                raise Timeout(what, file=path, step=follower.last)
        if came == "end":
            return
        if came == "died":
            what = f"{path}: the writer ended without closing the file; steps to {follower.last} are readable"
            raise PeerLost(what, file=path, step=follower.last, safe=f"steps to {follower.last}")


def _first(path: str, timeout: float | None, poll: float, reads: str, digits: int) -> _core.Follower:
    end = None if timeout is None else time.monotonic() + timeout
    while True:
        try:
            return _core.Follower(path, _slice(end), poll, reads, digits)
        except NotFound:
            if end is not None and time.monotonic() >= end:
                raise Timeout(f"{path}: not there, or without a step, within {timeout} s", file=path) from None


def _slice(end: float | None) -> float:
    return _SHORT if end is None else max(0.0, min(_SHORT, end - time.monotonic()))
