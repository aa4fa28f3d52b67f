"""Output in the background: ranks write bytes into windows of a file and go on computing."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from . import _core, mpi
from .background import Served, chosen
from .errors import Error, InvalidArgument


class Windows(Served):
    """A file open for output windows. Collective; so are `start`, without waiting, and `close`.

    - `comm`: a communicator of mpi4py, `Processes`, or `None` for this process alone.
    - `keep`: keeps the bytes of an existing file instead of replacing it.
    - `memory`: most bytes that this process holds for the file, at least 64 KiB.
    """

    def __init__(
        self, path: str | os.PathLike[str], comm: Any = None, *, keep: bool = False, memory: int = 256 << 20
    ) -> None:
        super().__init__(_core.Windows.open(mpi.ranks(comm), os.fspath(path), keep, memory))

    def start(
        self,
        offset: int,
        length: int,
        *,
        owners: int | Sequence[int] | None = None,
        base: int = 0,
        skip: int = 1,
        owner_stripe: int | None = None,
        write_stripe: int | None = None,
        fraction: int | None = None,
        alignment: int | None = None,
        time_limit: float | None = None,
        durable: bool = False,
        commit: tuple[int, bytes] | None = None,
    ) -> Window:
        """Starts a window of `length` bytes from byte `offset`; all ranks start the same windows in the same order.

        - `owners`: the ranks that gather and write; or how many, from rank `base` at a distance of `skip`; by default one of each node.
        - `owner_stripe`, `write_stripe`, `fraction`, `alignment`: in bytes, see the guide.
        - `time_limit`: seconds without any event after which the window fails.
        - `durable`: the window is complete when its bytes are on the device.
        - `commit`: offset and bytes that rank 0 writes when all others are written.
        """
        ranks, active = chosen(owners)
        number = self._file.start(
            offset, length, ranks, active, base, skip, owner_stripe, write_stripe, fraction, alignment, time_limit, durable, commit
        )
        self._call_back()
        return Window(self, number)


class Window:
    """An output window, made by `Windows.start`."""

    def __init__(self, file: Windows, number: int) -> None:
        self._windows, self._number = file, number

    def write(self, offset: int, data: Any) -> None:
        """Copies an array, or an object with a buffer, to byte `offset` of the file. Returns at once while there is memory."""
        try:
            self._windows._file.write(self._number, offset, _bytes(data))
        finally:
            self._windows._call_back()

    def try_write(self, offset: int, data: Any) -> int:
        """As `write`, but never waits. Returns how many bytes were taken, the first ones."""
        taken: int = self._windows._file.try_write(self._number, offset, _bytes(data))
        self._windows._call_back()
        return taken

    def end(self) -> None:
        """This rank writes nothing more into the window. Returns at once."""
        self._windows._file.end(self._number)
        self._windows._call_back()

    def test(self) -> bool:
        """Whether all bytes of all ranks are written. A failure of the window is raised, the same on all ranks."""
        try:
            is_complete: bool = self._windows._file.test(self._number)
            return is_complete
        finally:
            self._windows._call_back()

    def wait(self) -> None:
        """Waits until all bytes of all ranks are written. A failure of the window is raised, the same on all ranks."""
        try:
            self._windows._file.wait(self._number)
        finally:
            self._windows._call_back()

    def on_complete(self, callback: Callable[[Error | None], object]) -> None:
        """Calls `callback` when the window is complete, inside a later call of this process, with the failure or `None`."""
        self._windows._callbacks[self._number] = callback
        try:
            self._windows._file.on_complete(self._number)
        except Error:
            del self._windows._callbacks[self._number]
            raise


def _bytes(data: Any) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """The bytes of an array, in C order; not copied if they lie so in memory."""
    array = np.ascontiguousarray(data) if isinstance(data, np.ndarray) else np.frombuffer(data, dtype=np.uint8)
    if array.dtype.hasobject:
        raise InvalidArgument("an array of objects has no bytes that could be written")
    return array.reshape(-1).view(np.uint8)
