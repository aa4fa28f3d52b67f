"""Writing datasets of xarray: compared with what the file holds, as a whole before the file is opened for writing. The
attributes that a file gets for them are in `xarray_conventions`."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from .errors import AlreadyExists, Error, FileNotFound, InvalidArgument, NotFound, Unsupported, WrongType
from .file import File
from .schema import Schema, statistics_of
from .writer import Session, Writer
from .xarray_conventions import AXES, GROUP, STEPS
from .xarray_encoding import Stored, attribute, encoded
from .xarray_output import Output

if TYPE_CHECKING:
    from xarray import Dataset

# Encodings that values in one variable share.
_SHARED = ("_FillValue", "missing_value", "scale_factor", "add_offset", "_Unsigned", "units", "calendar", "dtype")

# Larger arrays are not compared with those of the file.
_COMPARED = 64 << 20


def from_xarray(
    data: Any,
    path: str | os.PathLike[str],
    *,
    mode: str | None = None,
    append_dim: str | None = None,
    region: Mapping[str, slice] | None = None,
    encoding: Mapping[str, Mapping[str, Any]] | None = None,
    method: str = "MPI",
    parameters: str = "",
) -> None:
    """Writes a `Dataset`, `DataArray` or `DataTree` to a BP file; `xarray.open_dataset(path, engine="thalweg")` returns
    the same dataset.

    - `mode`: `w-` a new file, an error if there is one (default); `w` a new file in place of an older one; `a` further
      variables of a file, or new values of its variables, in a further step.
    - `append_dim`: with the file's variables that have this dimension, what the data hold of them is appended along it,
      in a further step. Other variables are written again only if they differ. Encodings are those of the file.
    - `region`: slices by dimension: the data replace this part of variables of the file's last step.
    - `encoding`: by variable, and for a tree by path of a group before: `dtype`, `_FillValue`, `scale_factor`, `units`... as
      for netCDF, and `transform`, as in XML (`"zlib:5"`).
    - `method`, `parameters`: how the file is written (docs/guide/methods.md).

    Chunks of dask arrays are computed in parallel and written one by one as they are ready, each as a block. Arrays
    of other files that are not in memory are read and written in pieces.

    Raises `WrongType`, which names the variable, if a file cannot hold its type, before anything is written.
    """
    path = os.fspath(path)
    exists = os.path.exists(path) or _opens(path)
    nodes, tree = _nodes(data)
    mode = _mode(path, mode, exists, append_dim, region)
    if encoding is not None:
        encoding = {"/" + node.strip("/"): e for node, e in encoding.items()} if tree else {"/": encoding}
        if unknown := set(encoding) - set(nodes):
            raise NotFound(f"encoding= of groups that the tree does not have: {', '.join(sorted(unknown))}")
    if mode == "w" and exists:
        _check_source(path, nodes)
    file = File(path) if exists and mode in ("a", "u") else None
    known = _opened(path, tree) if file is not None else {}
    plan = _Plan(file, append_dim, dict(region or {}))
    for node, dataset in nodes.items():
        plan.add(node, dataset, known.get(node), (encoding or {}).get(node, {}))
    plan.check(method, parameters)
    group = file.groups[0] if file is not None and len(file.groups) == 1 else None
    if file is not None:
        file.close()
    with Writer(path, mode=mode, group=group, method=method, parameters=parameters) as writer:
        # The file is opened by the step, behind all that can be refused.
        for name, value, of in plan.attributes:
            writer.attribute(name, value, of=of)
        output = Output(writer)
        output.write(plan.variables)
        output.close()


def _opens(path: str) -> bool:
    """Whether there is something of this name on a mount, which the system may not see."""
    try:
        File(path).close()
    except FileNotFound:
        return False
    except Error:
        pass
    return True


def _mode(path: str, mode: str | None, exists: bool, append_dim: str | None, region: Any) -> str:
    """The writer's mode, if the arguments go together."""
    if append_dim is not None and region is not None:
        raise InvalidArgument("append_dim= and region= do not go together")
    if region is not None:
        if mode not in (None, "r+", "a"):
            raise InvalidArgument(f'region= changes a file, mode="r+", not {mode!r}')
        if not exists:
            raise FileNotFound(f"region= changes a file, and there is none: {path}", file=path)
        return "u"
    if append_dim is not None:
        if mode not in (None, "a"):
            raise InvalidArgument(f'append_dim= goes with mode="a", not {mode!r}')
        return "a"
    mode = mode or "w-"
    if mode not in ("w", "w-", "a"):
        raise InvalidArgument(f'mode is "w", "w-" or "a", not {mode!r}')
    if mode == "w-" and exists:
        raise AlreadyExists(f'{path} exists; mode="w" replaces it, mode="a" adds to it', file=path)
    return "w" if mode == "w-" else mode


def _nodes(data: Any) -> tuple[dict[str, Dataset], bool]:
    """The datasets by path of their group, and whether they are a tree."""
    import xarray

    if isinstance(data, xarray.Dataset):
        return {"/": data}, False
    if isinstance(data, xarray.DataArray):
        if data.name is None:
            raise InvalidArgument("the array has no name; a variable needs one: .rename(...)")
        if data.name in data.coords and data.dims != (data.name,):
            raise InvalidArgument(f'the array has the name of its coordinate "{data.name}"; rename one of them')
        return {"/": data.to_dataset()}, False
    if hasattr(xarray, "DataTree") and isinstance(data, xarray.DataTree):
        start = data.path.rstrip("/")
        return {node.path.removeprefix(start) or "/": node.to_dataset(inherit=False) for node in data.subtree}, True
    raise InvalidArgument(f"a Dataset, DataArray or DataTree is written, not {type(data).__name__}")


def _check_source(path: str, nodes: Mapping[str, Dataset]) -> None:
    """Whether the data are not read from the file that is about to be replaced."""
    for dataset in nodes.values():
        source = dataset.encoding.get("source")
        if not isinstance(source, str) or os.path.realpath(source) != os.path.realpath(path):
            continue
        for name, variable in dataset.variables.items():
            if not variable._in_memory:
                what = f'"{name}" would be read from {path}, which mode="w" replaces; call .load() first'
                raise InvalidArgument(what, variable=str(name), file=path)


def _opened(path: str, tree: bool) -> dict[str, Dataset]:
    """What the file holds, values not read."""
    from .xarray_backend import ThalwegBackend

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if tree:
            return ThalwegBackend().open_groups_as_dict(path)
        return {"/": ThalwegBackend().open_dataset(path)}


class _Plan:
    """What is written: encoded variables and attributes, compared with what the file holds."""

    def __init__(self, file: File | None, append_dim: str | None, region: dict[str, slice]) -> None:
        self._file = file
        self._append_dim = append_dim
        self._region = region
        self.variables: list[Stored] = []
        #: Name, value, and the variable whose attribute it is.
        self.attributes: list[tuple[str, Any, str | None]] = []
        self._appended: set[str] = set()

    def add(
        self, node: str, dataset: Dataset, known: Dataset | None, encoding: Mapping[str, Mapping[str, Any]]
    ) -> None:
        """A dataset, the one that the file holds at its place, and what the caller chose for its variables."""
        prefix = node.strip("/") + "/" if node != "/" else ""
        if self._region and known is None:
            raise NotFound(f"region=: the file has no group {node}")
        variables, attrs = encoded(prefix, dataset, known, encoding, self._widths(prefix, dataset))
        for name, stored in variables.items():
            if known is not None and prefix + name in (self._file or ()):
                if name not in known.variables:
                    raise Unsupported(f'"{prefix}{name}" of the file is no array of a dataset', variable=prefix + name)
                self._change(stored, dataset.variables[name], known, name)
            else:
                self._new(stored)
        if known is not None:
            self._check_sizes(node, prefix, known)
        if self._region:
            return
        for key, value in attrs.items():
            owner = f"the group {node}" if prefix else "the dataset"
            self.attributes.append((prefix + key, attribute(key, value, owner), None))
        if prefix and not variables and not attrs:
            self.attributes.append((prefix + GROUP, "", None))

    def check(self, method: str, parameters: str) -> None:
        """Whether all variables can be declared, and the dimension of `append_dim` was found."""
        if self._append_dim is not None and self._file is not None and not self._appended:
            raise NotFound(f"append_dim={self._append_dim!r}: no variable of the file and the data has this dimension")
        with Session(Schema("data", method=method, parameters=parameters)) as session:
            for v in self.variables:
                local = ",".join(map(str, v.shape))
                try:
                    statistics = statistics_of(v.element, None)
                    session._session.define_variable("data", v.name, v.element, local, "", "", statistics, v.transform)
                except (Error, TypeError) as e:
                    raise InvalidArgument(f'"{v.name}": {getattr(e, "what", e)}', variable=v.name) from None

    def _widths(self, prefix: str, dataset: Dataset) -> dict[str, int]:
        """Bytes of each text, of variables of the file that are texts."""
        found: dict[str, int] = {}
        for name in dataset.variables:
            full = f"{prefix}{name}"
            if self._file is not None and full in self._file and self._file[full].type == "char":
                found[str(name)] = self._file[full].shape_at(-1)[-1]
        return found

    def _new(self, stored: Stored) -> None:
        if self._region:
            raise NotFound(f'region=: the file has no variable "{stored.name}"', variable=stored.name)
        if self._file is not None and self._append_dim in stored.dims:
            what = f'"{stored.name}" is not in the file, so it cannot be appended along {self._append_dim!r}'
            raise NotFound(what, variable=stored.name)
        self.variables.append(stored)
        self.attributes.append((STEPS, "", stored.name))
        for key, value in stored.attrs.items():
            if key in (AXES, STEPS):
                raise InvalidArgument(
                    f'"{stored.name}": the attribute {key} is one of the library', variable=stored.name
                )
            self.attributes.append((key, attribute(key, value, f'"{stored.name}"'), stored.name))

    def _change(self, stored: Stored, values: Any, known: Dataset, short: str) -> None:
        """Values for a variable of the file."""
        assert self._file is not None
        name, held = stored.name, self._file[stored.name]
        along = held.attrs.get(STEPS)
        if along is None:
            what = f'"{name}" of the file was not written from xarray: its steps are a dimension of their own'
            raise Unsupported(what, variable=name)
        if (held.dims or ()) != stored.dims:
            what = f'"{name}" has the dimensions {held.dims or ()} in the file, {stored.dims} in the data'
            raise InvalidArgument(what, variable=name)
        if stored.element != held.type:
            raise WrongType(f'"{name}" is {held.type} in the file, {stored.element} in the data', variable=name)
        for key in _SHARED:
            if key in known.variables[short].encoding or key in ("scale_factor", "add_offset"):
                here, there = stored.attrs.get(key), held.attrs.get(key)
                if not _same(here, there):
                    what = f'"{name}" has {key} = {there!r} in the file, and the data need {here!r}'
                    raise InvalidArgument(what, variable=name)
        if stored.transform is None and held.transform is not None:
            stored.transform = held.transform
        if self._region:
            self._place(stored, held, known)
        elif self._append_dim is not None and self._append_dim in stored.dims:
            if along == "" and len(held.steps) > 1:
                what = f'"{name}" was replaced in a later step of the file; it cannot be appended to'
                raise Unsupported(what, variable=name)
            if along not in ("", self._append_dim):
                raise Unsupported(f'"{name}" was appended along {along!r} before', variable=name)
            self._appended.add(name)
            self.variables.append(stored)
            if along == "":
                self.attributes.append((STEPS, self._append_dim, name))
        elif along != "":
            what = (
                f'"{name}" was appended along {along!r}; append_dim={along!r} appends more, mode="w" writes a new file'
            )
            raise Unsupported(what, variable=name)
        else:
            self._replace(stored, held, values, known.variables[short])

    def _replace(self, stored: Stored, held: Any, values: Any, there: Any) -> None:
        """New values and attributes, if they differ from those of the file."""
        for key, value in stored.attrs.items():
            made = attribute(key, value, f'"{stored.name}"')
            if not _same(made, held.attrs.get(key)):
                self.attributes.append((key, made, stored.name))
        if stored.is_chunked or values.nbytes > _COMPARED or not values.equals(there):
            self.variables.append(stored)

    def _place(self, stored: Stored, held: Any, known: Dataset) -> None:
        """The place of the data in the variable's last step."""
        assert self._file is not None
        name = stored.name
        if not set(stored.dims) & set(self._region):
            what = f'"{name}" has no dimension of region= ({", ".join(self._region)}); drop it from the data'
            raise InvalidArgument(what, variable=name)
        if held.steps[-1] != len(self._file.steps) - 1:
            what = f'region=: "{name}" is not in the last step of the file, the only one that can change'
            raise Unsupported(what, variable=name)
        shape = held.shape_at(-1)
        origin = []
        for dim, extent, n in zip(stored.dims, shape, stored.values.shape):
            total = known.sizes.get(dim, extent)
            wanted = self._region.get(dim, slice(None))
            if not isinstance(wanted, slice):
                raise InvalidArgument(f"region= has slices, not {wanted!r} for {dim!r}")
            first, end, step = wanted.indices(total)
            if step != 1 or end - first != n:
                what = f'"{name}": {n} elements along {dim!r} for the region {first}:{end}:{step}'
                raise InvalidArgument(what, variable=name)
            if first < total - extent:
                what = f'region=: {dim} from {first}: "{name}" can change from {total - extent} on, its last step'
                raise Unsupported(what, variable=name)
            origin.append(first - (total - extent))
        stored.shape, stored.origin = tuple(shape), tuple(origin)
        self.variables.append(stored)

    def _check_sizes(self, node: str, prefix: str, known: Dataset) -> None:
        """Dimensions of the file keep their lengths, except that of `append_dim`."""
        if self._region:
            return
        written = {v.name: v for v in self.variables}
        sizes: dict[str, tuple[int, str]] = {}
        for short, variable in known.variables.items():
            name = f"{prefix}{short}"
            if name in written and name not in self._appended:
                continue
            if self._append_dim in variable.dims and name not in written:
                what = (
                    f'"{name}" of the file has the dimension {self._append_dim!r}, and the data have no such variable'
                )
                raise NotFound(what, variable=name)
            sizes.update((str(dim), (n, name)) for dim, n in variable.sizes.items())
        for stored in written.values():
            for dim, n in stored.sizes.items():
                other = sizes.get(dim)
                if stored.name.startswith(prefix) and dim != self._append_dim and other is not None and other[0] != n:
                    what = f'"{stored.name}" has {n} elements along {dim!r}, "{other[1]}" of the file {other[0]}'
                    raise InvalidArgument(what, variable=stored.name)


def _same(a: Any, b: Any) -> bool:
    """Whether two attributes mean the same: xarray writes the dates of units in several forms."""
    if a is None or b is None:
        return a is b
    if isinstance(a, str) and isinstance(b, str):
        return _plain_units(a) == _plain_units(b)
    one, other = np.asarray(a), np.asarray(b)
    numbers = one.dtype.kind in "biufc" and other.dtype.kind in "biufc"
    return bool(np.array_equal(one, other, equal_nan=numbers))


def _plain_units(text: str) -> str:
    unit, since, date = text.partition(" since ")
    return unit + since + date.replace("T", " ").removesuffix(" 00:00:00") if since else text
