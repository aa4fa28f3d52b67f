"""Exceptions: one class per kind of failure, all derived from `thalweg.Error`.

Each class is also derived from the corresponding Python exception (`NotFound` from `KeyError`, `OutOfBounds` from
`IndexError`), so that generic code catches it too.
"""

from __future__ import annotations

from typing import Any


class Error(Exception):
    """A failure. Its text is the full message; its parts are attributes, `None` if unknown.

    - `what`: operation and cause, without the place
    - `rank`, `group`, `step`, `variable`, `file`, `byte`: the place
    - `safe`: data that are still intact
    - `reported_by`: the rank that failed, if not this one
    """

    kind = "error"
    what: str
    rank: int | None = None
    group: str | None = None
    step: int | None = None
    variable: str | None = None
    file: str | None = None
    byte: int | None = None
    safe: str | None = None
    reported_by: int | None = None

    def __init__(self, message: str = "", /, **facts: Any) -> None:
        super().__init__(message)
        self._message = message
        self.what = message
        self.__dict__.update(facts)

    def __str__(self) -> str:
        return self._message

    def __reduce__(self) -> Any:
        facts = {k: v for k, v in self.__dict__.items() if not k.startswith("_")}
        return _again, (type(self), self._message, facts)


def _again(kind: type[Error], message: str, facts: dict[str, Any]) -> Error:
    return kind(message, **facts)


class Io(Error, OSError):
    """An I/O error of no other kind."""

    kind = "input/output error"


class NotFound(Error, KeyError):
    """No file, group, variable or step of that name."""

    kind = "not found"


class FileNotFound(NotFound, FileNotFoundError):
    """No such file."""


class AlreadyExists(Error, FileExistsError):
    """The name exists already."""

    kind = "exists already"


class PermissionDenied(Error, PermissionError):
    """The operating system or the store refused."""

    kind = "permission denied"


class NoSpace(Error, OSError):
    """The store is full."""

    kind = "no space left"


class NoMemory(Error, MemoryError):
    """Out of memory, or beyond the buffer limit."""

    kind = "out of buffer memory"


class Corrupt(Error, ValueError):
    """Invalid bytes in a file."""

    kind = "corrupt"


class Torn(Error, EOFError):
    """A file ends in the middle of a record or value; `thalweg recover` may help."""

    kind = "torn"


class OutOfBounds(Error, IndexError):
    """Outside the shape, the file or the range of a number."""

    kind = "out of bounds"


class Unsupported(Error, NotImplementedError):
    """Valid, but not supported by this store, method or build."""

    kind = "not supported"


class Config(Error, ValueError):
    """The XML, or a parameter, is wrong."""

    kind = "configuration error"


class InvalidArgument(Error, ValueError):
    """Invalid arguments, or calls in an invalid order."""

    kind = "invalid argument"


class WrongType(InvalidArgument, TypeError):
    """Values of another type than the variable's."""


class PeerLost(Error, ConnectionError):
    """Another rank, or the writer of a followed file, died or left."""

    kind = "a rank was lost"


class Timeout(Error, TimeoutError):
    """A bounded wait ended."""

    kind = "timed out"


class NotReady(Error, BlockingIOError):
    """The step is not written yet."""

    kind = "not ready"


class EndOfStream(Error, EOFError):
    """The file was closed for good: no further step."""

    kind = "end of stream"


# Indexed by the numbers of `thalweg_types::ErrorKind`.
_KINDS: dict[int, type[Error]] = {
    1: Io,
    2: NotFound,
    3: AlreadyExists,
    4: PermissionDenied,
    5: NoSpace,
    6: NoMemory,
    7: Corrupt,
    8: Torn,
    9: OutOfBounds,
    10: Unsupported,
    11: Config,
    12: InvalidArgument,
    13: PeerLost,
    14: Timeout,
    15: NotReady,
    16: EndOfStream,
}


def _make(
    code: int,
    message: str,
    *,
    what: str,
    rank: int | None,
    group: str | None,
    step: int | None,
    variable: str | None,
    file: str | None,
    byte: int | None,
    safe: str | None,
    reported_by: int | None,
) -> Error:
    """Creates the exception of a failure; called by `_core`."""
    kind = _KINDS.get(code, Io)
    if kind is NotFound and variable is None and group is None and step is None and file is not None:
        kind = FileNotFound
    return kind(
        message,
        what=what,
        rank=rank,
        group=group,
        step=step,
        variable=variable,
        file=file,
        byte=byte,
        safe=safe,
        reported_by=reported_by,
    )


def _kind_and_text(error: BaseException) -> tuple[int, str]:
    """Number of the kind and text of an exception, for the other ranks."""
    code = next((code for code, kind in _KINDS.items() if isinstance(error, kind)), 12)
    try:
        text = f"{type(error).__name__}: {error}"
    except Exception:  # of its __str__
        text = type(error).__name__
    return code, text.encode("utf-8", "replace").decode()
