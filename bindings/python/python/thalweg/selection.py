"""Conversion of numpy's slices, indices and lists of indices into boxes to read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .errors import OutOfBounds, Unsupported

#: Indices on one axis.
Indices = range | np.ndarray

# If the bounding box of a selection has more than this many times its elements, it is read in runs instead.
WASTE = 4


class Axis:
    """Selection on one axis: indices in any order, and whether the axis is kept."""

    __slots__ = ("array", "keeps", "length", "wanted")

    def __init__(self, wanted: Indices, keeps: bool, length: int) -> None:
        self.wanted = wanted
        self.keeps = keeps
        self.length = length
        self.array = isinstance(wanted, np.ndarray)

    def __len__(self) -> int:
        return len(self.wanted)

    def first_and_last(self) -> tuple[int, int]:
        """Smallest and largest index."""
        if isinstance(self.wanted, range):
            ends = (self.wanted[0], self.wanted[-1])
            return min(ends), max(ends)
        return int(self.wanted.min()), int(self.wanted.max())


def axes(key: Any, shape: tuple[int, ...], name: str) -> list[Axis]:
    """One entry per axis of `shape`. Numpy's rules, except that `newaxis` is not supported and index arrays have one
    dimension."""
    keys = list(key) if isinstance(key, tuple) else [key]
    dots = [i for i, k in enumerate(keys) if k is Ellipsis]
    if len(dots) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    given = len(keys) - len(dots)
    if given > len(shape):
        raise OutOfBounds(f'"{name}" has {len(shape)} axes, {given} were indexed', variable=name)
    at = dots[0] if dots else len(keys)
    missing: list[Any] = [slice(None)] * (len(shape) - given)
    keys = keys[:at] + missing + keys[at + len(dots) :]
    return [_axis(k, n, d, name) for d, (k, n) in enumerate(zip(keys, shape))]


def _axis(key: Any, length: int, d: int, name: str) -> Axis:
    if isinstance(key, slice):
        return Axis(range(*key.indices(length)), True, length)
    if isinstance(key, (bool, np.bool_)) or key is None:
        raise Unsupported(f'"{name}": axis {d} cannot be indexed with {key!r}; read first, then index', variable=name)
    if isinstance(key, (list, tuple, range, np.ndarray)) and np.ndim(key) > 0:
        wanted = np.asarray(key)
        if wanted.ndim == 1 and wanted.dtype == bool:
            if len(wanted) != length:
                raise OutOfBounds(f'"{name}": a mask of {len(wanted)} for axis {d} of length {length}', variable=name)
            wanted = np.flatnonzero(wanted)
        if wanted.size == 0:
            wanted = wanted.astype(np.int64)
        if wanted.ndim != 1 or wanted.dtype.kind not in "iu":
            raise Unsupported(
                f'"{name}": an index array has one dimension and whole numbers, not {wanted.ndim} and {wanted.dtype}',
                variable=name,
            )
        wanted = wanted.astype(np.int64)
        wanted = np.where(wanted < 0, wanted + length, wanted)
        outside = (wanted < 0) | (wanted >= length)
        if outside.any():
            _outside(int(np.asarray(key)[outside.argmax()]), length, d, name)
        return Axis(wanted, True, length)
    try:
        index = key.__index__()
    except (AttributeError, TypeError):
        raise IndexError(f'"{name}": axis {d} cannot be indexed with {type(key).__name__}') from None
    if not -length <= index < length:
        _outside(index, length, d, name)
    return Axis(range(index % length, index % length + 1), False, length)


def _outside(index: int, length: int, d: int, name: str) -> None:
    raise OutOfBounds(f'"{name}": index {index} is out of bounds for axis {d} of length {length}', variable=name)


def stride(wanted: range) -> int:
    """Distance of two indices, in whatever direction; 1 for a single one."""
    return abs(wanted.step) if len(wanted) > 1 else 1


ReadBox = Callable[[list[int], list[int], list[int], np.ndarray], None]


def read_outer(wanted: list[Axis], steps: int, dtype: np.dtype, read: ReadBox) -> np.ndarray:
    """Reads every combination of the selected indices for `steps` steps: the step axis first, all axes kept.

    `read(offset, count, stride, out)` fills `out`, contiguous, from one box: every `stride`-th element along each axis.
    """
    out = np.zeros((steps, *(len(a) for a in wanted)), dtype)
    if out.size:
        _fill(wanted, out, read)
    return out


def _fill(wanted: list[Axis], out: np.ndarray, read: ReadBox) -> None:
    offset, count, strides, found = [], [], [], []
    inside: list[slice | np.ndarray] = []
    worst, most = -1, 1.0
    waste = 1.0
    for d, axis in enumerate(wanted):
        first, last = axis.first_and_last()
        span = last - first + 1
        offset.append(first)
        count.append(span)
        if isinstance(axis.wanted, range):
            # Left out elements are not read: nothing is wasted.
            strides.append(stride(axis.wanted))
            found.append(len(axis))
            inside.append(slice(None, None, -1 if axis.wanted.step < 0 else 1))
            continue
        strides.append(1)
        found.append(span)
        inside.append(axis.wanted - first)
        ratio = span / len(axis)
        waste *= ratio
        if ratio > most:
            worst, most = d, ratio
    if waste > WASTE and worst >= 0:
        _in_runs(wanted, worst, out, read)
        return
    plain = all(isinstance(a.wanted, range) and a.wanted.step > 0 for a in wanted)
    if plain and out.flags.c_contiguous:
        read(offset, count, strides, out)
        return
    box = np.zeros((out.shape[0], *found), out.dtype)
    read(offset, count, strides, box)
    for d, taken in enumerate(inside):
        if isinstance(taken, slice):
            box = box[(slice(None),) * (d + 1) + (taken,)]
        else:
            box = np.take(box, taken, axis=d + 1)
    out[...] = box


def _in_runs(wanted: list[Axis], d: int, out: np.ndarray, read: ReadBox) -> None:
    """Reads adjacent indices on axis `d` together, others separately."""
    axis = wanted[d]
    indices = np.asarray(axis.wanted, np.int64)
    order = np.argsort(indices, kind="stable")
    rising = indices[order]
    for run in np.split(np.arange(len(rising)), np.flatnonzero(np.diff(rising) > 1) + 1):
        places = order[run]
        part = Axis(indices[places], True, axis.length)
        low, high = part.first_and_last()
        if high - low + 1 == len(part):
            part = Axis(range(low, high + 1), True, axis.length)
        piece = np.zeros(out.shape[: d + 1] + (len(part),) + out.shape[d + 2 :], out.dtype)
        _fill([*wanted[:d], part, *wanted[d + 1 :]], piece, read)
        out[(slice(None),) * (d + 1) + (places,)] = piece


# For fewer bytes a copy is faster than a memory selection.
_WORTH = 1 << 16


def within(array: np.ndarray) -> tuple[np.ndarray | None, tuple[list[int], list[int]] | None]:
    """A contiguous array of which this one is a box, its extents and the box's first element; `None` if there is
    none."""
    owner = array.base
    if array.flags.c_contiguous or array.ndim < 2 or array.nbytes < _WORTH or not isinstance(owner, np.ndarray):
        return None, None
    item, strides = array.itemsize, array.strides
    if not owner.flags.c_contiguous or strides[-1] != item or any(s <= 0 for s in strides):
        return None, None
    shape = [0] * array.ndim
    for d in range(1, array.ndim):
        if strides[d - 1] % strides[d]:
            return None, None
        shape[d] = strides[d - 1] // strides[d]
    at = array.__array_interface__["data"][0] - owner.__array_interface__["data"][0]
    row = strides[0]
    shape[0] = owner.nbytes // row
    start, rest = [at // row], at % row
    for stride in strides[1:]:
        start.append(rest // stride)
        rest %= stride
    if rest or any(a + n > s for a, n, s in zip(start, array.shape, shape)):
        return None, None
    return owner.reshape(-1).view(np.uint8)[: shape[0] * row], (shape, start)
