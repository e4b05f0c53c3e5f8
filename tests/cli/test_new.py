"""`sexpgpu new`: templates that check and train, copies that mean the same, and nothing overwritten."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from sexpgpu.cli.new import TEMPLATES
from tests.cli.test_bad_input import refused, sexpgpu

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "examples" / "data"


def write_digits(folder: Path) -> Path:
    """Two files of 40 and of 20 small images with labels, as MNIST is distributed."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    for part, count in (("train", 40), ("t10k", 20)):
        for kind, shape in (("images-idx3", (count, 28, 28)), ("labels-idx1", (count,))):
            values = rng.integers(0, 256 if len(shape) > 1 else 10, shape).astype(np.uint8)
            header = bytes([0, 0, 8, len(shape)]) + b"".join(n.to_bytes(4, "big") for n in shape)
            (folder / f"{part}-{kind}-ubyte.gz").write_bytes(gzip.compress(header + values.tobytes()))
    return folder


def test_the_templates_are_those_of_the_package() -> None:
    assert {p.stem for p in (ROOT / "sexpgpu" / "library" / "templates").glob("*.sx")} == set(TEMPLATES)


@pytest.mark.parametrize("template", TEMPLATES)
def test_a_template_checks_without_data(template: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.sx"
    done = sexpgpu("new", file, "--template", template)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{file}: written\n", "")
    assert (ROOT / "sexpgpu" / "library" / "templates" / f"{template}.sx").read_text() == file.read_text()
    checked = sexpgpu("check", file)
    assert (checked.returncode, checked.stderr) == (0, "")
    assert sexpgpu("fmt", "--check", file).returncode == 0


@pytest.mark.parametrize(
    ("template", "data", "sets"),
    [
        ("gpt", "tinyshakespeare.txt", ()),
        ("rnn", "tinyshakespeare.txt", ()),
        ("mlp", "micrograd_moons_xy.csv", ()),
        ("mnist", None, ("--set", "train-count=40", "--set", "test-count=20", "--set", "batch=8")),
    ],
)
def test_a_template_trains(template: str, data: str | None, sets: tuple[str, ...], tmp_path: Path) -> None:
    where = DATA / data if data is not None else write_digits(tmp_path / "digits")
    (tmp_path / "runs").mkdir()
    file = tmp_path / "runs" / "mine.sx"
    made = sexpgpu("new", file, "--template", template, "--data", where, "--variant", "smoke", *sets)
    assert made.returncode == 0, made.stderr
    document = json.loads(sexpgpu("run", file, "--out", tmp_path / "run", "--json", "--quiet").stdout)
    assert document["ok"] is True
    assert document["step"] == document["steps"] > 0
    assert 0 < document["metrics"]["train/loss"] < 10


def test_data_is_a_path_from_here(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    done = sexpgpu("new", "a/mine.sx", "--template", "mlp", "--data", "b/t.csv", cwd=tmp_path)
    assert done.stdout == 'a/mine.sx: written, with data "../b/t.csv"\n'
    assert '(data "../b/t.csv" :doc' in (tmp_path / "a" / "mine.sx").read_text()
    address = json.loads(
        sexpgpu("new", "c.sx", "--template", "mlp", "--data", "s3://b/t.csv", "--json", cwd=tmp_path).stdout
    )
    assert (address["ok"], address["from"], address["values"]) == (True, "mlp", {"data": '"s3://b/t.csv"'})


ORIGIN = """\
;;; About the origin.
(require "./parts.sx")
(require "sexpgpu/optim")
(defknobs
  (width 3)   ; of the input
  (rate 0.5) (act :relu :choices (:relu :gelu)) (xs "x.npy") (label "x"))
(defvariant small (width (+ 1 2)) (rate 1) (act :gelu))
(defvariant other (xs "y.npy"))
(def folder ".")
(defloader train-loader (:batch 4) (x (npy xs :shape '(10 3) :dtype :f32))
  (y (npy (format nil "~a/y.npy" folder) :shape '(10) :dtype :i64)))
(list width rate act label "data/nothing.txt")
"""


def origin(folder: Path) -> Path:
    (folder / "old").mkdir()
    (folder / "new").mkdir()
    (folder / "old" / "parts.sx").write_text("(def part 1)\n")
    np.save(folder / "old" / "y.npy", np.arange(10))
    file = folder / "old" / "origin.sx"
    file.write_text(ORIGIN)
    return file


def test_a_copy_has_the_chosen_values_and_means_the_same_files(tmp_path: Path) -> None:
    file = tmp_path / "new" / "copy.sx"
    done = sexpgpu("new", file, "--from", origin(tmp_path), "--variant", "small", "--set", "label=y")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f'{file}: written, with rate 1.0, act :gelu, label "y"\n'
    wanted = (
        ORIGIN.replace('"./parts.sx"', '"../old/parts.sx"')
        .replace('(rate 0.5) (act :relu :choices (:relu :gelu)) (xs "x.npy") (label "x")',
                 '(rate 1.0) (act :gelu :choices (:relu :gelu)) (xs "../old/x.npy") (label "y")')
        .replace('other (xs "y.npy")', 'other (xs "../old/y.npy")')
        .replace('(def folder ".")', '(def folder "../old")')
    )  # fmt: skip
    assert file.read_text() == wanted


def test_in_the_same_folder_paths_stay(tmp_path: Path) -> None:
    old = origin(tmp_path)
    assert sexpgpu("new", old.with_name("copy.sx"), "--from", old).returncode == 0
    assert old.with_name("copy.sx").read_text() == ORIGIN


def test_a_selected_path_is_moved_too(tmp_path: Path) -> None:
    file = tmp_path / "new" / "copy.sx"
    assert sexpgpu("new", file, "--from", origin(tmp_path), "--variant", "other").returncode == 0
    assert '(xs "../old/y.npy") (label "x"))' in file.read_text()


@pytest.mark.parametrize("example", ["digits", "shakespeare", "moons", "mnist"])
def test_a_copy_of_an_example_compiles_to_the_same(example: str, tmp_path: Path) -> None:
    old, new = ROOT / "examples" / f"{example}.sx", tmp_path / f"{example}.sx"
    assert sexpgpu("new", new, "--from", old, "--variant", "smoke").returncode == 0
    graph = [sexpgpu("ir", f, "--mlir", *more).stdout for f, more in ((new, ()), (old, ("--variant", "smoke")))]
    assert graph[0] == graph[1] != ""
    assert sexpgpu("fmt", "--check", new).returncode == 0


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    file = tmp_path / "mine.sx"
    file.write_text("(def precious t)\n")
    refused(sexpgpu("new", file, "--template", "mlp"), "E-IO-107")
    assert file.read_text() == "(def precious t)\n"
    refused(sexpgpu("new", tmp_path, "--template", "mlp"), "E-IO-107")
    refused(sexpgpu("new", tmp_path / "none" / "mine.sx", "--template", "mlp"), "E-IO-106", 4)


def test_what_cannot_be_copied_writes_nothing(tmp_path: Path) -> None:
    new, old = tmp_path / "new.sx", tmp_path / "old.sx"
    refused(sexpgpu("new", new, "--from", old), "E-IO-101")
    old.write_text("(def a (undefined-function))\n")
    refused(sexpgpu("new", new, "--from", old), "E-NAME-002")
    old.write_text("(defmacro sizes () '(defknobs (width 8)))\n(sizes)\n(print width)\n")
    refused(sexpgpu("new", new, "--from", old, "--set", "width=9"), "E-KNOB-006")
    refused(sexpgpu("new", new, "--from", old, "--data", "x.csv"), "E-KNOB-001")
    refused(sexpgpu("new", new, "--template", "gpt", "--set", "widht=9"), "E-KNOB-001")
    refused(sexpgpu("new", new, "--template", "gpt", "--set", "width=wide"), "E-KNOB-003")
    assert not new.exists()
    for flags in ((), ("--template", "gpt", "--from", "x.sx"), ("--template", "vgg")):
        assert sexpgpu("new", new, *flags).returncode == 2
