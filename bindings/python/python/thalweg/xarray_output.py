"""The step that gets the values of datasets: arrays in pieces, and chunks of dask as they are computed."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from .writer import Writer
from .xarray_encoding import Stored

# Bytes in the writer's buffer after which they are written.
_BUFFERED = 64 << 20

# Larger blocks are written without being buffered, if they are not compressed.
_UNBUFFERED = 4 << 20


class Output:
    """An open step that gets blocks, from any thread."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._step = writer.step()
        self._buffered = 0
        self._lock = threading.Lock()

    def put(self, stored: Stored, offset: Sequence[int], values: Any) -> None:
        """Writes a block. `offset` is its place in the values."""
        with self._lock:
            if isinstance(values, str) or not stored.shape:
                self._step[stored.name] = values
                return
            # Chunks of dask may have another type than their array says.
            values = np.asarray(values, stored.values.dtype)
            self._step.write(
                stored.name,
                values,
                shape=stored.shape,
                offset=[o + n for o, n in zip(stored.origin, offset)],
                dims=stored.dims,
                transform=stored.transform,
            )
            if stored.transform is not None or values.nbytes < _UNBUFFERED:
                self._buffered += values.nbytes
            if self._buffered > _BUFFERED:
                self._buffered = 0
                self._step.close()
                self._step = self._writer._more()

    def write(self, variables: Sequence[Stored]) -> None:
        """Writes all values of variables."""
        for stored in variables:
            if not stored.is_chunked:
                for offset, piece in stored.pieces():
                    self.put(stored, offset, piece)
        _write_chunked([v for v in variables if v.is_chunked], self)

    def close(self) -> None:
        self._step.close()


class _Target:
    """What dask stores a variable's chunks in."""

    def __init__(self, stored: Stored, output: Output) -> None:
        self._stored, self._output = stored, output

    def __setitem__(self, key: tuple[slice, ...], values: Any) -> None:
        self._output.put(self._stored, [s.start or 0 for s in key], values)


def _write_chunked(variables: list[Stored], output: Output) -> None:
    """Computes and writes the chunks of dask arrays; what several chunks need is computed once."""
    if not variables:
        return
    import dask
    import dask.array
    import dask.base
    import dask.local
    import dask.threaded

    arrays = [v.values for v in variables]
    get = dask.base.get_scheduler(collections=arrays)
    if get in (None, dask.threaded.get, dask.local.get_sync):
        dask.array.store(arrays, [_Target(v, output) for v in variables], lock=False)
        return
    # Other processes compute: their results are written here, as they come.
    blocks = [(v, offset, block) for v in variables for offset, block in _blocks(v.values)]
    client = getattr(get, "__self__", None)
    if client is not None and hasattr(client, "compute"):
        for number, values in _as_computed(client, [b for _, _, b in blocks]):
            output.put(blocks[number][0], blocks[number][1], values)
        return
    while blocks:
        size, some = 0, []
        while blocks and size <= _BUFFERED:
            some.append(blocks.pop(0))
            size += some[-1][2].nbytes
        for (stored, offset, _), values in zip(some, dask.compute(*(b for _, _, b in some))):
            output.put(stored, offset, values)


def _blocks(array: Any) -> Iterator[tuple[tuple[int, ...], Any]]:
    """The chunks of a dask array as arrays, with their offsets."""
    starts = [[0, *itertools.accumulate(c)][:-1] for c in array.chunks]
    for index in itertools.product(*(range(len(c)) for c in array.chunks)):
        yield tuple(s[i] for s, i in zip(starts, index)), array.blocks[index]


def _as_computed(client: Any, blocks: Iterable[Any]) -> Iterator[tuple[int, Any]]:
    """Results of a cluster, in the order in which they are ready; the cluster forgets those that were written."""
    from distributed import as_completed

    futures = client.compute(list(blocks))
    numbers: dict[Any, list[int]] = {}
    for number, future in enumerate(futures):
        numbers.setdefault(future.key, []).append(number)
    waiting = as_completed(futures)
    del futures
    for future in waiting:
        values = future.result()
        for number in numbers.pop(future.key, ()):
            yield number, values
        future.release()
