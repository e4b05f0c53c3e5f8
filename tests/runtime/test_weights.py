"""Starting from given weights, by path."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from attrs import evolve
from safetensors.numpy import save_file

from sexpgpu.experiment import RunConfig
from sexpgpu.runtime.run import RunResult, run
from sexpgpu.runtime.weights import read_weights
from sexpgpu.tensortype import TensorType
from tests.runtime.line_fit import Function, NumpyEngine, make_engine, options
from tests.runtime.reading import last_tensors

W = np.array([1.0, 2.0, 3.0])


@pytest.fixture
def engine(folder: Path) -> NumpyEngine:
    frozen: dict[str, Function] = {name: lambda p, g, v, *s: (p, v, np.float64(0)) for name in ("update w", "update b")}
    return make_engine(folder, RunConfig(1, None, 1, precision="f64"), evaluations=(), functions=frozen)


def started(engine: NumpyEngine, folder: Path, stored: dict[str, np.ndarray]) -> RunResult:
    save_file(stored, folder / "w.safetensors")
    return run(engine, options(folder / "out", init=folder / "w.safetensors"))


def test_parameters_by_path_floats_converted(engine: NumpyEngine, folder: Path) -> None:
    result = started(engine, folder, {"model.w": W.astype(np.float32), "model.b": np.array(0.25, np.float16)})
    assert result.code == 0
    found = last_tensors(folder / "out")
    assert found["param/model.w"] == ("float64", (3,), W.tobytes())
    assert found["param/model.b"] == ("float64", (), np.float64(0.25).tobytes())
    assert found["state/model.b/velocity"] == found["param/model.b"]  # a state that starts as the parameter
    assert ("init w", None) not in engine.asked


def test_buffers_and_tied_names(engine: NumpyEngine, folder: Path) -> None:
    stored = {"model.tied": W, "model.b": np.array(0.5), "model.seen": np.array(41, np.int32)}
    assert started(engine, folder, stored).code == 0
    found = last_tensors(folder / "out")
    assert found["param/model.w"][2] == W.tobytes()
    assert np.frombuffer(found["buffer/model.seen"][2], np.int32) == 42


def test_everything_wrong_is_in_one_error(engine: NumpyEngine, folder: Path) -> None:
    result = started(engine, folder, {"model.b": np.zeros(2), "head": np.zeros(1), "model.seen": np.array(1.0)})
    assert result.code == 1
    assert result.error is not None
    assert result.error.code == "E-CKPT-006"
    assert [note.text for note in result.error.notes] == [
        "missing: model.w f64[3] (line.sx:5:1)",
        "model.b: f64[] expected, f64[2] found",
        "model.seen: i32[] expected, f64[] found",
        "not in the model: head",
    ]


def test_a_tied_name_with_other_values(engine: NumpyEngine, folder: Path) -> None:
    result = started(engine, folder, {"model.w": W, "model.tied": W + 1, "model.b": np.array(0.5)})
    assert result.error is not None
    assert [note.text for note in result.error.notes] == ["one tensor with different values: model.w, model.tied"]


def test_a_bf16_parameter_holds_rounded_values(engine: NumpyEngine, folder: Path) -> None:
    e = engine.experiment
    narrow = evolve(e, parameters=(evolve(e.parameters[0], type=TensorType((3,), "bf16")),))
    save_file({"model.w": np.array([1.001, -2.01, np.inf])}, folder / "w.safetensors")
    found = read_weights(folder / "w.safetensors", narrow)["model.w"]
    assert found.dtype == np.float32
    assert found.tolist() == [1.0, -2.015625, np.inf]


def test_files_that_are_none(engine: NumpyEngine, folder: Path) -> None:
    (folder / "text").write_text("not tensors", encoding="utf-8")
    (folder / "empty").write_bytes(b"")
    for name in ("text", "empty", "absent", "."):
        result = run(engine, options(folder / "out", init=folder / name))
        assert result.error is not None
        assert result.error.code == "E-CKPT-007"


def test_given_weights_matter_at_the_start_alone(engine: NumpyEngine, folder: Path) -> None:
    assert started(engine, folder, {"model.w": W, "model.b": np.array(0.5)}).code == 0
    (folder / "w.safetensors").unlink()
    again = options(folder / "out", init=folder / "w.safetensors", resume="latest")
    assert run(engine, again).code == 0
