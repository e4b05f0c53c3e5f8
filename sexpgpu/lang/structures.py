"""Structure types and their instances, as `defstruct` makes them."""

from __future__ import annotations

from typing import Any

from sexpgpu.lang.forms import Symbol


class StructureType:
    """A structure's name, the type it includes, its slots and their default forms, inherited ones first.

    `conc_name` is what the readers' names begin with.
    """

    __slots__ = ("conc_name", "defaults", "name", "parent", "slots")

    def __init__(
        self,
        name: Symbol,
        parent: StructureType | None,
        slots: tuple[Symbol, ...],
        defaults: tuple[Any, ...],
        conc_name: str,
    ) -> None:
        self.name = name
        self.parent = parent
        self.slots = slots
        self.defaults = defaults
        self.conc_name = conc_name

    def __call__(self, value: Any) -> bool:
        """Whether a value is an instance, for the session's table of types."""
        return isinstance(value, Structure) and self.includes(value.type)

    def includes(self, other: StructureType) -> bool:
        """Whether `other` is this type or one that includes it."""
        found: StructureType | None = other
        while found is not None:
            if found is self:
                return True
            found = found.parent
        return False


class Structure:
    """An instance: its type and its slots' values in order."""

    __slots__ = ("type", "values")

    def __init__(self, type_: StructureType, values: list[Any]) -> None:
        self.type = type_
        self.values = values
