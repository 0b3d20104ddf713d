"""Write docs/reference.md from the code: commands with their options, configuration, exit codes.

`make reference` runs it; a test checks that the page is up to date.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from repoagent.cli.app import COMMANDS, cli
from repoagent.cli.commands.help import EXIT_CODES
from repoagent.cli.options import show_all_options
from repoagent.config.options import OPTIONS, Option
from repoagent.config.settings import Setting

PAGE = Path(__file__).with_name("reference.md")
LAYERS = (
    "Later sources override earlier ones: defaults; `$XDG_CONFIG_HOME/repoagent/config.toml`; "
    "`.repoagent/config.toml`; `git config repoagent.KEY`; `REPOAGENT_KEY`; flags. `repoagent config` shows each value "
    "and its origin. Keys of git have no underscores: `repoagent.maxTurns` is `max_turns`. In variables, two "
    "underscores replace a dot: `REPOAGENT_EDIT__SCOPE` is `edit.scope`."
)


def page() -> str:
    """The whole page."""
    parts = ["# Reference", "Generated from the code by `make reference`.", "## Commands"]
    with click.Context(cli, info_name="repoagent", **cli.context_settings) as ctx:
        parts.append(_help(cli, ctx))
        for name in COMMANDS:
            command = cli.get_command(ctx, name)
            if command is None:
                raise LookupError(name)
            parts += _sections(command, name, ctx)
    parts += ["## Configuration", LAYERS, "\n".join(_rows())]
    codes = [f"| {int(code)} | {meaning} |" for code, meaning in EXIT_CODES.items()]
    parts += ["## Exit codes", "\n".join(["| exit | meaning |", "|---|---|", *codes])]
    return "\n\n".join(parts) + "\n"


def _sections(command: click.Command, name: str, parent: click.Context) -> Iterator[str]:
    """A command and its subcommands."""
    with click.Context(command, info_name=name, parent=parent, **command.context_settings) as ctx:
        yield f"### {ctx.command_path}"
        yield _help(command, ctx)
        if isinstance(command, click.Group):
            for inner in command.list_commands(ctx):
                if (subcommand := command.get_command(ctx, inner)) is not None:
                    yield from _sections(subcommand, inner, ctx)
    for word, verb in getattr(command, "verbs", {}).items():  # commands of a command that is no group
        yield from _sections(verb, f"{name} {word}", parent)


def _help(command: click.Command, ctx: click.Context) -> str:
    ctx.max_content_width = ctx.terminal_width = 100
    show_all_options(ctx)
    return (
        "```text\n"
        + "\n".join(line.rstrip() for line in command.get_help(ctx).splitlines()).rstrip()
        + "\n```"
    )


def _rows() -> Iterator[str]:
    yield "| key | default | what it is | may the repository set it |"
    yield "|---|---|---|---|"
    for option in OPTIONS:
        may = "no" if not option.repository_may_set else "only lower" if option.only_lower else "yes"
        may = f"only {option.only_what}" if option.only_like else may
        may += ", where you have not" if option.only_unset else ""
        yield f"| `{option.key}` | {_default(option)} | {option.doc} | {may} |"


def _default(option: Option) -> str:
    return Setting(option.key, option.default, "default", option).shown or "none"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
