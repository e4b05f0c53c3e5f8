"""`sexpgpu passes`: what each pass of the compiler did to a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sexpgpu import knobs
from sexpgpu.cli import report

if TYPE_CHECKING:
    from sexpgpu.driver.compile import Compilation
    from sexpgpu.driver.stages import Recorder, Row
    from sexpgpu.lang.selection import Selection


@click.command()
@report.file_argument
@report.selection_options
@report.skip_option
@report.device_option("The device whose passes these are; SEXPGPU_DEVICE otherwise.")
@report.target_option
@click.option("--graph", metavar="NAME", help="Count and compare one graph instead of the whole module.")
@click.option("--changed", is_flag=True, help="Only passes that changed something.")
@click.option("--dump", type=click.Path(path_type=Path), metavar="DIR", help="Write NN-PASS.mlir and index.json there.")
@click.option("--html", "page", type=click.Path(path_type=Path), metavar="FILE", help="Write a page that shows it all.")
@report.json_option
def command(
    file: Path,
    selected: Selection,
    skipped: tuple[str, ...],
    device: str | None,
    target: str | None,
    graph: str | None,
    changed: bool,
    dump: Path | None,
    page: Path | None,
    as_json: bool,
) -> int:
    """Run the passes over FILE and say of each what it cost and what it did.

    \b
    sexpgpu passes examples/gpt2.sx
    sexpgpu passes examples/moons.sx --graph train --changed
    sexpgpu passes examples/moons.sx --device cuda --target sm_90
    sexpgpu passes examples/shakespeare.sx --dump stages --html passes.html

    A dumped module goes back into `sexpgpu-opt` and into `sexpgpu run FILE --from`. The page of --html is one file
    that asks for nothing from outside: passes, stages side by side, search, a graph by model path.
    """
    from sexpgpu.driver.compile import compiling
    from sexpgpu.driver.pipeline import Passes, skipping, whole_for
    from sexpgpu.driver.stages import Recorder, table, write_stages
    from sexpgpu.lang.limits import run_deep

    report.require_gpu(target, knobs.DEVICE.get(device))

    def tell() -> int:
        pipeline, recorder = whole_for(device, target), Recorder()
        passes = Passes(skipping(skipped, device), observer=recorder)
        with compiling(file, selected, pipeline=pipeline, passes=passes) as done:
            told = report.diagnostics_json(done.diagnostics, done.session.sources)
            if not done.ok:
                if as_json:
                    report.print_json({"verb": "passes", "file": str(file), "ok": False, "diagnostics": told})
                else:
                    report.print_diagnostics(done.diagnostics, done.session.sources)
                return report.failure_code(done.diagnostics)
            if graph is not None:
                recorder.require_graph(graph)
            rows = table(recorder.stages, pipeline, passes, graph)
            if dump is not None:
                write_stages(recorder.stages, pipeline, dump, changed)
            if page is not None:
                _write_page(page, done, table(recorder.stages, pipeline, passes), recorder)
            shown = [row for row in rows if row.changed or not changed]
            if as_json:
                report.print_json(_document(file, graph, shown, told))
            else:
                report.print_diagnostics(done.diagnostics, done.session.sources)
                click.echo("\n".join(_lines(shown)))
            return 0

    return run_deep(tell)


def _write_page(path: Path, done: Compilation, rows: list[Row], recorder: Recorder) -> None:
    from sexpgpu.driver.compile import portable_sources
    from sexpgpu.driver.entry import write_whole
    from sexpgpu.driver.page import page

    chosen = [done.selection.variant or "", *done.selection.sets]
    title = " ".join(filter(None, [f"{done.path.name}: passes", *chosen]))
    write_whole(path, page(title, rows, recorder.stages, portable_sources(done.session, done.path)))


def _document(file: Path, graph: str | None, rows: list[Row], diagnostics: list[dict[str, Any]]) -> dict[str, Any]:
    stages = [
        {
            "number": row.number,
            "name": row.name,
            "spec": row.spec,
            "ms": None if row.ms is None else round(row.ms, 3),
            "ops_before": row.before,
            "ops_after": row.after,
            "did": row.did,
            "changed": row.changed,
            "skipped": row.skipped,
        }
        for row in rows
    ]
    return {
        "verb": "passes",
        "file": str(file),
        "ok": True,
        "graph": graph,
        "stages": stages,
        "diagnostics": diagnostics,
    }


def _lines(rows: list[Row]) -> list[str]:
    from sexpgpu.driver.timing import Cost, table_lines

    costs = [Cost(f"{r.number:02}-{r.name}", r.ms, r.before, r.after, r.did) for r in rows]
    return table_lines(costs, "stage")
