"""A session: the tables of everything that one experiment's evaluation defines, and the way into it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from attrs import evolve

from sexpgpu.diag import Diagnostic, Diagnostics, Span, SxError, error, warning
from sexpgpu.lang import toplevel
from sexpgpu.lang.active import activated
from sexpgpu.lang.analyze.core import Analyzer, Environment
from sexpgpu.lang.analyze.grammar import OTHERWISE, SPECIALS
from sexpgpu.lang.analyze.suggest import unknown_function
from sexpgpu.lang.builtin import Library, Parameters, function_key, show
from sexpgpu.lang.compiler import Deferred, bare_scope, compile_function, furnish
from sexpgpu.lang.conditions import BUILT_IN_TYPES, Condition, ConditionType, Poisoned
from sexpgpu.lang.core import standard_core
from sexpgpu.lang.culprit import pinpointed
from sexpgpu.lang.faults import converted, current_span, located, of_expansion
from sexpgpu.lang.forms import Source, Symbol, symbol
from sexpgpu.lang.functions import info_of_function
from sexpgpu.lang.ir import FunctionIR
from sexpgpu.lang.limits import OUT_OF_STEPS, Limits, Nesting, Steps, run_deep
from sexpgpu.lang.module import FunctionCell, GlobalVariable, Macro, Module, VariableKind
from sexpgpu.lang.modules import Modules
from sexpgpu.lang.observe import Observer
from sexpgpu.lang.place import EVALUATED, Place
from sexpgpu.lang.poison import poison_met
from sexpgpu.lang.recovery import Recovery
from sexpgpu.lang.redefinition import check_redefined, warn_twice
from sexpgpu.lang.selection import Declared, Selected, Selection
from sexpgpu.lang.shelf import Shelf
from sexpgpu.lang.streams import TextOutput
from sexpgpu.lang.toplevel import FormResult


class Session:
    """The state of evaluation. `base` holds the library; `module` is the file being evaluated."""

    def __init__(
        self, diagnostics: Diagnostics, limits: Limits | None = None, standard_modules: Path | None = None
    ) -> None:
        self.diagnostics = diagnostics
        self.limits = limits or Limits()
        self.sources: dict[str, str] = {}
        self.base = Module("library", "", None)
        self.modules = Modules(self, standard_modules)
        self.properties: dict[Symbol, Any] = {}
        self.documents: dict[tuple[Any, Any], Any] = {}  # what (setf documentation) and defvar say, by name and kind
        self.condition_types: dict[Symbol, ConditionType] = {symbol(n): t for n, t in BUILT_IN_TYPES.items()}
        self.types: dict[Symbol, Callable[[Any], bool]] = {}
        self.type_expanders: dict[Symbol, Callable[..., Any]] = {}
        self.handlers: list[tuple[str, list[Any]]] = []
        self.catchers: list[list[Any]] = []
        self.output = TextOutput()
        self.selected = Selected()
        self.declared = Declared()
        self.failures: set[str] = set()
        self.used: set[int] = set()
        self.deferred: dict[int, Deferred] = {}
        self.shelf: Shelf | None = None  # where compiled functions of the library are kept
        self.observer: Observer | None = None
        self.mender: Callable[[Session, SxError], SxError] | None = None  # looks for a fix of a located error
        self.recovery = Recovery()
        self.nesting = Nesting()
        self._number = 0
        self._steps = Steps(self.limits.steps)
        furnish(self.base, self.tick)
        for library in standard_core():
            self.install(library)
        self.module = self.new_module("user", "")

    # Setting up.

    @property
    def tick(self) -> Callable[[], Any]:
        """One step of the budget: raises when it is used up."""
        return self._steps.tick

    @property
    def steps_left(self) -> int:
        return self._steps.left

    @property
    def exhausted(self) -> Diagnostic | None:
        """The report that the steps are used up: then nothing is evaluated any more."""
        if self.steps_left:
            return None
        return next((d for d in self.diagnostics.errors if d.code == "E-LIMIT-001" and d.message == OUT_OF_STEPS), None)

    def spend(self, steps: int) -> None:
        self._steps.spend(steps)

    def use_up(self, steps: int) -> None:
        self._steps.use_up(steps)

    def new_module(self, name: str, file: str) -> Module:
        """An empty module that sees the library."""
        module = Module(name, file, self.base)
        furnish(module, self.tick)
        return module

    def install(self, library: Library) -> None:
        """Make a library's functions, macros and variables visible to every file."""
        for builtin in library:
            key = function_key(builtin.name, library.names)
            self.base.functions[key] = FunctionCell(key, builtin.call, builtin)
        for name, made in ((symbol(made.name), made) for made in library.macros.values()):
            self.base.macros[name] = Macro(name, made.expander, made.shape, quiet=True)
        for kind, written, value in library.variables():
            self.define_variable(self.base, symbol(written), kind, value, None)

    def load_prelude(self, path: str | Path) -> None:
        """Evaluate a file of library definitions: every later file sees them, and its frames are not shown."""
        self.base.internal = True
        self._evaluate(self.base, Source(str(path), Path(path).read_text("utf-8")))

    # Evaluating.

    def evaluate_text(self, text: str, filename: str = "<text>") -> list[FormResult]:
        """The values of each top-level form; what fails is reported and the rest goes on."""
        return self._evaluate(self.module, Source(filename, text))

    def evaluate_file(self, path: str | Path, selection: Selection | None = None) -> list[FormResult]:
        """As `evaluate_text`, of a file under a selection (E-MOD-001, E-IO-103 when it cannot be read)."""
        try:
            source = self.modules.read(str(path))
        except SxError as fault:
            self.diagnostics.report(fault.diagnostic)
            return []
        return self._evaluate(self.module, source, selection or Selection())

    def _evaluate(self, module: Module, source: Source, selection: Selection | None = None) -> list[FormResult]:
        if not module.internal:
            self.sources[source.file] = source.text
        outer, self.module = self.module, module
        try:
            with activated(self):
                return toplevel.evaluate(self, module, source, selection)
        finally:
            self.module = outer

    def evaluate_module(self, module: Module, source: Source) -> None:
        """Evaluate a required file in its own module."""
        self._evaluate(module, source)

    def evaluate_form(self, form: Any, module: Module | None = None, place: Place | None = None) -> Any:
        """The value of a form in the null lexical environment, all of its values (`eval`)."""
        where = place or Place(Source(EVALUATED, show(form)), 0, len(show(form)))
        with self.nesting.within("evaluation"):
            return toplevel.evaluate_form(self, module or self.module, form, where.of_form(form))

    def call(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call a Lisp function from outside; its error comes out located."""
        with activated(self):
            try:
                return function(*args)
            except Exception as raw:
                known = self.explained(raw)
                raise known from (raw if known is not raw else raw.__cause__)

    def explained(self, raw: Exception, around: FrameType | None = None) -> SxError:
        """The located, coded error that an exception amounts to; a fault of ours is raised again.

        `around` is the frame outside those of its traceback, where more of the calls are to be seen.
        """
        met = None if isinstance(raw, RecursionError) else poison_met(raw.__traceback__)
        known = Poisoned(met.diagnostic) if met is not None else converted(raw, self.parameters_of)
        if known is None:
            raise raw
        ended = self.exhausted
        if ended is not None and known.diagnostic.message == OUT_OF_STEPS:
            known = Poisoned(ended)
        known.__traceback__ = raw.__traceback__
        found = self._pinpointed(located(known, around))
        return found if self.mender is None or not self.steps_left else self.mender(self, found)

    def _pinpointed(self, fault: SxError) -> SxError:
        """The error at the part of its form that is at fault, as the source shows."""
        diagnostic = fault.diagnostic
        if diagnostic.culprit is not None and not isinstance(fault, Poisoned):
            text = self.sources.get(diagnostic.span.file) if diagnostic.span is not None else None
            fault.diagnostic = pinpointed(diagnostic, text, self.module.aliases)
        return fault

    def explain_expansion(self, fault: SxError, macro: Macro, place: Place) -> SxError:
        """An error raised by a macro's expander, shown at the call of the macro."""
        return self._pinpointed(of_expansion(fault, macro, place))

    # Names, from outside.

    def function(self, name: str) -> Callable[..., Any] | None:
        """The function of a name in the file, None when there is none."""
        cell = self.module.function(symbol(name))
        return cell.ref[0] if cell is not None and cell.defined else None

    def variable(self, name: str) -> Any:
        """The global variable's value, None when it is unbound."""
        variable = self.module.variable(symbol(name))
        return variable.ref[0] if variable is not None and variable.ref else None

    def define(self, name: str, value: Any) -> None:
        """A global lexical definition in the file."""
        self.define_variable(self.module, symbol(name), "lexical", value, None)

    def span_of(self, name: str) -> Span | None:
        """Where a name is defined, as a function or a variable."""
        key = symbol(name)
        cell = self.module.function(key)
        if cell is not None and cell.span is not None:
            return cell.span
        variable = self.module.variable(key)
        return variable.span if variable is not None else None

    def poisoned(self, name: str) -> bool:
        """Whether the form that should define the name has failed, which is reported already."""
        return symbol(name) in self.module.poisoned

    def failed(self, head: str) -> bool:
        """Whether a top-level form that begins with `head` has failed."""
        return head in self.failures

    # Names, for builtins and compiled code.

    def function_named(self, name: Symbol) -> Callable[..., Any]:
        """The function of a symbol; E-NAME-002 when there is none."""
        cell = self.module.function(name)
        if cell is None or not cell.defined:
            diagnostic = unknown_function(self.module, name, bare_scope(), Place(Source("", ""), 0, 0))
            if isinstance(diagnostic, Poisoned):
                raise diagnostic
            raise SxError(evolve(diagnostic.diagnostic, span=None))
        function: Callable[..., Any] = cell.ref[0]
        return function

    def is_function(self, name: Any) -> bool:
        """Whether a name is that of a function, a macro or a special form."""
        if not isinstance(name, Symbol):
            return False
        cell = self.module.function(name)
        return (cell is not None and cell.defined) or self.module.macro(name) is not None or name in SPECIALS

    def macro_named(self, name: Symbol, environment: Any) -> Macro | None:
        """The macro of a name, where an `&environment` says."""
        local = environment.scope.local_function(name) if isinstance(environment, Environment) else None
        return local if isinstance(local, Macro) else self.module.macro(name)

    def forget_function(self, name: Symbol) -> None:
        """The name is that of no function or macro any more, in this file."""
        self.module.macros.pop(name, None)
        self.module.functions.pop(name, None)
        Analyzer(self, self.module).undefined(name, bare_scope(), Place(Source("", ""), 0, 0))

    def parameters_of(self, name: str) -> Parameters | None:
        """The parameters of a library function, by its name."""
        cell = self.base.functions.get(function_key(name, {}))
        return cell.builtin.parameters if cell is not None and cell.builtin is not None else None

    def special(self, name: Symbol) -> GlobalVariable:
        """The variable that `symbol-value` of a name means, made where there is none; that proclaims nothing."""
        variable = self.module.variable(name)
        if variable is None:
            variable = self.module.variables[name] = GlobalVariable(name, "dynamic")
        return variable

    def macroexpand(self, form: Any, environment: Any, once: bool) -> tuple[Any, bool]:
        """`form` expanded where an `&environment` says."""
        if isinstance(environment, Environment):
            analyzer, scope = environment.analyzer, environment.scope
        else:
            analyzer, scope = Analyzer(self, self.module), bare_scope()
        place = Place(Source("", ""), 0, 0)
        try:
            return analyzer.macroexpand(form, scope, place, once)
        except SxError as fault:
            # The form has no place of its own; the caller of macroexpand has.
            raise SxError(evolve(fault.diagnostic, span=None)) from fault

    def next_number(self) -> int:
        """A counter for generated names."""
        self._number += 1
        return self._number

    def type_named(self, name: Any) -> Callable[[Any], bool] | None:
        """The predicate of a type that is none of the standard ones: a structure, or a condition type."""
        if name in self.condition_types:
            wanted = self.condition_types[name].name
            return lambda value: isinstance(value, Condition) and value.type.is_a(wanted)
        return self.types.get(name)

    def type_expander(self, name: Symbol) -> Callable[..., Any] | None:
        """The expander of a type defined by deftype."""
        return self.type_expanders.get(name)

    # Definitions.

    def warn(self, diagnostic: Diagnostic) -> None:
        """Report a warning; the library's own files give none."""
        if not self.module.internal:
            self.diagnostics.report(diagnostic)

    def declare_function(self, module: Module, key: Symbol, place: Place | None) -> FunctionCell:
        """The module's own cell of a function name, so that code analysed from now on refers to it."""
        cell = module.functions.get(key)
        if cell is None or key in module.imported:  # a definition is this file's own, whatever it imported
            self._note_shadowing(module, key, place if key in module.imported else None)
            inherited = module.base.function(key) if module.base is not None else None
            cell = Analyzer(self, module).undefined(key, bare_scope(), place or Place(Source("", ""), 0, 0))
            if inherited is not None:
                cell.ref[:] = inherited.ref
        return cell

    def define_function(self, module: Module, key: Symbol, function: Callable[..., Any], place: Place | None) -> None:
        """Make `function` the global function of a name."""
        cell = self.declare_function(module, key, place)
        macro = module.macros.get(key)
        self._note_definition(module, key, place, cell.span if cell.defined else macro.span if macro else None)
        cell.redefined = cell.defined and cell.builtin is None
        cell.ref[:] = [function]
        cell.defined = True
        cell.builtin = None
        cell.span = place.span if place is not None else None
        module.macros.pop(key, None)

    def define_macro(
        self, module: Module, name: Symbol, expander: Callable[..., Any], shape: str | Callable[[], str],
        place: Place | None,
    ) -> None:  # fmt: skip
        """Make `expander` the global macro of a name. `shape` is what a call looks like, or what gives that."""
        if name in SPECIALS:
            raise error("E-NAME-004", f"`{show(name)}` is a special form: it cannot be defined", help=OTHERWISE)
        old = module.macros.get(name) or module.functions.get(name)
        before = old.span if isinstance(old, Macro) or (old is not None and old.defined) else None
        self._note_definition(module, name, place, before)
        span = place.span if place is not None else None
        module.macros[name] = Macro(name, expander, shape, span, module.internal)

    def _note_definition(self, module: Module, name: Symbol, place: Place | None, before: Span | None) -> None:
        module.poisoned.pop(name, None)
        if place is None or module.internal:
            return
        warn_twice(self, module, name, place, before)
        if before is None or before.file != place.source.file:
            self._note_shadowing(module, name, place)

    def _note_shadowing(self, module: Module, name: Symbol, place: Place | None, variable: bool = False) -> None:
        whose = module.shadowed(name, variable)
        if whose is not None and place is not None:
            self.warn(warning("W-NAME-001", f"`{name.name}` shadows {whose}", place.span))
        module.imported.pop(name, None)

    def declare_variable(self, module: Module, name: Symbol, kind: str, place: Place | None) -> GlobalVariable:
        """The module's own global variable of a name, perhaps still unbound."""
        variable = module.variables.get(name)
        inherited = module.base.variable(name) if module.base is not None else None
        if variable is None and inherited is not None and inherited.kind == "special" == kind:
            return inherited
        if variable is None or name in module.imported:
            if place is not None and kind == "lexical" and not module.internal:
                self._note_shadowing(module, name, place, variable=True)
            variable = module.variables[name] = GlobalVariable(name)
        chosen: VariableKind = "special" if kind == "special" else "constant" if kind == "constant" else "lexical"
        variable.kind = chosen
        if variable.span is None and place is not None:
            variable.span = place.span
        return variable

    def define_variable(self, module: Module, name: Symbol, kind: str, value: Any, place: Place | None) -> None:
        """Give a global variable its value."""
        old = module.variables.get(name)
        if old is not None and old.ref and kind == "constant" == old.kind:
            if old.ref[0] is not value and old.ref[0] != value:
                raise error("E-NAME-004", f"`{show(name)}` is a constant and has the value {show(old.ref[0])}")
            return
        if old is not None and old.ref and name not in module.imported:
            check_redefined(self, module, old, kind, place)
        variable = self.declare_variable(module, name, kind, place)
        variable.ref[:] = [value]
        module.poisoned.pop(name, None)

    def note_use(self, variable: GlobalVariable) -> None:
        """Code that refers to the variable was analysed."""
        self.used.add(id(variable))

    def compile_function(self, module: Module, made: FunctionIR, place: Place) -> Callable[..., Any]:
        """The Python function of an analysed lambda."""
        return compile_function(module, made, place.source.file, place)

    def defer(self, module: Module, key: Symbol, block: Symbol, parts: Any, place: Place, macro: bool) -> Any:
        """A function that is analysed and compiled at its first call."""
        made = Deferred(self, module, key, block, parts, place, macro)
        self.deferred[id(made.function)] = made
        return made.function


__all__ = ["FormResult", "Limits", "Session", "current_span", "info_of_function", "run_deep"]
