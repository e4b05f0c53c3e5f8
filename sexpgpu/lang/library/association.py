"""Chapter 14, lists as sets, tables and trees."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sexpgpu.diag import error
from sexpgpu.lang.builtin import Library
from sexpgpu.lang.conditions import TypeFault
from sexpgpu.lang.forms import NIL, Cons, T, lisp_list, symbol
from sexpgpu.lang.library.access import (
    Test,
    endless,
    item_test,
    items_of_list,
    key_of,
    keyed,
    pair_test,
    predicate,
)
from sexpgpu.lang.library.check import FREE_WORK, LONGEST_LIST, SOME_WORK, descend, spend, wrong_type
from sexpgpu.lang.library.conses import rebuilt
from sexpgpu.lang.library.equality import eql, hash_image
from sexpgpu.lang.printer import brief

library = Library("association")

_KEYS = "&key key test test-not"


def _tail(name: str, test: Test, a: Any, key: Any, position: int = 2) -> Any:
    function = key_of(key)
    cell = a
    for walked in range(LONGEST_LIST):
        if not isinstance(cell, Cons):
            if cell is NIL:
                return NIL
            raise wrong_type(name, position, a, "a list" if cell is a else "a proper list")
        if test(cell.car if function is None else function(cell.car)):
            return cell
        if walked & SOME_WORK == SOME_WORK:
            spend(6 * SOME_WORK)
        cell = cell.cdr
    raise endless(name)


@library.builtin("member", f"(item list {_KEYS})")
def member(item: Any, a: Any, *, key: Any = NIL, test: Any = NIL, test_not: Any = NIL) -> Any:
    return _tail("member", item_test(item, test, test_not), a, key)


@library.builtin("member-if", "(predicate list &key key)")
def member_if(function: Any, a: Any, *, key: Any = NIL) -> Any:
    return _tail("member-if", predicate(function), a, key)


@library.builtin("member-if-not", "(predicate list &key key)")
def member_if_not(function: Any, a: Any, *, key: Any = NIL) -> Any:
    return _tail("member-if-not", predicate(function, True), a, key)


def _entry(name: str, part: str, test: Test, a: Any, key: Any) -> Any:
    function = key_of(key)
    for pair in items_of_list(name, 2, a):
        if isinstance(pair, Cons):
            value = getattr(pair, part)
            if test(value if function is None else function(value)):
                return pair
        elif pair is not NIL:
            wrong = error("E-TYPE-001", f"{name}: {brief(pair)} in the list is no pair (key . value)")
            raise TypeFault(wrong.diagnostic, pair, symbol("list"))
    return NIL


def _finders(name: str, part: str) -> None:
    def find(item: Any, a: Any, *, key: Any = NIL, test: Any = NIL, test_not: Any = NIL) -> Any:
        return _entry(name, part, item_test(item, test, test_not), a, key)

    def find_if(function: Any, a: Any, *, key: Any = NIL) -> Any:
        return _entry(f"{name}-if", part, predicate(function), a, key)

    def find_if_not(function: Any, a: Any, *, key: Any = NIL) -> Any:
        return _entry(f"{name}-if-not", part, predicate(function, True), a, key)

    library.builtin(name, f"(item alist {_KEYS})")(find)
    library.builtin(f"{name}-if", "(predicate alist &key key)")(find_if)
    library.builtin(f"{name}-if-not", "(predicate alist &key key)")(find_if_not)


_finders("assoc", "car")
_finders("rassoc", "cdr")


@library.builtin("acons", "(key value alist)")
def acons(key: Any, value: Any, a: Any) -> Any:
    return Cons(Cons(key, value), a)


@library.builtin("pairlis", "(keys values &optional alist)")
def pairlis(keys: Any, values: Any, a: Any = NIL) -> Any:
    left, right = items_of_list("pairlis", 1, keys), items_of_list("pairlis", 2, values)
    if len(left) != len(right):
        raise error("E-VALUE-003", f"pairlis: {len(left)} keys but {len(right)} values")
    # SBCL puts the last pair first; the standard leaves the order open.
    for pair in zip(left, right, strict=True):
        a = Cons(Cons(*pair), a)
    return a


@library.builtin("getf", "(plist key &optional default)")
def getf(plist: Any, key: Any, default: Any = NIL) -> Any:
    cell, walked = plist, 0
    while isinstance(cell, Cons):
        if not isinstance(cell.cdr, Cons):
            wrong = error("E-TYPE-001", f"getf: {brief(plist)} is no property list: {brief(cell.car)} has no value")
            raise TypeFault(wrong.diagnostic, cell.cdr, symbol("cons"))
        if eql(cell.car, key):
            return cell.cdr.car
        cell, walked = cell.cdr.cdr, walked + 1
        if walked & SOME_WORK == 0:
            spend(6 * SOME_WORK)
    if cell is NIL:
        return default
    wrong = wrong_type("getf", 1, plist, "a property list (:key value ...)")
    raise TypeFault(wrong.diagnostic, cell, symbol("list"))


@library.builtin("get-properties", "(plist keys)", many=True)
def get_properties(plist: Any, keys: Any) -> Any:
    from sexpgpu.lang.forms import MV

    wanted = items_of_list("get-properties", 2, keys)
    cell = plist
    while isinstance(cell, Cons) and isinstance(cell.cdr, Cons):
        if any(eql(cell.car, key) for key in wanted):
            return MV((cell.car, cell.cdr.car, cell))
        cell = cell.cdr.cdr
        spend(FREE_WORK + 1)
    if cell is not NIL:
        wrong = wrong_type("get-properties", 1, plist, "a property list (:key value ...)")
        raise TypeFault(wrong.diagnostic, cell.cdr if isinstance(cell, Cons) else cell, symbol("list"))
    return MV((NIL, NIL, NIL))


@library.builtin("adjoin", f"(item list {_KEYS})")
def adjoin(item: Any, a: Any, *, key: Any = NIL, test: Any = NIL, test_not: Any = NIL) -> Any:
    function = key_of(key)
    image = item if function is None else function(item)
    found = _tail("adjoin", item_test(image, test, test_not), a, key)
    return Cons(item, a) if found is NIL else a


class _Pair:
    """Two lists with the images of their elements, and whether two images match."""

    def __init__(self, name: str, a: Any, b: Any, key: Any, test: Any, test_not: Any) -> None:
        self.left, self.right = items_of_list(name, 1, a), items_of_list(name, 2, b)
        self.left_keys, self.right_keys = keyed(self.left, key), keyed(self.right, key)
        self.matches = pair_test(test, test_not)
        # Under the standard equalities membership is found by hashing instead of by comparing all pairs.
        self.image = hash_image(test) if test_not is NIL else None
        if self.image is not None:
            self.left_set, self.right_set = set(map(self.image, self.left_keys)), set(map(self.image, self.right_keys))

    def in_right(self, key: Any) -> bool:
        if self.image is not None:
            return self.image(key) in self.right_set
        spend(len(self.right_keys))
        return any(self.matches(key, other) for other in self.right_keys)

    def in_left(self, key: Any) -> bool:
        if self.image is not None:
            return self.image(key) in self.left_set
        spend(len(self.left_keys))
        return any(self.matches(other, key) for other in self.left_keys)


def _union(pair: _Pair) -> Any:
    added = [item for item, image in zip(pair.left, pair.left_keys, strict=True) if not pair.in_right(image)]
    return lisp_list(added + pair.right)


def _intersection(pair: _Pair) -> Any:
    return lisp_list([x for x, image in zip(pair.left, pair.left_keys, strict=True) if pair.in_right(image)])


def _difference(pair: _Pair) -> Any:
    return lisp_list([x for x, image in zip(pair.left, pair.left_keys, strict=True) if not pair.in_right(image)])


def _exclusive_or(pair: _Pair) -> Any:
    only_left = [x for x, image in zip(pair.left, pair.left_keys, strict=True) if not pair.in_right(image)]
    only_right = [x for x, image in zip(pair.right, pair.right_keys, strict=True) if not pair.in_left(image)]
    return lisp_list(only_left + only_right)


def _subset(pair: _Pair) -> Any:
    return T if all(pair.in_right(image) for image in pair.left_keys) else NIL


def _set_operation(names: tuple[str, ...], combine: Callable[[_Pair], Any]) -> None:
    for name in names:

        def operation(a: Any, b: Any, *, key: Any = NIL, test: Any = NIL, test_not: Any = NIL, name: str = name) -> Any:
            return combine(_Pair(name, a, b, key, test, test_not))

        library.builtin(name, f"(list-1 list-2 {_KEYS})")(operation)


_set_operation(("union", "nunion"), _union)
_set_operation(("intersection", "nintersection"), _intersection)
_set_operation(("set-difference", "nset-difference"), _difference)
_set_operation(("set-exclusive-or", "nset-exclusive-or"), _exclusive_or)
_set_operation(("subsetp",), _subset)


def _substituted(new: Any, tree: Any, key: Any, test: Test) -> Any:
    function = key_of(key)

    def change(part: Any) -> tuple[bool, Any]:
        return test(part if function is None else function(part)), new

    return rebuilt(tree, change)


for _name in ("subst", "nsubst"):

    @library.builtin(_name, f"(new old tree {_KEYS})")
    def subst(new: Any, old: Any, tree: Any, *, key: Any = NIL, test: Any = NIL, test_not: Any = NIL) -> Any:
        return _substituted(new, tree, key, item_test(old, test, test_not))

    @library.builtin(f"{_name}-if", "(new predicate tree &key key)")
    def subst_if(new: Any, function: Any, tree: Any, *, key: Any = NIL) -> Any:
        return _substituted(new, tree, key, predicate(function))

    @library.builtin(f"{_name}-if-not", "(new predicate tree &key key)")
    def subst_if_not(new: Any, function: Any, tree: Any, *, key: Any = NIL) -> Any:
        return _substituted(new, tree, key, predicate(function, True))


for _name in ("sublis", "nsublis"):

    @library.builtin(_name, f"(alist tree {_KEYS})")
    def sublis(a: Any, tree: Any, *, key: Any = NIL, test: Any = NIL, test_not: Any = NIL) -> Any:
        pairs = [pair for pair in items_of_list("sublis", 1, a) if isinstance(pair, Cons)]
        matches, function = pair_test(test, test_not), key_of(key)

        def change(part: Any) -> tuple[bool, Any]:
            image = part if function is None else function(part)
            for pair in pairs:
                if matches(image, pair.car):
                    return True, pair.cdr
            return False, NIL

        return rebuilt(tree, change)


@library.builtin("tree-equal", "(tree-1 tree-2 &key test test-not)")
def tree_equal(a: Any, b: Any, *, test: Any = NIL, test_not: Any = NIL) -> Any:
    matches = pair_test(test, test_not)

    def same(left: Any, right: Any, depth: int) -> bool:
        walked = 0
        while isinstance(left, Cons) and isinstance(right, Cons):
            if not same(left.car, right.car, descend(depth) if isinstance(left.car, Cons) else depth):
                return False
            left, right, walked = left.cdr, right.cdr, walked + 1
            if walked & SOME_WORK == 0:
                spend(6 * SOME_WORK)
        return not isinstance(left, Cons) and not isinstance(right, Cons) and matches(left, right)

    return T if same(a, b, 0) else NIL
