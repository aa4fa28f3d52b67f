"""Changes of what a run writes, while it runs."""

from __future__ import annotations

import operator
import os
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from . import _core
from .errors import InvalidArgument

__all__ = ["Since", "control"]


class Since(NamedTuple):
    """From where on a change holds.

    - `output`: the output, as the program counts them.
    - `step`: the step of the file that this is, if all goes well.
    """

    output: int
    step: int


def control(
    path: str | os.PathLike[str],
    *,
    every: int | None = None,
    only: str | Iterable[str] | None = None,
    box: str | Sequence[slice | tuple[int, int]] | None = None,
    method: str | None = None,
    stop: bool | None = None,
    stop_after: str | None = None,
    timeout: float | None = None,
    control_file: str | os.PathLike[str] | None = None,
) -> Since:
    """Changes what a run writes, as the command `thalweg control` does: for analyses that follow a run (docs/guide/steering.md). Waits
    until the run has taken the change, at its next written output.

        for step in thalweg.follow("run.bp"):
            if step["v"].max() > 0.5:
                thalweg.control("run.bp", every=1, box=[slice(20, 40), slice(0, 32)])

    - `path`: the output that the run writes, by a method with `control=yes`.
    - `every`: one output of so many is written.
    - `only`: names of the arrays that are written; `"all"`.
    - `box`: the part of global arrays that is written: a slice or a pair (from, to) for each dimension, slowest first; `"all"`.
    - `method`: by which it writes, with its parameters: `"STAGING;partition=stage.cfg"`; `"declared"`: the one of its configuration.
    - `stop`: whether the program is asked to stop.
    - `stop_after`: the program is asked to stop once it has closed an output of this group.
    - `timeout`: seconds to wait, after which the change is withdrawn; `None`: as long as the run lives.
    - `control_file`: of a method with `control=FILE`.

    Raises `NotFound` without such a run, `PeerLost` if it ends, `InvalidArgument` if it refuses the change, `AlreadyExists` while another
    change waits, and `Timeout`.
    """
    if every is not None and operator.index(every) < 1:
        raise InvalidArgument(f"every={every}: expected at least 1")
    file = None if control_file is None else os.fspath(control_file)
    return Since(
        *_core.control(os.fspath(path), file, every, _names(only), _region(box), method, stop, stop_after, timeout)
    )


def _names(only: str | Iterable[str] | None) -> list[str] | None:
    """The names; none for all."""
    if only is None:
        return None
    if isinstance(only, str):
        return [] if only == "all" else [only]
    names = list(only)
    if not names:
        raise InvalidArgument('only=[] names no array; all arrays are "all"')
    return names


def _region(box: str | Sequence[slice | tuple[int, int]] | None) -> str | None:
    if box is None or isinstance(box, str):
        return box
    ranges = []
    for dimension in box:
        if isinstance(dimension, slice):
            if dimension.step not in (None, 1) or dimension.stop is None:
                raise InvalidArgument(f"box: {dimension} is no part without gaps, such as slice(20, 40)")
            dimension = (dimension.start or 0, dimension.stop)
        first, end = dimension
        ranges.append(f"{operator.index(first)}:{operator.index(end)}")
    return ",".join(ranges)
