"""Data that change while a run reads them, or between a run and its resumption."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attrs import evolve

from sexpgpu.data import fingerprint
from sexpgpu.data.source import Arange, ByStep
from sexpgpu.experiment import LoaderField, RunConfig
from sexpgpu.runtime.checkpoint import INDEX, numbered, sealed
from sexpgpu.runtime.loading import Loaders
from sexpgpu.runtime.restore import read_index, verify
from sexpgpu.runtime.run import run
from sexpgpu.tensortype import TensorType
from tests.runtime.line_fit import RECORDS, NumpyEngine, loader, make_engine, options, train, write_data
from tests.runtime.reading import events, last_tensors, status

CONFIG = RunConfig(10, None, 1, precision="f64", checkpoint_every=2)


def test_data_cut_during_a_run_fail_it_and_keep_its_checkpoints(folder: Path) -> None:
    calls = 0

    def cutting(*inputs: Any) -> Sequence[Any]:
        nonlocal calls
        calls += 1
        if calls == 5:
            os.truncate(folder / "x.npy", 0)
        return train(*inputs)

    out = folder / "out"
    engine = make_engine(folder, CONFIG, evaluations=(), functions={"train": cutting})
    result = run(engine, options(out))
    assert result.error is not None
    assert (result.code, result.error.code, result.step) == (1, "E-LOAD-003", 5)
    assert str(folder / "x.npy") in result.error.message
    assert status(out)["state"] == "failed"
    assert events(out)[-1]["code"] == "E-LOAD-003"
    assert [step for step, _ in numbered(out / "checkpoints")] == [2, 4]
    for _, path in numbered(out / "checkpoints"):
        verify(path)


@pytest.fixture
def engine(folder: Path) -> NumpyEngine:
    return make_engine(folder, CONFIG, evaluations=())


def refused(engine: NumpyEngine, out: Path) -> list[str]:
    """The notes of the refusal, which changed nothing."""
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    result = run(engine, options(out, resume="latest"))
    assert result.error is not None
    assert (result.code, result.error.code) == (1, "E-CKPT-003")
    assert result.error.message == f"{out / 'checkpoints' / 'step-00000004'} was trained on other data"
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before
    return [note.text for note in result.error.notes]


def test_a_record_more_is_refused_and_can_be_allowed(engine: NumpyEngine, folder: Path) -> None:
    out = folder / "out"
    assert run(engine, options(out, steps=4)).code == 0
    sizes = [(folder / name).stat().st_size for name in ("x.npy", "y.npy")]
    write_data(folder, records=RECORDS + 1)
    notes = [
        f"data of train-loader/{name}: {RECORDS} records, {size} bytes in the checkpoint, "
        f"{RECORDS + 1} records, {size + more} bytes now"
        for name, size, more in zip("xy", sizes, (24, 8), strict=True)
    ]
    assert refused(engine, out) == notes
    assert run(engine, options(out, resume="latest", allow_changed=True)).code == 0
    assert events(out, "open")[-1]["changed"] == notes
    assert run(engine, options(out, resume="latest")).code == 0  # the new checkpoints are of the new data


def test_another_number_in_a_file_of_the_same_length_is_refused(engine: NumpyEngine, folder: Path) -> None:
    out = folder / "out"
    assert run(engine, options(out, steps=4)).code == 0
    y = np.load(folder / "y.npy")
    y[-1] += 1
    np.save(folder / "y.npy", y)
    (note,) = refused(engine, out)
    assert note.startswith(f"data of train-loader/y: {RECORDS} records, {128 + 8 * RECORDS} bytes, SHA-256 ")


def test_large_files_are_known_by_their_size(
    engine: NumpyEngine, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fingerprint, "DIGESTED", 100)
    out = folder / "out"
    assert run(engine, options(out, steps=4)).code == 0
    assert read_index(out / "checkpoints" / "step-00000004")["data"]["train-loader/y"]["sha256"] is None
    write_data(folder, records=RECORDS - 1)
    assert len(refused(engine, out)) == 2


def test_the_same_data_elsewhere_are_the_same(engine: NumpyEngine, folder: Path) -> None:
    whole, out, moved = folder / "whole", folder / "out", folder / "moved"
    assert run(engine, options(whole)).code == 0
    assert run(engine, options(out, steps=4)).code == 0
    moved.mkdir()
    for name in ("x.npy", "y.npy"):
        os.replace(folder / name, moved / name)
    train_loader = loader(moved, "train-loader", 4, "shuffle")
    there = evolve(engine, experiment=evolve(engine.experiment, train_loader=train_loader))
    assert run(there, options(out, resume="latest")).code == 0
    assert last_tensors(out) == last_tensors(whole)


def test_a_checkpoint_that_does_not_tell_its_data_is_resumed(engine: NumpyEngine, folder: Path) -> None:
    out = folder / "out"
    assert run(engine, options(out, steps=4)).code == 0
    for _, path in numbered(out / "checkpoints"):
        body = read_index(path)
        del body["data"]
        (path / INDEX).write_bytes(sealed(body))
    write_data(folder, records=RECORDS + 1)
    assert run(engine, options(out, resume="latest")).code == 0


def test_what_is_kept_of_each_kind_of_field(folder: Path) -> None:
    np.save(folder / "order.npy", np.array([[0, 1]]))
    listed = loader(folder, "listed", 4, "index-file")
    step = LoaderField("k", ByStep(Arange(30)), TensorType((), "i32"))
    loaders = Loaders()
    loaders.open(evolve(listed, fields=(*listed.fields, step)))
    told = loaders.data
    assert list(told) == ["listed/x", "listed/y", "listed/k", "listed order"]
    assert told["listed/k"] == {"records": 30}
    assert told["listed/x"]["records"] == RECORDS
    assert told["listed order"]["bytes"] == (folder / "order.npy").stat().st_size


def test_what_is_no_file_has_no_fingerprint(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert fingerprint.fingerprint([tmp_path / "pipe"]) is None
    assert fingerprint.fingerprint([tmp_path / "absent"]) is None
    assert fingerprint.fingerprint([]) is None
