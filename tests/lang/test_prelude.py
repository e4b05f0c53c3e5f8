"""What the prelude defines in the language itself."""

from __future__ import annotations

import pytest

from tests.lang.evaluation import shown


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("(list lambda-list-keywords (constantp 'call-arguments-limit))",
         "((&optional &rest &body &key &allow-other-keys &aux &whole &environment) t)"),
        ("(defmacro twice (form) (with-gensyms (v) `(let ((,v ,form)) (+ ,v ,v))))"
         " (let ((n 0) (v 5)) (list (twice (incf n v)) n))", "(10 5)"),
        ("(defmacro square (form) (once-only (form) `(* ,form ,form)))"
         " (let ((n 1)) (list (square (incf n)) n))", "(4 2)"),
        ("(defmacro apart (a b) (once-only (a b) `(list ,b ,a ,a)))"
         " (let ((n 0)) (apart (incf n) (incf n)))", "(2 1 1)"),
        ("(< 3.14 pi 3.15)", "t"),
        ('(with-output-to-string (out) (format out "~a" 1) (write-string "x" out))', '"1x"'),
    ],
)  # fmt: skip
def test_values(text: str, value: str) -> None:
    assert shown(text) == value
