"""A group described in code instead of XML."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from . import _core, dtypes, html
from .errors import WrongType

Extent = int | str


@dataclasses.dataclass(frozen=True)
class _Array:
    name: str
    type: str
    count: tuple[Extent, ...]
    shape: tuple[Extent, ...]
    offset: tuple[Extent, ...]
    statistics: str | None
    transform: str | None


class Schema:
    """The variables and attributes of one group, and its method. Equivalent to a group in XML.

        schema = thalweg.Schema("heat", method="MPI")
        schema.scalar("time", "float64")
        schema.array("T", "float64", count=("rows", "nx"), shape=("ny", "nx"), offset=("first", 0))
        schema.attribute("units", "K", of="T")

    Names in extents are integer scalars of the group; undeclared ones are declared as `int64` at their first use.

    - `statistics`: the statistics of arrays without a choice of their own: `full`, `default` (as `full`, but other
      libraries see minimum and maximum only), `minmax` or `off`.
    - `method`, `parameters`: as in XML (docs/guide/methods.md), parameters as `key=value;key=value`.
    """

    def __init__(self, group: str, *, method: str = "MPI", parameters: str = "", statistics: str = "full") -> None:
        self.group = group
        self.method = method
        self.parameters = parameters
        self.statistics = statistics
        self._variables: list[_Array] = []
        self._attributes: list[tuple[str, Any]] = []
        self._from: list[tuple[str, str]] = []

    def scalar(self, name: str, dtype: DTypeLike) -> Schema:
        """Declares a number; `str` for a text."""
        return self._add(name, dtype, (), (), (), None, None)

    def text(self, name: str) -> Schema:
        """Declares a text."""
        return self._add(name, str, (), (), (), None, None)

    def array(
        self,
        name: str,
        dtype: DTypeLike,
        *,
        count: Sequence[Extent] | Extent,
        shape: Sequence[Extent | None] | Extent | None = (),
        offset: Sequence[Extent] | Extent = (),
        dims: Sequence[str] | None = None,
        statistics: str | None = None,
        transform: str | None = None,
    ) -> Schema:
        """Declares an array, slowest dimension first: a global array with `shape` and `offset`, else a local array.

        - `count`: extents of the block of one rank: numbers, names of scalars, or expressions of them (`"2*nx+1"`).
        - `shape`, `offset`: extents of the whole array, and the block's first element in it. One extent of `None`: a
          joined array along that axis, in the order of the ranks.
        - `dims`: names of the axes, stored in the file for xarray (attribute `_ARRAY_DIMENSIONS`).
        - `transform`: as in XML, `"zlib:5"`.
        """
        whole, start = _extents(shape), _extents(offset)
        if whole and not start:
            start = (0,) * len(whole)
        self._add(name, dtype, _extents(count), whole, start, statistics, transform)
        if dims is not None:
            self.attribute("_ARRAY_DIMENSIONS", [str(d) for d in dims], of=name)
        return self

    def attribute(self, name: str, value: Any, of: str | None = None) -> Schema:
        """Declares an attribute: a number, a text, or several of them; `of` a variable, else of the file."""
        self._attributes.append((f"{of}/{name}" if of else name, value))
        return self

    def attribute_from(self, name: str, variable: str, of: str | None = None) -> Schema:
        """Declares an attribute with the value of a scalar."""
        self._from.append((f"{of}/{name}" if of else name, variable))
        return self

    def _add(
        self,
        name: str,
        dtype: DTypeLike,
        count: tuple[Extent, ...],
        shape: tuple[Extent, ...],
        offset: tuple[Extent, ...],
        statistics: str | None,
        transform: str | None,
    ) -> Schema:
        element = "string" if dtype is str else dtypes.name_of(dtype, name)
        for extent in (*count, *shape, *offset):
            known = any(v.name == extent for v in self._variables)
            if isinstance(extent, str) and extent.isidentifier() and extent != "JoinedDim" and not known:
                self._variables.append(_Array(extent, "long long", (), (), (), None, None))
        self._variables.append(_Array(name, element, count, shape, offset, statistics, transform))
        return self

    def _declare(self, session: _core.Session) -> None:
        session.declare(self.group, self.statistics)
        for v in self._variables:
            count, shape, offset = (",".join(map(str, e)) for e in (v.count, v.shape, v.offset))
            statistics = statistics_of(v.type, v.statistics)
            session.define_variable(self.group, v.name, v.type, count, shape, offset, statistics, v.transform)
        for name, value in self._attributes:
            define_attribute(session, self.group, name, value)
        for name, variable in self._from:
            session.define_attribute_from(self.group, name, variable)
        session.select_method(self.group, self.method, self.parameters, "")

    def __repr__(self) -> str:
        lines = [f"<thalweg.Schema {self.group!r}, method {self.method}>"]
        for v in self._variables:
            lists = [", ".join(map(str, e)) for e in (v.count, v.shape, v.offset)]
            place = f"  [{lists[0]}]" if v.count else ""
            place += f" of [{lists[1]}] at [{lists[2]}]" if v.shape else ""
            lines.append(f"  {html.printable(v.name)}: {v.type}{place}{'  ' + v.transform if v.transform else ''}")
        lines += [f"  {html.printable(name)} = {html.short(value)}" for name, value in self._attributes]
        return "\n".join(lines)


def _extents(given: Sequence[Extent | None] | Extent | None) -> tuple[Extent, ...]:
    if given is None or isinstance(given, (int, str, np.integer)):
        given = (given,)
    return tuple("JoinedDim" if e is None else e if isinstance(e, str) else int(e) for e in given)


def statistics_of(element: str, wanted: str | None) -> str | None:
    """Characters have no statistics."""
    return "off" if element == "char" else wanted


def define_attribute(session: _core.Session, group: str, name: str, value: Any) -> None:
    """Declares an attribute with the type of its value."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if isinstance(value, (str, bytes)):
        session.define_text_attribute(group, name, [_encoded(value)], False)
        return
    if isinstance(value, (list, tuple, np.ndarray)) and len(value) > 0 and isinstance(value[0], (str, bytes)):
        session.define_text_attribute(group, name, [_encoded(v) for v in value], True)
        return
    values = np.atleast_1d(np.asarray(value)).reshape(-1)
    if values.dtype == bool:
        values = values.astype(np.int8)
    if values.dtype == object:
        raise WrongType(f'attribute "{name}": a value of type {type(value).__name__}', variable=name)
    element = dtypes.name_of(values.dtype, name)
    values = np.ascontiguousarray(values, values.dtype.newbyteorder("="))
    session.define_attribute(group, name, element, values.view(np.uint8))


def _encoded(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode("utf-8", "surrogateescape")
