"""Chapters 21 and 22: printing to the session's output or into a string."""

from __future__ import annotations

from typing import Any

from sexpgpu.diag import error
from sexpgpu.lang.builtin import Library
from sexpgpu.lang.format import format_onto, format_text, parse
from sexpgpu.lang.forms import MV, NIL, Cons, T, lisp_list, symbol
from sexpgpu.lang.library.characters import code_of
from sexpgpu.lang.library.check import bounds, spend, string
from sexpgpu.lang.printer import in_style, printed
from sexpgpu.lang.streams import TextOutput, destination
from sexpgpu.lang.style import current_style, escaping, settings, style_with

library = Library("printing")


@library.builtin("prin1", "(object &optional stream)")
def prin1(value: Any, stream: Any = NIL) -> Any:
    destination(stream, "prin1").write(printed(value, True))
    return value


@library.builtin("princ", "(object &optional stream)")
def princ(value: Any, stream: Any = NIL) -> Any:
    destination(stream, "princ").write(printed(value, False))
    return value


@library.builtin("print", "(object &optional stream)")
def lisp_print(value: Any, stream: Any = NIL) -> Any:
    """As prin1, between a line break and a space."""
    destination(stream, "print").write(f"\n{printed(value, True)} ")
    return value


@library.builtin("pprint", "(object &optional stream)", many=True)
def pprint(value: Any, stream: Any = NIL) -> Any:
    destination(stream, "pprint").write(f"\n{printed(value, True)}")
    return MV(())


def _written(name: str, value: Any, given: dict[str, Any]) -> str:
    """As `write` prints with some settings given, the others as the printer's variables say."""
    escape = given.pop("escape", None)
    escape_ = escaping() if escape is None else escape is not NIL
    if given.pop("readably", NIL) is not NIL:
        escape_, given = True, _READABLY | given
    known = {key: setting for key, setting in given.items() if key in settings()}
    style = style_with(settings() | known, f"{name}: :{{}}") if known else current_style()
    return in_style(value, escape_, style)


def _counted(text: str) -> str:
    spend(len(text) >> 3)
    return text


_READABLY = {"length": NIL, "level": NIL, "gensym": T, "array": T}
_WRITE = (
    "&key stream escape base radix readably pretty case length level array gensym circle lines right-margin"
    " miser-width pprint-dispatch"
)


@library.builtin("write", f"(object {_WRITE})")
def write(value: Any, *, stream: Any = NIL, **given: Any) -> Any:
    destination(stream, "write").write(_written("write", value, given))
    return value


@library.builtin("write-to-string", f"(object {_WRITE})")
def write_to_string(value: Any, **given: Any) -> Any:
    return _counted(_written("write-to-string", value, given))


@library.builtin("prin1-to-string", "(object)")
def prin1_to_string(value: Any) -> Any:
    return _counted(printed(value, True))


@library.builtin("princ-to-string", "(object)")
def princ_to_string(value: Any) -> Any:
    return _counted(printed(value, False))


@library.builtin("terpri", "(&optional stream)")
def terpri(stream: Any = NIL) -> Any:
    destination(stream, "terpri").write("\n")
    return NIL


@library.builtin("fresh-line", "(&optional stream)")
def fresh_line(stream: Any = NIL) -> Any:
    """A line break unless the output stands at the start of a line."""
    out = destination(stream, "fresh-line")
    if not out.column:
        return NIL
    out.write("\n")
    return T


@library.builtin("write-string", "(string &optional stream &key start end)")
def write_string(text: Any, stream: Any = NIL, *, start: Any = 0, end: Any = NIL) -> Any:
    first, last = bounds("write-string", len(string("write-string", 1, text)), start, end)
    destination(stream, "write-string").write(text[first:last])
    return text


@library.builtin("write-line", "(string &optional stream &key start end)")
def write_line(text: Any, stream: Any = NIL, *, start: Any = 0, end: Any = NIL) -> Any:
    first, last = bounds("write-line", len(string("write-line", 1, text)), start, end)
    destination(stream, "write-line").write(f"{text[first:last]}\n")
    return text


@library.builtin("write-char", "(character &optional stream)")
def write_char(a: Any, stream: Any = NIL) -> Any:
    destination(stream, "write-char").write(chr(code_of("write-char", 1, a)))
    return a


@library.builtin("make-string-output-stream", "(&key element-type)")
def make_string_output_stream(*, element_type: Any = NIL) -> Any:
    return TextOutput()


@library.builtin("get-output-stream-string", "(stream)")
def get_output_stream_string(stream: Any) -> Any:
    """What was written to a string stream since the last such call."""
    return destination(stream, "get-output-stream-string").take()


@library.builtin("finish-output", "(&optional stream)")
def finish_output(stream: Any = NIL) -> Any:
    return NIL


@library.macro("formatter", "(formatter control-string)")
def formatter(form: Cons) -> Any:
    """A function of a stream and arguments that writes as `format` does, and gives the arguments left over."""
    parts = list(form)[1:]
    if len(parts) != 1 or type(parts[0]) is not str:
        raise error("E-MACRO-001", "formatter: expected (formatter control-string), a literal string")
    parse(parts[0])
    return lisp_list([symbol("%formatter"), parts[0]])


@library.builtin("%formatter", "(control)")
def make_formatter(control: Any) -> Any:
    def formatter(stream: Any, *args: Any) -> Any:
        return lisp_list(list(format_onto(destination(stream, "formatter"), control, args)))

    return formatter


@library.builtin("format", "(destination control &rest arguments)")
def lisp_format(target: Any, control: Any, *args: Any) -> Any:
    """Text from a control string: a string when `target` is nil, else written to a stream (t: the output)."""
    if target is NIL:
        return format_text(control, args)
    format_onto(destination(target, "format"), control, args)
    return NIL
