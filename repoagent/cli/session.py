"""The global options (`Session`), which open the settings and the terminal of each command."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import click

if TYPE_CHECKING:
    from repoagent.cli.ui.terminal import Terminal
    from repoagent.config.settings import Settings
    from repoagent.storage.layout import Layout

# commands whose output may be longer than a screen, and that ask no questions while they print
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
        return Terminal.open(color, verbose=self.verbose, pages="" if self.no_pager else _paged())

    def open(
        self, layout: Layout | None, flags: Mapping[str, object] | None = None
    ) -> tuple[Settings, Terminal]:
        """Load the settings and print warnings about them. `flags` has the value of each key, None if it was not
        set."""
        from repoagent.config.layers import load

        settings = load(layout, flags={**(flags or {}), "color": self.color})
        terminal = self.terminal(settings)
        for warning in settings.warnings:
            terminal.warn(warning)
        return settings, terminal


def _paged() -> str:
    """The name of the current command if its output may go into a pager, otherwise "" (also for JSON)."""
    ctx = click.get_current_context(silent=True)
    words: list[str] = []
    while ctx is not None and ctx.parent is not None:
        if ctx.params.get("as_json"):
            return ""
        words.insert(0, ctx.info_name or "")
        ctx = ctx.parent
    name = " ".join(words)
    return name if PAGED.fullmatch(name) else ""


def find_layout() -> Layout | None:
    """The layout of the current repository; None outside one."""
    from pathlib import Path

    from repoagent.errors import UsageError
    from repoagent.git.worktree import layout, open_worktree

    try:
        return layout(open_worktree(Path.cwd()))
    except UsageError:
        return None


pass_session = click.make_pass_decorator(Session, ensure=True)
json_option = click.option("--json", "as_json", is_flag=True, help="Print the result, or the error, as JSON.")


def write_json(terminal: Terminal, content: Mapping[str, object]) -> None:
    """Write the result of `--json`, with the version of the format. Paths become strings, dataclasses objects."""
    import json

    terminal.result(json.dumps({"version": 1, **content}, indent=2, default=_plain) + "\n")


def emit(
    terminal: Terminal,
    content: Mapping[str, object],
    lines: Iterable[str] = (),
    *,
    as_json: bool,
    notes: Iterable[str] = (),
) -> None:
    """Print the result of a command: `content` as JSON, or else painted `lines` (in a pipe as exact bytes), and `notes`
    on standard error."""
    if as_json:
        write_json(terminal, content)
        return
    if text := "".join(f"{line}\n" for line in lines):
        (terminal.styled if terminal.output_tty else terminal.result)(text)
    for note in notes:
        terminal.note(note, "dim")


def select(value: object, *names: str, **renamed: str) -> dict[str, Any]:
    """Attributes of `value` for JSON, by name or renamed (new name=attribute); an empty string becomes null."""
    attributes = {**dict(zip(names, names, strict=True)), **renamed}
    return {
        name: None if (item := getattr(value, attribute)) == "" else item
        for name, attribute in attributes.items()
    }


def _plain(value: Any) -> object:
    """Convert a value of another type for JSON."""
    from os import PathLike, fspath

    return fspath(value) if isinstance(value, PathLike) else dict(vars(value))
