"""The table of functions written in Python that a session can install.

A `Library` is filled by its decorator:

    library = Library("lists")

    @library.builtin("subseq", "(sequence start &optional end)")
    def subseq(sequence, start, end=NIL): ...

    @library.builtin("sum", "(x &key axis keepdims)")
    def sum_(x, *, axis=NIL, keepdims=NIL): ...

The lambda list is the Lisp one: it gives the counts and keywords that calls are checked against and the text
that messages and docs show. `&key` parameters are Python keyword arguments (`-` becomes `_`, a trailing `_`
is added to Python's reserved words); absent ones are left out, as are absent `&optional` ones. `&rest` is
`*args`. A function that may return other than exactly one value says `many=True`. `"(setf car)"` names the
writer of a place: it takes the new value first and returns it.
A function raises `error(...)` without a span: the evaluator adds the calling form's.
"""

from __future__ import annotations

import inspect
import keyword as python
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from attrs import field, frozen

from sexpgpu.diag import Culprit, SxError, error, nearest
from sexpgpu.lang.costs import COSTS
from sexpgpu.lang.forms import Symbol, setf_name, symbol
from sexpgpu.lang.summaries import SUMMARIES

ELSEWHERE = {"dim": "axis", "dims": "axis", "axes": "axis", "keepdim": "keepdims"}
"""Keywords that array libraries have for those here."""
Function = Callable[..., Any]
F = TypeVar("F", bound=Function)
Expander = Callable[..., Any]


@frozen
class Parameters:
    """What a function's callers may write, as counts and names."""

    text: str
    required: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    rest: str | None = None
    keys: tuple[str, ...] | None = None
    other_keys: bool = False

    @property
    def positional(self) -> int:
        return len(self.required) + len(self.optional)

    @property
    def most(self) -> int | None:
        """The largest count of arguments, None when there is no bound."""
        return self.positional if self.rest is None and self.keys is None else None

    def accepts(self, count: int) -> bool:
        """Whether so many positional arguments, and no keywords, are taken."""
        return len(self.required) <= count and (self.rest is not None or count <= self.positional)

    def takes(self) -> str:
        """`takes 2 to 3 arguments (width depth &optional act)`."""
        least, most = len(self.required), self.most
        if most is None:
            count = f"at least {least}" if least else "any number of"
        elif most == least:
            count = str(least) if least else "no"
        else:
            count = f"{least} to {most}"
        noun = "argument" if count in ("1", "at least 1") else "arguments"
        return f"takes {count} {noun} {self.text}"


@frozen
class Builtin:
    """One function of a library: `function` is the Python one, `call` what a Lisp caller may apply to a list."""

    name: str
    parameters: Parameters
    function: Function
    call: Function
    many: bool
    doc: str


@frozen
class MacroBuiltin:
    """A macro written in Python: `expand` takes the whole call (a cons) and gives the form to evaluate instead."""

    name: str
    shape: str
    expand: Expander

    def expander(self, form: Any, environment: Any) -> Any:
        """What the evaluator calls, as it does a macro of a file's."""
        return self.expand(form)


@frozen
class Library:
    """A named table of builtins, of macros written in Python, and of global variables.

    `constants` and `specials` give names their values. `names` gives builtins that only generated code calls the
    uninterned symbols they are called by.
    """

    name: str
    table: dict[str, Builtin] = field(factory=dict)
    macros: dict[str, MacroBuiltin] = field(factory=dict)
    names: dict[str, Symbol] = field(factory=dict)
    constants: dict[str, Any] = field(factory=dict)
    specials: dict[str, Any] = field(factory=dict)

    def builtin(self, name: str, lambda_list: str = "()", *, many: bool = False) -> Callable[[F], F]:
        """Put the decorated function into the table as `name`; the decorator gives it back unchanged."""
        parameters = parse_parameters(lambda_list)

        def enter(function: F) -> F:
            doc = function.__doc__ or SUMMARIES.get(name, "")
            call, steps = _callable(name, parameters, function), COSTS.get(name, 0)
            if steps == 0:
                self.table[name] = Builtin(name, parameters, function, call, many, doc)
            else:
                direct, called = _charged(function, steps), _charged(call, steps)
                self.table[name] = Builtin(name, parameters, direct, called, many, doc)
            return function

        return enter

    def macro(self, name: str, shape: str) -> Callable[[Expander], Expander]:
        """Put the decorated expander into the table; `shape` is what a call looks like, `(dolist (x list) form...)`.

        The expander gets the whole call. It may raise `error("E-MACRO-001", ...)` without a span.
        """

        def enter(expand: Expander) -> Expander:
            self.macros[name] = MacroBuiltin(name, shape, expand)
            return expand

        return enter

    def variables(self) -> Iterator[tuple[str, str, Any]]:
        """The kind, the name and the value of each global variable."""
        yield from (("constant", name, value) for name, value in self.constants.items())
        yield from (("special", name, value) for name, value in self.specials.items())

    def __iter__(self) -> Iterator[Builtin]:
        return iter(self.table.values())


def parse_parameters(text: str) -> Parameters:
    """Read a lambda list of plain names, as the decorator takes it."""
    required: list[str] = []
    optional: list[str] = []
    keys: list[str] | None = None
    rest = None
    other_keys = False
    section = ""
    for word in text.strip()[1:-1].replace("(", " ").replace(")", " ").split():
        if word == "&key":
            section, keys = word, []
        elif word == "&allow-other-keys":
            other_keys = True
        elif word.startswith("&"):
            section = word
        elif section == "&rest":
            rest = word
        elif section == "&optional":
            optional.append(word)
        elif keys is not None:
            keys.append(word)
        else:
            required.append(word)
    return Parameters(text, tuple(required), tuple(optional), rest, None if keys is None else tuple(keys), other_keys)


def python_name(key: str) -> str:
    """The Python parameter of a Lisp keyword."""
    name = key.replace("-", "_")
    return f"{name}_" if python.iskeyword(name) else name


def written(name: str) -> str:
    """A builtin's name as users write it: `%defrun` is what the form `defrun` expands into."""
    return name.removeprefix("%")


def wrong_count(name: str, parameters: Parameters, got: int) -> SxError:
    """The error of a call with too few or too many arguments."""
    return error(
        "E-ARG-001", f"`{written(name)}` {parameters.takes()}, got {got}", **count_mended(name, parameters, got)
    )


def count_mended(name: str, parameters: Parameters, got: int) -> dict[str, Any]:
    """The help and the culprit of a wrong count: which arguments are too many, or which are missing."""
    most = parameters.most
    if most is not None and got > most:
        extra = "argument" if got - most == 1 else f"{got - most} arguments"
        return {"help": f"leave out the last {extra}", "culprit": Culprit(function=name, argument=most + 1, away=True)}
    return {"help": f"give it {' and '.join(f'`{n}`' for n in parameters.required[got:])} too"}


def keyword_arguments(name: str, parameters: Parameters, pairs: tuple[Any, ...]) -> dict[str, Any]:
    """`:key value ...` as Python keyword arguments; the leftmost of two equal keywords wins (E-ARG-002, -003)."""
    keys = parameters.keys or ()
    found: dict[str, Any] = {}
    unknown = None
    misplaced = False  # a symbol that is no keyword, which only `:allow-other-keys t` lets pass
    allowed: bool | None = True if parameters.other_keys else None
    if len(pairs) % 2:
        raise odd_keywords(name, parameters, pairs)
    for key, value in zip(pairs[::2], pairs[1::2], strict=True):
        if not isinstance(key, Symbol):
            raise odd_keywords(name, parameters, pairs)
        if not key.keyword:
            misplaced = True
        elif key.name in keys:
            found.setdefault(python_name(key.name), value)
        elif key.name == "allow-other-keys":
            allowed = getattr(value, "name", "") != "nil" if allowed is None else allowed
        elif unknown is None:
            unknown = key.name
    if misplaced and not allowed:
        raise odd_keywords(name, parameters, pairs)
    if unknown is not None and not allowed:
        raise unknown_keyword(name, unknown, keys)
    return found


def unknown_keyword(name: str, key: str, keys: tuple[str, ...]) -> SxError:
    """The error of a keyword that the function does not have."""
    elsewhere = ELSEWHERE.get(key)
    near = elsewhere if elsewhere in keys else nearest(key, keys)
    has = "it has " + " ".join(f":{k}" for k in keys) if keys else "it has no keywords"
    help = f"did you mean :{near}?" if near else None
    culprit = Culprit(word=f":{key}", instead=f":{near}" if near else None)
    return error("E-ARG-002", f"`{written(name)}` has no keyword :{key}; {has}", help=help, culprit=culprit)


def odd_keywords(name: str, parameters: Parameters, pairs: tuple[Any, ...]) -> SxError:
    """The error of keyword arguments that do not come in pairs."""
    for at, key in enumerate(pairs[::2]):
        if not isinstance(key, Symbol) or not key.keyword:
            free = [k for k in parameters.keys or () if not any(getattr(p, "name", None) == k for p in pairs[::2])]
            meant = f":{free[0]} " if free and len(pairs) == 2 * at + 1 else None
            return error(
                "E-ARG-003",
                f"`{written(name)}`: {show(key)} stands where a keyword is expected",
                expected=f"`{written(name)}` {parameters.takes()}",
                help=f"name what it is: {meant}..." if meant else None,
                culprit=Culprit(
                    function=name,
                    argument=parameters.positional + 2 * at + 1,
                    around=(meant, "") if meant else None,
                ),
            )
    return error(
        "E-ARG-003",
        f"`{written(name)}`: keyword {show(pairs[-1])} has no value",
        expected=f"keywords in pairs after the first {parameters.positional} arguments, {parameters.text}",
        help="write its value behind it, or leave it out",
        culprit=Culprit(function=name, argument=parameters.positional + len(pairs), away=True),
    )


def show(value: Any) -> str:
    """A value as a message quotes it, cut to 60 characters."""
    from sexpgpu.lang.printer import brief  # the printer knows conditions and arrays, which build on this module

    return brief(value)


def _callable(name: str, parameters: Parameters, function: Function) -> Function:
    """What `#'name` gives: the function itself, or with `&key` a function that sorts its keywords out.

    The qualified name is what Python's own count errors mention, so it says which builtin they are about.
    """
    function.__qualname__ = f"builtin {name}"
    first, least, most = parameters.positional, len(parameters.required), parameters.most
    if parameters.keys is None and not _accepts_any(function, parameters):
        return function

    def call_counted(*args: Any) -> Any:
        if len(args) < least or (most is not None and len(args) > most):
            raise wrong_count(name, parameters, len(args))
        return function(*args)

    def call(*args: Any) -> Any:
        if len(args) <= first:
            if len(args) < least:
                raise wrong_count(name, parameters, len(args))
            return function(*args)
        return function(*args[:first], **keyword_arguments(name, parameters, args[first:]))

    def call_with_rest(*args: Any) -> Any:
        if len(args) < least:
            raise wrong_count(name, parameters, len(args))
        return function(*args, **keyword_arguments(name, parameters, args[first:]))

    chosen = call if parameters.rest is None else call_with_rest
    if parameters.keys is None:
        chosen = call_counted
    chosen.__name__ = function.__name__
    chosen.__qualname__ = f"builtin {name}"
    return chosen


def _charged(function: Function, steps: int) -> Function:
    """`function`, taking steps of the budget each time it is called from Lisp."""
    from sexpgpu.lang.active import spend_steps  # that module is built on this one

    def charged(*args: Any, **named: Any) -> Any:
        spend_steps(steps)
        return function(*args, **named)

    charged.__name__, charged.__qualname__ = function.__name__, function.__qualname__
    vars(charged)["__wrapped__"] = function  # whose source it is
    return charged


def _accepts_any(function: Function, parameters: Parameters) -> bool:
    """Whether Python lets the function be called with a count of arguments that its lambda list does not allow."""
    code = getattr(function, "__code__", None)
    if code is None or not code.co_flags & inspect.CO_VARARGS:
        return False
    return parameters.rest is None or code.co_argcount < len(parameters.required)


def function_key(name: str, names: dict[str, Symbol]) -> Symbol:
    """The function-table key of a builtin's name: `(setf car)` is a writer; `names` gives uninterned ones."""
    if name in names:
        return names[name]
    return setf_name(symbol(name[6:-1])) if name.startswith("(setf ") else symbol(name)
