"""Chapter 14, conses: building lists, taking them apart, and their places."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from sexpgpu.lang.builtin import Library
from sexpgpu.lang.conditions import TypeFault
from sexpgpu.lang.forms import NIL, Cons, T, boolean, lisp_list, symbol
from sexpgpu.lang.library.access import endless, items_of_list
from sexpgpu.lang.library.check import LONGEST_LIST, descend, size, spend, spend_on_new, wrong_type

library = Library("conses")


@library.builtin("cons", "(car cdr)")
def cons(a: Any, b: Any) -> Any:
    return Cons(a, b)


@library.builtin("car", "(list)")
def car(a: Any) -> Any:
    if isinstance(a, Cons):
        return a.car
    if a is NIL:
        return NIL
    raise wrong_type("car", 0, a, "a list")


@library.builtin("cdr", "(list)")
def cdr(a: Any) -> Any:
    if isinstance(a, Cons):
        return a.cdr
    if a is NIL:
        return NIL
    raise wrong_type("cdr", 0, a, "a list")


def _place(name: str, container: Any, part: str, new: Any) -> Any:
    if not isinstance(container, Cons):
        raise wrong_type(f"(setf {name})", 0, container, "a cons")
    setattr(container, part, new)
    return new


@library.builtin("(setf car)", "(new cons)")
def set_car(new: Any, a: Any) -> Any:
    return _place("car", a, "car", new)


@library.builtin("(setf cdr)", "(new cons)")
def set_cdr(new: Any, a: Any) -> Any:
    return _place("cdr", a, "cdr", new)


def _walk(name: str, path: str, value: Any) -> Any:
    # The letters are applied from the right, as the name reads: cadr is the car of the cdr.
    part = value
    for letter in reversed(path):
        if isinstance(part, Cons):
            part = part.car if letter == "a" else part.cdr
        elif part is not NIL:
            wrong = wrong_type(name, 0, value, f"a list deep enough for its {path!r}")
            raise TypeFault(wrong.diagnostic, part, symbol("list"))
    return part


def _accessors(path: str) -> None:
    name = f"c{path}r"

    def read(a: Any) -> Any:
        return _walk(name, path, a)

    def write(new: Any, a: Any) -> Any:
        return _place(name, _walk(name, path[1:], a), "car" if path[0] == "a" else "cdr", new)

    library.builtin(name, "(list)")(read)
    library.builtin(f"(setf {name})", "(new list)")(write)


for _length in (2, 3, 4):
    for _letters in itertools.product("ad", repeat=_length):
        _accessors("".join(_letters))


def _ordinal(name: str, index: int) -> None:
    def read(a: Any) -> Any:
        return nth(index, a) if isinstance(a, Cons) or a is NIL else _refuse_list(name, a)

    def write(new: Any, a: Any) -> Any:
        return _place(name, nthcdr(index, a), "car", new)

    library.builtin(name, "(list)")(read)
    library.builtin(f"(setf {name})", "(new list)")(write)


def _refuse_list(name: str, value: Any) -> Any:
    raise wrong_type(name, 0, value, "a list")


@library.builtin("nth", "(n list)")
def nth(n: Any, a: Any) -> Any:
    return car(nthcdr(n, a, "nth"))


@library.builtin("(setf nth)", "(new n list)")
def set_nth(new: Any, n: Any, a: Any) -> Any:
    return _place("nth", nthcdr(n, a, "(setf nth)"), "car", new)


def nthcdr(n: Any, a: Any, name: str = "nthcdr") -> Any:
    """What is left of a list after `n` elements; nil past its end."""
    if type(n) is not int or n < 0:
        raise wrong_type(name, 1, n, "an integer of at least 0")
    if not isinstance(a, Cons) and a is not NIL:
        raise wrong_type(name, 2, a, "a list")
    cell, left = a, n
    while left and cell is not NIL:
        if not isinstance(cell, Cons):
            raise wrong_type(name, 2, a, "a proper list")
        cell, left = cell.cdr, left - 1
        if n - left > LONGEST_LIST:
            raise endless(name)
    spend(n - left)
    return cell


@library.builtin("nthcdr", "(n list)")
def lisp_nthcdr(n: Any, a: Any) -> Any:
    return nthcdr(n, a)


for _index, _ordinal_name in enumerate(
    ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")
):
    _ordinal(_ordinal_name, _index)


@library.builtin("rest", "(list)")
def rest(a: Any) -> Any:
    return a.cdr if isinstance(a, Cons) else NIL if a is NIL else _refuse_list("rest", a)


@library.builtin("(setf rest)", "(new cons)")
def set_rest(new: Any, a: Any) -> Any:
    return _place("rest", a, "cdr", new)


@library.builtin("rplaca", "(cons new)")
def rplaca(a: Any, new: Any) -> Any:
    _place("car", a, "car", new)
    return a


@library.builtin("rplacd", "(cons new)")
def rplacd(a: Any, new: Any) -> Any:
    _place("cdr", a, "cdr", new)
    return a


@library.builtin("list", "(&rest items)")
def make_list_of(*items: Any) -> Any:
    return lisp_list(items)


@library.builtin("list*", "(item &rest more)")
def list_star(*items: Any) -> Any:
    return lisp_list(items[:-1], items[-1])


@library.builtin("make-list", "(size &key initial-element)")
def make_list(count: Any, *, initial_element: Any = NIL) -> Any:
    spend_on_new(size("make-list", 1, count))
    return lisp_list([initial_element] * count)


@library.builtin("endp", "(list)")
def endp(a: Any) -> Any:
    if isinstance(a, Cons):
        return NIL
    if a is NIL:
        return T
    raise wrong_type("endp", 0, a, "a list")


@library.builtin("list-length", "(list)")
def list_length(a: Any) -> Any:
    """The length of a proper list, nil for a circular one."""
    slow = fast = a
    count = 0
    while isinstance(fast, Cons):
        fast, count = fast.cdr, count + 1
        if isinstance(fast, Cons):
            fast, count, slow = fast.cdr, count + 1, slow.cdr
            if fast is slow:
                return NIL
    if fast is not NIL:
        raise wrong_type("list-length", 0, a, "a proper list" if isinstance(a, Cons) else "a list")
    return count


@library.builtin("append", "(&rest lists)")
def append(*lists: Any) -> Any:
    """A list of the elements of all; the last argument is shared, not copied."""
    if not lists:
        return NIL
    result = lists[-1]
    for position in range(len(lists) - 2, -1, -1):
        if lists[position] is not NIL:
            items = items_of_list("append", position + 1, lists[position])
            spend_on_new(len(items))
            result = lisp_list(items, result)
    return result


@library.builtin("revappend", "(list tail)")
def revappend(a: Any, tail: Any) -> Any:
    return lisp_list(items_of_list("revappend", 1, a)[::-1], tail)


def last_cons(name: str, a: Cons) -> Cons:
    """The last cons of a list."""
    for walked in range(LONGEST_LIST):
        if not isinstance(a.cdr, Cons):
            spend(walked)
            return a
        a = a.cdr
    raise endless(name)


@library.builtin("nconc", "(&rest lists)")
def nconc(*lists: Any) -> Any:
    """Join lists by changing the last cdr of each but the last."""
    result: Any = NIL
    end: Cons | None = None
    for position, part in enumerate(lists, 1):
        if end is None:
            result = part
        elif part is not NIL:
            end.cdr = part
        if isinstance(part, Cons):
            end = last_cons("nconc", part) if position < len(lists) else end
        elif part is not NIL and position < len(lists):
            raise wrong_type("nconc", position, part, "a list")
    return result


@library.builtin("nreconc", "(list tail)")
def nreconc(a: Any, tail: Any) -> Any:
    return revappend(a, tail)


def _cells(name: str, a: Any) -> list[Cons]:
    cells: list[Cons] = []
    cell = a
    while isinstance(cell, Cons):
        cells.append(cell)
        cell = cell.cdr
        if len(cells) > LONGEST_LIST:
            raise endless(name)
    spend(len(cells))
    return cells


@library.builtin("last", "(list &optional n)")
def last(a: Any, n: Any = 1) -> Any:
    """The last `n` conses of a list with what follows them."""
    if not isinstance(a, Cons) and a is not NIL:
        raise wrong_type("last", 1, a, "a list")
    if type(n) is not int or n < 0:
        raise wrong_type("last", 2, n, "an integer of at least 0")
    cells = _cells("last", a)
    if n == 0:
        return cells[-1].cdr if cells else NIL
    return cells[-min(n, len(cells))] if cells else NIL


@library.builtin("butlast", "(list &optional n)")
def butlast(a: Any, n: Any = 1) -> Any:
    if not isinstance(a, Cons) and a is not NIL:
        raise wrong_type("butlast", 1, a, "a list")
    if type(n) is not int or n < 0:
        raise wrong_type("butlast", 2, n, "an integer of at least 0")
    cells = _cells("butlast", a)
    return lisp_list([cell.car for cell in cells[: max(len(cells) - n, 0)]])


@library.builtin("nbutlast", "(list &optional n)")
def nbutlast(a: Any, n: Any = 1) -> Any:
    """As `butlast`, by ending the list itself."""
    kept = len(_cells("nbutlast", a)) if isinstance(a, Cons) else 0
    if butlast(a, n) is NIL:
        return NIL
    _cells("nbutlast", a)[kept - n - 1].cdr = NIL
    return a


@library.builtin("ldiff", "(list tail)")
def ldiff(a: Any, tail: Any) -> Any:
    """The elements of a list before `tail`, which is one of its own conses."""
    from sexpgpu.lang.library.equality import eql

    items: list[Any] = []
    for cell in _cells("ldiff", a if isinstance(a, Cons) or a is NIL else _refuse_list("ldiff", a)):
        if cell is tail:
            return lisp_list(items)
        items.append(cell.car)
    end = cell.cdr if items else NIL
    return lisp_list(items, NIL if eql(end, tail) else end)


@library.builtin("tailp", "(tail list)")
def tailp(tail: Any, a: Any) -> Any:
    from sexpgpu.lang.library.equality import eql

    cells = _cells("tailp", a if isinstance(a, Cons) or a is NIL else _refuse_list("tailp", a))
    return boolean(any(cell is tail for cell in cells) or eql(cells[-1].cdr if cells else a, tail))


@library.builtin("copy-list", "(list)")
def copy_list(a: Any) -> Any:
    if a is not NIL and not isinstance(a, Cons):
        raise wrong_type("copy-list", 0, a, "a list")
    cells = _cells("copy-list", a)
    return lisp_list([cell.car for cell in cells], cells[-1].cdr if cells else NIL)


@library.builtin("copy-alist", "(alist)")
def copy_alist(a: Any) -> Any:
    pairs = items_of_list("copy-alist", 0, a)
    return lisp_list([Cons(pair.car, pair.cdr) if isinstance(pair, Cons) else pair for pair in pairs])


def rebuilt(tree: Any, change: Callable[[Any], tuple[bool, Any]], depth: int = 0) -> Any:
    """A tree with every part that `change` claims replaced; the cdr spine is walked without recursion."""
    if isinstance(tree, Cons):
        depth = descend(depth)
    spine: list[Cons] = []
    while True:
        claimed, new = change(tree)
        if claimed or not isinstance(tree, Cons):
            break
        spine.append(tree)
        tree = tree.cdr
        if len(spine) > LONGEST_LIST:
            raise endless("substitution in a tree")
    spend(8 * len(spine))
    result = new if claimed else tree
    for cell in reversed(spine):
        part = rebuilt(cell.car, change, depth)
        result = cell if part is cell.car and result is cell.cdr else Cons(part, result)
    return result


@library.builtin("copy-tree", "(tree)")
def copy_tree(a: Any) -> Any:
    return _copied(a, 0)


def _copied(a: Any, depth: int) -> Any:
    if not isinstance(a, Cons):
        return a
    depth = descend(depth)
    cells = _cells("copy-tree", a)
    spend_on_new(len(cells))
    return lisp_list([_copied(cell.car, depth) for cell in cells], cells[-1].cdr)
