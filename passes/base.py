"""What a pass is, how its options are written, and how a pipeline runs.

A pass is a frozen dataclass: its fields are its options, `name` is its name on the command line (`--sx-simplify`),
`run(module)` rewrites a verified module into a verified module. `parse` and `str` are inverse, so a printed
pipeline can be run again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Protocol, get_type_hints

from sexpgpu.diag import error, nearest
from sexpgpu.dialects.context import Context


@dataclass(frozen=True)
class Pass:
    """Base of all passes. Subclasses are frozen dataclasses in a file of their own."""

    name: ClassVar[str]

    def run(self, module: Any, context: Context) -> str | None:
        """Rewrite the MLIR `module`, which lives in `context`, in place; may say what that was: "24 attention"."""
        raise TypeError(f"{type(self).__name__} does not say what it does")

    def __str__(self) -> str:
        given = [(f.name, getattr(self, f.name)) for f in fields(self) if getattr(self, f.name) != f.default]
        options = [f"{name.replace('_', '-')}={value}" for name, value in given]
        return f"sx-{self.name}" + (f"={','.join(options)}" if options else "")


@dataclass(frozen=True)
class Timing:
    """One executed pass: milliseconds, operations before and after, and what it says it did."""

    spec: str
    ms: float
    ops_before: int
    ops_after: int
    did: str = ""


class Hook(Protocol):
    """Called after each pass of a pipeline: printing, verification and dumps hang on it."""

    def __call__(self, done: Pass, module: Any, timing: Timing, /) -> None: ...


def run_pipeline(module: Any, context: Context, pipeline: Sequence[Pass], hook: Hook | None = None) -> list[Timing]:
    """Run `pipeline` over `module` in order and say what each pass cost."""
    timings = []
    before = count_ops(module)
    for each in pipeline:
        context.found.clear()
        start = time.perf_counter()
        did = each.run(module, context) or ""
        ms = (time.perf_counter() - start) * 1e3
        after = count_ops(module)
        timings.append(Timing(str(each), ms, before, after, did))
        before = after
        if hook is not None:
            hook(each, module, timings[-1])
    return timings


def functions(module: Any) -> list[Any]:
    """The module's functions that have a body, in order, as a list that rewriting them does not disturb."""
    found = [op for op in module.body.operations if op.operation.name == "func.func"]
    return [op for op in found if len(op.regions[0].blocks)]


def graphs(module: Any) -> list[Any]:
    """The functions that a device runs; the others are bodies of loops in them."""
    return [f for f in functions(module) if "sym_visibility" not in f.attributes]


def count_ops(module: Any) -> int:
    """Operations inside the module's functions, terminators included."""
    return sum(len(block.operations) for f in functions(module) for block in f.regions[0].blocks)


def parse_pass(text: str, registry: dict[str, Callable[[], type[Pass]]]) -> Pass:
    """A pass from its printed form: `sx-simplify` or `sx-precision=policy=bf16,islands=true`.

    Raises E-IR-010 for an unknown pass or option and E-IR-011 for a value of the wrong type.
    """
    name, _, options = text.removeprefix("--").removeprefix("sx-").partition("=")
    if name not in registry:
        raise error(
            "E-IR-010",
            f"there is no pass `sx-{name}`",
            help=f"`sx-{near}`" if (near := nearest(name, registry)) else None,
            expected="one of " + ", ".join(f"sx-{n}" for n in registry),
        )
    cls = registry[name]()
    hints = get_type_hints(cls)
    known = {f.name: hints[f.name] for f in fields(cls)}
    values: dict[str, Any] = {}
    for option in filter(None, options.split(",")):
        key, _, value = option.partition("=")
        field_name = key.replace("-", "_")
        if field_name not in known:
            raise error(
                "E-IR-010",
                f"`sx-{name}` has no option `{key}`",
                expected="one of " + ", ".join(known) if known else "no options",
            )
        values[field_name] = _option(name, key, value, known[field_name])
    return cls(**values)


def _option(name: str, key: str, text: str, kind: type) -> Any:
    if kind is bool and text in ("true", "false", "True", "False"):
        return text.lower() == "true"
    if kind is int and text.lstrip("-").isdigit():
        return int(text)
    if kind is str and text:
        return text
    raise error(
        "E-IR-011",
        f"`sx-{name}`: `{text}` is no value for `{key}`",
        expected=f"a value of type {kind.__name__}",
    )
