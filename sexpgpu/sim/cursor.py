"""A place in a list of tokens, and what is read the same way everywhere: literals, lists, variables."""

from __future__ import annotations

import struct

from attrs import define, field

from sexpgpu.diag import Span, SxError, error
from sexpgpu.sim.source import Imm, Place, Space, Variable
from sexpgpu.sim.types import TYPES


@define
class Cursor:
    """The tokens of a text, read from the front."""

    texts: list[str]
    lines: list[int]
    starts: list[int]
    file: str
    text: str
    at: int = 0
    files: dict[int, str] = field(factory=dict)

    @property
    def done(self) -> bool:
        return self.at >= len(self.texts)

    @property
    def line(self) -> int:
        if not self.texts:
            return 1
        return self.lines[min(self.at, len(self.lines) - 1)]

    def peek(self, ahead: int = 0) -> str:
        at = self.at + ahead
        return self.texts[at] if at < len(self.texts) else ""

    def next(self) -> str:
        if self.done:
            raise self.fault("the text ends in the middle of something")
        self.at += 1
        return self.texts[self.at - 1]

    def expect(self, text: str) -> None:
        if self.peek() != text:
            raise self.fault(f"{text!r} was expected, not {self.peek()!r}")
        self.at += 1

    def fault(self, message: str) -> SxError:
        """E-SIM-001 at the token that is next."""
        line = self.line
        written = self.text.split("\n")
        width = len(written[line - 1]) if line <= len(written) else 0
        return error("E-SIM-001", f"the text is not PTX: {message}", Span(self.file, line, 1, line, width + 1))

    def columns(self, first: int, last: int) -> tuple[int, int]:
        """The columns from 1, the last exclusive, of the tokens from one to another, as far as one line has them."""
        start = self.starts[first]
        line_start = self.text.rfind("\n", 0, start) + 1
        end = self.starts[last] + len(self.texts[last])
        if self.lines[last] != self.lines[first]:
            end = self.text.index("\n", start)
        return start - line_start + 1, end - line_start + 1

    def rest_of_line(self, least: int) -> list[str]:
        """The tokens up to the end of the line, `least` of them at least."""
        line, start = self.line, self.at
        words: list[str] = []
        while not self.done and self.lines[self.at] == line:
            words.append(self.next())
        if len(words) < least:
            self.at = start
            raise self.fault(f"{words[0]} is not complete")
        return words

    def place(self) -> Place | None:
        """`.loc file line column`; line 0 is nowhere."""
        words = self.rest_of_line(4)
        if not all(word.isdigit() for word in words[1:4]):
            raise self.fault(f"{' '.join(words[:4])} names no place")
        file, line, col = (int(word) for word in words[1:4])
        return Place(self.files.get(file, str(file)), line, col) if line else None

    def file_name(self) -> None:
        """`.file number "name"`."""
        words = self.rest_of_line(3)
        if not words[1].isdigit():
            raise self.fault(f"{words[1]} is no number of a file")
        self.files[int(words[1])] = words[2].strip('"')

    def skip_to(self, text: str) -> None:
        """Past the next `text`; for `{` up to it."""
        while self.peek() != text:
            self.next()
        if text != "{":
            self.next()

    def skip_braces(self) -> None:
        depth = 0
        while True:
            token = self.next()
            depth += (token == "{") - (token == "}")
            if depth == 0:
                return

    def literal(self) -> Imm | None:
        """A number with its sign, or None where there is none."""
        negative = self.peek() == "-"
        text = self.peek(1 if negative else 0)
        if not text[:1].isdigit():
            return None
        self.at += 2 if negative else 1
        value = number(text)
        if not negative:
            return value
        if value.bits:
            return Imm(int(value.value) ^ (1 << value.bits - 1), value.bits)
        return Imm(-value.value)

    def integer(self) -> int:
        value = self.literal()
        if value is None or isinstance(value.value, float):
            raise self.fault("an integer was expected")
        return int(value.value)

    def variable(self, space: Space, found_size: bool) -> Variable:
        """`.align 4 .b8 name[64]` behind its state space."""
        align = 0
        kind = None
        while True:
            word = self.next()
            if word == ".align":
                if kind is None:
                    align = self.integer()
                else:  # what a pointer parameter points to
                    self.integer()
            elif word == ".ptr":
                while self.peek() in (".global", ".shared", ".const", ".local", ".align"):
                    if self.next() == ".align":
                        self.integer()
            elif word[1:] in TYPES and word.startswith("."):
                kind = TYPES[word[1:]]
            elif word.startswith("."):
                if word not in (".managed", ".attribute"):
                    raise self.fault(f"{word} is no part of a declaration")
            else:
                break
        if kind is None:
            raise self.fault(f"{word} has no type")
        count, unsized = 1, False
        while self.peek() == "[":
            self.next()
            if self.peek() == "]":
                unsized = True
            else:
                count *= self.integer()
            self.expect("]")
        size = 0 if unsized else count * kind.size
        return Variable(word, space, size, align or kind.size, kind, unsized=unsized)


def number(text: str) -> Imm:
    """A literal as PTX writes it; hexadecimal floats keep their bits."""
    text = text.removesuffix("U")
    mark = text[1:2].lower()
    if text[0] == "0" and mark == "f":
        return Imm(int(text[2:], 16), 32)
    if text[0] == "0" and mark == "d":
        return Imm(int(text[2:], 16), 64)
    if text[0] == "0" and mark == "x":
        return Imm(int(text[2:], 16))
    if text[0] == "0" and mark == "b":
        return Imm(int(text[2:], 2))
    if any(letter in text for letter in ".eE"):
        return Imm(float(text))
    return Imm(int(text, 8) if len(text) > 1 and text[0] == "0" else int(text))


def float_of(value: Imm) -> float:
    """The number that a float literal stands for."""
    if value.bits == 32:
        return float(struct.unpack("<f", struct.pack("<I", int(value.value)))[0])
    if value.bits == 64:
        return float(struct.unpack("<d", struct.pack("<Q", int(value.value)))[0])
    return float(value.value)
