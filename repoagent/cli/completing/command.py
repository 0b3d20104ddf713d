"""`repoagent completion`: the script that teaches a shell our commands, options and what they take."""

from __future__ import annotations

import click

from repoagent.cli.program.session import Session

EPILOG = """\b
Examples:
  # bash, with the package bash-completion
  folder=~/.local/share/bash-completion/completions; mkdir -p $folder
  repoagent completion bash | tee $folder/{,git-}repoagent > /dev/null
  # zsh, with fpath+=~/.zfunc before compinit in ~/.zshrc
  mkdir -p ~/.zfunc; repoagent completion zsh > ~/.zfunc/_git-repoagent
  # fish
  set folder ~/.config/fish/completions; mkdir -p $folder
  repoagent completion fish | tee $folder/{,git-}repoagent.fish > /dev/null

Then `repoagent` and `git repoagent` are completed alike: commands, options, files, revisions, models, what is
remembered, conversations, keys of options. Nothing is asked over the network for it."""


@click.command(epilog=EPILOG)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print the completion script of SHELL: bash, zsh or fish."""
    from repoagent.cli.completing.answer import script

    ctx.ensure_object(Session).terminal().styled(script(shell))
