"""Where a name is bound, by the look of the form around it: `<` stands before the binding, `^` before the use."""

from __future__ import annotations

import pytest

from sexpgpu.editor.bindings import binding
from sexpgpu.lang.forms import Source

VARIABLES = [
    "(defun f (<x) (+ ^x 1))",
    "(defun f (x &optional (<y 2)) (+ ^y 1))",
    "(defun f (<x &optional (y ^x)) y)",
    "(defmodel m (&key ((:bias <bias-p) t)) (forward (x) (if ^bias-p x 1)))",
    "(defmodel m (width) (forward (<x) (* ^x width)))",
    "(defmodel m (<width) (forward (x) (* x ^width)))",
    "(defoptimizer o (&key (lr 0.1)) (optimizer-update (param <grad ctx) (- param (* lr ^grad))))",
    "(let ((x 1)) (let ((<x 2)) ^x))",
    "(let ((<x 1)) (let ((x ^x)) x))",
    "(let ((x 1)) (let* ((<x 2) (y ^x)) y))",
    "(let ((<^x 1)) x)",
    "(let (<x) (setq ^x 2))",
    "(dolist (<b blocks) (setq x (funcall ^b x)))",
    "(let ((<n 3)) (dotimes (i ^n) i))",
    "(repeat (<i 3) (block ^i))",
    "(do ((<i 0 (1+ ^i))) ((= i 3)) i)",
    "(destructuring-bind (a (b <c)) list (+ a ^c))",
    "(multiple-value-bind (q <r) (floor 7 2) ^r)",
    "(let ((<q 1)) (multiple-value-bind (q r) (floor ^q 2) r))",
    "(loop for <x in '(1 2) collect ^x)",
    "(loop for (a <b) in pairs collect ^b)",
    "(loop for x in l with <n = 0 do (incf ^n x))",
    "(loop for x in l sum x into <total finally (return ^total))",
    "(handler-case (f) (error (<e) (print ^e)))",
    "(flet ((g (<x) (* 2 ^x))) (g 1))",
    "(let ((<x 1)) (flet ((g (y) (* ^x y))) (g 1)))",
    "(mapcar (lambda (<x &rest more) (+ ^x 1)) l)",
    "(with-gensyms (<g) `(let ((,^g 1)) 2))",
    "(defmacro m (<form) `(let ((it ,^form)) it))",
]
FUNCTIONS = [
    "(flet ((<g (x) x)) (^g 1))",
    "(labels ((<g (x) (^g x))) (g 1))",
    "(flet ((g (x) x)) (macrolet ((<g (x) x)) (^g 1)))",
    "(labels ((<even (n) (odd n)) (odd (n) (^even n))) (even 1))",
    "(flet ((<g (x) x)) (mapcar #'^g l))",
    "(flet ((<^g (x) x)) 1)",
]
NOWHERE = [
    ("(let ((x ^x)) 1)", False),
    ("(defun f (x) ^y)", False),
    ("(flet ((g (x) (^g x))) 1)", True),
    ("(let ((g 1)) (^g 1))", True),
    ("(dotimes (i ^i) 1)", False),
    ("(let ((x 1", False),
]


def marked(form: str) -> tuple[str, int | None, int, str]:
    """The text without its marks, where the binding and the use are, and the name used."""
    text = form.replace("<", "").replace("^", "")
    use = form.replace("<", "").find("^")
    bound = form.replace("^", "").find("<")
    name = "".join(iter_name(text[use:]))
    return text, bound if bound >= 0 else None, use, name


def iter_name(text: str) -> list[str]:
    end = next((i for i, c in enumerate(text) if c in " ()"), len(text))
    return list(text[:end])


@pytest.mark.parametrize("form", VARIABLES)
def test_variables(form: str) -> None:
    text, bound, use, name = marked(form)
    assert binding(Source("", text), 0, use, name, called=False) == bound


@pytest.mark.parametrize("form", FUNCTIONS)
def test_functions(form: str) -> None:
    text, bound, use, name = marked(form)
    assert binding(Source("", text), 0, use, name, called=True) == bound


@pytest.mark.parametrize(("form", "called"), NOWHERE)
def test_what_the_form_does_not_bind(form: str, called: bool) -> None:
    text, _, use, name = marked(form)
    assert binding(Source("", text), 0, max(use, 0), name or "x", called) is None
