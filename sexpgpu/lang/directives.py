"""The directives of `format`, one function each."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from attrs import evolve

from sexpgpu.lang import numerals
from sexpgpu.lang.active import active
from sexpgpu.lang.atoms import digits_in_base
from sexpgpu.lang.foreign import Foreign
from sexpgpu.lang.format import MOST_REPEATS, Directive, Run, UpAndOut, directive, format_onto, parse
from sexpgpu.lang.forms import NIL, Char
from sexpgpu.lang.library.equality import eql
from sexpgpu.lang.library.strings import capitalized
from sexpgpu.lang.printer import brief, in_style, printed
from sexpgpu.lang.streams import TextOutput
from sexpgpu.lang.style import current_style


def _parameter(values: list[Any], index: int, default: Any = None) -> Any:
    return default if index >= len(values) or values[index] is None else values[index]


def _padded(run: Run, text: str, at: bool, values: list[Any]) -> str:
    """mincol, colinc, minpad, padchar: `text` filled up, on the left with `at`."""
    column = run.integer(_parameter(values, 0), 0)
    step = max(run.integer(_parameter(values, 1), 1), 1)
    filling = run.integer(_parameter(values, 2), 0)
    missing = column - len(text) - filling
    if missing > 0:
        filling += -(-missing // step) * step
    pad = run.character(_parameter(values, 3), " ") * filling
    return pad + text if at else text + pad


@directive("a")
def aesthetic(run: Run, here: Directive, values: list[Any]) -> None:
    value = run.take()
    text = "()" if here.colon and value is NIL else printed(value, False)
    run.out.write(_padded(run, text, here.at, values))


@directive("s")
def standard(run: Run, here: Directive, values: list[Any]) -> None:
    value = run.take()
    text = "()" if here.colon and value is NIL else printed(value, True)
    run.out.write(_padded(run, text, here.at, values))


def _integer(run: Run, here: Directive, value: Any, base: int, values: list[Any]) -> None:
    """mincol, padchar, commachar, comma-interval; what is no integer prints as with ~a."""
    if type(value) is int:
        text = digits_in_base(abs(value), base)
        if here.colon:
            comma, every = run.character(_parameter(values, 2), ","), max(run.integer(_parameter(values, 3), 3), 1)
            head = len(text) % every
            groups = [text[at : at + every] for at in range(head, len(text), every)]
            text = comma.join([text[:head], *groups] if head else groups)
        text = ("-" if value < 0 else "+" if here.at else "") + text
    else:
        text = in_style(value, False, evolve(current_style(), base=base, radix=False))
    run.out.write(text.rjust(run.integer(_parameter(values, 0), 0), run.character(_parameter(values, 1), " ")))


@directive("d")
def decimal(run: Run, here: Directive, values: list[Any]) -> None:
    _integer(run, here, run.take(), 10, values)


@directive("b")
def binary(run: Run, here: Directive, values: list[Any]) -> None:
    _integer(run, here, run.take(), 2, values)


@directive("o")
def octal(run: Run, here: Directive, values: list[Any]) -> None:
    _integer(run, here, run.take(), 8, values)


@directive("x")
def hexadecimal(run: Run, here: Directive, values: list[Any]) -> None:
    _integer(run, here, run.take(), 16, values)


@directive("r")
def radix(run: Run, here: Directive, values: list[Any]) -> None:
    value = run.take()
    base = _parameter(values, 0)
    if base is not None:
        if type(base) is not int or not 2 <= base <= 36:
            raise run.fault(f"~r needs a base from 2 to 36, got {brief(base)}")
        _integer(run, here, value, base, values[1:])
        return
    if type(value) is not int:
        run.out.write(printed(value, False))
        return
    if here.at:
        text = numerals.roman(value, here.colon)
    else:
        text = numerals.ordinal(value) if here.colon else numerals.cardinal(value)
    run.out.write(str(value) if text is None else text)


@directive("c")
def character(run: Run, here: Directive, values: list[Any]) -> None:
    value = run.take()
    if not isinstance(value, Char):
        raise run.fault(f"~c needs a character, got {brief(value)}")
    if here.at:
        run.out.write(printed(value, True))
    elif here.colon:
        run.out.write("Space" if value.code == 32 else printed(value, True)[2:])
    else:
        run.out.write(chr(value.code))


def _float_argument(run: Run, values: list[Any]) -> float | None:
    """The next argument as a float; None when it is no real number and was written as with ~a."""
    value = run.take()
    if type(value) in (int, float, Fraction):
        try:
            number = float(value)
        except OverflowError:
            raise run.fault(f"{brief(value)} is too large for a float") from None
        if number - number == 0.0:
            return number
    run.out.write(printed(value, False).rjust(run.integer(_parameter(values, 0), 0)))
    return None


def _layout(run: Run, here: Directive, values: list[Any], overflow: int) -> numerals.Layout:
    width, fraction = _parameter(values, 0), _parameter(values, 1)
    scale, overflowing = _parameter(values, overflow - 1), _parameter(values, overflow)
    return numerals.Layout(
        None if width is None else run.integer(width, 0),
        None if fraction is None else run.integer(fraction, 0),
        None if scale is None else run.integer(scale, 0),
        None if overflowing is None else run.character(overflowing, " "),
        run.character(_parameter(values, overflow + 1), " "),
        here.at,
    )


def _exponent_digits(run: Run, values: list[Any]) -> int | None:
    digits = _parameter(values, 2)
    return None if digits is None else run.integer(digits, 0)


def _overrun(layout: numerals.Layout) -> str:
    return str(layout.overflow) * (layout.width or 0)


@directive("f")
def fixed(run: Run, here: Directive, values: list[Any]) -> None:
    number = _float_argument(run, values)
    if number is not None:
        layout = _layout(run, here, values, 3)
        run.out.write(numerals.fixed(number, layout) or _overrun(layout))


@directive("e")
def scientific(run: Run, here: Directive, values: list[Any]) -> None:
    number = _float_argument(run, values)
    if number is not None:
        layout, digits = _layout(run, here, values, 4), _exponent_digits(run, values)
        marker = run.character(_parameter(values, 6), "e")
        run.out.write(numerals.scientific(number, layout, digits, marker) or _overrun(layout))


@directive("g")
def general(run: Run, here: Directive, values: list[Any]) -> None:
    number = _float_argument(run, values)
    if number is not None:
        layout, digits = _layout(run, here, values, 4), _exponent_digits(run, values)
        marker = run.character(_parameter(values, 6), "e")
        run.out.write(numerals.general(number, layout, digits, marker) or _overrun(layout))


@directive("$")
def money(run: Run, here: Directive, values: list[Any]) -> None:
    number = _float_argument(run, values[2:])
    if number is not None:
        fraction, least, width = (
            run.integer(_parameter(values, index), default) for index, default in enumerate((2, 1, 0))
        )
        pad = run.character(_parameter(values, 3), " ")
        run.out.write(numerals.money(number, fraction, least, width, pad, here.at, here.colon))


@directive("%")
def newline(run: Run, here: Directive, values: list[Any]) -> None:
    run.out.write("\n" * run.integer(_parameter(values, 0), 1))


@directive("&")
def fresh_line(run: Run, here: Directive, values: list[Any]) -> None:
    count = run.integer(_parameter(values, 0), 1)
    if count > 0:
        run.out.write("\n" * (count - (run.out.column == 0)))


@directive("|")
def page(run: Run, here: Directive, values: list[Any]) -> None:
    run.out.write("\f" * run.integer(_parameter(values, 0), 1))


@directive("~")
def tilde(run: Run, here: Directive, values: list[Any]) -> None:
    run.out.write("~" * run.integer(_parameter(values, 0), 1))


@directive("t")
def tabulate(run: Run, here: Directive, values: list[Any]) -> None:
    column, step = run.integer(_parameter(values, 0), 1), run.integer(_parameter(values, 1), 1)
    now = run.out.column
    if here.at:
        target = now + column
        blanks = column + (-target % step if step > 0 else 0)
    elif now < column:
        blanks = column - now
    else:
        blanks = step - (now - column) % step if step > 0 else 0
    run.out.write(" " * blanks)


@directive("*")
def skip(run: Run, here: Directive, values: list[Any]) -> None:
    count = run.integer(_parameter(values, 0), 0 if here.at else 1)
    target = count if here.at else run.next - count if here.colon else run.next + count
    if not 0 <= target <= len(run.args):
        raise run.fault(f"~* goes to argument {target} of {len(run.args)}")
    run.next = target


@directive("p")
def plural(run: Run, here: Directive, values: list[Any]) -> None:
    if here.colon:
        if run.next == 0:
            raise run.fault("~:p has no argument before it")
        run.next -= 1
    one = eql(run.take(), 1)
    run.out.write(("y" if one else "ies") if here.at else "" if one else "s")


@directive("?")
def indirect(run: Run, here: Directive, values: list[Any]) -> None:
    control = run.take()
    if type(control) is not str:
        _call_formatter(run, here, control)
        return
    if not here.at:
        Run.inner(Run(run.out, control, ()), parse(control), run.list_argument(run.take()))
        return
    rest = Run(run.out, control, run.args)
    rest.next = run.next
    try:
        rest.write(parse(control))
    except UpAndOut:
        return
    finally:
        run.next = rest.next


def _call_formatter(run: Run, here: Directive, control: Any) -> None:
    """`~?` of a function that `formatter` made."""
    if not callable(control) or isinstance(control, Foreign):
        raise run.fault(f"~? needs a control string, got {brief(control)}")
    if not here.at:
        format_onto(run.out, control, run.list_argument(run.take()))
        return
    left = format_onto(run.out, control, run.args[run.next :])
    run.next = len(run.args) - len(left)


@directive("(")
def change_case(run: Run, here: Directive, values: list[Any]) -> None:
    out = run.out
    inner = TextOutput()
    inner.column = out.column
    run.out = inner
    try:
        run.write(here.clauses[0])
    finally:
        run.out = out
        text = inner.text()
        if here.colon and here.at:
            text = text.upper()
        elif here.colon:
            text = capitalized(text)
        elif here.at:
            words = text.lower()
            first = next((at for at, letter in enumerate(words) if letter.isalnum()), len(words))
            text = words[:first] + words[first : first + 1].upper() + words[first + 1 :]
        else:
            text = text.lower()
        out.write(text)


@directive("[")
def choose(run: Run, here: Directive, values: list[Any]) -> None:
    clauses = here.clauses
    if here.colon:
        if len(clauses) != 2:
            raise run.fault("~:[ needs two clauses, for nil and for the rest")
        run.write(clauses[0 if run.take() is NIL else 1])
    elif here.at:
        if run.take() is not NIL:
            run.next -= 1
            run.write(clauses[0])
    else:
        index = _parameter(values, 0)
        index = run.take() if index is None else index
        if type(index) is not int:
            raise run.fault(f"~[ needs an integer to choose by, got {brief(index)}")
        if 0 <= index < len(clauses):
            run.write(clauses[index])
        elif here.default_clause:
            run.write(clauses[-1])


@directive("{")
def iterate(run: Run, here: Directive, values: list[Any]) -> None:
    most = run.integer(_parameter(values, 0), MOST_REPEATS)
    body = here.clauses[0]
    control = run.control
    made = None
    if not body:
        text = run.take()
        if type(text) is str:
            control, body = text, parse(text)
        elif callable(text) and not isinstance(text, Foreign):
            made = text
        else:
            raise run.fault(f"an empty ~{{~}} needs a control string, got {brief(text)}")
    if here.at:
        items, start = run.args, run.next
        run.next = len(run.args)
    else:
        items, start = run.list_argument(run.take()), 0
    once = here.closer_colon
    inner = Run(run.out, control, items)
    inner.next = start
    for _ in range(most):
        active().spend(16)
        if inner.next >= len(items) and not once:
            break
        once = False
        before = inner.next
        try:
            if here.colon:
                sublist = run.list_argument(inner.take() if inner.next < len(items) else NIL)
                if made is not None:
                    format_onto(run.out, made, sublist)
                else:
                    inner.inner(body, sublist, len(items) - inner.next)
            elif made is not None:
                inner.next = len(items) - len(format_onto(run.out, made, items[inner.next :]))
            else:
                inner.write(body)
        except UpAndOut:
            break
        if inner.next == before < len(items) and most == MOST_REPEATS:
            raise run.fault("this ~{ takes no argument, so it would never end")
    if here.at:
        run.next = inner.next


@directive("^")
def up_and_out(run: Run, here: Directive, values: list[Any]) -> None:
    found = [value for value in values if value is not None]
    if not found:
        leave = (run.sublists_left if here.colon else run.left()) == 0
    elif len(found) == 1:
        leave = found[0] == 0
    elif len(found) == 2:
        leave = found[0] == found[1]
    else:
        leave = found[0] <= found[1] <= found[2]
    if leave:
        raise UpAndOut(here.colon)
