"""Numbers as `format` writes them: fixed and scientific floats, English words and Roman numerals.

Floats are laid out from their shortest decimal digits; cutting rounds halves away from zero, as in SBCL.
"""

from __future__ import annotations

from typing import Final

from attrs import frozen


@frozen
class Digits:
    """The decimal 0.d1d2d3… × 10^exponent; no digits stand for zero."""

    text: str
    exponent: int

    def cut(self, keep: int) -> Digits:
        """At most `keep` digits, the last one rounded."""
        if keep >= len(self.text):
            return self
        if keep < 0 or not self.text:
            return Digits("", self.exponent)
        if self.text[keep] < "5":
            return Digits(self.text[:keep].rstrip("0"), self.exponent)
        whole = str(int(self.text[:keep] or "0") + 1).rjust(keep, "0")
        carried = len(whole) > keep
        return Digits(whole.rstrip("0"), self.exponent + carried)


def digits_of(value: float) -> Digits:
    """The shortest digits that read back as |value|."""
    mantissa, _, exponent = repr(abs(value)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    power = len(whole) + int(exponent or 0)
    text = whole + fraction
    significant = text.lstrip("0")
    return Digits(significant.rstrip("0"), power - (len(text) - len(significant)) if significant.strip("0") else 0)


def laid_out(digits: Digits, width: int | None, fraction: int | None, scale: int = 0) -> str:
    """Digits around a point, none before it below 1: `fraction` of them after it, or what fits `width`."""
    if fraction is not None:
        digits = digits.cut(digits.exponent + scale + fraction)
    elif width is not None and width > 1:
        room = max(width - 1, 1) if digits.exponent + scale > 0 else width - 1 + digits.exponent + scale
        whole = max(digits.exponent + scale, 0)
        digits = digits.cut(max(room, whole))
    point = digits.exponent + scale if digits.text else min(0, digits.exponent + scale)
    if not digits.text:
        return "." + "0" * (fraction or 0)
    if point > 0:
        head = digits.text[:point].ljust(point, "0")
        tail = digits.text[point:]
    else:
        head, tail = "", "0" * -point + digits.text
    return head + "." + tail.ljust(fraction or 0, "0")


@frozen
class Layout:
    """The parameters that fixed and scientific notation share."""

    width: int | None = None
    fraction: int | None = None
    scale: int | None = None
    overflow: str | None = None
    pad: str = " "
    plus: bool = False


def _framed(text: str, sign: str, suffix: str, layout: Layout) -> str | None:
    """Add the optional zeros around the point, the sign and the padding; None when the width is overrun."""
    lead, trail = text[0] == ".", text[-1] == "." and layout.fraction != 0
    left = None
    if layout.width is not None:
        left = layout.width - len(sign) - len(text) - len(suffix)
        if lead:
            lead = left > 0 or trail
            left -= lead
        if trail:
            trail = left > 0
            left -= trail
        if left < 0 and layout.overflow is not None:
            return None
    return layout.pad * max(left or 0, 0) + sign + "0" * lead + text + "0" * trail + suffix


def _sign(value: float, plus: bool) -> str:
    return "-" if str(value)[0] == "-" else "+" if plus else ""


def fixed(value: float, layout: Layout) -> str | None:
    """`~f`: None when the number does not fit its width and there is an overflow character."""
    sign = _sign(value, layout.plus)
    room = None if layout.width is None else layout.width - len(sign)
    return _framed(laid_out(digits_of(value), room, layout.fraction, layout.scale or 0), sign, "", layout)


def scientific(value: float, layout: Layout, exponent_digits: int | None, marker: str) -> str | None:
    """`~e`: `scale` digits (one unless said otherwise) before the point."""
    sign = _sign(value, layout.plus)
    digits = digits_of(value)
    scale = 1 if layout.scale is None else layout.scale
    fraction = layout.fraction
    if fraction is not None and scale > 0:
        fraction = max(fraction - scale + 1, 0)
    power = digits.exponent if digits.text else scale
    mantissa = Digits(digits.text, 0)
    if fraction is not None and mantissa.cut(scale + fraction).exponent:
        mantissa, power = Digits("1", 0), power + 1
    shown = str(abs(power - scale)).rjust(exponent_digits or 0, "0")
    if layout.overflow is not None and exponent_digits is not None and len(shown) > exponent_digits:
        return None
    suffix = f"{marker}{'-' if power < scale else '+'}{shown}"
    room = None if layout.width is None else layout.width - len(sign) - len(suffix)
    return _framed(laid_out(mantissa, room, fraction, scale), sign, suffix, layout)


def general(value: float, layout: Layout, exponent_digits: int | None, marker: str) -> str | None:
    """`~g`: fixed with blanks where the exponent would stand when that shows all digits, else scientific."""
    digits = digits_of(value)
    fraction = layout.fraction
    if fraction is None:
        length = len(laid_out(digits, None, None))
        fraction = max(length - 1 or 1, min(digits.exponent, 7))
    blanks = 4 if exponent_digits is None else exponent_digits + 2
    after = fraction - digits.exponent
    if not 0 <= after <= fraction:
        return scientific(value, layout, exponent_digits, marker)
    width = None if layout.width is None else layout.width - blanks
    text = fixed(value, Layout(width, after, None, layout.overflow, layout.pad, layout.plus))
    return None if text is None else text + " " * blanks


def money(value: float, fraction: int, least: int, width: int, pad: str, plus: bool, sign_first: bool) -> str:
    """`~$`: `fraction` digits after the point, at least `least` before it."""
    sign = _sign(value, plus)
    text = laid_out(digits_of(value), None, fraction)
    before = max(text.index("."), least)
    filling = pad * (width - len(sign) - before - 1 - fraction)
    number = text.rjust(before + 1 + fraction, "0")
    return sign + filling + number if sign_first else filling + sign + number


_ONES: Final = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
]
_TENS: Final = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
_GROUPS: Final = [
    "",
    "thousand",
    "million",
    "billion",
    "trillion",
    "quadrillion",
    "quintillion",
    "sextillion",
    "septillion",
    "octillion",
    "nonillion",
    "decillion",
    "undecillion",
    "duodecillion",
    "tredecillion",
    "quattuordecillion",
    "quindecillion",
    "sexdecillion",
    "septendecillion",
    "octodecillion",
    "novemdecillion",
    "vigintillion",
]
_ORDINALS: Final = {
    "one": "first",
    "two": "second",
    "three": "third",
    "five": "fifth",
    "eight": "eighth",
    "nine": "ninth",
    "twelve": "twelfth",
}


def _below_thousand(value: int) -> str:
    words = [f"{_ONES[value // 100]} hundred"] if value >= 100 else []
    rest = value % 100
    if rest >= 20:
        words.append(_TENS[rest // 10 - 2] + (f"-{_ONES[rest % 10]}" if rest % 10 else ""))
    elif rest:
        words.append(_ONES[rest])
    return " ".join(words)


def cardinal(value: int) -> str | None:
    """`forty-two`; None for what has no name here (10^66 and beyond)."""
    if abs(value) >= 1000 ** len(_GROUPS):
        return None
    if value == 0:
        return "zero"
    parts = []
    rest, group = abs(value), 0
    while rest:
        rest, three = divmod(rest, 1000)
        if three:
            parts.append(f"{_below_thousand(three)} {_GROUPS[group]}".rstrip())
        group += 1
    return ("negative " if value < 0 else "") + " ".join(reversed(parts))


def ordinal(value: int) -> str | None:
    """`forty-second`."""
    text = cardinal(value)
    if text is None:
        return None
    cut = max(text.rfind(" "), text.rfind("-")) + 1
    head, last = text[:cut], text[cut:]
    if last in _ORDINALS:
        return head + _ORDINALS[last]
    return head + (last[:-1] + "ieth" if last.endswith("y") else last + "th")


_ROMAN: Final = (
    (1000, "M"), (900, "CM"), (500, "D"), (400, "CD"), (100, "C"), (90, "XC"), (50, "L"), (40, "XL"),
    (10, "X"), (9, "IX"), (5, "V"), (4, "IV"), (1, "I"),
)  # fmt: skip


def roman(value: int, old: bool) -> str | None:
    """`XIV`, or with `old` `XIIII`; None outside 1 to 3999 (4999)."""
    if not 1 <= value < (5000 if old else 4000):
        return None
    text = ""
    for size, letters in _ROMAN:
        if old and len(letters) == 2:
            continue
        count, value = divmod(value, size)
        text += letters * count
    return text
