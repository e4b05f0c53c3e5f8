"""`sexpgpu explain-code`: the long form of a diagnostic."""

from __future__ import annotations

import click

from sexpgpu.cli import report


@click.command()
@click.argument("code", required=False)
@report.json_option
def command(code: str | None, as_json: bool) -> int:
    """Print the long form of CODE, or the list of all codes.

    \b
    sexpgpu explain-code E-SHAPE-009
    sexpgpu explain-code
    """
    from sexpgpu.diag import nearest
    from sexpgpu.diag.catalogue import ENTRIES

    if code is None:
        if as_json:
            report.print_json({"verb": "explain-code", "codes": {c: e.title for c, e in sorted(ENTRIES.items())}})
        else:
            for key, entry in sorted(ENTRIES.items()):
                click.echo(f"{key:14} {entry.title}")
        return 0
    found = ENTRIES.get(code.upper())
    if found is None:
        near = nearest(code.upper(), ENTRIES)
        raise click.UsageError(f"there is no code {code}." + (f" Did you mean {near}?" if near else ""))
    if as_json:
        report.print_json(
            {
                "verb": "explain-code",
                "code": found.code,
                "title": found.title,
                "explanation": found.explanation,
                "example": found.example,
            }
        )
        return 0
    click.echo(f"{found.code}: {found.title}\n\n{found.explanation}")
    if found.example:
        click.echo("\nFor example:\n\n" + "\n".join(f"    {line}" for line in found.example.splitlines()))
    return 0
