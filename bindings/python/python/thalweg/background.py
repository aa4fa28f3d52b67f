"""What files have in common that ranks serve in the background, inside their calls: output windows and input windows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, TypeVar

Own = TypeVar("Own", bound="Served")


class Served:
    """A file whose windows make progress inside calls of the program, and whose callbacks are called there."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self._callbacks: dict[int, Callable[..., object]] = {}

    def progress(self) -> bool:
        """Serves other ranks, and writes or reads at most one fraction. Returns whether anything happened."""
        moved: bool = self._file.progress()
        self._call_back()
        return moved

    def close(self) -> None:
        """Collective: ends all windows and closes the file."""
        try:
            self._file.close()
        finally:
            self._call_back()

    def _call_back(self) -> None:
        """Calls the callbacks that are due: all of them, then raises what the first one raised."""
        raised: BaseException | None = None
        for number, *given in self._file.due():
            try:
                self._callbacks.pop(number)(*given)
            except BaseException as e:
                raised = raised or e
        if raised is not None:
            raise raised

    def __enter__(self: Own) -> Own:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is None:
            self.close()
        else:
            # The other ranks may be elsewhere: nothing collective can be done.
            self._file.abandon()


def chosen(owners: int | Sequence[int] | None) -> tuple[list[int] | None, int | None]:
    """The argument `owners` of a window: a list of ranks, or how many."""
    if owners is None or isinstance(owners, int):
        return None, owners
    return list(owners), None
