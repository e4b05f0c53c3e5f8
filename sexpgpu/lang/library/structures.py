"""Chapter 8, `defstruct`, and `deftype`: macros over a few builtins.

(defstruct point (x 0) y) defines make-point, point-p, copy-point, the readers point-x and point-y and their
places. Options: :conc-name, :constructor (several, with or without an argument list), :copier, :predicate,
:include (with overridden defaults), :print-function, :print-object, and :type with :named and :initial-offset.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from attrs import define, field

from sexpgpu.diag import Culprit, error, nearest
from sexpgpu.lang.active import active, spend_steps
from sexpgpu.lang.builtin import Library
from sexpgpu.lang.conditions import CallFault
from sexpgpu.lang.forms import NIL, Cons, Symbol, boolean, keyword, lisp_list, symbol
from sexpgpu.lang.library.access import items_of_list
from sexpgpu.lang.library.check import describe, size, wrong_type
from sexpgpu.lang.library.strings import text_of
from sexpgpu.lang.printer import brief
from sexpgpu.lang.structures import Layout, Structure, StructureType

library = Library("structures")

_OPTIONS = ("conc-name", "constructor", "copier", "predicate", "include", "print-function", "print-object", "type",
            "named", "initial-offset")  # fmt: skip


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
    overridden: list[Any] = field(factory=list)
    printer: tuple[str, Any] | None = None
    kind: str | None = None
    named: bool = False
    offset: int = 0


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
    fixed = frozenset(_slot(part)[0] for part in (*options.overridden, *slot_forms) if _is_read_only(part))
    if options.parent is not None:
        fixed |= options.parent.read_only
    layout = _layout(name, own, options)
    made = StructureType(name, options.parent, tuple(names), defaults, options.conc_name, layout, fixed)
    _name_type(made)
    shown = []
    if options.printer is not None:
        word, function = options.printer
        shown.append(_form("%print-structure", made, _quoted(symbol(word)), _form("function", function)))
    return _form("progn", _form("%define-structure", made), *shown, *_functions(made, options), _quoted(name))


def _name_type(made: StructureType) -> None:
    active().types[made.name] = made
    active().module.types[made.name] = None


def _layout(name: Symbol, own: list[Any], options: _Options) -> Layout | None:
    """Where the parts of a list or vector are: what it includes, the offset, the name, the slots."""
    before = options.parent.layout if options.parent is not None else None
    if options.parent is not None and (before.kind if before else None) != options.kind:
        raise _malformed(f":include of {options.parent.name.name}, which has another :type")
    if options.kind is None:
        return None
    places, tags, size = (before.places, before.tags, before.size) if before else ((), (), 0)
    size += options.offset
    if options.named:
        tags, size = (*tags, (size, name)), size + 1
    places = (*places, *range(size, size + len(own)))
    return Layout(options.kind, places, tags, size + len(own), options.named)


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
            found.overridden = arguments[1:]
        elif key in ("print-function", "print-object"):
            found.printer = (key, first) if arguments else None
        elif key == "type":
            found.kind = _representation(first)
        elif key == "named":
            found.named = True
        elif key == "initial-offset":
            found.offset = size("defstruct: :initial-offset", 0, first)
        else:
            near = nearest(key, _OPTIONS)
            culprit = Culprit(word=f":{key}", instead=f":{near}" if near else None)
            raise _malformed(f"{brief(word)} is not supported", f"did you mean :{near}?" if near else None, culprit)
    return found


def _representation(kind: Any) -> str:
    head = kind.car if isinstance(kind, Cons) else kind
    if not isinstance(head, Symbol) or head.name not in ("list", "vector"):
        raise _malformed(f":type is list, vector or (vector element-type), got {brief(kind)}")
    return head.name


def _slot(form: Any) -> tuple[Symbol, Any]:
    """The name and the default form of a slot; a :type is read and not enforced."""
    name, default = form, NIL
    if isinstance(form, Cons):
        name = form.car
        default = form.cdr.car if isinstance(form.cdr, Cons) else NIL
    if not isinstance(name, Symbol) or name.keyword or name is NIL:
        raise _malformed(f"a slot is a name or (name default), got {brief(form)}")
    return name, default


def _is_read_only(form: Any) -> bool:
    options = list(form)[2:] if isinstance(form, Cons) else []
    return any(key is keyword("read-only") and value is not NIL for key, value in itertools.pairwise(options))


def _inherited(options: _Options) -> list[tuple[Symbol, Any]]:
    if options.parent is None:
        return []
    overrides = dict(map(_slot, options.overridden))
    pairs = zip(options.parent.slots, options.parent.defaults, strict=True)
    return [(slot, overrides.get(slot, default)) for slot, default in pairs]


def _functions(made: StructureType, options: _Options) -> list[Any]:
    name = made.name.name
    item, new = symbol("structure"), symbol("new")
    forms = [
        _constructor(made, constructor, arguments)
        for constructor, arguments in options.constructors or [(symbol(f"make-{name}"), None)]
        if constructor is not NIL
    ]
    predicate = symbol(f"{name}-p") if options.predicate is None else options.predicate
    testable = made.layout is None or made.layout.named
    if predicate is not NIL and not testable and options.predicate is not None:
        raise _malformed(f":predicate {brief(predicate)} needs :named: a {options.kind} does not say what it is")
    if predicate is not NIL and testable:
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
        if slot not in made.read_only:
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
    _name_type(made)
    return made.name


@library.builtin("%make-structure", "(type &rest values)")
def make_structure(made: Any, *values: Any) -> Any:
    spend_steps(40)
    if made.layout is None:
        return Structure(made, list(values))
    items: list[Any] = [NIL] * made.layout.size
    for place, tag in made.layout.tags:
        items[place] = tag
    for place, value in zip(made.layout.places, values, strict=True):
        items[place] = value
    return lisp_list(items) if made.layout.kind == "list" else items


@library.builtin("%read-structure", "(spelt)")
def read_structure(spelt: Any) -> Any:
    """The instance that `#S(name :slot value ...)` spells; a slot that is left out has its default."""
    name, *parts = items_of_list("#S", 1, spelt) or [NIL]
    made = active().types.get(name)
    if not isinstance(made, StructureType) or made.layout is not None:
        raise error("E-TYPE-004", f"#S: {brief(name)} names no structure")
    given = dict(zip(parts[::2], parts[1::2], strict=False))
    slots = {keyword(slot.name): default for slot, default in zip(made.slots, made.defaults, strict=True)}
    wrong = next((key for key in given if key not in slots), None)
    if wrong is not None or len(parts) % 2:
        known = " ".join(f":{slot.name}" for slot in made.slots)
        found = f"no slot {brief(wrong)}" if wrong is not None else "no value after its last slot"
        raise error("E-MACRO-001", f"#S: {name.name} has {found}", expected=f"#S({name.name} {known})")
    session = active()
    return Structure(made, [given[key] if key in given else session.evaluate_form(default)
                            for key, default in slots.items()])  # fmt: skip


@library.builtin("%print-structure", "(type option function)")
def print_structure(made: Any, option: Any, function: Any) -> Any:
    made.printer = (lambda value, stream, depth: function(value, stream)) if option.name == "print-object" else function
    return NIL


@library.builtin("%structure-p", "(type object)")
def structure_p(made: Any, value: Any) -> Any:
    if made.layout is None:
        return boolean(made(value))
    place, tag = made.layout.tags[-1]
    items = _parts(made.layout, value)
    return boolean(items is not None and len(items) > place and items[place] is tag)


def _parts(layout: Layout, value: Any) -> list[Any] | None:
    """The elements of what may be an instance, None when it is no list or vector as the layout has it."""
    if layout.kind == "vector":
        return value if isinstance(value, list) else None
    if not isinstance(value, Cons):
        return None
    return list(itertools.islice(value, layout.size))


def _part(made: StructureType, index: int, reader: str, value: Any) -> Any:
    assert made.layout is not None
    items = _parts(made.layout, value)
    place = made.layout.places[index]
    if items is None or place >= len(items):
        raise CallFault(wrong_type(reader, 0, value, f"a {made.layout.kind} of {made.layout.size}").diagnostic)
    return items[place]


def _instance(made: StructureType, name: str, value: Any) -> Structure:
    if isinstance(value, Structure) and made(value):
        return value
    wrong = error("E-TYPE-001", f"{name} needs a {made.name.name}, got {brief(value)}", actual=describe(value))
    raise CallFault(wrong.diagnostic)  # the function that defstruct wrote has no text to show


@library.builtin("%copy-structure", "(type object)")
def copy_structure(made: Any, value: Any) -> Any:
    if made.layout is not None:
        items = _parts(made.layout, value) or []
        return lisp_list(items) if made.layout.kind == "list" else list(items)
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
    if made.layout is not None:
        return _part(made, index, reader.name, value)
    return _instance(made, reader.name, value).values[index]


@library.builtin("%set-slot", "(type index reader object new)")
def set_slot(made: Any, index: Any, reader: Any, value: Any, new: Any) -> Any:
    if made.layout is None:
        _instance(made, f"(setf {reader.name})", value).values[index] = new
        return new
    _part(made, index, f"(setf {reader.name})", value)
    place = made.layout.places[index]
    if made.layout.kind == "vector":
        value[place] = new
    else:
        next(itertools.islice(_cells(value), place, None)).car = new
    return new


def _cells(value: Any) -> Iterator[Cons]:
    while isinstance(value, Cons):
        yield value
        value = value.cdr


@library.macro("deftype", "(deftype name lambda-list form...)")
def deftype(form: Cons) -> Any:
    """Define a type specifier by a form that expands it; parameters without a default are `*`."""
    parts = list(form)[1:]
    if len(parts) < 2 or not isinstance(parts[0], Symbol):
        raise error("E-MACRO-001", "deftype: expected (deftype name lambda-list form...)")
    name, parameters, *body = parts
    head = list(itertools.takewhile(lambda part: _is_declaration(part) or isinstance(part, str), body[:-1]))
    block = _form("block", name, *body[len(head) :])
    expander = _form("lambda", lisp_list(_starred(parameters)), *head, block)
    return _form("%define-type", _quoted(name), expander)


def _is_declaration(form: Any) -> bool:
    return isinstance(form, Cons) and form.car is symbol("declare")


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
    active().module.types[name] = None
    return name
