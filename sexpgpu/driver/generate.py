"""A generator of a finished or stopped run: its file compiled again, its checkpoint's tensors, its samples."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from attrs import frozen

from sexpgpu import knobs
from sexpgpu.diag import Diagnostic, SxError, error, nearest
from sexpgpu.dialects.context import open_context
from sexpgpu.driver.compile import compile_in
from sexpgpu.driver.devices import opened
from sexpgpu.driver.prepared import admitted_generator, engine_of, prepare_for
from sexpgpu.experiment import Experiment, Generator
from sexpgpu.lang.selection import Selection
from sexpgpu.runtime.arrays import NoMemory
from sexpgpu.runtime.calls import Calls, contexts_of, placed
from sexpgpu.runtime.checkpoint import CHECKPOINTS, INDEX
from sexpgpu.runtime.generate import Generation
from sexpgpu.runtime.loading import Loaders
from sexpgpu.runtime.plan import make_plan
from sexpgpu.runtime.restore import newest_good, read_index, require_checkpoint, restore
from sexpgpu.runtime.room import not_given
from sexpgpu.runtime.samples import Sample, file_of, require_free
from sexpgpu.runtime.views import Views
from sexpgpu.trace.declarations import Flags


@frozen
class Request:
    """What the command line asks for; `run` is a run's directory or a checkpoint.

    `out` is where files are to go; `force` says that those which are there may be written over. The `device` is that of
    SEXPGPU_DEVICE otherwise.
    """

    run: Path
    name: str | None = None
    prompt: str | None = None
    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    seed: int | None = None
    out: Path = Path()
    force: bool = False
    device: str | None = None


@frozen
class Answer:
    generator: str
    step: int
    checkpoint: Path
    samples: list[Sample]


def generate(request: Request, told: Callable[[int, int], None], report: Callable[[Diagnostic], None]) -> Answer:
    """Compile the run's own sources under its own selection and run the generator on its newest good checkpoint.

    `report` hears of warnings. E-MEM-001 before the checkpoint is read where a device lacks
    the memory for it.

    E-CKPT-008 where `run` is neither a run nor a checkpoint, E-RUN-035 for a generator that is not there, E-RUN-034 for
    a prompt to one that takes none. E-IO-107 and E-IO-001 before anything is sampled where the files of its samples
    could not be written.
    """
    checkpoint = _checkpoint(request.run)
    index = read_index(checkpoint)
    file, overlay = _sources(checkpoint.parent.parent, index)
    values = tuple(f"{knob['name']}={knob['value']}" for knob in index["manifest"]["knobs"])
    flags = Flags(request.prompt, request.temperature, request.top_k, request.top_p, request.seed)
    with opened(knobs.DEVICE.get(request.device), told=report) as device, open_context() as context:
        done = compile_in(context, file, Selection(sets=values), pipeline=None, flags=flags, overlay=overlay)
        kernels = prepare_for(done, device)
        if done.experiment is None or done.diagnostics.errors:
            raise SxError(done.diagnostics.errors[0])
        generator = _chosen(done.experiment, request.name)
        if request.prompt is not None:
            _require_prompted(done.experiment, generator)
        _require_free(done.experiment, generator, request)
        if too_large := admitted_generator(done, device, kernels, generator):
            raise SxError(too_large)
        restored = restore(checkpoint, done.experiment)
        loaders = Loaders(done.experiment.run.microbatches)
        stage = restored.position.stage
        loader = loaders.stages(done.experiment.train_loader)[stage] if generator.at == "step" else None
        calls, contexts = Calls(*engine_of(done, device, kernels)), contexts_of(done.experiment)
        batches = 1 if loader is None else loader.order.epoch_batches
        plan = make_plan(done.experiment.run, batches, None)
        views = Views(done.experiment, calls, plan, contexts)
        generation = Generation(done.experiment, calls, contexts, plan, views, loader, request.prompt, stage)
        step = restored.position.step
        try:
            tensors = placed(restored.tensors, done.experiment, calls.arrays)
            samples = generation.run(generator, step, tensors, lambda: False, lambda trip: told(trip, generator.trips))
        except NoMemory as refused:
            raise SxError(not_given(refused)) from None
        assert samples is not None  # nobody stops it
        return Answer(generator.name, step, checkpoint, samples)


def _require_prompted(experiment: Experiment, generator: Generator) -> None:
    """E-RUN-034 where a prompt has no meaning to the generator, or it looks at none."""
    if generator.text is None:
        why, help = "no loader field is a text", "(:trips n :text SOURCE) names the text that ids mean"
    else:
        why, help = "its clauses do not read it", "(getf ctx :prompt), the ids of the prompt, in (:init (ctx) ...)"
    graphs = (experiment.graphs[name] for name in (generator.init, generator.trip))
    if not any(given.role == "prompt" for graph in graphs for given in graph.inputs):
        raise error("E-RUN-034", f"generator `{generator.name}` takes no prompt: {why}", generator.span, help=help)


def _require_free(experiment: Experiment, generator: Generator, request: Request) -> None:
    shown = [output for output in experiment.graphs[generator.emit].outputs if output.role == "sample"]
    files = [file_of(output.name, output.form or "array", request.out) for output in shown]
    if paths := [path for path in files if path is not None]:
        require_free(paths, request.out, request.force)


def _checkpoint(run: Path) -> Path:
    if (run / INDEX).is_file():
        return run
    folder = run / CHECKPOINTS
    found = newest_good(folder, lambda warning: None) if folder.is_dir() else None
    if found is None:
        require_checkpoint(run, "a run's directory")
        raise error("E-CKPT-008", f"{run} has no good checkpoint")
    return found


def _sources(run: Path, index: dict[str, Any]) -> tuple[Path, dict[str, str]]:
    """The entry file as it was named, and the texts the run was compiled from, by path: the files may have changed."""
    entry = str(index["manifest"]["entry"])
    try:
        named = json.loads((run / "manifest.json").read_bytes())["file"]
        file = Path(named) if named else run / "source" / entry
    except (OSError, ValueError, KeyError, TypeError):
        file = run / "source" / entry
    overlay = {}
    for name, _ in index["manifest"]["sources"]:
        copy = run / "source" / name
        if not name.startswith("sexpgpu/") and copy.is_file():
            overlay[str(file.parent / name)] = copy.read_text("utf-8")
    return file, overlay


def _chosen(experiment: Experiment, name: str | None) -> Generator:
    names = [g.name for g in experiment.generators]
    if name is None and len(names) == 1:
        return experiment.generators[0]
    if name in names:
        return experiment.generators[names.index(name)]
    if not names:
        raise error("E-RUN-035", "this experiment has no generator", help="(defgenerator name (:trips n) ...)")
    near = nearest(name, names) if name is not None else None
    raise error(
        "E-RUN-035",
        "there are several generators: say which" if name is None else f"there is no generator `{name}`",
        expected="one of " + " ".join(names),
        help=f"`{near}`" if near else None,
    )
