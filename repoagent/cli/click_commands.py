"""The click classes for the commands: options in groups, `--help-all`, and the options that every command takes."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from repoagent.cli.session import Session
from repoagent.errors import UsageError

LONG = 15  # a command with more options than this shows the first group only, and the rest with --help-all
_ALL = f"{__name__}.all"  # the key in ctx.meta: show all groups

Groups = Mapping[str, Sequence[str]]


class Command(click.Command):
    """A command with its options in groups: `option_groups` has the parameters by heading, the most useful first.

    `verbs` maps a first argument to its subcommand: `config init`, `review dismiss`.
    """

    def __init__(
        self,
        *args: Any,
        option_groups: Groups | None = None,
        verbs: Mapping[str, click.Command] | None = None,
        **more: Any,
    ) -> None:
        super().__init__(*args, **more)
        self.option_groups = option_groups or {}
        self.verbs = verbs or {}
        options = [param for param in self.params if isinstance(param, click.Option)]
        self.is_long = bool(self.option_groups) and len(options) > LONG
        if self.is_long:
            self.params.append(
                click.Option(
                    ["--help-all"], is_flag=True, is_eager=True, expose_value=False, callback=_show_all,
                    help="Show all options and exit.",
                )
            )  # fmt: skip

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        if args and args[0] in self.verbs:
            return self.verbs[args[0]].make_context(f"{info_name} {args[0]}", args[1:], parent, **extra)
        return super().make_context(info_name, args, parent, **extra)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if self.verbs:
            with formatter.section("Commands"):
                rows = []
                for name, verb in self.verbs.items():
                    words = [
                        each.human_readable_name for each in verb.params if isinstance(each, click.Argument)
                    ]
                    rows.append((" ".join([name, *words]), verb.get_short_help_str(100)))
                formatter.write_dl(rows)
        for heading, params in self.groups(ctx):
            records = [record for param in params if (record := param.get_help_record(ctx))]
            if records:
                with formatter.section(heading):
                    formatter.write_dl(records)
            if self.is_long and not ctx.meta.get(_ALL):
                break

    def groups(self, ctx: click.Context) -> Iterator[tuple[str, list[click.Option]]]:
        """All options by heading. Options that are in no group appear under the first heading."""
        params = {
            option.name or "": option for option in self.get_params(ctx) if isinstance(option, click.Option)
        }
        named = {name for names in self.option_groups.values() for name in names}
        rest = [param for name, param in params.items() if name not in named]
        for heading, names in (self.option_groups or {"Options": ()}).items():
            yield heading, [*(params[name] for name in names), *rest]
            rest = []


def _show_all(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        show_all_options(ctx)
        click.echo(ctx.get_help())
        ctx.exit()


def show_all_options(ctx: click.Context) -> None:
    """Show all option groups in this context's help."""
    ctx.meta[_ALL] = True


def _change_folder(ctx: click.Context, param: click.Parameter, folders: tuple[str, ...]) -> None:
    for folder in folders:
        if folder and not ctx.resilient_parsing:
            try:
                os.chdir(folder)
            except OSError as error:
                raise UsageError(f"cannot change to '{folder}': {error.strerror}") from error


def _set_session(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    name = param.name or ""
    if value != Session._field_defaults[name]:
        ctx.obj = (ctx.find_object(Session) or Session())._replace(**{name: value})


def global_options(*, hidden: bool) -> list[click.Parameter]:
    """The options that are allowed both before and after the name of a command; those after it are `hidden`, so the
    help does not list them."""
    when = click.Choice(["auto", "always", "never"])
    options = [
        click.Option(
            ["-C", "folder"], metavar="DIR", multiple=True, is_eager=True, callback=_change_folder,
            help="Run as if started in DIR.",
        ),
        click.Option(["--color"], metavar="WHEN", type=when, help="Use colors: auto, always or never."),
        click.Option(["--no-pager"], is_flag=True, help="Do not pipe long output into a pager."),
        click.Option(["-v", "--verbose"], is_flag=True, help="Show more details."),
    ]  # fmt: skip
    for option in options:
        option.expose_value, option.hidden = False, hidden
        option.callback = option.callback or _set_session
    return list(options)


def add_global_options(command: click.Command) -> None:
    """Add the global options to `command` and its subcommands."""
    if not any(param.name == "folder" and not param.expose_value for param in command.params):
        command.params += global_options(hidden=True)
    inner = getattr(command, "commands", {}) or getattr(command, "verbs", {})
    for each in inner.values():
        add_global_options(each)


def words_in(file: Path, noun: str) -> str:
    """The text of `file`, or of standard input for "-". Raises UsageError for an unreadable file, and for one that is
    not UTF-8; the message calls the text `noun`."""
    try:
        data = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
        return data.decode("utf-8-sig")
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"the {noun} in {file} is not UTF-8: save it as UTF-8") from error
