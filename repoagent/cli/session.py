"""The objects that commands receive, and the output of results.

`Session` has the values of the global options, loads the settings and opens the terminal. `Repository` is the
repository of the current folder. `emit` prints results.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from functools import update_wrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

import click

from repoagent.errors import NothingDone, UsageError

if TYPE_CHECKING:
    from repoagent.cli.ui.terminal import Terminal
    from repoagent.config.settings import Settings
    from repoagent.git.worktree import WorkTree
    from repoagent.storage.layout import Layout

R = TypeVar("R")

# commands whose output may be longer than a screen, unless it is JSON, and that ask no questions while they print
PAGED = re.compile(
    "activity|config|context|doctor|help|history|neighbors|outline|recall|review|split|uses|"
    "(conversation|memory|runs) (list|show)|runs"
)


class Session(NamedTuple):  # imported by each command; a dataclass would take 2 ms more
    """The global options. `@pass_session` passes them to a command."""

    color: str | None = None
    verbose: bool = False
    no_pager: bool = False

    def terminal(self, settings: Settings | None = None) -> Terminal:
        """The terminal, with colors according to --color or the settings."""
        from repoagent.cli.ui.terminal import Terminal

        color = self.color or (settings.text("color") if settings is not None else "auto")
        pages, words = not self.no_pager, list[str]()
        ctx = click.get_current_context(silent=True)
        while ctx is not None and ctx.parent is not None:
            pages = pages and not ctx.params.get("as_json")
            words.insert(0, ctx.info_name or "")
            ctx = ctx.parent
        pages = pages and PAGED.fullmatch(" ".join(words)) is not None
        return Terminal.open(color, verbose=self.verbose, pages=pages)

    def open(
        self, layout: Layout | None, flags: Mapping[str, object] | None = None
    ) -> tuple[Settings, Terminal]:
        """Load the settings and print their warnings. `flags` has the values of command-line options by setting; None
        for an option that was not used."""
        from repoagent.config.layers import load_settings

        settings = load_settings(layout, flags={**(flags or {}), "color": self.color})
        terminal = self.terminal(settings)
        for warning in settings.warnings:
            terminal.warn(warning)
        return settings, terminal


def _use_global_option(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    """Change the folder, or set the field of the session with the name of the option."""
    name = param.name or ""
    if name == "folder":
        for folder in filter(None, () if ctx.resilient_parsing else value):
            try:
                os.chdir(folder)
            except OSError as error:
                raise UsageError(f"cannot change to '{folder}': {error.strerror}") from error
    elif value != Session._field_defaults[name]:
        ctx.obj = (ctx.find_object(Session) or Session())._replace(**{name: value})


def global_options(*, hidden: bool) -> list[click.Parameter]:
    """The options that are allowed before and after the name of a command. With `hidden`, the help does not list
    them."""
    when = click.Choice(["auto", "always", "never"])
    options = [
        click.Option(
            ["-C", "folder"], metavar="DIR", multiple=True, is_eager=True, help="Run as if started in DIR."
        ),
        click.Option(["--color"], metavar="WHEN", type=when, help="Use colors: auto, always or never."),
        click.Option(["--no-pager"], is_flag=True, help="Do not pipe long output into a pager."),
        click.Option(["-v", "--verbose"], is_flag=True, help="Show more details."),
    ]
    for option in options:
        option.expose_value, option.hidden, option.callback = False, hidden, _use_global_option
    return list(options)


def add_global_options(command: click.Command) -> None:
    """Add the global options to `command` and its subcommands."""
    if not any(param.name == "folder" and not param.expose_value for param in command.params):
        command.params += global_options(hidden=True)
    inner = getattr(command, "commands", {}) or getattr(command, "verbs", {})
    for each in inner.values():
        add_global_options(each)


def find_layout() -> Layout | None:
    """The layout of the current repository; None outside one."""
    from repoagent.git.worktree import layout_of, open_worktree

    try:
        return layout_of(open_worktree(Path.cwd()))
    except UsageError:
        return None


pass_session = click.make_pass_decorator(Session, ensure=True)
json_option = click.option("--json", "as_json", is_flag=True, help="Print the result, or the error, as JSON.")


def write_json(terminal: Terminal, content: Mapping[str, object]) -> None:
    """Write the result of `--json`, with the version of the format. Paths become strings, dataclasses objects."""
    import json

    def plain(value: Any) -> object:
        return os.fspath(value) if isinstance(value, os.PathLike) else dict(vars(value))

    terminal.result(json.dumps({"version": 1, **content}, indent=2, default=plain) + "\n")


def emit(
    terminal: Terminal,
    content: Mapping[str, object],
    lines: Iterable[str] = (),
    *,
    as_json: bool,
    notes: Iterable[str] = (),
) -> None:
    """Print the result of a command: `content` as JSON if `as_json`, otherwise the painted `lines` (as exact bytes in a
    pipe), and `notes` on standard error."""
    if as_json:
        write_json(terminal, content)
        return
    if text := "".join(f"{line}\n" for line in lines):
        (terminal.styled if terminal.output_tty else terminal.result)(text)
    for note in notes:
        terminal.note(note, "dim")


def select_fields(value: object, *names: str, **renamed: str) -> dict[str, Any]:
    """Select attributes of `value` for JSON. Those in `renamed` (new name=attribute) get new names; an empty string
    becomes null."""
    attributes = {**dict(zip(names, names, strict=True)), **renamed}
    return {
        name: None if (item := getattr(value, attribute)) == "" else item
        for name, attribute in attributes.items()
    }


class Repository(NamedTuple):
    """The repository, the settings and the terminal of a command. `as_json`: --json was given."""

    worktree: WorkTree
    layout: Layout
    settings: Settings
    terminal: Terminal
    cwd: Path
    as_json: bool = False

    def emit(
        self, content: Mapping[str, object], lines: Iterable[str] = (), *, notes: Iterable[str] = ()
    ) -> None:
        """Print the result of the command; see `session.emit`."""
        emit(self.terminal, content, lines, as_json=self.as_json, notes=notes)

    def relative(self, path: str | Path) -> str:
        """A path from the command line, relative to the top. Raises UsageError for one outside the repository."""
        from repoagent.git.worktree import relative_path

        return relative_path(self.worktree, path, self.cwd)

    def settle(self) -> None:
        """Complete or roll back interrupted edits, with a note about each; the first step of a command that writes."""
        from repoagent.cli.app import settle_interrupted_edits

        settle_interrupted_edits(self.worktree, self.terminal)

    def shown(self, path: Path) -> str:
        """The path of one of repoagent's files: relative to the current folder or, if shorter, absolute."""
        near = os.path.relpath(path, self.cwd)
        return near if len(near) < len(str(path)) else str(path)

    def confirm(self, question: str, choices: tuple[str, str], *, refusal: str, declined: str) -> None:
        """Ask a yes-or-no question; `choices` describes the two answers.

        Raises UsageError with the text `refusal` without a terminal or with --json, and NothingDone with the text
        `declined` if the answer is no.
        """
        if self.as_json or not self.terminal.can_ask:
            raise UsageError(refusal)
        if self.terminal.ask(question, dict(zip("yn", choices, strict=True))) == "n":
            raise NothingDone(declined)


def open_repository(
    session: Session, flags: Mapping[str, object] | None = None, *, as_json: bool = False
) -> Repository:
    """The repository of the current folder, with the settings that `flags` override. Raises UsageError outside one."""
    from repoagent.git.worktree import layout_of, open_worktree

    cwd = Path.cwd()
    worktree = open_worktree(cwd)
    dirs = layout_of(worktree)
    return Repository(worktree, dirs, *session.open(dirs, flags), cwd, as_json)


def pass_repository(command: Callable[..., R]) -> Callable[..., R]:
    """Decorator: add the `--json` option, and pass the repository of the current folder to the command."""

    @json_option
    @pass_session
    def opened(session: Session, /, *, as_json: bool, **values: Any) -> R:
        return command(open_repository(session, as_json=as_json), **values)

    return update_wrapper(cast("Callable[..., R]", opened), command)


def find_worktree(*, refused_ok: bool = False) -> WorkTree | None:
    """The work tree of the current folder; None outside a work tree.

    With `refused_ok`, the result is also None for a repository that cannot be trusted or read; otherwise such a
    repository raises UsageError.
    """
    from repoagent.git.worktree import NoWorkTree, open_worktree

    try:
        return open_worktree(Path.cwd())
    except UsageError as error:
        if refused_ok or isinstance(error, NoWorkTree):
            return None
        raise
