"""Where a name is defined: in the user's files, in the library's `.sx` files, in Python, or in the compiler."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from inspect import cleandoc
from pathlib import Path
from typing import Any, Final

from attrs import frozen

from sexpgpu.diag import Diagnostics, Span, SxError, error, nearest
from sexpgpu.dialects.ops import OPS
from sexpgpu.driver.compile import LIBRARY, evaluate, new_session
from sexpgpu.driver.written import Written, written_at
from sexpgpu.lang import modules, selection
from sexpgpu.lang.active import activated
from sexpgpu.lang.analyze.grammar import SPECIALS
from sexpgpu.lang.builtin import Builtin, MacroBuiltin
from sexpgpu.lang.failed import defined_name
from sexpgpu.lang.forms import Source, Symbol, setf_name, symbol
from sexpgpu.lang.functions import info_of_function
from sexpgpu.lang.knobvalues import KNOBS
from sexpgpu.lang.module import Module
from sexpgpu.lang.reader import read_text
from sexpgpu.lang.session import Session
from sexpgpu.lang.standard import PRELUDE

PACKAGE: Final = Path(__file__).resolve().parents[1]
KINDS: Final = {
    "def": "variable",
    "defconstant": "constant",
    "define-condition": "condition type",
    "defloader": "loader",
    "defmacro": "macro",
    "defmodel": "model",
    "defoptimizer": "optimizer",
    "defparameter": "special variable",
    "defstruct": "structure",
    "defsweep": "sweep",
    "deftype": "type",
    "defun": "function",
    "defvar": "special variable",
    "defvariant": "variant",
}
"""What a form defines, by its head."""
UNREAD: Final = ("E-IO", "E-KNOB-001", "E-KNOB-002", "E-KNOB-004")
"""Errors before which no form of a file has been evaluated."""
UNTABLED: Final = frozenset({"define-condition", "defstruct", "defsweep", "deftype", "defvariant"})
"""Heads of forms whose name is that of no function, macro or variable."""
FILE_FORMS: Final[dict[str, tuple[str, Callable[..., Any]]]] = {
    "require": (modules.SHAPE, modules.Modules.require),
    "provide": ("(provide name...)", modules.Modules.provide),
    "defknobs": (KNOBS, selection.define_knobs),
    "defvariant": (selection.VARIANT, selection.define_variant),
    "defsweep": (selection.SWEEP, selection.define_variant),
}
"""Forms that only the top of a file may hold, with their shapes and what evaluates them."""
GENERIC_OPS: Final = {
    "+": "add",
    "-": "sub",
    "*": "mul",
    "/": "div",
    "=": "eq",
    "/=": "ne",
    "<": "lt",
    "<=": "le",
    ">": "gt",
    ">=": "ge",
    "max": "maximum",
    "min": "minimum",
    "expt": "pow",
    "ceiling": "ceil",
    "signum": "sign",
}
"""Operations of the dialect that a Lisp function of another name becomes where it meets tensors."""


@frozen
class Operation:
    """The record of the dialect's operation that a function traces to."""

    name: str
    doc: str
    file: str
    line: int


@frozen
class Definition:
    """One definition of a name. `call` is how a call of it looks; `text` the form that defines it, as it is written.

    Without a `span` it is built into the compiler: then `python` is the file and line of what it does. `module` is
    "sexpgpu/nn" and the like, "the prelude", or "" for a file of the user's. `written_by` is the form, of a macro or
    one that defines several names, that stands at the place.
    """

    name: str
    kind: str
    call: str = ""
    doc: str = ""
    span: Span | None = None
    text: str = ""
    module: str = ""
    written_by: str = ""
    python: tuple[str, int] | None = None
    operation: Operation | None = None


@frozen
class Found:
    """The definitions of a name; where there are none, why, with the texts that the diagnostics point into."""

    definitions: list[Definition]
    diagnostics: Diagnostics
    sources: Mapping[str, str]


def where_is(name: str, path: Path | None, selected: selection.Selection) -> Found:
    """Every definition of a name: what a file sees, or else the library; E-NAME-006 where there is none.

    A file with errors is asked all the same; where the form that defines the name has failed, its error says why.
    """
    told = Diagnostics()
    names: set[str] = {special.name for special in SPECIALS} | FILE_FORMS.keys()
    sources: Mapping[str, str] = {}
    if path is not None:
        own, reported, _ = evaluate(path, selected)
        sources = own.sources
        if reported.errors and reported.errors[0].code.startswith(UNREAD):
            return Found([], reported, sources)
        found = list(_seen(own, name)) or list(_hidden(own, name))
        failed = own.module.poisoned.get(symbol(name.lower()))
        if not found and failed is not None:
            told.report(failed)
        if found or failed is not None:
            return Found(found, told, sources)
        names |= own.module.names() | own.declared.variants.keys() | own.declared.sweeps.keys()
    session = _of_library()
    found = list(_seen(session, name)) or list(_hidden(session, name))
    if not found:
        names |= session.module.names()
        near = nearest(name.lower(), {n for n in names if not n.startswith("%")})
        asked = "the library" if path is None else f"{path} or the library"
        help = f"did you mean `{near}`?" if near is not None else None
        told.report(error("E-NAME-006", f"`{name}` is defined nowhere in {asked}", help=help).diagnostic)
    return Found(found, told, sources)


def _of_library() -> Session:
    """A session whose file sees every standard module."""
    session = new_session(Diagnostics())
    for file in sorted(LIBRARY.glob("*.sx")):
        if file.stem != "forms":
            session.evaluate_text(f'(require "{modules.STANDARD}{file.stem}")')
    return session


def _seen(session: Session, name: str) -> Iterator[Definition]:
    """What the name means in the session's file: as an operator, a variable, a type; or a module's file."""
    word = name.lower().removeprefix("#'")
    writer = re.fullmatch(r"\(setf\s+(\S+)\)", word)
    key = setf_name(symbol(writer[1])) if writer is not None else symbol(word)
    yield from _in_tables(session, session.module, key, word)
    if key in SPECIALS:
        special = SPECIALS[key]
        yield Definition(word, "special form", special.shape, python=_python_place(special.analyze))
    if word in FILE_FORMS:
        shape, function = FILE_FORMS[word]
        yield Definition(word, "special form", shape, python=_python_place(function))
    yield from _untabled(session, word)
    if word.startswith(modules.STANDARD) and (file := LIBRARY / f"{word.removeprefix(modules.STANDARD)}.sx").is_file():
        yield Definition(word, "module", f'(require "{word}")', span=Span(str(file), 1, 1, 1, 1))


def _hidden(session: Session, name: str) -> Iterator[Definition]:
    """What the name means inside the modules that the file requires, directly or not."""
    word = name.lower()
    for loaded in session.modules.loaded:
        yield from _in_tables(session, loaded.module, symbol(word), word)


def _in_tables(session: Session, module: Module, key: Symbol, name: str) -> Iterator[Definition]:
    cell, macro, variable = module.function(key), module.macro(key), module.variable(key)
    if macro is not None:
        yield _of_form(session, name, "macro", macro.span, macro.shape, macro.expand)
    elif cell is not None and cell.builtin is not None:
        yield _of_builtin(name, cell.builtin)
    elif cell is not None and cell.defined:
        yield _of_form(session, name, "function", cell.span, "", cell.ref[0])
    if variable is not None and variable.ref:
        knobs = {declaration.name for declaration in session.selected.declarations}
        named = {"constant": "constant", "special": "special variable"}.get(variable.kind, "variable")
        kind = "knob" if name in knobs and variable.kind == "lexical" else named
        yield _of_form(session, name, kind, variable.span)


def _untabled(session: Session, name: str) -> Iterator[Definition]:
    """Types, structures, variants and sweeps, by the look of the forms that define them."""
    for file, text in session.sources.items():
        if name not in text.lower():
            continue
        source = Source(file, text)
        for form in read_text(source, lambda _: None, set(session.module.aliases)):
            defined = defined_name(form.datum)
            if defined is not None and defined.name == name and form.datum.car.name in UNTABLED:
                span = source.span(form.start, form.end)
                yield _of_form(session, name, KINDS[form.datum.car.name], span)


def _of_form(
    session: Session, name: str, kind: str, span: Span | None, shape: str = "", function: Any = None
) -> Definition:
    """The definition that stands at a span, with what its own text says of it."""
    if span is None:
        if function is None:
            return Definition(name, kind, shape)
        return Definition(name, kind, shape, python=_python_place(function))
    source = Source(span.file, _text(session, span.file))
    start = source.starts[span.line - 1] + span.col - 1
    if not source.text.startswith("(", start):
        start = source.text.rfind("(", 0, start)  # an entry of defknobs is known by its name
    said = written_at(source, start)
    own = said.name == name.rpartition(":")[2]
    if own:
        kind = KINDS.get(said.head, kind)
    info = _info(session, function)
    parameters = said.parameters if own and said.parameters else info[0]
    call = shape if kind == "macro" and not said.parameters else _call(name, parameters) if parameters else ""
    text = source.text[start : said.end]
    return Definition(
        name,
        kind,
        call,
        said.doc if own else info[1],
        source.span(start, said.end),
        text,
        _module(span.file),
        "" if own else _beginning(text, said),
    )


def _info(session: Session, function: Any) -> tuple[str, str]:
    """Lambda list and documentation of a function of Lisp that no definition form of its own shows."""
    info = None
    with activated(session), suppress(SxError):  # one that nothing has called yet is analysed for them
        info = info_of_function(function)
    return (info.parameters.text, info.doc or "") if info is not None else ("", "")


def _call(name: str, parameters: str) -> str:
    """How a call looks; a writer of a place takes the new value first."""
    if name.startswith("(setf "):
        new, _, rest = parameters[1:-1].partition(" ")
        return f"(setf ({name[6:-1]} {rest}) {new})"
    return f"({name} {parameters[1:-1]}".rstrip() + ")"


def _beginning(text: str, said: Written) -> str:
    line = text.split("\n", 1)[0]
    return line if line == text and len(line) <= 60 else f"({said.head or said.name} ...)"


def _of_builtin(name: str, builtin: Builtin) -> Definition:
    return Definition(
        name,
        "function",
        _call(name, builtin.parameters.text),
        cleandoc(builtin.doc),
        python=_python_place(builtin.function),
        operation=operation_of(builtin.name),
    )


def _python_place(function: Any) -> tuple[str, int]:
    """File and line of a function of Python; of a macro's, those of the expander that the library has."""
    macro = getattr(function, "__self__", None)
    code = (macro.expand if isinstance(macro, MacroBuiltin) else getattr(function, "__wrapped__", function)).__code__
    return code.co_filename, code.co_firstlineno


def operation_of(name: str) -> Operation | None:
    """The operation record of a function, found by its name in the files of the dialect."""
    op = OPS.get(GENERIC_OPS.get(name, name.replace("-", "_")))
    if op is None:
        return None
    for file in sorted((PACKAGE / "dialects").glob("*.py")):
        text = file.read_text("utf-8")
        place = re.search(rf'(?:OpDef\(\s*name=|^\s*_\w+\(\s*)"{op.name}",', text, re.MULTILINE)
        if place is not None:
            return Operation(f"sx.{op.name}", op.doc, str(file.resolve()), text.count("\n", 0, place.start()) + 1)
    return None


def _text(session: Session, file: str) -> str:
    return session.sources[file] if file in session.sources else Path(file).read_text("utf-8")


def _module(file: str) -> str:
    """The name of the library's module that a file is, "" of a file of the user's."""
    path = Path(file)
    if path in (PRELUDE, LIBRARY / "forms.sx", LIBRARY / "losses.sx"):
        return "the prelude"
    if not path.is_relative_to(LIBRARY):
        return ""
    return modules.STANDARD + path.relative_to(LIBRARY).with_suffix("").parts[0]
