"""What all verbs share: the selection flags, compiling a file, and printing diagnostics."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from sexpgpu import knobs
from sexpgpu.diag import Diagnostic, Diagnostics, render, to_json
from sexpgpu.diag.strict import json_text

if TYPE_CHECKING:
    from sexpgpu.lang.selection import Selection

F = TypeVar("F", bound=Callable[..., Any])

SCHEMA = 1
"""The version of every `--json` document."""


def selection_options(command: Callable[..., int]) -> Callable[..., int]:
    """`--variant`, `--set`, `--sweep`, `--point`; the command gets them as one argument, `selected`."""

    @functools.wraps(command)
    def with_selection(
        *given: Any, variant: str | None, sets: tuple[str, ...], sweep: str | None, point: int | None, **rest: Any
    ) -> int:
        return command(*given, selected=selection(variant, sets, sweep, point), **rest)

    for option in (
        click.option("--point", type=int, help="The point of --sweep, from 0."),
        click.option("--sweep", metavar="NAME", help="Select a point of a declared sweep."),
        click.option("--set", "sets", multiple=True, metavar="K=V", help="Give a knob a value; repeatable."),
        click.option("--variant", metavar="V", help="Select a declared variant."),
    ):
        with_selection = option(with_selection)
    return with_selection


def file_argument(command: F) -> F:
    return click.argument("file", type=click.Path(path_type=Path))(command)


def skip_option(command: F) -> F:
    text = "Leave out a pass; repeatable. Results stay the same."
    return click.option("--skip", "skipped", multiple=True, metavar="PASS", help=text)(command)


def device_option(text: str) -> Callable[[F], F]:
    return click.option("--device", type=click.Choice(["cpu", "sim", "cuda"]), help=text)


def target_option(command: F) -> F:
    """`--target`, of which `require_gpu` says what it goes with."""
    text = "The chip that kernels are for, with --device sim or cuda."
    return click.option("--target", type=click.Choice(["sm_80", "sm_90", "sm_90a", "sm_100"]), help=text)(command)


def require_gpu(target: str | None, device: str | None) -> None:
    """Wrong usage (exit 2) where a chip is given for a device that has no kernels."""
    if target is not None and device not in ("sim", "cuda"):
        raise click.UsageError("--target says which chip kernels are made for: it goes with --device cuda or sim")


def json_option(command: F) -> F:
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")(command)


def selection(variant: str | None, sets: tuple[str, ...], sweep: str | None, point: int | None) -> Selection:
    """The selection that the flags say; wrong usage (exit 2) where they contradict each other."""
    from sexpgpu.lang.selection import Selection

    if (sweep is None) != (point is None):
        raise click.UsageError("--sweep and --point go together")
    for item in sets:
        if "=" not in item or item.startswith("="):
            raise click.UsageError(f"--set takes knob=value, got {item!r}")
    return Selection(variant, sets, sweep, point)


def coloured() -> bool:
    """Whether standard error shows colour: a terminal, and NO_COLOR is not set."""
    return sys.stderr.isatty() and not knobs.NO_COLOR.get()


def print_diagnostic(diagnostic: Diagnostic, sources: Mapping[str, str]) -> None:
    click.echo(render(diagnostic, sources, colour=coloured()), err=True)


def print_diagnostics(diagnostics: Diagnostics, sources: Mapping[str, str]) -> None:
    """All diagnostics in order on standard error, and how many there were."""
    for diagnostic in diagnostics:
        print_diagnostic(diagnostic, sources)
    errors, warnings = len(diagnostics.errors), len(diagnostics.warnings)
    if errors:
        counts = [f"{errors} error{'s' * (errors > 1)}"]
        if warnings:
            counts.append(f"{warnings} warning{'s' * (warnings > 1)}")
        click.echo(", ".join(counts), err=True)


def print_json(document: Mapping[str, Any]) -> None:
    """One JSON document on standard output; numbers that are not finite are the strings that events have for them."""
    click.echo(json_text({"schema": SCHEMA, **document}, indent=2, escaped=True, default=str))


def diagnostics_json(diagnostics: Diagnostics, sources: Mapping[str, str]) -> list[dict[str, Any]]:
    return [to_json(d, sources) for d in diagnostics]


def failure_code(diagnostics: Diagnostics) -> int:
    """The exit code of a compilation with errors."""
    from sexpgpu.cli import exit_code

    return max((exit_code(d.code) for d in diagnostics.errors), default=1)
