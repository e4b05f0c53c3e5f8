"""Plans on disk: what comes back is what was kept, and a bad file is no file."""

from __future__ import annotations

import hashlib
import os
import pickle
from pathlib import Path

import numpy as np
import pytest

from sexpgpu.driver.planning import preparing
from sexpgpu.interp import Program
from sexpgpu.lang.limits import run_deep
from sexpgpu.lang.selection import Selection
from sexpgpu.plan.records import Plans
from sexpgpu.plan.store import KEPT, MAGIC, digest, load, save


@pytest.fixture(scope="module")
def plans(root: Path) -> Plans:
    def compile_it() -> Plans:
        with preparing(root / "examples/char-lstm.sx", Selection("smoke")) as done:
            assert done.plans is not None
            return done.plans

    return run_deep(compile_it)


def test_what_comes_back_is_what_was_kept(plans: Plans, tmp_path: Path) -> None:
    save(tmp_path / "new", "key", plans)
    back = load(tmp_path / "new", "key")
    assert back is not None
    assert {name: digest(plan) for name, plan in back.items()} == {name: digest(p) for name, p in plans.items()}
    update = next(plan for name, plan in back.items() if name.startswith("update"))
    inputs = [np.ones(i.type.shape, np.int32 if i.type.dtype == "i32" else np.float32) for i in update.spec.inputs]
    for ours, theirs in zip(Program(update)(inputs), Program(plans[update.spec.symbol])(inputs), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_plans_that_differ_have_other_digests(plans: Plans) -> None:
    assert len({digest(plan) for plan in plans.values()}) == len(plans)


@pytest.mark.parametrize("spoil", ["cut", "changed", "other version", "gone", "folder"])
def test_a_bad_entry_counts_as_absent(plans: Plans, tmp_path: Path, spoil: str) -> None:
    save(tmp_path, "key", plans)
    path = tmp_path / "key.plan"
    content = path.read_bytes()
    match spoil:
        case "cut":
            path.write_bytes(content[: len(content) // 2])
        case "changed":
            path.write_bytes(content[:-3] + b"abc")
        case "other version":
            path.write_bytes(content.replace(b"plans 1", b"plans 0", 1))
        case "gone":
            path.unlink()
        case _:
            path.unlink()
            path.mkdir()
    assert load(tmp_path, "key") is None


def test_an_entry_makes_records_and_nothing_else(tmp_path: Path) -> None:
    class Harm:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return os.system, ("touch harmed",)

    payload = pickle.dumps({"train": Harm()})
    (tmp_path / "key.plan").write_bytes(MAGIC + hashlib.sha256(payload).digest() + payload)
    assert load(tmp_path, "key") is None
    assert not Path("harmed").exists()


def test_old_entries_go(plans: Plans, tmp_path: Path) -> None:
    few = {"train": plans["train"]}
    for number in range(KEPT + 3):
        save(tmp_path, f"{number:03}", few)
        os.utime(tmp_path / f"{number:03}.plan", (number, number))
    save(tmp_path, "last", few)
    kept = sorted(path.stem for path in tmp_path.glob("*.plan"))
    assert len(kept) == KEPT
    assert "last" in kept
    assert "000" not in kept


def test_a_folder_that_cannot_be_written_keeps_nothing(plans: Plans, tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("no folder", "utf-8")
    save(blocked / "cache", "key", plans)
    assert load(blocked / "cache", "key") is None
