"""The group of all commands. A command's module is imported when that command is used, and never for help."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, ClassVar

import click

from repoagent import __version__
from repoagent.cli.program.session import Session
from repoagent.errors import Exit, UsageError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

# name: (where its click command stands, what it does in one line)
COMMANDS: dict[str, tuple[str, str]] = {
    "edit": ("repoagent.cli.edit.command:command", "Change files as asked, as one commit."),
    "run": ("repoagent.cli.run.command:command", "Do a whole task, and commit what comes of it."),
    "chat": ("repoagent.cli.chat.command:command", "Work with a model, turn by turn."),
    "apply": ("repoagent.cli.apply:command", "Apply a patch from anywhere, as one commit."),
    "undo": ("repoagent.cli.undo:undo", "Take the last edit back."),
    "redo": ("repoagent.cli.undo:redo", "Make an edit again that was taken back."),
    "review": ("repoagent.cli.review.command:command", "Find what is wrong or missing in a change."),
    "hook": ("repoagent.cli.hook.command:command", "Review each commit or push through git's hooks."),
    "neighbors": ("repoagent.cli.neighbors.command:command", "Show which files change together with a file."),
    "uses": ("repoagent.cli.uses.command:command", "Show where a symbol is used, file by file."),
    "history": (
        "repoagent.cli.history.command:command",
        "Show who works on a file, and what each commit did.",
    ),
    "summarize": ("repoagent.cli.outline.summary:command", "Say what a file is for, with a model."),
    "ask": ("repoagent.cli.ask.command:command", "Ask a model: text and files in, text out."),
    "outline": ("repoagent.cli.outline.command:command", "Show what files define, and on which lines."),
    "split": ("repoagent.cli.split.command:command", "Split a file into segments to edit one by one."),
    "recall": ("repoagent.cli.recall.command:command", "Search what is remembered of the files."),
    "memory": ("repoagent.cli.memory:command", "Show and change what is remembered of files."),
    "runs": ("repoagent.cli.runs:command", "Show runs, live and past, and steer them."),
    "conversation": ("repoagent.cli.conversation:command", "Keep, branch and rewrite what was said."),
    "context": ("repoagent.cli.context.command:command", "Show the prompt that an edit would send."),
    "mine": ("repoagent.cli.mine:command", "Read the repository's history into an index."),
    "mcp": ("repoagent.cli.mcp:command", "Serve other assistants as tools, by MCP."),
    "init": ("repoagent.cli.init:command", "Set up .repoagent/ for a team to share."),
    "config": ("repoagent.cli.config:command", "Show options, or set one."),
    "models": ("repoagent.cli.models:command", "Show the models at hand, or test one."),
    "activity": ("repoagent.cli.activity.command:command", "Show what was done here, and what it cost."),
    "cost": ("repoagent.cli.activity.cost:command", "Show what models have cost."),
    "doctor": ("repoagent.cli.doctor:command", "Check the set-up, and say what to do."),
    "completion": ("repoagent.cli.completing.command:command", "Print the completion script of a shell."),
}

EXIT_CODES = {
    Exit.DONE: "done",
    Exit.NOTHING: "nothing done: nothing to change, or declined",
    Exit.USAGE: "wrong usage",
    Exit.REFUSED: "refused: the edit does not fit, or would touch what it may not",
    Exit.NO_MODEL: "no model, or it gave nothing usable",
    Exit.LIMIT: "a limit was reached: cost, tokens, turns, time",
    Exit.CHECK_FAILED: "a check or a hook failed; all is as it was",
    Exit.BUSY: "busy: another process holds the lock",
    Exit.INTERNAL: "an error in repoagent itself; it names a report",
    Exit.INTERRUPTED: "interrupted",
}


class LazyGroup(click.Group):
    """A group that knows its commands by name and line of help only; a group within it has a `table` of its own."""

    table: ClassVar[Mapping[str, tuple[str, str]]] = COMMANDS

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args and self.no_args_is_help and not ctx.resilient_parsing:  # as the program itself does
            click.echo(ctx.get_help(), err=True)
            ctx.exit(Exit.USAGE)
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.table:
            return None
        module, _, name = self.table[cmd_name][0].partition(":")
        command = getattr(import_module(module), name)
        if not isinstance(command, click.Command):
            raise TypeError(f"{module}:{name} is no command")
        if ctx.resilient_parsing:
            from repoagent.cli.completing.kinds import equip

            equip(command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in self.table and not ctx.resilient_parsing:
            from difflib import get_close_matches

            near = get_close_matches(name, self.table, n=1, cutoff=0.5)
            hint = f"; did you mean '{near[0]}'?" if near else ""
            raise click.UsageError(f"'{name}' is no {ctx.command_path} command{hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in self.table.items()])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_epilog(ctx, formatter)
        with formatter.section("Exit codes"):
            formatter.write_dl([(str(int(code)), meaning) for code, meaning in EXIT_CODES.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        names = [
            CompletionItem(name, help=line)
            for name, (_, line) in self.table.items()
            if name.startswith(incomplete)
        ]
        return names + click.Command.shell_complete(self, ctx, incomplete)


def _change_folder(ctx: click.Context, param: click.Parameter, folders: tuple[str, ...]) -> None:
    for folder in folders:
        if folder and not ctx.resilient_parsing:
            try:
                os.chdir(folder)
            except OSError as error:
                raise UsageError(f"cannot change to '{folder}': {error.strerror}") from error


@click.command(
    cls=LazyGroup,
    invoke_without_command=True,
    subcommand_metavar="COMMAND [ARGS]...",
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.option(
    "-C", "folder", metavar="DIR", multiple=True, is_eager=True, expose_value=False,
    callback=_change_folder, help="Run as if started in DIR.",
)  # fmt: skip
@click.option(
    "--color", metavar="WHEN", type=click.Choice(["auto", "always", "never"]), help="auto, always or never."
)
@click.option("--no-pager", is_flag=True, help="Do not show long output in git's pager.")
@click.option("-v", "--verbose", is_flag=True, help="Say more about what happens.")
@click.version_option(__version__, prog_name="repoagent", message="%(prog)s %(version)s")
@click.pass_context
def cli(ctx: click.Context, /, *, color: str | None, no_pager: bool, verbose: bool) -> None:
    """A git-native repository editing assistant: a model's diff becomes one clean commit."""
    ctx.obj = Session(color, verbose, page=not no_pager)
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help(), err=True)
        ctx.exit(Exit.USAGE)
