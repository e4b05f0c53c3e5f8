"""require and provide."""

from __future__ import annotations

import os
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import evolve, frozen

from sexpgpu.diag import Culprit, Diagnostic, Diagnostics, Note, Span, SxError, error, nearest
from sexpgpu.lang.active import activated
from sexpgpu.lang.analyze.grammar import fault, items_of, malformed
from sexpgpu.lang.builtin import show
from sexpgpu.lang.collection import uncollected
from sexpgpu.lang.compiler import compile_all
from sexpgpu.lang.edits import replaced
from sexpgpu.lang.forms import NIL, Cons, Source, Symbol, setf_name, symbol
from sexpgpu.lang.module import Module
from sexpgpu.lang.place import Place

if TYPE_CHECKING:
    from sexpgpu.lang.session import Session

SHAPE = '(require "sexpgpu/name" | "./file.sx" [:as alias] [:import (name...)])'
STANDARD = "sexpgpu/"
STANDARD_INPUT = "-"
LIBRARY = Path(__file__).resolve().parent.parent / "library"


def written_by_user(span: Span) -> bool:
    """Whether the place is in no file of the product's own."""
    return span.file[:1] not in ("", "<") and not Path(span.file).is_relative_to(LIBRARY)


@frozen(eq=False)
class Loaded:
    """A module after its evaluation: its text, the paths that it required, what was reported meanwhile.

    `repeatable` says that evaluating the same text again would give the same: it has no error and declares no knobs.
    """

    name: str
    path: str
    text: str
    module: Module
    requires: tuple[str, ...]
    diagnostics: tuple[Diagnostic, ...]
    repeatable: bool


class Modules:
    """The files required so far in a session, by their path.

    `overlay` holds the texts of files that differ from the disk's; `sought` every path that a require named, `loaded`
    what was evaluated, in order of completion; `adopted` what was prepared and then required; `library_texts` the files
    of the library that are read piece by piece.
    """

    def __init__(self, session: Session, standard: Path | None) -> None:
        self._session = session
        self._standard = standard or LIBRARY
        self._done: dict[str, Module] = {}
        self._open: dict[str, Place] = {}
        self._ready: dict[str, Loaded] = {}
        self._requires: list[list[str]] = []
        self.overlay: dict[str, str] = {}
        self.sought: dict[str, None] = {}
        self.loaded: list[Loaded] = []
        self.adopted: dict[str, Loaded] = {}
        self.library_texts: dict[str, Source] = {}

    def read(self, path: str) -> Source:
        """A file's text, of `overlay` or the disk; E-MOD-001 when it is not there, E-IO-103 when it is no text.

        `-` is standard input, which is read once.
        """
        if path in self.overlay:
            return Source(path, self.overlay[path])
        try:
            if path == STANDARD_INPUT:
                data = sys.stdin.buffer.read()
            else:
                with open(path, "rb") as file:
                    data = file.read()
        except OSError as fault_:
            reason = "is a directory" if os.path.isdir(path) else (fault_.strerror or "cannot be read").lower()
            raise error("E-MOD-001", f"{path}: {reason}") from fault_
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError as fault_:
            raise self._not_text(path, data, fault_.start) from fault_
        if path == STANDARD_INPUT:
            self.overlay[path] = text
        return Source(path, text)

    def _not_text(self, path: str, data: bytes, start: int) -> SxError:
        """E-IO-103 at the first byte that is no UTF-8; the file is shown with a sign in its place."""
        shown = Source(path, data.decode("utf-8", "replace"))
        self._session.sources[path] = shown.text
        at = len(data[:start].decode("utf-8"))
        told = f"byte {start}, {data[start]:#04x}, is no UTF-8"
        return error("E-IO-103", f"{path} is not UTF-8 text", shown.span(at, at + 1), actual=told)

    def _read_for(self, path: str, place: Place) -> Source:
        """As `read`; an error that has no place of its own is at the `require` that asks for the file."""
        try:
            return self.read(path)
        except SxError as wrong:
            told = wrong.diagnostic
            if told.span is None:
                raise SxError(evolve(told, span=place.span)) from wrong
            raise SxError(told.noting(Note("it is required here", place.span))) from wrong

    def require(self, module: Module, form: Cons, place: Place) -> Any:
        """Evaluate the module once, and bring its names into `module`."""
        items = items_of(form.cdr, place, SHAPE)
        if not items or not isinstance(items[0][0], str) or len(items) % 2 == 0:
            raise malformed(place, SHAPE, "require takes the name of a module and options")
        name, where = items[0]
        alias: Symbol | None = None
        wanted: list[tuple[Symbol, Place]] | None = None
        for (key, key_place), (value, value_place) in zip(items[1::2], items[2::2], strict=True):
            word = key.name if isinstance(key, Symbol) and key.keyword else ""
            if word == "as" and isinstance(value, Symbol):
                alias = value
            elif word == "import":
                wanted = [(n, p) for n, p in items_of(value, value_place, SHAPE) if isinstance(n, Symbol)]
            else:
                raise malformed(key_place, SHAPE, f"require has no option {show(key)} {show(value)}")
        path = self._path(name, module, where)
        if path.startswith(f"{self._standard}{os.sep}"):
            name = STANDARD + os.path.relpath(path, self._standard).removesuffix(".sx")
        loaded = self._load(name, path, where)
        self._bring(module, loaded, alias, wanted, where)
        return NIL

    def provide(self, module: Module, form: Cons, place: Place) -> Any:
        """`(provide name...)`: only these names are exported."""
        for name, where in items_of(form.cdr, place, "(provide name...)"):
            if not isinstance(name, Symbol):
                raise malformed(where, "(provide name...)", f"expected a name, found {show(name)}")
            module.provided.setdefault(name, where)
        return NIL

    def check_provided(self, module: Module) -> None:
        """E-MOD-005 for each name that the file provides and that nothing in it defines, now that it is evaluated."""
        if module.torn is not None or module.missing is not None:
            return  # what cannot be read, or the module that is not there, may define it
        for name, where in module.provided.items():
            if not module.defines(name) and name not in module.poisoned:
                near = nearest(name.name, module.own_names())
                help = f"did you mean `{near}`?" if near else None
                fix = replaced(where, name.name, near) if near else ()
                message = f"`{name.name}` is provided, and nothing here defines it"
                self._session.diagnostics.report(fault(where, "E-MOD-005", message, help, fix=fix).diagnostic)

    def _path(self, name: str, module: Module, place: Place) -> str:
        if name.startswith(STANDARD):
            return str(self._standard / (name[len(STANDARD) :] + ".sx"))
        if not name.startswith((".", "/")):
            meant = self._meant(name, place)
            help = f'write "./{name}" for a file beside this one, or "sexpgpu/..." for a standard module'
            help = f'did you mean "{meant}"?' if meant else help
            fix = replaced(place, f'"{name}"', f'"{meant}"') if meant else ()
            raise fault(place, "E-MOD-001", f"there is no module `{name}`", help, fix=fix)
        return os.path.normpath(os.path.join(os.path.dirname(place.source.file), name))

    def _meant(self, name: str, place: Place) -> str | None:
        """The file beside this one, or the standard module, that a bare name is the name of."""
        beside = name if name.endswith(".sx") else f"{name}.sx"
        if os.path.isfile(os.path.join(os.path.dirname(place.source.file), beside)):
            return f"./{beside}"
        return STANDARD + beside[:-3] if (self._standard / beside).is_file() else None

    def prepare(self, name: str, path: str) -> None:
        """Load a module before any file requires it; a file that does gets it as it is while its text stays.

        What the module requires is prepared before it.
        """
        outer, self._session.diagnostics = self._session.diagnostics, Diagnostics()
        try:
            self._load(name, path, Place(Source(path, ""), 0, 0))
        finally:
            self._session.diagnostics = outer

    def prepared(self) -> None:
        """What has been loaded so far was prepared: from now on files require it. It is compiled, called or not."""
        with activated(self._session):
            compile_all(self._session.base)
            for loaded in self.loaded:
                if loaded.repeatable:
                    compile_all(loaded.module)
        if self._session.shelf is not None:
            self._session.shelf.save()
        self._ready |= {loaded.path: loaded for loaded in self.loaded if loaded.repeatable}
        for path in self._done:
            self._session.sources.pop(path, None)
        self._done.clear()
        self.adopted.clear()
        self.sought.clear()
        self.loaded.clear()

    def _adopt(self, path: str) -> Module | None:
        """What was prepared; None when there is none, or it or one that it requires is observed or reads otherwise."""
        ready = self._ready.get(path)
        observer = self._session.observer
        if observer is not None and path in observer.files:
            return None  # what was compiled without an observer tells it nothing
        if ready is None or not all(self._adopts(inner) for inner in ready.requires):
            return None
        try:
            if self.read(path).text != ready.text:
                return None
        except SxError:
            return None
        self.adopted[path] = ready
        self._session.sources[path] = ready.text
        for diagnostic in ready.diagnostics:
            self._session.diagnostics.report(diagnostic)
        self._done[path] = ready.module
        return ready.module

    def _adopts(self, path: str) -> bool:
        return path in self.adopted or (path not in self._done and self._adopt(path) is not None)

    def _load(self, name: str, path: str, place: Place) -> Module:
        session = self._session
        self.sought[path] = None
        if self._requires:
            self._requires[-1].append(path)
        found = self._done.get(path) or self._adopt(path)
        if found is not None:
            return found
        if path in self._open:
            chain = [Note(f"it is being evaluated because of this require of {os.path.basename(p)}", at.span)
                     for p, at in self._open.items()]  # fmt: skip
            raise fault(place, "E-MOD-002", f"`{name}` is required by itself, through this", notes=tuple(chain))
        if path not in self.overlay and os.path.isdir(path):
            raise fault(place, "E-IO-102", f"{path} is a directory")
        if path not in self.overlay and not os.path.isfile(path):
            near = self._near(name, path)
            help = f'did you mean "{near}"?' if near else None if name.startswith(STANDARD) else f"looked for {path}"
            fix = replaced(place, f'"{name}"', f'"{near}"') if near else ()
            raise fault(place, "E-MOD-001", f"there is no module `{name}`", help, fix=fix)
        self._open[path] = place
        self._requires.append([])
        known, knobs = len(session.diagnostics.records), len(session.selected.knobs)
        try:
            source = self._read_for(path, place)
            made = session.new_module(name, path)
            with uncollected() if made.standard else nullcontext():
                session.evaluate_module(made, source)
        finally:
            del self._open[path]
            requires = self._requires.pop()
        told = tuple(session.diagnostics.records[known:])
        repeatable = len(session.selected.knobs) == knobs and all(d.severity == "warning" for d in told)
        self.loaded.append(Loaded(name, path, source.text, made, tuple(requires), told, repeatable))
        self._done[path] = made
        return made

    def _near(self, name: str, path: str) -> str | None:
        folder = os.path.dirname(path)
        files = [f for f in os.listdir(folder) if f.endswith(".sx")] if os.path.isdir(folder) else []
        base = os.path.basename(path)
        near = f"{base}.sx" if f"{base}.sx" in files else nearest(base, files)
        if near is None:
            return None
        return STANDARD + near[:-3] if name.startswith(STANDARD) else os.path.join(os.path.dirname(name), near)

    def _bring(
        self, module: Module, loaded: Module, alias: Symbol | None, wanted: list[tuple[Symbol, Place]] | None,
        place: Place,
    ) -> None:  # fmt: skip
        exported = loaded.exports()
        if wanted is not None:
            for name, where in wanted:
                if name not in exported and name not in loaded.types and name not in loaded.poisoned:
                    near = nearest(name.name, [n.name for n in exported])
                    help = f"did you mean `{near}`?" if near else None
                    message = f"`{loaded.name}` does not export `{name.name}`"
                    raise fault(where, "E-MOD-004", message, help, culprit=Culprit(word=name.name, instead=near))
        names = exported if wanted is None else [name for name, _ in wanted if name in exported]
        if alias is not None:
            module.aliases.add(alias.name)
            for name in exported:
                self._import(module, loaded, name, symbol(f"{alias.name}:{name.name}"), place)
            for name in loaded.types:
                self._alias_type(name, symbol(f"{alias.name}:{name.name}"))
            if wanted is None:
                return
        for name in names:
            self._import(module, loaded, name, name, place)
        for name, diagnostic in loaded.poisoned.items():
            module.poisoned.setdefault(name, diagnostic)

    def _alias_type(self, name: Symbol, as_: Symbol) -> None:
        """Types are the session's, and visible in every file; a name with the alias is one name more."""
        session = self._session
        tables: tuple[dict[Symbol, Any], ...] = (session.types, session.condition_types, session.type_expanders)
        for table in tables:
            if name in table:
                table[as_] = table[name]

    def _import(self, module: Module, loaded: Module, name: Symbol, as_: Symbol, place: Place) -> None:
        before = module.imported.get(as_)
        if before is not None and before[0] != loaded.name:
            note = Note(f"`{as_.name}` came from {before[0]} here", before[1])
            raise fault(place, "E-MOD-003", f"{loaded.name} and {before[0]} both export `{as_.name}`",
                        "take one under an alias: (require ... :as m)", (note,))  # fmt: skip
        module.imported[as_] = (loaded.name, place.span)
        if name in loaded.functions and loaded.functions[name].defined:
            module.functions[as_] = loaded.functions[name]
        if name in loaded.variables:
            module.variables[as_] = loaded.variables[name]
        if name in loaded.macros:
            module.macros[as_] = loaded.macros[name]
        module.borrowed |= {id(table[name]) for table in loaded.tables if name in table}
        writer = loaded.functions.get(setf_name(name))
        if writer is not None and writer.defined:
            module.functions[setf_name(as_)] = writer
            module.imported[setf_name(as_)] = (loaded.name, place.span)
            module.borrowed.add(id(writer))
        if name in loaded.symbol_macros:
            module.symbol_macros[as_] = loaded.symbol_macros[name]
        if name in loaded.setf_expanders:
            module.setf_expanders[as_] = loaded.setf_expanders[name]
