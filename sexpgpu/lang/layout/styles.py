"""How each operator is indented: how many operands stand out before its body, and what its parts are."""

from __future__ import annotations

from typing import Final, Literal

from attrs import frozen

from sexpgpu.lang.layout.tree import Node

Role = Literal["code", "data", "clause", "clauses", "function", "functions"]
"""What a list is. `code`: a form, by its operator. `data`: elements under each other, quoted or literal.

`clause`: the same, its elements are code: a binding, a case. `clauses`: a list of such: bindings, a lambda list.
`function`: a name or type, a lambda list, a body. `functions`: a list of such.
"""


@frozen
class Style:
    """`distinguished` operands, indented by 4 where they begin a line, stand before a body indented by 2.

    Without a number the operands stand under the first one. `parts` are the roles of the first operands, `rest` the
    role of the others.
    """

    distinguished: int | None = None
    parts: tuple[Role, ...] = ()
    rest: Role = "code"


CALL: Final = Style()
_TABLE: Final[dict[str, Style]] = {}


def _enter(names: str, style: Style) -> None:
    _TABLE.update(dict.fromkeys(names.split(), style))


_enter("let let* do do* prog prog* symbol-macrolet", Style(1, ("clauses",)))
_enter("flet labels macrolet", Style(1, ("functions",)))
_enter("lambda forward optimizer-update optimizer-view", Style(1, ("clauses",)))
_enter("dolist dotimes", Style(1, ("clause",)))
_enter("handler-bind", Style(1, ("clauses",)))
_enter("when unless block catch return-from eval-when unwind-protect prog1 multiple-value-prog1 repeat", Style(1))
_enter("progn locally tagbody ignore-errors optimizer-groups", Style(0))
_enter("case ecase typecase etypecase ccase ctypecase", Style(1, ("code",), "clause"))
_enter("handler-case restart-case", Style(1, ("code",), "function"))
_enter("cond", Style(None, (), "clause"))
_enter("multiple-value-bind destructuring-bind", Style(2, ("clauses",)))
_enter("defun defmacro defmodel defoptimizer define-modify-macro", Style(2, ("code", "clauses")))
_enter("defknobs", Style(0, (), "clause"))
_enter("defvariant defsweep defstruct stage", Style(1, ("code",), "clause"))
_enter("defloader", Style(2, ("code", "clause"), "clause"))
_enter("defeval", Style(1, ("code", "clause")))
_enter("define-condition", Style(2, ("code", "data", "clauses"), "clause"))
_enter("defrun", CALL)
# The compiler's side of the defining forms, called by their expansions with what the user wrote last.
_enter("%defmodel %forward %defloader %defoptimizer", Style(1))

_DEFINING: Final = Style(1)
_PARTS: Final[dict[Role, Role]] = {"data": "data", "clause": "code", "clauses": "clause", "functions": "function"}


class Styles:
    """The operators' styles; macros that the text itself defines have theirs from the place of their `&body`."""

    def __init__(self, nodes: list[Node]) -> None:
        self._own: dict[str, Style] = {}
        for node in nodes:
            found = _macro_style(node)
            if found is not None:
                self._own.setdefault(*found)

    def of(self, form: Node) -> Style:
        """The style of a form, by its operator."""
        operator = form.data[0].name if form.data else ""
        known = _TABLE.get(operator) or self._own.get(operator)
        if known is not None:
            return known
        if operator.startswith("def"):
            return _DEFINING
        return Style(1, ("clause",)) if operator.startswith("with-") else CALL


def _macro_style(node: Node) -> tuple[str, Style] | None:
    """The name and style of the macro that `(defmacro name lambda-list ...)` defines, if it has a `&body`."""
    data = node.data if node.kind == "list" else []
    if len(data) < 3 or data[0].name != "defmacro" or data[2].kind != "list":
        return None
    names = [item.name for item in data[2].data]
    if "&body" not in names:
        return None
    return data[1].name, Style(sum(not name.startswith("&") for name in names[: names.index("&body")]))


def part_role(role: Role, style: Style, position: int) -> Role:
    """The role of the element at `position` (0 is the operator) of a list in `role` with a form's `style`."""
    if role == "code":
        if position == 0:
            return "code"
        return style.parts[position - 1] if position <= len(style.parts) else style.rest
    if role == "function":
        return "clauses" if position == 1 else "code"
    return _PARTS[role]


def prefixed_role(prefix: str, role: Role) -> Role:
    """The role of what follows a prefix that stands where `role` does."""
    if prefix == "'":
        return "data"
    return "code" if prefix[0] == "," or prefix in ("#'", "#.") else role


def is_operator(node: Node) -> bool:
    """Whether the first element of a form says how the form is indented: a symbol, or one that is unquoted."""
    return node.kind == "prefix" or (node.kind == "atom" and node.text[0] not in '0123456789:"#')
