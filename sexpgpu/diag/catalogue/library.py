"""The codes of the standard library: types and values of arguments, sizes of results, `format` and `loop`."""

from sexpgpu.diag.catalogue.entry import Entry

ENTRIES: tuple[Entry, ...] = (
    Entry(
        "E-TYPE-001",
        "an argument is of the wrong type",
        "A function got a value it cannot work on. The message names the function, which argument it is, the value "
        "it got and what it needs. Look at where that value was made: the usual causes are arguments in the wrong "
        "order, a list where an element was meant, and nil from a look-up that found nothing.",
        '(+ 1 "2")',
    ),
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
        "E-VALUE-001",
        "division by zero",
        "A divisor was 0, or a function was asked for a value at its pole: (log 0), (expt 0 -1). Floats are no "
        "exception: there are no infinities from arithmetic.",
        "(/ 1 0)",
    ),
    Entry(
        "E-VALUE-002",
        "the result is too large for a float",
        "Floats are doubles and end near 1.8e308. Arithmetic on finite floats never gives an infinity: it is an "
        "error where it happens. Exact integers and ratios have no such bound.",
        "(exp 1000)",
    ),
    Entry(
        "E-VALUE-003",
        "an index or range is outside a sequence",
        "Positions count from 0, and the end of a range is exclusive. The message says the index and the length of "
        "the sequence or of the array's axis.",
        "(elt #(1 2) 2)",
    ),
    Entry(
        "E-VALUE-004",
        "the text is no integer",
        "parse-integer reads an optional sign and digits of its base, with blanks around them and nothing else. With "
        ":junk-allowed t it gives nil or the digits it found instead.",
        '(parse-integer "12px")',
    ),
    Entry(
        "E-VALUE-005",
        "a value outside what the function accepts",
        "The argument has the right type, but the function has no answer for it: there are no complex numbers, so the "
        "square root of a negative number is refused, as are options that are not supported.",
        "(sqrt -1)",
    ),
    Entry(
        "E-VALUE-006",
        "a mistake in a format control string",
        "The control string of format holds a directive that does not exist, is not closed, or finds no suitable "
        "argument. The message shows the string and the character at which the directive stands.",
        '(format nil "~a ~a" 1)',
    ),
    Entry(
        "E-VALUE-007",
        "there are no unseeded random numbers",
        "A file must give the same program every time it is evaluated, so (random n) is refused. Random numbers of a "
        "run are drawn in its graphs, from streams that the run's seed decides: random-uniform, random-normal, "
        "random-integer, dropout.",
        "(random 10)",
    ),
    Entry(
        "E-LIMIT-003",
        "a result would be too large",
        "Integers may have about a million bits, and lists, vectors, strings and hash tables ten million elements. "
        "Larger results are refused before they are computed, so that a slip such as (expt 2 (expt 2 100)) cannot "
        "hang a check. A circular list counts as one that never ends.",
        "(make-list 1000000000)",
    ),
    Entry(
        "E-LIMIT-004",
        "a value is too large to print",
        "The printed form of one value may have ten million characters and be nested 20,000 levels deep. Circular "
        "structure is the usual cause: it has no end to print.",
        "(let ((x (list 1))) (setf (cdr x) x) (print x))",
    ),
    Entry(
        "E-LIMIT-005",
        "too much was printed",
        "Everything that one evaluation prints is kept, and may have 50 million characters in all.",
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
