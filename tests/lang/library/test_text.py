"""Characters, strings and symbols."""

from __future__ import annotations

import pytest

from tests.lang.evaluation import fault, shown


@pytest.mark.parametrize(
    ("form", "value"),
    [
        ("(let ((*gensym-counter* 7)) (list (gensym) (gensym \"x\") *gensym-counter*))", "(#:g7 #:x8 9)"),
        ('(list (find-symbol "car") (find-symbol "no-such-name") (find-symbol "k" :keyword))', "(car nil :k)"),
        ("(let ((s (copy-symbol 'car t))) (list (funcall s '(1)) (symbol-package s)))", "(1 nil)"),
        ('(string-upcase "abc" :start 1)', '"aBC"'),
        ('(string-capitalize "o\'neil and SONS-ltd 2nd")', '"O\'Neil And Sons-Ltd 2nd"'),
        ("(string-downcase 'abc)", '"abc"'),
        ('(string-trim "xy" "xyaxy")', '"a"'),
        ('(string-left-trim "x" "xax")', '"ax"'),
        ('(string< "abc" "abd")', "2"),
        ('(string< "abc" "ab")', "nil"),
        ('(string>= "b" "a")', "0"),
        ('(string/= "abc" "abx" :start1 1 :start2 1)', "2"),
        ('(string= "xabc" "abc" :start1 1)', "t"),
        ('(string-equal "ABC" "abc")', "t"),
        ('(string-lessp "ABC" "abd")', "2"),
        ('(string-not-equal "a" "A")', "nil"),
        ("(char \"abc\" 1)", "#\\b"),
        ("(make-string 3 :initial-element #\\z)", '"zzz"'),
        ('(parse-integer " 42 ")', "42 ; 4"),
        ('(parse-integer "-ff" :radix 16)', "-255 ; 3"),
        ('(parse-integer "12abc" :junk-allowed t)', "12 ; 2"),
        ('(parse-integer "" :junk-allowed t)', "nil ; 0"),
        ("(char-upcase #\\ß)", "#\\ß"),
        ('(string-upcase "straße")', '"STRAßE"'),
        ("(list (char< #\\a #\\b #\\c) (char-equal #\\a #\\A) (char/= #\\a #\\b #\\a))", "(t t nil)"),
        ("(list (digit-char-p #\\7) (digit-char-p #\\f 16) (digit-char-p #\\f))", "(7 15 nil)"),
        ("(list (digit-char 11 16) (digit-char 11))", "(#\\B nil)"),
        ("(list (char-name #\\Space) (char-name #\\a) (name-char \"newline\"))", '("Space" nil #\\Newline)'),
        ("(list (alpha-char-p #\\é) (alphanumericp #\\_) (both-case-p #\\1))", "(t nil nil)"),
        ("(list (code-char 55295) (code-char 55296) (code-char 57343) (code-char 57344))",
         "(#\\\ud7ff nil nil #\\\ue000)"),
        ("(symbol-name 'Abc)", '"abc"'),
        ('(intern "abc")', "abc ; nil"),
        ('(intern "Abc" :keyword)', ":|Abc| ; nil"),
        ('(eq (make-symbol "a") (make-symbol "a"))', "nil"),
        ("(symbol-package '#:a)", "nil"),
        ("(progn (setf (get 'x :cost) 5) (incf (get 'x :cost)) (list (get 'x :cost) (symbol-plist 'x)))",
         "(6 (:cost 6))"),
        ("(progn (setf (get 'x :a) 1 (get 'x :b) 2) (remprop 'x :a) (symbol-plist 'x))", "(:b 2)"),
        ("(string= (symbol-name (gensym \"v\")) (symbol-name (gensym \"v\")))", "nil"),
    ],
)  # fmt: skip
def test_values(form: str, value: str) -> None:
    assert shown(form) == value


@pytest.mark.parametrize(
    ("form", "code", "words"),
    [
        ('(parse-integer "1x")', "E-VALUE-007", 'parse-integer: "1x" is no integer in base 10'),
        ('(setf (char "abc" 0) #\\x)', "E-TYPE-003", "(setf char): strings cannot be changed"),
        ('(char "abc" 3)', "E-VALUE-003", "char: index 3 is outside a string of 3 (0 to 2)"),
        ("(char-code \"a\")", "E-TYPE-001", 'char-code needs a character, got "a"'),
        ("(string-upcase 5)", "E-TYPE-001", "string-upcase: argument 1 is the integer 5"),
        ("(intern 5)", "E-TYPE-001", "intern: argument 1 is the integer 5, not a string"),
        ("(make-string 100000000000)", "E-LIMIT-003", "make-string"),
        ("(symbol-name \"a\")", "E-TYPE-001", "symbol-name needs a symbol"),
    ],
)  # fmt: skip
def test_faults_say_what_is_wrong(form: str, code: str, words: str) -> None:
    found = fault(form)
    assert (found.code, words in found.message) == (code, True), found.message
