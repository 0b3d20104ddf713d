"""`repoagent completion`: the script that teaches a shell our commands and options."""

from __future__ import annotations

import click

from repoagent.cli.exits import COMPLETE
from repoagent.cli.session import Session

WHERE = """\b
Put it where your shell finds it:
  bash  repoagent completion bash > ~/.local/share/bash-completion/completions/repoagent
  zsh   repoagent completion zsh > ~/.zfunc/_repoagent       (~/.zfunc in fpath)
  fish  repoagent completion fish > ~/.config/fish/completions/repoagent.fish"""


@click.command(epilog=WHERE)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print the completion script of SHELL: bash, zsh or fish."""
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"click knows no completion for {shell}", ctx)
    script = kind(ctx.find_root().command, {}, "repoagent", COMPLETE).source()
    ctx.ensure_object(Session).terminal().result(script)
