"""How many microbatches a call runs: degrees, what fits, what is chosen, measured, remembered and told."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attrs import evolve

from sexpgpu.dialects.context import open_context
from sexpgpu.driver import stacking
from sexpgpu.driver.compile import compile_in
from sexpgpu.driver.degrees import degrees_of
from sexpgpu.driver.device_memory import device_needs
from sexpgpu.driver.devices import opened
from sexpgpu.driver.prepared import prepare_for, stacking_of
from sexpgpu.driver.stacking import Choosing, Chosen, choose, predict
from sexpgpu.experiment import RunConfig
from sexpgpu.gpu.choices import Choices
from sexpgpu.lang.limits import run_deep
from sexpgpu.lang.selection import Selection
from sexpgpu.plan.records import DevicePlans, Stacked
from sexpgpu.runtime.meeting import Place
from sexpgpu.runtime.peers import Peers
from sexpgpu.runtime.run import RunOptions, run
from sexpgpu.runtime.stacking import Stacking, milliseconds
from tests.gpu.stacked import by, prepared, trained
from tests.gpu.test_engine import sexpgpu, steps
from tests.gpu.test_generators import FILE as GENERATORS
from tests.trace.experiments import compiled, write, write_data

FOUR = "(defrun :steps 2 :microbatches 4 :seed 1)"


@pytest.mark.parametrize(
    ("share", "wanted"),
    [(1, (1,)), (2, (1, 2)), (3, (1, 3)), (4, (1, 2, 4)), (5, (1,)), (6, (1, 2)), (9, (1, 3)), (12, (1, 2, 4))],
)
def test_degrees_divide_a_share(share: int, wanted: tuple[int, ...]) -> None:
    assert degrees_of(RunConfig(1, None), share) == wanted
    assert degrees_of(RunConfig(1, None, deterministic=True), share) == (1,)


def chosen(
    tmp_path: Path,
    seconds: Mapping[int, float],
    *,
    run: str = FOUR,
    ranks: int = 1,
    fitting: Collection[int] = (1, 2, 4),
    timed: bool = True,
    measured: Mapping[int, float] | None = None,
) -> Chosen:
    """The choice where a call by each degree takes so many seconds a microbatch."""
    plans = DevicePlans({}, (), "sm_80", stacked=tuple([Stacked(d, f"g{d}", d * s) for d, s in seconds.items()]))
    asked: list[Collection[int]] = []

    def found(degrees: Collection[int]) -> Mapping[int, float] | None:
        asked.append(tuple(degrees))
        return measured

    with compiled(write(tmp_path, run=run)) as done:
        assert done.experiment is not None
        made = choose(done.experiment, plans, Choosing(ranks, lambda degree: degree in fitting, timed, found))
    assert measured is None or asked == [tuple(measured)], "just the degrees that are near"
    return made


CLOSE = {1: 1.0, 2: 0.99, 4: 0.97}
APART = {1: 1.0, 2: 0.97, 4: 0.7}


def test_the_only_one(tmp_path: Path) -> None:
    one = "(defrun :steps 2 :seed 1)"
    assert chosen(tmp_path, {}, run=one) == Chosen((1,), "1: a step has one microbatch")
    assert chosen(tmp_path, CLOSE, ranks=4) == Chosen((1,), "1: a step has one microbatch on each device")
    tree = "(defrun :steps 2 :microbatches 4 :deterministic t :seed 1)"
    assert chosen(tmp_path, {}, run=tree) == Chosen((1,), "1: the run is deterministic")
    five = "(defrun :steps 2 :microbatches 5 :seed 1)"
    assert chosen(tmp_path, {}, run=five) == Chosen((1,), "1: 5 microbatches have no divisor that is tried")
    assert chosen(tmp_path, {}) == Chosen((1,), "1: the pass stack was skipped")
    assert chosen(tmp_path, CLOSE, fitting=[2]) == Chosen((2,), "2: the only one of 1, 2 and 4 that fits")
    assert chosen(tmp_path, CLOSE, fitting=[]) == Chosen((1,), "1: the only one of 1, 2 and 4 that fits")


def test_the_model(tmp_path: Path) -> None:
    found = chosen(tmp_path, APART)
    assert (found.degrees, found.why) == ((4,), "4: predicted (4 2800.0 ms, 2 3880.0 ms, 1 4000.1 ms)")
    assert chosen(tmp_path, APART, fitting=[1, 2], timed=False).degrees == (2,)
    assert chosen(tmp_path, CLOSE, timed=False).degrees == (4,), "without a clock the model decides"
    assert chosen(tmp_path, {1: 1.0, 2: 1.3, 4: 1.2}).degrees == (1,)
    assert chosen(tmp_path, {1: 1.0, 2: 0.8, 4: 0.7}, ranks=2).degrees == (2,), "of two microbatches"


def test_a_measurement(tmp_path: Path) -> None:
    assert chosen(tmp_path, CLOSE).degrees == (1, 2, 4)
    assert chosen(tmp_path, CLOSE).why == "measured at the first step"
    assert chosen(tmp_path, CLOSE).likely == 4
    assert chosen(tmp_path, {1: 1.0, 2: 1.02, 4: 1.2}).degrees == (1, 2), "what is far off is not measured"
    found = chosen(tmp_path, CLOSE, measured={1: 3.0, 2: 2.0, 4: 2.5})
    assert (found.degrees, found.why) == (
        (2,),
        "2: measured by an earlier run (4 2500.0 ms, 2 2000.0 ms, 1 3000.0 ms)",
    )


def test_the_first_step_measures() -> None:
    """The median of what the clock says, degree by degree, after the calls were loaded."""
    ran: list[int] = []
    times = ((0.4, 9.0, 0.5), (0.2, 0.3, 0.25), (0.6, 0.6, 0.6))
    answers = iter([seconds for timed in times for seconds in (7.0, 0.01, *timed)])
    kept: dict[int, float] = {}

    def clock(work: Any) -> float:
        work()
        return next(answers)

    made = Stacking({}, 4, "measured at the first step", {1: 0.1336, 2: 0.1315, 4: 0.1305}, clock, kept.update)
    before = made.open
    assert made.news() is None
    made.measure(ran.append)
    assert ran == [4] * 5 + [2] * 5 + [1] * 5
    assert kept == {4: 0.5, 2: 0.25, 1: 0.6}
    assert (before, made.open) == (True, False)
    assert made.degree == 2
    assert made.news() == (
        "stacking 2: measured at the first step, the model within 5% could not separate them"
        " (4 500.0 ms, model 130.5 ms; 2 250.0 ms, model 131.5 ms; 1 600.0 ms, model 133.6 ms)"
    )
    assert made.news() is None, "said once"
    assert made.row() == "  stacking                  measured at the first step"
    assert milliseconds(12e-6) == "0.012 ms"


def test_a_resumed_run_stays_with_its_degree(tmp_path: Path) -> None:
    """In the stead of measuring, where it may be chosen at all."""

    def fresh() -> Stacking:
        return Stacking({}, 4, "measured at the first step", {1: 0.1, 2: 0.1}, lambda work: 0.1)

    going_on, other, closed = fresh(), fresh(), Stacking({}, 4, "4: predicted")
    for each, degree in ((going_on, 2), (other, 4), (fresh(), None), (closed, 2)):
        each.go_on(degree)
    assert (going_on.known, going_on.why, going_on.facts()["degree"]) == (2, "2: as the run began", 2)
    assert other.known is None
    assert (closed.known, closed.why) == (4, "4: predicted")
    file = write(tmp_path, run="(defrun :steps 4 :microbatches 4 :checkpoint '(:every 1) :seed 1)")
    write_data(tmp_path, 34)
    trained(file, tmp_path / "whole", (2,))
    trained(file, tmp_path / "cut", (2,), steps=1)
    resumed = trained(file, tmp_path / "cut", (1, 2, 4), resume="latest")
    assert set(resumed) == {2}, "nothing is measured"
    assert steps(tmp_path / "cut") == steps(tmp_path / "whole")
    assert stacking_events(tmp_path / "cut")[-1]["why"] == "2: as the run began"


def stacking_events(out: Path) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (out / "events.jsonl").read_text("utf-8").splitlines()]
    return [line["data"] for line in lines if line.get("name") == "stacking"]


def test_a_measured_run_is_a_run_by_what_it_chose(tmp_path: Path) -> None:
    """What was measured leaves no trace in the tensors; both what was going to be and what was found is told."""
    file = write(tmp_path, run=FOUR)
    write_data(tmp_path, 34)
    made = trained(file, tmp_path / "measured", (1, 2))
    before, after = stacking_events(tmp_path / "measured")
    assert before["degree"] is None
    assert made == [2] * (5 * 2 + (2 * 2 if after["degree"] == 2 else 0)), "what is measured, then both steps"
    assert after["measured"].keys() == after["predicted"].keys() == {"1", "2"}
    assert all(seconds > 0 for seconds in after["measured"].values())
    assert min(after["measured"], key=after["measured"].get) == str(after["degree"])
    trained(file, tmp_path / "plain", (after["degree"],))
    assert steps(tmp_path / "measured") == steps(tmp_path / "plain")


def test_a_measurement_is_remembered(tmp_path: Path) -> None:
    file, choices = write(tmp_path, run=FOUR), Choices(tmp_path / "choices.json")
    write_data(tmp_path, 34)

    def work() -> None:
        with by(1, 2), prepared(file) as (done, device, team):
            team.stacking = stacking_of(done, evolve(device, choices=choices))
            run(team.calls[0].engine, RunOptions(out=tmp_path / "out", quiet=True), team=team)
            assert done.chosen is not None
            kept = choices.find(done.chosen.key, ("1", "2"))
            assert kept == {str(degree): seconds for degree, seconds in team.stacking.measured.items()}

    run_deep(work)


def stacking_row(stderr: str) -> str:
    return next(line for line in stderr.splitlines() if line.startswith("  stacking "))[28:]


def totals(file: Path) -> dict[int, int]:
    """What a run is planned to hold by each degree."""

    def work() -> dict[int, int]:
        with opened("sim") as device, open_context() as context:
            done = compile_in(context, file, Selection(), pipeline=None)
            kernels = prepare_for(done, device)
            assert done.experiment is not None
            assert kernels is not None
            return {d: device_needs(done.experiment, kernels, degrees=(d,)).total for d in (1, 2, 4)}

    return run_deep(work)


WIDE = "(defmodel net () (defsub in (linear 3 300)) (defsub out (linear 300 2)) (forward (x) (out (tanh (in x)))))"


def test_a_smaller_degree_where_only_that_fits(tmp_path: Path) -> None:
    """The same steps by each; with too little for any nothing is drawn. Plans are kept for every degree."""
    file = write(tmp_path, run=FOUR, knobs="(defknobs (width 4096))")
    write_data(tmp_path, 34)
    # Records that are large beside the model: the others' values are gone when the next microbatch comes.
    np.save(tmp_path / "x.npy", np.random.default_rng(1).normal(size=(34, 4096)).astype(np.float32))
    needs = totals(file)
    assert needs[1] < needs[2] < needs[4]
    wanted = {4: "4: predicted (4 ", 2: "2: predicted (2 ", 1: "1: the only one of 1, 2 and 4 that fits"}
    found = {}
    for degree, why in wanted.items():
        environment = {"SEXPGPU_MEMORY": str(needs[degree]), "SEXPGPU_CACHE": str(tmp_path / "cache")}
        for again in ("", "-again"):
            out = tmp_path / f"{degree}{again}"
            done = sexpgpu("run", file, "--device", "sim", "--out", out, **environment)
            assert done.returncode == 0, done.stderr
            assert stacking_row(done.stderr).startswith(why)
            told_of = [other for other in (2, 4) if f"\n  train stacked {other} " in done.stderr]
            assert told_of == [degree] * (degree > 1), "of graphs that run alone"
            (told,) = stacking_events(out)
            assert told["degree"] == degree
        found[degree] = steps(out)
    assert list(found[4][-1].values()) == pytest.approx(list(found[1][-1].values()), rel=1e-6)
    assert list(found[2][-1].values()) == pytest.approx(list(found[1][-1].values()), rel=1e-6)
    done = sexpgpu("run", file, "--device", "sim", "--out", tmp_path / "no", SEXPGPU_MEMORY=str(needs[1] - 1))
    assert "error[E-MEM-001]" in done.stderr
    assert not (tmp_path / "no").exists()


def test_what_an_earlier_run_measured_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the device's name and the graph; another graph is measured anew, and so is a file that was deleted."""
    monkeypatch.setattr(stacking, "NEAR", 1e9)
    file, choices = write(tmp_path, run=FOUR), Choices(tmp_path / "choices.json")

    def decided(peers: Peers | None = None) -> Chosen:
        with opened("sim") as device, open_context() as context:
            done = compile_in(context, file, Selection(), pipeline=None)
            prepare_for(done, evolve(device, kind="cuda", choices=choices, peers=peers))
            assert done.chosen is not None
            return done.chosen

    first = run_deep(decided)
    assert (first.degrees, first.why) == ((1, 2, 4), "measured at the first step")
    choices.keep(first.key, {"1": 0.3, "2": 0.2, "4": 0.4})
    second = run_deep(decided)
    assert (second.degrees, second.key) == ((2,), first.key)
    assert second.why == "2: measured by an earlier run (4 400.0 ms, 2 200.0 ms, 1 300.0 ms)"
    two = Peers(1, 2, "f32", Place("localhost", 1, 1.0))
    assert run_deep(lambda: decided(two)).why.startswith("2: predicted (2 "), "all machines stack alike"
    write(tmp_path, run=FOUR, model=WIDE)
    assert run_deep(decided).why == "measured at the first step"
    write(tmp_path, run=FOUR)
    choices = Choices(tmp_path / "deleted.json")
    assert run_deep(decided).why == "measured at the first step"


def test_explain_says_how_a_gpu_would_stack(tmp_path: Path, golden: Callable[[str], None]) -> None:
    file = write(tmp_path, run=FOUR)
    for target in ("sm_80", "sm_90"):
        told = sexpgpu("explain", file, "--device", "cuda", "--target", target).stdout
        assert stacking_row(told).startswith("4: predicted (4 0.0")
        assert "  train stacked 4 " in told
        assert "  train stacked 2 " not in told, "it would not run"
    report = told.partition("lowering: ")[2].replace(f"{tmp_path}/", "")
    here = [line for line in report.splitlines() if not line.startswith("  library ")]  # which are on this machine
    golden("\n".join([*here, ""]))
    plain = sexpgpu("explain", write(tmp_path), "--device", "cuda").stdout
    assert stacking_row(plain) == "1: a step has one microbatch"
    skipped = sexpgpu("explain", write(tmp_path, run=FOUR), "--device", "cuda", "--skip", "stack").stdout
    assert stacking_row(skipped) == "1: the pass stack was skipped"


def test_generators_of_a_step_are_in_the_price(tmp_path: Path) -> None:
    """By how often they run; those of evaluations are not of the step."""
    (tmp_path / "text.txt").write_text("abcd efgh ijkl. " * 40, "utf-8")
    file = tmp_path / "story.sx"

    before, _, behind = GENERATORS.partition("(defgenerator batch")
    plain = (before + "(defrun " + behind.partition("(defrun ")[2]).replace("(defrun ", "(defrun :microbatches 4 ")
    generator = "(defgenerator batch" + behind.partition("(defrun ")[0]

    def priced(text: str) -> float:
        file.write_text(text, "utf-8")
        with opened("sim") as device, open_context() as context:
            done = compile_in(context, file, Selection(), pipeline=None)
            kernels = prepare_for(done, device)
            assert kernels is not None
            assert done.chosen is not None
            alone = predict(evolve(kernels, generating=0.0), kernels.stacked[0], 4)
            assert done.chosen.predicted[1] == alone + kernels.generating
            return kernels.generating

    each, second = run_deep(lambda: [priced(plain + generator.replace(":every 2", f":every {n}")) for n in (1, 2)])
    assert each == pytest.approx(2 * second)
    assert second > 0
    assert run_deep(lambda: priced(plain)) == 0
