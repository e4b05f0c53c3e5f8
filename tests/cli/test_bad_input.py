"""Bad input of every kind: a coded error on standard error, the right exit code, nothing lost, never a traceback."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.trace.experiments import text_of, write, write_data


def sexpgpu(
    *arguments: str | Path, cwd: Path | None = None, timeout: float | None = None
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "sexpgpu", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd, timeout=timeout)


def refused(done: subprocess.CompletedProcess[str], code: str, exit_code: int = 1) -> None:
    """The command failed as a user's fault with `code`, and said so on standard error alone."""
    assert done.returncode == exit_code, (done.stdout, done.stderr)
    assert f"[{code}]" in done.stderr, done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_a_missing_data_file(tmp_path: Path) -> None:
    file = write(tmp_path)
    (tmp_path / "y.npy").unlink()
    refused(sexpgpu("check", file), "E-LOAD-005")  # nothing declares the type of its records
    declared = write(tmp_path, data='(def xs (npy "x.npy")) (def ys (npy "gone.npy" :shape \'(10) :dtype :i64))')
    assert sexpgpu("check", declared).returncode == 0
    refused(sexpgpu("run", declared, "--out", tmp_path / "run", "--quiet"), "E-LOAD-001")


def test_a_truncated_data_file(tmp_path: Path) -> None:
    file = write(tmp_path)
    data = (tmp_path / "x.npy").read_bytes()
    (tmp_path / "x.npy").write_bytes(data[:-7])
    refused(sexpgpu("run", file, "--out", tmp_path / "run", "--quiet"), "E-LOAD-003")


@pytest.mark.parametrize(
    ("form", "actual"),
    [('(csv "t.csv" "x" "nope")', "nope"), ('(csv "t.csv" "x" 2)', "2"), ('(csv "t.csv" "x" "nope" :skip 1)', "x")],
)
def test_a_missing_column_is_told_where_the_table_is_named(form: str, actual: str, tmp_path: Path) -> None:
    """By `check` as by `run`, though the loader's field has the table inside another source; without the file not."""
    (tmp_path / "t.csv").write_text("x,y\n1,2\n3,4\n", "utf-8")
    loader = f"(def table {form})\n(defloader train-loader (:batch 2) (x xs) (y ys) (z (take table 2)))"
    file = write(tmp_path, loader=loader)
    line = next(n for n, text in enumerate(file.read_text("utf-8").splitlines(), 1) if "(def table" in text)
    for words in (("check", file), ("run", file, "--out", tmp_path / "run", "--quiet")):
        done = sexpgpu(*words)
        refused(done, "E-LOAD-004")
        assert f"experiment.sx:{line}:12: error[E-LOAD-004]" in done.stderr
        assert f"  actual:   {actual}\n" in done.stderr
    (tmp_path / "t.csv").unlink()
    declared = write(tmp_path, loader=loader.replace("table 2", "table 10"))
    assert "E-LOAD-004" not in sexpgpu("check", declared).stderr


def test_data_of_another_dtype_than_declared(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        data='(def xs (npy "x.npy" :dtype :f64)) (def ys (npy "y.npy"))',
        prepare="(defun prepare (batch) (values (cast (field batch 'x) :float) (field batch 'y)))",
    )
    done = sexpgpu("run", file, "--out", tmp_path / "run", "--quiet")
    refused(done, "E-LOAD-007")
    assert "f64" in done.stderr
    assert "f32" in done.stderr


def test_an_unknown_knob(tmp_path: Path) -> None:
    done = sexpgpu("check", write(tmp_path), "--set", "widht=4")
    refused(done, "E-KNOB-001")
    assert "`width`" in done.stderr


def test_a_shape_error_says_where_the_sizes_come_from(tmp_path: Path) -> None:
    file = write(tmp_path, model="(defmodel net () (defparam w (width 2) :init (zeros-init))"
                                 " (forward (x) (matmul x (transpose w))))")  # fmt: skip
    done = sexpgpu("check", file)
    refused(done, "E-SHAPE-013")
    assert f"{file}:6:" in done.stderr
    assert (
        "transpose of parameter model.w, declared (width 2); 3 is the value of knob width (default, 2:12)"
        in done.stderr
    )
    assert "field x of loader train-loader" in done.stderr


def test_a_tensor_in_an_if(tmp_path: Path) -> None:
    file = write(tmp_path, objective="(defun objective (logits labels) (if (mean logits) 1.0 0.0))")
    done = sexpgpu("check", file)
    refused(done, "E-FLOW-001")
    assert "where" in done.stderr


def test_an_unclosed_parenthesis(tmp_path: Path) -> None:
    file = write(tmp_path)
    file.write_text(text_of(prepare="(defun prepare (batch) (values (field batch 'x) (field batch 'y))"))
    done = sexpgpu("check", file)
    assert done.returncode == 1
    assert "[E-READ-" in done.stderr
    assert f"{file}:5:1" in done.stderr


def test_an_empty_file(tmp_path: Path) -> None:
    file = tmp_path / "empty.sx"
    file.write_text("")
    done = sexpgpu("check", file)
    refused(done, "E-RUN-007")
    assert "[E-RUN-001]" in done.stderr


@pytest.mark.parametrize("verb", ["check", "run", "explain", "eval", "ir"])
def test_a_directory_or_nothing_at_all(verb: str, tmp_path: Path) -> None:
    refused(sexpgpu(verb, tmp_path), "E-IO-102")
    refused(sexpgpu(verb, tmp_path / "nothing.sx"), "E-IO-101")


def test_random_bytes(tmp_path: Path) -> None:
    rng = random.Random(0)
    for i in range(5):
        file = tmp_path / f"noise{i}.sx"
        file.write_bytes(rng.randbytes(300))
        refused(sexpgpu("check", file), "E-IO-103")
    file.write_text("".join(rng.choice("()'`,@#|\"; a1\n") for _ in range(300)))
    done = sexpgpu("check", file)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("verb", ["check", "fmt", "reduce"])
def test_a_byte_that_is_no_text_has_a_place(verb: str, tmp_path: Path) -> None:
    file = tmp_path / "latin.sx"
    file.write_bytes("(def ä 1)\r\n(def ä ".encode() + b"\xe4)\n")
    done = sexpgpu(verb, file, *(["--internal"] if verb == "reduce" else []))
    refused(done, "E-IO-103")
    assert f"{file}:2:8: error[E-IO-103]" in done.stderr


def test_a_flipped_bit_in_a_checkpoint_loses_nothing(tmp_path: Path) -> None:
    file = write(tmp_path, run="(defrun :steps 8 :seed 1 :checkpoint '(:every 2 :keep 9))")
    out = tmp_path / "run"
    assert sexpgpu("run", file, "--out", out, "--steps", "6", "--quiet").returncode == 0
    checkpoints = sorted(p for p in (out / "checkpoints").iterdir() if p.is_dir() and p.name.startswith("step-"))
    newest = checkpoints[-1]
    blob = max(newest.glob("*.safetensors"), key=lambda p: p.stat().st_size)
    data = bytearray(blob.read_bytes())
    data[len(data) // 2] ^= 4
    blob.write_bytes(bytes(data))
    refused(sexpgpu("run", file, "--out", tmp_path / "other", "--resume", newest, "--quiet"), "E-CKPT-002")
    done = sexpgpu("run", file, "--out", out, "--resume", "latest", "--quiet")
    assert done.returncode == 0, done.stderr
    assert newest.name in done.stderr  # said loudly which one was passed over
    events = map(json.loads, (out / "events.jsonl").read_text().splitlines())
    assert [e["step"] for e in events if e["event"] == "step"] == list(range(8))


def test_weights_that_do_not_fit_are_listed(tmp_path: Path) -> None:
    from safetensors.numpy import save_file

    file = write(tmp_path)
    weights = {"model.out.weight": np.zeros((2, 4), np.float32), "model.extra": np.zeros(3, np.float32)}
    save_file(weights, tmp_path / "w.safetensors")
    done = sexpgpu("run", file, "--init", tmp_path / "w.safetensors", "--out", tmp_path / "run", "--quiet")
    assert done.returncode == 1
    for part in ("model.out.weight", "model.extra", "model.out.bias"):
        assert part in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("check",),
        ("cheq", "x.sx"),
        ("check", "x.sx", "--set", "width"),
        ("check", "x.sx", "--sweep", "lr"),
        ("run", "x.sx", "--steps", "0"),
        ("run", "x.sx", "--device", "gpu"),
        ("run", "x.sx", "--out", ""),
        ("explain-code", "E-NOTHING-1"),
        ("check", "x.sx", "--no-such-flag"),
    ],
)
def test_wrong_usage_is_exit_code_2(arguments: tuple[str, ...], tmp_path: Path) -> None:
    done = sexpgpu(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "Traceback" not in done.stderr


def test_a_device_that_is_not_there_is_exit_code_3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEXPGPU_DEVICE", "quantum")
    write_data(tmp_path)
    refused(sexpgpu("run", write(tmp_path), "--quiet"), "E-DEV-001", 3)


@pytest.mark.parametrize(
    "words", ["check", "diff A", "eval", "explain", "ir", "lsp", "passes", "reduce --internal", "run", "watch"]
)
def test_a_variable_that_nothing_would_look_at_is_refused_all_the_same(
    words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By every verb that compiles."""
    monkeypatch.setenv("SEXPGPU_EXPLAIN", "foo")
    write_data(tmp_path)
    verb, *flags = words.split()
    files = [] if verb == "lsp" else [write(tmp_path)]
    refused(sexpgpu(verb, *flags, *files), "E-DEV-001", 3)
    assert sexpgpu(verb, "--help").returncode == 0


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        ("SEXPGPU_DEVICES", "nan", "E-DP-001"),
        ("SEXPGPU_NODES", "nan", "E-DP-005"),
        ("SEXPGPU_NODE_RANK", "1", "E-DP-005"),
        ("SEXPGPU_NODE_GRADIENTS", "f16", "E-DP-005"),
    ],
)
def test_so_is_one_of_gpus_or_machines(
    name: str, value: str, code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    write_data(tmp_path)
    file = write(tmp_path)
    for verb in ("check", "run"):
        refused(sexpgpu(verb, file), code, 1)
    assert sexpgpu("doctor", cwd=tmp_path).returncode == 3


def test_the_edits_of_an_empty_file_bring_what_they_use(tmp_path: Path) -> None:
    file = tmp_path / "empty.sx"
    file.write_text("", "utf-8")
    document = json.loads(sexpgpu("check", file, "--json").stdout)
    edits = [edit["text"] for found in document["diagnostics"] for edit in found["fix"]]
    assert [text.split("\n")[1:] for text in edits] == [
        ['(require "sexpgpu/optim")', "(def optimizer (adamw :lr 1e-3))"],
        ["(defrun :steps 1000 :seed 1)"],
    ]
    file.write_text("".join(edits), "utf-8")
    left = json.loads(sexpgpu("check", file, "--json").stdout)["diagnostics"]
    assert [d["code"] for d in left] == ["E-RUN-001", "E-RUN-002", "E-RUN-003", "E-RUN-004"]
