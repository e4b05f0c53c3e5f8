"""The codes of the standard library: types and values of arguments, sizes of results, `format` and `loop`."""

from sexpgpu.diag.catalogue.entry import Entry

ENTRIES: tuple[Entry, ...] = (
    Entry(
        "E-TYPE-003",
        "strings cannot be changed",
        "Strings are immutable here: (setf (char s i) c), (fill s c) and their like are refused, so that a string "
        "that was given away never changes. Build a new string instead, with concatenate, substitute, map or format.",
        '(setf (char "abc" 0) #\\x)',
    ),
    Entry(
        "E-TYPE-004",
        "this is not a type",
        "typep, typecase, check-type, coerce and the sequence functions take type specifiers: names such as integer, "
        "string or list, names that deftype, defstruct or define-condition made, and combinations such as "
        "(or null integer). What stands here is none of them.",
        "(typep 1 'integr)",
    ),
    Entry(
        "E-ARG-004",
        "the number of subscripts differs from the array's dimensions",
        "aref and its kin take one subscript for each dimension of the array; (array-dimensions a) lists them.",
        "(aref (make-array '(2 3)) 0)",
    ),
    Entry(
        "E-VALUE-007",
        "the text is no integer",
        "parse-integer reads an optional sign and digits of its base, with blanks around them and nothing else. With "
        ":junk-allowed t it gives nil or the digits it found instead.",
        '(parse-integer "12px")',
    ),
    Entry(
        "E-VALUE-008",
        "a mistake in a format control string",
        "The control string of format holds a directive that does not exist, is not closed, or finds no suitable "
        "argument. The message shows the string and the character at which the directive stands.",
        '(format nil "~a ~a" 1)',
    ),
    Entry(
        "E-VALUE-009",
        "there are no unseeded random numbers",
        "A file must give the same program every time it is evaluated, so (random n) is refused. Random numbers of a "
        "run are drawn in its graphs, from streams that the run's seed decides: random-uniform, random-normal, "
        "random-integer, dropout.",
        "(random 10)",
    ),
    Entry(
        "E-LIMIT-004",
        "a value is too large to print",
        "The printed form of one value may have two million characters and be nested 20,000 levels deep. Circular "
        "structure is the usual cause: it has no end to print.",
        "(let ((x (list 1))) (setf (cdr x) x) (print x))",
    ),
    Entry(
        "E-LIMIT-005",
        "too much was printed",
        "Everything that one evaluation prints is kept, and may have ten million characters in all.",
        '(loop (print "again"))',
    ),
    Entry(
        "E-MACRO-010",
        "a mistake in the clauses of loop",
        "loop reads its clauses word by word: for x in list, collect form, when test do form, and so on. The message "
        "says which word or form was found and what can stand there. Clauses that only run a form begin with do.",
        "(loop for x in '(1 2) (print x))",
    ),
)
