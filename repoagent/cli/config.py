"""`repoagent config`: every option, its value and where that came from; and a way to set one."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from repoagent.cli.program.session import Session, find_layout, json_option, pass_session
from repoagent.cli.screen.clean import clean, columns, paint
from repoagent.errors import NothingDone, UsageError

if TYPE_CHECKING:
    from repoagent.cli.screen.terminal import Terminal
    from repoagent.config import Setting


def _complete_key(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from repoagent.config import OPTIONS

    return [option.key for option in OPTIONS if option.key.startswith(incomplete)]


_key = click.argument("key", shell_complete=_complete_key)


@click.group(invoke_without_command=True)
@json_option
@click.pass_context
def command(ctx: click.Context, as_json: bool) -> None:
    """Show or set options, and where each comes from.

    Later wins: defaults; your own config.toml; the repository's .repoagent/config.toml; git config
    repoagent.KEY; REPOAGENT_KEY in the environment; flags.

    Without a command, list them all.
    """
    if ctx.invoked_subcommand is None:
        ctx.invoke(show_all, as_json=as_json)


@command.command("list")
@json_option
@pass_session
def show_all(session: Session, as_json: bool) -> None:
    """List all options with their values and where these come from."""
    settings, terminal = session.open(find_layout())
    if as_json:
        terminal.result(_json({"settings": [_as_object(setting) for setting in settings]}))
    else:
        terminal.styled(_table(list(settings), terminal))


@command.command("get")
@_key
@click.option("--show-origin", is_flag=True, help="Print where the value comes from, too.")
@json_option
@pass_session
def show_one(session: Session, key: str, show_origin: bool, as_json: bool) -> None:
    """Print the value of one option; exit 1 when it has none."""
    from repoagent.config import find_or_refuse

    spelled, _ = find_or_refuse(key)
    settings, terminal = session.open(find_layout())
    setting = settings.setting(spelled)
    if as_json:
        terminal.result(_json(_as_object(setting)))
    elif setting.value is None:
        raise NothingDone(f"{spelled} is not set")
    else:
        lines = setting.value if isinstance(setting.value, tuple) else (setting.shown,)
        head = f"{setting.origin}\t" if show_origin else ""
        terminal.result("".join(f"{head}{line}\n" for line in lines))


@command.command("set")
@_key
@click.argument("values", nargs=-1, required=True, metavar="VALUE...")
@click.option("--global", "where", flag_value="global", help="In your own file, for all repositories.")
@click.option(
    "--local",
    "where",
    flag_value="local",
    help="In .repoagent/config.toml, which a team can share (default).",
)
@json_option
@pass_session
def set_one(session: Session, key: str, values: tuple[str, ...], where: str | None, as_json: bool) -> None:
    """Set one option. Only a list takes more than one VALUE."""
    from repoagent.config import find_or_refuse, set_value, user_file
    from repoagent.store import ensure

    everywhere = where == "global"
    spelled, option = find_or_refuse(key)
    if len(values) > 1 and not isinstance(option.default, tuple):
        raise UsageError(f"{spelled} takes one value; put it in quotes")
    layout = find_layout()
    if everywhere:  # the file may be a link into a collection of such files, which stays one
        path = user_file(os.environ).resolve()
    elif layout is None:
        raise UsageError("there is no repository here to set it for; say --global to set it for all")
    else:
        path = layout.config
    value = set_value(path, spelled, "\n".join(values), repository=not everywhere)
    if layout is not None and not everywhere:
        ensure(layout)
    settings, terminal = session.open(layout)
    setting = settings.setting(spelled)
    if as_json:
        terminal.result(_json({**_as_object(setting), "file": str(path)}))
    else:
        terminal.note(f"set {spelled} in {path}")
    if setting.value != value:
        terminal.warn(f"it does not count: {setting.origin} says {setting.shown or 'none'}")


def _as_object(setting: Setting) -> dict[str, object]:
    value = setting.value if not setting.option.secret else setting.shown
    return {"key": setting.key, "value": value, "origin": setting.origin}


def _json(content: Mapping[str, object]) -> str:
    return json.dumps({"version": 1, **content}, indent=2) + "\n"


def _table(settings: list[Setting], terminal: Terminal) -> str:
    """One line for each setting, two where the terminal is too narrow; what is not a default stands out."""
    rows = [(setting.key, clean(_value(setting)), clean(_short(setting.origin))) for setting in settings]
    keys = max(columns(key) for key, _, _ in rows)
    values = max(columns(value) for _, value, _ in rows)
    narrow = terminal.shows and keys + values + max(columns(o) for _, _, o in rows) + 4 > terminal.width
    lines = []
    for key, value, origin in rows:
        own = origin != "default"
        name = key + " " * (keys - columns(key))
        head = paint(name, "bold") if own and terminal.color else name
        tail = paint(origin, "cyan" if own else "dim") if terminal.color else origin
        if not narrow:
            lines.append(f"{head}  {value}{' ' * (values - columns(value))}  {tail}\n")
        else:
            lines.append(f"{head}  {value}\n" + (f"{' ' * keys}    {tail}\n" if own else ""))
    return "".join(lines)


def _value(setting: Setting) -> str:
    return setting.shown.replace("\n", " ") or "none"


def _short(origin: str) -> str:
    """An origin with the home directory as ~."""
    home = f"file:{Path.home()}/"
    return f"file:~/{origin.removeprefix(home)}" if origin.startswith(home) else origin
