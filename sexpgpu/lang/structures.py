"""Structure types and their instances, as `defstruct` makes them.

With `(:type list)` or `(:type vector)` an instance is a plain list or vector: the type's `Layout` says where its
slots are, and where its name and those of the types it includes are.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from attrs import frozen

from sexpgpu.lang.forms import Symbol


@frozen
class Layout:
    """Of instances that are lists or vectors: the place of each slot, the places and names of the tags, the length."""

    kind: str  # "list" or "vector"
    places: tuple[int, ...]
    tags: tuple[tuple[int, Symbol], ...]
    size: int
    named: bool


class StructureType:
    """A structure's name, the type it includes, its slots and their default forms, inherited ones first.

    `conc_name` is what the readers' names begin with. `printer` is the function of `:print-function`, called with
    the instance, the stream and a depth, or of `:print-object`, called without the depth. The readers of the slots
    in `read_only` are no places.
    """

    __slots__ = ("conc_name", "defaults", "layout", "name", "parent", "printer", "read_only", "slots")

    def __init__(
        self,
        name: Symbol,
        parent: StructureType | None,
        slots: tuple[Symbol, ...],
        defaults: tuple[Any, ...],
        conc_name: str,
        layout: Layout | None = None,
        read_only: frozenset[Symbol] = frozenset(),
    ) -> None:
        self.name = name
        self.parent = parent
        self.slots = slots
        self.defaults = defaults
        self.conc_name = conc_name
        self.layout = layout
        self.read_only = read_only
        self.printer: Any = None

    def __call__(self, value: Any) -> bool:
        """Whether a value is an instance, for the session's table of types."""
        return isinstance(value, Structure) and self.includes(value.type)

    def line(self) -> Iterator[StructureType]:
        """This type, the one it includes, and so on."""
        found: StructureType | None = self
        while found is not None:
            yield found
            found = found.parent

    def includes(self, other: StructureType) -> bool:
        """Whether `other` is this type or one that includes it."""
        return any(found is self for found in other.line())


class Structure:
    """An instance: its type and its slots' values in order."""

    __slots__ = ("type", "values")

    def __init__(self, type_: StructureType, values: list[Any]) -> None:
        self.type = type_
        self.values = values
