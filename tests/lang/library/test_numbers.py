"""Numbers: SBCL's answers, but that every float is a double."""

from __future__ import annotations

import pytest

from tests.lang.evaluation import fault, shown


@pytest.mark.parametrize(
    ("form", "value"),
    [
        (
            "(list (boole boole-xor 12 10) (boole boole-andc2 12 10) (boole boole-nor 12 10) (boole boole-set 1 2))",
            "(6 4 -15 -1)",
        ),
        (
            "(list (= most-positive-single-float most-positive-double-float) (< 0 least-positive-short-float 1))",
            "(t t)",
        ),
        ("(+)", "0"),
        ("(*)", "1"),
        ("(+ 1/2 1/3)", "5/6"),
        ("(+ 1/2 1/2)", "1"),
        ("(- 5)", "-5"),
        ("(/ 4)", "1/4"),
        ("(/ 8 2 2)", "2"),
        ("(/ 1 2.0)", "0.5"),
        ("(* 1.0 0)", "0.0"),
        ("(max 1 2.5 2)", "2.5"),
        ("(max 1 1.0)", "1"),
        ("(min 3 1/2)", "1/2"),
        ("(= 1 1.0 1)", "t"),
        ("(/= 1 2 1)", "nil"),
        ("(< 1 3/2 2.0)", "t"),
        ("(floor 7 -2)", "-4 ; -1"),
        ("(floor 5/2)", "2 ; 1/2"),
        ("(floor 5.5 2)", "2 ; 1.5"),
        ("(ceiling -7 2)", "-3 ; -1"),
        ("(ceiling 2.1)", "3 ; -0.8999999999999999"),
        ("(truncate -2.5)", "-2 ; -0.5"),
        ("(round 7 2)", "4 ; -1"),
        ("(round 5 2)", "2 ; 1"),
        ("(round -3.5)", "-4 ; 0.5"),
        ("(round 7/2)", "4 ; -1/2"),
        ("(ffloor 2.7)", "2.0 ; 0.7000000000000002"),
        ("(mod -7.5 2)", "0.5"),
        ("(mod 1.0 0.1)", "0.0"),
        ("(rem -7 2)", "-1"),
        ("(expt 2 10)", "1024"),
        ("(expt 2 -2)", "1/4"),
        ("(expt 4 1/2)", "2.0"),
        ("(expt -1 1001)", "-1"),
        ("(expt 0 0)", "1"),
        ("(expt 0.0 0)", "1.0"),
        ("(sqrt 16)", "4.0"),
        ("(isqrt 24)", "4"),
        ("(exp 0)", "1.0"),
        ("(log 8 2)", "3.0"),
        ("(atan 1 1)", "0.7853981633974483"),
        ("(abs -3/4)", "3/4"),
        ("(signum -2.5)", "-1.0"),
        ("(signum 0)", "0"),
        ("(rational 0.75)", "3/4"),
        ("(rationalize 0.1)", "1/10"),
        ("(float 1/8)", "0.125"),
        ("(gcd 12 18)", "6"),
        ("(gcd)", "0"),
        ("(lcm 4 6)", "12"),
        ("(ash -5 -1)", "-3"),
        ("(logand 12 10)", "8"),
        ("(logior)", "0"),
        ("(logxor 5 1)", "4"),
        ("(lognot 0)", "-1"),
        ("(logcount -8)", "3"),
        ("(integer-length -8)", "3"),
        ("(ldb (byte 4 4) 255)", "15"),
        ("(dpb 1 (byte 4 0) 255)", "241"),
        ("(list (evenp 4) (oddp -3) (zerop 0.0) (plusp 1/2) (minusp -1))", "(t t t t t)"),
        ("(list (1+ 1/2) (1- 0.5))", "(3/2 -0.5)"),
        ("(decode-float -6.0)", "0.75 ; 3 ; -1.0"),
        ("(integer-decode-float 1.0)", "4503599627370496 ; -52 ; 1"),
        ("(list (scale-float 1.5 3) (float-sign -2.0 3.0))", "(12.0 -3.0)"),
    ],
)
def test_values(form: str, value: str) -> None:
    assert shown(form) == value


@pytest.mark.parametrize(
    ("form", "code", "words"),
    [
        ('(+ 1 "1")', "E-TYPE-001", '+: argument 2 is the string "1", not a number'),
        ("(+ 1 2 'a)", "E-TYPE-001", "+: argument 3 is the symbol a, not a number"),
        ("(< 1 nil)", "E-TYPE-001", "<: argument 2 is nil, not a number"),
        ("(sqrt '(1))", "E-TYPE-001", "sqrt needs a number, got (1)"),
        ("(/ 3 0)", "E-VALUE-001", "division by zero: (/ 3 0)"),
        ("(mod 5 0)", "E-VALUE-001", "division by zero: (mod 5 0)"),
        ("(floor 1.0 0)", "E-VALUE-001", "division by zero"),
        ("(expt 0 -1)", "E-VALUE-001", "division by zero"),
        ("(log 0)", "E-VALUE-001", "division by zero"),
        ("(* 1e300 1e300)", "E-VALUE-002", "too large for a float"),
        ("(exp 1000)", "E-VALUE-002", "(exp 1000) is too large for a float"),
        ("(+ 1.0 (expt 10 400))", "E-VALUE-002", "too large for a float"),
        ("(sqrt -1)", "E-VALUE-006", "is not real"),
        ("(expt -8 1/3)", "E-VALUE-006", "is not real"),
        ("(expt 2 (expt 2 100))", "E-LIMIT-003", "expt: the result would have more than"),
        ("(ash 1 100000000)", "E-LIMIT-003", "ash: the result would have more than"),
        ("(let ((x 2)) (dotimes (i 64) (setq x (* x x))))", "E-LIMIT-003", "*: the result"),
        ("(random 10)", "E-VALUE-009", "random"),
        ("(gcd 1.5 2)", "E-TYPE-001", "gcd: argument 1 is the float 1.5, not an integer"),
    ],
)
def test_faults_say_what_is_wrong(form: str, code: str, words: str) -> None:
    found = fault(form)
    assert (found.code, words in found.message) == (code, True), found.message
