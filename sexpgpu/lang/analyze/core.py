"""The analyzer: atoms, calls and macro calls; special forms are looked up in the grammar's table."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from sexpgpu.diag import Note, SxError
from sexpgpu.lang.analyze.arguments import mismatch
from sexpgpu.lang.analyze.grammar import AT_TOP, OTHERWISE, SPECIALS, Items, fault, items_of, malformed, not_at_top
from sexpgpu.lang.analyze.mentions import note_mentions
from sexpgpu.lang.analyze.misspelt import defined_by, meant_form
from sexpgpu.lang.analyze.outside import OUTSIDE, refused_operator
from sexpgpu.lang.analyze.reach import warn_unreached
from sexpgpu.lang.analyze.suggest import unknown_function, unknown_variable, variable_as_function
from sexpgpu.lang.builtin import Builtin, python_name, show
from sexpgpu.lang.conditions import Poisoned
from sexpgpu.lang.edits import inserted
from sexpgpu.lang.forms import NIL, Cons, SourceCons, Symbol, one, symbol
from sexpgpu.lang.ir import (
    Call,
    CallBuiltin,
    Const,
    FunctionIR,
    GlobalRef,
    Lambda,
    LocalRef,
    LocalVar,
    Node,
    Operation,
    Seq,
    SetGlobal,
    SetLocal,
)
from sexpgpu.lang.module import FunctionCell, GlobalVariable, Macro, Module
from sexpgpu.lang.place import EVALUATED, Place
from sexpgpu.lang.recovery import Guard
from sexpgpu.lang.scope import SPECIAL, Scope, SymbolMacro

if TYPE_CHECKING:
    from sexpgpu.lang.session import Session

LAMBDA = symbol("lambda")
DECLARE = symbol("declare")
DEEPEST_EXPANSION = 500
EXPANSION_WORK = 300
GENERATED_WORK = 100
"""Steps that an expansion takes, and compiling each form that no file holds; files are as long as they are."""
CERTAIN = (Const, LocalRef, Lambda)
"""Nodes that cannot fail."""


def endless_expansion(macro: Symbol, place: Place) -> SxError:
    """E-LIMIT-001 of a macro whose expansion is always a macro call again."""
    return fault(place, "E-LIMIT-001", f"`{macro.name}` expands without end")


class Environment:
    """What `&environment` gives a macro: enough to expand further forms where the call stands."""

    __slots__ = ("analyzer", "scope")

    def __init__(self, analyzer: Analyzer, scope: Scope) -> None:
        self.analyzer = analyzer
        self.scope = scope


class Analyzer:
    """Analyses the forms of one compilation unit; variable names are unique in it."""

    def __init__(self, session: Session, module: Module, waits: bool = False) -> None:
        self.session = session
        self.module = module
        self.faults: list[SxError] = []  # of the forms refused so far, each once
        self.assigned: list[LocalVar] = []  # by the forms analysed so far, in order
        self.handling = 0  # how many forms that handle errors stand around what is analysed now
        self._count = 0
        self._waits = waits  # the code may run later or never, so what it calls is looked at when the file ends

    def unique(self, name: str) -> str:
        """A Python name that nothing else in this unit has."""
        self._count += 1
        return f"{name}.{self._count}"

    def variable(self, name: Symbol, function: FunctionIR, place: Place) -> LocalVar:
        """A fresh lexical variable."""
        return LocalVar(name, self.unique(name.name), function, place)

    # Forms.

    def analyze(self, form: Any, scope: Scope, place: Place) -> Node:
        """The node of a form that stands at `place`; one that raises, where the form is refused (`refused`)."""
        try:
            return self._analyzed(form, scope, place)
        except SxError as fault_:
            return self.refused(fault_, form, scope, place)

    def refused(self, fault: SxError, form: Any, scope: Scope, place: Place) -> Node:
        """The node of a form with a fault: analysis goes on after it, and code that reaches it fails silently.

        What the form mentions counts as used, so that its fault is the only one told.
        """
        if fault.diagnostic.code.startswith("E-LIMIT"):  # what cannot be gone on after
            raise fault
        note_mentions(self.session, self.module, form, scope)
        if not isinstance(fault, Poisoned):
            self.faults.append(fault)
        return Operation(place, "refuse", [Const(place, fault.diagnostic)])

    def _analyzed(self, form: Any, scope: Scope, place: Place) -> Node:
        if place.trail is not None or place.source.file == EVALUATED:
            self.session.spend(GENERATED_WORK)
        expansions = 0
        while True:
            if isinstance(form, Symbol):
                return self._symbol(form, scope, place)
            if not isinstance(form, Cons):
                return Const(place, form)
            head = form.car
            if not isinstance(head, Symbol):
                return self._computed_call(form, scope, place)
            local = scope.local_function(head)
            if isinstance(local, LocalVar):
                return self._local_call(local, form, scope, place)
            if local is None:
                special = SPECIALS.get(head)
                if special is not None:
                    try:
                        items = items_of(form.cdr, place, special.shape)
                        self.check_count(form, items, special.least, special.most, special.shape, place)
                        return special.analyze(self, items, scope, place)
                    except SxError as wrong:
                        if head in self.module.poisoned and wrong.diagnostic.code == "E-MACRO-001":
                            raise Poisoned(self.module.poisoned[head]) from None  # what was refused the name is meant
                        raise
            macro = local or self.module.macro(head)
            if macro is None:
                return self._call(head, form, scope, place)
            expansions += 1
            if expansions > DEEPEST_EXPANSION:
                raise endless_expansion(head, place)
            call, form = form, self.expand(macro, form, scope, place)
            place = place.expanded(head.name, macro.quiet, call).of_form(form)

    def each(self, items: Items, scope: Scope) -> list[Node]:
        """The nodes of several forms."""
        return [self.analyze(form, scope, place) for form, place in items]

    def operands(self, form: Cons, scope: Scope, place: Place) -> list[Node]:
        """The nodes of a call's arguments."""
        return self.each(items_of(form.cdr, place, "(function argument...)"), scope)

    def sequence(self, items: Items, scope: Scope, place: Place) -> Node:
        """Several forms, of which the last gives the value; nil when there is none."""
        if not items:
            return Const(place, NIL)
        *before, (form, where) = items
        nodes = [self.guarded(*item, scope) for item in before]
        nodes.append(self.analyze(form, scope, where))
        warn_unreached(self, nodes, items)
        return nodes[0] if len(nodes) == 1 else Seq(place, nodes)

    def guarded(self, form: Any, place: Place, scope: Scope) -> Node:
        """The node of a form after whose failure a trace can go on."""
        known = len(self.assigned)
        node = self.analyze(form, scope, place)
        if self.module.internal or self.module.standard or isinstance(node, CERTAIN):
            return node
        outer = [var for var in dict.fromkeys(self.assigned[known:]) if scope.variable(var.symbol) is var]
        return Guard(place, node, outer)

    @contextmanager
    def handled(self) -> Iterator[None]:
        """Inside the block errors are handled: a call whose arguments do not fit is the handler's business."""
        self.handling += 1
        try:
            yield
        finally:
            self.handling -= 1

    def check_count(self, form: Cons, items: Items, least: int, most: int | None, shape: str, place: Place) -> None:
        if len(items) < least or (most is not None and len(items) > most):
            extra = f", the first too many is {show(items[most][0])}" if most and len(items) > most else ""
            count = f"at least {least}" if most is None else str(least) if most == least else f"{least} to {most}"
            noun = "operand" if count in ("1", "at least 1") else "operands"
            raise malformed(place, shape, f"`{form.car.name}` takes {count} {noun}, got {len(items)}{extra}")

    # Macros.

    def expand(self, macro: Macro, form: Cons, scope: Scope, place: Place) -> Any:
        """One expansion of a macro call; an error in the expander is shown at the call."""
        if not macro.quiet:
            self.session.spend(EXPANSION_WORK)
            if place.trail is not None and place.trail.depth > DEEPEST_EXPANSION:
                raise endless_expansion(macro.name, place)
        try:
            with self.session.recovery.suspended():
                return one(macro.expand(form, Environment(self, scope)))
        except SxError as fault_:
            raise self.session.explain_expansion(fault_, macro, place) from fault_
        except (ArithmeticError, LookupError, TypeError, ValueError, AttributeError, RecursionError) as raw:
            raise self.session.explain_expansion(self.session.explained(raw), macro, place) from raw

    def macroexpand(self, form: Any, scope: Scope, place: Place, once: bool = False) -> tuple[Any, bool]:
        """`form` with its head expanded until it is no macro call (or once), and whether it was expanded."""
        expansions = 0
        while True:
            expanded = expansions > 0
            if once and expanded:
                return form, expanded
            if expansions > DEEPEST_EXPANSION:
                raise endless_expansion(form.car if isinstance(form, Cons) else form, place)
            if isinstance(form, Symbol):
                found = scope.variable(form)
                stands_for = found.expansion if isinstance(found, SymbolMacro) else None
                if found is None:
                    stands_for = self.module.symbol_macro(form)
                if stands_for is None:
                    return form, expanded
                form = stands_for
            elif isinstance(form, Cons) and isinstance(form.car, Symbol):
                local = scope.local_function(form.car)
                if isinstance(local, LocalVar) or (local is None and form.car in SPECIALS):
                    return form, expanded
                macro = local or self.module.macro(form.car)
                if macro is None:
                    return form, expanded
                form = self.expand(macro, form, scope, place)
            else:
                return form, expanded
            expansions += 1

    # Variables.

    def _expanded_symbol(self, name: Symbol, expansion: Any, scope: Scope, place: Place) -> Node:
        with self.session.nesting.within(f"the symbol macro `{name.name}`"):
            return self.analyze(expansion, scope, place)

    def _symbol(self, name: Symbol, scope: Scope, place: Place) -> Node:
        if name.keyword:
            return Const(place, name)
        found = scope.variable(name)
        if isinstance(found, LocalVar):
            return self.local(found, scope, place)
        if isinstance(found, SymbolMacro):
            return self._expanded_symbol(name, found.expansion, scope, place)
        if found is None and (stands_for := self.module.symbol_macro(name)) is not None:
            return self._expanded_symbol(name, stands_for, scope, place)
        variable = self.global_variable(name, scope, place)
        if variable.kind == "constant" and variable.ref and isinstance(variable.ref[0], int | float | Symbol):
            return Const(place, variable.ref[0])
        return GlobalRef(place, variable.ref, self.module.key_of(variable.ref, f"v:{name.name}"))

    def local(self, var: LocalVar, scope: Scope, place: Place) -> LocalRef:
        """A reference to a lexical variable, noted as captured when it crosses a lambda."""
        if var.owner is not scope.function:
            var.captured = True
        var.read = True
        return LocalRef(place, var)

    def global_variable(self, name: Symbol, scope: Scope, place: Place) -> GlobalVariable:
        """The global variable that `name` means here; E-NAME-001 when there is none."""
        variable = self.module.variable(name)
        if variable is not None:
            self.session.note_use(variable)
            return variable
        if name in self.module.upcoming or name in self.module.poisoned:
            return self.module.variables.setdefault(name, GlobalVariable(name))
        if scope.variable(name) is SPECIAL:
            return self.module.variables.setdefault(name, GlobalVariable(name, "dynamic"))
        raise unknown_variable(self.module, name, scope, place)

    def assign(self, name: Symbol, value: Node, scope: Scope, place: Place) -> Node:
        """`(setq name value)` for one name."""
        found = scope.variable(name)
        if isinstance(found, LocalVar):
            found.assigned = True
            if found.owner is not scope.function:
                found.captured = True
            self.assigned.append(found)
            return SetLocal(place, found, value)
        self.forbid_constant(name, place, "assigned")
        variable = self.global_variable(name, scope, place)
        return SetGlobal(place, variable.ref, self.module.key_of(variable.ref, f"v:{name.name}"), value)

    def forbid_constant(self, name: Symbol, place: Place, verb: str) -> None:
        """E-NAME-004 when `name` cannot be assigned or bound."""
        variable = None if name.keyword else self.module.variable(name)
        if name.keyword or (variable is not None and variable.kind == "constant"):
            what = "a keyword" if name.keyword else "a constant"
            help = None if verb == "assigned" else OTHERWISE
            raise fault(place, "E-NAME-004", f"`{show(name)}` is {what}: it cannot be {verb}", help)

    def is_special(self, name: Symbol) -> bool:
        """Whether a binding of `name` is dynamic."""
        variable = self.module.variable(name)
        return variable is not None and variable.kind == "special"

    # Calls.

    def _computed_call(self, form: Cons, scope: Scope, place: Place) -> Node:
        head = form.car
        if isinstance(head, Cons) and head.car is LAMBDA:
            function = self.analyze(head, scope, place.of_element(form))
            return Call(place, function, self.operands(form, scope, place))
        where = place.of_element(form)
        help = f"write (funcall {show(head)} ...)" if isinstance(head, Cons) else None
        fix = inserted(where, "funcall ") if isinstance(form, SourceCons) and help else ()
        raise fault(where, "E-TYPE-002", f"{show(head)} is not a function name", help, fix=fix)

    def _call(self, name: Symbol, form: Cons, scope: Scope, place: Place) -> Node:
        cell = self.module.function(name)
        if cell is not None and cell.builtin is not None:
            return self.call_builtin(cell.builtin, self.operands(form, scope, place), place)
        head_place = place.of_element(form)
        if name.name in AT_TOP and (cell is None or not cell.defined):
            raise not_at_top(name, head_place)
        if cell is None and name.name in OUTSIDE and name not in self.module.upcoming:
            raise refused_operator(self.module, name, place)
        if cell is None or not cell.defined:
            if cell is None and isinstance(scope.variable(name), LocalVar):
                raise variable_as_function(self.module, name, form, scope, head_place)
            cell = cell or self.undefined(name, scope, head_place)
            if not cell.defined:
                self.note_undefined(cell, scope, head_place)
        function = GlobalRef(head_place, cell.ref, self.module.key_of(cell.ref, f"f:{name.name}"))
        lists: tuple[list[Any], ...] = (self.faults, self.module.undefined_calls, self.module.waiting_calls)
        told = [len(found) for found in lists]
        args = self.operands(form, scope, place)
        if not cell.defined and any(len(found) > n for found, n in zip(lists[:2], told, strict=False)):
            meant = meant_form(self.module, form, scope)
            if meant is not None:
                for found, known in zip(lists, told, strict=True):
                    del found[known:]  # they come of taking parts of another syntax for arguments
                raise self._misspelt(form, meant, scope, head_place)
        if self._waits and not self.handling and not self.module.standard:
            self.module.waiting_calls.append((cell, args, place))
        return Call(place, function, args)

    def _misspelt(self, form: Cons, meant: Symbol, scope: Scope, place: Place) -> SxError:
        """The error of a form whose head was meant as `meant`; what it would define is known to be missing."""
        found = unknown_function(self.module, form.car, scope, place, form)
        name = defined_by(form, meant)
        if name is not None and not isinstance(found, Poisoned):
            self.module.poisoned.setdefault(name, found.diagnostic)
        return found

    def _local_call(self, function: LocalVar, form: Cons, scope: Scope, place: Place) -> Node:
        args = self.operands(form, scope, place)
        if function.parameters is not None and not self.handling:
            note = Note(f"`{show(function.symbol)}` is defined here", function.place.span)
            wrong = mismatch(show(function.symbol), function.parameters, args, place, (note,))
            if wrong is not None:
                raise wrong
        return Call(place, self.local(function, scope, place), args)

    def note_undefined(self, cell: FunctionCell, scope: Scope, place: Place) -> None:
        """A name that has to be defined by the end of the file, unless the code runs now and shows by itself."""
        if self.handling:
            self.module.handled_calls.append((cell, (scope, place)))
        elif self._waits:
            self.module.undefined_calls.append((cell, (scope, place)))

    def undefined(self, name: Symbol, scope: Scope, place: Place, now: bool = False) -> FunctionCell:
        """A cell for a function that is not there yet; calling it is E-NAME-002.

        With `now` the function itself is wanted: in code that runs at once that is the error.
        """
        module = self.module
        if now and not self._waits and name not in module.upcoming:
            raise unknown_function(module, name, scope, place)

        def missing(*_: Any) -> Any:
            raise unknown_function(module, name, scope, place)

        cell = FunctionCell(name, missing)
        module.functions[name] = cell
        return cell

    def call_builtin(self, builtin: Builtin, args: list[Node], place: Place) -> Node:
        """A call of a library function, its count and literal keywords checked now."""
        parameters = builtin.parameters
        positional = parameters.positional
        wrong = mismatch(builtin.name, parameters, args, place)
        if wrong is not None:
            if not self.handling:
                raise wrong
            return Call(place, Const(place, builtin.call), args)  # for the handler
        if parameters.keys is None or len(args) <= positional:
            return CallBuiltin(place, builtin, args, [])
        pairs = args[positional:]
        names = [node.value for node in pairs[::2] if isinstance(node, Const) and isinstance(node.value, Symbol)]
        plain = len(pairs) % 2 == 0 and len(names) * 2 == len(pairs) and len(set(names)) == len(names)
        if plain and parameters.rest is None and all(n.keyword and n.name in parameters.keys for n in names):
            keywords = [(python_name(n.name), value) for n, value in zip(names, pairs[1::2], strict=True)]
            return CallBuiltin(place, builtin, args[:positional], keywords)
        return Call(place, Const(place, builtin.call), args)
