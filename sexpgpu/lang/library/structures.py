"""Chapter 8, `defstruct`, and `deftype`: macros over a few builtins.

(defstruct point (x 0) y) defines make-point, point-p, copy-point, the readers point-x and point-y and their
places. Supported options: :conc-name, :constructor (several, with or without an argument list), :copier,
:predicate and :include (with overridden defaults).
"""

from __future__ import annotations

from typing import Any

from attrs import define, field

from sexpgpu.diag import Culprit, error, nearest
from sexpgpu.lang.active import active
from sexpgpu.lang.builtin import Library
from sexpgpu.lang.conditions import CallFault
from sexpgpu.lang.forms import NIL, Cons, Symbol, boolean, lisp_list, symbol
from sexpgpu.lang.library.check import describe, wrong_type
from sexpgpu.lang.library.strings import text_of
from sexpgpu.lang.printer import brief
from sexpgpu.lang.structures import Structure, StructureType

library = Library("structures")

_OPTIONS = ("conc-name", "constructor", "copier", "predicate", "include")


def _form(head: str, *parts: Any) -> Any:
    return lisp_list((symbol(head), *parts))


def _quoted(value: Any) -> Any:
    return _form("quote", value)


def _malformed(message: str, help: str | None = None, culprit: Culprit | None = None) -> Exception:
    return error("E-MACRO-001", f"defstruct: {message}", help=help, culprit=culprit)


@define
class _Options:
    """What the options after a structure's name ask for; a name None stands for the usual one."""

    conc_name: str
    constructors: list[tuple[Any, Any]] = field(factory=list)
    copier: Any = None
    predicate: Any = None
    parent: StructureType | None = None
    overrides: dict[Symbol, Any] = field(factory=dict)


@library.macro("defstruct", "(defstruct name slot...) or (defstruct (name option...) slot...)")
def defstruct(form: Cons) -> Any:
    """Define a structure type with its constructor, predicate, copier, readers and places."""
    head, slot_forms = _head(form)
    name = head.car if isinstance(head, Cons) else head
    if not isinstance(name, Symbol) or name is NIL or name.keyword:
        raise _malformed(f"the name of a structure is a symbol, got {brief(name)}")
    options = _options(name, list(head)[1:] if isinstance(head, Cons) else [])
    own = [_slot(part) for part in slot_forms if not isinstance(part, str)]
    inherited = _inherited(options)
    names = [slot for slot, _ in (*inherited, *own)]
    if len({slot.name for slot in names}) != len(names):
        raise _malformed(f"a slot of {name.name} is named twice")
    defaults = tuple(default for _, default in (*inherited, *own))
    made = StructureType(name, options.parent, tuple(names), defaults, options.conc_name)
    active().types[made.name] = made
    return _form("progn", _form("%define-structure", made), *_functions(made, options), _quoted(name))


def _head(form: Cons) -> tuple[Any, list[Any]]:
    parts = list(form)[1:]
    if not parts:
        raise _malformed("a structure needs a name")
    return parts[0], parts[1:]


def _options(name: Symbol, forms: list[Any]) -> _Options:
    found = _Options(f"{name.name}-")
    for form in forms:
        word, arguments = (form.car, list(form)[1:]) if isinstance(form, Cons) else (form, [])
        key = word.name if isinstance(word, Symbol) else ""
        first = arguments[0] if arguments else NIL
        if key == "conc-name":
            found.conc_name = "" if first is NIL else text_of("defstruct", 1, first)
        elif key == "constructor":
            if arguments:
                found.constructors.append((first, arguments[1] if len(arguments) > 1 else None))
        elif key == "copier":
            found.copier = first if arguments else None
        elif key == "predicate":
            found.predicate = first if arguments else None
        elif key == "include":
            parent = active().types.get(first)
            if not isinstance(parent, StructureType):
                raise _malformed(f":include names no structure: {brief(first)}")
            found.parent = parent
            found.overrides = dict(_slot(part) for part in arguments[1:])
        else:
            near = nearest(key, _OPTIONS)
            culprit = Culprit(word=f":{key}", instead=f":{near}" if near else None)
            raise _malformed(f"{brief(word)} is not supported", f"did you mean :{near}?" if near else None, culprit)
    return found


def _slot(form: Any) -> tuple[Symbol, Any]:
    """The name and the default form of a slot; :type and :read-only are read and not enforced."""
    name, default = form, NIL
    if isinstance(form, Cons):
        name = form.car
        default = form.cdr.car if isinstance(form.cdr, Cons) else NIL
    if not isinstance(name, Symbol) or name.keyword or name is NIL:
        raise _malformed(f"a slot is a name or (name default), got {brief(form)}")
    return name, default


def _inherited(options: _Options) -> list[tuple[Symbol, Any]]:
    if options.parent is None:
        return []
    pairs = zip(options.parent.slots, options.parent.defaults, strict=True)
    return [(slot, options.overrides.get(slot, default)) for slot, default in pairs]


def _functions(made: StructureType, options: _Options) -> list[Any]:
    name = made.name.name
    item, new = symbol("structure"), symbol("new")
    forms = [
        _constructor(made, constructor, arguments)
        for constructor, arguments in options.constructors or [(symbol(f"make-{name}"), None)]
        if constructor is not NIL
    ]
    predicate = symbol(f"{name}-p") if options.predicate is None else options.predicate
    if predicate is not NIL:
        forms.append(_form("defun", predicate, lisp_list([item]), _form("%structure-p", made, item)))
    copier = symbol(f"copy-{name}") if options.copier is None else options.copier
    if copier is not NIL:
        forms.append(_form("defun", copier, lisp_list([item]), _form("%copy-structure", made, item)))
    for index, slot in enumerate(made.slots):
        reader = symbol(options.conc_name + slot.name)
        parent = options.parent
        if parent is not None and parent.conc_name == options.conc_name and slot in parent.slots:
            continue  # the included type's reader serves
        place = _form("setf", reader)
        shown = _quoted(reader)
        forms.append(_form("defun", reader, lisp_list([item]), _form("%slot", made, index, shown, item)))
        body = _form("%set-slot", made, index, shown, item, new)
        forms.append(_form("defun", place, lisp_list([new, item]), body))
    return forms


def _constructor(made: StructureType, name: Any, arguments: Any) -> Any:
    if arguments is None:
        keys = [lisp_list([slot, default]) for slot, default in zip(made.slots, made.defaults, strict=True)]
        parameters = lisp_list([symbol("&key"), *keys])
        return _form("defun", name, parameters, _form("%make-structure", made, *made.slots))
    defaults = {slot.name: default for slot, default in zip(made.slots, made.defaults, strict=True)}
    parameters, taken = _arguments(arguments, defaults)
    values = [slot if slot.name in taken else defaults[slot.name] for slot in made.slots]
    return _form("defun", name, lisp_list(parameters), _form("%make-structure", made, *values))


def _arguments(arguments: Any, defaults: dict[str, Any]) -> tuple[list[Any], set[str]]:
    """An argument list whose optional parameters take their slots' defaults, and the names it binds."""
    found: list[Any] = []
    taken: set[str] = set()
    section = ""
    for part in arguments if isinstance(arguments, Cons) else ():
        if isinstance(part, Symbol) and part.name.startswith("&"):
            section = part.name
        else:
            variable = part.car if isinstance(part, Cons) else part
            variable = variable.cdr.car if isinstance(variable, Cons) else variable
            taken.add(variable.name)
            if section in ("&optional", "&key") and isinstance(part, Symbol):
                part = lisp_list([part, defaults.get(part.name, NIL)])
        found.append(part)
    return found, taken


@library.builtin("%define-structure", "(type)")
def define_structure(made: Any) -> Any:
    active().types[made.name] = made
    return made.name


@library.builtin("%make-structure", "(type &rest values)")
def make_structure(made: Any, *values: Any) -> Any:
    return Structure(made, list(values))


@library.builtin("%structure-p", "(type object)")
def structure_p(made: Any, value: Any) -> Any:
    return boolean(made(value))


def _instance(made: StructureType, name: str, value: Any) -> Structure:
    if isinstance(value, Structure) and made(value):
        return value
    wrong = error("E-TYPE-001", f"{name} needs a {made.name.name}, got {brief(value)}", actual=describe(value))
    raise CallFault(wrong.diagnostic)  # the function that defstruct wrote has no text to show


@library.builtin("%copy-structure", "(type object)")
def copy_structure(made: Any, value: Any) -> Any:
    found = _instance(made, f"copy-{made.name.name}", value)
    return Structure(found.type, list(found.values))


@library.builtin("copy-structure", "(structure)")
def copy_any_structure(value: Any) -> Any:
    """A structure of the same type with the same slot values."""
    if not isinstance(value, Structure):
        raise wrong_type("copy-structure", 0, value, "a structure")
    return Structure(value.type, list(value.values))


@library.builtin("%slot", "(type index reader object)")
def slot(made: Any, index: Any, reader: Any, value: Any) -> Any:
    if type(value) is Structure and value.type is made:
        return value.values[index]
    return _instance(made, reader.name, value).values[index]


@library.builtin("%set-slot", "(type index reader object new)")
def set_slot(made: Any, index: Any, reader: Any, value: Any, new: Any) -> Any:
    _instance(made, f"(setf {reader.name})", value).values[index] = new
    return new


@library.macro("deftype", "(deftype name lambda-list form...)")
def deftype(form: Cons) -> Any:
    """Define a type specifier by a form that expands it; parameters without a default are `*`."""
    parts = list(form)[1:]
    if len(parts) < 2 or not isinstance(parts[0], Symbol):
        raise error("E-MACRO-001", "deftype: expected (deftype name lambda-list form...)")
    name, parameters, *body = parts
    expander = _form("lambda", lisp_list(_starred(parameters)), *body)
    return _form("%define-type", _quoted(name), expander)


def _starred(parameters: Any) -> list[Any]:
    found: list[Any] = []
    section = ""
    for part in parameters if isinstance(parameters, Cons) else ():
        if isinstance(part, Symbol) and part.name.startswith("&"):
            section = part.name
        elif section in ("&optional", "&key") and isinstance(part, Symbol):
            part = lisp_list([part, _quoted(symbol("*"))])
        found.append(part)
    return found


@library.builtin("%define-type", "(name expander)")
def define_type(name: Any, expander: Any) -> Any:
    active().type_expanders[name] = expander
    return name
