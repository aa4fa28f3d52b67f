"""`import thalweg.xarray` gives datasets of xarray the accessor `thalweg`: `ds.thalweg.to_bp("run.bp")`.

The engine `thalweg` also registers it, with the first file that it opens.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import xarray

from .xarray_writing import from_xarray


class Accessor:
    """`to_bp` of a dataset, array or tree."""

    def __init__(self, data: Any) -> None:
        self._data = data

    def to_bp(
        self,
        path: str | os.PathLike[str],
        *,
        mode: str | None = None,
        append_dim: str | None = None,
        region: Mapping[str, slice] | None = None,
        encoding: Mapping[str, Mapping[str, Any]] | None = None,
        method: str = "MPI",
        parameters: str = "",
    ) -> None:
        """Writes the data to a BP file; arguments as for `thalweg.from_xarray`."""
        from_xarray(
            self._data,
            path,
            mode=mode,
            append_dim=append_dim,
            region=region,
            encoding=encoding,
            method=method,
            parameters=parameters,
        )


for _register in ("register_dataset_accessor", "register_dataarray_accessor", "register_datatree_accessor"):
    # Trees came with xarray 2024.10.
    if hasattr(xarray, _register):
        getattr(xarray, _register)("thalweg")(Accessor)
