"""Files open for reading: a mapping from names to variables."""

from __future__ import annotations

import operator
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, overload

import numpy as np

from . import _core, dtypes, html
from .errors import InvalidArgument, NotFound, OutOfBounds
from .variable import Variable


class File(Mapping[str, Variable]):
    """A BP file open for reading: a mapping from full names to variables. The leading slash of a name is optional.

    Any thread may use it. It shows the steps that existed when it was opened. A pickled file is reopened when it is
    unpickled.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        reads: str = "compared",
        digits: int | None = None,
        _reader: _core.Reader | None = None,
    ) -> None:
        #: The path with which it was opened.
        self.path: str = os.fspath(path)
        #: Checks before values are returned; see `open`.
        self.reads: str = reads
        #: Decimal digits that are kept of real numbers; see `open`.
        self.digits: int | None = digits
        self._open: _core.Reader | None = _reader or _core.Reader(self.path, reads, kept(digits))
        self._said = False
        self._variables: dict[str, Variable] = {}
        self._names: dict[str, str] | None = None
        self._attrs: Attributes | None = None

    @property
    def _reader(self) -> _core.Reader:
        if self._open is None:
            raise InvalidArgument(f"{self.path} is closed", file=self.path)
        return self._open

    def _say_unchecked(self) -> None:
        """Warns once that blocks have no checksum, after a read that should have checked them."""
        if self.reads == "checked" and not self._said and self._reader.blocks_without_checksum() > 0:
            self._said = True
            what = f"{self.path}: blocks without checksums were read unchecked; the library that wrote them makes none"
            warnings.warn(what, stacklevel=4)

    # Variables.

    def _known(self) -> dict[str, str]:
        """The accepted forms of names, with the names in the file."""
        if self._names is None:
            names = [head.name for head in self._reader.variables()]
            self._names = {name.lstrip("/"): name for name in reversed(names)}
            self._names.update((name, name) for name in names)
        return self._names

    def __getitem__(self, name: str) -> Variable:
        if name not in self._variables:
            self._variables[name] = Variable(self, self._reader.variable(name))
        return self._variables[name]

    def __iter__(self) -> Iterator[str]:
        return iter([head.name for head in self._reader.variables()])

    def __len__(self) -> int:
        return len(self._reader.variables())

    def __contains__(self, name: object) -> bool:
        return name in self._known()

    def _ipython_key_completions_(self) -> list[str]:
        return list(self)

    # Other contents.

    @property
    def attrs(self) -> Attributes:
        """All attributes, by full name; `f["v"].attrs` contains the attributes of one variable."""
        if self._attrs is None:
            self._attrs = Attributes(self)
        return self._attrs

    def _attributes_of(self, variable: str) -> dict[str, Any]:
        return self.attrs._of(variable)

    @property
    def steps(self) -> Steps:
        """The steps: `len(f.steps)`, `f.steps[-1]["v"]`, `for step in f.steps`."""
        return Steps(self)

    @property
    def groups(self) -> list[str]:
        """Names of the groups."""
        return list(self._reader.status().groups)

    @property
    def finished(self) -> bool:
        """Whether the file was closed for good: no further steps will be written."""
        return self._reader.status().finished

    @property
    def status(self) -> Status:
        """Facts about the file."""
        return Status(self._reader.status())

    # Life.

    def close(self) -> None:
        """Closes the file; later reads of its variables fail. Called by `with`, or with the last reference."""
        self._open = None
        self._variables.clear()

    @property
    def closed(self) -> bool:
        """Whether the file is closed."""
        return self._open is None

    def __enter__(self) -> File:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> Any:
        return _open_again, (os.path.abspath(self.path), self.reads, self.digits)

    def __repr__(self) -> str:
        if self._open is None:
            return f"<thalweg.File {self.path!r}, closed>"
        return html.text_of_file(self)

    def _repr_html_(self) -> str:
        return html.note(repr(self)) if self._open is None else html.file(self)

    # Files are compared by identity, not by content.
    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other


def _open_again(path: str, reads: str, digits: int | None) -> File:
    return File(path, reads=reads, digits=digits)


def kept(digits: int | None) -> int:
    """The argument `digits` as `_core` takes it: 0 for all."""
    if digits is None:
        return 0
    if not 1 <= operator.index(digits) <= 100:
        raise InvalidArgument(f"digits={digits}: a number of decimal digits, 1 or more")
    return operator.index(digits)


def open(path: str | os.PathLike[str], *, reads: str = "compared", digits: int | None = None) -> File:
    """Opens a BP file for reading.

    - `reads`: checks before values are returned. `"compared"`: process groups in subfiles are compared with the
      index. `"checked"`: also the checksum of every block that is read; whole blocks are read then. `"unchecked"`: no
      checks, to rescue data from a damaged file.
    - `digits`: so many decimal digits of the real and complex numbers of arrays are kept, rounded towards 0; `None`: all.
      Through a staging server fewer bytes come: half of them for 4 to 6 digits of a 64-bit number.

    Raises `FileNotFound`; `Torn` if the file was truncated so early that no data can be found.
    """
    return File(path, reads=reads, digits=digits)


class Status(dict[str, Any]):
    """Facts about a file: `status.steps`, or `status["steps"]` as in a dictionary."""

    #: Steps that can be read.
    steps: int
    #: Whether the file was closed for good: no further steps will be written.
    finished: bool
    #: Bytes behind the last complete step, from an output that was interrupted.
    torn_bytes: int
    #: Step, rank and error kind of each missing process group.
    partial: list[tuple[int, int, str]]
    #: Names of the groups.
    groups: list[str]
    #: Number of ranks that wrote; `None` if the file does not record it.
    writers: int | None
    #: `little` or `big`.
    byte_order: str
    #: Whether the blocks are in subfiles.
    subfiles: bool
    #: Bytes of this file.
    length: int

    def __init__(self, facts: _core.FileFacts) -> None:
        super().__init__({name: getattr(facts, name) for name in Status.__annotations__})
        self.__dict__ = self


class Attributes(Mapping[str, Any]):
    """Attributes by full name: numbers, texts, or lists of them. The leading slash of a name is optional."""

    def __init__(self, file: File) -> None:
        self._file = file
        names = file._reader.attribute_names()
        # The library's own attributes are left out.
        self._names = [n for n in names if not n.startswith("/__adios__")]
        self._known = {n.strip("/"): n for n in reversed(self._names)}
        self._by_variable: dict[str, dict[str, str]] | None = None

    def __getitem__(self, name: str) -> Any:
        return self._file._reader.attribute(name).value

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name.strip("/") in self._known

    def _of(self, variable: str) -> dict[str, Any]:
        if self._by_variable is None:
            self._by_variable = {}
            for full in self._names:
                owner, _, short = full.strip("/").rpartition("/")
                self._by_variable.setdefault(owner, {}).setdefault(short, full)
        return {short: self[full] for short, full in self._by_variable.get(variable.strip("/"), {}).items()}

    def _typed(self, variable: str, name: str) -> Any:
        """An attribute of a variable; numbers keep the type in the file."""
        full = self._known[f"{variable.strip('/')}/{name}"]
        facts = self._file._reader.attribute(full)
        value = facts.value
        if isinstance(value, str) or (isinstance(value, list) and any(isinstance(v, str) for v in value)):
            return value
        return np.array(value, dtypes.of(facts.element, full))[()]

    def __repr__(self) -> str:
        return repr(dict(self))

    def _repr_html_(self) -> str:
        return html.attributes(self)


class Step(Mapping[str, Any]):
    """One step: scalars and texts as values, arrays as `StepArray`, which reads values when it is sliced."""

    def __init__(self, file: File, number: int) -> None:
        #: The file in its state when this step was found.
        self.file = file
        #: The step's number in the file.
        self.number = number

    def __getitem__(self, name: str) -> Any:
        variable = self.file[name]
        try:
            position = variable.steps.index(self.number)
        except ValueError:
            what = f'"{name}" was not written in step {self.number}'
            raise NotFound(what, variable=name, step=self.number, file=self.file.path) from None
        return variable[position] if variable.kind == "scalar" else StepArray(variable, position)

    def __iter__(self) -> Iterator[str]:
        return (name for name in self.file if self.number in self.file[name].steps)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __contains__(self, name: object) -> bool:
        return name in self.file and self.number in self.file[str(name)].steps

    def _ipython_key_completions_(self) -> list[str]:
        return list(self)

    def __repr__(self) -> str:
        return f"<step {self.number} of {self.file.path!r}: {', '.join(map(html.printable, self))}>"

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other


class StepArray:
    """An array at one step: like a variable, without the step axis."""

    def __init__(self, variable: Variable, position: int) -> None:
        #: The variable over all steps.
        self.variable = variable
        #: Position of the step on the variable's first axis.
        self.position = position

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents."""
        return self.variable.shape_at(self.position)

    @property
    def dtype(self) -> Any:
        """Type of the elements."""
        return self.variable.dtype

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return self.variable.ndim - 1

    @property
    def attrs(self) -> Mapping[str, Any]:
        """Attributes of the variable."""
        return self.variable.attrs

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> Any:
        return self.variable[(self.position, *(key if isinstance(key, tuple) else (key,)))]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return self.variable[self.position] if dtype is None else self.variable[self.position].astype(dtype)

    def read_into(self, out: Any, key: Any = Ellipsis) -> Any:
        """Reads `self[key]` into an array of that shape and type, as `Variable.read_into`: who follows a run needs no new memory for each
        step.
        """
        return self.variable.read_into(out, (self.position, *(key if isinstance(key, tuple) else (key,))))

    def blocks(self) -> list[Any]:
        """The blocks."""
        return self.variable.blocks(self.position)

    def block(self, number: int) -> Any:
        """One block."""
        return self.variable.block(number, self.position)

    def min(self) -> Any:
        """Smallest finite value. Like `max`, `mean` and `std`, from recorded statistics, without reading values."""
        return self.variable.min(self.position)

    def max(self) -> Any:
        """Largest finite value."""
        return self.variable.max(self.position)

    def mean(self) -> float | None:
        """Mean of the finite values."""
        return self.variable.mean(self.position)

    def std(self) -> float | None:
        """Standard deviation of the finite values."""
        return self.variable.std(self.position)

    def __repr__(self) -> str:
        v = self.variable
        extents = " x ".join(str(n) for n in self.shape)
        return f"<{v.name!r} at step {v.steps[self.position]}: {v.type}, {v.kind} {extents}>"


class Steps(Sequence[Step]):
    """The steps of a file, counted from 0."""

    def __init__(self, file: File) -> None:
        self._file = file

    def __len__(self) -> int:
        return self._file._reader.status().steps

    @overload
    def __getitem__(self, index: int) -> Step: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Step]: ...
    def __getitem__(self, index: int | slice) -> Step | Sequence[Step]:
        if isinstance(index, slice):
            return [Step(self._file, i) for i in range(*index.indices(len(self)))]
        n = len(self)
        if not -n <= index < n:
            raise OutOfBounds(f"step {index}: the file has {n} steps", file=self._file.path)
        return Step(self._file, index % n)

    def __repr__(self) -> str:
        return f"<{len(self)} steps of {self._file.path!r}>"
