"""eval, macroexpand, read-from-string and what else calls the compiler or the reader at run time."""

from __future__ import annotations

from typing import Any, Final

from attrs import evolve

from sexpgpu.diag import Diagnostic, SxError, error
from sexpgpu.lang.active import active
from sexpgpu.lang.analyze.core import Analyzer, Environment
from sexpgpu.lang.analyze.places import access, setf_expansion
from sexpgpu.lang.builtin import Library, show
from sexpgpu.lang.compiler import bare_scope
from sexpgpu.lang.core.expansions import EXPANSIONS
from sexpgpu.lang.forms import MV, NIL, Cons, Source, Symbol, boolean, one, symbol, values
from sexpgpu.lang.functions import info_of_function
from sexpgpu.lang.library.access import items_of_list
from sexpgpu.lang.place import EVALUATED, Place
from sexpgpu.lang.reader import Reader
from sexpgpu.lang.readtime import substitute_read_eval

library = Library("evaluation")

EVAL_WORK: Final = 1_500
"""Steps that compiling takes, of a form that has no parts."""
_VARIABLE: Final = symbol("variable")


@library.builtin("eval", "(form)", many=True)
def eval_(form: Any) -> Any:
    """The form's value in the null lexical environment."""
    active().spend(EVAL_WORK)
    try:
        return active().evaluate_form(form)
    except SxError as fault:
        span = fault.diagnostic.span
        if span is not None and span.file == EVALUATED:  # shown where `eval` is called
            fault.diagnostic = evolve(fault.diagnostic, span=None)
        raise


@library.builtin("values", "(&rest values)", many=True)
def values_(*items: Any) -> Any:
    """`#'values`; a call of `values` is compiled in place."""
    return values(*items)


@library.builtin("macroexpand", "(form &optional environment)", many=True)
def macroexpand(form: Any, environment: Any = NIL) -> Any:
    changed = False
    while True:
        form, expanded = _expanded_once(form, environment)
        if not expanded:
            return MV((form, boolean(changed)))
        changed = True


@library.builtin("macroexpand-1", "(form &optional environment)", many=True)
def macroexpand_1(form: Any, environment: Any = NIL) -> Any:
    expanded, changed = _expanded_once(form, environment)
    return MV((expanded, boolean(changed)))


@library.builtin("get-setf-expansion", "(place &optional environment)", many=True)
def get_setf_expansion(target: Any, environment: Any = NIL) -> Any:
    """How a place is written: temporaries, their values, the names of new values, the writing and the reading form."""
    session = active()
    if isinstance(environment, Environment):
        analyzer, scope = environment.analyzer, environment.scope
    else:
        analyzer, scope = Analyzer(session, session.module), bare_scope()
    try:
        return setf_expansion(access(analyzer, target, scope, Place(Source("", ""), 0, 0)))
    except SxError as fault:  # the place has none of its own; the caller has
        raise SxError(evolve(fault.diagnostic, span=None)) from fault


def _expanded_once(form: Any, environment: Any) -> tuple[Any, bool]:
    expanded, changed = active().macroexpand(form, environment, once=True)
    if not changed and isinstance(form, Cons) and isinstance(form.car, Symbol) and form.car in EXPANSIONS:
        return EXPANSIONS[form.car](form), True
    return expanded, changed


@library.builtin("read-from-string", "(string &optional eof-error eof-value &key start end)", many=True)
def read_from_string(
    string: Any, eof_error: Any = None, eof_value: Any = NIL, *, start: Any = 0, end: Any = NIL
) -> Any:
    """The first form in a string, and the index of the character after it."""
    if not isinstance(string, str):
        raise error("E-TYPE-001", f"read-from-string needs a string, got {show(string)}")
    text = string if end is NIL else string[:end]
    found = _read_one(text, start)
    if found is None:
        if eof_error is NIL:
            return MV((eof_value, len(text)))
        raise error("E-READ-008", "read-from-string: there is no form in the string")
    return MV(found)


def _read_one(text: str, start: int) -> tuple[Any, int] | None:
    """The first form of a text from `start` on, and the index behind it; its first error is raised."""
    found: list[Diagnostic] = []
    reader = Reader(Source("<string>", text), found.append, active().module.aliases)
    form = next(iter(reader.forms(start)), None)
    for diagnostic in found:
        if diagnostic.severity == "error":
            assert diagnostic.span is not None  # the reader's are all in its text
            message = f"{diagnostic.message}, at {diagnostic.span.line}:{diagnostic.span.col} of the string"
            help = f"in the string, {diagnostic.help}" if diagnostic.help is not None else None
            raise SxError(Diagnostic(diagnostic.code, message, help=help))
    if form is None:
        return None
    # An atom is ended by the character behind it, which is read with it.
    ended = not isinstance(form.datum, Cons | str | list) and text[form.end : form.end + 1].isspace()
    datum = substitute_read_eval(form.datum, lambda inner: one(eval_(inner))) if form.read_eval else form.datum
    return datum, form.end + ended


@library.builtin("proclaim", "(declaration)")
def proclaim(declaration: Any) -> Any:
    session = active()
    words = items_of_list("proclaim", 1, declaration)
    if words and words[0].name == "special":
        for name in words[1:]:
            session.declare_variable(session.module, name, "special", None)
    return NIL


@library.builtin("(setf documentation)", "(new object kind)")
def set_documentation(new: Any, object_: Any, kind: Any) -> Any:
    active().documents[object_, kind] = new
    return new


@library.builtin("documentation", "(object kind)")
def documentation(object_: Any, kind: Any) -> Any:
    """The documentation string of a function, a macro or a variable, given itself or by name; nil for none."""
    session = active()
    written = session.documents.get((object_, kind))
    if written is not None or kind is _VARIABLE:
        return written or NIL
    function = object_
    if isinstance(object_, Symbol):
        macro, cell = session.macro_named(object_, NIL), session.module.function(object_)
        if macro is not None:
            function = macro.expand
        elif cell is not None and cell.builtin is not None:
            return cell.builtin.doc or NIL
        else:
            function = cell.ref[0] if cell is not None and cell.defined else None
    info = info_of_function(function)
    return info.doc if info is not None and info.doc is not None else NIL
