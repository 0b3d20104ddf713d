"""`repoagent config`: show options with their origins, and set them for you or for a team."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import click

from repoagent.cli.options import GroupedCommand
from repoagent.cli.session import Session, find_layout, json_option, pass_session, write_json
from repoagent.cli.ui.table import Cell, Column, Page
from repoagent.display_text import sanitize
from repoagent.errors import NothingDone, UsageError

if TYPE_CHECKING:
    from repoagent.config.settings import Setting

# the rules for what git tracks
SHARED = (".gitignore", "config.toml", "context.md", "skills/", "skills/**")

CONTEXT = """\
<!-- Every prompt includes this file. Describe the project's purpose, layout, style, tests, and what not to touch. -->
"""

CONFIG_HEAD = """\
# repoagent options for everyone who works in this repository. These are the defaults: remove a "#" and
# change the value. Commands, addresses, keys and prices are personal and cannot be set here (use
# `repoagent config KEY VALUE` or `git config repoagent.KEY VALUE`); a limit set here can only lower a
# personal one. `repoagent config` shows the values in use and where each comes from.
"""

EXAMPLES = """\b
Examples:
  repoagent config                         list all options
  repoagent config max_cost                print a value
  repoagent config max_cost 0.50           set it for yourself
  repoagent config --shared max_turns 5    set it for the team
  repoagent config --unset max_cost
  repoagent config init                    let the team share .repoagent/

Each source overrides the ones before it: the default; your own
~/.config/repoagent/config.toml; the team's .repoagent/config.toml; `git config
repoagent.KEY`; REPOAGENT_KEY in the environment; command-line options.
Commands, keys and prices cannot be set with --shared: a repository must not
choose what runs on your machine."""
_COLUMNS = (Column("option"), Column("value", cut="end", least=20), Column("from", cut="end", least=7))


@click.command("init")
@json_option
@pass_session
def init(session: Session, as_json: bool) -> None:
    """Set up .repoagent/ for a team to share.

    Creates config.toml and context.md if they are missing, and lets git track both files, skills/ and .gitignore; git
    ignores the rest. Running init again changes nothing. Linked work trees share the main work tree's .repoagent/.
    """
    from repoagent.git.worktree import layout_of, open_worktree
    from repoagent.storage.atomic import read_regular, write_whole
    from repoagent.storage.layout import ensure_root

    worktree = open_worktree(Path.cwd())
    where, in_work_tree = layout_of(worktree), worktree.main_top is not None
    ensure_root(where)
    done = []
    for path, text in ((where.config, config_template()), (where.context, CONTEXT)):
        missing = read_regular(path) is None
        if missing:
            write_whole(path, text.encode(), private=False)
        done.append((path, "made" if missing else "kept"))
    ignore = where.root / ".gitignore"
    old = new = read_regular(ignore) or b""
    lines = old.decode("utf-8", "surrogateescape").split("\n")
    if in_work_tree and (hidden := [f"!/{name}\n" for name in SHARED if f"!/{name}" not in lines]):
        new += (b"" if not old or old.endswith(b"\n") else b"\n") + "".join(hidden).encode()
        write_whole(ignore, new, private=False)
    done.append((ignore, "changed" if new != old else "kept"))
    terminal = session.terminal()
    if as_json:
        write_json(terminal, {"files": [{"path": path, "what": action} for path, action in done]})
        return
    for path, action in done:
        terminal.result(f"{action:9}{os.path.relpath(path)}\n")
    if in_work_tree:
        git = f"git -C {shlex.quote(str(where.root.parent))}" if worktree.is_linked else "git"
        folder = where.root.name if worktree.is_linked else os.path.relpath(where.root)
        terminal.note(f"to share it: {git} add {folder} && {git} commit")


@click.command(cls=GroupedCommand, verbs={"init": init}, epilog=EXAMPLES)
@click.argument("words", nargs=-1, metavar="[KEY [VALUE]...]")
@click.option("--shared", is_flag=True, help="Write the team's .repoagent/config.toml, not your own file.")
@click.option("--unset", is_flag=True, help="Remove KEY from your own file, or the team's with --shared.")
@json_option
@pass_session
def command(session: Session, /, **values: Any) -> None:
    """Show and set options.

    Without arguments, list all options with their values and origins. With KEY, print its value; exit with 1 if it is
    not set. With VALUE, set it in your own file, or with --shared in the team's. Options that are lists take several
    VALUEs.
    """
    options = SimpleNamespace(**values)
    words, unset = options.words, options.unset
    writes = unset or len(words) > 1
    if unset and len(words) != 1:
        raise UsageError("--unset takes one KEY")
    if options.shared and not writes:
        raise UsageError("--shared needs a KEY and a VALUE, or --unset KEY")
    if writes:
        _write(session, words[0], words[1:], options)
    elif words:
        from repoagent.config.options import find_or_refuse

        spelled, _ = find_or_refuse(words[0])
        settings, terminal = session._replace(no_pager=True).open(find_layout())
        setting = settings.setting(spelled)
        if options.as_json:
            write_json(terminal, _as_object(setting))
        elif setting.value is None:
            raise NothingDone(f"{spelled} is not set")
        else:
            lines = setting.value if isinstance(setting.value, tuple) else (setting.shown,)
            terminal.result("".join(f"{line}\n" for line in lines))
    else:
        settings, terminal = session.open(find_layout())
        if options.as_json:
            write_json(terminal, {"settings": [_as_object(setting) for setting in settings]})
            return
        home = f"file:{Path.home()}/"
        rows: list[tuple[Cell, ...]] = []
        for setting in settings:
            origin = setting.origin
            own = ["bold"] if origin != "default" else []
            origin = f"file:~/{origin.removeprefix(home)}" if origin.startswith(home) else origin
            value = sanitize(setting.shown.replace("\n", " ") or "none")
            rows.append(((setting.key, *own), (value,), (sanitize(origin), "cyan" if own else "dim")))
        page = Page.of(terminal)
        page.write(page.table(_COLUMNS, rows), terminal)


def _write(session: Session, key: str, values: tuple[str, ...], options: SimpleNamespace) -> None:
    """Set an option to `values`, or remove it if there are none."""
    from repoagent.config.layers import set_value, unset_value
    from repoagent.config.options import find_or_refuse
    from repoagent.config.settings import user_file
    from repoagent.storage.layout import ensure_root

    spelled, option = find_or_refuse(key)
    if len(values) > 1 and not isinstance(option.default, tuple):
        raise UsageError(f"{spelled} takes one value; put it in quotes")
    layout, shared = find_layout(), options.shared
    if shared and layout is None:
        raise UsageError("--shared needs a repository: run the command in one, or leave out --shared")
    path = user_file(os.environ).resolve()  # replace the target of a symbolic link (dotfiles), not the link
    if shared and layout is not None:
        path = layout.config
    value = None
    if values:
        value = set_value(path, spelled, "\n".join(values), repository=shared)
        if shared and layout is not None:
            ensure_root(layout)
    elif not unset_value(path, spelled, repository=shared):
        raise NothingDone(f"{spelled} is not set in {path}")
    settings, terminal = session.open(layout)
    setting = settings.setting(spelled)
    if options.as_json:
        write_json(terminal, {**_as_object(setting), "file": path})
    else:
        terminal.note(f"{'set' if values else 'unset'} {spelled} in {path}")
    if values and setting.value != value:
        terminal.warn(f"this value has no effect: {setting.origin} sets it to {setting.shown or 'none'}")


def _as_object(setting: Setting) -> dict[str, object]:
    return {"key": setting.key, "value": setting.value, "origin": setting.origin}


def config_template() -> str:
    """A `config.toml` with every option that a repository may set and its default, commented out."""
    from repoagent.config.options import OPTIONS

    entries = [CONFIG_HEAD]
    for option in OPTIONS:
        if option.why_not_from_repository(option.default) is None:
            value = list(option.default) if isinstance(option.default, tuple) else option.default
            entries.append(
                f"# {option.doc}\n#{option.key} = {json.dumps('none' if value is None else value)}\n"
            )
    return "\n".join(entries)
