"""Named pipelines over a module: which passes run and which are skipped, what looks on, what a failure leaves.

A stage is a module between two passes. Stage 0 is the module as it was traced; the number of any other is the
place of the pass before it in the whole pipeline, so that skipping a pass renumbers nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Protocol

from attrs import evolve, frozen

from sexpgpu import knobs
from sexpgpu.diag import Diagnostic, SxError, error, nearest, warning
from sexpgpu.dialects.context import Context
from sexpgpu.driver.reproduce import BROKEN, reproduce
from sexpgpu.passes import PASSES, PIPELINES
from sexpgpu.passes.base import Hook, Pass, Timing, parse_pass, run_pipeline
from sexpgpu.runtime.standing import LOOP

TRACED = "traced"
NEEDED = frozenset({"autodiff"})
"""Passes without which there is nothing to train; every other one may be skipped."""
LOWERING = frozenset({"to-gpu", "plan-memory", "to-nvvm", "to-ptx"})
"""Passes without which there is nothing that a GPU could run."""
ROOMY = frozenset({"parameter-results"})
"""Passes whose results take memory, and without which a run is compiled where it fits only so."""


class Observer(Protocol):
    """Called with each stage as it is reached; `timing` is None for the traced module."""

    def __call__(self, number: int, name: str, module: Any, timing: Timing | None, /) -> None: ...


@frozen
class Step:
    """A pass of a pipeline: its place, from 1, and its printed form."""

    number: int
    spec: str

    @property
    def name(self) -> str:
        return self.spec.removeprefix("sx-").partition("=")[0]

    @property
    def stage(self) -> str:
        return f"{self.number:02}-{self.name}"


@frozen
class Passes:
    """What is asked of the passes: those to skip, a dumped module to go on from, the last stage, who looks on.

    `told` hears of graphs that are compiled later and do not come from the dumped module.

    `part` names a folder inside SEXPGPU_DUMP, for modules beside the experiment's own; None writes nothing at all.
    """

    skip: frozenset[str] = frozenset()
    start: Path | None = None
    until: int | None = None
    observer: Observer | None = None
    part: str | None = ""
    told: Callable[[Diagnostic], None] | None = None

    def again(self, part: str) -> Passes:
        """For another module of the same experiment: the same passes, unobserved, from its beginning."""
        return evolve(self, start=None, until=None, observer=None, part=re.sub(r"\W+", "-", part))

    def tell_of(self, graph: str, rows: int) -> None:
        """W-IR-001 where a graph is traced for batches of another size although a dumped module was given."""
        if self.start is not None and self.told is not None:
            message = f"batches of {rows} run `{graph}` as FILE says it, not {self.start.name}"
            help = "nothing that was edited there reaches them; let batches divide the records"
            self.told(warning("W-IR-001", message, help=help))


EVERY = Passes()


TARGETS = {"cpu": "cpu", "sim": "cuda", "cuda": "cuda"}
"""The pipeline of each device: the simulator runs what a GPU does."""
TF32 = ",tf32"
SHARED_CUDA = "shared:cuda"


def whole(device: str | None = None, chip: str = "") -> str:
    """The pipelines a run goes through: the shared one and that of the device, SEXPGPU_DEVICE by default.

    A GPU's kernels are made for `chip`, as `sm_90`.
    """
    return f"shared+{kernels_for(chip)}" if chip else f"shared+{TARGETS[knobs.DEVICE.get(device)]}"


def shared_for(device: str | None) -> str:
    """The shared pipeline of an experiment that a device's follows later; the CPU's where none is named."""
    return SHARED_CUDA if TARGETS.get(device or "cpu") == "cuda" else "shared"


def whole_for(device: str | None, chip: str | None) -> str:
    """The pipelines of a run on a device, for a chip where that is a GPU: as given, else as the environment says."""
    found = knobs.DEVICE.get(device)
    return whole(found) if TARGETS[found] == "cpu" else whole(found, knobs.TARGET.get(chip) or "sm_80")


def kernels_for(chip: str) -> str:
    """The pipeline of a GPU for a chip; its products may round to tf32 where SEXPGPU_TF32 is set."""
    return f"cuda:{chip}" + (TF32 if knobs.TF32.get() else "")


def rounding() -> str:
    """What stands behind a GPU's name, in reports and records of runs, where its products round."""
    return ", products in tf32" if knobs.TF32.get() else ""


def steps_of(pipeline: str) -> list[Step]:
    """The passes of a pipeline, or of several joined by `+`, in order. E-IR-012 for a name that is none.

    A pipeline that makes kernels may say for which chip, and that products may round to tf32: `cuda:sm_90,tf32`. The
    shared one prepares for the kernels behind it, or for those that come later: `shared:cuda`.
    """
    specs: list[str] = []
    parts = pipeline.split("+")
    on_gpu = any(part.partition(":")[0] == "cuda" or part == SHARED_CUDA for part in parts)
    for part in parts:
        name, _, chip = part.removesuffix(TF32).partition(":")
        chosen = [f"chip={chip}"] if chip else []
        options = {
            "sx-prefixes": ["target=cuda"] * on_gpu,
            "sx-to-nvvm": chosen,
            "sx-to-gpu": chosen + ["tf32=true"] * part.endswith(TF32),
        }
        if name not in PIPELINES:
            near = nearest(name, PIPELINES)
            raise error(
                "E-IR-012",
                f"there is no pipeline `{name}`",
                expected="one of " + ", ".join(PIPELINES),
                help=f"`{near}`" if near else None,
            )
        specs += ["=".join([spec, ",".join(options[spec])]) if options.get(spec) else spec for spec in PIPELINES[name]]
    return [Step(number, spec) for number, spec in enumerate(specs, 1)]


def skipping(names: Iterable[str], device: str | None = None) -> frozenset[str]:
    """The passes of a run on a device to skip, by their names with or without `sx-`.

    E-IR-010 for a name that is no pass of it, E-IR-013 for one that nothing works without.
    """
    known = list(dict.fromkeys(step.name for step in steps_of(whole(device))))
    needed = NEEDED | (LOWERING if "to-gpu" in known else frozenset())
    asked = [name.removeprefix("sx-") for name in names]
    for name in asked:
        if name in needed:
            lacking = "no gradients" if name in NEEDED else "nothing to run"
            raise error(
                "E-IR-013",
                f"`{name}` cannot be skipped: there would be {lacking}",
                expected="one of " + ", ".join(n for n in known if n not in needed),
            )
        if name not in known:
            near = nearest(name, known)
            raise error(
                "E-IR-010",
                f"there is no pass `{name}` to skip",
                expected="one of " + ", ".join(n for n in known if n not in needed),
                help=f"`{near}`" if near else None,
            )
    return frozenset(asked)


def stage_number(text: str, pipeline: str) -> int:
    """The stage that `text` means: `traced`, a number, a pass that runs once, or both as in `05-autodiff`.

    E-IR-014 for what is none, or for a pass that runs several times.
    """
    steps = steps_of(pipeline)
    stages = ["00-" + TRACED, *(step.stage for step in steps)]
    names = [stage[3:] for stage in stages]
    if text.isdigit() and int(text) < len(stages):
        return int(text)
    if text in stages:
        return stages.index(text)
    name = text.removeprefix("sx-")
    if names.count(name) == 1:
        return names.index(name)
    if name in names:
        several = [stage for stage in stages if stage[3:] == name]
        raise error("E-IR-014", f"`{text}` runs {len(several)} times", expected="one of " + ", ".join(several))
    expected = "a number or one of " + ", ".join(stages)
    meant = [name, f"to-{name}"]
    near = next((each for each in meant if each in names), None)
    elsewhere = next(((device, each) for device in ("sim", "cpu") for each in meant if _has(whole(device), each)), None)
    if near is None and elsewhere is not None:
        device, stage = elsewhere
        help = f"`sexpgpu ir FILE --stage {stage} --device {device}`, or SEXPGPU_DEVICE={device}"
        raise error("E-IR-014", f"`{text}` is no stage of this device", expected=expected, help=help)
    near = near or nearest(text, [*stages, *names])
    raise error("E-IR-014", f"there is no stage `{text}`", expected=expected, help=f"`{near}`" if near else None)


def _has(pipeline: str, text: str) -> bool:
    """Whether a pipeline has a stage of a name, with its number or without."""
    return any(text in (step.name, step.stage) for step in steps_of(pipeline))


def parse_pipeline(text: str) -> list[Pass]:
    """Passes from their printed forms with blanks between: the inverse of `pipeline_text`."""
    return [parse_pass(spec, PASSES) for spec in text.split()]


def pipeline_text(pipeline: Iterable[Pass]) -> str:
    """A pipeline as `sexpgpu-opt` takes it: `--sx-simplify --sx-precision=policy=bf16`."""
    return " ".join(f"--{each}" for each in pipeline)


def run_named(module: Any, context: Context, pipeline: str, passes: Passes = EVERY, after: int = 0) -> list[Timing]:
    """Run a named pipeline from the stage `after` on, verified in between where SEXPGPU_VERIFY asks for it.

    Raises PassFailed, with a file that repeats it, where a pass fails otherwise than by reporting a fault of the
    experiment.
    """
    last = len(steps_of(pipeline)) if passes.until is None else passes.until
    steps = [s for s in steps_of(pipeline) if after < s.number <= last and s.name not in passes.skip]
    verify = parse_pass("sx-verify", PASSES) if knobs.VERIFY.get() else None
    observers = [passes.observer] if passes.observer is not None else []
    folder = knobs.DUMP.get()
    if folder is not None and passes.part is not None:
        from sexpgpu.driver.dump import Dump  # asked for by few

        observers.append(Dump(folder / passes.part, pipeline, "SEXPGPU_DUMP"))
    for observer in observers if after == 0 else []:
        observer(0, TRACED, module, None)
    numbers = iter(steps)

    def done(each: Pass, changed: Any, timing: Timing) -> None:
        step = next(numbers)
        LOOP.began(f"compiling, after {step.name}")
        for observer in observers:
            observer(step.number, step.name, changed, timing)

    parsed = [parse_pass(step.spec, PASSES) for step in steps]
    return run_reproducibly(module, context, parsed, done, verify, write=passes.part is not None)


def run_reproducibly(
    module: Any,
    context: Context,
    pipeline: list[Pass],
    hook: Hook | None = None,
    verify: Pass | None = None,
    *,
    write: bool = True,
) -> list[Timing]:
    """Run passes; a pass that fails internally leaves a reproducer, and PassFailed says where it is."""
    before = context.clone(module)
    ran: list[Pass] = []
    doing = "run"

    def after(each: Pass, changed: Any, timing: Timing) -> None:
        nonlocal doing
        if verify is not None:
            doing = "verify"
            verify.run(changed, context)
        doing = "look on"
        if hook is not None:
            hook(each, changed, timing)
        ran.append(each)
        doing = "run"

    try:
        return run_pipeline(module, context, pipeline, after)
    except MemoryError:
        raise
    except Exception as fault:
        failing = pipeline[len(ran)]
        reported = isinstance(fault, SxError) and (fault.diagnostic.code not in BROKEN or failing.name == "verify")
        if doing == "look on" or reported:
            raise
        run_pipeline(before, context, ran)
        failed = [failing, verify] if verify and doing == "verify" else [failing]
        raise reproduce(before, failed, fault, write=write) from fault
