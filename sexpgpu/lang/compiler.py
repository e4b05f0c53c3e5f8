"""From analysed functions to Python functions; global functions are analysed and compiled at their first call."""

from __future__ import annotations

import ast
import builtins
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from types import FunctionType
from typing import TYPE_CHECKING, Any

from sexpgpu.diag import Diagnostic, SxError
from sexpgpu.lang import runtime
from sexpgpu.lang.active import active_observer
from sexpgpu.lang.analyze import specials  # noqa: F401  fills the table of special forms
from sexpgpu.lang.analyze.core import Analyzer
from sexpgpu.lang.analyze.grammar import Items
from sexpgpu.lang.analyze.lambdas import analyze_lambda
from sexpgpu.lang.analyze.macros import macro_function
from sexpgpu.lang.analyze.mentions import note_mentions
from sexpgpu.lang.calls import MARK
from sexpgpu.lang.conditions import Poisoned
from sexpgpu.lang.emit import binding, code, control, expressions, inline  # noqa: F401  fill the emitter's tables
from sexpgpu.lang.emit.core import Emitter
from sexpgpu.lang.forms import Symbol, symbol
from sexpgpu.lang.functions import FunctionInfo, labelled
from sexpgpu.lang.ir import FunctionIR
from sexpgpu.lang.place import Place
from sexpgpu.lang.scope import Scope
from sexpgpu.lang.shelf import Kept

if TYPE_CHECKING:
    from collections.abc import Callable

    from sexpgpu.lang.module import Module
    from sexpgpu.lang.session import Session

MACRO_WORK = 6_000
"""Steps that compiling a macro takes."""
DEFERRED_FILE = "<deferred>"
GENSYM_COUNTER = symbol("*gensym-counter*")


def furnish(module: Module, tick: Callable[[], Any]) -> None:
    """Fill a module's namespace with what compiled code refers to."""
    module.namespace.update(runtime.NAMES)
    module.namespace.update({"__builtins__": builtins, MARK: module, "tick": tick})


def bare_scope() -> Scope:
    """The null lexical environment."""
    return Scope(None, FunctionIR(None, None))


def compile_function(module: Module, made: FunctionIR, file: str, place: Place) -> FunctionType:
    """The Python function of an analysed lambda with no lexical environment around it."""
    emitter = Emitter(module, active_observer())
    label = made.info.label
    loc = emitter.loc(place)
    binding.function(emitter, made, label, loc)
    tree = ast.Module(emitter.frame.body, [])
    exec(compile(tree, file, "exec"), module.namespace)
    function: FunctionType = module.namespace.pop(label)
    return function


def compile_all(module: Module) -> None:
    """Compile the module's functions and macros that nothing has called yet."""
    made = [cell.ref[0] for cell in module.functions.values()] + [macro.expand for macro in module.macros.values()]
    for function in made:
        waiting = (getattr(function, "__kwdefaults__", None) or {}).get("deferred")
        if waiting is not None:
            waiting.force()


def _stub(*args: Any, deferred: Deferred) -> Any:
    return deferred.force()(*args)


_STUB_CODE = _stub.__code__.replace(co_filename=DEFERRED_FILE)


class Deferred:
    """A global function or macro expander that is analysed and compiled when it is first called.

    `function` is a Python function from the start: compiling replaces its code, so that its identity stays. `parts` are
    the elements of the definition behind its head, or what gives them then.
    """

    __slots__ = ("_compiled", "_failure", "_made", "_parts", "block", "function", "info", "key", "macro", "module",
                 "place", "session")  # fmt: skip

    def __init__(
        self, session: Session, module: Module, key: Symbol, block: Symbol, parts: Items | Callable[[], Items],
        place: Place, macro: bool,
    ) -> None:  # fmt: skip
        self.session = session
        self.module = module
        self.key = key
        self.block = block
        self.macro = macro
        self.place = place
        self._parts = parts
        self._made: FunctionIR | None = None
        self._failure: Diagnostic | None = None
        self._compiled = False
        self.info: FunctionInfo | None = None  # what is known of the function once it is analysed
        self.function = FunctionType(_STUB_CODE, module.namespace, f"{key.name}#0")
        self.function.__kwdefaults__ = {"deferred": self}

    def analyze(self) -> FunctionIR:
        """The analysed function. The faults in it are reported now, whoever asks; code that reaches one fails.

        A lambda list that is refused fails each call.
        """
        if self._failure is not None:
            raise Poisoned(self._failure)
        if self._made is None:
            with self._apart():
                self._made = self._analyzed()
            self.info = self._made.info
        return self._made

    def _analyzed(self) -> FunctionIR:
        if self.macro and not self.module.internal:  # macros can define macros without end
            self.session.spend(MACRO_WORK)
        analyzer = Analyzer(self.session, self.module, waits=True)
        parts: Items = []
        try:
            parts = self._parts() if callable(self._parts) else self._parts
            if self.macro:
                made = macro_function(analyzer, self.block, parts, bare_scope(), self.place)
            else:
                head, rest = parts[1], parts[2:]
                made = analyze_lambda(analyzer, self.key.name, head, rest, bare_scope(), self.place, self.block)
        except SxError as fault:
            self._failure = fault.diagnostic
            note_mentions(self.session, self.module, [form for form, _ in parts], None)
            if not isinstance(fault, Poisoned):
                self.session.diagnostics.report(fault.diagnostic)
            raise Poisoned(fault.diagnostic) from None
        for found in analyzer.faults:
            self.session.diagnostics.report(found.diagnostic)
        return made

    @contextmanager
    def _apart(self) -> Iterator[None]:
        """Around the analysis of a function of the library, which may be left out: no name seen later tells."""
        if not self._lasting:
            yield
            return
        counter = self.session.base.variables[GENSYM_COUNTER].ref
        counted = counter[:]
        try:
            with labelled(self._title):
                yield
        finally:
            counter[:] = counted

    @property
    def _lasting(self) -> bool:
        """Whether the function is one of the library's, of which files wait to be read."""
        return callable(self._parts)

    @property
    def _title(self) -> str:
        """The function's name among all that the library ever had."""
        source = self.place.source
        return f"{source.file}:{self.place.start}:{zlib.crc32(source.text.encode()):x}"

    def force(self) -> FunctionType:
        """The function with its real code."""
        if not self._compiled:
            shelf = self.session.shelf if self._lasting and self.session.observer is None else None
            kept = shelf.take(self._title, self.module) if shelf is not None and self._made is None else None
            if kept is None and shelf is not None:
                with shelf.compiling(self._title, self.module) as put, self.module.constants(self._title):
                    kept = self._compile()
                    put(kept)
            kept = kept or self._compile()
            stub = self.function
            stub.__code__ = kept.code
            stub.__defaults__ = (runtime.UNSET,) * kept.optional or None
            stub.__kwdefaults__ = None
            stub.__name__ = stub.__qualname__ = kept.info.label
            self.info = kept.info
            self._compiled = True
        return self.function

    def _compile(self) -> Kept:
        made = self.analyze()
        real = compile_function(self.module, made, self.place.source.file, self.place)
        return Kept(real.__code__, len(real.__defaults__ or ()), made.info)

    def described(self) -> FunctionInfo:
        """What is known of the function, which is analysed for it."""
        if self.info is None:
            if self._lasting and self.session.shelf is not None:
                self.force()
            else:
                self.analyze()
        assert self.info is not None
        return self.info
