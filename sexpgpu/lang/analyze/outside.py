"""Operators of Common Lisp that are outside the subset, and what to write instead."""

from __future__ import annotations

from typing import Final

from sexpgpu.diag import SxError
from sexpgpu.lang.analyze.grammar import fault
from sexpgpu.lang.builtin import show
from sexpgpu.lang.conditions import Poisoned
from sexpgpu.lang.forms import Symbol
from sexpgpu.lang.module import Module
from sexpgpu.lang.place import Place

_GROUPS: Final[tuple[tuple[str, str], ...]] = (
    ("a defstruct holds the data, defuns work on it",
     "defclass make-instance slot-value with-slots with-accessors slot-boundp slot-makunbound change-class "
     "initialize-instance reinitialize-instance shared-initialize class-of class-name find-class"),
    ("a defun that takes its argument apart by typecase",
     "defgeneric defmethod call-next-method next-method-p define-method-combination find-method add-method "
     "remove-method no-applicable-method print-object"),
    ("a file is a module: (require \"./file.sx\" :as m) gives its names as m:name",
     "defpackage in-package make-package find-package use-package unuse-package export unexport import shadow "
     "shadowing-import rename-package delete-package package-name do-symbols do-external-symbols do-all-symbols "
     "with-package-iterator load"),
    ("case or ecase", "ccase"),
    ("typecase or etypecase", "ctypecase"),
    ("handler-case with error", "restart-case restart-bind with-simple-restart invoke-restart find-restart "
     "compute-restarts invoke-debugger break abort continue muffle-warning store-value use-value"),
    ("data comes in by a loader's fields, settings by defknobs",
     "open close with-open-file with-open-stream read read-line read-char read-byte peek-char unread-char listen "
     "read-sequence probe-file delete-file rename-file directory file-length file-position ensure-directories-exist "
     "pathname make-pathname merge-pathnames namestring truename with-input-from-string make-string-input-stream "
     "y-or-n-p yes-or-no-p"),
    ("format, print or princ", "write-byte write-sequence pprint-newline pprint-indent pprint-tab "
     "pprint-logical-block pprint-fill pprint-linear pprint-tabular pprint-dispatch set-pprint-dispatch "
     "print-unreadable-object"),
    ("functions are compiled as the file is evaluated",
     "compile compile-file disassemble define-compiler-macro compiler-macro-function with-compilation-unit"),
    ("a run measures its own time",
     "time get-universal-time get-internal-real-time get-internal-run-time get-decoded-time sleep"),
    ("a macro with defmacro", "set-macro-character set-dispatch-macro-character get-macro-character "
     "make-dispatch-macro-character copy-readtable set-syntax-from-char"),
    ("", "trace untrace step inspect describe ed room dribble apropos apropos-list complex realpart imagpart phase "
     "conjugate cis make-random-state lisp-implementation-type machine-type"),
)  # fmt: skip

OUTSIDE: Final[dict[str, str | None]] = {name: help or None for help, names in _GROUPS for name in names.split()}
"""Each operator's name with what serves instead, where something does."""


_CLASSES: Final = frozenset(name for _, names in _GROUPS[:2] for name in names.split())


def refused_operator(module: Module, name: Symbol, place: Place) -> SxError:
    """E-NAME-005; a use of classes where the definition of one has been refused before is that failure."""
    if name.name in _CLASSES and not name.name.startswith("def") and module.classes is not None:
        return Poisoned(module.classes)
    found = fault(place, "E-NAME-005", f"`{show(name)}` is not in the subset", OUTSIDE[name.name])
    if name.name in _CLASSES and name.name.startswith("def"):
        module.classes = found.diagnostic
    return found
