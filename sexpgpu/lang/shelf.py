"""The library's functions on disk, compiled: what was analysed and emitted once is not again in the next process.

An entry is the Python code of one function or expander and what its namespace must hold for it, by name. Entries are
those of one state of the compiler and of the library's files, which the name of the file says. A file that is damaged,
foreign or cannot be written counts as absent; like Python's own caches of code, it is trusted to be whose folder it is.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import marshal
import os
import pickle
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import CodeType
from typing import TYPE_CHECKING, Any, Final

from attrs import field, frozen

from sexpgpu import __version__
from sexpgpu.lang.forms import Source, Symbol, setf_name, symbol
from sexpgpu.lang.functions import FunctionInfo, info_of, register
from sexpgpu.lang.module import TICKS, Module
from sexpgpu.lang.place import Trail
from sexpgpu.lang.runtime import NAMES

if TYPE_CHECKING:
    from sexpgpu.lang.session import Session

MAGIC: Final = b"sexpgpu library 1\n"
KEPT: Final = 4
"""Files that stay when another is written; those longest not written go."""
_PLAIN: Final = frozenset({"tick", "__builtins__", "rt.module", *NAMES})
_CLASSES: Final = {
    "sexpgpu.lang.forms": ("Symbol", "symbol", "keyword", "Cons", "SourceCons", "character"),
    "sexpgpu.lang.functions": ("FunctionInfo",),
    "sexpgpu.lang.builtin": ("Parameters",),
    "sexpgpu.lang.place": ("Place", "Trail"),
    "sexpgpu.lang.core.destructuring": ("Pattern",),
    "sexpgpu.diag.record": ("Span",),
    "fractions": ("Fraction",),
    "sexpgpu.lang.shelf": ("Entry",),
}


@frozen
class Entry:
    """A compiled function. `names` are globals of its code: a kind (function, variable, builtin, ticks) and of what."""

    code: bytes
    optional: int
    info: FunctionInfo
    infos: tuple[FunctionInfo, ...]
    names: tuple[tuple[str, str, Any], ...]
    constants: dict[str, Any]
    trails: dict[tuple[int, int, int, int], Trail]


@frozen
class Kept:
    """What stands for a compilation: the function's code, how many optional arguments it has, its record."""

    code: CodeType
    optional: int
    info: FunctionInfo


@frozen(eq=False)
class _Work:
    """A compilation under way: the steps that those inside it took, and their titles."""

    inside: list[int] = field(factory=list)
    needed: dict[str, None] = field(factory=dict)


class Shelf:
    """The entries of one session, by titles: each with the steps that compiling it takes and the others that it needs.

    Compiling takes as many steps whether an entry is found or made.
    """

    def __init__(self, session: Session, folder: Path, sources: Iterable[Path]) -> None:
        """`folder` holds the files of entries, `sources` what they depend on. Nothing is read before the first use."""
        self._session = session
        self._folder = folder
        self._sources = sources
        self._file: Path | None = None
        self._entries: dict[str, tuple[int, tuple[str, ...], bytes]] = {}
        self._fresh = False
        self._works: list[_Work] = []
        self._charged: set[str] = set()
        self._functions: dict[int, tuple[str, str]] = {}
        self._builtins: dict[str, Any] = {}

    def _open_file(self) -> None:
        if self._file is not None:
            return
        self._file = shelf_file(self._folder, self._sources)
        self._entries = _load(self._file)
        for number, cell in enumerate(self._session.base.functions.values()):
            if cell.builtin is not None:
                name = f"{number} {cell.builtin.name}"  # generated code has builtins of its own with names of others
                self._builtins[name] = cell.builtin
                self._functions[id(cell.builtin.function)] = ("function", name)
                self._functions[id(cell.builtin.call)] = ("call", name)

    def take(self, title: str, module: Module) -> Kept | None:
        """What was compiled of a function before, its names now known to the module; None where that has to be done."""
        self._open_file()
        entry = self._entry(title, module)
        if entry is None or not self._named(entry, module):
            return None
        try:
            code = marshal.loads(entry.code)
        except (ValueError, EOFError, TypeError):
            return None
        self._tell(title, self._charge(title))
        module.namespace.update(entry.constants)
        module.trails.update(entry.trails)
        for info in entry.infos:
            register(info)
        return Kept(code, entry.optional, entry.info)

    @contextlib.contextmanager
    def compiling(self, title: str, module: Module) -> Iterator[Callable[[Kept], None]]:
        """Around a compilation: counts its steps, and gives what puts the result on the shelf."""
        self._open_file()
        work = _Work()
        self._works.append(work)
        before, trails = self._session.steps_left, set(module.trails)
        told = len(self._session.diagnostics.records)
        made: list[Kept] = []
        try:
            yield made.append
        finally:
            self._works.pop()
            steps = before - self._session.steps_left
            self._charged.add(title)
            self._tell(title, steps)
        for kept in made if len(self._session.diagnostics.records) == told else ():  # what is told is told each time
            new = {place: trail for place, trail in module.trails.items() if place not in trails}
            self._put(title, module, kept, new, (steps - sum(work.inside), tuple(work.needed)))

    def _put(
        self, title: str, module: Module, made: Kept, trails: dict[Any, Trail], cost: tuple[int, tuple[str, ...]]
    ) -> None:
        """Keep what was compiled, unless it holds what cannot be written."""
        codes = list(_codes(made.code))
        infos = tuple(info for info in (info_of(code.co_name) for code in codes) if info is not None)
        names: list[tuple[str, str, Any]] = []
        constants: dict[str, Any] = {}
        for name in dict.fromkeys(name for code in codes for name in code.co_names):
            if name in module.namespace and name not in _PLAIN:
                meant = _meaning(name)
                builtin = self._functions.get(id(module.namespace[name]))
                if meant is not None:
                    names.append((name, *meant))
                elif name.startswith("b:") and builtin is not None:
                    names.append((name, "builtin", builtin[1]))
                else:
                    constants[name] = module.namespace[name]
        code = marshal.dumps(made.code)
        entry = Entry(code, made.optional, made.info, infos, tuple(names), constants, trails)
        stream = io.BytesIO()
        try:
            _Pickler(stream, self._session, self._functions, module).dump(entry)
        except (pickle.PicklingError, TypeError, AttributeError, RecursionError):
            return
        self._entries[title] = (*cost, stream.getvalue())
        if self._entry(title, module) is None:
            del self._entries[title]
        else:
            self._fresh = True

    def save(self) -> None:
        """Write the entries, where there are more than were found, in one motion."""
        if self._file is None or not self._fresh:
            return
        self._fresh = False
        payload = marshal.dumps(self._entries)
        with contextlib.suppress(OSError):  # a folder that cannot be written keeps nothing, which harms nobody
            self._file.parent.mkdir(parents=True, exist_ok=True)
            descriptor, name = tempfile.mkstemp(dir=self._file.parent, suffix=".part")
            try:
                with os.fdopen(descriptor, "wb") as stream:
                    stream.write(MAGIC + hashlib.sha256(payload).digest() + payload)
                os.replace(name, self._file)
            except OSError:
                os.unlink(name)
                return
            found = sorted(self._file.parent.glob("*.code"), key=lambda path: path.stat().st_mtime, reverse=True)
            for path in found[KEPT:]:
                path.unlink(missing_ok=True)

    def _entry(self, title: str, module: Module) -> Entry | None:
        _, _, content = self._entries.get(title, (0, (), b""))
        try:
            found = _Unpickler(io.BytesIO(content), self._session, self._builtins, module).load()
        except (pickle.UnpicklingError, AttributeError, TypeError, ValueError, EOFError, LookupError, ImportError):
            return None
        return found if isinstance(found, Entry) else None

    def _named(self, entry: Entry, module: Module) -> bool:
        """Whether the globals of the code mean here what they meant; they do from now on."""
        for name, kind, what in entry.names:
            if kind == "ticks":
                module.ticks(what)
            elif kind == "builtin":
                builtin = self._builtins.get(what)
                if builtin is None or module.named(name, builtin.function) != name:
                    return False
            else:
                found: Any = module.function(what) if kind == "function" else module.variable(what)
                if found is None or module.key_of(found.ref, name) != name:
                    return False
        return True

    def _charge(self, title: str) -> int:
        """Take the steps of compiling a function and what that needs, where no compilation has taken them."""
        if title in self._charged or title not in self._entries:
            return 0
        self._charged.add(title)
        steps, needed, _ = self._entries[title]
        inside = sum(map(self._charge, needed))
        self._session.spend(steps)
        return steps + inside

    def _tell(self, title: str, steps: int) -> None:
        """Let the compilation around this one know."""
        if self._works:
            self._works[-1].inside.append(steps)
            self._works[-1].needed[title] = None


def shelf_file(folder: Path, sources: Iterable[Path]) -> Path:
    """The file of entries for the compiler and the library as their files (in the folders `sources`) are now."""
    state = [sys.version, __version__]
    for source in sources:
        for path, _, files in os.walk(source):
            for name in sorted(files):
                if name.endswith((".py", ".sx")):
                    known = os.stat(os.path.join(path, name))
                    state.append(f"{path} {name} {known.st_size} {known.st_mtime_ns}")
    return folder / f"{hashlib.sha256(chr(10).join(state).encode()).hexdigest()}.code"


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _meaning(name: str) -> tuple[str, Any] | None:
    """What a global of compiled code is by its name, None for a constant or a builtin."""
    if name.startswith(TICKS):
        return "ticks", int(name.removeprefix(TICKS))
    kind, colon, what = name.partition(":")
    if not colon or kind not in ("f", "v"):
        return None
    what = what.rstrip("'")
    writer = what.startswith("(setf ")
    key = setf_name(symbol(what[6:-1])) if writer else symbol(what)
    return "function" if kind == "f" else "variable", key


def _load(file: Path) -> dict[str, tuple[int, tuple[str, ...], bytes]]:
    try:
        content = file.read_bytes()
        head, payload = content[: len(MAGIC) + 32], content[len(MAGIC) + 32 :]
        if head != MAGIC + hashlib.sha256(payload).digest():
            return {}
        found = marshal.loads(payload)
    except (OSError, ValueError, EOFError, TypeError):
        return {}
    return found if isinstance(found, dict) else {}


class _Pickler(pickle.Pickler):
    """Writes what stands for objects of the session as names."""

    def __init__(self, stream: Any, session: Session, functions: dict[int, tuple[str, str]], module: Module) -> None:
        super().__init__(stream, protocol=5)
        self._session = session
        self._functions = functions
        self._module = module

    def persistent_id(self, value: Any) -> Any:
        if isinstance(value, Symbol):
            writer = not value.interned and value.name.startswith("(setf ")
            return ("setf", value.name[6:-1]) if writer and setf_name(symbol(value.name[6:-1])) is value else None
        if value is self._module:
            return ("module", "")
        if isinstance(value, Source) and self._session.modules.library_texts.get(value.file) is value:
            return ("source", value.file)
        if isinstance(value, Module | Source):
            raise pickle.PicklingError("it is of this session only")
        return self._functions.get(id(value)) if callable(value) and not isinstance(value, type) else None


class _Unpickler(pickle.Unpickler):
    """Makes data of the language and records of it, nothing else."""

    def __init__(self, stream: Any, session: Session, builtins: dict[str, Any], module: Module) -> None:
        super().__init__(stream)
        self._session = session
        self._builtins = builtins
        self._module = module

    def find_class(self, module: str, name: str) -> Any:
        if name in _CLASSES.get(module, ()):
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"{module}.{name} is no part of compiled code")

    def persistent_load(self, told: Any) -> Any:
        kind, name = told
        if kind == "module":
            return self._module
        if kind == "source":
            return self._session.modules.library_texts[name]
        if kind == "setf":
            return setf_name(symbol(name))
        builtin = self._builtins[name]
        return builtin.call if kind == "call" else builtin.function
