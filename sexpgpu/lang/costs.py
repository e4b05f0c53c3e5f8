"""What calls of library functions cost, in steps, beyond those that compiled code counts for any call.

Measured on short arguments, a step being about a tenth of a microsecond; what longer arguments take is counted by
the functions themselves.
"""

from __future__ import annotations

from typing import Final

_BY_STEPS: Final[dict[int, str]] = {
    0: """
        car cdr caar cadr cdar cddr caddr cdddr first second third rest cons nth nthcdr length elt aref svref char schar
        gethash vector-push + - * / = < > <= >= 1+ 1- mod rem abs min max ash
        zerop plusp minusp evenp oddp eq eql not null atom consp listp symbolp stringp numberp integerp
        floatp rationalp characterp vectorp functionp identity values list list*
    """,
    12: """
        apply gcd vector-push-extend
    """,
    16: """
        assoc char-equal char-greaterp char-lessp deposit-field dpb mapc mapcar maphash mask-field
        member proclaim string= vector
    """,
    24: """
        ceiling fceiling ffloor floor fround ftruncate round truncate
        array-in-bounds-p char-not-equal char-not-greaterp char-not-lessp copy-list fifth)
        get-output-stream-string intern make-list make-string-output-stream mapl maplist remprop terpri
    """,
    40: """
        /= expt %loop-append %loop-extreme %loop-vector (setf assoc-if assoc-if-not copy-seq copy-tree
        documentation every make-hash-table map-into member-if notany notevery nreconc nreverse nsubst-if
        nsubst-if-not rassoc-if reduce revappend reverse some string-downcase string-left-trim string-upcase
        string< string<= string> string>= subseq subst-if sxhash third) typep values-list write-char
        write-line write-string
    """,
    60: """
        adjoin append gensym gentemp get-properties make-condition map mapcan mapcon merge parse-integer rassoc
        replace string-capitalize string-right-trim string/= subst-if-not tree-equal
    """,
    100: """
        butlast coerce copy-alist count count-if-not delete delete-duplicates delete-if delete-if-not find
        find-if ldiff make-array nsubst pairlis position-if princ remove remove-duplicates signal sort
        stable-sort string-equal string-greaterp string-lessp string-not-greaterp string-not-lessp string-trim
        subsetp substitute tailp
    """,
    120: """
        adjust-array format prin1 prin1-to-string princ-to-string print write-to-string
    """,
    150: """
        copy-symbol isqrt macroexpand macroexpand-1
    """,
    160: """
        concatenate count-if find-if-not intersection member-if-not mismatch nset-difference nset-exclusive-or
        nsubstitute nsubstitute-if nsubstitute-if-not position position-if-not search set-difference
        string-not-equal substitute-if substitute-if-not union write
    """,
    200: """
        cerror error
    """,
    250: """
        nintersection nsublis nunion remove-if remove-if-not sublis subst
    """,
    400: """
        pprint set-exclusive-or warn
    """,
    600: """
        rationalize read-from-string subtypep
    """,
}

COSTS: Final[dict[str, int]] = {name: steps for steps, names in _BY_STEPS.items() for name in names.split()}
QUICK: Final = frozenset(name for name, steps in COSTS.items() if steps == 0)
"""Those that take no longer than a few turns of an empty loop."""
