"""Generators while a run trains, and the verb that runs them on its checkpoints."""

from __future__ import annotations

import json
import struct
import zlib
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

from sexpgpu.runtime.events import SCHEMA
from sexpgpu.runtime.samples import png, tiled
from tests.cli.test_bad_input import sexpgpu

FILE = """
(require "sexpgpu/nn") (require "sexpgpu/optim")
(defknobs (seq 8) (width 8) (shown 4))
(def text (chars "text.txt"))
(defloader train-loader (:batch 4 :order :random) (tokens (window text (+ seq 1))))
(defun prepare (batch) (let ((x (field batch 'tokens))) (values (slice x 1 0 -1) (slice x 1 1 nil))))
(defmodel net ()
  (defsub embed (embedding (vocab-size text) width)) (defsub cell (gru width width))
  (defsub head (linear width (vocab-size text)))
  (forward (x) (head (cell (embed x)))))
(def model (net))
(defun objective (logits labels) (cross-entropy logits labels))
(defun evaluate (logits labels)
  (metric 'loss (cross-entropy logits labels))
  (sample 'guess (slice (argmax logits) 0 0 1) :as :text))
(defeval val (:loader train-loader :every 2 :batches 2))
(def optimizer (ema 0.9 (adamw :lr 1e-2)))
(defgenerator story (:trips seq)
  (:init (ctx)
    (let ((prompt (getf ctx :prompt)) (first (zeros (list shown seq) :dtype :i32)))
      (if (null prompt) first (concat (list first (broadcast-to prompt (list shown (dim prompt 0)))) 1))))
  (:trip (tokens i ctx)
    (let* ((logits (funcall model (slice tokens 1 (- seq) nil)))
           (next (next-token (slice logits 1 -1 nil) :temperature (getf ctx :temperature)
                             :top-k (getf ctx :top-k) :top-p (getf ctx :top-p))))
      (concat (list (slice tokens 1 1 nil) next) 1)))
  (:emit (tokens) (sample 'text tokens :as :text)))
(defgenerator picture (:trips 3 :at :step :every 2 :weights :train)
  (:init (ctx) (list (random-normal '(3 1 4 5)) (field (getf ctx :batch) 'tokens)))
  (:trip (state i ctx) (list (+ (car state) (cast i :float) (random-normal '(3 1 4 5))) (cadr state)))
  (:emit (state) (sample 'grid (car state) :as :image) (sample 'batch (cadr state))))
(defrun :steps 4 :seed 1)
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("generate")
    (folder / "text.txt").write_text("abcd efgh ijkl. " * 40, "utf-8")
    (folder / "story.sx").write_text(FILE, "utf-8")
    done = sexpgpu("run", folder / "story.sx", "--out", folder / "run", "--quiet", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder / "run"


def events(run: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (run / "events.jsonl").read_text("utf-8").splitlines()]


def test_a_run_tells_its_samples(run: Path) -> None:
    validator = jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text("utf-8")))
    told = [e for e in events(run) if e["event"] == "sample"]
    for event in told:
        validator.validate(event)
    seen = [(e["step"], e["name"], e["file"]) for e in told]
    assert seen == [
        (2, "picture/grid", "samples/step-00000002/picture-grid.png"),
        (2, "picture/batch", "samples/step-00000002/picture-batch.npy"),
        (2, "val/guess", None),
        (2, "story/text", None),
        (4, "picture/grid", "samples/step-00000004/picture-grid.png"),
        (4, "picture/batch", "samples/step-00000004/picture-batch.npy"),
        (4, "val/guess", None),
        (4, "story/text", None),
    ]
    texts = next(e["texts"] for e in told if e["name"] == "story/text")
    assert isinstance(texts, list)
    assert [len(t) for t in texts] == [8] * 4
    assert set("".join(texts)) <= set("abcdefghijkl. ")
    batch = np.load(run / "samples/step-00000002/picture-batch.npy")
    assert batch.shape == (4, 9)


def generated(run: Path, *flags: str) -> dict[str, object]:
    done = sexpgpu("generate", run, *flags, "--json", cwd=run.parent)
    assert done.returncode == 0, done.stderr
    document: dict[str, object] = json.loads(done.stdout)
    return document


def texts(document: dict[str, object]) -> list[str]:
    samples: Any = document["samples"]
    assert len(samples) == 1
    return list(samples[0]["texts"])


def test_the_verb_repeats_itself_and_hears_its_flags(run: Path) -> None:
    first = generated(run, "story")
    assert first["step"] == 4
    assert texts(first) == texts(generated(run, "story"))
    assert texts(first) != texts(generated(run, "story", "--seed", "5"))
    greedy = texts(generated(run, "story", "--temperature", "0"))
    assert greedy == [greedy[0]] * 4
    assert texts(generated(run, "story", "--temperature", "1e-300")) == greedy
    assert texts(generated(run, "story", "--top-k", "1")) == greedy
    assert texts(generated(run, "story", "--top-p", "1e-9")) == greedy
    assert greedy[0] != texts(generated(run, "story", "--temperature", "0", "--prompt", "efgh "))[0]


def test_the_run_is_repeated_from_its_own_sources(run: Path) -> None:
    before = texts(generated(run, "story"))
    file = run.parent / "story.sx"
    text = file.read_text("utf-8")
    file.write_text(text.replace("(width 8)", "(width 9)").replace("gru", "broken"), "utf-8")
    try:
        assert texts(generated(run, "story")) == before
    finally:
        file.write_text(text, "utf-8")


def test_pictures_are_files(run: Path, tmp_path: Path) -> None:
    done = sexpgpu("generate", run / "checkpoints" / "step-00000004", "picture", "--out", tmp_path, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    files = done.stdout.splitlines()
    assert files == [str(tmp_path / "picture-grid.png"), str(tmp_path / "picture-batch.npy")]
    assert size(Path(files[0]).read_bytes()) == (10, 8)  # two columns of 5, two rows of 4


def test_pictures_are_not_written_over(run: Path, tmp_path: Path) -> None:
    """All files are kept when one is there: none of the others appears."""
    grid, batch = tmp_path / "picture-grid.png", tmp_path / "picture-batch.npy"
    batch.write_bytes(b"mine")
    done = sexpgpu("generate", run, "picture", "--out", tmp_path, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert f"error[E-IO-107]: {batch} exists already" in done.stderr
    assert batch.read_bytes() == b"mine"
    assert not grid.exists()
    grid.write_bytes(b"mine")
    done = sexpgpu("generate", run, "picture", "--out", tmp_path, cwd=tmp_path)
    assert f"note: {batch} too" in done.stderr
    done = sexpgpu("generate", run, "picture", "--out", tmp_path, "--force", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert np.load(batch).shape == (4, 9)
    assert size(grid.read_bytes()) == (10, 8)


def size(data: bytes) -> tuple[int, int]:
    """Width and height of a PNG whose every checksum holds."""
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    place, header = 8, b""
    while place < len(data):
        (length,) = struct.unpack_from(">I", data, place)
        kind, body = data[place + 4 : place + 8], data[place + 8 : place + 8 + length]
        assert struct.unpack_from(">I", data, place + 8 + length)[0] == zlib.crc32(kind + body)
        header = body if kind == b"IHDR" else header
        place += 12 + length
    width, height = struct.unpack_from(">II", header)
    return width, height


@pytest.mark.parametrize(
    ("flags", "code"),
    [
        (("storry",), "E-RUN-035"),
        ((), "E-RUN-035"),
        (("story", "--prompt", "xyz"), "E-VALUE-031"),
        (("picture", "--prompt", "efgh"), "E-RUN-034"),
    ],
)
def test_what_cannot_be_generated_is_said(flags: tuple[str, ...], code: str, run: Path) -> None:
    done = sexpgpu("generate", run, *flags, cwd=run.parent)
    assert done.returncode == 1
    assert code in done.stderr
    assert done.stdout == ""


def test_what_is_no_run_is_said(tmp_path: Path) -> None:
    done = sexpgpu("generate", tmp_path, cwd=tmp_path)
    assert (done.returncode, "E-CKPT-008" in done.stderr) == (1, True)
    assert "expected: a run's directory, or" in done.stderr
    assert sexpgpu("generate", tmp_path, "--temperature", "-1", cwd=tmp_path).returncode == 2


def test_a_prompt_needs_a_text(tmp_path: Path) -> None:
    from tests.trace.experiments import text_of, write_data

    write_data(tmp_path)
    form = "(defgenerator gen (:trips 1) (:init (ctx) (zeros '(2))) (:trip (s i ctx) s) (:emit (s) (sample 'a s)))"
    (tmp_path / "e.sx").write_text(text_of(eval=form), "utf-8")
    assert sexpgpu("run", "e.sx", "--out", "r", "--quiet", cwd=tmp_path).returncode == 0
    done = sexpgpu("generate", "r", "--prompt", "hi", cwd=tmp_path)
    assert (done.returncode, "E-RUN-034" in done.stderr) == (1, True)


@pytest.mark.parametrize(
    ("shape", "sheet"),
    [((4, 5), (4, 5)), ((3, 4, 5), (4, 5, 3)), ((6, 4, 5), (8, 15)), ((5, 3, 2, 2), (4, 6, 3)), ((0, 1, 2, 2), (2, 2))],
)
def test_images_are_laid_side_by_side(shape: tuple[int, ...], sheet: tuple[int, ...]) -> None:
    images = np.random.default_rng(0).normal(size=shape)
    made = tiled(images)
    assert made.shape == sheet
    assert size(png(made)) == (sheet[1], sheet[0])
    if len(shape) == 2:
        assert (made.min(), made.max()) == (0, 255)
        assert np.array_equal(np.argsort(images.ravel())[[0, -1]], [made.argmin(), made.argmax()])
