"""The reader: text to forms whose conses know where they are written.

It goes on after an error where the rest can still be read: a form with an error in it is marked, so that it
is not evaluated, and an unclosed list is given up at the next form that begins in the first column.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from sexpgpu.diag import Diagnostic, Edit, Note
from sexpgpu.lang.balance import surplus, unclosed
from sexpgpu.lang.forms import NIL, Source, SourceCons, Symbol, symbol
from sexpgpu.lang.readform import OpenForm, ReadForm
from sexpgpu.lang.readtime import READ_EVAL, has_feature, literal, required_as
from sexpgpu.lang.tokens import (
    COMMENT_EDGE,
    LEXEME,
    NO_TEXT,
    REST_OF_TOKEN,
    BadToken,
    parse_character,
    parse_number,
    parse_token,
    suspicion,
    unseen,
)

DEEPEST = 2000
QUOTE = symbol("quote")
FUNCTION = symbol("function")
QUASIQUOTE = symbol("quasiquote")
UNQUOTE = symbol("unquote")
SPLICE = symbol("unquote-splicing")
_PREFIXES = {"'": QUOTE, "#'": FUNCTION, "`": QUASIQUOTE, ",": UNQUOTE, ",@": SPLICE, ",.": SPLICE}
_RADIX = {"b": 2, "o": 8, "x": 16}
_UNSUPPORTED = {"c": "complex numbers", "*": "bit vectors", "p": "pathnames"}
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)

Report = Callable[[Diagnostic], None]


def read_text(source: Source, report: Report, aliases: set[str] | None = None) -> list[ReadForm]:
    """All top-level forms of a file; errors and warnings go to `report`."""
    return list(Reader(source, report, aliases if aliases is not None else set()).forms())


class Reader:
    """Reads one source. `aliases` grows by the `(require ... :as m)` forms met, so that `m:name` reads."""

    def __init__(self, source: Source, report: Report, aliases: set[str]) -> None:
        self._source = source
        self._report = report
        self._aliases = aliases
        self._memo: dict[str, Any] = {}
        self._stack: list[OpenForm] = []
        self._done: ReadForm | None = None
        self._first_fault: Diagnostic | None = None
        self._read_eval = False
        self._torn = False
        self._labels: dict[int, Any] = {}
        self._stray: tuple[int, int] | None = None  # a "(" in column 1 inside a list, and that list's start
        self._last: ReadForm | None = None
        self._column_one_end = 0  # where the last form that began in column 1 ended
        self._resume: int | None = None

    def forms(self, start: int = 0) -> Iterator[ReadForm]:
        """The top-level forms from a character offset on."""
        text = self._source.text
        strange = NO_TEXT.search(text)
        if strange is not None:
            what = "a NUL character" if strange[0] == "\0" else "bytes that are not UTF-8"
            self._fault("E-READ-011", f"the file holds {what}: it is not a text file", *strange.span())
            return
        self._resume = max(start, 1 if text.startswith("\ufeff") else 0)
        while self._resume is not None:
            at = self._resume
            self._resume = None
            for match in LEXEME.finditer(text, at):
                kind = match.lastgroup
                if kind == "skip":
                    continue
                self._lexeme(str(kind), match)
                if self._done is not None:
                    yield self._done
                    self._last, self._done = self._done, None
                    if self._column_one(self._last.start):
                        self._column_one_end = self._last.end
                if self._interrupted():
                    break
            else:
                if self._stack:
                    yield self._unclosed()

    def _interrupted(self) -> bool:
        """Whether the last lexeme moved the place to read on from."""
        return self._resume is not None

    # One lexeme.

    def _lexeme(self, kind: str, match: re.Match[str]) -> None:
        start, end = match.span()
        text = match[0]
        if kind == "token":
            self._token(text, start, end)
        elif kind == "open":
            self._push("(", start)
        elif kind == "close":
            self._close(start, end)
        elif kind == "string":
            self._string(text, start, end)
        elif kind == "prefix":
            if text[0] == "," and not self._inside_backquote():
                self._comma(text, start, end)
            self._push(text, start)
        elif kind == "char":
            self._character(text, start, end)
        elif kind == "comment":
            self._skip_comment(start)
        elif kind == "dispatch":
            self._dispatch(text, start, end)
        else:
            self._bad(text, start)

    def _comma(self, text: str, start: int, end: int) -> None:
        """E-MACRO-005."""
        quote = next((frame for frame in self._stack if frame.kind == "'"), None)
        help = f"write it without `{text}`" if quote is None else "use ` where the list is quoted by '"
        edit = (start, end, "") if quote is None else (quote.start, quote.start + 1, "`")
        self._fault("E-MACRO-005", f"`{text}` outside a backquote", start, end, help, edits=(edit,))

    def _token(self, text: str, start: int, end: int) -> None:
        if text == ".":
            self._dot(start, end)
            return
        value = self._memo.get(text)
        if value is None:
            try:
                value = parse_token(text, self._aliases)
            except BadToken as bad:
                self._bad_token(bad, start, end)
                return
            self._memo[text] = value
            if (hidden := unseen(text)) is not None:
                self._warn("W-READ-003", f"{hidden} is part of this name, and does not show", start, end)
            named = type(value) is Symbol and not value.keyword
            if named and (suspected := suspicion(value.name, text, bool(self._stack and self._stack[-1].items))):
                self._warn("W-READ-002", suspected, start, end)
        self._add(value, start, end)

    def _string(self, text: str, start: int, end: int) -> None:
        body = text[1:-1]
        if "\\" in body:
            for escape in _ESCAPE.finditer(body):
                if escape[1] in "ntru0":
                    at = start + 1 + escape.start()
                    self._warn("W-READ-001", f"strings have no escape \\{escape[1]}: this reads as "
                               f'"{escape[1]}"', at, at + 2, "use ~% in format, or a line break")  # fmt: skip
        # A line end within the string is one character; an escaped one stays as it is written.
        body = _ESCAPE.sub(r"\1", body.replace("\r\n", "\n"))
        self._add(body, start, end)

    def _character(self, text: str, start: int, end: int) -> None:
        try:
            self._add(parse_character(text[2:]), start, end)
        except BadToken as bad:
            self._bad_token(bad, start, end)

    def _bad_token(self, bad: BadToken, start: int, end: int) -> None:
        edits = ((start, end, bad.instead),) if bad.instead is not None else ()
        self._fault(bad.code, bad.message, start, end, bad.help, edits=edits)
        self._add(NIL, start, end)

    def _skip_comment(self, start: int) -> None:
        depth = 0
        for edge in COMMENT_EDGE.finditer(self._source.text, start):
            depth += 1 if edge[0] == "#|" else -1
            if depth == 0:
                self._resume = edge.end()
                return
        self._fault("E-READ-003", "this #| comment is never closed by |#", start, start + 2)
        self._give_up()

    def _bad(self, text: str, start: int) -> None:
        if text in "[]{}":
            self._fault("E-READ-010", f"`{text}` is not used here", start, start + 1, "write (vector ...) or #(...)")
            return
        what = {'"': "string", "|": "|symbol|"}.get(text, "symbol")
        line = self._source.text[start:].partition("\n")[0]
        end = start + len(line.rstrip().rstrip(")"))
        edits = ((end, end, text),) if text in '"|' else ()
        help = f"write {text} at its end" if edits else None
        self._fault("E-READ-003", f"this {what} is never closed", start, start + 1, help, edits=edits)
        self._give_up()

    # The # syntaxes beyond #' and #\.

    def _dispatch(self, text: str, start: int, end: int) -> None:
        number, letter = text[1:-1], text[-1].lower()
        if letter == "(" and not number:
            self._push("#(", start)
        elif (letter in _RADIX and not number) or (letter == "r" and number):
            self._radix(_RADIX.get(letter) or int(number), start, end)
        elif letter == ":" and not number:
            token = self._rest(end)
            self._add(Symbol(token[0].lower()), start, token[1])
        elif letter in "+-." and not number:
            self._push("#" + letter, start)
        elif (letter == "a" and number) or (letter == "s" and not number):
            self._push(f"#{letter}{number}", start)
        elif letter == "=" and number:
            self._push("#=" + number, start)
        elif letter == "#" and number:
            if int(number) not in self._labels:
                self._fault("E-READ-006", f"#{number}# refers to no earlier #{number}=", start, end)
            self._add(self._labels.get(int(number), NIL), start, end)
        elif letter == ";":
            self._fault("E-READ-006", "#; is not a comment here", start, end, "use #+(or) before the form, or #| |#")
        elif letter in _UNSUPPORTED:
            self._fault("E-READ-006", f"{text}: {_UNSUPPORTED[letter]} are not supported", start, end)
        else:
            self._fault("E-READ-006", f"`{text}` is not a # syntax", start, end)

    def _rest(self, at: int) -> tuple[str, int]:
        match = REST_OF_TOKEN.match(self._source.text, at)
        end = match.end() if match else at
        self._resume = end
        return self._source.text[at:end], end

    def _radix(self, radix: int, start: int, at: int) -> None:
        token, end = self._rest(at)
        try:
            value = parse_number(token.lower(), radix) if 2 <= radix <= 36 else None
            if value is None:
                raise BadToken("E-READ-004", f"`{token}` is not a number in base {radix}")
        except BadToken as bad:
            self._fault(bad.code, bad.message, start, end)
            value = 0
        self._add(value, start, end)

    # Structure.

    def _push(self, kind: str, start: int) -> None:
        if kind == "(" and self._stack and self._stray is None and self._column_one(start):
            self._stray = (start, next((o.start for o in reversed(self._stack) if "(" in o.kind), start))
        self._stack.append(OpenForm(kind, start))
        if len(self._stack) > DEEPEST:
            self._fault("E-READ-012", f"lists are nested more than {DEEPEST} deep here", start, start + 1)
            self._stack.clear()
            self._resume = len(self._source.text)

    def _column_one(self, start: int) -> bool:
        return start == 0 or self._source.text[start - 1] == "\n"

    def _dot(self, start: int, end: int) -> None:
        top = self._stack[-1] if self._stack else None
        if top is not None and top.kind == "(" and top.dot is None and top.items:
            top.dot = len(top.items)
            return
        self._fault("E-READ-005", "a dot alone stands before the last element of a list: (a . b)", start, end)
        if top is not None:
            top.dot = None  # the list is at fault once

    def _close(self, start: int, end: int) -> None:
        while self._stack and self._stack[-1].kind not in ("(", "#("):
            prefix = self._stack.pop()
            self._fault("E-READ-008", f"nothing follows `{prefix.kind}`", prefix.start, prefix.start + 1)
        if not self._stack:
            notes: tuple[Note, ...] = ()
            if self._last is not None:
                a, b = self._source.position(self._last.start), self._source.position(self._last.end - 1)
                notes = (Note(f"the form that began at {a[0]}:{a[1]} ended at {b[0]}:{b[1]}"),)
            line, col = self._source.position(extra := surplus(self._source, self._column_one_end, start))
            help = "take it away" if extra == start else f"the ) at {line}:{col} ends its form too early"
            edits = ((extra, extra + 1, ""),)
            self._fault("E-READ-002", "this ) closes nothing", start, end, help, notes, edits=edits, of_form=False)
            return
        top = self._stack.pop()
        if top.dot is not None and len(top.items) != top.dot + 1:
            what = "nothing follows the dot" if len(top.items) == top.dot else "more than one form follows the dot"
            self._fault("E-READ-005", f"{what} in this list", top.start, end)
            top.dot = None
        if top.kind == "#(":
            self._add(list(top.items), top.start, end)
        else:
            self._add(self._list(top, end), top.start, end)

    def _list(self, top: OpenForm, end: int) -> Any:
        items, places, source = top.items, top.places, self._source
        tail: Any = NIL
        last = len(items)
        if top.dot is not None:
            last -= 1
            tail = items[last]
        for i in range(last - 1, 0, -1):
            a, b = places[i]
            tail = SourceCons(items[i], tail, source, a, end, a, b)
        if last:
            a, b = places[0]
            tail = SourceCons(items[0], tail, source, top.start, end, a, b)
        return tail

    def _add(self, datum: Any, start: int, end: int) -> None:
        """A datum is complete: give it to what is open, or hand it out as a top-level form."""
        while self._stack:
            top = self._stack[-1]
            if top.kind in ("(", "#("):
                top.items.append(datum)
                top.places.append((start, end))
                return
            if top.kind in ("#+", "#-") and not top.items:
                top.items.append(datum)
                return
            self._stack.pop()
            if top.kind in ("#+", "#-"):
                if has_feature(top.items[0]) != (top.kind == "#+"):
                    return
            elif top.kind.startswith("#="):
                self._labels[int(top.kind[2:])] = datum
            else:
                datum = literal(top.kind, datum)
                head = _PREFIXES.get(top.kind, READ_EVAL)
                self._read_eval = self._read_eval or head is READ_EVAL
                inner = SourceCons(datum, NIL, self._source, start, end, start, end)
                mark = top.start + max(1, len(top.kind))
                datum = SourceCons(head, inner, self._source, top.start, end, top.start, mark)
                start = top.start
        self._aliases.update(required_as(datum))
        self._done = ReadForm(datum, self._source, start, end, self._first_fault, self._read_eval)
        self._first_fault = None
        self._read_eval = False
        self._stray = None
        self._labels.clear()

    def _inside_backquote(self) -> bool:
        depth = 0
        for frame in self._stack:
            depth += 1 if frame.kind == "`" else -1 if frame.kind[0] == "," else 0
        return depth > 0

    def _unclosed(self) -> ReadForm:
        """The text ended inside a list: say which, and take up reading at the form that should not be inside."""
        first = self._stack[0]
        lists = [frame for frame in self._stack if frame.kind in ("(", "#(")]
        source = self._source
        if self._torn:
            self._resume = None
        elif not lists:
            prefix = self._stack[-1]
            self._fault("E-READ-008", f"nothing follows `{prefix.kind}`", prefix.start, prefix.start + 1)
        elif self._stray is not None:
            stray, inside = self._stray
            line, col = source.position(stray)
            head = REST_OF_TOKEN.match(source.text, stray + 1)
            text = (
                f"({head[0] if head else ''} at {line}:{col}, in the first column, starts inside it: "
                f"a ) is probably missing before line {line}"
            )
            note = Note(text, source.span(stray, stray + 1))
            self._never_closed(first.start, stray, inside, (note,))
            self._resume = stray
        else:
            self._never_closed(first.start, len(source.text), lists[-1].start)
        end = len(source.text) if self._resume is None else self._resume
        datum = self._list(first, end) if first.kind == "(" else NIL
        form = ReadForm(datum, source, first.start, end, self._first_fault, torn=self._torn)
        self._stack.clear()
        self._stray = self._first_fault = None
        self._read_eval = False
        return form

    def _never_closed(self, start: int, end: int, inside: int, notes: tuple[Note, ...] = ()) -> None:
        """E-READ-001 of the form at `start`, at the list that its lines show to be open, else the one at `inside`."""
        found = unclosed(self._source, start, end)
        at = inside if found is None else found.start
        edits = () if found is None else tuple((offset, offset, ")" * count) for offset, count in found.closings)
        lines = [f"`{text}` at the end of line {self._source.position(offset)[0]}" for offset, _, text in edits]
        help = f"write {' and '.join(lines)}" if lines else None
        self._fault("E-READ-001", "this ( is never closed", at, at + 1, help, notes, edits=edits)

    def _give_up(self) -> None:
        """What begins here never ends: nothing behind it can be read."""
        self._torn = True
        self._resume = len(self._source.text)

    def _fault(
        self, code: str, message: str, start: int, end: int, help: str | None = None, notes: tuple[Note, ...] = (),
        *, edits: tuple[tuple[int, int, str], ...] = (), of_form: bool = True,
    ) -> None:  # fmt: skip
        fix = tuple(Edit(self._source.span(a, b), text) for a, b, text in edits)
        found = Diagnostic(code, message, self._source.span(start, end), help=help, fix=fix, notes=notes)
        if self._first_fault is None and of_form:
            self._first_fault = found
        self._report(found)

    def _warn(self, code: str, message: str, start: int, end: int, help: str | None = None) -> None:
        place = self._source.span(start, end)
        self._report(Diagnostic(code, message, place, help=help, severity="warning"))
