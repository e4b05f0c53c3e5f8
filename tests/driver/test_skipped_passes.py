"""Every pass but autodiff may be skipped: the examples lose the same, step by step."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

import pytest

from sexpgpu.driver.pipeline import EVERY, NEEDED, Passes, steps_of, whole
from tests.passes.grouping import cut_small
from tests.smoke import EXAMPLES, lasting, link_data, losses_of, smoke_text, train, with_run

PASSES = tuple(dict.fromkeys(step.name for step in steps_of(whole()) if step.name not in NEEDED))
BOUNDS = {"f64": 1e-10, "f32": 1e-5}
"""Of a loss's magnitude."""
FEW = tuple(file for file in EXAMPLES if file.stem in ("digits", "names", "wgan-gp"))
"""A transformer's parts, loops over characters, and a second derivative."""

Losses = Callable[[Path, str, str, int], list[float]]


@pytest.fixture(scope="module")
def losses(tmp_path_factory: pytest.TempPathFactory) -> Losses:
    """losses(example, precision, the pass to skip or "", steps), each trained once."""
    folder = tmp_path_factory.mktemp("skipped")
    link_data(folder)

    @functools.cache
    def found(file: Path, precision: str, skip: str, steps: int) -> list[float]:
        text = with_run(lasting(smoke_text(file), steps), precision=f":{precision}", log_every="1")
        if ":epochs" in text[text.index("(defrun") :]:
            text = with_run(text, epochs=str(steps))  # at least a step each
        passes = Passes(skip=frozenset({skip})) if skip else EVERY
        copy = folder / f"{file.stem}-{precision}-{skip or 'every'}-{steps}.sx"
        result, events = train(text, copy, steps, passes)
        assert result.error is None, result.error
        return losses_of(events)

    return found


def apart(left: list[float], right: list[float]) -> float:
    """The largest difference of two losses of one step, of their magnitude."""
    return max(abs(a - b) / abs(a) for a, b in zip(left, right, strict=True))


@pytest.mark.parametrize("skip", PASSES)
@pytest.mark.parametrize("precision", BOUNDS)
@pytest.mark.parametrize("file", FEW, ids=lambda file: file.stem)
def test_a_pass_may_be_skipped(file: Path, precision: str, skip: str, losses: Losses) -> None:
    every = losses(file, precision, "", 5)
    assert len(every) == 5
    assert every[0] != every[-1]
    assert apart(every, losses(file, precision, skip, 5)) <= BOUNDS[precision]


@pytest.mark.parametrize("file", FEW, ids=lambda file: file.stem)
def test_small_tiles_give_the_same(file: Path, losses: Losses, monkeypatch: pytest.MonkeyPatch) -> None:
    """At smoke size most groups are one tile; here they are many."""
    alone = losses(file, "f64", "fuse", 4)
    cut_small(monkeypatch, 64)
    assert apart(alone, losses(file, "f64", "", 4)) <= BOUNDS["f64"]


@pytest.mark.slow
@pytest.mark.parametrize("skip", PASSES)
@pytest.mark.parametrize("precision", BOUNDS)
@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_any_pass_of_any_example_may_be_skipped(
    file: Path, precision: str, skip: str, losses: Losses, record_property: Callable[[str, object], None]
) -> None:
    """With `--junit-xml=FILE -o junit_family=xunit1` the file has each difference."""
    every = losses(file, precision, "", 20)
    assert len(every) == 20
    found = apart(every, losses(file, precision, skip, 20))
    record_property("apart", found)
    assert found <= BOUNDS[precision]
