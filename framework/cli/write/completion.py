"""`floe completion`: the script that makes a shell complete verbs, options, files and names."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print the completion script of a shell: it completes verbs, options, files, codes, targets, pipelines and tables.
    It asks no broker and no catalog. There is none for PowerShell.

    \b
    bash:  floe completion bash > ~/.local/share/bash-completion/completions/floe
    zsh:   floe completion zsh > "${fpath[1]}/_floe"
    fish:  floe completion fish > ~/.config/fish/completions/floe.fish

    For this session only:

    \b
    eval "$(_FLOE_COMPLETE=bash_source floe)"
    """
    from framework.cli.main import floe

    found = get_completion_class(shell)
    assert found is not None, f"click knows {shell}"
    click.echo(found(floe, {}, "floe", "_FLOE_COMPLETE").source())
