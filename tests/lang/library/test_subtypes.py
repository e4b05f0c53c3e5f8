"""subtypep: whether one type is part of another, and whether that can be told."""

from __future__ import annotations

import pytest

from tests.lang.evaluation import fault, shown

YES, NO, UNKNOWN = "t ; t", "nil ; t", "nil ; nil"


@pytest.mark.parametrize(
    ("types", "answer"),
    [
        ("'integer 'real", YES),
        ("'real 'integer", NO),
        ("'(integer 2 5) '(integer 0 9)", YES),
        ("'(integer 2 5) '(integer 3 9)", NO),
        ("'(integer 0 9) '(or (integer 0 4) (integer 5 9))", YES),
        ("'(integer (0) (3)) '(member 1 2)", YES),
        ("'(real 0 1) '(or (rational 0 1) (float 0 1))", YES),
        ("'(rational 0 1) '(or (member 0 1) ratio)", YES),
        ("'(float 0.0 0.0) '(member 0.0)", NO),
        ("'bit 'fixnum", YES),
        ("'(unsigned-byte 8) '(mod 256)", YES),
        ("'(signed-byte 8) '(integer -128 127)", YES),
        ("'bignum 'fixnum", NO),
        ("'null 'list", YES),
        ("'list '(or null cons)", YES),
        ("'(and list (not null)) 'cons", YES),
        ("'boolean 'symbol", YES),
        ("'keyword 'symbol", YES),
        ("'symbol '(or keyword boolean)", NO),
        ("'(cons integer) '(cons real t)", YES),
        ("'(cons (integer 0 9) t) '(or (cons (integer 0 4) t) (cons (integer 5 9) t))", YES),
        ("'(cons real null) '(cons integer)", NO),
        ("'string 'vector", YES),
        ("'(vector t 3) '(simple-array * (*))", NO),
        ("'(simple-array t (2 3)) '(array t 2)", YES),
        ("'(array t 2) 'vector", NO),
        ("'simple-vector 'sequence", YES),
        ("'standard-char 'character", YES),
        ("'simple-error '(and error simple-condition)", YES),
        ("'error 'type-error", NO),
        ("'bit-vector 'simple-vector", NO),
        ("'nil 'integer", YES),
        ("t '(or integer (not integer))", YES),
        ("'(satisfies oddp) 'integer", UNKNOWN),
        ("'(and (satisfies oddp) integer) 'real", YES),
    ],
)
def test_answers(types: str, answer: str) -> None:
    assert shown(f"(subtypep {types})") == answer


def test_structures_and_named_types() -> None:
    setting = "(defstruct a) (defstruct (b (:include a))) (defstruct c) (deftype few () '(integer 0 3)) "
    assert shown(setting + "(list (subtypep 'b 'a) (subtypep 'a 'b) (subtypep 'b 'structure-object))") == "(t nil t)"
    assert shown(setting + "(subtypep '(and a c) nil)") == YES
    assert shown(setting + "(list (subtypep 'few 'unsigned-byte) (subtypep 'few '(member 0 1 2)))") == "(t nil)"


TYPES = ("integer", "(integer 0 2)", "float", "symbol", "null", "list", "(cons integer)", "string", "(member 1 a)",
         "(or string symbol)", "(and list (not null))", "(not integer)")  # fmt: skip
VALUES = "(list 0 1 7 1.5 'a nil t :k '(1) '(a) \"x\" #\\a (vector 1) 1/2)"


def test_what_is_a_subtype_holds_of_every_value() -> None:
    """Where subtypep says yes, no value of the left type is outside the right one."""
    types = "(list " + " ".join(f"'{name}" for name in TYPES) + ")"
    wrong = (
        f"(loop for a in {types} append (loop for b in {types} when (multiple-value-bind (sub sure) (subtypep a b)"
        f" (and sub sure (some (lambda (x) (and (typep x a) (not (typep x b)))) {VALUES}))) collect (list a b)))"
    )
    assert shown(wrong) == "nil"


def test_every_type_here_can_be_compared() -> None:
    types = "(list " + " ".join(f"'{name}" for name in TYPES) + ")"
    unsure = f"(loop for a in {types} count (loop for b in {types} thereis (not (nth-value 1 (subtypep a b)))))"
    assert shown(unsure) == "0"


def test_what_is_no_type_is_told() -> None:
    assert fault("(subtypep 'integr 'real)").code == "E-TYPE-004"
