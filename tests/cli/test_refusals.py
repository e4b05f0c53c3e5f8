"""What `run`, `eval` and `generate` refuse, they refuse before any file is made or changed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.cli.test_bad_input import sexpgpu
from tests.trace.experiments import text_of, write_data

GENERATOR = """(defgenerator gen (:trips 1000000000)
  (:init (ctx) (random-normal '(1 1 3 3)))
  (:trip (s i ctx) (+ s 1.0))
  (:emit (s) (sample 'grid s :as :image) (sample 'all s)))
"""


def snapshot(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Every file below with its time and content, and every folder."""
    return {
        str(path.relative_to(folder)): (path.stat().st_mtime_ns, path.read_bytes()) if path.is_file() else (0, b"")
        for path in folder.rglob("*")
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An experiment with a run of 4 steps in `done`, another with one in `other`, and files that are no weights."""
    folder = tmp_path_factory.mktemp("refusals")
    write_data(folder)
    (folder / "e.sx").write_text(
        text_of(eval=GENERATOR, knobs="(defknobs (width 3) (rate 0.1))", optimizer="(def optimizer (sgd :lr rate))"),
        "utf-8",
    )
    (folder / "variants.sx").write_text(text_of() + "(defvariant smoke (width 2))\n", "utf-8")
    (folder / "other.sx").write_text(text_of(optimizer="(def optimizer (adam :lr 0.1))"), "utf-8")
    (folder / "lost.sx").write_text(
        text_of(data='(def xs (npy "x.npy")) (def ys (npy "gone.npy" :shape \'(10) :dtype :i64))'), "utf-8"
    )
    (folder / "bad.safetensors").write_bytes(b"no weights")
    np.save(folder / "w.npy", np.zeros(3))
    for file, out in (("e.sx", "done"), ("other.sx", "other")):
        done = sexpgpu("run", file, "--out", out, "--quiet", cwd=folder)
        assert done.returncode == 0, done.stderr
    return folder


RUNS = [
    ("e.sx --steps 40", 1, "E-RUN-101"),
    ("e.sx --steps 0", 2, "0 is not in the range x>=1"),
    ("e.sx --steps many", 2, "'many' is not a valid integer"),
    ("e.sx --device tpu", 2, "'tpu' is not"),
    ("e.sx --init gone.safetensors", 1, "E-CKPT-007"),
    ("e.sx --init bad.safetensors", 1, "E-CKPT-007"),
    ("e.sx --init bad.safetensors --resume latest", 2, "--init starts a run"),
    ("e.sx --resume nowhere", 1, "E-CKPT-008"),
    ("e.sx --resume other", 1, "E-CKPT-008"),
    ("e.sx --resume other/checkpoints/step-00000004", 1, "E-CKPT-003"),
    ("e.sx --resume done/checkpoints/step-00000004 --steps 3", 1, "E-RUN-102"),
    ("e.sx --set widht=4", 1, "E-KNOB-001"),
    ("e.sx --set width=four", 1, "E-KNOB-003"),
    ("e.sx --set width=2.5", 1, "E-KNOB-003"),
    ("e.sx --set width", 2, "--set"),
    ("variants.sx --variant smkoe", 1, "E-KNOB-002"),
    ("e.sx --variant smoke", 1, "E-KNOB-002"),
    ("lost.sx", 1, "E-LOAD-001"),
    ("gone.sx", 1, "E-IO-101"),
]


@pytest.mark.parametrize(("flags", "code", "told"), RUNS, ids=[case[0] for case in RUNS])
@pytest.mark.parametrize("out", [None, "new/deep"])
def test_a_refused_run_makes_nothing(out: str | None, flags: str, code: int, told: str, folder: Path) -> None:
    before = snapshot(folder)
    done = sexpgpu("run", *flags.split(), "--quiet", *(("--out", out) if out else ()), cwd=folder)
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    assert told in done.stderr
    assert "Traceback" not in done.stderr
    assert snapshot(folder) == before


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        ("e.sx", "E-IO-002"),
        ("e.sx --resume latest --steps 40", "E-RUN-101"),
        ("e.sx --resume latest --steps 2", "E-RUN-102"),
        ("e.sx --resume latest --set rate=0.2", "E-CKPT-003"),
        ("other.sx --resume latest", "E-CKPT-003"),
        ("other.sx --resume latest --allow-changed", "E-CKPT-004"),
        ("e.sx --resume other/checkpoints/step-00000004 --allow-changed", "E-CKPT-004"),
    ],
)
def test_a_refused_run_changes_nothing_of_another(flags: str, told: str, folder: Path) -> None:
    before = snapshot(folder)
    done = sexpgpu("run", *flags.split(), "--quiet", "--out", "done", cwd=folder)
    assert (done.returncode, done.stdout) == (1, ""), done.stderr
    assert f"[{told}]" in done.stderr
    assert snapshot(folder) == before


GENERATES = [
    ("--temperature nan", 2, "nan is not a finite number x>=0.0"),
    ("--temperature inf", 2, "inf is not a finite number x>=0.0"),
    ("--temperature -0.5", 2, "-0.5 is not in the range x>=0.0"),
    ("--temperature warm", 2, "'warm' is not a valid float"),
    ("--top-k 0", 2, "0 is not in the range x>=1"),
    ("--top-k -3", 2, "-3 is not in the range x>=1"),
    ("--top-k 1.5", 2, "'1.5' is not a valid integer"),
    ("--top-p 0", 2, "0.0 is not in the range 0.0<x<=1.0"),
    ("--top-p 1.1", 2, "1.1 is not in the range 0.0<x<=1.0"),
    ("--top-p nan", 2, "nan is not a finite number x>0.0"),
    ("--seed -1", 2, "-1 is not in the range"),
    ("--count 0", 2, "No such option '--count'"),
    ("--prompt hello", 1, "E-RUN-034"),
    ("nobody", 1, "E-RUN-035"),
    ("--out taken", 1, "E-IO-107"),
    ("--out linked", 1, "E-IO-107"),
    ("--out e.sx", 1, "E-IO-001"),
    ("--out e.sx/below", 1, "E-IO-001"),
]


@pytest.mark.parametrize(("flags", "code", "told"), GENERATES, ids=[case[0] for case in GENERATES])
def test_a_refused_generation_samples_and_writes_nothing(flags: str, code: int, told: str, folder: Path) -> None:
    """The generator would take hours: that it has not begun is seen from the time."""
    (folder / "taken").mkdir(exist_ok=True)
    (folder / "taken" / "gen-all.npy").write_bytes(b"mine")
    (folder / "linked").mkdir(exist_ok=True)
    if not (link := folder / "linked" / "gen-grid.png").is_symlink():
        link.symlink_to("nowhere")
    before = snapshot(folder)
    done = sexpgpu("generate", "done", *flags.split(), cwd=folder, timeout=100)
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    assert told in done.stderr
    assert "Traceback" not in done.stderr
    assert snapshot(folder) == before


@pytest.mark.parametrize(
    ("flags", "code", "told"),
    [
        ("e.sx --set widht=4", 1, "E-KNOB-001"),
        ("e.sx --set width=four", 1, "E-KNOB-003"),
        ("variants.sx --variant smkoe", 1, "E-KNOB-002"),
        ("gone.sx", 1, "E-IO-101"),
        (". --json", 1, "E-IO-102"),
        ("", 2, "eval takes a FILE"),
        ("--where nobody-knows", 1, "nobody-knows"),
    ],
)
def test_a_refused_evaluation_makes_nothing(flags: str, code: int, told: str, folder: Path) -> None:
    before = snapshot(folder)
    done = sexpgpu("eval", *flags.split(), cwd=folder)
    assert done.returncode == code, done.stderr
    assert told in done.stderr + done.stdout
    assert "Traceback" not in done.stderr
    assert snapshot(folder) == before
