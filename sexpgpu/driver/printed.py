"""The text of a dumped module taken apart: functions, their lines, and where each line was written.

    %3 = "sx.mul"(%1, %arg0) : (tensor<2xf32>, ...) -> tensor<2xf32> loc(#loc7)

becomes a line with the template `* = "sx.mul"(*, *) : ...`, a control character in the stars' stead, the names
`3 1 arg0`, and the place that `#loc7` stands for. A signature is one line for each argument.
"""

from __future__ import annotations

import re
from collections import Counter

from attrs import field, frozen

_ALIAS = re.compile(r"(#loc\d*) = loc\((.*)\)$")
_LOCATED = re.compile(r' loc\(((?:[^()"]|"(?:[^"\\]|\\.)*"|\([^()]*\))*)\)')
_VALUE = re.compile(r"%(\w+(?:#\d+)?)")
_FILE = re.compile(r'"((?:[^"\\]|\\.)*)":(\d+):(\d+)(?: to (?:(\d+))?:(\d+))?$')
_FUSED = re.compile(r'fused<"((?:[^"\\]|\\.)*)">\[(.*)\]$')
_CALL = re.compile(r"callsite\((.*) at (.*)\)$")
_SYMBOL = re.compile(r'@("(?:[^"\\]|\\.)*"|[\w$.]+)')
_GRAPH = re.compile(r'sx\.graph = "((?:[^"\\]|\\.)*)"')
VALUE = "\x01"
_OPERATION = re.compile(r'(?:[\x01, ]+(?::\d+)? = )?"?([a-z]\w*(?:\.\w+)+|return)"?')


@frozen
class Place:
    """Where a line was written: file, line, column, the model path; `via` is the standard module's own line."""

    file: str = ""
    line: int = 0
    column: int = 0
    path: str = ""
    via: str = ""


@frozen
class Line:
    """A line without its location: its text with VALUE for every value, the values' names, its place."""

    template: str
    values: tuple[str, ...]
    place: Place

    @property
    def text(self) -> str:
        names = iter(self.values)
        return re.sub(VALUE, lambda _: f"%{next(names)}", self.template)

    @property
    def operation(self) -> str | None:
        """The name of the operation that begins here."""
        found = _OPERATION.match(self.template.strip())
        return found[1] if found and found[1] != "func.func" else None


@frozen
class Function:
    """A function of the module: its symbol, the graph it is (or ""), its lines from the signature to the brace."""

    symbol: str
    graph: str
    lines: tuple[Line, ...]

    @property
    def name(self) -> str:
        return self.graph or self.symbol

    def operations(self) -> Counter[str]:
        """How many operations of each name it has."""
        return Counter(name for line in self.lines if (name := line.operation) is not None)


@frozen
class Reader:
    """Reads modules of one compilation; equal places are one object."""

    _places: dict[Place, Place] = field(factory=dict, init=False)

    def functions(self, text: str) -> list[Function]:
        """The functions of a module that was printed with locations, in order."""
        lines = text.splitlines()
        aliases = {found[1]: found[2] for line in lines if line.startswith("#loc") and (found := _ALIAS.match(line))}
        places: dict[str, Place] = {}
        functions: list[Function] = []
        current: list[Line] = []
        symbol = graph = ""
        for line in lines:
            if line.startswith("  func.func "):
                named, marked = _SYMBOL.search(line), _GRAPH.search(line)
                symbol = named[1].strip('"') if named else ""
                graph = marked[1] if marked else ""
                current = [self._line(part, places, aliases) for part in _signature(line[2:])]
            elif current:
                current.append(self._line(line[2:], places, aliases))
                if line.startswith("  }"):
                    functions.append(Function(symbol, graph, tuple(current)))
                    current = []
        return functions

    def _line(self, text: str, places: dict[str, Place], aliases: dict[str, str]) -> Line:
        located = _LOCATED.findall(text)
        bare = _LOCATED.sub("", text) if located else text
        body = located[-1] if located else "unknown"
        if body not in places:
            places[body] = self._place(body, aliases)
        return Line(_VALUE.sub(VALUE, bare), tuple(_VALUE.findall(bare)), places[body])

    def _place(self, body: str, aliases: dict[str, str]) -> Place:
        body = aliases.get(body, body)
        fused = _FUSED.match(body)
        path, inside = (fused[1], aliases.get(fused[2], fused[2])) if fused else ("", body)
        via = ""
        if called := _CALL.match(inside):
            callee = _FILE.match(aliases.get(called[1], called[1]))
            via = f"{callee[1]}:{callee[2]}" if callee else ""
            inside = aliases.get(called[2], called[2])
        file = _FILE.match(inside)
        place = Place(file[1], int(file[2]), int(file[3]), path, via) if file else Place(path=path)
        return self._places.setdefault(place, place)


def _signature(head: str) -> list[str]:
    """The first line of a function, an argument a line."""
    first, *rest = re.split(r", (?=%arg\d+: )", head)
    if not rest:
        return [head]
    return [first + ",", *(f"    {part}," for part in rest[:-1]), f"    {rest[-1]}"]
