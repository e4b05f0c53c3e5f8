"""Values at their places: what an editor is told of the forms of some files while they are evaluated.

Code compiled for a session with an observer hands the values of calls and variables to it; other code is compiled
as if there were none, so observing costs nothing where nobody asked for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from attrs import frozen

from sexpgpu.lang.ir import Call, CallBuiltin, LocalRef, Node, Spread

OBSERVED: Final = (LocalRef, CallBuiltin, Call, Spread)


See = Callable[[Any, str, int, int, bool], None]


@frozen(eq=False)
class Observer:
    """`see(value, file, start, end, own)` gets each value of a form of `files`, between which characters it stands.

    `own` says that the form itself is written there; else it is a part of what a macro made of the form there.
    """

    files: frozenset[str]
    see: See
    give: Callable[[Any, str, int, int, bool], Any]


def observer(files: frozenset[str], see: See) -> Observer:
    """An observer of the forms of `files`; `give` is what compiled code calls: the value passes through it."""

    def give(value: Any, file: str, start: int, end: int, own: bool) -> Any:
        see(value, file, start, end, own)
        return value

    return Observer(files, see, give)


def is_own(node: Node) -> bool:
    """Whether the text at a node's place is the node: its variable, or a call of its function."""
    place = node.place
    text = place.source.text
    if isinstance(node, LocalRef):
        return text[place.start : place.end].lower() == node.var.symbol.name
    if isinstance(node, CallBuiltin):
        return text.startswith(node.builtin.name, place.start + 1)
    return place.trail is None and text.startswith("(", place.start)
