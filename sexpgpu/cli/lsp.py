"""`sexpgpu lsp`: the language server."""

from __future__ import annotations

import click


@click.command()
@click.option("--stdio", is_flag=True, help="Speak on standard input and output; it always does.")
def command(stdio: bool) -> int:
    """Serve an editor over standard input and output, by the Language Server Protocol.

    \b
    sexpgpu lsp
    sexpgpu lsp --stdio

    Editors start it; docs/editors.md says how. Diagnostics as you type, types of tensors and docs on hover,
    definitions, completion, formatting.
    """
    from sexpgpu.driver.extras import missing_package

    try:
        from sexpgpu.editor.features import serve
    except ImportError as fault:
        if (fault.name or "").partition(".")[0] not in ("pygls", "lsprotocol"):
            raise
        raise missing_package("pygls", "lsp") from None
    serve()
    return 0
