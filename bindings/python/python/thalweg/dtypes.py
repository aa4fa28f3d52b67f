"""BP's element types as numpy dtypes."""

from __future__ import annotations

import numpy as np
from numpy.typing import DTypeLike

from .errors import Unsupported, WrongType

_NUMBERS: dict[str, str] = {
    "byte": "i1",
    "short": "i2",
    "integer": "i4",
    "long long": "i8",
    "unsigned byte": "u1",
    "unsigned short": "u2",
    "unsigned integer": "u4",
    "unsigned long long": "u8",
    "real": "f4",
    "double": "f8",
    "complex": "c8",
    "double complex": "c16",
    "char": "S1",
}

_DTYPES: dict[str | None, np.dtype] = {name: np.dtype(code) for name, code in _NUMBERS.items()}
_NAMES: dict[np.dtype, str] = {dtype: str(name) for name, dtype in _DTYPES.items()}

_LONG_DOUBLE = np.dtype(np.longdouble) if np.dtype(np.longdouble).itemsize == 16 else np.dtype("V16")


def of(name: str | None, variable: str) -> np.dtype:
    """The dtype of an element type; for texts `object` (`str`)."""
    if name in _DTYPES:
        return _DTYPES[name]
    if name == "string":
        return np.dtype(object)
    if name == "long double":
        return _LONG_DOUBLE
    raise Unsupported(f'"{variable}" has a type that numpy has none for', variable=variable)


def name_of(dtype: DTypeLike, variable: str) -> str:
    """The element type for numbers of a dtype.

    Raises `WrongType` for dtypes without a BP type; the message names an alternative.
    """
    given = np.dtype(dtype)
    native = given.newbyteorder("=")
    if native in _NAMES:
        return _NAMES[native]
    if native == _LONG_DOUBLE and native.kind == "f":
        return "long double"
    hint = {
        "b": 'there is no bool in BP files; write .astype("uint8")',
        "U": "texts are written one by one, as str; several make an attribute, or an array of characters (S1)",
        "S": "texts are written one by one, as str; several make an attribute, or an array of characters (S1)",
        "O": "objects have no type of numbers",
        "M": 'write .astype("int64") and the unit as an attribute',
        "m": 'write .astype("int64") and the unit as an attribute',
        "V": "write each field by itself",
    }.get(given.kind, 'write .astype("float32") or another type of numbers' if given.kind == "f" else "")
    raise WrongType(f'"{variable}": {given} has no type in BP files; {hint}'.rstrip("; "), variable=variable)
