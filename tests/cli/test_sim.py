"""`sexpgpu-sim`: arguments, what it prints, faults of files and kernels."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from sexpgpu.diag import SxError
from sexpgpu.sim.arguments import FLOATS, INTEGERS, decoded, read_argument
from tests.sim.snippets import entry

ADD = entry(
    """
    .reg .u64 %a, %b; .reg .f32 %x, %y; mad.wide.u32 %a, %i, 4, %p0; mad.wide.u32 %b, %i, 4, %p1;
    ld.global.f32 %x, [%a]; add.f32 %y, %x, %x; st.global.f32 [%b], %y;
    """,
    2,
    "add",
)


def tool(*arguments: str, cwd: Path, text: str | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from sexpgpu.__main__ import sim; sim()", *arguments]
    return subprocess.run(command, cwd=cwd, input=text, capture_output=True, text=True, check=False)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "add.ptx").write_text(ADD, encoding="utf-8")
    return tmp_path


GIVEN = ("--grid", "2", "--block", "32", "--arg", "f32:64:range", "--arg", "f32:64:empty")


def test_what_a_kernel_did(folder: Path) -> None:
    done = tool("add.ptx", *GIVEN, cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    first, second, name, *report = done.stdout.splitlines()
    assert first.startswith("f32:64:range  as before  ")
    assert second.startswith("f32:64:empty  written  ")
    assert second.endswith("0 2 4 6 8 10 12 14 …")
    assert name == "add"
    assert "  global written      256 bytes" in report


def test_as_one_document(folder: Path) -> None:
    done = tool("-", "--json", "--race", "1", *GIVEN, cwd=folder, text=ADD)
    document = json.loads(done.stdout)
    assert document["schema"] == 1
    assert document["report"]["read"] == 256
    assert [a["changed"] for a in document["arrays"]] == [False, True]
    assert document["arrays"][1]["first"] == [2.0 * i for i in range(8)]


def test_the_example_of_the_help(folder: Path) -> None:
    shown = tool("--help", cwd=folder).stdout
    assert "sexpgpu-sim softmax.ptx --grid 4 --block 128 --arg f32:4096:random --arg f32:4096:empty" in shown
    assert "FILL: zeros ones range random" in shown


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("nothing.ptx",), 1, "E-IO-101"),
        (("ad.ptx",), 1, "did you mean add.ptx?"),
        ((".",), 1, "expected: a .ptx file"),
        (("binary.ptx",), 1, "E-IO-103"),
        (("prose.ptx",), 1, "E-SIM-001"),
        (("two.ptx", *GIVEN), 2, "add, sub; name one by --entry"),
        (("two.ptx", "--entry", "ad", *GIVEN), 1, "E-SIM-004"),
        (("add.ptx", "--grid", "x"), 2, "is not X, X,Y or X,Y,Z"),
        (("add.ptx", "--block", "2048", *GIVEN[4:]), 1, "E-SIM-005"),
        (("add.ptx",), 1, "expected: 2 arguments"),
        (("add.ptx", *GIVEN[:-2], "--arg", "u32:-5"), 1, "from 0 to 4294967295"),
        (("loop.ptx", "--visits", "1000"), 1, "actual:   1,000 visits"),
        (("loop.ptx",), 1, "E-SIM-043"),
        (("add.ptx", "--arg", "f23:1"), 1, "did you mean f32?"),
        (("add.ptx", *GIVEN, "--shared", "-1"), 2, "-1 is not in the range x>=0"),
        (("add.ptx", *GIVEN, "--seed", "-1"), 2, "-1 is not in the range x>=0"),
        (("add.ptx", *GIVEN, "--race", "-1"), 2, "-1 is not in the range x>=0"),
        (("add.ptx", *GIVEN, "--grid", "3"), 1, "E-SIM-020"),
        (("add.ptx", *GIVEN[:4], "--arg", "f32:64:empty", "--arg", "f32:64:empty"), 1, "E-SIM-023"),
    ],
)
def test_what_cannot_be_run(folder: Path, arguments: tuple[str, ...], code: int, said: str) -> None:
    (folder / "binary.ptx").write_bytes(b"\xff\xfe\x00")
    (folder / "loop.ptx").write_text(entry("LOOP: bra LOOP;", 0, "loop"), encoding="utf-8")
    (folder / "prose.ptx").write_text("Once upon a time", encoding="utf-8")
    (folder / "two.ptx").write_text(ADD + ADD.split("64\n", 1)[1].replace("add(", "sub("), encoding="utf-8")
    done = tool(*arguments, cwd=folder)
    assert done.returncode == code
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_what_is_wrong_in_standard_input(folder: Path) -> None:
    """Its place has one name, and its document that of the program."""
    said = tool("-", cwd=folder, text=".version 8.0\n.target sm_80\nthere is nothing here\n").stderr
    assert "\n-:3:1: error[E-SIM-" in f"\n{said}"
    done = tool("nothing.ptx", "--json", cwd=folder)
    document = json.loads(done.stdout)
    assert (document["verb"], document["ok"]) == ("sexpgpu-sim", False)


def test_quick_looks_for_less(folder: Path) -> None:
    unwritten = (*GIVEN[:4], "--arg", "f32:64:empty", "--arg", "f32:64:empty")
    assert tool("add.ptx", "--quick", *unwritten, cwd=folder).returncode == 0


@pytest.mark.parametrize("kind", [*FLOATS, *INTEGERS])
def test_arrays_of_every_type(kind: str) -> None:
    for fill, wanted in (("ones", [1, 1, 1]), ("range", [0, 1, 2]), ("zeros", [0, 0, 0])):
        given = read_argument(f"{kind}:3:{fill}", 0)
        assert given.elements is not None
        assert decoded(kind, given.elements).tolist() == wanted
    random, again, other = (read_argument(f"{kind}:50:random", seed).elements for seed in (1, 1, 2))
    assert random is not None
    assert again is not None
    assert other is not None
    assert random.tobytes() == again.tobytes() != other.tobytes()


def test_numbers() -> None:
    assert read_argument("i32:-5", 0).value == -5
    assert read_argument("u64:0x10", 0).value == 16
    assert read_argument("f64:1e-3", 0).value == 1e-3
    assert read_argument("bf16:1", 0).value == np.uint16(0x3F80).tobytes()
    assert read_argument("f16:inf", 0).value == np.uint16(0x7C00).tobytes()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "f32",
        "f32:",
        "f32:x",
        "i32:1.5",
        "f32:many:ones",
        "f32:3:twos",
        "f32:99999999999:ones",
        "u32:-5",
        "u8:256",
        "i8:-129",
        "i32:2147483648",
        "u64:-1",
        "f16:70000",
        "f32:1e39",
        "bf16:-1e400",
        "f32:\u0663:zeros",  # a digit, of Arabic
    ],
)
def test_arguments_that_cannot_be_made(text: str) -> None:
    with pytest.raises(SxError) as found:
        read_argument(text, 0)
    assert found.value.diagnostic.code == "E-SIM-006"
