"""`floe lsp`: the language server that an editor starts. It needs the extra `lsp`."""

from __future__ import annotations

import sys
from importlib.util import find_spec

import click

from framework.errors import SetupError


@click.command()
@click.option("--target", "-t", metavar="NAME", help="The target that files are checked under.  [default: local]")
def lsp(target: str | None) -> None:
    """Serve an editor over standard input and output: what `floe validate` finds while you type, explanations of keys and codes,
    and the way to the template. An editor starts it; by hand it only waits.

    \b
    floe lsp
    floe lsp --target prod
    """
    if find_spec("pygls") is None:
        raise SetupError(
            "package pygls is not installed",
            code="FLOE-E411",
            place=sys.prefix,
            remedy="install floe with its language server: `pip install 'floe-pipelines[lsp]'`",
        )
    from framework.editor.server import create_server

    create_server(target).start_io()
