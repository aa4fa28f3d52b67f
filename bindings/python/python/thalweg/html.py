"""Overviews of files and variables for terminals and notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .file import File
    from .variable import Variable

# Joining the characteristics of more blocks takes too long for an overview.
GLANCE = 20_000
# Largest number of rows.
ROWS = 200

_STYLE = (
    "border-collapse:collapse;font-size:90%",
    "text-align:left;padding:2px 10px;border-bottom:1px solid rgba(128,128,128,.6);font-weight:600",
    "text-align:left;padding:2px 10px;border-bottom:1px solid rgba(128,128,128,.2);vertical-align:top",
)


def number(value: Any) -> str:
    """A number, formatted for a table."""
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, complex):
        return f"{value.real:.6g}{value.imag:+.6g}j"
    return str(value)


def size(n: float) -> str:
    """A number of bytes in a suitable unit."""
    for unit in ("bytes", "KiB", "MiB", "GiB", "TiB"):
        if n < 1024 or unit == "TiB":
            return f"{n:.0f} {unit}" if unit == "bytes" else f"{n:.1f} {unit}"
        n /= 1024
    return ""


def printable(text: str) -> str:
    """A name or other text from a file, with escapes for control and invisible characters."""
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def short(value: Any, most: int = 60) -> str:
    """A value on one line, truncated if it is long."""
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    text = printable(" ".join(text.split()))
    return text if len(text) <= most else text[: most - 3] + "..."


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    table, th, td = _STYLE
    top = "".join(f'<th style="{th}">{escape(h)}</th>' for h in head)
    body = "".join("<tr>" + "".join(f'<td style="{td}">{escape(c)}</td>' for c in row) + "</tr>" for row in rows)
    return f'<table style="{table}"><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>'


def _bounds(v: Variable) -> tuple[str, str]:
    """Smallest and largest value, or the last value of a text or scalar."""
    if v.is_text:
        return (short(v[-1]), "") if v.kind == "scalar" and v.steps else ("", "")
    if v.block_count > GLANCE:
        return "", ""
    c = v.characteristics()
    if c.magnitude is not None:
        return f"|{number(c.magnitude[0])}|", f"|{number(c.magnitude[1])}|"
    return ("" if c.min is None else number(c.min)), ("" if c.max is None else number(c.max))


def _rows(f: File) -> list[list[str]]:
    rows = []
    for name in list(f)[:ROWS]:
        try:
            v = f[name]
            low, high = _bounds(v)
            rows.append([printable(name), v.type, v._layout(), str(len(v)), str(v.block_count), low, high])
        except Exception as e:  # damage must not hide the rest of the file
            rows.append([printable(name), "?", short(e), "", "", "", ""])
    return rows


_HEAD = ["variable", "type", "shape", "steps", "blocks", "min", "max"]


def _title(f: File) -> str:
    s = f.status
    parts = [f"{s.steps} steps", f"{len(f)} variables", f"{len(f.attrs)} attributes"]
    if s.writers:
        parts.append(f"{s.writers} ranks")
    if s.partial:
        parts.append(f"{len(s.partial)} steps partial")
    if not s.finished:
        parts.append("not closed for good")
    return ", ".join(parts)


def text_of_file(f: File) -> str:
    """The overview as text."""
    rows = [_HEAD, *_rows(f)]
    widths = [max(len(r[c]) for r in rows) for c in range(len(_HEAD))]
    lines = ["  ".join(cell.ljust(w) for cell, w in zip(row, widths)).rstrip() for row in rows]
    more = len(f) - (len(rows) - 1)
    if more > 0:
        lines.append(f"... and {more} more")
    return "\n".join([f"<thalweg.File {f.path!r}: {_title(f)}>", *("  " + line for line in lines)])


def note(text: str) -> str:
    """A line for a notebook."""
    return f"<p>{escape(text)}</p>"


def attributes(attrs: Mapping[str, Any]) -> str:
    """Attributes as a table."""
    return _table(["attribute", "value"], ([printable(name), short(attrs[name], 200)] for name in list(attrs)[:ROWS]))


def file(f: File) -> str:
    """The overview for a notebook."""
    more = f"<p>... and {len(f) - ROWS} more</p>" if len(f) > ROWS else ""
    opened = " open" if len(f.attrs) <= 10 else ""
    attrs = (
        f"<details{opened}><summary>{len(f.attrs)} attributes</summary>{attributes(f.attrs)}</details>" if f.attrs else ""
    )
    return f"<div><p><b>{escape(printable(f.path))}</b><br/>{escape(_title(f))}</p>{_table(_HEAD, _rows(f))}{more}{attrs}</div>"


def variable(v: Variable) -> str:
    """A variable for a notebook."""
    rows = [["type", f"{v.type} ({v.dtype})"], ["kind", v.kind], ["shape", str(v.shape)]]
    if len(v.steps) and v.steps != tuple(range(len(v.steps))):
        rows.append(["steps", short(list(v.steps))])
    if v.dims:
        rows.append(["axes", ", ".join(("step", *v.dims))])
    if not v.is_text:
        rows.append(["size", size(v.nbytes)])
    grid = v.chunks if v.block_count <= GLANCE else None
    rows.append(["blocks", f"{v.block_count}" + (f", {' x '.join(str(len(c)) for c in grid)} per step" if grid else "")])
    if v.transform:
        rows.append(["transform", v.transform])
    if v.block_count <= GLANCE and not v.is_text:
        c = v.characteristics()
        if c.errors is not None and c.errors.blocks:
            lossless = f", {c.errors.lossless} of {c.errors.blocks} blocks lossless" if c.errors.lossless else ""
            rows.append(["errors", f"at most {number(c.errors.largest)}{lossless}"])
        known = [(k, getattr(c, k)) for k in ("min", "max", "mean", "std", "magnitude", "real", "imag")]
        rows += [[k, number(x) if not isinstance(x, tuple) else " to ".join(map(number, x))] for k, x in known if x is not None]
    elif v.is_text and v.steps and v.kind == "scalar":
        rows.append(["last value", short(v[-1], 200)])
    attrs = attributes(v.attrs) if v.attrs else ""
    return f"<div><p><b>{escape(printable(v.name))}</b> in {escape(printable(v._file.path))}</p>{_table(['', ''], rows)}{attrs}</div>"
