"""The engine behind `xarray.open_dataset("run.bp", engine="thalweg")`.

Values are read when they are accessed; with `chunks={}` dask reads chunks that match the blocks of the file. No lock
is needed, and all objects can be pickled: other processes open the file themselves.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from xarray.backends import AbstractDataStore, BackendArray, BackendEntrypoint, CachingFileManager
from xarray.backends.store import StoreBackendEntrypoint
from xarray.core import indexing
from xarray.core.dataset import Dataset
from xarray.core.variable import Variable as XVariable

from . import _core
from . import xarray as _accessors  # noqa: F401  (registers `Dataset.thalweg`)
from .errors import Error, NotFound
from .file import File
from .variable import Variable, _grid
from .xarray_conventions import AXES, GROUP, STEPS, node_of, parents

_OF_VALUES = ("_FillValue", "missing_value", "scale_factor", "add_offset")

# Smaller blocks and steps are combined: dask needs about a millisecond per chunk, whatever its size.
_SMALL = 1 << 20


def _open(path: str, mode: str, reads: str = "compared", digits: int | None = None) -> File:
    return File(path, reads=reads, digits=digits)


# Coordinates up to this size are compared over the steps.
_COMPARED = 64 << 20


class ThalwegArray(BackendArray):
    """A variable as a backend array for xarray's lazy indexing."""

    def __init__(self, manager: Any, variable: Variable, shape: tuple[int, ...], step: int | None) -> None:
        self._manager = manager
        self._name = variable.name
        # Position on the step axis, if the array is that of one step.
        self._step = step
        self.shape = shape
        self.dtype = variable.dtype

    def __getitem__(self, key: Any) -> Any:
        return indexing.explicit_indexing_adapter(key, self.shape, indexing.IndexingSupport.OUTER, self._outer)

    def _outer(self, key: tuple[Any, ...]) -> Any:
        variable = self._manager.acquire()[self._name]
        if self._step is not None:
            key = (self._step, *key)
        return variable.outer(key)


class JoinedArray(BackendArray):
    """A variable whose steps are concatenated along one of its axes."""

    def __init__(self, manager: Any, variable: Variable, axis: int, lengths: Sequence[int]) -> None:
        self._manager = manager
        self._name = variable.name
        self._axis = axis
        #: First index of each step along the axis, and the end.
        self._starts = np.concatenate(([0], np.cumsum(lengths, dtype=np.int64)))
        # Length of each step, if all have the same.
        self._length = lengths[0] if len(set(lengths)) == 1 else None
        shape = list(variable.shape_at(0))
        shape[axis] = int(self._starts[-1])
        self.shape = tuple(shape)
        self.dtype = variable.dtype

    def __getitem__(self, key: Any) -> Any:
        return indexing.explicit_indexing_adapter(key, self.shape, indexing.IndexingSupport.OUTER, self._outer)

    def _outer(self, key: tuple[Any, ...]) -> Any:
        variable = self._manager.acquire()[self._name]
        before, along, behind = key[: self._axis], key[self._axis], key[self._axis + 1 :]
        if isinstance(along, (int, np.integer)):
            index = int(along) % self.shape[self._axis]
            position = self._position(index)
            return variable.outer((position, *before, index - int(self._starts[position]), *behind))
        wanted = np.arange(self.shape[self._axis])[along]
        # The axis of the result.
        axis = sum(not isinstance(k, (int, np.integer)) for k in before)
        if wanted.size == 0:
            return variable.outer((0, *before, slice(0, 0), *behind))
        stride = int(wanted[1] - wanted[0]) if wanted.size > 1 else 1
        even = stride > 0 and bool(np.all(np.diff(wanted) == stride))
        runs = even and stride == 1
        first, end = int(wanted[0]), int(wanted[-1]) + 1
        if runs and self._length and first % self._length == 0 and end % self._length == 0:
            steps = slice(first // self._length, end // self._length)
            values = np.moveaxis(variable.outer((steps, *before, slice(None), *behind)), 0, axis)
            return values.reshape(*values.shape[:axis], wanted.size, *values.shape[axis + 2 :])
        positions = np.searchsorted(self._starts, wanted, side="right") - 1
        parts = []
        for position, group in itertools.groupby(range(wanted.size), lambda i: int(positions[i])):
            indices = wanted[list(group)] - self._starts[position]
            here: Any = slice(int(indices[0]), int(indices[-1]) + 1, stride) if even else indices
            parts.append(variable.outer((position, *before, here, *behind)))
        return np.concatenate(parts, axis)

    def _position(self, index: int) -> int:
        return int(np.searchsorted(self._starts, index, side="right")) - 1


class ThalwegBackend(BackendEntrypoint):
    """Opens BP files with Thalweg."""

    description = "BP files of ADIOS 1.x, ADIOS2 (BP3) and Thalweg"
    url = "docs/guide/python.md"
    supports_groups = True
    open_dataset_parameters = (
        "filename_or_obj",
        "mask_and_scale",
        "decode_times",
        "concat_characters",
        "decode_coords",
        "drop_variables",
        "use_cftime",
        "decode_timedelta",
        "step",
        "group",
        "dims",
        "schema",
        "reads",
        "digits",
    )

    def guess_can_open(self, filename_or_obj: Any) -> bool:
        """Whether the name ends in `.bp` and the file can be opened."""
        if not isinstance(filename_or_obj, (str, os.PathLike)) or Path(filename_or_obj).suffix != ".bp":
            return False
        try:
            _core.Reader(os.fspath(filename_or_obj))
        except Error:
            return False
        return True

    def open_dataset(
        self,
        filename_or_obj: str | os.PathLike[str],
        *,
        mask_and_scale: Any = True,
        decode_times: Any = True,
        concat_characters: Any = True,
        decode_coords: Any = True,
        drop_variables: str | Iterable[str] | None = None,
        use_cftime: Any = None,
        decode_timedelta: Any = None,
        step: int | None = None,
        group: str | None = None,
        dims: Mapping[str, Sequence[str]] | None = None,
        schema: str | os.PathLike[str] | None = None,
        reads: str = "compared",
        digits: int | None = None,
    ) -> Dataset:
        """A dataset of all variables, steps along the dimension `step`.

        - `step`: one step of the file, negative from its end; the dataset then has no step dimension.
        - `group`: only variables of this group of the schema; or the group of this path, `"a/b"`, whose variables have names
          like `a/b/v`.
        - `dims`: names of the axes (without the step axis), by variable.
        - `schema`: the XML with which the file was written; its dimensions' names become those of the axes.
        - `reads`, `digits`: as for `thalweg.open`.
        - other arguments: as for xarray's own engines. Values, times and coordinates are decoded by the CF
          conventions.

        A variable written in only one of several steps has no step dimension, nor has a coordinate whose values are the
        same in all steps: an array of one axis with the axis's name, or what an attribute `coordinates` names. What
        `thalweg.from_xarray` wrote has the dimensions that it had. Local arrays of several blocks are left out; a warning
        names them, unless they are in `drop_variables`.
        """
        return self._datasets(
            filename_or_obj, group, step, dims, schema, reads, digits, drop_variables,
            mask_and_scale=mask_and_scale,
            decode_times=decode_times,
            concat_characters=concat_characters,
            decode_coords=decode_coords,
            use_cftime=use_cftime,
            decode_timedelta=decode_timedelta,
        )["/"]  # fmt: skip

    def open_datatree(self, filename_or_obj: str | os.PathLike[str], **how: Any) -> Any:
        """A tree of datasets; see `open_groups_as_dict`."""
        from xarray import DataTree

        groups = self.open_groups_as_dict(filename_or_obj, **how)
        tree = DataTree.from_dict(groups)
        for name, dataset in groups.items():
            tree[name].set_close(dataset._close)
        return tree

    def open_groups_as_dict(
        self,
        filename_or_obj: str | os.PathLike[str],
        *,
        mask_and_scale: Any = True,
        decode_times: Any = True,
        concat_characters: Any = True,
        decode_coords: Any = True,
        drop_variables: str | Iterable[str] | None = None,
        use_cftime: Any = None,
        decode_timedelta: Any = None,
        step: int | None = None,
        group: str | None = None,
        dims: Mapping[str, Sequence[str]] | None = None,
        schema: str | os.PathLike[str] | None = None,
        reads: str = "compared",
        digits: int | None = None,
    ) -> dict[str, Dataset]:
        """Datasets by the path of their group: the names of variables up to the last slash. With `group`, those below
        this path. Arguments as for `open_dataset`."""
        return self._datasets(
            filename_or_obj, group, step, dims, schema, reads, digits, drop_variables, tree=True,
            mask_and_scale=mask_and_scale,
            decode_times=decode_times,
            concat_characters=concat_characters,
            decode_coords=decode_coords,
            use_cftime=use_cftime,
            decode_timedelta=decode_timedelta,
        )  # fmt: skip

    def _datasets(
        self,
        filename_or_obj: str | os.PathLike[str],
        group: str | None,
        step: int | None,
        dims: Mapping[str, Sequence[str]] | None,
        schema: str | os.PathLike[str] | None,
        reads: str,
        digits: int | None,
        drop_variables: str | Iterable[str] | None,
        tree: bool = False,
        **decoding: Any,
    ) -> dict[str, Dataset]:
        path = os.path.abspath(os.fspath(filename_or_obj))
        manager = CachingFileManager(_open, path, mode="r", kwargs={"reads": reads, "digits": digits}, lock=False)
        file: File = manager.acquire()
        chosen = None if step is None else file.steps[step].number
        given = {name.strip("/"): tuple(d) for name, d in (dims or {}).items()}
        of_schema = _names_of_schema(schema) if schema is not None else {}
        dropped = {drop_variables} if isinstance(drop_variables, str) else set(drop_variables or ())
        left_out: list[str] = []
        opened: dict[str, Dataset] = {}
        names: dict[str, _Names] = {}
        for node in _nodes(file, group, tree):
            above = names.get(node.parent) if tree else None
            names[node.path] = _Names(given, of_schema, node.taken, above)
            opened[node.path] = _dataset(manager, file, node, chosen, names[node.path], dropped, left_out, decoding)
            opened[node.path].encoding["source"] = path
        if left_out:
            warnings.warn(
                f"left out, as their shapes differ or they are local arrays of several blocks: {', '.join(left_out)} "
                f"(choose step=, or drop_variables=)",
                stacklevel=3,
            )
        return opened


@dataclasses.dataclass
class _Node:
    """A group of a file, or all of it: the variables and attributes of one dataset."""

    #: Path from the root of the tree.
    path: str
    #: Variables by their name in the dataset.
    variables: dict[str, Variable]
    attrs: dict[str, Any]
    #: Names that no dimension of steps gets.
    taken: set[str]

    @property
    def parent(self) -> str:
        return self.path.rpartition("/")[0] or "/"


def _nodes(file: File, group: str | None, tree: bool) -> list[_Node]:
    """The groups of a tree, parents first; or one of them, or all variables, as a single node `/`."""
    variables = {name.strip("/"): file[name] for name in file}
    # Attributes of variables that are not opened are still attributes of variables, not of the dataset.
    of_variables = tuple(f"{name}/" for name in variables)
    attrs = {n.strip("/"): v for n, v in file.attrs.items() if not n.strip("/").startswith(of_variables)}
    own = {n: v for n, v in attrs.items() if node_of(n)[1] != GROUP}
    paths = {"/"}
    for name in (*variables, *attrs):
        paths.update(parents(name))
    below = None
    if group is not None:
        below = "/" + group.strip("/")
        if group in file.groups and not tree:
            # A group of the schema, not a path.
            chosen = {n: v for n, v in variables.items() if v.group == group}
            return [_Node("/", chosen, own, set())]
        if below not in paths:
            what = f"no group {group!r}; the groups of the schema are {', '.join(file.groups)}"
            raise NotFound(f"{what}, those in names of variables {', '.join(sorted(paths))}", file=file.path)
    elif not tree:
        return [_Node("/", variables, own, set())]
    nodes: dict[str, _Node] = {}
    for path in sorted(paths):
        if below is None or path == below or path.startswith(below.rstrip("/") + "/"):
            short = path if below is None else "/" + path.removeprefix(below).strip("/")
            nodes[path] = _Node(short, {}, {}, {p.rpartition("/")[2] for p in paths if p != "/"})
    for name, variable in variables.items():
        path, short = node_of(name)
        if path in nodes:
            nodes[path].variables[short] = variable
    for name, value in attrs.items():
        path, short = node_of(name)
        if path in nodes and short != GROUP:
            nodes[path].attrs[short] = value
    if not tree:
        return [nodes[str(below)]]
    for path, node in nodes.items():
        both = [n for n in node.variables if f"{path.rstrip('/')}/{n}" in nodes]
        for n in both:
            warnings.warn(f"left out of the tree, as a group has its name: {node.variables.pop(n).name}", stacklevel=4)
    return list(nodes.values())


def _dataset(
    manager: Any,
    file: File,
    node: _Node,
    chosen: int | None,
    names: _Names,
    dropped: set[str],
    left_out: list[str],
    decoding: dict[str, Any],
) -> Dataset:
    variables: dict[str, XVariable] = {}
    wanted = {
        short: v for short, v in node.variables.items() if v.steps and not dropped & {short, v.name, v.name.strip("/")}
    }
    coordinates = _coordinates(node)
    for short, variable in wanted.items():
        place = _place(file, short, variable, chosen, names, coordinates)
        if isinstance(place, str):
            left_out.append(variable.name)
        elif place is not None:
            variables[short] = _variable(manager, variable, place, names)
    used = {dim for v in variables.values() for dim in v.dims}
    for dim, numbers in names.steps.items():
        if dim in used and dim not in variables and dim not in names.named:
            variables[dim] = XVariable((dim,), np.array(numbers, np.int64), {"long_name": "step in the file"})
    own = dict(node.attrs)
    if chosen is not None:
        own.setdefault("step", chosen)
    store = _Store(variables, own, manager)
    return StoreBackendEntrypoint().open_dataset(store, **decoding)


class _Store(AbstractDataStore):
    """The file's variables and attributes, undecoded, for xarray's own decoding."""

    __slots__ = ("_attrs", "_manager", "_variables")

    def __init__(self, variables: dict[str, XVariable], attrs: dict[str, Any], manager: Any) -> None:
        self._variables, self._attrs, self._manager = variables, attrs, manager

    def get_variables(self) -> dict[str, XVariable]:
        return self._variables

    def get_attrs(self) -> dict[str, Any]:
        return self._attrs

    def close(self) -> None:
        self._manager.close()


class _Names:
    """Names of dimensions: as given, from the file, from the schema, or generated so that equal extents get equal
    names.

    - `taken`: names of groups, which no dimension of steps gets: a tree has one thing of a name.
    - `above`: names in the group above, which hold in this group too.
    """

    def __init__(
        self,
        given: Mapping[str, Sequence[str]],
        schema: Mapping[str, Sequence[str]],
        taken: set[str] = frozenset(),  # type: ignore[assignment]
        above: _Names | None = None,
    ) -> None:
        self._given = given
        self._schema = schema
        self._taken = taken
        self._lengths: dict[str, int] = dict(above._lengths) if above else {}
        #: Step dimensions, with the steps they stand for.
        self.steps: dict[str, tuple[int, ...]] = dict(above.steps) if above else {}
        #: Step dimensions that the file names: their coordinates are variables, if there are any.
        self.named: set[str] = set(above.named) if above else set()

    def step(self, steps: tuple[int, ...], name: str | None = None) -> str:
        """Name of the dimension that stands for these steps."""
        if name is not None:
            (dim,) = self._free((name,), (len(steps),)) if name not in self.steps else (name,)
            if self.steps.get(dim, steps) == steps:
                self.steps[dim] = steps
                self.named.add(dim)
                return dim
        for dim, known in self.steps.items():
            if known == steps and dim not in self.named:
                return dim
        candidates = (f"step_{n}" if n else "step" for n in itertools.count(len(self.steps)))
        dim = next(d for d in candidates if d not in self._taken and d not in self.steps and d not in self._lengths)
        self.steps[dim] = steps
        return dim

    def of(self, variable: Variable, shape: tuple[int, ...], step: str | None = None) -> tuple[str, ...]:
        """Names of the axes after the step axis, whose name is `step`."""
        return self._free(self.wanted(variable, shape), shape, step)

    def wanted(self, variable: Variable, shape: tuple[int, ...]) -> tuple[str, ...]:
        name = variable.name.strip("/")
        for known in (self._given.get(name), variable.dims, self._schema.get(name)):
            if known is not None and len(known) == len(shape):
                return tuple(known)
        return tuple(f"dim_{d}" for d in range(len(shape)))

    def _free(self, wanted: tuple[str, ...], shape: tuple[int, ...], step: str | None = None) -> tuple[str, ...]:
        """A name has one length; if the name is in use with another length, the length is appended to the name."""
        made: list[str] = []
        for dim, length in zip(wanted, shape):
            free = dim
            while free in made or free == step or self._length(free, length) != length:
                free = f"{dim}_{length}" if free == dim else f"{free}_"
            self._lengths[free] = length
            made.append(free)
        return tuple(made)

    def _length(self, dim: str, length: int) -> int:
        """The length of a dimension that is in use, else the given one."""
        return len(self.steps[dim]) if dim in self.steps else self._lengths.get(dim, length)


def _names_of_schema(schema: str | os.PathLike[str]) -> dict[str, list[str]]:
    """Names in the dimensions of an XML document: those of the global array, else of the block."""
    text = os.fspath(schema)
    name = "the schema"
    if not text.lstrip().startswith("<"):
        name, text = text, Path(text).read_text()
    found: dict[str, list[str]] = {}
    for _, v in _core.schema_names(text, name):
        extents = v.bounds or v.local
        extents = extents[::-1] if v.fortran else extents
        found.setdefault(
            v.name.strip("/"), [e.strip("/") if not e.isdigit() else f"dim_{d}" for d, e in enumerate(extents)]
        )
    return found


@dataclasses.dataclass
class _Place:
    """Which array of a dataset a variable of the file is."""

    #: Names of the axes after the step axis, and their extents.
    dims: tuple[str, ...]
    shape: tuple[int, ...]
    #: The only position on the step axis that is shown, if there is one.
    position: int | None = None
    #: Name of the step axis, if it is shown.
    step: str | None = None
    #: The axis along which the steps are concatenated, and the length of each step.
    axis: int | None = None
    lengths: tuple[int, ...] = ()


def _place(
    file: File, short: str, variable: Variable, chosen: int | None, names: _Names, coordinates: set[str]
) -> _Place | str | None:
    """The variable's array in the dataset; `None` if it was not written at the chosen step, a reason if it is no
    array."""
    along = variable.attrs.get(STEPS)
    wanted = names.wanted(variable, variable.shape_at(0))
    is_coordinate = wanted == (short,) or short in coordinates
    position: int | None = None
    if along == "":
        position = _last(variable, chosen)
    elif chosen is not None:
        position = variable.steps.index(chosen) if chosen in variable.steps else None
        if position is None and is_coordinate and _does_not_change(variable):
            position = _last(variable, chosen)
    elif along in wanted:
        return _joined_place(variable, wanted.index(along), names)
    elif along is None and len(variable.steps) == 1 and (len(file.steps) > 1 or wanted == (short,)):
        position = 0
    elif along is None and len(variable.steps) > 1 and is_coordinate and _does_not_change(variable):
        position = 0
    if position is None and (chosen is not None or along == ""):
        return None
    if not _is_one_array(variable, range(len(variable.steps)) if position is None else (position,)):
        return "local array of several blocks"
    if position is not None:
        shape = variable.shape_at(position)
        return _Place(names.of(variable, shape), shape, position)
    if None in variable.shape:
        return "its shape changes"
    # The step dimensions are named first, so that no axis gets their names.
    step = names.step(variable.steps, along)
    shape = variable.shape_at(0)
    return _Place(names.of(variable, shape, step), shape, step=step)


def _joined_place(variable: Variable, axis: int, names: _Names) -> _Place | str:
    count = len(variable.steps)
    if not _is_one_array(variable, range(count)):
        return "local array of several blocks"
    shapes = [variable.shape_at(p) for p in range(count)] if None in variable.shape else [variable.shape_at(0)] * count
    if len({(*s[:axis], *s[axis + 1 :]) for s in shapes}) > 1:
        return "its shape changes"
    lengths = tuple(s[axis] for s in shapes)
    shape = (*shapes[0][:axis], sum(lengths), *shapes[0][axis + 1 :])
    return _Place(names.of(variable, shape), shape, axis=axis, lengths=lengths)


def _last(variable: Variable, chosen: int | None) -> int | None:
    """The last position at which the variable was written, until the chosen step."""
    return max((p for p, s in enumerate(variable.steps) if chosen is None or s <= chosen), default=None)


def _is_one_array(variable: Variable, positions: Sequence[int]) -> bool:
    """Whether the variable is not a local array of several blocks at one of these positions."""
    if variable.kind != "local array" or variable.block_count == len(variable.steps):
        return True
    return all(len(variable.blocks(p)) == 1 for p in positions)


def _coordinates(node: _Node) -> set[str]:
    """The coordinates that attributes name."""
    lists = [node.attrs.get("coordinates"), *(v.attrs.get("coordinates") for v in node.variables.values())]
    return {name for text in lists if isinstance(text, str) for name in text.split()}


def _does_not_change(variable: Variable) -> bool:
    """Whether all steps hold the same values. Large variables are not compared."""
    count = len(variable.steps)
    if count == 1:
        return True
    if None in variable.shape or variable.is_text or variable.nbytes > _COMPARED:
        return False
    if variable.kind not in ("global array", "local array") or not _is_one_array(variable, range(count)):
        return False
    # Without reading, where the index has statistics.
    first, every = variable.characteristics(0), variable.characteristics()
    if (first.min, first.max) != (every.min, every.max):
        return False
    values = np.asarray(variable[0])
    together = max((8 << 20) // max(values.nbytes, 1), 1)
    for begin in range(1, count, together):
        for other in variable[begin : begin + together]:
            if other.tobytes() != values.tobytes():
                return False
    return True


def _variable(manager: Any, variable: Variable, place: _Place, names: _Names) -> XVariable:
    dims = place.dims if place.step is None else (place.step, *place.dims)
    attrs = {k: v for k, v in variable.attrs.items() if k not in (AXES, STEPS)}
    # The type of decoded values depends on the types of these attributes.
    attrs.update({k: variable._file.attrs._typed(variable.name, k) for k in _OF_VALUES if k in attrs})
    if variable.is_text or variable.kind == "scalar":
        # Small, and in the index: read immediately.
        values = variable[...] if place.position is None else variable[place.position]
        data = np.asarray(values, object if variable.is_text else None)
        return XVariable(dims, data, attrs)
    if variable._file.digits is not None and any(k in attrs for k in ("_FillValue", "missing_value")):
        # Rounded, no value would be equal to these.
        manager = CachingFileManager(_open, variable._file.path, mode="r", kwargs={"reads": variable._file.reads}, lock=False)
    array: BackendArray
    if place.axis is not None:
        array = JoinedArray(manager, variable, place.axis, place.lengths)
    else:
        shape = place.shape if place.step is None else (len(variable.steps), *place.shape)
        array = ThalwegArray(manager, variable, shape, place.position)
    made = XVariable(dims, indexing.LazilyIndexedArray(array), attrs)
    item = variable.dtype.itemsize
    chunks = variable.chunks or tuple((n,) for n in place.shape)
    if place.axis is not None:
        chunks = _chunks_of_steps(variable, place, chunks)
    if len(chunks) == len(place.shape):
        joined = _joined(chunks, item)
        preferred: dict[Any, Any] = dict(zip(place.dims, joined))
        together = _steps_together(joined, item)
        # Without an entry the axis is one chunk, and xarray does not warn of other chunks that a program asks for.
        if place.axis is not None and len(joined[place.axis]) == 1:
            del preferred[place.dims[place.axis]]
        if place.step is not None and together < len(variable.steps):
            preferred = {place.step: together, **preferred}
        made.encoding["preferred_chunks"] = preferred
    made.encoding["dtype"] = variable.dtype
    if variable.transform is not None:
        made.encoding["transform"] = variable.transform
    return made


def _chunks_of_steps(
    variable: Variable, place: _Place, last: tuple[tuple[int, ...], ...]
) -> tuple[tuple[int, ...], ...]:
    """Chunks of a variable whose steps are concatenated: along that axis the blocks of each step, along the others
    those of the last one."""
    axis = place.axis or 0
    along: list[int] = []
    if variable.block_count > len(variable.steps) and variable.kind == "global array":
        for position, length in enumerate(place.lengths):
            grid = _grid(variable, position)
            along += grid[axis] if grid else (length,)
    else:
        along += [n for n in place.lengths if n] or [0]
    return (*last[:axis], tuple(along), *last[axis + 1 :])


def _joined(chunks: tuple[tuple[int, ...], ...], item: int) -> list[tuple[int, ...]]:
    """Combines small adjacent blocks into one chunk; along the slowest axes last, because these are not
    contiguous."""
    joined = [list(c) for c in chunks]
    size = item
    for c in joined:
        size *= max(c, default=0)
    for c in reversed(joined):
        while 0 < size < _SMALL and len(c) > 1:
            before = max(c)
            c[:] = [sum(c[i : i + 2]) for i in range(0, len(c), 2)]
            size = size // max(before, 1) * max(c)
    return [tuple(c) for c in joined]


def _steps_together(chunks: Sequence[tuple[int, ...]], item: int) -> int:
    """Number of steps that one chunk holds: several if the array of a step is a single, small chunk."""
    if any(len(c) > 1 for c in chunks):
        return 1
    return _SMALL // max(item * math.prod(sum(c) for c in chunks), 1) or 1
