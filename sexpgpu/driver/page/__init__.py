"""One self-contained page that shows a compilation stage by stage: `sexpgpu passes --html`.

The page asks for nothing from outside. Its data are templates of lines, shared by all stages and graphs, and for every
distinct function the numbers of its lines' templates, places and values; deflated, then written in base 64.
"""

from __future__ import annotations

import base64
import html
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Generic, TypeVar

from attrs import define, field

from sexpgpu.diag.strict import json_text
from sexpgpu.driver.printed import Function, Line, Place
from sexpgpu.driver.stages import Row, Stage

HERE = Path(__file__).resolve().parent
SCRIPTS = ("data.js", "diff.js", "graph.js", "page.js")
_OTHER = 1 << 20
"""Where the numbers of values begin that are neither `%12` nor `%arg3`."""

T = TypeVar("T")


@define(eq=False)
class _Table(Generic[T]):
    """Things by the order in which they first came."""

    index: dict[T, int] = field(factory=dict)

    def of(self, thing: T) -> int:
        return self.index.setdefault(thing, len(self.index))


@define(eq=False)
class _Packer:
    """Turns functions into numbers."""

    templates: _Table[str] = field(factory=_Table)
    places: _Table[Place] = field(factory=_Table)
    names: _Table[str] = field(factory=_Table)
    functions: _Table[Function] = field(factory=_Table)

    def line(self, line: Line) -> list[int]:
        return [self.templates.of(line.template), self.places.of(line.place), *map(self.value, line.values)]

    def value(self, name: str) -> int:
        if name.isdigit():
            return int(name)
        if name.startswith("arg") and name[3:].isdigit():
            return -1 - int(name[3:])
        return _OTHER + self.names.of(name)


def page(title: str, rows: list[Row], stages: list[Stage], sources: Mapping[str, tuple[str, str]]) -> str:
    """The page as text. `sources` gives for a file in a location its name and text."""
    data = json_text(_data(title, rows, stages, sources))
    deflate = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = base64.b64encode(deflate.compress(data.encode()) + deflate.flush()).decode()
    parts = {
        "title": html.escape(title),
        "style": _file("page.css"),
        "script": "\n".join(_file(name) for name in SCRIPTS),
        "data": packed,
    }
    text = _file("page.html")
    for name, part in parts.items():
        text = text.replace(f"<!-- {name} -->", part)
    return text


def _file(name: str) -> str:
    return (HERE / name).read_text("utf-8")


def _data(title: str, rows: list[Row], stages: list[Stage], sources: Mapping[str, tuple[str, str]]) -> dict[str, Any]:
    packer = _Packer()
    by_number = {stage.number: [packer.functions.of(f) for f in stage.functions] for stage in stages}
    functions = [
        {"symbol": f.symbol, "name": f.name, "code": [packer.line(line) for line in f.lines]}
        for f in packer.functions.index
    ]
    return {
        "title": title,
        "stages": [
            {
                "number": row.number,
                "name": row.name,
                "ms": None if row.ms is None else round(row.ms, 2),
                "before": row.before,
                "after": row.after,
                "did": row.did,
                "changed": row.changed,
                "skipped": row.skipped,
                "functions": by_number.get(row.number),
            }
            for row in rows
        ],
        "functions": functions,
        "templates": list(packer.templates.index),
        "names": list(packer.names.index),
        "places": [_place(place, sources) for place in packer.places.index],
        "other": _OTHER,
    }


def _place(place: Place, sources: Mapping[str, tuple[str, str]]) -> list[Any]:
    """File, line, the line's text, the model path, the standard module's line."""
    name, text = sources.get(place.file, (place.file, ""))
    lines = text.splitlines()
    shown = lines[place.line - 1].strip() if 0 < place.line <= len(lines) else ""
    file, _, line = place.via.rpartition(":")
    via = f"{sources[file][0]}:{line}" if file in sources else place.via
    return [name, place.line, shown, place.path, via]
