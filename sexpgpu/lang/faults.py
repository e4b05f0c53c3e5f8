"""From Python's exceptions and frames back to the `.sx` file: what went wrong, where, and called from where."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Final

from attrs import evolve

from sexpgpu.diag import Diagnostic, Edit, Note, Span, SxError, error
from sexpgpu.lang.active import active
from sexpgpu.lang.builtin import Parameters, count_mended, show, written
from sexpgpu.lang.calls import MARK, PROMISED_DEPTH, Step, by_macro, call_notes, calls_of, frames_of, span_at
from sexpgpu.lang.conditions import CallFault, Condition, Poisoned, condition_of
from sexpgpu.lang.edits import moved_up
from sexpgpu.lang.forms import Source
from sexpgpu.lang.functions import info_of
from sexpgpu.lang.limits import out_of_steps
from sexpgpu.lang.module import Macro, Module
from sexpgpu.lang.place import Place, trail_notes
from sexpgpu.lang.runaway import ending

_LIBRARY: Final = "sexpgpu.lang.library"
_COUNT: Final = re.compile(r"(?P<name>[^\n]*)\(\) (?:takes .* but (?P<given>\d+) |missing (?P<missing>\d+) required )")


def current_span() -> Span | None:
    """The place of the innermost form being executed (the prelude's own forms do not count)."""
    return executing()[0]


def calling_span() -> Span | None:
    """The place of the innermost form of the user's own being executed: what called into a standard module."""
    return executing()[1]


def executing() -> tuple[Span | None, Span | None]:
    """`current_span` and `calling_span`, by one look at the frames. Every operation that is traced asks."""
    frame: FrameType | None = sys._getframe(1)
    innermost: Span | None = None
    vague: Span | None = None
    found = False
    while frame is not None:
        module = frame.f_globals.get(MARK)
        if (
            module is not None
            and not module.internal
            and not (found and module.standard)
            and frame.f_code.co_filename != "<deferred>"
        ):
            span = span_at(frame.f_code, frame.f_lasti)
            if not found:
                innermost, found = span, True
            if not module.standard:
                if not by_macro(frame.f_code, span):
                    return innermost, span
                vague = vague or span
        frame = frame.f_back
    return innermost, vague


def frames_at(traceback: TracebackType | None, span: Span) -> tuple[FrameType, FrameType | None] | None:
    """The innermost frame that was executing the form at `span`, and the frame of what the form called."""
    found: tuple[FrameType, FrameType | None] | None = None
    while traceback is not None:
        frame, code = traceback.tb_frame, traceback.tb_frame.f_code
        if code.co_filename == span.file and span_at(code, traceback.tb_lasti) == span:
            found = (frame, None)
        elif found is not None and found[1] is None and code.co_filename != "<deferred>":
            found = (found[0], frame)
        traceback = traceback.tb_next
    return found


def converted(fault: BaseException, parameters_of: Callable[[str], Parameters | None]) -> SxError | None:
    """The coded error that a Python exception amounts to; None when it is a fault of ours."""
    text = str(fault)
    if isinstance(fault, SxError):
        return fault
    if isinstance(fault, RecursionError):
        return _too_deep(fault)
    if isinstance(fault, ZeroDivisionError):
        return error("E-VALUE-001", "division by zero")
    if isinstance(fault, OverflowError):
        return error("E-VALUE-002", "the result is too large for a float")
    if isinstance(fault, MemoryError):
        return error("E-LIMIT-003", "the result does not fit into memory")
    if isinstance(fault, StopIteration):  # the budget gives its own error once, and then this
        return out_of_steps(active().limits.steps)
    if isinstance(fault, IndexError) and (unbound := _unbound(fault)) is not None:
        return unbound
    if isinstance(fault, TypeError) and (count := _COUNT.match(text)) is not None:
        return _wrong_count(count, parameters_of)
    if isinstance(fault, TypeError | AttributeError | ValueError | LookupError):
        return _refused(fault)
    return None


def _too_deep(fault: RecursionError) -> SxError:
    frames = frames_of(fault.__traceback__)
    if not any(MARK in frame.f_globals for frame, _ in reversed(frames[len(frames) // 2 :])):
        # Most of the calls are those of one builtin, which follows the parts of a value.
        return error("E-LIMIT-002", "the value is nested too deeply to be walked", help="is it circular?")
    calls = calls_of(frames)
    # A call may be more than one frame of Python's; the hundred thousand that are promised are certain.
    deep = min(calls.deep, PROMISED_DEPTH)
    if deep < 1000:
        return error("E-LIMIT-002", "a form or a value is nested too deeply", help="does it contain itself?")
    names = list(dict.fromkeys(step.name for step in calls.steps[-20:]))
    chain = " -> ".join([*names, names[0]]) if names else "itself"
    known = ending(fault.__traceback__)
    found = error(
        "E-LIMIT-002",
        f"calls are nested more than {deep // 1000 * 1000:,} deep: {chain}",
        help=known.help if known is not None else "the case that should end the recursion is not reached",
        fix=known.fix if known is not None else (),
    )
    return CallFault(found.diagnostic)


def _unbound(fault: IndexError) -> SxError | None:
    """A read of an empty cell: the instruction before it says which."""
    traceback = fault.__traceback__
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    if traceback is None or MARK not in traceback.tb_frame.f_globals:
        return None
    import dis  # only an error needs it, and it takes longer to import than all else here

    key = ""
    for instruction in dis.get_instructions(traceback.tb_frame.f_code):
        if instruction.offset >= traceback.tb_lasti:
            break
        if instruction.opname == "LOAD_GLOBAL":
            key = str(instruction.argval)
    module: Module = traceback.tb_frame.f_globals[MARK]
    name = key.partition(":")[2].rstrip("'")
    for symbol_, diagnostic in module.poisoned.items():
        if symbol_.name == name:
            return Poisoned(diagnostic)
    later = next((u for s, u in module.upcoming.items() if s.name == name), None)
    help = f"`{name}` is defined by the {later.head} at {later.span.line}:{later.span.col}, below" if later else None
    fix: tuple[Edit, ...] = ()
    used = span_at(traceback.tb_frame.f_code, traceback.tb_lasti)
    if later is not None and used is not None and used.file in active().sources:
        source = Source(used.file, active().sources[used.file])
        fix = moved_up(source, later.span, source.offset(used.line, used.col))
    return error("E-NAME-001", f"variable `{name}` has no value yet", help=help, fix=fix)


def _wrong_count(count: re.Match[str], parameters_of: Callable[[str], Parameters | None]) -> SxError | None:
    label = count["name"]
    info = info_of(label)
    name = info.name if info is not None else label.rpartition("<locals>.")[2].removeprefix("builtin ")
    parameters = info.parameters if info is not None else parameters_of(name)
    if parameters is None:
        return None
    got = int(count["given"]) if count["given"] else len(parameters.required) - int(count["missing"])
    notes = [Note(f"`{name}` is defined here", info.span)] if info is not None and info.span is not None else []
    mended = count_mended(name, parameters, got)
    return error("E-ARG-001", f"`{written(name)}` {parameters.takes()}, got {got}", notes=notes, **mended)


def _refused(fault: Exception) -> SxError | None:
    """A library function failed on its arguments in a way it did not foresee: say which, and on what."""
    traceback = fault.__traceback__
    entered = None
    while traceback is not None:
        name = traceback.tb_frame.f_globals.get("__name__", "")
        if MARK in traceback.tb_frame.f_globals:
            entered = None
        elif entered is None and str(name).startswith(_LIBRARY):
            entered = traceback.tb_frame
        traceback = traceback.tb_next
    if entered is None:
        return None
    code = entered.f_code
    count = code.co_argcount
    args = [show(entered.f_locals[name]) for name in code.co_varnames[:count] if name in entered.f_locals]
    name = code.co_qualname.removeprefix("builtin ") if code.co_qualname.startswith("builtin ") else code.co_name
    return error("E-TYPE-001", f"`{written(name).replace('_', '-').strip('-')}` cannot take {' '.join(args)}")


def located(fault: SxError, around: FrameType | None = None) -> SxError:
    """The error with its place, its expansion trail and the calls that led to it.

    They are in its own traceback and, where that ends at a guard, in the frames from `around` outwards.
    """
    if isinstance(fault, Poisoned):
        return fault
    diagnostic = fault.diagnostic
    calls = calls_of(frames_of(fault.__traceback__, around))
    steps = calls.steps
    if isinstance(fault, CallFault) and len(steps) > 1 and diagnostic.span is None:
        steps.pop()
    if steps and diagnostic.span is None:
        # What goes wrong inside a standard module is shown at the user's own form, with the place inside as a note.
        diagnostic, last = _placed(diagnostic, steps)
        if last.trail is not None and not diagnostic.trail:
            diagnostic = evolve(diagnostic, trail=last.trail.notes())
    if len(steps) > 1 and not any(note.text.startswith("in the call of ") for note in diagnostic.notes):
        diagnostic = diagnostic.noting(*call_notes(calls))
    fault.diagnostic = diagnostic
    return fault


def _placed(diagnostic: Diagnostic, steps: list[Step]) -> tuple[Diagnostic, Step]:
    """What goes wrong inside a standard module is shown at the user's own form, with the place inside as a note.

    Where no form of the user's led there, whoever reports the error knows the place to show.
    """
    innermost = steps[-1]
    if not innermost.module.standard:
        return evolve(diagnostic, span=innermost.span), innermost
    inside = Note(f"inside `{innermost.definition}` of {innermost.module.name}", innermost.span)
    own = [step for step in steps if not step.module.standard]
    written = [step for step in own if step.trail is None]
    shown = (written or own or steps)[-1]
    if inside not in diagnostic.notes:  # it is, where the error met another place on its way
        diagnostic = diagnostic.noting(inside)
    return evolve(diagnostic, span=shown.span if own else None), shown


def condition_from(fault: BaseException) -> Condition:
    """The condition a handler sees, not located yet: most handlers an error passes do not take it.

    A fault of ours flies on.
    """
    known_as = vars(fault).get("condition")
    if isinstance(known_as, Condition):
        return known_as
    condition = _condition(fault)
    vars(fault)["condition"] = condition  # a handler further out sees the same one
    return condition


def _condition(fault: BaseException) -> Condition:
    if isinstance(fault, RecursionError):  # its frames are counted only where it is reported
        return condition_of(error("E-LIMIT-002", "calls are nested too deeply"))
    known = converted(fault, active().parameters_of)
    if known is None:
        raise fault
    return condition_of(known)


def locate_condition(condition: Condition, fault: BaseException) -> None:
    """Give the condition of an error that a handler takes the place of the error."""
    if isinstance(fault, Poisoned) or condition.diagnostic is None:
        return
    carrier = SxError(condition.diagnostic)
    carrier.__traceback__ = fault.__traceback__
    condition.diagnostic = located(carrier).diagnostic


def of_expansion(fault: SxError, macro: Macro, place: Place) -> SxError:
    """An error raised by a macro's expander, shown at the call of the macro."""
    if isinstance(fault, Poisoned):
        return fault
    diagnostic = located(fault).diagnostic
    inside = diagnostic.span
    if inside is None or macro.quiet:
        diagnostic = evolve(diagnostic, span=place.span, expected=diagnostic.expected or macro.shape or None)
    elif diagnostic.code == "E-MACRO-002" or inside.file != place.source.file:
        what = "is defined here" if diagnostic.code == "E-MACRO-002" else "failed here"
        note = Note(f"the macro `{macro.name.name}` {what}", inside)
        diagnostic = evolve(diagnostic, span=place.span, notes=(note,))
    elif not any(note.text.startswith("while expanding") for note in diagnostic.notes):
        diagnostic = diagnostic.noting(Note(f"while expanding ({macro.name.name} ...)", place.span))
    fault.diagnostic = evolve(diagnostic, trail=diagnostic.trail or trail_notes(place))
    return fault
