"""Input in the background: ranks ask for bytes of windows of a file, which owners read ahead, and go on computing."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from . import _core, mpi
from .background import Served, chosen
from .errors import Error


class Input(Served):
    """A file open for input windows. Collective; so are `start`, without waiting, and `close`.

    - `comm`: a communicator of mpi4py, `Processes`, or `None` for this process alone.
    - `memory`: most bytes that this process holds as an owner, at least 64 KiB.
    """

    def __init__(self, path: str | os.PathLike[str], comm: Any = None, *, memory: int = 256 << 20) -> None:
        super().__init__(_core.Input.open(mpi.ranks(comm), os.fspath(path), memory))

    @property
    def length(self) -> int:
        """Bytes of the file when it was opened."""
        length: int = self._file.length()
        return length

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
    ) -> InputWindow:
        """Starts a window of `length` bytes from byte `offset`; all ranks start the same windows in the same order.

        - `owners`: the ranks that read ahead; or how many, from rank `base` at a distance of `skip`; by default one of each node.
        - `owner_stripe`, `write_stripe`, `fraction`, `alignment`: in bytes, see the guide.
        - `time_limit`: seconds without any event after which a read fails.
        """
        ranks, active = chosen(owners)
        number = self._file.start(
            offset, length, ranks, active, base, skip, owner_stripe, write_stripe, fraction, alignment, time_limit
        )
        self._call_back()
        return InputWindow(self, number)


class InputWindow:
    """An input window, made by `Input.start`."""

    def __init__(self, file: Input, number: int) -> None:
        self._input, self._number = file, number

    def read(self, offset: int, count: int, dtype: Any = np.uint8) -> Request:
        """Asks for `count` numbers from byte `offset` of the file. Returns at once."""
        kind = np.dtype(dtype)
        number = self._input._file.read(self._number, offset, count * kind.itemsize)
        request = Request(self._input, number, kind)
        self._input._call_back()
        return request

    def end(self) -> None:
        """This rank reads nothing more from the window. Returns at once."""
        self._input._file.end(self._number)
        self._input._call_back()

    def finish(self) -> None:
        """As `end`, and serves other ranks until all have ended their parts: before collective calls of the program's own."""
        try:
            self._input._file.finish(self._number)
        finally:
            self._input._call_back()


class Request:
    """Bytes that were asked for, made by `InputWindow.read`."""

    def __init__(self, file: Input, number: int, dtype: np.dtype[Any]) -> None:
        self._input, self._number = file, number
        #: Type of the numbers.
        self.dtype: np.dtype[Any] = dtype
        # Numbers that were taken when a callback of another request raised.
        self._kept: Any = None

    def test(self) -> Any:
        """The numbers, or `None` if they are not there yet."""
        return self._taken(self._input._file.test)

    def wait(self) -> Any:
        """Waits for the numbers."""
        return self._taken(self._input._file.wait)

    def _taken(self, take: Callable[[int], Any]) -> Any:
        kept, self._kept = self._kept, None
        if kept is not None:
            return kept
        given = None
        try:
            given = take(self._number)
        finally:
            self._kept = None if given is None else given.view(self.dtype)
            self._input._call_back()
        kept, self._kept = self._kept, None
        return kept

    def on_read(self, callback: Callable[[Any, Error | None], object]) -> None:
        """Calls `callback` with the numbers and `None`, or `None` and the failure, inside a later call of this process."""
        self._input._callbacks[self._number] = lambda given, failure: callback(
            None if given is None else given.view(self.dtype), failure
        )
        try:
            self._input._file.on_read(self._number)
        except Error:
            del self._input._callbacks[self._number]
            raise
