"""The dialect as MLIR gets it: an IRDL definition generated from the table; nothing an operation is written
here.

IRDL cannot relate shapes and a constraint value binds one type, so every operand, result and attribute has a
constraint of its own and `infer` is the verifier. MLIR's Python side also imports this module by its name
when it first meets an `sx` operation; with no module to find it would look again at each one.
"""

from __future__ import annotations

from collections.abc import Mapping

from sexpgpu.dialects.opdef import AttrType, OpDef

NAMESPACE = "sx"

_CONSTRAINTS: dict[AttrType, str] = {
    "int": 'irdl.base "#builtin.integer"',
    "bool": 'irdl.base "#builtin.integer"',
    "float": 'irdl.base "#builtin.float"',
    "str": 'irdl.base "#builtin.string"',
    "ints": 'irdl.base "#builtin.dense_array"',
    "floats": 'irdl.base "#builtin.dense_array"',
    "dtype": 'irdl.base "#builtin.type"',
    "number": "irdl.any",
    "tensor": "irdl.any",
}


def irdl_text(ops: Mapping[str, OpDef]) -> str:
    """The IRDL module that defines the dialect with these operations."""
    return f"irdl.dialect @{NAMESPACE} {{\n" + "\n".join(map(_operation, ops.values())) + "\n}\n"


def result_names(op: OpDef) -> tuple[str, ...]:
    return ("result",) if op.results == 1 else tuple(f"result{i}" for i in range(op.results))


def _operation(op: OpDef) -> str:
    lines: list[str] = []

    def declare(prefix: str, name: str, constraint: str) -> str:
        value = f"%{prefix}_{name}"
        lines.append(f"{value} = {constraint}")
        return value

    def section(keyword: str, prefix: str, names: tuple[str, ...]) -> None:
        entries = [f"{name}: {declare(prefix, name, 'irdl.any')}" for name in names]
        if entries:
            lines.append(f"irdl.{keyword}({', '.join(entries)})")

    attributes = [f'"{a.name}" = {declare("attr", a.name, _CONSTRAINTS[a.type])}' for a in op.attrs]
    if attributes:
        lines.append(f"irdl.attributes {{{', '.join(attributes)}}}")
    section("operands", "in", op.operands)
    section("results", "out", result_names(op))
    body = "\n    ".join(lines)
    return f"  irdl.operation @{op.name} {{\n    {body}\n  }}"
