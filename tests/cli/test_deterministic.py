"""`run --deterministic` is a run of a file that says so itself, bit for bit, and another run than that of the file."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.cli.test_bad_input import sexpgpu as sexpgpu_in
from tests.gpu.test_engine import evaluated, sexpgpu, steps, tensors
from tests.trace.experiments import text_of, write_data

RUN = "(defrun :steps 3 :microbatches 4 :clip-norm 0.05 :seed 1{})"
OPTIMIZER = "(def optimizer (adam :lr 0.1))"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two files that differ in one thing: `said.sx` is deterministic by itself."""
    write_data(tmp_path)
    for name, more in (("plain", ""), ("said", " :deterministic t")):
        (tmp_path / f"{name}.sx").write_text(text_of(run=RUN.format(more), optimizer=OPTIMIZER), "utf-8")
    return tmp_path


def trained(folder: Path, name: str, out: str, *flags: object, **environment: str) -> Path:
    done = sexpgpu("run", folder / f"{name}.sx", "--quiet", "--out", folder / out, *flags, **environment)
    assert done.returncode == 0, done.stderr
    return folder / out


def alike(one: Path, other: Path) -> bool:
    wanted, found = tensors(one), tensors(other)
    assert wanted.keys() == found.keys()
    same = all(np.array_equal(found[key], array) for key, array in wanted.items())
    return same and steps(one) == steps(other) and evaluated(one) == evaluated(other)


def test_the_flag_gives_the_bits_of_the_form(folder: Path) -> None:
    said = trained(folder, "said", "said")
    assert alike(said, trained(folder, "plain", "flag", "--deterministic"))
    assert alike(said, trained(folder, "said", "both", "--deterministic"))
    assert not alike(said, trained(folder, "plain", "plain"))  # its sums are added up in another order


@pytest.mark.parametrize("devices", ["0", "0,1"])
def test_on_any_number_of_simulated_gpus(folder: Path, devices: str) -> None:
    sim = ("--device", "sim")
    flag = trained(folder, "plain", "flag", "--deterministic", *sim, SEXPGPU_DEVICES=devices)
    assert alike(trained(folder, "said", "said", *sim, SEXPGPU_DEVICES="0"), flag)
    text = (flag / "events.jsonl").read_text("utf-8")
    assert "the run is deterministic" in text  # and stacks nothing
    if devices == "0,1":
        further = ("--resume", "latest", "--steps", "3")
        part = trained(folder, "plain", "part", "--deterministic", "--steps", "2", *sim, SEXPGPU_DEVICES="0,1")
        trained(folder, "plain", "part", "--deterministic", *further, *sim, SEXPGPU_DEVICES="0")
        assert alike(flag, part)


def test_a_run_with_the_flag_is_another_than_one_without(folder: Path) -> None:
    """Its directory has another name, its manifest says so, and a checkpoint of one is none of the other."""
    for flags in ([], ["--deterministic"]):
        done = sexpgpu_in("run", "plain.sx", "--quiet", "--steps", "1", *flags, cwd=folder)
        assert done.returncode == 0, done.stderr
    assert len(list((folder / "runs").iterdir())) == 2
    out = trained(folder, "plain", "flag", "--deterministic", "--steps", "1")
    assert json.loads((out / "manifest.json").read_text("utf-8"))["manifest"]["deterministic"] is True
    resume = ("run", folder / "plain.sx", "--quiet", "--out", out, "--resume", "latest")
    refused = sexpgpu(*resume)
    assert refused.returncode == 1
    assert "E-CKPT-003" in refused.stderr
    assert "note: --deterministic: given in the checkpoint, - now\n" in refused.stderr
    assert sexpgpu(*resume, "--allow-changed", "--steps", "2").returncode == 0
    (changed,) = [
        event["changed"]
        for event in map(json.loads, (out / "events.jsonl").read_text("utf-8").splitlines())
        if event["event"] == "open" and event["resumed"]
    ]
    assert changed == ["--deterministic: given in the checkpoint, - now"]
    back = sexpgpu(*resume, "--deterministic")
    assert "note: --deterministic: - in the checkpoint, given now\n" in back.stderr
    # A file that says so by itself gains nothing by the flag.
    trained(folder, "said", "both", "--deterministic", "--steps", "1")
    trained(folder, "said", "both", "--resume", "latest")
