"""Attributes and names with which a file holds datasets of xarray: shared by reading and writing.

| attribute of a variable | meaning |
|---|---|
| `_ARRAY_DIMENSIONS` | names of the axes, as in Zarr |
| `_STEP_DIMENSION` = `""` | the variable has no dimension of steps: its value is that of the last step in which it was written |
| `_STEP_DIMENSION` = one of its axes | each step extends this axis |
| `_STEP_DIMENSION` = another name | the dimension of the steps has this name |

Slashes in names separate groups: the variable `a/b/v` is `v` in the group `/a/b`. An attribute `_GROUP` marks a group
without variables and attributes.
"""

from __future__ import annotations

AXES = "_ARRAY_DIMENSIONS"
STEPS = "_STEP_DIMENSION"
GROUP = "_GROUP"


def node_of(name: str) -> tuple[str, str]:
    """The path of a variable's or attribute's group, and its name there."""
    path, _, short = name.strip("/").rpartition("/")
    return f"/{path}", short


def parents(name: str) -> list[str]:
    """The paths of the groups that contain a variable or attribute, without the root."""
    parts = name.strip("/").split("/")[:-1]
    return ["/" + "/".join(parts[: n + 1]) for n in range(len(parts))]
