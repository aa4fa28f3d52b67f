"""The engine behind `xarray.open_dataset("run.bp", engine="thalweg")`.

Values are read when they are accessed; with `chunks={}` dask reads chunks that match the blocks of the file. No lock
is needed, and all objects can be pickled: other processes open the file themselves.
"""

from __future__ import annotations

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
from .errors import Error
from .file import File
from .variable import Variable

_OF_VALUES = ("_FillValue", "missing_value", "scale_factor", "add_offset")

# Smaller blocks and steps are combined: dask needs about a millisecond per chunk, whatever its size.
_SMALL = 1 << 20


def _open(path: str, mode: str, reads: str = "compared") -> File:
    return File(path, reads=reads)


class ThalwegArray(BackendArray):
    """A variable as a backend array for xarray's lazy indexing."""

    def __init__(self, manager: Any, variable: Variable, step: int | None) -> None:
        self._manager = manager
        self._name = variable.name
        # Position on the step axis, if one step was chosen or the variable has only one.
        self._step = step
        shape = variable.shape
        self.shape = tuple(int(n or 0) for n in (shape if step is None else shape[1:]))
        self.dtype = variable.dtype

    def __getitem__(self, key: Any) -> Any:
        return indexing.explicit_indexing_adapter(key, self.shape, indexing.IndexingSupport.OUTER, self._outer)

    def _outer(self, key: tuple[Any, ...]) -> Any:
        variable = self._manager.acquire()[self._name]
        if self._step is not None:
            key = (self._step, *key)
        return variable.outer(key)


class ThalwegBackend(BackendEntrypoint):
    """Opens BP files with Thalweg."""

    description = "BP files of ADIOS 1.x, ADIOS2 (BP3) and Thalweg"
    url = "docs/guide/python.md"
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
    ) -> Dataset:
        """A dataset of all variables, steps along the dimension `step`.

        - `step`: one step of the file, negative from its end; the dataset then has no step dimension.
        - `group`: only variables of this group.
        - `dims`: names of the axes (without the step axis), by variable.
        - `schema`: the XML with which the file was written; its dimensions' names become those of the axes.
        - `reads`: as for `thalweg.open`.
        - other arguments: as for xarray's own engines. Values, times and coordinates are decoded by the CF
          conventions.

        A variable written in only one of several steps has no step dimension, nor has a coordinate (an array of one
        axis with the axis's name) in a file of one step. Local arrays of several blocks are left out; a warning names
        them, unless they are in `drop_variables`.
        """
        path = os.path.abspath(os.fspath(filename_or_obj))
        manager = CachingFileManager(_open, path, mode="r", kwargs={"reads": reads}, lock=False)
        file: File = manager.acquire()
        dropped = {drop_variables} if isinstance(drop_variables, str) else set(drop_variables or ())
        names = _Names(dims or {}, _names_of_schema(schema) if schema is not None else {})
        chosen = None if step is None else file.steps[step].number
        variables: dict[str, XVariable] = {}
        left_out: list[str] = []
        for name in file:
            if name in dropped or name.strip("/") in dropped:
                continue
            variable = file[name]
            if (group is not None and variable.group != group) or not variable.steps:
                continue
            if chosen is not None and chosen not in variable.steps:
                continue
            if not _has_a_place(variable, chosen):
                left_out.append(name)
                continue
            variables[name.strip("/")] = _variable(manager, file, variable, chosen, names)
        if left_out:
            warnings.warn(
                f"left out, as their shapes differ or they are local arrays of several blocks: {', '.join(left_out)} "
                f"(choose step=, or drop_variables=)",
                stacklevel=2,
            )
        if chosen is None:
            for dim, numbers in names.steps.items():
                if dim not in variables:
                    variables[dim] = XVariable((dim,), np.array(numbers, np.int64), {"long_name": "step in the file"})
        # Attributes of variables that are not opened are still attributes of variables, not of the dataset.
        of_variables = tuple(f"{name.strip('/')}/" for name in file)
        own = {n.strip("/"): v for n, v in file.attrs.items() if not n.strip("/").startswith(of_variables)}
        if chosen is not None:
            own.setdefault("step", chosen)
        dataset = StoreBackendEntrypoint().open_dataset(
            _Store(variables, own, manager),
            mask_and_scale=mask_and_scale,
            decode_times=decode_times,
            concat_characters=concat_characters,
            decode_coords=decode_coords,
            drop_variables=drop_variables,
            use_cftime=use_cftime,
            decode_timedelta=decode_timedelta,
        )
        dataset.encoding["source"] = path
        return dataset


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
    names."""

    def __init__(self, given: Mapping[str, Sequence[str]], schema: Mapping[str, Sequence[str]]) -> None:
        self._given = {name.strip("/"): tuple(dims) for name, dims in given.items()}
        self._schema = schema
        self._lengths: dict[str, int] = {}
        #: Step dimensions, with the steps they stand for.
        self.steps: dict[str, tuple[int, ...]] = {}

    def step(self, steps: tuple[int, ...]) -> str:
        for dim, known in self.steps.items():
            if known == steps:
                return dim
        dim = "step" if not self.steps else f"step_{len(self.steps)}"
        self.steps[dim] = steps
        return dim

    def of(self, variable: Variable, shape: tuple[int, ...]) -> tuple[str, ...]:
        return self._free(self._wanted(variable, shape), shape)

    def is_coordinate(self, variable: Variable, shape: tuple[int, ...]) -> bool:
        """Whether the variable has one axis with the variable's name."""
        return self._wanted(variable, shape) == (variable.name.strip("/"),)

    def _wanted(self, variable: Variable, shape: tuple[int, ...]) -> tuple[str, ...]:
        name = variable.name.strip("/")
        for known in (self._given.get(name), variable.dims, self._schema.get(name)):
            if known is not None and len(known) == len(shape):
                return tuple(known)
        return tuple(f"dim_{d}" for d in range(len(shape)))

    def _free(self, wanted: tuple[str, ...], shape: tuple[int, ...]) -> tuple[str, ...]:
        """A name has one length; if the name is in use with another length, the length is appended to the name."""
        made: list[str] = []
        for dim, length in zip(wanted, shape):
            free = dim
            while free in made or free in self.steps or self._lengths.get(free, length) != length:
                free = f"{dim}_{length}" if free == dim else f"{free}_"
            self._lengths[free] = length
            made.append(free)
        return tuple(made)


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


def _has_a_place(variable: Variable, chosen: int | None) -> bool:
    """Whether the variable is one array over its steps, or at the chosen step."""
    if variable.kind == "local array":
        positions = range(len(variable.steps)) if chosen is None else [variable.steps.index(chosen)]
        if variable.block_count != len(variable.steps) and any(len(variable.blocks(p)) != 1 for p in positions):
            return False
    return chosen is not None or None not in variable.shape


def _variable(manager: Any, file: File, variable: Variable, chosen: int | None, names: _Names) -> XVariable:
    position: int | None = None
    if chosen is not None:
        position = variable.steps.index(chosen)
    elif len(variable.steps) == 1 and (len(file.steps) > 1 or names.is_coordinate(variable, variable.shape_at(0))):
        position = 0
    shape = variable.shape_at(0 if position is None else position)
    # The step dimensions are named first, so that no axis gets their names.
    steps = () if position is not None else (names.step(variable.steps),)
    dims = (*steps, *names.of(variable, shape))
    attrs = {k: v for k, v in variable.attrs.items() if k != "_ARRAY_DIMENSIONS"}
    # The type of decoded values depends on the types of these attributes.
    attrs.update({k: file.attrs._typed(variable.name, k) for k in _OF_VALUES if k in attrs})
    if variable.is_text or variable.kind == "scalar":
        # Small, and in the index: read immediately.
        values = variable[...] if position is None else variable[position]
        data = np.asarray(values, object if variable.is_text else None)
        return XVariable(dims, data, attrs)
    array = ThalwegArray(manager, variable, position)
    if position is not None and array.shape != shape:
        array.shape = shape
    made = XVariable(dims, indexing.LazilyIndexedArray(array), attrs)
    chunks = variable.chunks or tuple((n,) for n in shape)
    if len(chunks) == len(shape):
        joined = _joined(chunks, variable.dtype.itemsize)
        preferred: dict[Any, Any] = dict(zip(dims[len(steps) :], joined))
        together = _steps_together(joined, variable.dtype.itemsize)
        # Without an entry the axis is one chunk, and xarray does not warn of other chunks that a program asks for.
        if steps and together < len(variable.steps):
            preferred = {steps[0]: together, **preferred}
        made.encoding["preferred_chunks"] = preferred
    made.encoding["dtype"] = variable.dtype
    return made


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
