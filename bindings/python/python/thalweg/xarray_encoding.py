"""Variables of datasets as a file gets them: encoded as CF by xarray itself, then texts as characters; checked before
anything is written."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from . import dtypes
from .errors import InvalidArgument, NotFound, WrongType

if TYPE_CHECKING:
    from xarray import Dataset

# What a caller may choose for a variable.
_ENCODINGS = (
    "dtype", "_FillValue", "missing_value", "scale_factor", "add_offset", "_Unsigned", "units", "calendar",
    "coordinates", "grid_mapping", "bounds", "char_dim_name", "_Encoding", "transform",
)  # fmt: skip

# Bytes of an array that are read from another file, or compressed, at a time.
_PIECE = 16 << 20


@dataclasses.dataclass
class Stored:
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
    def element(self) -> str:
        """Its type in the file."""
        return "string" if isinstance(self.values, str) else dtypes.name_of(self.values.dtype, self.name)

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


def encoded(
    prefix: str,
    dataset: Dataset,
    known: Dataset | None,
    encoding: Mapping[str, Mapping[str, Any]],
    widths: Mapping[str, int],
) -> tuple[dict[str, Stored], dict[str, Any]]:
    """The variables of a dataset, and its attributes.

    - `prefix`: of names in the file.
    - `known`: the dataset that the file holds; its variables keep their encodings.
    - `encoding`: what the caller chose, by variable.
    - `widths`: bytes of each text, of variables of the file that are texts.
    """
    _check(prefix, dataset)
    for name in encoding:
        if name not in dataset.variables:
            raise NotFound(f'encoding= of "{prefix}{name}", which is not in the data', variable=f"{prefix}{name}")
    variables, attrs, lazy = _as_cf(prefix, dataset, known, encoding)
    made = {n: _stored(prefix + n, v, lazy.get(n), dataset, widths.get(n)) for n, v in variables.items()}
    return made, attrs


def _check(prefix: str, dataset: Dataset) -> None:
    """Names and types."""
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


def _as_cf(
    prefix: str, dataset: Dataset, known: Dataset | None, encoding: Mapping[str, Mapping[str, Any]]
) -> tuple[dict[str, Any], dict[str, Any], dict[str, _Lazy]]:
    """Variables and attributes as CF, by xarray itself, and the values that are encoded when they are read."""
    from xarray import conventions

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


def _stored(name: str, variable: Any, lazy: _Lazy | None, dataset: Dataset, width: int | None) -> Stored:
    """A variable that was encoded as CF, as the file gets it."""
    attrs = {k: v for k, v in variable.attrs.items() if v is not None or k != "_FillValue"}
    dims, transform = tuple(map(str, variable.dims)), variable.encoding.get("transform")
    if variable.dtype.kind in "OSUT":
        values, is_unicode = _characters(name, variable.values, width)
        if isinstance(values, str):
            return Stored(name, dims, values, attrs, None, (), ())
        if is_unicode:
            attrs["_Encoding"] = "utf-8"
        dims = (*dims, _axis_of_characters(variable, values.shape[-1], dataset))
    else:
        dtypes.name_of(variable.dtype, name)
        values = lazy[...] if lazy is not None and lazy.ndim == 0 else lazy or _source(name, variable)
    return Stored(name, dims, values, attrs, transform, tuple(values.shape), (0,) * len(dims))


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


def attribute(key: Any, value: Any, owner: str) -> Any:
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
