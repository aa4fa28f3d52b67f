"""Sends the library's warnings to Python's ``logging``, logger ``thalweg``.

A thread of the library delivers them: a handler may run during a call of Thalweg. ``THALWEG_LOG`` sets the library's
level (``off``, ``warn``, ``info``, ``debug``).
"""

from __future__ import annotations

import atexit
import logging

from . import _core

_logger = logging.getLogger("thalweg")


def _tell(level: int, text: str) -> None:
    _logger.log(level, "%s", text)


_core.hear_messages(_tell)
atexit.register(_core.flush_messages)
