"""The table of all commands, and their group. A command's module is imported only when the command runs.

`settle_interrupted_edits` is the first step of every command that writes: it recovers what a killed run left behind.
"""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from repoagent import __version__
from repoagent.cli.session import Session, add_global_options, find_worktree, global_options
from repoagent.errors import Exit

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from repoagent.cli.ui.terminal import Terminal
    from repoagent.git.worktree import WorkTree

# heading: {name: ("module:command", short help)}; modules without a dot are in repoagent.cli.commands
GROUPS: dict[str, dict[str, tuple[str, str]]] = {
    "Do": {
        "edit": ("edit:command", "Change files as you ask, in one commit."),
        "run": ("run:command", "Do a whole task and commit the result."),
        "chat": ("repoagent.cli.chat.command:command", "Work with a model, turn by turn."),
        "ask": ("ask:command", "Ask a model about files, pictures or a pipe."),
        "apply": ("apply:command", "Apply a patch from any source, in one commit."),
        "undo": ("undo:undo", "Undo the last edit, or an earlier one."),
        "redo": ("undo:redo", "Redo an edit that you undid."),
    },
    "Look": {
        "neighbors": ("neighbors:command", "Show which files change together with a file."),
        "uses": ("uses:command", "Show where a symbol is used, file by file."),
        "history": ("history:command", "Show who works on a file, and what each commit did."),
        "outline": ("outline:command", "Show what files define, or summarize them."),
        "recall": ("recall:command", "Search notes, conversations and past edits."),
        "context": ("context:command", "Show the prompt that an edit would send."),
    },
    "Review": {
        "review": ("review:command", "Find mistakes and omissions in a change."),
        "hook": ("hook:command", "Review every commit or push in a git hook."),
    },
    "Manage": {
        "memory": ("memory:command", "Show and change what is remembered about files."),
        "conversation": ("conversation:command", "Save, branch and rewrite conversations."),
        "runs": ("runs:command", "List, follow and control runs."),
        "split": ("split:command", "Split a large file into segments, and join them."),
        "models": ("models:command", "List the available models, or test one."),
        "config": ("config:command", "Show and set options."),
        "activity": ("activity:command", "Show past edits, runs and reviews, and their cost."),
        "doctor": ("doctor:command", "Check the installation and the repository."),
        "mcp": ("mcp:command", "Serve other assistants over MCP."),
    },
}
HIDDEN = {
    "help": ("help:command", "Show help for a command, or a page of the documentation."),
    "mine": ("history:mine_command", "Index the repository's history."),
    "completion": ("repoagent.cli.completion:command", "Print the completion script for a shell."),
}
COMMANDS = {name: entry for group in [*GROUPS.values(), HIDDEN] for name, entry in group.items()}


class LazyGroup(click.Group):
    """A group that takes the names and short help of its commands from `table`, so that a command is imported only when
    it runs."""

    table: Mapping[str, tuple[str, str]]

    def __init__(self, *args: Any, table: Mapping[str, tuple[str, str]] | None = None, **more: Any) -> None:
        super().__init__(*args, **more)
        if table is not None:
            self.table = table

    @property
    def groups(self) -> Mapping[str, Mapping[str, tuple[str, str]]]:
        return {"Commands": self.table}

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args and self.no_args_is_help and not ctx.resilient_parsing:
            click.echo(ctx.get_help(), err=True)
            ctx.exit(Exit.USAGE)
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for group in self.groups.values() for name in group]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.table:
            return None
        module, _, name = self.table[cmd_name][0].partition(":")
        module = module if "." in module else f"repoagent.cli.commands.{module}"
        command = getattr(import_module(module), name)
        if not isinstance(command, click.Command):
            raise TypeError(f"{module}:{name} is not a click command")
        add_global_options(command)
        if ctx.resilient_parsing:
            from repoagent.cli.completion import add_completion

            add_completion(command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name in self.table or ctx.resilient_parsing:
            return super().resolve_command(ctx, args)
        hint = ""
        if ctx.parent is None and " " in name.strip():
            hint = f"; did you mean `{ctx.command_path} run {shlex.join(args)}`?"
        elif ctx.parent is None and Path(name).is_file():
            hint = f"; did you mean `{ctx.command_path} edit {shlex.join(args)}`?"
        elif near := difflib.get_close_matches(name, self.table, n=1, cutoff=0.65):
            hint = f"; did you mean '{near[0]}'?"
        raise click.UsageError(f"unknown command '{name}'{hint}", ctx)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, self.table))  # one width for all groups
        for heading, group in self.groups.items():
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(width), line) for name, (_, line) in group.items()])
        click.Command.format_options(self, ctx, formatter)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        names = [
            CompletionItem(name, help=line)
            for group in self.groups.values()
            for name, (_, line) in group.items()
            if name.startswith(incomplete)
        ]
        return names + click.Command.shell_complete(self, ctx, incomplete)


class Program(LazyGroup):
    """The group of all commands, under headings by purpose."""

    table = COMMANDS
    groups = GROUPS


EPILOG = """\
Options also work after the command. Use `repoagent help COMMAND` to read about a command, and
`repoagent help exit-codes` for the exit codes."""


@click.command(
    cls=Program,
    invoke_without_command=True,
    subcommand_metavar="COMMAND [ARGS]...",
    context_settings={"help_option_names": ["-h", "--help"]},
    params=global_options(hidden=False),
    epilog=EPILOG,
)
@click.version_option(__version__, prog_name="repoagent", message="%(prog)s %(version)s")
@click.pass_context
def cli(ctx: click.Context, /) -> object:
    """Edit a git repository with a language model; each change becomes one clean commit."""
    ctx.ensure_object(Session)
    if ctx.invoked_subcommand is None:
        terminal = ctx.obj.terminal()
        if terminal.can_ask and terminal.output_tty and find_worktree() is not None:
            chat = cast(LazyGroup, ctx.command).get_command(ctx, "chat")
            with cast(click.Command, chat).make_context("chat", [], parent=ctx) as chat_ctx:
                return chat_ctx.command.invoke(chat_ctx)
        click.echo(ctx.get_help())
        ctx.exit(Exit.NOTHING)  # as `git` alone
    return None


def settle_interrupted_edits(worktree: WorkTree, terminal: Terminal) -> None:
    """Complete or roll back interrupted edits from the journal, and print a note about each."""
    from repoagent.edit.unfinished import settle_unfinished as settle_all

    settle_all(worktree, lambda sentence: terminal.note(f"recovered: {sentence}"), terminal.warn)
