"""The last check of one file, and what can be asked of it: hover, definitions, completion."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator

from attrs import define, frozen

from sexpgpu.diag import Span
from sexpgpu.driver.warm import Answer, Name, Place
from sexpgpu.editor.bindings import binding
from sexpgpu.editor.definitions import Definition, Signature, definition, keywords_of, signature
from sexpgpu.editor.text import Text, Token
from sexpgpu.lang.modules import LIBRARY, STANDARD

CALLED = ("function", "macro", "special form")
MOST_COMPLETIONS = 400


@frozen
class Completion:
    """A name that may stand at the cursor; `detail` is its lambda list or its value."""

    label: str
    kind: str
    detail: str = ""
    doc: str = ""


@define(eq=False)
class Checked:
    """A text that was checked. `library` are the names every file has, `read` gives the text of another file."""

    path: str
    text: Text
    answer: Answer
    library: tuple[Name, ...]
    read: Callable[[str], Text | None]

    # Names.

    def name(self, text: Text, token: Token) -> Name | None:
        """What the name at a token means: an operator where one is called, else a variable before a function."""
        word = token.text.lower().removeprefix("#'")
        found = [name for name in (*self.answer.names, *self.library) if name.name == word]
        called = _is_called(text, token)
        found.sort(key=lambda name: (name.kind in CALLED) != called)
        return found[0] if found else None

    def place(self, text: Text, token: Token) -> tuple[str, int] | None:
        """The file and offset of what binds or defines the name at a token; of a required module's, its first."""
        if token.text.startswith('"'):
            return self._module(text, token)
        word = token.text.lower().removeprefix("#'")
        start, end = text.form_around(token.start)
        inner = binding(text.source, start, token.end - 1, word, _is_called(text, token))
        if inner is None:
            inner = text.declared_in(word, start, end)
        if inner is not None:
            return self.path, inner
        name = self.name(text, token)
        if name is not None and name.span is not None:
            where = text if name.span.file == self.path else self.read(name.span.file)
            return (name.span.file, where.start_of(name.span)) if where is not None else None
        outer = text.defined(word)
        return (self.path, outer) if outer is not None else None

    def _module(self, text: Text, token: Token) -> tuple[str, int] | None:
        """The file that (require "...") means, where there is one."""
        opened = text.enclosing(token.start)
        if not opened or text.operator(opened[-1]) != "require":
            return None
        name = token.text.strip('"')
        if name.startswith(STANDARD):
            path = str(LIBRARY / f"{name.removeprefix(STANDARD)}.sx")
        else:
            path = os.path.normpath(os.path.join(os.path.dirname(self.path), name))
        return (path, 0) if os.path.isfile(path) else None

    def told(self, name: Name) -> Definition:
        """The lambda list and documentation of a name, wherever it is defined."""
        text = self._text_of(name.span)
        if name.span is None or text is None:
            return Definition(f"({name.name} {name.parameters[1:-1]})" if name.kind == "function" else name.parameters,
                              name.parameters, name.doc)  # fmt: skip
        return definition(text, text.start_of(name.span))

    def _text_of(self, span: Span | None) -> Text | None:
        if span is None:
            return None
        return self.text if span.file == self.path else self.read(span.file)

    # Hover.

    def hover(self, text: Text, offset: int, types: tuple[str, ...]) -> list[str]:
        """What is known at an offset, as paragraphs of Markdown; `types` are those of the form there."""
        token = text.token(offset)
        found = []
        if types:
            found.append("\n".join(["```text", *types, "```"]))
        if token is None:
            return found
        where = self.place(text, token)
        name = self.name(text, token)
        if name is not None and name.name in self.answer.knobs and name.kind == "variable":
            found.append(f"knob `{name.name}` = {self.answer.knobs[name.name]}")
        if where is not None and (there := text if where[0] == self.path else self.read(where[0])) is not None:
            said = definition(there, where[1])
            line = there.text.count("\n", 0, where[1]) + 1
            found += [f"```lisp\n{said.shape}\n```", said.doc, f"{where[0]}:{line}"]
        elif name is not None:
            said = self.told(name)
            found += [f"```lisp\n{said.shape}\n```", said.doc]
        return [paragraph for paragraph in found if paragraph]

    def types(self, path: str, text: Text, offset: int) -> tuple[str, ...]:
        """The types, as this check traced them, of the form at an offset of any file that it read.

        That is a variable, or a list at its operator or at one of its parentheses.
        """
        if self.answer.texts.get(path) != text.text:
            return ()
        token = text.token(offset)
        places = self.answer.places.get(path, ())
        if token is not None and (own := _at(places, start=token.start, end=token.end)):
            return own.types
        if token is not None and token.head and (around := _at(places, start=token.start - 1)):
            return around.types
        if token is None or not token.start <= offset < token.end:
            edge = _at(places, start=offset) or _at(places, end=offset) or _at(places, end=offset + 1)
            return edge.types if edge else ()
        return ()

    # Calls.

    def signature(self, text: Text, offset: int) -> Signature | None:
        """The call around an offset: its lambda list, and which of the parameters the offset is at."""
        opened = text.enclosing(offset)
        word = text.operator(opened[-1]) if opened else ""
        name = next((n for n in (*self.answer.names, *self.library) if n.name == word and n.kind in CALLED), None)
        if name is None:
            return None
        said = self.told(name)
        if name.kind != "function" and name.span is None:
            return Signature(said.shape, said.doc)
        if not said.parameters:
            return None
        return signature(word, said, text.arguments(opened[-1], offset))

    # Completion.

    def complete(self, text: Text, offset: int) -> tuple[int, list[Completion]]:
        """Where the word before the cursor starts, and what it may become."""
        token = text.token(offset)
        start = token.start if token is not None and token.start < offset else offset
        word = text.text[start:offset].lower()
        if word.startswith('"'):
            return start, []
        found = self._keywords(text, start) if word.startswith(":") else self._names(text, start, word)
        chosen = {item.label: item for item in found if item.label.startswith(word)}
        return start, sorted(chosen.values(), key=lambda item: item.label)[:MOST_COMPLETIONS]

    def _keywords(self, text: Text, offset: int) -> Iterator[Completion]:
        opened = text.enclosing(offset)
        operator = text.operator(opened[-1]) if opened else ""
        name = next((n for n in (*self.answer.names, *self.library) if n.name == operator and n.kind in CALLED), None)
        if name is not None:
            said = self.told(name)
            yield from (Completion(f":{key}", "keyword", said.parameters) for key in keywords_of(said.parameters))
        for word in text.words(*text.form_around(offset)):
            if word.startswith(":") and len(word) > 1:
                yield Completion(word, "keyword")

    def _names(self, text: Text, offset: int, prefix: str) -> Iterator[Completion]:
        start, end = text.form_around(offset)
        for word in text.words(start, offset) | text.words(offset + 1, end):
            if word[0].isalpha():
                yield Completion(word.lower(), "local")
        for name in (*self.library, *self.answer.names):
            if name.name.startswith(prefix):
                yield self._completion(name)

    def _completion(self, name: Name) -> Completion:
        if name.name in self.answer.knobs and name.kind == "variable":
            return Completion(name.name, "knob", self.answer.knobs[name.name])
        if name.kind == "variable":
            return Completion(name.name, name.kind)
        said = self.told(name)
        return Completion(name.name, name.kind, said.parameters or said.shape, said.doc)


def _is_called(text: Text, token: Token) -> bool:
    """Whether a token names a function: an operator, or the name behind `#'`."""
    quoted = token.text.startswith("#'") or text.text[max(0, token.start - 2) : token.start] == "#'"
    return token.head or quoted


def _at(places: Iterable[Place], start: int | None = None, end: int | None = None) -> Place | None:
    return next((p for p in places if start in (None, p.start) and end in (None, p.end)), None)
