"""Knobs, variants, sweeps and --set: which value wins, and what a mistake says."""

from __future__ import annotations

from pathlib import Path

import pytest

from sexpgpu.diag import Diagnostic, Diagnostics, SxError
from sexpgpu.lang.selection import Selection
from sexpgpu.lang.session import Session
from sexpgpu.lang.standard import standard_session
from tests.lang.evaluation import fault, shown

FILE = """
(defknobs (lr 1e-3) (layers 4) (width (* 2 layers)) (act :relu :choices (:relu :gelu)) (name "x")
          (size 3 :type (integer 1 9)))
(defvariant smoke (layers 2) (act :gelu))
(defsweep scan (lr 3e-4 1e-3) (layers 1 2))
(defsweep both (:zip (lr 1 2) (layers 5 6)))
(defmacro fast (n) `(defvariant ,n (lr 7)))
(fast generated)
(list lr layers width act name size)
"""


def evaluated(folder: Path, text: str, selection: Selection) -> tuple[Session, list[str], list[Diagnostic]]:
    path = folder / "main.sx"
    path.write_text(text, "utf-8")
    diagnostics = Diagnostics()
    session = standard_session(diagnostics)
    results = session.evaluate_file(path, selection)
    return session, [result.line for result in results], list(diagnostics)


@pytest.mark.parametrize(
    ("selection", "values"),
    [
        (Selection(), '(0.001 4 8 :relu "x" 3)'),
        (Selection("smoke"), '(0.001 2 4 :gelu "x" 3)'),
        (Selection("smoke", ("layers=9", "act=relu", "lr=2", "name=foo")), '(2.0 9 18 :relu "foo" 3)'),
        (Selection(sweep="scan", point=2), '(0.001 1 2 :relu "x" 3)'),
        (Selection("smoke", (), "scan", 1), '(3.0e-4 2 4 :gelu "x" 3)'),
        (Selection("smoke", ("layers=8",), "scan", 3), '(0.001 8 16 :gelu "x" 3)'),
        (Selection(sweep="both", point=1), '(2.0 6 12 :relu "x" 3)'),
        (Selection("generated"), '(7.0 4 8 :relu "x" 3)'),
        (Selection(sets=("layers=1", "layers=2")), '(0.001 2 4 :relu "x" 3)'),
        (Selection(sets=("LAYERS=1", "Lr=2")), '(2.0 1 2 :relu "x" 3)'),
        (Selection(sets=("name=w/OK9.csv",)), '(0.001 4 8 :relu "w/OK9.csv" 3)'),
        (Selection(sets=("name= 280kB ", "act=GELU")), '(0.001 4 8 :gelu "280kB" 3)'),
        (Selection(sets=("name=|A b|C",)), '(0.001 4 8 :relu "A bc" 3)'),
        (Selection(sets=("name=NIL",)), '(0.001 4 8 :relu "NIL" 3)'),
    ],
)
def test_values(tmp_path: Path, selection: Selection, values: str) -> None:
    _, lines, found = evaluated(tmp_path, FILE, selection)
    assert (lines[-1], found) == (values, [])


def test_every_values_source_is_recorded(tmp_path: Path) -> None:
    session, _, _ = evaluated(tmp_path, FILE, Selection("smoke", ("width=7",), "scan", 0))
    knobs = {knob.name: (knob.value, knob.source) for knob in session.selected.knobs}
    assert knobs == {
        "lr": ("3.0e-4", "point"),
        "layers": ("1", "point"),
        "width": ("7", "set"),
        "act": (":gelu", "variant"),
        "name": ('"x"', "default"),
        "size": ("3", "default"),
    }
    assert (session.selected.variant, session.selected.point) == ("smoke", "scan/0")


@pytest.mark.parametrize(
    ("selection", "code", "help"),
    [
        (Selection("smke"), "E-KNOB-002", "did you mean `smoke`?"),
        (Selection(sweep="scam", point=0), "E-KNOB-002", "did you mean `scan`?"),
        (Selection(sets=("layer=3",)), "E-KNOB-001", "did you mean `layers`?"),
        (Selection(sweep="scan", point=4), "E-KNOB-004", None),
        (Selection(sets=("layers=",)), "E-KNOB-003", None),
        (Selection(sets=("layers=(1",)), "E-KNOB-003", None),
    ],
)
def test_a_selection_that_the_file_does_not_declare(
    tmp_path: Path, selection: Selection, code: str, help: str | None
) -> None:
    with pytest.raises(SxError) as raised:
        evaluated(tmp_path, FILE, selection)
    assert (raised.value.diagnostic.code, raised.value.diagnostic.help) == (code, help)


@pytest.mark.parametrize("text", ["layers=3.5", "act=tanh", "size=10", "name=3"])
def test_values_of_the_wrong_kind(tmp_path: Path, text: str) -> None:
    _, _, found = evaluated(tmp_path, FILE, Selection(sets=(text,)))
    assert [d.code for d in found] == ["E-KNOB-003"]


SWITCHES = "(defknobs (bias t) (tied nil) (act :tanh) (way nil :choices (nil :up)))\n(list bias tied act way)"


@pytest.mark.parametrize(("text", "values"), [
    ("bias=false", "(nil nil :tanh nil)"),
    ("bias=nil", "(nil nil :tanh nil)"),
    ("tied=true", "(t t :tanh nil)"),
    ("tied=t", "(t t :tanh nil)"),
    ("tied=false", "(t nil :tanh nil)"),
    ("tied=5", "(t 5 :tanh nil)"),
    ("act=:gelu", "(t nil :gelu nil)"),
    ("act=gelu", "(t nil :gelu nil)"),
    ("way=:up", "(t nil :tanh :up)"),
])  # fmt: skip
def test_a_symbol_as_default_says_what_a_knob_takes(tmp_path: Path, text: str, values: str) -> None:
    session, lines, found = evaluated(tmp_path, SWITCHES, Selection(sets=(text,)))
    assert (lines[-1], found) == (values, [])
    assert [knob.type for knob in session.selected.declarations] == ["boolean", None, "keyword", None]


@pytest.mark.parametrize("text", ["bias=no", "bias=0", 'bias="t"', "act=5", "act=nil", "way=:down"])
def test_what_a_symbol_as_default_refuses(tmp_path: Path, text: str) -> None:
    _, _, found = evaluated(tmp_path, SWITCHES, Selection(sets=(text,)))
    assert [d.code for d in found] == ["E-KNOB-003"]


@pytest.mark.parametrize(
    ("text", "code", "place"),
    [
        ("(defknobs (a 1) b)\n(list a)", "E-KNOB-005", "1:17"),
        ("(defknobs (a 1 :tpye integer))\n(list a)", "E-MACRO-001", "1:16"),
        ("(defknobs (a 1))\n(defvariant v (b 2))\n(list a)", "E-KNOB-001", "2:16"),
        ("(defknobs (a 1))\n(defvariant v a)\n(list a)", "E-KNOB-005", "2:15"),
        ("(defknobs (a 1) (b 2))\n(defsweep s (:zip (a 1 2) (b 1)))\n(list a b)", "E-KNOB-004", "2:13"),
        ("(defknobs (a 1 :choices (2 3)))\n(list a)", "E-KNOB-003", "1:14"),
        ("(defknobs (a (car 5)))\n(list a)", "E-TYPE-001", "1:19"),
    ],
)
def test_malformed_declarations(tmp_path: Path, text: str, code: str, place: str) -> None:
    _, _, found = evaluated(tmp_path, text, Selection())
    assert [(d.code, str(d.span)) for d in found if d.severity == "error"] == [
        (code, f"{tmp_path / 'main.sx'}:{place}")
    ]


def test_a_knob_that_nothing_reads_is_a_warning(tmp_path: Path) -> None:
    text = "(defknobs (used 1) (unused 2) (base 3) (derived (* 2 base)))\n(defun f () used)\n(list derived)"
    _, _, found = evaluated(tmp_path, text, Selection())
    assert [(d.code, d.severity, d.message) for d in found] == [
        ("W-KNOB-001", "warning", "nothing reads the knob `unused`")
    ]


def test_declarations_by_macros_declare_nothing_twice(tmp_path: Path) -> None:
    text = "(def log (list 0)) (defknobs (a 1)) (defmacro v (n) `(defvariant ,n (a 2))) (v gen) (incf (car log) a)"
    _, lines, found = evaluated(tmp_path, text, Selection("gen"))
    assert (lines[-1], found) == ("2", [])


def test_all_wrong_values_are_told_at_once(tmp_path: Path) -> None:
    _, _, found = evaluated(tmp_path, FILE, Selection(sets=("layers=a", "lr=b", "act=tanh", "size=4")))
    assert [d.message.partition(":")[0] for d in found] == ["--set lr=b", "--set layers=a", "--set act=tanh"]


@pytest.mark.parametrize(
    ("given", "wrong"),
    [
        ("lr=" + "9" * 5_000, "not within the range of a float"),
        ("lr=\udcff", "bytes that are not UTF-8"),
        ("lr=#.(+ 1 2)", "`#.` is for a file"),
        ("lr=(1 #.2)", "`#.` is for a file"),
    ],
    ids=["large", "bytes", "evaluated", "evaluated-inside"],
)
def test_a_value_that_no_knob_takes_is_told_briefly(tmp_path: Path, given: str, wrong: str) -> None:
    diagnostics = Diagnostics()
    path = tmp_path / "main.sx"
    path.write_text("(defknobs (lr 0.1))\nlr", "utf-8")
    try:
        standard_session(diagnostics).evaluate_file(path, Selection(sets=(given,)))
    except SxError as fault:
        diagnostics.report(fault.diagnostic)
    (found,) = (d for d in diagnostics if d.severity == "error")
    assert (found.code, wrong in found.message, len(found.message) < 130) == ("E-KNOB-003", True, True)


def test_all_wrong_names_are_told_at_once(tmp_path: Path) -> None:
    diagnostics = Diagnostics()
    path = tmp_path / "main.sx"
    path.write_text(FILE, "utf-8")
    with pytest.raises(SxError, match="`b`"):
        standard_session(diagnostics).evaluate_file(path, Selection(sets=("a=1", "lr=(", "b=2")))
    assert [d.code for d in diagnostics] == ["E-KNOB-001", "E-KNOB-003"]


@pytest.mark.parametrize("text", ["(defknobs (a 1) (a 2))\n(list a)", "(defknobs (a 1))\n(defknobs (a 2))\n(list a)"])
def test_a_knob_is_declared_once(tmp_path: Path, text: str) -> None:
    _, _, found = evaluated(tmp_path, text, Selection())
    assert [d.code for d in found] == ["E-KNOB-007"]
    assert "main.sx:1:12" in str(found[0].notes[0].span)


def test_a_knob_of_a_module_is_not_set(tmp_path: Path) -> None:
    (tmp_path / "part.sx").write_text("(defknobs (depth 3))\n(defun f () depth)\n", "utf-8")
    path = tmp_path / "main.sx"
    path.write_text('(require "./part.sx")\n(f)\n', "utf-8")
    with pytest.raises(SxError) as caught:
        standard_session(Diagnostics()).evaluate_file(path, Selection(sets=("depth=4",)))
    assert "a required module" in caught.value.diagnostic.notes[0].text


def test_what_a_form_prints_is_its_output() -> None:
    session = standard_session(Diagnostics())
    results = session.evaluate_text('(format t "a~%")\n(list 1)\n(progn (princ 2) (princ 3))', "test.sx")
    assert [result.output for result in results] == ["a\n", "", "23"]


KNOBS = "(defknobs (width 8) (act 'tanh :choices (tanh relu)) (lr 0.1))\n(list width act lr)\n"


@pytest.mark.parametrize(("form", "code", "column"), [
    ("(defvariant smoke (width 4.5))", "E-KNOB-003", 26),
    ("(defvariant smoke (act 'gelu))", "E-KNOB-003", 24),
    ("(defvariant smoke (width (car 3)))", "E-TYPE-001", 31),
    ("(defvariant smoke (width 3) (width 4))", "E-KNOB-007", 30),
    ("(progn (defvariant smoke (width 3)) (defvariant smoke (width 4)))", "E-KNOB-007", 49),
    ("(defsweep scan (width 1 2.5))", "E-KNOB-003", 25),
    ("(defsweep scan (:zip (act 'tanh 'gelu) (width 1 2)))", "E-KNOB-003", 33),
    ("(defsweep scan (width 1) (width 2))", "E-KNOB-007", 27),
    ("(defsweep scan)", "E-KNOB-005", 1),
    ("(defsweep scan (:zip))", "E-KNOB-005", 16),
    ("(defknobs (e 1 :choices 3))", "E-KNOB-005", 25),
    ("(defknobs (e 1 :choices '(1 2)))", "E-KNOB-005", 25),
    ("(defknobs (e 1 :type strng))", "E-TYPE-004", 22),
    ("(defknobs (nil 5))", "E-NAME-004", 12),
    ("(defknobs (t 5))", "E-NAME-004", 12),
    ("(defknobs (pi 5))", "E-NAME-004", 12),
    ("(defknobs (:k 5))", "E-NAME-004", 12),
])  # fmt: skip
def test_declarations_are_checked_selected_or_not(form: str, code: str, column: int) -> None:
    found = fault(KNOBS + form)
    assert found.span is not None
    assert (found.code, found.span.line, found.span.col) == (code, 3, column)


def test_a_variant_above_its_knob_is_checked_too(tmp_path: Path) -> None:
    text = "(defvariant early (late 1.5))\n(defknobs (late 3))\nlate"
    _, _, found = evaluated(tmp_path, text, Selection())
    assert [(d.code, d.span and d.span.line) for d in found] == [("E-KNOB-003", 1)]


def test_what_a_float_knob_takes() -> None:
    assert shown(KNOBS + "(defvariant whole (lr 1))\nlr") == "0.1"


@pytest.mark.parametrize("form", [
    "(defun ff () (defvariant nn (width 1)))",
    "(when nil (defknobs (inner 3)))",
    '(when t (require "./missing.sx"))',
    "(let () (provide width))",
])  # fmt: skip
def test_what_stands_only_at_the_top(form: str) -> None:
    assert fault(KNOBS + form).code == "E-MOD-006"


def test_a_progn_or_macro_may_declare() -> None:
    text = "(defmacro knobs () '(progn (defknobs (made 3)) (defvariant more (made 4))))\n(progn (knobs))\nmade"
    assert shown(text) == "3"
