"""Files of JSON objects, one a line: the numbers under chosen keys."""

from __future__ import annotations

import json
import math
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from attrs import frozen

from sexpgpu.data.arrays import NUMPY_DTYPE, Array
from sexpgpu.data.files import bad_file, read_text, shards, signature
from sexpgpu.data.source import Jsonl
from sexpgpu.diag import SxError, error, nearest
from sexpgpu.tensortype import FLOATS, DType

_WHAT = "JSON objects, one a line"


@frozen(eq=False)
class Objects:
    """The objects of all files with the place of each."""

    rows: tuple[dict[str, Any], ...]
    places: tuple[tuple[Path, int], ...]


def read_objects(source: Jsonl, base: Path | None) -> Objects:
    """Read once while the files stay as they are; `E-LOAD-003` names the line that is no object."""
    return _objects(signature(shards(source.path, base)))


@lru_cache(maxsize=4)
def _objects(files: tuple[tuple[Path, int, int], ...]) -> Objects:
    rows: list[dict[str, Any]] = []
    places: list[tuple[Path, int]] = []
    for path, _, _ in files:
        for number, line in enumerate(read_text(path, _WHAT).split("\n"), 1):
            if line.strip():
                rows.append(_object(path, number, line))
                places.append((path, number))
    if not rows:
        raise bad_file(files[0][0], _WHAT, "all its lines are blank")
    return Objects(tuple(rows), tuple(places))


def _object(path: Path, number: int, line: str) -> dict[str, Any]:
    try:
        found = json.loads(line, parse_float=_finite)
    except json.JSONDecodeError as fault:
        raise bad_file(path, _WHAT, f"line {number}, column {fault.colno}: {fault.msg}") from None
    except (ValueError, RecursionError) as fault:
        raise bad_file(path, _WHAT, f"line {number}: {fault}") from None
    if not isinstance(found, dict):
        raise bad_file(path, _WHAT, f"line {number} holds {_shown(found)}, which is no object")
    return found


def _finite(text: str) -> float:
    """A number's value; `ValueError` for one so large that it would be read as infinity."""
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"{text} is beyond the numbers of f64")
    return number


def first_shape(source: Jsonl, objects: Objects) -> tuple[int, ...]:
    """The shape of the first record."""
    return _record(source, objects, 0).shape


def read_jsonl(source: Jsonl, base: Path | None, dtype: DType) -> Array:
    """The numbers of the keys, [records, ...], as `dtype`; what is none, or of another shape, is told by its line."""
    objects = read_objects(source, base)
    records = [_record(source, objects, i) for i in range(len(objects.rows))]
    shape = records[0].shape
    for i, record in enumerate(records):
        if record.shape != shape:
            raise _bad(objects, i, f"{_named(source)} has the shape {list(record.shape)}, before it {list(shape)}")
    values = np.stack(records)
    with np.errstate(over="ignore", invalid="ignore"):  # what does not fit differs below, and is told there
        result = values.astype(NUMPY_DTYPE[dtype])
    if dtype not in FLOATS:
        wrong = np.flatnonzero((result != values).reshape(len(records), -1).any(axis=1))
        if wrong.size:
            i = int(wrong[0])
            raise _bad(objects, i, f"{_named(source)} is no {dtype}: {_shown(records[i].tolist())}")
    elif (beyond := np.isinf(result) & np.isfinite(values)).any():
        i = int(np.argwhere(beyond)[0][0])
        raise _bad(objects, i, f"{_named(source)} is beyond the numbers of {dtype}: {_shown(records[i].tolist())}")
    return result


def _record(source: Jsonl, objects: Objects, i: int) -> Array:
    values = [_value(source, objects, i, key) for key in source.keys]
    if len(values) == 1:
        return values[0]
    for key, value in zip(source.keys, values, strict=True):
        if value.shape:
            raise _bad(objects, i, f"{key} is a list, and of several keys each gives one number")
    return np.array(values)


def _value(source: Jsonl, objects: Objects, i: int, key: str) -> Array:
    row = objects.rows[i]
    # Names are compared in lower case where none is the very one: symbols of the language fold to it.
    found = [name for name in row if name == key] or [name for name in row if name.lower() == key.lower()]
    if not found:
        path, line = objects.places[i]
        near = nearest(key, row)
        raise error(
            "E-LOAD-004",
            f"{path} has no key {key} in line {line}",
            expected=", ".join(row) or "(an empty object)",
            actual=key,
            help=f"did you mean {near}?" if near else None,
        )
    try:
        value = np.array(row[found[0]])
    except ValueError:
        raise _bad(objects, i, f"{key} has lists of different lengths") from None
    if value.dtype.kind not in "biuf":
        raise _bad(objects, i, f"{key} is no number or list of numbers: {_shown(row[found[0]])}")
    return value


def _named(source: Jsonl) -> str:
    return " ".join(source.keys)


def _bad(objects: Objects, i: int, reason: str) -> SxError:
    path, line = objects.places[i]
    return bad_file(path, _WHAT, f"line {line}: {reason}")


def _shown(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 40 else f"{text[:40]}..."
