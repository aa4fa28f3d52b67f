"""Writing datasets of xarray. The attributes that a file gets for them are in `xarray_conventions`.

A dataset is encoded and checked as a whole before the file is opened: first as CF by xarray itself, then texts as
characters. Then the values are written, of dask arrays chunk by chunk.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import os
import threading
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from . import dtypes
from .errors import AlreadyExists, Error, FileNotFound, InvalidArgument, NotFound, OutOfBounds, Unsupported, WrongType
from .file import File
from .writer import Writer
from .xarray_conventions import AXES, GROUP, STEPS

if TYPE_CHECKING:
    from xarray import Dataset

# What a caller may choose for a variable.
_ENCODINGS = (
    "dtype", "_FillValue", "missing_value", "scale_factor", "add_offset", "_Unsigned", "units", "calendar",
    "coordinates", "grid_mapping", "bounds", "char_dim_name", "_Encoding", "transform",
)  # fmt: skip

# Encodings that values in one variable share.
_SHARED = ("_FillValue", "missing_value", "scale_factor", "add_offset", "_Unsigned", "units", "calendar", "dtype")

# Bytes of an array that are read from another file, or compressed, at a time.
_PIECE = 16 << 20

# Larger arrays are not compared with those of the file.
_COMPARED = 64 << 20

# Bytes in the writer's buffer after which they are written.
_BUFFERED = 64 << 20

# Larger blocks are written without being buffered, if they are not compressed.
_UNBUFFERED = 4 << 20


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
    exists = os.path.exists(path)
    nodes, tree = _nodes(data)
    mode = _mode(path, mode, exists, append_dim, region)
    if encoding is not None:
        encoding = {"/" + node.strip("/"): e for node, e in encoding.items()} if tree else {"/": encoding}
        if unknown := set(encoding) - set(nodes):
            raise NotFound(f"encoding= of groups that the tree does not have: {', '.join(sorted(unknown))}")
    file = File(path) if exists and mode in ("a", "u") else None
    known = _opened(path, tree) if file is not None else {}
    plan = _Plan(file, append_dim, dict(region or {}))
    for node, dataset in nodes.items():
        plan.add(node, dataset, known.get(node), (encoding or {}).get(node, {}))
    plan.check()
    group = file.groups[0] if file is not None and len(file.groups) == 1 else None
    if file is not None:
        file.close()
    with Writer(path, mode=mode, group=group, method=method, parameters=parameters) as writer:
        for name, value, of in plan.attributes:
            writer.attribute(name, value, of=of)
        output = _Output(writer)
        for stored in plan.variables:
            if not stored.is_chunked:
                for offset, piece in stored.pieces():
                    output.put(stored, offset, piece)
        _write_chunked([v for v in plan.variables if v.is_chunked], output)
        output.close()


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


def _opened(path: str, tree: bool) -> dict[str, Dataset]:
    """What the file holds, values not read."""
    from .xarray_backend import ThalwegBackend

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if tree:
            return ThalwegBackend().open_groups_as_dict(path)
        return {"/": ThalwegBackend().open_dataset(path)}


@dataclasses.dataclass
class _Stored:
    """A variable as the file gets it."""

    #: Name in the file.
    name: str
    dims: tuple[str, ...]
    #: An array of numpy or dask, a `_Lazy` one, or a text.
    values: Any
    attrs: dict[str, Any]
    transform: str | None
    #: Extents of the whole array, and where the values begin in it.
    shape: tuple[int, ...]
    origin: tuple[int, ...]

    @property
    def is_chunked(self) -> bool:
        return hasattr(self.values, "dask")

    @property
    def sizes(self) -> dict[str, int]:
        return dict(zip(self.dims, () if isinstance(self.values, str) else self.values.shape))

    def pieces(self) -> Iterator[tuple[tuple[int, ...], Any]]:
        """The values, with the offset of each piece: in one piece if they are in memory and not compressed."""
        if isinstance(self.values, str):
            yield (), self.values
        elif isinstance(self.values, np.ndarray) and (self.transform is None or self.values.ndim == 0):
            yield (0,) * self.values.ndim, self.values
        else:
            for key in _boxes(self.values.shape, self.values.dtype.itemsize):
                yield tuple(s.start for s in key), self.values[key]


class _Lazy:
    """Values that are not in memory: read, and encoded as CF, when they are indexed."""

    def __init__(self, name: str, variable: Any, encoding: dict[str, Any], dtype: np.dtype) -> None:
        self._name, self._variable, self._encoding = name, variable, encoding
        self.shape: tuple[int, ...] = variable.shape
        self.dtype = dtype

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __getitem__(self, key: Any) -> np.ndarray:
        from xarray import Variable, conventions

        piece = self._variable[key]
        encoded = Variable(piece.dims, piece.values, self._variable.attrs, self._encoding)
        return np.asarray(conventions.encode_cf_variable(encoded, name=self._name).values)


def _boxes(shape: tuple[int, ...], item: int) -> Iterator[tuple[slice, ...]]:
    """Boxes of at most `_PIECE` bytes that together are the array: whole along the fastest axes."""
    lengths = list(shape)
    for d in range(len(shape)):
        if item * math.prod(lengths) <= _PIECE:
            break
        lengths[d] = max(_PIECE // max(item * math.prod(lengths[d + 1 :]), 1), 1)
    starts = [range(0, n, step) if n else [0] for n, step in zip(shape, lengths)]
    for begin in itertools.product(*starts):
        yield tuple(slice(b, min(b + step, n)) for b, step, n in zip(begin, lengths, shape))


class _Plan:
    """What is written: encoded variables and attributes, compared with what the file holds."""

    def __init__(self, file: File | None, append_dim: str | None, region: dict[str, slice]) -> None:
        self._file = file
        self._append_dim = append_dim
        self._region = region
        self.variables: list[_Stored] = []
        #: Name, value, and the variable whose attribute it is.
        self.attributes: list[tuple[str, Any, str | None]] = []
        self._appended: set[str] = set()

    def add(self, node: str, dataset: Dataset, known: Dataset | None, encoding: Mapping[str, Mapping[str, Any]]) -> None:
        """A dataset, the one that the file holds at its place, and what the caller chose for its variables."""
        prefix = node.strip("/") + "/" if node != "/" else ""
        if self._region and known is None:
            raise NotFound(f"region=: the file has no group {node}")
        variables, attrs, lazy = _encoded(prefix, dataset, known, encoding)
        for name, variable in variables.items():
            held = self._known_file_variable(prefix + name)
            stored = _stored(prefix + name, variable, lazy.get(name), dataset, held)
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
            self.attributes.append((prefix + key, _attribute(key, value, f"the group {node}" if prefix else "the dataset"), None))
        if prefix and not variables and not attrs:
            self.attributes.append((prefix + GROUP, "", None))

    def check(self) -> None:
        """Whether the dimension of `append_dim` was found."""
        if self._append_dim is not None and self._file is not None and not self._appended:
            raise NotFound(f"append_dim={self._append_dim!r}: no variable of the file and the data has this dimension")

    def _known_file_variable(self, name: str) -> Any:
        return self._file[name] if self._file is not None and name in self._file else None

    def _new(self, stored: _Stored) -> None:
        if self._region:
            raise NotFound(f'region=: the file has no variable "{stored.name}"', variable=stored.name)
        if self._file is not None and self._append_dim in stored.dims:
            what = f'"{stored.name}" is not in the file, so it cannot be appended along {self._append_dim!r}'
            raise NotFound(what, variable=stored.name)
        self.variables.append(stored)
        self.attributes.append((STEPS, "", stored.name))
        for key, value in stored.attrs.items():
            if key in (AXES, STEPS):
                raise InvalidArgument(f'"{stored.name}": the attribute {key} is one of the library', variable=stored.name)
            self.attributes.append((key, _attribute(key, value, f'"{stored.name}"'), stored.name))

    def _change(self, stored: _Stored, values: Any, known: Dataset, short: str) -> None:
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
        element = "string" if isinstance(stored.values, str) else dtypes.name_of(stored.values.dtype, name)
        if element != held.type:
            raise WrongType(f'"{name}" is {held.type} in the file, {element} in the data', variable=name)
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
            what = f'"{name}" was appended along {along!r}; append_dim={along!r} appends more, mode="w" writes a new file'
            raise Unsupported(what, variable=name)
        elif stored.is_chunked or values.nbytes > _COMPARED or not values.equals(known.variables[short]):
            self.variables.append(stored)

    def _place(self, stored: _Stored, held: Any, known: Dataset) -> None:
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
                what = f'"{name}" of the file has the dimension {self._append_dim!r}, and the data have no such variable'
                raise NotFound(what, variable=name)
            sizes.update((str(dim), (n, name)) for dim, n in variable.sizes.items())
        for stored in written.values():
            for dim, n in stored.sizes.items():
                other = sizes.get(dim)
                if stored.name.startswith(prefix) and dim != self._append_dim and other is not None and other[0] != n:
                    what = f'"{stored.name}" has {n} elements along {dim!r}, "{other[1]}" of the file {other[0]}'
                    raise InvalidArgument(what, variable=stored.name)


def _encoded(
    prefix: str, dataset: Dataset, known: Dataset | None, encoding: Mapping[str, Mapping[str, Any]]
) -> tuple[dict[str, Any], dict[str, Any], dict[str, _Lazy]]:
    """Variables and attributes as CF, by xarray itself, and the values that are encoded when they are read."""
    from xarray import conventions

    for name, variable in dataset.variables.items():
        full = _name(name, prefix)
        for dim in variable.dims:
            if not isinstance(dim, str):
                raise InvalidArgument(f'"{full}": names of dimensions are str, not {dim!r}', variable=full)
        if not isinstance(variable.dtype, np.dtype):
            what = f'"{full}": {variable.dtype} has no type in BP files; write .astype of a type of numpy'
            raise WrongType(what, variable=full)
        if name in dataset.coords and name not in dataset.dims and any(c.isspace() for c in str(name)):
            raise InvalidArgument(f'"{full}": names of coordinates have no spaces', variable=full)
    for name in encoding:
        if name not in dataset.variables:
            raise NotFound(f'encoding= of "{prefix}{name}", which is not in the data', variable=f"{prefix}{name}")
    variables, attrs = conventions.encode_dataset_coordinates(dataset)
    for name, variable in variables.items():
        _choose(prefix + name, name, variable, known, encoding.get(name))
    # Variables that are not in memory are encoded without values, as xarray would read them.
    lazy = {n: v for n, v in variables.items() if v.dtype.kind in "iufcb" and _is_lazy(v)}
    variables |= {n: _without_values(v) for n, v in lazy.items()}
    encodings = {n: dict(v.encoding) for n, v in lazy.items()}
    try:
        made, attrs = conventions.cf_encoder(variables, attrs)
        return made, attrs, {n: _Lazy(n, v, encodings[n], made[n].dtype) for n, v in lazy.items()}
    except Exception as e:
        for name, variable in variables.items():
            try:
                conventions.encode_cf_variable(variable, name=name)
            except Exception as cause:
                raise WrongType(f'"{prefix}{name}": {cause}', variable=f"{prefix}{name}") from cause
        raise WrongType(str(e)) from e


def _choose(full: str, name: str, variable: Any, known: Dataset | None, chosen: Mapping[str, Any] | None) -> None:
    """Sets a variable's encoding: the file's, or the caller's before the one that it came with."""
    held = known is not None and name in known.variables
    if held and chosen:
        raise InvalidArgument(f'encoding= of "{full}", which the file has an encoding for', variable=full)
    if unknown := set(chosen or ()) - set(_ENCODINGS):
        what = f'"{full}": encoding= with {", ".join(sorted(unknown))}; known are {", ".join(_ENCODINGS)}'
        raise InvalidArgument(what, variable=full)
    made = {k: v for k, v in variable.encoding.items() if k in _ENCODINGS}
    if held and known is not None:
        there = known.variables[name]
        own = {k: v for k, v in made.items() if k in ("coordinates", "grid_mapping", "bounds")}
        made = {k: v for k, v in there.encoding.items() if k in _ENCODINGS and k != "coordinates"} | own
        if made.get("dtype") == there.dtype:
            # The values are in the file as they are: another type is refused, not converted.
            made.pop("dtype")
    made.update(chosen or {})
    dtype = made.get("dtype")
    if _is_text(variable):
        for key in ("dtype", "_FillValue", "missing_value"):
            if key in (chosen or {}) and not (key == "dtype" and dtype in (str, "S1")):
                raise InvalidArgument(f'"{full}": encoding= with {key} of texts', variable=full)
            made.pop(key, None)
    elif dtype is not None:
        if dtype is str or np.dtype(dtype).kind in "OSUT":
            made.pop("dtype")
        elif np.dtype(dtype).metadata:
            # Types of netCDF, such as enumerations.
            made["dtype"] = np.dtype(np.dtype(dtype).str)
    if np.issubdtype(variable.dtype, np.floating) and "_FillValue" not in variable.attrs:
        # NaN needs no fill value.
        made.setdefault("_FillValue", None)
    variable.encoding = made


def _is_lazy(variable: Any) -> bool:
    from xarray.core import indexing

    data = variable._data
    return isinstance(data, indexing.ExplicitlyIndexed) and not isinstance(data, indexing.PandasIndexingAdapter)


def _without_values(variable: Any) -> Any:
    from xarray import Variable

    return Variable(variable.dims, np.zeros((0,) * variable.ndim, variable.dtype), variable.attrs, variable.encoding)


def _is_text(variable: Any) -> bool:
    """Whether the values are texts: objects may be dates."""
    if variable.dtype.kind != "O":
        return variable.dtype.kind in "SUT"
    if variable.size == 0:
        return True
    first = variable[(0,) * variable.ndim].values.item()
    return isinstance(first, (str, bytes))


def _stored(name: str, variable: Any, lazy: _Lazy | None, dataset: Dataset, held: Any) -> _Stored:
    """A variable that was encoded as CF, as the file gets it."""
    attrs = {k: v for k, v in variable.attrs.items() if v is not None or k != "_FillValue"}
    dims, transform = tuple(map(str, variable.dims)), variable.encoding.get("transform")
    if variable.dtype.kind in "OSUT":
        width = held.shape_at(-1)[-1] if held is not None and held.type == "char" else None
        values, is_unicode = _characters(name, variable.values, width)
        if isinstance(values, str):
            return _Stored(name, dims, values, attrs, None, (), ())
        if is_unicode:
            attrs["_Encoding"] = "utf-8"
        dims = (*dims, _axis_of_characters(variable, values.shape[-1], dataset))
    else:
        dtypes.name_of(variable.dtype, name)
        values = lazy[...] if lazy is not None and lazy.ndim == 0 else lazy or _source(name, variable)
    return _Stored(name, dims, values, attrs, transform, tuple(values.shape), (0,) * len(dims))


def _axis_of_characters(variable: Any, width: int, dataset: Dataset) -> str:
    made = f"string{width}"
    wanted = variable.encoding.get("char_dim_name")
    if isinstance(wanted, str) and (wanted.endswith(str(width)) or not wanted[-1:].isdigit()):
        made = wanted
    while made in dataset.dims or made in dataset.variables:
        made += "_"
    return made


def _characters(name: str, values: Any, width: int | None) -> tuple[Any, bool]:
    """Texts as an array of characters with one more axis, of `width` if it is given, and whether they are `str`. A
    single `str` is a text of the file."""
    values = np.asarray(values, object if values.dtype.kind == "T" else None)
    texts = values.ravel().tolist()
    is_unicode = values.dtype.kind == "U" or (values.dtype.kind == "O" and not any(isinstance(t, bytes) for t in texts))
    kind = str if is_unicode else bytes
    for text in texts:
        if not isinstance(text, kind):
            hint = "; .fillna fills missing texts" if text is None or text != text else ""
            what = f'"{name}" has {text!r} ({type(text).__name__}) among its values, not only {kind.__name__}'
            raise WrongType(what + hint, variable=name)
    if is_unicode and values.ndim == 0:
        return texts[0], True
    try:
        encoded = [t.encode("utf-8") for t in texts] if is_unicode else texts
    except UnicodeEncodeError as e:
        raise WrongType(f'"{name}": {e}', variable=name) from None
    if any(t.endswith(b"\0") for t in encoded):
        raise WrongType(f'"{name}" has texts that end with a zero character', variable=name)
    longest = max((len(t) for t in encoded), default=0)
    if width is not None and longest > width:
        what = f'"{name}" has texts of {longest} bytes, and the file holds {width} of each'
        raise WrongType(what, variable=name)
    width = width or max(longest, 1)
    made = np.array(encoded, f"S{width}").reshape(values.shape)
    return made.reshape(*made.shape, 1).view("S1"), is_unicode


def _source(name: str, variable: Any) -> Any:
    """The values: a dask array, or an array of numpy."""
    data = variable._data
    if hasattr(data, "dask"):
        if any(n != n for n in data.shape):
            raise WrongType(f'"{name}" has chunks of unknown size; .compute_chunk_sizes() finds them', variable=name)
        return data if data.ndim else np.asarray(data)
    try:
        return np.asarray(variable.to_numpy())
    except Exception as e:
        raise WrongType(f'"{name}": no array of numpy: {e}', variable=name) from e


def _name(name: Any, prefix: str) -> str:
    if not isinstance(name, str) or not name or name != name.strip("/") or "//" in name:
        raise InvalidArgument(f"names of variables are str without slashes at their ends, not {name!r}")
    return prefix + name


def _attribute(key: Any, value: Any, owner: str) -> Any:
    """An attribute's value, if a file can hold it."""
    if not isinstance(key, str) or not key or "/" in key:
        raise InvalidArgument(f"{owner}: names of attributes are str without slashes, not {key!r}")

    def refuse(why: str) -> NoReturn:
        variable = owner.strip('"') if owner.startswith('"') else None
        raise WrongType(f'{owner}: the attribute "{key}" {why}', variable=variable)

    if isinstance(value, np.ndarray) and value.dtype.kind in "OSUT":
        value = value.tolist()
    if isinstance(value, (str, bytes)):
        return value
    if isinstance(value, (list, tuple)) and value and all(isinstance(v, (str, bytes)) for v in value):
        return list(value)
    try:
        made = np.asarray(value)
    except ValueError:
        refuse("is no list of numbers")
    if made.dtype.kind not in "biufc":
        refuse(f"has a value of type {type(value).__name__}; known are numbers, texts, and lists of them")
    if made.ndim > 1 or made.size == 0:
        refuse(f"has {made.ndim} axes" if made.ndim > 1 else "has no value")
    if made.dtype.kind != "b":
        try:
            dtypes.name_of(made.dtype, key)
        except WrongType as e:
            refuse(f"cannot be held: {e.what}")
    return made


def _same(a: Any, b: Any) -> bool:
    """Whether two attributes mean the same: xarray writes the dates of units in several forms."""
    if a is None or b is None:
        return a is b
    if isinstance(a, str) and isinstance(b, str):
        return _plain_units(a) == _plain_units(b)
    return bool(np.array_equal(np.asarray(a), np.asarray(b), equal_nan=True))


def _plain_units(text: str) -> str:
    unit, since, date = text.partition(" since ")
    return unit + since + date.replace("T", " ").removesuffix(" 00:00:00") if since else text


class _Output:
    """An open step that gets blocks, from any thread."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._step = writer.step()
        self._buffered = 0
        self._lock = threading.Lock()

    def put(self, stored: _Stored, offset: Sequence[int], values: Any) -> None:
        """Writes a block. `offset` is its place in the values."""
        with self._lock:
            if isinstance(values, str) or not stored.shape:
                self._step[stored.name] = values
                return
            # Chunks of dask may have another type than their array says.
            values = np.asarray(values, stored.values.dtype)
            self._step.write(
                stored.name,
                values,
                shape=stored.shape,
                offset=[o + n for o, n in zip(stored.origin, offset)],
                dims=stored.dims,
                transform=stored.transform,
            )
            if stored.transform is not None or values.nbytes < _UNBUFFERED:
                self._buffered += values.nbytes
            if self._buffered > _BUFFERED:
                self._buffered = 0
                self._step.close()
                self._step = self._writer._more()

    def close(self) -> None:
        self._step.close()


class _Target:
    """What dask stores a variable's chunks in."""

    def __init__(self, stored: _Stored, output: _Output) -> None:
        self._stored, self._output = stored, output

    def __setitem__(self, key: tuple[slice, ...], values: Any) -> None:
        self._output.put(self._stored, [s.start or 0 for s in key], values)


def _write_chunked(variables: list[_Stored], output: _Output) -> None:
    """Computes and writes the chunks of dask arrays; what several chunks need is computed once."""
    if not variables:
        return
    import dask
    import dask.array
    import dask.base
    import dask.local
    import dask.threaded

    arrays = [v.values for v in variables]
    get = dask.base.get_scheduler(collections=arrays)
    if get in (None, dask.threaded.get, dask.local.get_sync):
        dask.array.store(arrays, [_Target(v, output) for v in variables], lock=False)
        return
    # Other processes compute: their results are written here, as they come.
    blocks = [(v, offset, block) for v in variables for offset, block in _blocks(v.values)]
    client = getattr(get, "__self__", None)
    if client is not None and hasattr(client, "compute"):
        for number, values in _as_computed(client, [b for _, _, b in blocks]):
            output.put(blocks[number][0], blocks[number][1], values)
        return
    while blocks:
        size, some = 0, []
        while blocks and size <= _BUFFERED:
            some.append(blocks.pop(0))
            size += some[-1][2].nbytes
        for (stored, offset, _), values in zip(some, dask.compute(*(b for _, _, b in some))):
            output.put(stored, offset, values)


def _blocks(array: Any) -> Iterator[tuple[tuple[int, ...], Any]]:
    """The chunks of a dask array as arrays, with their offsets."""
    starts = [[0, *itertools.accumulate(c)][:-1] for c in array.chunks]
    for index in itertools.product(*(range(len(c)) for c in array.chunks)):
        yield tuple(s[i] for s, i in zip(starts, index)), array.blocks[index]


def _as_computed(client: Any, blocks: Iterable[Any]) -> Iterator[tuple[int, Any]]:
    """Results of a cluster, in the order in which they are ready; the cluster forgets those that were written."""
    from distributed import as_completed

    futures = client.compute(list(blocks))
    numbers: dict[Any, list[int]] = {}
    for number, future in enumerate(futures):
        numbers.setdefault(future.key, []).append(number)
    waiting = as_completed(futures)
    del futures
    for future in waiting:
        values = future.result()
        for number in numbers.pop(future.key, ()):
            yield number, values
        future.release()
