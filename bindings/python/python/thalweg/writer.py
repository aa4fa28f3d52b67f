"""Writing: sessions, writers and steps. Collective: all ranks of the communicator make the call."""

from __future__ import annotations

import asyncio
import itertools
import math
import operator
import os
import sys
import warnings
import weakref
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any

import numpy as np

from . import _core, dtypes, mpi, selection
from .errors import Config, Error, InvalidArgument, OutOfBounds, WrongType, _kind_and_text
from .schema import Schema, _encoded, define_attribute, statistics_of

class Session:
    """A configuration shared by several writers: groups, methods, and one buffer limit for all of them. Collective.

    - `schema`: an XML file, XML text (it begins with `<`), or one or more `Schema`.
    - `comm`: a communicator of mpi4py, or `None` for this process alone.
    - `buffer_limit`: bytes of output that this process may hold; by default the limit in the XML.
    """

    def __init__(
        self,
        schema: str | os.PathLike[str] | Schema | Sequence[Schema],
        comm: Any = None,
        *,
        buffer_limit: int | None = None,
        _ranks: _core.Ranks | None = None,
    ) -> None:
        self._ranks = _ranks if _ranks is not None else mpi.ranks(comm)
        groups: Sequence[Schema] = ()
        text = file = None
        with mpi.agreed(self._ranks, "read the configuration"):
            if isinstance(schema, Schema):
                groups = (schema,)
            elif isinstance(schema, (list, tuple)):
                groups = schema
            elif isinstance(schema, str) and schema.lstrip().startswith("<"):
                text = _utf8(schema, "XML")
            else:
                file = _utf8(os.fspath(schema), "the path of the schema")  # type: ignore[arg-type]
        if file is None:
            self._session = _core.Session(self._ranks, text)
        else:
            self._session = _core.Session.from_file(self._ranks, file)
        with mpi.agreed(self._ranks, "declare the groups"):
            for group in groups:
                group._declare(self._session)
            if buffer_limit is not None:
                self._session.set_buffer_limit(buffer_limit)
        self._closed = False
        #: Of steps in flight, by number.
        self._callbacks: dict[int, Callable[[int, Error | None], object]] = {}
        self._numbers = itertools.count()
        #: Steps that are open.
        self._open: set[_core.Output] = set()
        # Also when the session is garbage-collected, and at interpreter exit.
        self._leave = weakref.finalize(self, _leave, self._session, self._open, os.getpid())

    @property
    def groups(self) -> list[str]:
        """Names of the groups."""
        return self._session.groups()

    def writer(
        self, path: str | os.PathLike[str], group: str | None = None, *, mode: str = "w", after: int | None = None
    ) -> Writer:
        """Collective: a writer of one group; its file is closed for good with the session."""
        return Writer(path, self, mode=mode, after=after, group=group)

    @contextmanager
    def calculation(self) -> Iterator[None]:
        """Marks a calculation phase, for methods that work in the background and for profiles. Not collective."""
        self._session.begin_calculation()
        self._call_back()
        try:
            yield
        finally:
            self._session.end_calculation()
            self._call_back()

    def end_iteration(self) -> None:
        """Marks the end of an iteration, like `calculation`. Not collective."""
        self._session.end_iteration()
        self._call_back()

    def progress(self) -> None:
        """Moves messages of outputs in flight between ranks, and calls the callbacks of those that have ended. Not collective; returns
        at once."""
        self._session.progress()
        self._call_back()

    @property
    def stop_requested(self) -> bool:
        """Whether someone has asked that the program stops (`thalweg control --stop`, docs/guide/steering.md). The same on all ranks
        after the same step."""
        return self._session.stop_requested()

    def wait_all(self) -> None:
        """Collective: waits until all steps have been written. Raises the first failure that was not raised before, on all ranks."""
        try:
            self._session.wait_for_outputs()
        finally:
            self._call_back()

    def close(self) -> None:
        """Collective: closes all files for good, with a full index, marked as finished."""
        if not self._closed:
            self._closed = True
            self._leave.detach()
            try:
                self._session.finalize()
            finally:
                self._call_back()

    def _call_back(self) -> None:
        """Calls the callbacks of steps that were written: all of them, then raises what the first one raised."""
        if not self._callbacks:
            return
        raised: BaseException | None = None
        for number, written, failure in self._session.due():
            try:
                self._callbacks.pop(number)(written, failure)
            except BaseException as e:
                raised = raised or e
        if raised is not None:
            raise raised

    def __enter__(self) -> Session:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self._give_up()

    def _give_up(self) -> None:
        """Writes a full index of the closed steps to the files. Not collective, because other ranks may not call
        it."""
        self._closed = True
        self._leave()


def _leave(session: _core.Session, outputs: set[_core.Output], process: int) -> None:
    """Finishes the files of an open session. A child of `fork` does not change its parent's files."""
    if os.getpid() != process:
        return
    for output in outputs:
        output.drop()
    outputs.clear()
    session.leave()


class Writer:
    """Writes the steps of one file. Collective, like `step` and `close`.

        with thalweg.Writer("run.bp", "heat.xml", comm=MPI.COMM_WORLD) as w:
            for ...:
                with w.step() as step:
                    step["T"] = T

    - `schema`: an XML file, XML text, a `Schema` or a `Session`; without one, variables are defined by their first
      write.
    - `mode`: `w` a new file, `a` further steps of a file, created if missing, `u` more data for its last step.
    - `after`: with `a`, a step of the file; later steps are dropped, for a restart from a checkpoint.
    - `comm`: a communicator of mpi4py, or `None` for this process alone.
    - `group`: the group to write, if the schema has several.
    - `method`, `parameters`: the method, without a schema (docs/guide/methods.md).
    - `buffer_limit`: bytes of output that this process may hold.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        schema: str | os.PathLike[str] | Schema | Session | None = None,
        *,
        mode: str = "w",
        after: int | None = None,
        comm: Any = None,
        group: str | None = None,
        method: str = "MPI",
        parameters: str = "",
        buffer_limit: int | None = None,
    ) -> None:
        #: Without a schema: variables are defined by their first write.
        self._open_schema = schema is None
        self._own = not isinstance(schema, Session)
        ranks = schema._ranks if isinstance(schema, Session) else mpi.ranks(comm)
        with mpi.agreed(ranks, "begin a writer"):
            if mode not in ("w", "a", "u"):
                raise InvalidArgument(f'mode is "w", "a" or "u", not {mode!r}')
            if after is not None and mode != "a":
                raise InvalidArgument('after= goes with mode="a"')
            if after is not None and operator.index(after) < 0:
                raise InvalidArgument(f"after={after}: steps are counted from 0")
            if isinstance(schema, Session) and comm is not None:
                raise InvalidArgument("the session has its communicator already")
            #: Path of the file as given; the method's folder, if any, is prepended to it.
            self.path: str = _utf8(os.fspath(path), "the path")
            given = Schema(group or "data", method=method, parameters=parameters) if schema is None else schema
        self._mode = mode
        self._after = after
        if isinstance(given, Session):
            self._owner = given
        else:
            self._owner = Session(given, buffer_limit=buffer_limit, _ranks=ranks)
        self._session = self._owner._session
        with mpi.agreed(ranks, "begin a writer"):
            groups = self._session.groups()
            if group is None and len(groups) != 1:
                raise Config(f"which group? the schema has {', '.join(groups) or 'none'}")
            #: Name of the group that it writes.
            self.group: str = group or groups[0]
            self._declared: list[_core.DeclaredFacts] = self._session.describe(self.group)
        self._by_name = {v.name.strip("/"): v for v in reversed(self._declared)}
        self._made: dict[tuple[Any, ...], int] = {}
        self._known = _known(() if self._open_schema else self._declared)
        self._step: StepWriter | None = None
        self._steps_written = 0
        #: Attributes to be written in the next step that is closed.
        self._waiting: list[str] = []
        self._closed = False

    @property
    def rank(self) -> int:
        """Rank of this process."""
        return self._owner._ranks.rank

    @property
    def size(self) -> int:
        """Number of ranks."""
        return self._owner._ranks.size

    def step(self, size: int | None = None) -> StepWriter:
        """Collective: opens the next step, for use in a `with` statement.

        - `size`: bytes that this rank will write, if known: the buffer is then allocated in one piece, and with method `MPI` a
          rank that announces the same size again writes large arrays without a copy.
        """
        if self._closed:
            raise InvalidArgument(f"{self.path} is closed", file=self.path)
        if self._step is not None and not self._step.closed:
            raise InvalidArgument("a step is being written already", file=self.path)
        first = self._steps_written == 0
        return self._begin(*((self._mode, self._after) if first else ("a", None)), size)

    def _more(self) -> StepWriter:
        """Collective: opens the step that was closed last again, for more data."""
        return self._begin("u", None, None)

    def _begin(self, mode: str, after: int | None, size: int | None) -> StepWriter:
        try:
            output = self._session.open(self.group, self.path, mode, self._owner._ranks, after)
        finally:
            self._owner._call_back()
        self._step = StepWriter(self, output)
        if size is not None:
            try:
                output.group_size(size)
            except Exception as e:
                self._step.__exit__(type(e), e, None)
                raise
        return self._step

    def wanted(self, number: int) -> bool:
        """Whether a step is wanted that the program is about to write: with the parameter `control=yes` of the method, `thalweg control`
        changes that (docs/guide/steering.md). Not collective, but all ranks ask alike and get the same answer. A step that is not wanted
        may be written all the same, without effect.

        - `number`: the program's number of the step, such as its time step, which grows.
        """
        if operator.index(number) < 0:
            raise InvalidArgument(f"wanted({number}): numbers of steps are not negative", file=self.path)
        return self._session.wanted(self.group, self.path, operator.index(number))

    def wants(self, name: str) -> bool:
        """Whether the next step writes an array that is defined. Not collective."""
        return self._session.wants_array(self.group, self.path, name)

    @property
    def stop_requested(self) -> bool:
        """Whether someone has asked that the program stops. The same on all ranks after the same step."""
        return self._owner.stop_requested

    def attribute(self, name: str, value: Any, of: str | None = None) -> None:
        """Adds or changes an attribute of the file, or `of` a variable, from the next closed step on."""
        full = f"{of}/{name}" if of else name
        define_attribute(self._session, self.group, full, value)
        self._waiting.append(full)

    def close(self) -> None:
        """Collective: closes the file for good; followers then reach the end of the stream."""
        if self._closed:
            return
        if self._step is not None and not self._step.closed:
            raise InvalidArgument("a step is still being written", file=self.path)
        self._closed = True
        if self._waiting:
            what = f"not written, as no step followed: attributes {', '.join(self._waiting)} of {self.path}"
            warnings.warn(what, stacklevel=2)
        if self._own:
            self._owner.close()

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.close()
            return
        self._closed = True
        if self._step is not None:
            self._step._drop()
        if self._own:
            self._owner._give_up()

    def __repr__(self) -> str:
        state = "closed" if self._closed else f"rank {self.rank} of {self.size}"
        return f"<thalweg.Writer {self.path!r}, group {self.group!r}, {self._steps_written} steps, {state}>"


class StepWriter:
    """An open step. `with` commits the step; if an exception leaves the block, the step fails on all ranks."""

    def __init__(self, writer: Writer, output: _core.Output) -> None:
        self._writer = writer
        self._known = writer._known
        self._output = output
        writer._owner._open.add(output)
        # Integers that the program wrote, and integers derived from the extents of arrays.
        self._scalars: dict[str, int] = {}
        self._followed: dict[str, int] = {}
        #: Whether the step was committed or dropped.
        self.closed = False
        #: The step's number in the file.
        self.number: int = output.step

    def __setitem__(self, name: str, data: Any) -> None:
        if self.closed or not self._output.write_known(self._known, name, data):
            self._write(name, data, None, None, None, True)

    def write(
        self,
        name: str,
        data: Any,
        *,
        shape: Sequence[int] | None = None,
        offset: Sequence[int] | None = None,
        dims: Sequence[str] | None = None,
        copy: bool = True,
        transform: str | None = None,
    ) -> None:
        """Writes a number, a text, or one block of an array. Not collective. Blocks of different boxes and all blocks
        of a local array are kept; a repeated write of a number, a text or the same box of a global array replaces the
        earlier one.

        - `data`: any memory layout. A slice of a larger array, for example one with ghost cells, is written without a
          copy; other strided data are copied first. The type of `data` is that of the variable.
        - `shape`, `offset`: extents of the whole array, and the first element of this block in it. With a schema,
          scalars that the dimensions refer to are written from these and from the shape of `data`, unless they were
          written before.
        - `dims`: names of the axes for xarray, without a schema.
        - `copy`: `False` avoids the copy; the array must not change until the step is closed.
        - `transform`: as in XML, `"zlib:5"`, with the first block of the variable and without a schema.

        Raises `WrongType`, `InvalidArgument` or `OutOfBounds` if `data` does not fit: no data are lost then.
        """
        if transform is not None and not self._writer._open_schema:
            raise InvalidArgument(f'"{name}": the schema declares the transforms', variable=name)
        if self.closed or not self._output.write_known(self._known, name, data, shape, offset, not copy):
            self._write(name, data, shape, offset, dims, copy, transform)

    def commit(
        self,
        name: str,
        data: np.ndarray,
        *,
        shape: Sequence[int] | None = None,
        offset: Sequence[int] | None = None,
        dims: Sequence[str] | None = None,
    ) -> None:
        """As `write`, of an array that must not change until the step has been written, with the parameter `async=yes` of the method
        until the result of `start_close` says so: nothing is copied. The library keeps the array until then.

        - `data`: contiguous, in C order; blocks below 256 KiB and arrays with a transform are copied all the same.
        """
        if not isinstance(data, np.ndarray) or not data.flags.c_contiguous:
            raise InvalidArgument(f'"{name}": a contiguous array can be committed', variable=name)
        self._write(name, data, shape, offset, dims, True, commit=True)

    def _write(
        self,
        name: str,
        data: Any,
        shape: Sequence[int] | None,
        offset: Sequence[int] | None,
        dims: Sequence[str] | None,
        copy: bool,
        transform: str | None = None,
        commit: bool = False,
    ) -> None:
        """`write` and `commit`, also of variables and values that `_core.Output.write_known` leaves."""
        if self.closed:
            raise InvalidArgument("the step is closed", variable=name)
        place = None
        if self._writer._open_schema:
            position, element, place = self._define(name, data, shape, offset, dims, transform)
            array = _values(name, data, element)
            turned = False
        else:
            position = self._output.position(name)
            declared = self._writer._declared[position]
            array = _values(name, data, declared.element)
            self._fit(declared, array, shape, offset)
            turned = declared.fortran
        if array.ndim == 0 and array.dtype.kind in "iu":
            self._scalars[_plain(name)] = int(array)
        if commit:
            self._output.commit(position, _bytes(array), place)
            return
        owner, memory = selection.within(array)
        if memory is not None and turned:
            memory = memory[0][::-1], memory[1][::-1]
        self._output.write(position, _bytes(array if owner is None else owner), not copy, memory, place)

    # Without a schema.

    def _define(
        self,
        name: str,
        data: Any,
        shape: Sequence[int] | None,
        offset: Sequence[int] | None,
        dims: Sequence[str] | None,
        transform: str | None,
    ) -> tuple[int, str, tuple[Sequence[int], Sequence[int], Sequence[int]] | None]:
        """Position of the variable, its type, and the place of this block; defines the variable at its first
        block."""
        w = self._writer
        if isinstance(data, (str, bytes)):
            element, count = "string", _NO_AXES
        else:
            array = np.asarray(data)
            element, count = dtypes.name_of(array.dtype, name), array.shape
        whole = tuple(int(n) for n in shape) if shape is not None else ()
        start = tuple(int(n) for n in offset) if offset is not None else (0,) * len(whole)
        if whole and (len(whole) != len(count) or len(start) != len(count)):
            what = f'"{name}": {len(count)} axes, in a shape of {len(whole)} at an offset of {len(start)}'
            raise InvalidArgument(what, variable=name)
        if start and not whole:
            raise InvalidArgument(f'"{name}" has an offset and no shape', variable=name)
        for d, (first, n, extent) in enumerate(zip(start, count, whole)):
            if first < 0 or first + n > extent:
                what = f'"{name}": {n} elements from {first} leave axis {d} of length {extent}'
                raise OutOfBounds(what, variable=name)
        # Blocks that differ only in their place share one definition.
        key = (name, element, len(count), bool(whole))
        if key not in w._made:
            local, bounds, place = (",".join(map(str, e)) for e in (count, whole, start))
            w._made[key] = w._session.define_variable(
                w.group, name, element, local, bounds, place, statistics_of(element, None), transform
            )
            w._known.add(name, w._made[key], element, len(count), bool(whole))
            if dims is not None:
                w.attribute("_ARRAY_DIMENSIONS", [str(d) for d in dims], of=name)
        zeros = (0,) * len(count)
        return w._made[key], element, (count, whole or zeros, start or zeros) if count else None

    # With a schema.

    def _fit(
        self,
        declared: _core.DeclaredFacts,
        array: np.ndarray,
        shape: Sequence[int] | None,
        offset: Sequence[int] | None,
    ) -> None:
        """Compares an array with the declared dimensions, and writes the scalars that these refer to."""
        name, local = declared.name, declared.local
        if not local:
            if shape is not None or offset is not None or (array.ndim and declared.element != "string"):
                raise InvalidArgument(f'"{name}" is declared as a single value', variable=name)
            return
        order = -1 if declared.fortran else 1
        said: list[tuple[str, int, str]] = []
        if array.ndim == len(local):
            said += [(text, n, "the array has") for text, n in zip(local, array.shape[::order])]
        elif array.ndim != 1:
            raise InvalidArgument(f'"{name}" is declared with {len(local)} axes, not {array.ndim}', variable=name)
        for given, axes in ((shape, "bounds"), (offset, "offset")):
            if given is None:
                continue
            texts = declared.bounds if axes == "bounds" else declared.offset
            if len(given) != len(texts):
                what = f'"{name}" is declared with {len(texts)} dimensions in its {axes}, not {len(given)}'
                raise InvalidArgument(what, variable=name)
            said += [(text, int(n), f"its {axes} have") for text, n in zip(texts, tuple(given)[::order])]
        self._follow(name, said)

    def _follow(self, name: str, said: list[tuple[str, int, str]]) -> None:
        """Writes the scalars that dimensions refer to, except those that the program wrote; none if one does not
        fit."""
        found: dict[str, int] = {}
        for text, n, what in said:
            key = _plain(text)
            known = int(text) if text.isdigit() else found.get(key, self._scalars.get(key))
            if known is not None and known != n:
                declared = text if text.isdigit() else f"{text} = {known}"
                raise InvalidArgument(f'"{name}": {what} {n} where {declared} is declared', variable=name)
            scalar = self._writer._by_name.get(key)
            if known is None and scalar is not None and not scalar.local:
                found[key] = n
        for key, n in found.items():
            if self._followed.get(key) != n:
                self._followed[key] = n
                position = self._output.position(self._writer._by_name[key].name)
                self._output.write(position, _bytes(_values(key, n, self._writer._by_name[key].element)))

    # Closing.

    def close(self) -> int:
        """Collective: commits the step, which is then readable. Returns the number of bytes that all ranks wrote."""
        self.closed = True
        self._writer._owner._open.discard(self._output)
        written = self._output.close()
        self._writer._steps_written += 1
        self._writer._waiting.clear()
        return written

    def start_close(self) -> Pending:
        """Collective: as `close`, but with the parameter `async=yes` of the method it returns when the blocks are copied, and the step
        is written in the background (docs/guide/async.md). A failure of the step is raised by `Pending.wait` and `Pending.test`, or
        otherwise by the next step or the end of the session."""
        self.closed = True
        self._writer._owner._open.discard(self._output)
        pending = Pending(self._writer._owner, self._output.start_close())
        self._writer._steps_written += 1
        self._writer._waiting.clear()
        self._writer._owner._call_back()
        return pending

    def __enter__(self) -> StepWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        if self.closed:
            return
        if kind is None:
            self.close()
            return
        if self._writer.size == 1:
            self._drop()
            return
        self.closed = True
        self._writer._owner._open.discard(self._output)
        # The other ranks wait in close: their close fails with this error, and their data are kept.
        try:
            self._output.abandon(f"given up by the program: {_kind_and_text(error or kind())[1]}")
        except Exception:
            pass  # the propagating exception gives the reason

    def _drop(self) -> None:
        """Drops the step without communication."""
        if not self.closed:
            self.closed = True
            self._writer._owner._open.discard(self._output)
            self._output.drop()


class Pending:
    """A closed step that may still be written. It can be awaited: `written = await pending`."""

    def __init__(self, session: Session, pending: _core.Pending) -> None:
        self._session, self._pending = session, pending

    def test(self) -> bool:
        """Whether the step has been written; returns at once. A failure of the step is raised, of the same kind on all ranks."""
        try:
            return self._pending.test() is not None
        finally:
            self._session._call_back()

    def wait(self) -> int:
        """Waits until the step has been written, and those before it. Returns the number of bytes that all ranks wrote. A failure of
        the step is raised, of the same kind on all ranks. An interrupt ends the wait, not the step."""
        try:
            while True:
                written = self._pending.wait_for(0.1)
                if written is not None:
                    return written
        finally:
            self._session._call_back()

    def on_completion(self, callback: Callable[[int, Error | None], object]) -> None:
        """Calls `callback` once, when the step has been written, with the number of bytes and the failure or `None`: inside a later call
        of this process to the session, its steps, or pending steps. The failure is then not raised elsewhere."""
        number = next(self._session._numbers)
        self._session._callbacks[number] = callback
        self._pending.on_completion(number)
        self._session.progress()

    def __await__(self) -> Generator[Any, None, int]:
        pause = 0.0005
        while not self.test():
            yield from asyncio.sleep(pause).__await__()
            pause = min(2 * pause, 0.02)
        return self.wait()


_NO_AXES: tuple[int, ...] = ()


def _known(declared: Sequence[_core.DeclaredFacts]) -> _core.Definitions:
    """The declared variables whose writes need no other one: dimensions are numbers, and no dimension refers to them."""
    known = _core.Definitions()
    # Of a name that is declared several times, the first one is written.
    names = {v.name: position for position, v in reversed(list(enumerate(declared)))}
    used = {_plain(e) for v in declared for e in (*v.local, *v.bounds, *v.offset)}
    for position, v in enumerate(declared):
        numbers = all(e.isdigit() for e in (*v.local, *v.bounds, *v.offset))
        if not numbers or v.is_dimension or _plain(v.name) in used or names[v.name] < position:
            continue
        extents = [int(e) for e in v.local][:: -1 if v.fortran else 1]
        short = v.name.removeprefix("/")
        for name in (v.name, short) if short != v.name and short not in names else (v.name,):
            known.add_declared(name, position, v.element, extents)
    return known


def _utf8(text: Any, what: str) -> str:
    """The text, if it can be encoded."""
    if not isinstance(text, str):
        raise InvalidArgument(f"{what} is a str, not {type(text).__name__}")
    try:
        text.encode()
    except UnicodeEncodeError as e:
        raise InvalidArgument(f"{what} is not valid UTF-8: {e}") from None
    return text


def _plain(name: str) -> str:
    return name.strip("/")


def _is_masked(data: Any) -> bool:
    """Whether an array has masked elements. NumPy imports what knows that at its first use, which takes 10 ms; before, no array has any."""
    ma = sys.modules.get("numpy.ma")
    kind = getattr(ma, "MaskedArray", None)
    return kind is not None and isinstance(data, kind) and bool(np.ma.is_masked(data))


def _values(name: str, data: Any, element: str) -> np.ndarray:
    """Values of the element type, copied only if their byte order differs."""
    if element == "string":
        if not isinstance(data, (str, bytes)):
            raise WrongType(f'"{name}" is a text, not {type(data).__name__}', variable=name)
        return np.frombuffer(_encoded(data), np.uint8)
    dtype = dtypes.of(element, name)
    if isinstance(data, (bool, int, float, complex, np.generic)) or (isinstance(data, np.ndarray) and data.ndim == 0):
        return _scalar(name, data, dtype, element)
    if _is_masked(data):
        what = f'"{name}" has masked elements, which files do not know; write .filled(value), and _FillValue as an attribute'
        raise WrongType(what, variable=name)
    array = np.asarray(data)
    if not isinstance(data, np.ndarray) and array.dtype != dtype and not hasattr(data, "__array__"):
        # Lists have no element type.
        if array.size == 0 or dtype.kind in {"i": "iufc", "u": "iufc", "f": "fc", "c": "c"}.get(array.dtype.kind, ""):
            try:
                with np.errstate(over="ignore"):
                    made = np.array(data, dtype)
            except OverflowError as e:
                raise WrongType(f'"{name}" is {element}, which cannot hold all of it: {e}', variable=name) from None
            if dtype.kind in "fc" and not np.array_equal(np.isfinite(made), np.isfinite(array)):
                raise WrongType(f'"{name}" is {element}, which cannot hold all of it', variable=name)
            array = made
    if not np.can_cast(array.dtype, dtype, "equiv"):
        raise WrongType(f'"{name}" is {element} ({dtype}), the array is {array.dtype}; use .astype', variable=name)
    return array.astype(dtype, copy=False)


def _scalar(name: str, data: Any, dtype: np.dtype, element: str) -> np.ndarray:
    """A number, if the type can represent it."""
    if isinstance(data, np.ndarray):
        data = data[()]
    if isinstance(data, np.generic) and data.dtype == dtype:
        return np.array(data)
    plain = data.item() if isinstance(data, np.generic) else data
    allowed = {"i": (int,), "u": (int,), "f": (int, float), "c": (int, float, complex)}.get(dtype.kind, ())
    if not isinstance(plain, allowed):
        raise WrongType(f'"{name}" is {element}, not {type(data).__name__} ({data!r})', variable=name)
    try:
        with np.errstate(over="ignore"):
            made = np.array(plain, dtype)
    except OverflowError:
        raise WrongType(f'"{name}" is {element}, which cannot hold {plain}', variable=name) from None
    if dtype.kind == "f" and isinstance(plain, float) and math.isfinite(plain) and not np.isfinite(made):
        raise WrongType(f'"{name}" is {element}, which cannot hold {plain}', variable=name)
    return made


def _bytes(array: np.ndarray) -> np.ndarray:
    """The values as bytes in C order; copied only if they are not contiguous."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)
