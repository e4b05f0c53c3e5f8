"""The parts of pages that are written from the program's own tables, between these lines of a page:

<!-- generated: builtins -->
<!-- end -->
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from sexpgpu.diag.catalogue import ENTRIES
from sexpgpu.lang import knobvalues, loop, modules, selection
from sexpgpu.lang.analyze import specials
from sexpgpu.lang.analyze.grammar import SPECIALS
from sexpgpu.lang.builtin import Builtin, Library
from sexpgpu.lang.core import standard_core
from sexpgpu.lang.forms import Cons, Source, Symbol
from sexpgpu.lang.library import printing, standard_libraries, structures
from sexpgpu.lang.printer import print_form
from sexpgpu.lang.reader import read_text
from sexpgpu.lang.standard import PRELUDE
from tests.docs.blocks import ROOT
from tests.trace import surface

STANDARD: Final = ROOT / "sexpgpu" / "library"
PART: Final = re.compile(r"(?ms)^<!-- generated: (\S+) -->\n(.*?)^<!-- end -->$")

_PATH = re.compile(r"c[ad]{2,4}r")
_ROW = re.compile(r"(?m)^\| `\((\S+?)[ )][^`]*` \| (.+) \|$")

CHAPTERS: Final = {
    "conses": "Conses and lists",
    "association": "Lists as sets, tables and trees",
    "mapping": "Functions along sequences",
    "sequences": "Sequences",
    "searching": "Searching and replacing",
    "sorting": "Sorting",
    "arithmetic": "Arithmetic and comparison",
    "numbers": "Rounding, powers, trigonometry",
    "integers": "Integers and bits",
    "floats": "Inside a float",
    "strings": "Strings",
    "characters": "Characters",
    "printing": "Printing",
    "symbols": "Symbols",
    "arrays": "Vectors and arrays",
    "hashtables": "Hash tables",
    "functions": "Functions",
    "equality": "Equality",
    "types": "Types",
    "subtypes": "Subtypes",
    "variables": "Constants and variables",
    "conditions": "Conditions",
    "evaluation": "Evaluation",
    "names": "Names as values",
}

GROUPS: Final = {
    "binding": "Variables and local names",
    "lambdas": "Functions",
    "control": "Choice and exits",
    "clauses": "Choice by key or type",
    "iteration": "Iteration",
    "multiple": "Several values",
    "places": "Places",
    "definition": "Definitions",
    "structures": "Structures and types",
    "text": "Text",
    "handling": "Conditions",
    "destructure": "Taking lists apart",
    "quasi": "Backquote",
    "file": "Only at the top of a file",
}

FAMILIES: Final = {
    "ARG": "arguments of a call",
    "CKPT": "checkpoints",
    "DEV": "devices",
    "DP": "several processes",
    "DTYPE": "dtypes of tensors",
    "FLOW": "tensors in the wrong place",
    "IO": "files",
    "IR": "modules in MLIR",
    "KNOB": "knobs, variants, sweeps",
    "LIMIT": "limits of evaluation",
    "LOAD": "sources and loaders",
    "MACRO": "shapes of forms",
    "MEM": "memory",
    "PLAN": "plans of graphs",
    "MOD": "modules",
    "NAME": "names",
    "NUM": "numbers of a run",
    "OPT": "optimizers",
    "PARAM": "parameters",
    "READ": "reading",
    "INT": "a fault of sexpgpu",
    "REDUCE": "what `reduce` keeps",
    "RUN": "the names and the run of an experiment",
    "SHAPE": "shapes of tensors",
    "SIM": "the simulated GPU",
    "TYPE": "types of values",
    "USE": "the command line",
    "VALUE": "values",
    "CASE": "clauses",
    "DECL": "declarations",
    "USER": "the program's own",
}


def ordinary_libraries() -> list[Library]:
    """The libraries of ordinary values that a file can name, as the page orders them."""
    named = {library.name: library for library in (*standard_core(), *standard_libraries()) if not library.names}
    return [named[name] for name in CHAPTERS]


def is_public(builtin: Builtin) -> bool:
    """Whether a page lists the builtin in a row of its own: no internal one, no writer of a place, no path."""
    return not builtin.name.startswith(("%", "(setf ")) and not _PATH.fullmatch(builtin.name)


def builtins(_: str) -> str:
    """Each function with its lambda list, what it does, and whether `setf` can write there."""
    parts = []
    for library in ordinary_libraries():
        rows = []
        for builtin in filter(is_public, library):
            call = f"({builtin.name} {builtin.parameters.text[1:-1]}".rstrip() + ")"
            place = " *Place.*" if f"(setf {builtin.name})" in library.table else ""
            rows.append(f"| `{call}` | {_cell(_line(builtin.doc))}{place} |")
        if library.name == "conses":
            paths = "Parts of parts, up to four letters, read from the right: `cadr` is the car of the cdr. *Place.*"
            rows.insert(3, f"| `(caar list)` … `(cddddr list)` | {paths} |")
        for kind, table in (("A constant:", library.constants), ("A special variable:", library.specials)):
            rows += [f"| `{name}` | {kind} `{print_form(value)}` |" for name, value in table.items()]
        parts.append(_table(CHAPTERS[library.name], "name" if library.constants else "function", rows))
    return "\n".join(parts)


def special_shapes() -> dict[str, dict[str, str]]:
    """The shape of each form that is no call of a function, by group and name."""
    found: dict[str, dict[str, str]] = {group: {} for group in GROUPS}
    for name, special in SPECIALS.items():
        group = special.analyze.__module__.rpartition(".")[2]
        if name.interned:
            found[group][name.name] = special.shape
    written = (("iteration", loop.library), ("structures", structures.library), ("text", printing.library))
    for group, library in written:
        found[group] |= {macro.name: macro.shape for macro in library.macros.values()}
    top = (modules.SHAPE, "(provide name...)", knobvalues.KNOBS, selection.VARIANT, selection.SWEEP)
    found["file"] |= {shape[1:].split(" ", 1)[0]: shape for shape in top}
    return found


def special_forms(shown: str) -> str:
    """Each form with its shape from the code; the second column is the page's own."""
    said = dict(_ROW.findall(shown))
    parts = []
    for group, shapes in special_shapes().items():
        rows = [f"| `{_cell(shape)}` | {said.get(name, '')} |" for name, shape in shapes.items()]
        parts.append(_table(GROUPS[group], "form", rows))
    return "\n".join(parts)


def prelude(_: str) -> str:
    """What prelude.sx, forms.sx and losses.sx define, with the documentation strings that stand there."""
    parts = []
    files = ((PRELUDE, "The language"), (STANDARD / "forms.sx", "Lists of parts"), (STANDARD / "losses.sx", ""))
    for path, first in files:
        for heading, forms in _sections(path):
            rows = [row for form in forms if (row := _definition(form)) is not None]
            if rows:
                parts.append(_table(heading or first, "name", rows))
    return "\n".join(parts)


def standard_module(name: str) -> str:
    """What a standard module provides, under its headings, with the documentation strings that stand there."""
    parts = []
    for heading, forms in _sections(STANDARD / f"{name}.sx"):
        rows = [row for form in forms if form.car.name != "provide" and (row := _definition(form)) is not None]
        if rows:
            parts.append(_table(heading, "call", rows))
    return "\n".join(parts)


def layers(_: str) -> str:
    """What sexpgpu/nn provides, a table for each of its files."""
    forms = [form for _, found in _sections(STANDARD / "nn.sx") for form in found]
    provided = {name.name for form in forms if form.car.name == "provide" for name in form.cdr}
    parts = []
    for stem, title in LAYER_FILES.items():
        forms = [form for _, found in _sections(STANDARD / "nn" / f"{stem}.sx") for form in found]
        defined = [form for form in forms if form.car.name in ("defun", "defmodel") and form.cdr.car.name in provided]
        parts.append(_table(title, "call", [row for form in defined if (row := _definition(form)) is not None]))
    return "\n".join(parts)


LAYER_FILES: Final = {
    "dense": "Affine maps, tables, norms",
    "conv": "Convolutions",
    "attention": "Attention and the blocks around it",
    "recurrent": "Along time",
    "mixture": "Mixtures",
}


def errors(_: str) -> str:
    """Every code with its title, its explanation and its example."""
    parts = []
    codes = sorted(ENTRIES, key=lambda code: (not code.startswith("E-"), code))
    for (kind, family), members in groupby(codes, key=lambda code: tuple(code.split("-")[:2])):
        parts.append(f"## {kind}-{family}: {FAMILIES[family]}\n")
        for code in members:
            entry = ENTRIES[code]
            parts.append(f"### {code}\n\n**{entry.title}.** {entry.explanation}\n")
            if entry.example:
                parts.append("".join(f"    {line}".rstrip() + "\n" for line in entry.example.splitlines()))
    return "\n".join(parts)


def operations(_: str) -> str:
    """Each function of tensors by chapter: what it does, and its shapes, dtypes, errors and source."""
    documented = surface.documentation()
    parts = []
    for chapter, names in surface.CHAPTERS.items():
        rows = []
        for name in (*names, *surface.BESIDE.get(chapter, ())):
            text, labelled = surface.paragraphs(documented[name].doc)
            errors = labelled["Errors"]
            source = _source(labelled["Source"])
            rows.append(
                f"| `{_cell(documented[name].call)}` | {_cell(text)} {_cell(source)} "
                f"| {_cell(labelled['Shapes'])} | {_cell(labelled['Dtypes'])} | {_cell(errors)} |"
            )
        parts.append(
            "\n".join(
                [f"## {chapter}", "", "| call | | shapes | dtypes | errors |", "|---|---|---|---|---|", *rows, ""]
            )
        )
    return "\n".join(parts)


def _source(source: str) -> str:
    """`docs: A page.` as a link to it; anything else in italics."""
    title = source.removeprefix("docs: ").removesuffix(".")
    for page in (ROOT / "docs").glob("*.md"):
        if source.startswith("docs: ") and page.read_text("utf-8").startswith(f"# {title}\n"):
            return f"See [{title}]({page.name})."
    return f"*{source}*"


GENERATORS: Final[dict[str, Callable[[str], str]]] = {
    "builtins": builtins,
    "special-forms": special_forms,
    "prelude": prelude,
    "errors": errors,
    "optim": lambda _: standard_module("optim"),
    "nn": layers,
    "operations": operations,
}


def regenerated(page: str) -> str:
    """A page's text with each generated part as the program has it now."""
    return PART.sub(lambda m: f"<!-- generated: {m[1]} -->\n\n{GENERATORS[m[1]](m[2])}\n<!-- end -->", page)


def _table(heading: str, first: str, rows: list[str]) -> str:
    return "\n".join([f"## {heading}", "", f"| {first} | |", "|---|---|", *rows, ""])


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _line(doc: str) -> str:
    """The first paragraph of a documentation string, in one line."""
    return " ".join(doc.split("\n\n")[0].split())


def _sections(path: Path) -> Iterator[tuple[str, list[Any]]]:
    """The forms of a file under its `;;;` headings; the first such line is about the file."""
    text = path.read_text("utf-8")
    _, *pieces = re.split(r"(?m)^;;; ", text)
    for number, piece in enumerate(pieces):
        heading, _, body = piece.partition("\n")
        forms = [form.datum for form in read_text(Source(str(path), body), lambda _: None)]
        yield ("" if number == 0 else heading.partition(":")[0]), forms


def _definition(form: Cons) -> str | None:
    kind, name, *rest = form
    if not isinstance(name, Symbol) or name.name.startswith("%"):
        return None
    if kind.name in ("defmacro", "defun", "defmodel", "defoptimizer"):
        parameters = print_form(rest[0])[1:-1] if isinstance(rest[0], Cons) else ""
        doc = rest[1] if isinstance(rest[1], str) else ""
        call = f"({name.name} {parameters}".rstrip() + ")"
        return f"| `{call}` | {'Macro. ' * (kind.name == 'defmacro')}{_cell(_line(doc))} |"
    value = f"`{print_form(rest[0])}`" if not isinstance(rest[0], Cons) else ""
    return f"| `{name.name}` | {' '.join(filter(None, [_KINDS[kind.name], value]))} |"


_KINDS: Final = {
    "def": "A constant of tensors and numbers.",
    "defconstant": "A constant:",
    "defvar": "A special variable:",
}

assert specials.__all__  # importing it fills SPECIALS
