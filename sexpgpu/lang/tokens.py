"""The lexical grammar: what a token is, and what number or symbol it reads as."""

from __future__ import annotations

import re
import unicodedata
from fractions import Fraction
from typing import Any, Final

from sexpgpu.diag import nearest
from sexpgpu.lang.forms import Char, Symbol, character, keyword, symbol

_PLAIN = r"""[^\s()"';`,|\\\[\]{}]"""
_PIECE = rf"""(?:{_PLAIN}++|\\.|\|[^|\\]*(?:\\.[^|\\]*)*\|)"""

# Alternatives in the order of their frequency; `lastgroup` names the one that matched.
LEXEME: Final = re.compile(
    rf"""(?P<skip>\s+|;[^\n]*)
    |(?P<open>\()
    |(?P<close>\))
    |(?P<prefix>['`]|,[@.]?|\#')
    |(?P<string>"[^"\\]*(?:\\.[^"\\]*)*")
    |(?P<comment>\#\|)
    |(?P<char>\#\\(?:.{_PIECE}*))
    |(?P<dispatch>\#(?:\d*[^\d\s]|\d*))
    |(?P<token>(?!\#){_PIECE}++)
    |(?P<bad>.)""",
    re.VERBOSE | re.DOTALL,
)
REST_OF_TOKEN: Final = re.compile(rf"{_PIECE}*", re.DOTALL)
COMMENT_EDGE: Final = re.compile(r"\|\#|\#\|")

_INTEGER = re.compile(r"[+-]?\d+\.?")
_RATIO = re.compile(r"([+-]?\d+)/(\d+)")
_FLOAT = re.compile(r"([+-]?(?:\d*\.\d+|\d+(?:\.\d*)?(?=[esfdl])))(?:[esfdl]([+-]?\d+))?")
_FAILED_NUMBER = re.compile(r"[+-]?(?:0x[\da-f]+|\.?\d[\d_,./]*(?:[esfdl][+-]?\d*)?)")
_CODE = re.compile(r"u\+?([0-9a-f]{2,6})")
_PIECES = re.compile(r"\\(.)|\|((?:[^|\\]|\\.)*)\||([^|\\]+)", re.DOTALL)

NO_TEXT: Final = re.compile("[\\0\ud800-\udfff]")
"""What no text file holds: NUL, and halves of surrogate pairs, which stand for bytes that are not UTF-8."""

CHARACTER_NAMES: Final[dict[str, int]] = {
    "space": 32,
    "newline": 10,
    "tab": 9,
    "return": 13,
    "nul": 0,
    "null": 0,
    "rubout": 127,
    "delete": 127,
    "backspace": 8,
    "page": 12,
    "linefeed": 10,
    "escape": 27,
}


LONGEST_NUMBER: Final = 80_000
"""Characters that a number may be spelt with: some more than the longest integer has."""


class BadToken(Exception):
    """A token that reads as nothing: the code, message and help of its diagnostic, and what to write instead."""

    def __init__(self, code: str, message: str, help: str | None = None, instead: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.help = help
        self.instead = instead


def parse_number(text: str, radix: int = 10) -> Any:
    """The number that `text` (lower case) spells, or None. Raises BadToken for 1/0 and what is out of range."""
    if len(text) > LONGEST_NUMBER:
        raise BadToken("E-READ-004", f"a token of {len(text):,} characters is too long for a number")
    if radix != 10:
        sign, digits = (text[0], text[1:]) if text[:1] in ("+", "-") else ("", text)
        top, slash, bottom = digits.partition("/")
        try:
            if not (top.isalnum() and (not slash or bottom.isalnum())):
                return None
            return _ratio(int(sign + top, radix), int(bottom, radix) if slash else 1)
        except ValueError:
            return None
    if _INTEGER.fullmatch(text):
        return int(text.removesuffix("."))
    if match := _RATIO.fullmatch(text):
        return _ratio(int(match[1]), int(match[2]))
    if match := _FLOAT.fullmatch(text):
        value = float(f"{match[1]}e{match[2]}" if match[2] else match[1])
        if value in (float("inf"), float("-inf")):
            raise BadToken("E-READ-004", f"{text} is too large for a float")
        return value
    return None


def _ratio(top: int, bottom: int) -> Any:
    if bottom == 0:
        raise BadToken("E-READ-004", f"{top}/0 divides by zero")
    value = Fraction(top, bottom)
    return value.numerator if value.denominator == 1 else value


def unseen(text: str) -> str | None:
    """The first character of a token that shows as nothing, as `U+200B (zero width space)`; None of most tokens."""
    if text.isascii() and text.isprintable():
        return None
    found = next((c for c in text if unicodedata.category(c) in ("Cf", "Cc")), None)
    return None if found is None else f"U+{ord(found):04X} ({unicodedata.name(found, 'a control character').lower()})"


def suspicion(name: str, text: str, within: bool) -> str | None:
    """What W-READ-002 says of the symbol called `name` and spelt `text`; None of most.

    `within` says that it is not the first element of a list.
    """
    if looks_like_number(name) and "|" not in text and "\\" not in text:
        return f"`{text}` looks like a number but is a symbol"
    if name[:1] == "." and len(name) > 1 and within:
        return f"`{text}` is a symbol; a dotted pair has a space after its dot"
    return None


def looks_like_number(name: str) -> bool:
    """Whether a symbol's spelling suggests that a number was meant (`1_000`, `1e`, `0x10`, `1.2.3`)."""
    return _FAILED_NUMBER.fullmatch(name) is not None


def parse_token(text: str, aliases: frozenset[str] | set[str]) -> Any:
    """The number, symbol or keyword that a token spells; `aliases` are the names of modules required `:as`."""
    if "|" in text or "\\" in text:
        return _escaped(text)
    folded = text.lower()
    if not folded.isascii():
        folded = unicodedata.normalize("NFC", folded)
    if folded[0] in "+-.0123456789" and (number := parse_number(folded)) is not None:
        return number
    if ":" in folded:
        return _with_colon(folded, aliases)
    if not folded.strip("."):
        raise BadToken("E-READ-005", f"`{folded}` alone is not a symbol")
    return symbol(folded)


def _with_colon(name: str, aliases: frozenset[str] | set[str]) -> Symbol:
    if name[0] == ":":
        if len(name) == 1 or ":" in name[1:]:
            raise BadToken("E-READ-004", f"`{name}` is not a keyword", "a keyword is one colon and a name, :name")
        return keyword(name[1:])
    module, _, rest = name.partition(":")
    if not rest.strip(":"):
        raise BadToken(
            "E-READ-004", f"`{name}` ends in a colon", f"a keyword's colon comes first: :{module}", f":{module}"
        )
    if module in aliases and ":" not in rest:
        return symbol(name)
    rest = rest.strip(":")
    if ":" in rest:
        raise BadToken("E-READ-009", f"`{name}`: packages are not supported", "a name has one colon at most")
    if module in aliases:
        raise BadToken("E-READ-009", f"`{name}`: a module's name and one colon stand before what it exports",
                       f"write {module}:{rest}", f"{module}:{rest}")  # fmt: skip
    if aliases:
        near = nearest(module, aliases) or (min(aliases) if len(aliases) == 1 else None)
        help = f"did you mean `{near}:{rest}`?" if near else f"there are {' '.join(sorted(aliases))}"
        raise BadToken("E-READ-009", f"`{name}`: no module is required :as {module}", help)
    raise BadToken("E-READ-009", f"`{name}`: packages are not supported", f"write {rest} or :{rest}", rest)


def _escaped(text: str) -> Symbol:
    key = text[0] == ":"
    name = ""
    for match in _PIECES.finditer(text[1:] if key else text):
        single, barred, plain = match.groups()
        if single is not None:
            name += single
        elif barred is not None:
            name += re.sub(r"\\(.)", r"\1", barred, flags=re.DOTALL)
        else:
            name += plain.lower()
    return keyword(name) if key else symbol(name)


def is_surrogate(code: int) -> bool:
    """Whether a code point is half of a surrogate pair: UTF-16 has a use for it, text in UTF-8 cannot hold it."""
    return 0xD800 <= code <= 0xDFFF


def parse_character(name: str) -> Char:
    """The character of what follows `#\\`: itself, a name, or u and its code in hexadecimal."""
    if len(name) == 1:
        return character(name)
    folded = name.lower()
    if folded in CHARACTER_NAMES:
        return character(CHARACTER_NAMES[folded])
    code = _CODE.fullmatch(folded)
    if code is not None and is_surrogate(int(code[1], 16)):
        raise BadToken("E-READ-007", f"{name} is half of a surrogate pair, which is no character")
    if code is not None and int(code[1], 16) <= 0x10FFFF:
        return character(int(code[1], 16))
    near = nearest(folded, CHARACTER_NAMES)
    meant = f"#\\{near.capitalize()}" if near else None
    help = f"did you mean {meant}?" if meant else None
    raise BadToken("E-READ-007", f"there is no character named {name}", help, meant)


def reads_back(name: str) -> bool:
    """Whether the reader makes the symbol called `name` from its bare spelling (else it prints between bars)."""
    if not name or any(c in " \t\n\r\f()\"';`,|\\[]{}" or c.isspace() for c in name) or name[0] == "#":
        return False
    try:
        return parse_token(name, frozenset()) is symbol(name)
    except BadToken:
        return False
