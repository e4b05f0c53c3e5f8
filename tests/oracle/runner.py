"""Measure an evaluator against SBCL's answers, area by area.

    python tests/oracle/runner.py [corpus.jsonl] [--adapter adapter:evaluate] [--area loop] [--show 20]

Values must print exactly, once floats are spelt alike (1.0e7 = 1.0e+7). `values_abbrev` is accepted beside
`values`; `values_lowerfold` replaces them, since our reader folds to lower case. Entries flagged `impl` depend on
an implementation's choices and are counted apart. Those flagged `float` are single floats in SBCL, doubles
here. An entry that SBCL refuses passes when we refuse it too.
A Python exception that escapes the evaluator is a crash whatever the entry.
"""

from __future__ import annotations

import argparse
import importlib
import json
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

CORPUS = Path(__file__).with_name("corpus.jsonl")
Evaluate = Callable[[str], tuple[str, Any, str]]


def entries(corpus: Path = CORPUS) -> Iterator[dict[str, Any]]:
    with corpus.open(encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def one_spelling(value: str) -> str:
    """A printed value with its floats' exponents spelt alike."""
    return re.sub(r"(?<=\d)[eE]\+?(-?)0*(\d)", r"e\1\2", value)


def agrees(entry: dict[str, Any], kind: str, got: Any) -> bool:
    """Whether an answer is the one that the entry wants."""
    if entry.get("error") or entry.get("error_lowerfold"):
        return kind == "error"
    if kind != "ok":
        return False
    wanted = [entry.get("values_lowerfold", entry["values"])]
    if "values_abbrev" in entry:
        wanted.append(entry["values_abbrev"])
    found = [one_spelling(value) for value in got]
    if "float" in entry.get("flags", ()):
        return all(map(same_single, found, wanted[0])) and len(found) == len(wanted[0])
    return any(found == [one_spelling(value) for value in values] for values in wanted)


def same_single(got: str, wanted: str) -> bool:
    """Whether a double is what SBCL gives as a single float, `1.4142135f0`."""
    try:
        return abs(float(got) - float(wanted.replace("f0", ""))) <= 1e-6 * abs(float(got))
    except ValueError:
        return False


def verdict(entry: dict[str, Any], evaluate: Evaluate) -> tuple[str, str]:
    """`pass`, `FAIL`, `crash` or `apart`, and what was answered."""
    try:
        kind, got, _ = evaluate(entry["form"])
    except Exception as escaped:
        return "crash", repr(escaped)
    if agrees(entry, kind, got):
        return "pass", ""
    return ("apart" if "impl" in entry.get("flags", ()) else "FAIL"), f"{kind} {got}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus", nargs="?", type=Path, default=CORPUS)
    parser.add_argument("--adapter", default="adapter:evaluate")
    parser.add_argument("--area")
    parser.add_argument("--show", type=int, default=10, help="how many failures to print in full")
    options = parser.parse_args()
    module, _, name = options.adapter.partition(":")
    evaluate: Evaluate = getattr(importlib.import_module(module), name)
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    shown = 0
    for entry in entries(options.corpus):
        if options.area and entry["area"] != options.area:
            continue
        outcome, got = verdict(entry, evaluate)
        counts[entry["area"]][outcome] += 1
        if outcome in ("FAIL", "crash") and shown < options.show:
            shown += 1
            want = "an error" if entry.get("error") else entry.get("values_lowerfold", entry["values"])
            sys.stdout.write(f"{entry['id']} [{entry['area']}]\n  {entry['form']}\n  want {want}\n  got  {got}\n")
    for area, count in sorted(counts.items()):
        sys.stdout.write(
            f"{area:18} {100 * count['pass'] / count.total():5.1f} %  pass {count['pass']:4}  "
            f"fail {count['FAIL']:4}  crash {count['crash']:4}  apart {count['apart']:4}\n"
        )
    return 1 if any(count["FAIL"] or count["crash"] for count in counts.values()) else 0


if __name__ == "__main__":
    sys.path.insert(0, str(CORPUS.parents[2]))
    sys.exit(main())
