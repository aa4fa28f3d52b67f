"""Variables and blocks of a file."""

from __future__ import annotations

import dataclasses
import math
import operator
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _core, dtypes, html, selection
from .errors import InvalidArgument, NotFound, OutOfBounds, Unsupported

if TYPE_CHECKING:
    from .file import File


@dataclasses.dataclass(frozen=True)
class CompressionErrors:
    """Recorded errors of blocks that went through a lossy transform."""

    #: Blocks with a recorded error, and how many of these are stored without loss.
    blocks: int
    lossless: int
    #: Blocks whose transform does not record the error.
    not_measured: int
    #: The error bound; `None` if blocks have different ones. `relative`: it is a fraction of the range of a block's values.
    bound: float | None
    relative: bool
    #: The largest absolute error that occurred; with a relative bound also as a fraction of the range of its block's values.
    largest: float
    largest_relative: float


@dataclasses.dataclass(frozen=True)
class Characteristics:
    """Recorded statistics of values, available without reading the values. `None`: not recorded.

    NaN and infinities count only in `elements`. Complex values have no minimum, but smallest and largest `magnitude`,
    `real` and `imag`.
    """

    blocks: int
    elements: int
    finite: int | None
    min: Any
    max: Any
    mean: float | None
    std: float | None
    sum: int | None
    magnitude: tuple[float, float] | None = None
    real: tuple[float, float] | None = None
    imag: tuple[float, float] | None = None
    #: Of a lossy transform; `None` if there is none.
    errors: CompressionErrors | None = None


class Block:
    """A variable's box from one rank in one step. Sliceable like an array; values are read when sliced."""

    def __init__(self, variable: Variable, facts: _core.BlockFacts) -> None:
        self._variable = variable
        #: Number of the block within its step.
        self.number: int = facts.number
        #: Step, in the file's numbering.
        self.step: int = facts.step
        #: Offset of the block in the global array; zeros for local arrays.
        self.offset: tuple[int, ...] = tuple(facts.offset)
        #: Extents of the block.
        self.shape: tuple[int, ...] = tuple(facts.count)
        #: The value of a scalar or text.
        self.value: Any = facts.value
        #: The rank that wrote the block; `None` if the file does not record it.
        self.rank: int | None = facts.rank
        #: The subfile that contains the block, the bytes of its stored values, and their byte offset in the subfile.
        self.subfile: int | None = facts.subfile
        self.bytes: int = facts.bytes
        self.position: int = facts.position
        #: Characteristics; `None` if not recorded.
        self.min: Any = facts.min
        self.max: Any = facts.max
        self.mean: float | None = facts.mean
        self.std: float | None = facts.std
        #: The largest absolute error that a transform with an error bound recorded, the absolute error that the bound allows in this
        #: block, and why such a block is stored without loss.
        self.largest_error: float | None = facts.largest_error
        self.allowed_error: float | None = facts.allowed_error
        self.lossless: str | None = facts.lossless

    @property
    def dtype(self) -> np.dtype:
        """Type of the elements."""
        return self._variable.dtype

    @property
    def slices(self) -> tuple[slice, ...]:
        """The block's place in the global array: `f["v"][-1][block.slices]`."""
        return tuple(slice(o, o + n) for o, n in zip(self.offset, self.shape))

    def read(self) -> Any:
        """Reads all values of the block."""
        v = self._variable
        if v.is_text or not self.shape:
            return v._file._reader.value(v.name, self.step, self.number) if v.is_text else v.dtype.type(self.value)
        out = np.zeros(self.shape, v.dtype)
        if out.size:
            v._file._reader.read(v.name, [self.step], out.reshape(-1).view(np.uint8), block=self.number)
            v._file._say_unchecked()
        return out

    def __getitem__(self, key: Any) -> Any:
        return np.asarray(self.read())[key] if self.shape else self.read()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self.read(), dtype)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a single value has no length")
        return self.shape[0]

    def __repr__(self) -> str:
        place = ""
        if self._variable.kind == "global array":
            place = f" at {list(self.offset)}"
        by = "" if self.rank is None else f" by rank {self.rank}"
        what = f"{list(self.shape)}{place}" if self.shape else repr(self.value)
        bounds = "" if self.min is None or not self.shape else f", {self.min:.6g} to {self.max:.6g}"
        return f"<block {self.number} of {self._variable.name!r}, step {self.step}: {what}{by}{bounds}>"


class Variable:
    """A variable over all steps in which it was written, sliceable like a numpy array; values are read when it is
    sliced.

    The first axis is always the steps in which the variable was written, even if there is only one. The other axes are
    the array's dimensions, slowest first, even if a Fortran program wrote it. A scalar or text has only the step axis.
    """

    def __init__(self, file: File, facts: _core.VariableFacts) -> None:
        self._file = file
        #: Full name.
        self.name: str = facts.name
        #: Name of its group.
        self.group: str = facts.group
        #: Name of its element type in BP, such as `double`.
        self.type: str = facts.element
        #: `global array`, `local array`, `scalar` or `value per rank`.
        self.kind: str = facts.kind
        #: The steps in which it was written, in the file's numbering: the step at each position of the first axis.
        self.steps: tuple[int, ...] = tuple(facts.steps)
        #: The transform of its stored bytes, which is reversed when values are read.
        self.transform: str | None = facts.transform
        #: Number of blocks over all steps.
        self.block_count: int = facts.blocks
        self._first: tuple[int, ...] = tuple(facts.shape)
        self._changes: bool = facts.shape_changes
        self._chunks: tuple[tuple[int, ...], ...] | None = None
        self._steps: np.ndarray | None = None

    # Properties.

    @property
    def dtype(self) -> np.dtype:
        """The numpy dtype; `object` for texts, which are returned as `str`."""
        return dtypes.of(self.type, self.name)

    @property
    def is_text(self) -> bool:
        """Whether the values are texts."""
        return self.type == "string"

    @property
    def shape(self) -> tuple[int | None, ...]:
        """Number of steps, then the extents of the array; `None` for an extent that differs between steps."""
        if not self._changes:
            return (len(self.steps), *self._first)
        shapes = {self.shape_at(i) for i in range(len(self.steps))}
        extents = zip(*shapes) if len({len(s) for s in shapes}) == 1 else [(None, 0)] * len(self._first)
        return (len(self.steps), *(e[0] if len(set(e)) == 1 else None for e in extents))

    def shape_at(self, position: int) -> tuple[int, ...]:
        """The array's extents at one position of the step axis; for a local array those of block 0."""
        step = self._step(position)
        return tuple(self._file._reader.shape(self.name, step)) if self._changes else self._first

    @property
    def ndim(self) -> int:
        """Number of axes, including the step axis."""
        return 1 + len(self._first)

    @property
    def size(self) -> int:
        """Number of elements over all steps."""
        if not self._changes:
            return len(self.steps) * math.prod(self._first)
        return sum(math.prod(self.shape_at(i)) for i in range(len(self.steps)))

    @property
    def nbytes(self) -> int:
        """Bytes of all values in memory; 0 for texts."""
        return 0 if self.is_text else self.size * self.dtype.itemsize

    def __len__(self) -> int:
        return len(self.steps)

    @property
    def attrs(self) -> Mapping[str, Any]:
        """Attributes of this variable, named `<variable>/<name>` in the file, by their short name."""
        return self._file._attributes_of(self.name)

    @property
    def dims(self) -> tuple[str, ...] | None:
        """Names of the axes after the step axis, if the file has them (attribute `_ARRAY_DIMENSIONS`)."""
        names = self.attrs.get("_ARRAY_DIMENSIONS")
        if isinstance(names, str):
            names = names.split()
        if not isinstance(names, list) or len(names) != len(self._first):
            return None
        return tuple(str(n) for n in names)

    # Blocks and characteristics.

    def _step(self, position: int) -> int:
        position = operator.index(position)
        if not -len(self.steps) <= position < len(self.steps):
            what = f'"{self.name}": position {position} of {len(self.steps)} steps'
            raise OutOfBounds(what, variable=self.name)
        return self.steps[position]

    def blocks(self, position: int = -1) -> list[Block]:
        """The blocks at one position of the step axis, in the order in which they were written."""
        found = self._file._reader.blocks(self.name, self._step(position))
        return [Block(self, facts) for facts in found]

    def block(self, number: int, position: int = -1) -> Block:
        """One block at a position of the step axis, by its number; the way to read local arrays."""
        step = self._step(position)
        reader = self._file._reader
        count = reader.block_count(self.name, step)
        facts = reader.block(self.name, step, number) if 0 <= number < count else None
        if facts is None:
            raise OutOfBounds(f'"{self.name}": block {number} of {count}', variable=self.name)
        return Block(self, facts)

    def characteristics(self, position: int | None = None) -> Characteristics:
        """Recorded statistics of one step, or of all steps. Reads no values."""
        first, end = (0, 2**64 - 1) if position is None else (self._step(position), self._step(position) + 1)
        facts = self._file._reader.summary(self.name, first, end)
        known = {f.name: getattr(facts, f.name) for f in dataclasses.fields(Characteristics)}
        if facts.errors is not None:
            known["errors"] = CompressionErrors(**{f.name: getattr(facts.errors, f.name) for f in dataclasses.fields(CompressionErrors)})
        return Characteristics(**known)

    def min(self, position: int | None = None) -> Any:
        """Recorded smallest finite value of one step, or of all steps; `None` if not recorded. Reads no values."""
        return self._typed(self.characteristics(position).min)

    def max(self, position: int | None = None) -> Any:
        """Largest finite value, like :meth:`min`."""
        return self._typed(self.characteristics(position).max)

    def mean(self, position: int | None = None) -> float | None:
        """Mean of the finite values, like :meth:`min`."""
        return self.characteristics(position).mean

    def std(self, position: int | None = None) -> float | None:
        """Standard deviation of the finite values, like :meth:`min`."""
        return self.characteristics(position).std

    def _typed(self, value: Any) -> Any:
        return value if value is None or self.dtype.kind in "OSV" else self.dtype.type(value)

    @property
    def value(self) -> Any:
        """The value of a scalar or text at its last step."""
        if self._first or self.kind != "scalar":
            raise InvalidArgument(f'"{self.name}" is an array, not one value', variable=self.name)
        return self[-1]

    @property
    def chunks(self) -> tuple[tuple[int, ...], ...] | None:
        """Chunk lengths of each axis after the step axis, from the blocks of the last step; `None` if the blocks form
        no grid."""
        if self._chunks is None:
            self._chunks = _grid(self) if self.kind == "global array" and self.steps else ()
        return self._chunks or None

    # Values.

    def __getitem__(self, key: Any) -> Any:
        return self._get(key, False)

    def outer(self, key: Any) -> Any:
        """Like `self[key]`, but index arrays of several axes select their outer product."""
        return self._get(key, True)

    def _get(self, key: Any, outer: bool) -> Any:
        if not self.steps:
            raise NotFound(f'"{self.name}" was written in no step', variable=self.name)
        first, rest = _split(key, self.ndim)
        (steps,) = selection.axes(first, (len(self.steps),), self.name)
        positions = steps.wanted
        if self.is_text or self.kind == "scalar":
            if rest not in ((), (Ellipsis,)):
                raise OutOfBounds(f'"{self.name}" has 1 axis, {1 + len(rest)} were indexed', variable=self.name)
            return self._scalars(positions, steps.keeps)
        if self.kind == "local array":
            return self._local(positions, steps.keeps, rest, outer)
        wanted = selection.axes(rest, self._common_shape(positions), self.name)
        arrays = [a for a in wanted if a.array]
        if outer or len(arrays) + steps.array < 2:
            return self._outer(positions, steps.keeps, wanted)
        if steps.array:
            what = f'"{self.name}": index arrays for the steps and another axis; .outer takes each by itself'
            raise Unsupported(what, variable=self.name)
        out = self._points(self._numbers(positions), wanted)
        return out if steps.keeps else out[0]

    def _numbers(self, positions: selection.Indices) -> np.ndarray:
        """The file's numbers of the steps at these positions."""
        if self._steps is None:
            self._steps = np.array(self.steps, np.uint64)
        if isinstance(positions, range):
            positions = np.arange(positions.start, positions.stop, positions.step)
        return self._steps[positions]

    def _scalars(self, positions: selection.Indices, keeps: bool) -> Any:
        reader, name = self._file._reader, self.name
        if self.is_text:
            texts = np.empty(len(positions), object)
            for i, p in enumerate(positions):
                texts[i] = reader.value(name, self.steps[p])
            return texts if keeps else texts[0]
        out = np.zeros(len(positions), self.dtype)
        if out.size:
            reader.read(name, self._numbers(positions), out.view(np.uint8))
        return out if keeps else out[0]

    def _common_shape(self, positions: selection.Indices) -> tuple[int, ...]:
        shapes = {self.shape_at(p) for p in positions} if self._changes and len(positions) else {self._first}
        if len(shapes) > 1:
            few = ", ".join(str(list(s)) for s in sorted(shapes)[:3])
            what = f'"{self.name}" changes its shape between these steps ({few}): choose one step'
            raise InvalidArgument(what, variable=self.name)
        return shapes.pop()

    def _local(self, positions: selection.Indices, keeps: bool, rest: tuple[Any, ...], outer: bool) -> Any:
        parts = []
        for p in positions:
            count = self._file._reader.block_count(self.name, self.steps[p])
            if count != 1:
                what = f'"{self.name}" is a local array of {count} blocks with no place in a greater one'
                raise Unsupported(f"{what}: choose one, .block(number, {p})", variable=self.name)
            parts.append(self.block(0, p).read())
        self._common_shape(positions)
        shape = self._first if not parts else parts[0].shape
        # The block of one step is not copied.
        values = np.asarray(parts[0], self.dtype) if len(parts) == 1 else np.array(parts, self.dtype)
        values = values.reshape(len(parts), *shape)
        if outer:
            # From the last axis on, so that the positions of the other axes do not change.
            wanted = selection.axes(rest, shape, self.name)
            for d, axis in reversed(list(enumerate(wanted, 1))):
                values = np.take(values, np.asarray(axis.wanted, np.int64) if axis.keeps else axis.wanted[0], axis=d)
            return values if keeps else values[0]
        return values[(slice(None), *rest)] if keeps else values[0][rest]

    def _outer(self, positions: selection.Indices, keeps: bool, wanted: list[selection.Axis]) -> Any:
        steps = self._numbers(positions)

        def read(offset: list[int], count: list[int], stride: list[int], out: np.ndarray) -> None:
            view = out.reshape(-1).view(np.uint8)
            self._file._reader.read(self.name, steps, view, offset=offset, count=count, stride=stride)
            self._file._say_unchecked()

        out = selection.read_outer(wanted, len(steps), self.dtype, read)
        return out[tuple([slice(None) if keeps else 0] + [slice(None) if a.keeps else 0 for a in wanted])]

    def _points(self, steps: np.ndarray, wanted: list[selection.Axis]) -> np.ndarray:
        """Several index arrays are combined as in numpy: one element for each tuple of indices."""
        if any(a.keeps and not a.array for a in wanted):
            what = f'"{self.name}": several index arrays beside slices; .outer takes each by itself'
            raise Unsupported(what, variable=self.name)
        lengths = {len(a) for a in wanted if a.array}
        if len(lengths) != 1:
            raise IndexError(f'"{self.name}": index arrays of different lengths {sorted(lengths)}')
        n = lengths.pop()
        columns = [np.broadcast_to(np.asarray(a.wanted), n) for a in wanted]
        points = np.stack(columns, axis=1).tolist() if n else []
        out = np.zeros((len(steps), n), self.dtype)
        if out.size:
            self._file._reader.read(self.name, steps, out.reshape(-1).view(np.uint8), points=points)
            self._file._say_unchecked()
        return out

    def read_into(self, out: np.ndarray, key: Any = Ellipsis) -> np.ndarray:
        """Reads `self[key]` into an array of that shape and type. Without a copy if `key` is a box or every n-th element
        of one and `out` is contiguous or, for one step, a slice of a larger array, for example one with ghost cells.

        Elements that no block covers keep their values if nothing is copied; otherwise they are set to 0.
        """
        first, rest = _split(key, self.ndim)
        (steps,) = selection.axes(first, (len(self.steps),), self.name)
        if self.kind == "local array" and not steps.keeps and (not rest or rest[0] is Ellipsis and len(rest) == 1):
            (position,) = steps.wanted
            if self._read_block_into(out, position):
                return out
        if self.kind in ("global array", "value per rank") and out.dtype == self.dtype and out.flags.writeable:
            wanted = selection.axes(rest, self._common_shape(steps.wanted), self.name)
            shape = tuple(len(a) for a in [steps, *wanted] if a.keeps)
            box = all(isinstance(a.wanted, range) and a.wanted.step > 0 for a in wanted) and shape == out.shape
            memory: dict[str, Any] | None = {} if out.flags.c_contiguous else None
            into = out
            if memory is None and not steps.keeps and all(a.keeps for a in wanted):
                owner, place = selection.within(out)
                if owner is not None:
                    into, memory = owner, {"memory": place}
            if box and memory is not None:
                if out.size:
                    ends = [a.first_and_last() for a in wanted]
                    offset, count = [a for a, _ in ends], [b - a + 1 for a, b in ends]
                    stride = [selection.stride(a.wanted) for a in wanted if isinstance(a.wanted, range)]
                    numbers = self._numbers(steps.wanted)
                    view = into.reshape(-1).view(np.uint8)
                    self._file._reader.read(self.name, numbers, view, offset, count, stride=stride, **memory)
                    self._file._say_unchecked()
                return out
        values = np.asarray(self[key])
        if values.shape != out.shape:
            raise InvalidArgument(f'"{self.name}": {values.shape} values for an array of {out.shape}', variable=self.name)
        np.copyto(out, values, casting="same_kind")
        return out

    def _read_block_into(self, out: np.ndarray, position: int) -> bool:
        """Reads the only block of a local array at a step, if it fits an array exactly; else nothing."""
        fits = out.dtype == self.dtype and out.flags.c_contiguous and out.flags.writeable and out.size > 0
        if not fits or self._file._reader.block_count(self.name, self.steps[position]) != 1:
            return False
        if self.block(0, position).shape != out.shape:
            return False
        self._file._reader.read(self.name, [self.steps[position]], out.reshape(-1).view(np.uint8), block=0)
        self._file._say_unchecked()
        return True

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self[...], dtype)

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    # Representation.

    def _layout(self) -> str:
        extents = " x ".join("?" if n is None else str(n) for n in self.shape[1:])
        return extents or ("text" if self.is_text else self.kind)

    def __repr__(self) -> str:
        return f"<variable {self.name!r}: {self.type}, {self.kind} {self._layout()}, {len(self)} steps>"

    def _repr_html_(self) -> str:
        return html.variable(self)

    def __reduce__(self) -> Any:
        return operator.getitem, (self._file, self.name)


def _split(key: Any, ndim: int) -> tuple[Any, tuple[Any, ...]]:
    """The key of the step axis, and the keys of the other axes."""
    keys = key if isinstance(key, tuple) else (key,)
    if not keys:
        return slice(None), ()
    if keys[0] is Ellipsis:
        # The ellipsis includes the step axis, unless all axes follow it explicitly.
        return (keys[1], keys[2:]) if len(keys) - 1 >= ndim else (slice(None), keys)
    return keys[0], tuple(keys[1:])


def _grid(variable: Variable, position: int = -1) -> tuple[tuple[int, ...], ...]:
    """Lengths of the intervals into which the blocks of one step divide each axis; none if they form no grid."""
    facts = variable._file._reader.blocks(variable.name, variable.steps[position])
    blocks = [(f.offset, f.count) for f in facts if 0 not in f.count]
    shape = variable.shape_at(position)
    cuts: list[list[int]] = []
    for d, extent in enumerate(shape):
        edges = {0, extent}
        for offset, count in blocks:
            edges.update((offset[d], offset[d] + count[d]))
        cuts.append(sorted(edges))
    for d in range(len(shape)):
        following = dict(zip(cuts[d], cuts[d][1:]))
        if any(following.get(offset[d]) != offset[d] + count[d] for offset, count in blocks):
            return ()
    return tuple(tuple(b - a for a, b in zip(edges, edges[1:])) or (0,) for edges in cuts)


