"""From Python's exceptions and frames back to the `.sx` file: what went wrong, where, and called from where."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from itertools import pairwise
from types import CodeType, FrameType, TracebackType
from typing import Final

from attrs import evolve

from sexpgpu.diag import Diagnostic, Edit, Note, Span, SxError, error
from sexpgpu.lang.active import active
from sexpgpu.lang.builtin import Parameters, count_mended, show, written
from sexpgpu.lang.conditions import CallFault, Condition, Poisoned, condition_of
from sexpgpu.lang.edits import moved_up
from sexpgpu.lang.forms import Source, symbol
from sexpgpu.lang.functions import FunctionInfo, info_of
from sexpgpu.lang.limits import out_of_steps
from sexpgpu.lang.module import Macro, Module
from sexpgpu.lang.place import EVALUATED, Place, Trail, trail_notes
from sexpgpu.lang.runaway import ending

MARK: Final = "rt.module"
"""The name in a namespace that says its code came from a `.sx` file, and which module that is."""

_LIBRARY: Final = "sexpgpu.lang.library"
_COUNT: Final = re.compile(r"(?P<name>[^\n]*)\(\) (?:takes .* but (?P<given>\d+) |missing (?P<missing>\d+) required )")
_positions: Final[dict[CodeType, list[Span | None]]] = {}
PROMISED_DEPTH: Final = 100_000
"""Lisp calls that may always be nested, where no builtin is among them."""
MODEL: Final = "defmodel"
MOST_NOTES: Final = 5
LONGEST_CYCLE: Final = 4


def _span(code: CodeType, instruction: int) -> Span | None:
    """The place of an instruction; the first look at a code object reads all its positions."""
    table = _positions.get(code)
    if table is None:
        table = []
        for line, end_line, col, end_col in code.co_positions():
            known = line is not None and end_line is not None and col is not None and end_col is not None
            table.append(Span(code.co_filename, line, col + 1, end_line, end_col + 1) if known else None)  # type: ignore[operator,arg-type]
        _positions[code] = table
    return table[instruction >> 1]


def current_span() -> Span | None:
    """The place of the innermost form being executed (the prelude's own forms do not count)."""
    return _innermost(sys._getframe(1), standard=True)


def calling_span() -> Span | None:
    """The place of the innermost form of the user's own being executed: what called into a standard module."""
    return _innermost(sys._getframe(1), standard=False)


def _innermost(frame: FrameType | None, *, standard: bool) -> Span | None:
    vague: Span | None = None
    while frame is not None:
        module = frame.f_globals.get(MARK)
        counts = module is not None and not module.internal and (standard or not module.standard)
        if counts and frame.f_code.co_filename != "<deferred>":
            span = _span(frame.f_code, frame.f_lasti)
            if standard or not _by_macro(frame.f_code, span):
                return span
            vague = vague or span
        frame = frame.f_back
    return vague


def _by_macro(code: CodeType, span: Span | None) -> bool:
    """Whether it is a local function that a macro wrote: no form in it has a place of its own."""
    info = info_of(code.co_name)
    return info is not None and info.span == span and "<locals>" in code.co_qualname


class _Step:
    """One `.sx` frame of a traceback."""

    __slots__ = ("definition", "module", "name", "span")

    def __init__(self, name: str, definition: str, span: Span | None, module: Module) -> None:
        self.name = name
        self.definition = definition  # the global function it belongs to
        self.span = span
        self.module = module

    @property
    def trail(self) -> Trail | None:
        """The expansions that wrote the form, where a macro did."""
        if self.span is None:
            return None
        place = (self.span.line, self.span.col - 1, self.span.end_line, self.span.end_col - 1)
        return self.module.trails.get(place)


def frames_at(traceback: TracebackType | None, span: Span) -> tuple[FrameType, FrameType | None] | None:
    """The innermost frame that was executing the form at `span`, and the frame of what the form called."""
    found: tuple[FrameType, FrameType | None] | None = None
    while traceback is not None:
        frame, code = traceback.tb_frame, traceback.tb_frame.f_code
        if code.co_filename == span.file and _span(code, traceback.tb_lasti) == span:
            found = (frame, None)
        elif found is not None and found[1] is None and code.co_filename != "<deferred>":
            found = (found[0], frame)
        traceback = traceback.tb_next
    return found


def _steps(traceback: TracebackType | None, around: FrameType | None = None) -> list[_Step]:
    """The `.sx` frames of a traceback, outermost first, behind those of `around` and the frames that called it."""
    frames: list[tuple[FrameType, int]] = []
    while around is not None:
        frames.append((around, around.f_lasti))
        around = around.f_back
    frames.reverse()
    while traceback is not None:
        frames.append((traceback.tb_frame, traceback.tb_lasti))
        traceback = traceback.tb_next
    found: list[_Step] = []
    made: dict[tuple[int, int], _Step] = {}  # a deep recursion is at the same few places again and again
    for frame, instruction in frames:
        code = frame.f_code
        again = made.get((id(code), instruction))
        if again is not None:
            found.append(again)
            continue
        module = frame.f_globals.get(MARK)
        if module is not None and not module.internal and code.co_filename != "<deferred>":
            if found and code.co_filename == EVALUATED:  # a text of no file: what evaluates it is shown
                continue
            if found and code.co_name.startswith("turn."):  # a turn of a loop: part of the function around it
                found[-1] = _Step(found[-1].name, found[-1].definition, _span(code, instruction), found[-1].module)
                continue
            span = _span(code, instruction)
            info = info_of(code.co_name)
            if found and _by_macro(code, span):
                continue
            name = code.co_name.partition("#")[0]
            definition = code.co_qualname.partition("#")[0]
            if name == "lambda" and module.heads.get(symbol(definition)) == MODEL and not _spelt_lambda(info):
                name = definition  # the bodies of a model are lambdas that its macro wrote
                if found and found[-1].name == found[-1].definition == name:
                    found[-1] = _Step(name, definition, span, module)
                    continue
            made[id(code), instruction] = _Step(name, definition, span, module)
            found.append(made[id(code), instruction])
    return found


def _spelt_lambda(info: FunctionInfo | None) -> bool:
    """Whether the file itself has `(lambda ...)` where the function is."""
    span = info.span if info is not None else None
    text = active().sources.get(span.file) if span is not None else None
    return (
        span is not None
        and text is not None
        and text.startswith("(lambda", Source(span.file, text).offset(span.line, span.col))
    )


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
        return out_of_steps()
    if isinstance(fault, IndexError) and (unbound := _unbound(fault)) is not None:
        return unbound
    if isinstance(fault, TypeError) and (count := _COUNT.match(text)) is not None:
        return _wrong_count(count, parameters_of)
    if isinstance(fault, TypeError | AttributeError | ValueError | LookupError):
        return _refused(fault)
    return None


def _too_deep(fault: RecursionError) -> SxError:
    if _within_builtin(fault.__traceback__):
        return error("E-LIMIT-002", "the value is nested too deeply to be walked", help="is it circular?")
    calls = _steps(fault.__traceback__)
    # A call may be more than one frame of Python's; the hundred thousand that are promised are certain.
    deep = min(len(calls), PROMISED_DEPTH)
    if deep < 1000:
        return error("E-LIMIT-002", "a form or a value is nested too deeply", help="does it contain itself?")
    names = list(dict.fromkeys(step.name for step in calls[-20:]))
    chain = " -> ".join([*names, names[0]]) if names else "itself"
    known = ending(fault.__traceback__)
    found = error(
        "E-LIMIT-002",
        f"calls are nested more than {deep // 1000 * 1000:,} deep: {chain}",
        help=known.help if known is not None else "the case that should end the recursion is not reached",
        fix=known.fix if known is not None else (),
    )
    return CallFault(found.diagnostic)


def _within_builtin(traceback: TracebackType | None) -> bool:
    """Whether most of the calls are those of one builtin, which follows the parts of a value."""
    depth = last = 0
    while traceback is not None:
        depth += 1
        if MARK in traceback.tb_frame.f_globals:
            last = depth
        traceback = traceback.tb_next
    return last < depth // 2


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
    used = _span(traceback.tb_frame.f_code, traceback.tb_lasti)
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
    steps = _steps(fault.__traceback__, around)
    if isinstance(fault, CallFault) and len(steps) > 1 and diagnostic.span is None:
        steps.pop()
    if steps and diagnostic.span is None:
        # What goes wrong inside a standard module is shown at the user's own form, with the place inside as a note.
        diagnostic, last = _placed(diagnostic, steps)
        if last.trail is not None and not diagnostic.trail:
            diagnostic = evolve(diagnostic, trail=last.trail.notes())
    if len(steps) > 1 and not any(note.text.startswith("in the call of ") for note in diagnostic.notes):
        diagnostic = diagnostic.noting(*_call_notes(steps))
    fault.diagnostic = diagnostic
    return fault


def _placed(diagnostic: Diagnostic, steps: list[_Step]) -> tuple[Diagnostic, _Step]:
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


def _call_notes(steps: list[_Step]) -> list[Note]:
    """The calls, innermost first; repeated ones are counted."""
    calls = [(inner.name, outer.span) for outer, inner in pairwise(steps)]
    calls.reverse()
    notes: list[Note] = []
    at = 0
    while at < len(calls) and len(notes) < MOST_NOTES:
        cycle, times = _repeated(calls, at)
        notes += [Note(f"in the call of `{name}`", span) for name, span in calls[at : at + cycle]]
        if times > 1:
            names = ", ".join(f"`{name}`" for name in dict.fromkeys(name for name, _ in calls[at : at + cycle]))
            more = cycle * (times - 1)
            count = f"{more:,}" if more < PROMISED_DEPTH else f"more than {PROMISED_DEPTH:,}"
            notes.append(Note(f"... {count} more calls of {names}"))
        at += cycle * times
    if at < len(calls):
        notes.append(Note(f"... {len(calls) - at:,} more calls"))
    return notes


def _repeated(calls: list[tuple[str, Span | None]], at: int) -> tuple[int, int]:
    """The shortest cycle of calls that begins at `at` and how often it follows itself; (1, 1) when none does."""
    for cycle in range(1, LONGEST_CYCLE + 1):
        times = 1
        while calls[at : at + cycle] == calls[at + times * cycle : at + (times + 1) * cycle]:
            times += 1
        if times > 2 or (cycle == 1 and times > 1):
            return cycle, times
    return 1, 1


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
