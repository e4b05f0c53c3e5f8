"""`format`: one table of control strings with SBCL's answers, one of mistakes."""

from __future__ import annotations

import pytest

from tests.lang.evaluation import fault, shown, written


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ('(formatter "~a-~a") 1 2', "1-2"),
        ('"~?!" (formatter "~a~a") \'(1 2)', "12!"),
        ('"~@?~a" (formatter "~a;") 1 2', "1;2"),
        ('"~{~}" (formatter "~a,") \'(1 2)', "1,2,"),
        ('"[~{~\n~}]" \'()', "[]"),
        ('"~a ~s" "x" "x"', 'x "x"'),
        ('"~5a|~5@a|~5,,2,\'*a|" 1 2 3', "1    |    2|3****|"),
        ('"~:a ~:s" nil nil', "() ()"),
        ('"~d ~5,\'0d ~:d ~@d ~,,\'.,4:d" 1 42 1234567 5 12345678', "1 00042 1,234,567 +5 1234.5678"),
        ('"~d" 1.5', "1.5"),
        ('"~b ~o ~x ~3r ~:b" 5 8 255 5 255', "101 10 FF 12 11,111,111"),
        ('"~x" -255', "-FF"),
        ('"~r ~:r ~r ~:r" 0 1 -21 100', "zero first negative twenty-one one hundredth"),
        ('"~@r ~:@r" 1994 4', "MCMXCIV IIII"),
        ('"~f ~f ~f" 1.5 2 1/4', "1.5 2.0 0.25"),
        ('"~,2f ~,0f ~5,1f ~,1@f" 3.14159 2.6 2.25 2.25', "3.14 3.   2.3 +2.3"),
        ('"~6f|~3f|~2f|~8,,,\'*f" 3.14159265 0.5 0.5 1.5', "3.1416|0.5|.5|     1.5"),
        ('"~4,1,,\'*f" 12345.6', "****"),
        ('"~,2f" 1e10', "10000000000.00"),
        ('"~,1,2f" 0.5', "50.0"),
        ('"~e ~,2e ~10,3e ~,,2e" 1234.5 9.999 0.00123 1.0', "1.2345e+3 1.00e+1   1.230e-3 1.0e+00"),
        ('"~g|~,3g" 3.5 1e10', "3.5    |1.000e+10"),
        ('"~$ ~,4$ ~3,2,10$" 3.14159 5 2.5', "3.14 0005.00     02.500"),
        ('"a~%b~2%~~~3~"', "a\nb\n\n~~~~"),
        ('"~&a~&~&b"', "a\nb"),
        ('"a ~\n   b~:\n   c~@\n  d"', "a b   c\nd"),
        ('"~10t|~20t|"', "          |         |"),
        ('"ab~3,4@tc"', "ab      c"),
        ('"~{~a~^, ~}" \'(1 2 3)', "1, 2, 3"),
        ('"~2{~a~}" \'(1 2 3)', "12"),
        ('"~:{~a-~a ~}" \'((1 2) (3 4))', "1-2 3-4 "),
        ('"~@{~a~^-~}" 1 2', "1-2"),
        ('"~:@{<~a>~}" \'(1) \'(2)', "<1><2>"),
        ('"~{x~:}" nil', "x"),
        ('"~3{x~}" \'(1)', "xxx"),
        ('"~{~}" "<~a>" \'(1 2)', "<1><2>"),
        ('"~:{~a~:^,~}" \'((1) (2))', "1,2"),
        ('"~[a~;b~:;c~] ~[a~;b~] ~0[z~;y~]" 5 7', "c  z"),
        ('"~:[no~;yes~]~@[ ~a~]~@[ ~a~]" t nil 3', "yes 3"),
        ('"~#[none~;one~:;many~]" 1 2', "many"),
        ('"~(ABC~) ~:(ab cd~) ~@(ab CD~) ~:@(ab~)"', "abc Ab Cd Ab cd AB"),
        ('"~p~p~p" 1 2 1.0', "ss"),
        ('"~d file~:p ~d sk~:@p" 1 2', "1 file 2 skies"),
        ('"~a ~*~a ~2:*~a ~@*~a" 1 2 3', "1 3 2 1"),
        ('"~? ~a" "~a+~a" \'(1 2) 3', "1+2 3"),
        ('"~@? ~a" "~a+~a" 1 2 3', "1+2 3"),
        ('"~c ~:c ~@c" #\\a #\\Space #\\a', "a Space #\\a"),
        ('"~v,vd|~va" 5 #\\0 42 3 1', "00042|1  "),
        ('"~a" \'(quote x)', "'x"),
        ('"~s" \'|A b|', "|A b|"),
    ],
)  # fmt: skip
def test_text(arguments: str, text: str) -> None:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    assert shown(f"(format nil {arguments})") == f'"{escaped}"'


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ('"~a ~a" 1', '~a has no argument left: there is 1; in "~a ~a", character 4'),
        ('"~q" 1', "~q is no directive"),
        ('"~{~a" \'(1)', "~{ is never closed by ~}"),
        ('"a~}"', "~} closes nothing"),
        ('"~<a~>"', "~< is not supported"),
        ('"~{x~}" \'(1)', "would never end"),
        ('"~{~a~}" 5', "~{ needs a list, got 5"),
        ('"~c" 1', "~c needs a character, got 1"),
        ('"~5*" 1', "goes to argument 5 of 1"),
        ('"~99999999999a" 1', "is no parameter here"),
        ('"abc~"', "~ is followed by no directive"),
    ],
)
def test_faults_name_the_place_in_the_control(arguments: str, words: str) -> None:
    found = fault(f"(format nil {arguments})")
    assert (found.code, words in found.message) == ("E-VALUE-008", True), found.message


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ('(format t "a~&b~a" 1)', "a\nb1"),
        ('(print \'(1 "a"))', '\n(1 "a") '),
        ('(progn (prin1 "a") (princ "b") (terpri) (fresh-line))', '"a"b\n'),
        ('(progn (write-string "abc" t :start 1) (write-char #\\x) (write-line "y"))', "bcxy\n"),
    ],
)
def test_the_session_collects_output(form: str, text: str) -> None:
    assert written(form) == text


def test_standard_output_can_be_bound() -> None:
    assert shown('(with-output-to-string (*standard-output*) (princ 1) (format t "~a" 2))') == '"12"'


def test_output_into_a_string() -> None:
    assert shown('(with-output-to-string (s) (format s "~a" 1) (princ "b" s))') == '"1b"'
