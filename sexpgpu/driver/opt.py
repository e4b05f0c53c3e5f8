"""Running passes by name over MLIR text: what `sexpgpu-opt` does, as a function from text to text."""

from __future__ import annotations

import re
from typing import Any

from attrs import evolve, frozen

from sexpgpu.diag import Diagnostic, SxError, error, render
from sexpgpu.dialects.context import Context, open_context
from sexpgpu.driver.pipeline import parse_pipeline, pipeline_text, run_reproducibly, steps_of
from sexpgpu.driver.timing import Cost, table_lines
from sexpgpu.passes.base import Pass, Timing
from sexpgpu.passes.verify import faults

_SPLIT = re.compile(r"^// -----.*$", re.MULTILINE)
_EXPECTED = re.compile(r"//\s*expected-(error|warning)\s*(?:@([+-]\d+|above|below))?\s*\{\{(.*?)\}\}")


@frozen
class Options:
    """The tool's flags; `passes` in the order given, as `--sx-name=options`, after those of `pipelines`, by name."""

    passes: tuple[str, ...] = ()
    pipelines: tuple[str, ...] = ()
    upstream: str | None = None
    split: bool = False
    verify_diagnostics: bool = False
    print_after_all: bool = False
    locations: bool = False
    ptx: bool = False
    timing: bool = False
    show_pipeline: bool = False


@frozen
class Result:
    """Standard output, standard error, exit code."""

    output: str
    log: str
    code: int


def optimize(text: str, filename: str, options: Options) -> Result:
    """Run the passes over each part of `text`."""
    named = [step.spec for name in options.pipelines for step in steps_of(name)]
    pipeline = parse_pipeline(" ".join([*named, *options.passes]))
    parts = _split(text) if options.split else [(0, text)]
    outputs: list[str] = []
    log: list[str] = [f"// pipeline: {pipeline_text(pipeline)}"] if options.show_pipeline else []
    code = 0
    with open_context() as context:
        for skipped, part in parts:
            # Blank lines in front keep line numbers those of the whole file.
            source = "\n" * skipped + part
            found: list[Diagnostic] = []
            printed = _one(context, source, filename, pipeline, options, found, log)
            if options.verify_diagnostics:
                wrong = _unexpected(source, found)
                log += wrong
                code = 1 if wrong else code
                continue
            if printed is not None:
                outputs.append(printed)
            log += [render(_named(d, filename), {filename: text}) for d in found]
            code = 1 if found else code
    return Result("\n// -----\n".join(outputs), "\n".join(log), code)


def _named(diagnostic: Diagnostic, filename: str) -> Diagnostic:
    """MLIR calls text that came without a file `-`."""
    span = diagnostic.span
    return diagnostic if span is None or span.file != "-" else evolve(diagnostic, span=evolve(span, file=filename))


def _split(text: str) -> list[tuple[int, str]]:
    """The parts between `// -----` lines, each with the number of lines before it."""
    parts = []
    start = 0
    for match in [*_SPLIT.finditer(text), None]:
        end = match.start() if match else len(text)
        parts.append((text.count("\n", 0, start), text[start:end]))
        start = match.end() if match else end
    return parts


def _one(
    context: Context,
    text: str,
    filename: str,
    pipeline: list[Pass],
    options: Options,
    found: list[Diagnostic],
    log: list[str],
) -> str | None:
    def show(module: Any) -> str:
        return str(module.operation.get_asm(enable_debug_info=options.locations)).rstrip()

    def after(done: Pass, module: Any, timing: Timing) -> None:
        if options.print_after_all:
            log.append(f"// after {done}\n{show(module)}")

    try:
        module = context.parse_module(text, filename)
        wrong = faults(module)
        found += wrong
        if wrong:
            return None
        # Of a single pass the file itself is the reproducer.
        timings = run_reproducibly(module, context, pipeline, after, write=len(pipeline) > 1)
        if options.timing:
            costs = [Cost(t.spec, t.ms, t.ops_before, t.ops_after, t.did) for t in timings]
            log += table_lines(costs, "pass")
        if options.upstream is not None:
            module = context.run_pipeline(module, options.upstream)
        return _ptx(module) if options.ptx else show(module)
    except SxError as fault:
        found.append(fault.diagnostic)
        return None


def _ptx(module: Any) -> str:
    """The text of every module of kernels."""
    from sexpgpu.passes.gpu.modules import binaries, ptx_of

    texts = [ptx_of(binary).rstrip() for binary in binaries(module)]
    if not texts:
        raise error("E-IR-016", "the module holds no PTX", help="`--pipeline cuda`, or `--sx-to-ptx` behind its passes")
    return "\n".join(texts)


def _unexpected(text: str, found: list[Diagnostic]) -> list[str]:
    """What `expected-error` comments say that did not happen, and what happened that none says."""
    wanted: list[tuple[int, str, str]] = []
    for number, line in enumerate(text.splitlines(), 1):
        for severity, offset, message in _EXPECTED.findall(line):
            shift = {"": 0, "above": -1, "below": 1}.get(offset)
            wanted.append((number + (int(offset) if shift is None else shift), severity, message))
    problems = []
    for diagnostic in found:
        line_number = diagnostic.span.line if diagnostic.span else 0
        said = f"{diagnostic.code}: {diagnostic.message}" + (f": {diagnostic.actual}" if diagnostic.actual else "")
        match = next((w for w in wanted if w[0] == line_number and w[1] == diagnostic.severity and w[2] in said), None)
        if match is None:
            problems.append(f"line {line_number}: unexpected {diagnostic.severity}: {said}")
        else:
            wanted.remove(match)
    return problems + [f"line {n}: expected {severity} was not reported: {text}" for n, severity, text in wanted]
