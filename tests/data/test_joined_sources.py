"""Joined sources, cuts, windows and by-step rows, against their meaning written out, at any size."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sexpgpu.data.counts import record_count
from sexpgpu.data.facts import facts, vocabulary_size
from sexpgpu.data.loader import open_loader
from sexpgpu.data.mixing import mixed_count, places
from sexpgpu.data.order import OrderName
from sexpgpu.data.readers import open_source
from sexpgpu.data.source import (
    Arange,
    ByStep,
    Chars,
    Concat,
    FieldSource,
    Lines,
    Mix,
    Npy,
    Records,
    Scale,
    Source,
    Take,
    Window,
)
from sexpgpu.diag import Diagnostic, SxError

sizes = st.integers(1, 30)
weights = st.floats(0.01, 100)


def refused(source: Source, base: Path | None = None) -> Diagnostic:
    with pytest.raises(SxError) as caught:
        open_source(source, base)
    return caught.value.diagnostic


@st.composite
def sources(draw: st.DrawFn, depth: int = 3) -> Source:
    """Any source over counted numbers that has a record."""
    if depth == 0:
        return Arange(draw(sizes))
    inner = draw(sources(depth - 1))
    count = record_count(inner)
    match draw(st.sampled_from(["arange", "records", "take", "scale", "concat", "mix"])):
        case "arange":
            return Arange(draw(sizes))
        case "records":
            start = draw(st.integers(0, count - 1))
            return Records(inner, from_=start, to=draw(st.integers(start + 1, count)))
        case "take":
            return Take(inner, draw(st.integers(1, count)))
        case "scale":
            return Scale(inner, 2.0, "f64")
        case "concat":
            return Concat((Scale(inner, 1.0, "f64"), Scale(draw(sources(0)), 1.0, "f64")))
        case _:
            parts = (Scale(inner, 1.0, "f64"), Scale(draw(sources(0)), 1.0, "f64"))
            return Mix(parts, (draw(st.floats(0.1, 1)), draw(st.floats(0.1, 1))))


@given(sources(), st.data())
def test_a_record_is_a_function_of_its_number(source: Source, data: st.DataObject) -> None:
    reader = open_source(source)
    assert facts(source).count == reader.count
    assert facts(source).type == reader.type
    whole = reader.read(np.arange(reader.count))
    asked = np.array(data.draw(st.lists(st.integers(0, reader.count - 1), max_size=9)), np.int64)
    assert reader.read(asked).tolist() == whole[asked].tolist()
    if reader.count > 1:
        cut = data.draw(st.floats(0, 1))
        low = int(reader.count * cut)
        if low < reader.count:
            assert open_source(Records(source, from_=cut)).read(np.arange(1)) == whole[low]


@given(st.lists(sizes, min_size=1, max_size=4))
def test_concat_sources_are_one_after_the_other(counts: list[int]) -> None:
    reader = open_source(Concat(tuple(Arange(n) for n in counts)))
    assert reader.read(np.arange(reader.count)).tolist() == [i for n in counts for i in range(n)]


@given(st.lists(st.tuples(sizes, weights), min_size=1, max_size=4))
def test_a_mix_keeps_its_proportions_and_reads_everything(parts: list[tuple[int, float]]) -> None:
    counts, shares = [n for n, _ in parts], [w for _, w in parts]
    total = mixed_count(counts, shares)
    found = places(np.arange(total), shares)
    assert sorted(np.concatenate([own for own, _ in found])) == list(range(total))
    for (own, numbers), count, weight in zip(found, counts, shares, strict=True):
        assert numbers.tolist() == list(range(len(own)))  # each source in its own order, none left out
        assert len(own) >= count
        # At every moment within one record of its share, for each source split off before it.
        seen = np.searchsorted(own, np.arange(total + 1))
        assert (abs(seen - np.arange(total + 1) * weight / sum(shares)) < len(parts)).all()
    if total > 1:  # and no shorter one does
        assert any(len(own) < n for (own, _), n in zip(places(np.arange(total - 1), shares), counts, strict=True))


def test_a_mix_starts_over_what_ends_first() -> None:
    mixed = open_source(Mix((Arange(2), Records(Arange(15), from_=10)), (0.5, 0.5)))
    assert mixed.read(np.arange(mixed.count)).tolist() == [10, 0, 11, 1, 12, 0, 13, 1, 14]
    third = open_source(Mix((Arange(3), Records(Arange(12), from_=10), Records(Arange(21), from_=20)), (2.0, 1, 1)))
    assert third.read(np.arange(third.count)).tolist() == [20, 0, 10, 1, 20, 2, 11]


def test_joined_sources_must_belong_together(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("abc", encoding="utf-8")
    (tmp_path / "b.txt").write_text("bcd", encoding="utf-8")
    (tmp_path / "c.txt").write_text("cab", encoding="utf-8")
    np.save(tmp_path / "x.npy", np.zeros((4, 2)))
    found = refused(Concat((Arange(3), Npy("x.npy"))), tmp_path)
    assert (found.code, found.expected, found.actual) == ("E-LOAD-006", "i32[]", "f64[2]")
    found = refused(Mix((Chars("a.txt"), Chars("b.txt")), (1.0, 1.0)), tmp_path)
    assert (found.code, found.expected, found.actual) == ("E-LOAD-006", "'abc'", "'bcd'")
    same = Concat((Chars("a.txt"), Chars("c.txt")))
    assert open_source(same, tmp_path).fitted == {"vocabulary": "abc"}
    assert vocabulary_size(same, tmp_path) == 3
    assert vocabulary_size(Concat((Arange(3), Arange(9)))) == 9
    with pytest.raises(SxError, match="E-LOAD-005"):
        record_count(Concat((Arange(3), Lines("absent", 4))), tmp_path)


@pytest.mark.parametrize("weight", [0.0, -1.0, float("nan"), float("inf"), 1e-9])
def test_a_weight_that_is_none(weight: float) -> None:
    with pytest.raises(SxError) as caught:
        Mix((Arange(3), Arange(3)), (1.0, weight))
    assert caught.value.diagnostic.code == "E-LOAD-010"


ORDERS: tuple[OrderName, ...] = ("sequential", "shuffle", "random", "streams")


@given(st.sampled_from(ORDERS), st.integers(1, 5), st.lists(st.integers(0, 19), max_size=5))
def test_a_by_step_row_belongs_to_its_step(order: OrderName, batch: int, steps: list[int]) -> None:
    fields: dict[str, FieldSource] = {"x": Arange(9), "w": ByStep(Window(Arange(40), 2, stride=2))}
    opened = open_loader("train", fields, batch=batch, order=order, seed=1)
    assert opened.count == 9
    for step in steps:
        read = opened.read(opened.indices(step), step)
        assert read["w"].tolist() == [2 * step, 2 * step + 1]
        assert read["x"].tolist() == opened.indices(step).tolist()


def test_by_step_rows_that_end_too_soon() -> None:
    opened = open_loader("train", {"x": Arange(9), "w": ByStep(Arange(3))}, batch=2, order="sequential", seed=1)
    opened.require_turns(3)
    for ask in (lambda: opened.require_turns(4), lambda: opened.read(np.arange(2), 3)):
        with pytest.raises(SxError) as caught:
            ask()
        found = caught.value.diagnostic
        assert (found.code, found.expected, found.actual) == (
            "E-LOAD-012",
            "4 rows or more, one for each step or evaluation",
            "3 rows",
        )


def test_streams_need_a_record_each() -> None:
    with pytest.raises(SxError) as caught:
        open_loader("train", {"x": Arange(7)}, batch=4, order="streams", seed=1, microbatches=2)
    found = caught.value.diagnostic
    assert (found.code, found.actual) == ("E-LOAD-006", "7 records")


@given(st.integers(2, 6), st.integers(2, 6), st.integers(1, 3))
def test_streams_of_windows_are_one_text(length: int, batch: int, parts: int) -> None:
    """What a row reads from step to step joins into the text as it stands: inputs end where the next ones begin."""
    stride = length - 1
    items = 1 + stride * batch * parts * 4 + 3
    source = Window(Arange(items), length, stride=stride)
    opened = open_loader("train", {"x": source}, batch=batch, order="streams", seed=1, microbatches=parts)
    for microbatch in range(parts):
        steps = [opened.read(opened.indices(s * parts + microbatch), s)["x"] for s in range(4)]
        for row in range(batch):
            inputs = np.concatenate([step[row, :-1] for step in steps])
            targets = np.concatenate([step[row, 1:] for step in steps])
            assert (np.diff(inputs) == 1).all()
            assert (targets == inputs + 1).all()
