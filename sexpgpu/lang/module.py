"""The names of one file: its functions, macros and global variables, and where it finds those it does not define."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, Literal

from sexpgpu.diag import Diagnostic, Span
from sexpgpu.lang.builtin import Builtin
from sexpgpu.lang.forms import Symbol, setf_name, symbol
from sexpgpu.lang.ir import Node
from sexpgpu.lang.limits import several
from sexpgpu.lang.place import Place, Trail

VariableKind = Literal["lexical", "special", "dynamic", "constant"]
"""A `dynamic` one is named by `set` or a local `special` declaration: bindings of the name stay lexical elsewhere."""


TICKS: Final = "tick*"


class FunctionCell:
    """A global function name. `ref` is the list of one callable that compiled calls read."""

    __slots__ = ("builtin", "defined", "name", "redefined", "ref", "span")

    def __init__(self, name: Symbol, function: Callable[..., Any], builtin: Builtin | None = None) -> None:
        self.name = name
        self.ref: list[Any] = [function]
        self.builtin = builtin
        self.defined = builtin is not None
        self.span: Span | None = None
        self.redefined = False


class GlobalVariable:
    """A global variable. `ref` is a list of its value, empty while it is unbound."""

    __slots__ = ("kind", "name", "ref", "span")

    def __init__(self, name: Symbol, kind: VariableKind = "lexical", span: Span | None = None) -> None:
        self.name = name
        self.ref: list[Any] = []
        self.kind: VariableKind = kind
        self.span = span


class Macro:
    """A macro: `expand` takes the whole call and the lexical environment. `quiet` ones leave no expansion note."""

    __slots__ = ("_shape", "expand", "name", "quiet", "span")

    def __init__(
        self, name: Symbol, expand: Callable[..., Any], shape: str | Callable[[], str], span: Span | None = None,
        quiet: bool = False,
    ) -> None:  # fmt: skip
        self.name = name
        self.expand = expand
        self._shape = shape
        self.span = span
        self.quiet = quiet

    @property
    def shape(self) -> str:
        """What a call looks like, `(dolist (x list) form...)`."""
        return self._shape if isinstance(self._shape, str) else self._shape()


def call_shape(name: Symbol, lambda_list: str) -> str:
    """What a call of a macro looks like."""
    return f"({name.name} {lambda_list.strip()[1:-1]})"


class Upcoming:
    """A name that a form further down will define: what the prescan of the file saw."""

    __slots__ = ("head", "span")

    def __init__(self, head: str, span: Span) -> None:
        self.head = head
        self.span = span


class Module:
    """One file's tables. A lookup falls back to what the file imported and then to the library."""

    def __init__(self, name: str, file: str, base: Module | None) -> None:
        self.name: Final = name
        self.file: Final = file
        self.base: Final = base
        self.functions: dict[Symbol, FunctionCell] = {}
        self.variables: dict[Symbol, GlobalVariable] = {}
        self.macros: dict[Symbol, Macro] = {}
        self.symbol_macros: dict[Symbol, Any] = {}
        self.setf_expanders: dict[Symbol, Callable[[Any, Any], Any]] = {}
        self.imported: dict[Symbol, tuple[str, Span | None]] = {}
        self.borrowed: set[int] = set()  # ids of the cells, variables and macros of other modules among its own
        self.upcoming: dict[Symbol, Upcoming] = {}
        self.heads: dict[Symbol, str] = {}  # the defining form of each name, as the file's text shows them
        self.provided: dict[Symbol, Place] = {}
        self.types: dict[Symbol, None] = {}  # the names of the types that it defines
        self.poisoned: dict[Symbol, Diagnostic] = {}
        self.undefined_calls: list[tuple[FunctionCell, Any]] = []
        self.handled_calls: list[tuple[FunctionCell, Any]] = []  # of the same kind, where errors are handled
        self.waiting_calls: list[tuple[FunctionCell, list[Node], Place]] = []  # with the arguments
        self.handled_types: list[tuple[Symbol, Place]] = []  # of conditions, undefined when a handler named them
        self.namespace: dict[str, Any] = {}
        self._keys: dict[int, str] = {}
        self._scope: tuple[str, dict[int, str]] = ("", self._keys)
        self.aliases: set[str] = set()
        self.trails: dict[tuple[int, int, int, int], Trail] = {}
        self.classes: Diagnostic | None = None  # the refusal of a definition of a class or method
        self.missing: Diagnostic | None = None  # a require that failed: names that nothing defines may be the module's
        self.torn: Diagnostic | None = None  # a read error that hid the rest of the file
        self.choices: dict[str, tuple[str, ...]] = {}  # the keywords that an option takes, by its name
        self.standard: Final = name.startswith("sexpgpu/")  # comes with the product
        self.internal = False  # its frames are no user's business: the prelude

    @property
    def tables(self) -> tuple[dict[Symbol, Any], ...]:
        """Functions, variables, macros."""
        return self.functions, self.variables, self.macros

    def function(self, name: Symbol) -> FunctionCell | None:
        """The cell of a function name visible here."""
        found = self.functions.get(name)
        return found if found is not None or self.base is None else self.base.function(name)

    def has_function(self, name: Symbol) -> bool:
        """Whether there is such a function here, or will be further down: a call alone makes a cell without one."""
        cell, later = self.function(name), self.upcoming.get(name)
        return (cell is not None and cell.defined) or (later is not None and later.head == "defun")

    def variable(self, name: Symbol) -> GlobalVariable | None:
        """The global variable visible here."""
        found = self.variables.get(name)
        return found if found is not None or self.base is None else self.base.variable(name)

    def own_function(self, name: Symbol) -> FunctionCell | None:
        """The cell that a definition of this file may fill: not an imported one, which keeps its meaning elsewhere."""
        cell = self.functions.get(name)
        return None if id(cell) in self.borrowed else cell

    def own_variable(self, name: Symbol) -> GlobalVariable | None:
        """The variable that a definition in this file may fill, as `own_function`."""
        variable = self.variables.get(name)
        return None if id(variable) in self.borrowed else variable

    def macro(self, name: Symbol) -> Macro | None:
        """The macro visible here; a function that this file defines hides a library macro of the same name."""
        found = self.macros.get(name)
        if found is not None or self.base is None:
            return found
        own = self.functions.get(name)
        return None if own is not None and own.defined else self.base.macro(name)

    def symbol_macro(self, name: Symbol) -> Any:
        """The expansion of a global symbol macro, None when there is none."""
        found = self.symbol_macros.get(name)
        return found if found is not None or self.base is None else self.base.symbol_macro(name)

    def setf_expander(self, name: Symbol) -> Callable[[Any, Any], Any] | None:
        """What defsetf or define-setf-expander said of `name`: the five values of a place."""
        found = self.setf_expanders.get(name)
        return found if found is not None or self.base is None else self.base.setf_expander(name)

    def shadowed(self, name: Symbol, variable: bool) -> str | None:
        """Whose variable, or function or macro, a definition of this name hides; None when there is none."""
        if name in self.imported:
            return f"that of {self.imported[name][0]}"
        base = self.base
        if base is None:
            return None
        hidden = base.variable(name) if variable else base.function(name) or base.macro(name)
        return "the library's own" if hidden else None

    def base_function(self, name: str) -> Builtin:
        """The library's own function, whatever the file defines."""
        module: Module = self
        while module.base is not None:
            module = module.base
        builtin = module.functions[symbol(name)].builtin
        assert builtin is not None
        return builtin

    def key_of(self, ref: list[Any], key: str) -> str:
        """The name under which compiled code finds a cell or constant; `key` is the name wished for."""
        known = self._keys.get(id(ref))
        if known is None:
            known = key
            while known in self.namespace:
                known += "'"
            self.namespace[known] = ref
            self._keys[id(ref)] = known
        return known

    def constant(self, value: Any) -> str:
        """The name under which compiled code finds a constant object."""
        scope, keys = self._scope
        known = keys.get(id(value))
        if known is None:
            known = f"'{scope}{len(keys)}"  # no variable's name: those end in a dot and a number
            self.namespace[known] = value
            keys[id(value)] = known
        return known

    @contextmanager
    def constants(self, scope: str) -> Iterator[None]:
        """Constants under names that begin with `scope`, for code that is kept: no other code has them."""
        outer, self._scope = self._scope, (f"{scope}'", {})
        try:
            yield
        finally:
            self._scope = outer

    def ticks(self, count: int) -> str:
        """The name under which compiled code finds a function that takes so many steps."""
        key = f"{TICKS}{count}"
        if key not in self.namespace:
            self.namespace[key] = several(self.namespace["tick"], count)
        return key

    def named(self, key: str, value: Any) -> str:
        """The name under which compiled code finds `value`, `key` where that is free."""
        found = self.namespace.setdefault(key, value)
        return key if found is value else self.constant(value)

    def names(self) -> set[str]:
        """Every name visible here, for suggestions."""
        own = {s.name for table in (self.variables, self.macros) for s in table}
        own |= {s.name for s, cell in self.functions.items() if cell.defined and s.interned}
        return own if self.base is None else own | self.base.names()

    def own_names(self) -> list[str]:
        """Names that the file itself defines, as functions or variables."""
        functions = (cell.name.name for cell in self.functions.values() if cell.span is not None)
        variables = (v.name.name for v in self.variables.values() if v.span is not None)
        return [*functions, *variables]

    def exports(self) -> list[Symbol]:
        """What a file that requires this module gets: what it provides, or else all it defines."""
        if self.provided:
            return list(self.provided)
        own: dict[Symbol, None] = {}
        for table in self.tables:
            own.update((s, None) for s, entry in table.items() if id(entry) not in self.borrowed and s.interned)
        own |= {s: None for s in (*self.setf_expanders, *self.symbol_macros) if s not in self.imported}
        own |= {s: None for cell in self.functions.values() if (s := self._written_by(cell)) is not None}
        return [s for s in own if not self._only_called(s)]

    def _only_called(self, name: Symbol) -> bool:
        cell = self.functions.get(name)
        return cell is not None and not cell.defined and not self.defines(name)

    def _written_by(self, cell: FunctionCell) -> Symbol | None:
        """The name whose place a function of this file writes: `foo` of `(defun (setf foo) ...)`."""
        if cell.name.interned or not cell.defined or id(cell) in self.borrowed:
            return None
        name = symbol(cell.name.name.removeprefix("(setf ").removesuffix(")"))
        return name if setf_name(name) is cell.name else None

    def defines(self, name: Symbol) -> bool:
        """Whether something in this file, or something that it imports, has the name."""
        functions = (self.functions.get(name), self.functions.get(setf_name(name)))
        named = (self.variables, self.macros, self.symbol_macros, self.setf_expanders, self.types)
        return any(cell is not None and cell.defined for cell in functions) or any(name in table for table in named)
