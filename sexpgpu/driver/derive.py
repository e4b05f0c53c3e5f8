"""A new experiment from another: its text with chosen values as the knobs' defaults, its paths from a new place."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

from attrs import frozen

from sexpgpu.diag import Diagnostics, error, nearest
from sexpgpu.driver.compile import LIBRARY, new_session
from sexpgpu.driver.entry import read_source
from sexpgpu.lang.forms import NIL, Cons, Symbol, T
from sexpgpu.lang.layout import laid_out
from sexpgpu.lang.layout.tree import Node, parse
from sexpgpu.lang.printer import print_form
from sexpgpu.lang.selection import Selection
from sexpgpu.lang.session import Session
from sexpgpu.trace.declarations import Declarations, declaring

TEMPLATES: Final = LIBRARY / "templates"
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)


@frozen
class Derived:
    """The text of a new experiment, and the knobs whose defaults differ from the origin's, as it writes them."""

    text: str
    values: dict[str, str]


def derive(
    origin: Path, selection: Selection, target: Path, diagnostics: Diagnostics, *, data: str | None, moved: bool
) -> tuple[Derived | None, Session]:
    """The experiment `origin` under a selection, as the text of the file `target`; None where `origin` has errors.

    What evaluation finds goes to `diagnostics`. With `moved`, relative paths of data and modules are rewritten to mean
    the same files from `target`: strings that name data of this selection, or files that are there. `data` is a path
    from the working directory for the knob `data` (E-KNOB-001 if there is none). E-KNOB-006: a value for a knob that a
    macro declares. Raises as `require_file`, too.
    """
    _, text = read_source(origin)
    session = new_session(diagnostics)
    session.modules.overlay[str(origin)] = text  # standard input can be read only once
    declared = Declarations(origin)
    with declaring(declared):
        session.evaluate_file(origin, selection)
    if diagnostics.errors:
        return None, session
    nodes = parse(text)
    edits = list(_moved(nodes, declared.paths, origin, target)) if moved else []
    values = _values(session)
    if moved:
        values = {knob: _moved_value(value, declared.paths, origin, target) for knob, value in values.items()}
    if data is not None:
        if "data" not in {knob.name for knob in session.selected.declarations}:
            raise _no_data_knob(session)
        values["data"] = print_form(_seen_from(Path.cwd(), data, target))
    defaults = _defaults(nodes)
    for name, value in values.items():
        place = defaults.get(name)
        if place is None:
            raise error("E-KNOB-006", f"`{name}` is declared by a macro: its default is not written in the file")
        edits = [edit for edit in edits if not (place.start <= edit[0] < place.end)]
        edits.append((place.start, place.end, value))
    result = text
    for start, end, new in sorted(edits, reverse=True):
        result = result[:start] + new + result[end:]
    # New values are of other widths; a file that was laid out stays so, any other stays as its author left it.
    return Derived(laid_out(result) if laid_out(text) == text else result, values), session


def _no_data_knob(session: Session) -> Exception:
    names = [knob.name for knob in session.selected.declarations]
    near = nearest("data", names)
    help = f"did you mean --set {near}=...?" if near else f"the file's knobs: {' '.join(names) or 'none'}"
    return error("E-KNOB-001", "there is no knob `data`", help=help)


def _values(session: Session) -> dict[str, str]:
    """The values that the selection gave, as forms; those that are the default anyway are left out."""
    defaults = {knob.name: knob.default for knob in session.selected.declarations}
    found: dict[str, str] = {}
    for knob, (variable, _) in zip(session.selected.knobs, session.selected.variables, strict=True):
        if knob.source != "default" and knob.value != defaults[knob.name]:
            value, given = variable.ref[0], session.selected.given[knob.name]
            simple = given.literal or isinstance(value, int | float | Fraction | str | Symbol)
            found[knob.name] = _as_form(value) if simple else print_form(given.form)
    return found


def _as_form(value: Any) -> str:
    """A form whose value is `value`."""
    named = isinstance(value, Symbol) and not value.keyword and value not in (NIL, T)
    return ("'" if named or isinstance(value, Cons) else "") + print_form(value)


def _defaults(nodes: list[Node]) -> dict[str, Node]:
    """The default of each knob that a `defknobs` at the top of the file declares."""
    found: dict[str, Node] = {}
    for form in _top_level(nodes):
        if form.data and form.data[0].name == "defknobs":
            for entry in form.data[1:]:
                if entry.kind == "list" and len(entry.data) > 1:
                    found.setdefault(entry.data[0].name, entry.data[1])
    return found


def _top_level(nodes: list[Node]) -> Iterator[Node]:
    """The lists at the top of a file, those within a `progn` among them."""
    for node in nodes:
        if node.kind == "list":
            yield node
            if node.data and node.data[0].name == "progn":
                yield from _top_level(node.data[1:])


def _moved(nodes: list[Node], paths: set[str], origin: Path, target: Path) -> Iterator[tuple[int, int, str]]:
    """An edit for each string that is a relative path or the beginning of one, seen from another folder."""
    for node, required in _strings(nodes):
        if not required:
            new = _moved_value(node.text, paths, origin, target)
        else:
            written = _written(node.text)
            new = _seen_from(origin.resolve().parent, written, target) if written.startswith(".") else written
            new = print_form(f"./{new}" if written.startswith(".") and not new.startswith(".") else new)
        if new != node.text:
            yield node.start, node.end, new


def _moved_value(text: str, paths: set[str], origin: Path, target: Path) -> str:
    """The spelling of a string that is a path, or the beginning of one, from the new place; any other form as it is."""
    written = _written(text) if text[0] == '"' else ""
    base = origin.resolve().parent
    named = any(path == written or path.startswith(f"{written}/") for path in paths)
    # What another variant reads is not among the paths: the file itself has to tell.
    if written and (named or (("/" in written or "." in written) and os.path.lexists(base / written))):
        return print_form(_seen_from(base, written, target))
    return text


def _written(text: str) -> str:
    """What a string's lexeme reads as."""
    return _ESCAPED.sub(r"\1", text[1:-1])


def _strings(nodes: list[Node], required: bool = False) -> Iterator[tuple[Node, bool]]:
    """Each string, and whether it names a module."""
    for node in nodes:
        if node.kind == "atom" and node.text[0] == '"':
            yield node, required
        yield from _strings(node.items, bool(node.data) and node.data[0].name == "require")


def _seen_from(base: Path, path: str, target: Path) -> str:
    """`path`, which counts from `base`, as the file `target` has to write it; addresses and absolute paths stay."""
    if "://" in path or os.path.isabs(path) or base == target.resolve().parent:
        return path
    return Path(os.path.relpath(base / path, target.resolve().parent)).as_posix()
