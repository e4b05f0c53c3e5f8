"""One case of a part of the run as a process of its own, which writes rows to a file as it goes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, cast

import click

from bench.gpu.cases import PARTS, Setting
from bench.gpu.rows import Row, append


@click.command()
@click.argument("name", type=click.Choice(list(PARTS)))
@click.argument("case", type=int)
@click.option("--device", type=click.Choice(["cuda", "sim"]), required=True)
@click.option("--sizes", type=click.Choice(["full", "toy"]), required=True)
@click.option("--torch", required=True)
@click.option("--seconds", type=float, required=True)
@click.option("--out", type=click.Path(path_type=Path), required=True)
def main(
    name: str,
    case: int,
    device: Literal["cuda", "sim"],
    sizes: Literal["full", "toy"],
    torch: str,
    seconds: float,
    out: Path,
) -> None:
    """Write the rows of a CASE, by its number, of part NAME to a file, each when it is known."""
    part = PARTS[name]
    rows = cast(Callable[[Setting, Any], Iterator[Row]], import_module(f"bench.gpu.{part.module}").rows)
    for row in rows(Setting(device, sizes, torch, seconds), part.cases(sizes)[case]):
        append(out, Row(name, row.name, row.ours, row.theirs, row.unit, row.ok, row.note))


if __name__ == "__main__":
    main()
