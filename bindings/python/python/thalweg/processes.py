"""Ranks without MPI: processes that meet in a folder."""

from __future__ import annotations

import os

from . import _core


class Processes:
    """Processes of one machine without MPI, which meet in a folder; in place of a communicator of mpi4py. Collective.

    - `folder`: an existing folder that only this user may write to.
    - `rank`, `size`: this process, from 0, and the number of processes.
    - `within`: longest wait for the others, in seconds.
    """

    def __init__(self, folder: str | os.PathLike[str], rank: int, size: int, *, within: float = 60.0) -> None:
        self._ranks = _core.Ranks.meet(os.fspath(folder), rank, size, within)

    @property
    def rank(self) -> int:
        """This process, from 0."""
        return self._ranks.rank

    @property
    def size(self) -> int:
        """Number of processes."""
        return self._ranks.size
