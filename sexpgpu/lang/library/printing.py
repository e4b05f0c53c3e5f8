"""Chapters 21 and 22: printing to the session's output or into a string."""

from __future__ import annotations

from typing import Any

from sexpgpu.diag import error
from sexpgpu.lang.builtin import Library
from sexpgpu.lang.format import format_onto, format_text
from sexpgpu.lang.forms import MV, NIL, T
from sexpgpu.lang.library.characters import code_of
from sexpgpu.lang.library.check import bounds, spend, string
from sexpgpu.lang.printer import brief, in_base, print_form, print_text
from sexpgpu.lang.streams import TextOutput, destination

library = Library("printing")


@library.builtin("prin1", "(object &optional stream)")
def prin1(value: Any, stream: Any = NIL) -> Any:
    destination(stream, "prin1").write(print_form(value))
    return value


@library.builtin("princ", "(object &optional stream)")
def princ(value: Any, stream: Any = NIL) -> Any:
    destination(stream, "princ").write(print_text(value))
    return value


@library.builtin("print", "(object &optional stream)")
def lisp_print(value: Any, stream: Any = NIL) -> Any:
    """As prin1, between a line break and a space."""
    destination(stream, "print").write(f"\n{print_form(value)} ")
    return value


@library.builtin("pprint", "(object &optional stream)", many=True)
def pprint(value: Any, stream: Any = NIL) -> Any:
    destination(stream, "pprint").write(f"\n{print_form(value)}")
    return MV(())


def _written(name: str, value: Any, escape: Any, base: Any, radix: Any) -> str:
    if base is not NIL or radix is not NIL:
        if type(base if base is not NIL else 10) is not int or not 2 <= (base if base is not NIL else 10) <= 36:
            raise error("E-VALUE-006", f"{name}: :base {brief(base)} is no integer from 2 to 36")
        return in_base(value, 10 if base is NIL else base, radix is not NIL, escape is not NIL)
    return print_form(value) if escape is not NIL else print_text(value)


def _counted(text: str) -> str:
    spend(len(text) >> 3)
    return text


_WRITE = "&key stream escape base radix readably pretty case length level array gensym circle lines right-margin"


@library.builtin("write", f"(object {_WRITE})")
def write(value: Any, *, stream: Any = NIL, escape: Any = T, base: Any = NIL, radix: Any = NIL, **others: Any) -> Any:
    destination(stream, "write").write(_written("write", value, escape, base, radix))
    return value


@library.builtin("write-to-string", f"(object {_WRITE})")
def write_to_string(value: Any, *, escape: Any = T, base: Any = NIL, radix: Any = NIL, **others: Any) -> Any:
    return _counted(_written("write-to-string", value, escape, base, radix))


@library.builtin("prin1-to-string", "(object)")
def prin1_to_string(value: Any) -> Any:
    return _counted(print_form(value))


@library.builtin("princ-to-string", "(object)")
def princ_to_string(value: Any) -> Any:
    return _counted(print_text(value))


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


@library.builtin("format", "(destination control &rest arguments)")
def lisp_format(target: Any, control: Any, *args: Any) -> Any:
    """Text from a control string: a string when `target` is nil, else written to a stream (t: the output)."""
    if target is NIL:
        return format_text(control, args)
    format_onto(destination(target, "format"), control, args)
    return NIL
