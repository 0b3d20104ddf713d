"""`repoagent init`: make `.repoagent/` what a team shares: options, and what every prompt should say."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from repoagent.cli.program.session import Session, json_option, pass_session

if TYPE_CHECKING:
    from repoagent.store import Layout

SHARED = ("config.toml", "context.md", "skills/", "skills/**", "agents/", "agents/**")  # as in .gitignore

CONTEXT = """\
<!-- Each prompt shows this file: what the project is for, its layout, style and tests, what not to touch. -->
"""

CONFIG_HEAD = """\
# Options of repoagent for everybody who works in this repository. These are the defaults: take away a "#"
# and change the value. Commands, addresses, keys and prices are a person's own and can't be set here
# (`git config repoagent.KEY VALUE` or `repoagent config set --global KEY VALUE` does), and limits can only
# be lower here than a person has them. `repoagent config` shows what counts and where it comes from.
"""


@click.command()
@json_option
@pass_session
def command(session: Session, as_json: bool) -> None:
    """Set up .repoagent/ for a team to share.

    Makes config.toml and context.md in it, where they are missing, and lets git see these two, and the folders
    skills/ and agents/; the rest stays out of git. Running it again changes nothing.
    """
    from repoagent.repo.worktree import layout, open_worktree

    worktree = open_worktree(Path.cwd())
    where = layout(worktree)
    done = set_up(where, in_work_tree=where.root.name.startswith("."))
    terminal = session.terminal()
    if as_json:
        files = [{"path": str(path), "what": what} for path, what in done]
        terminal.result(json.dumps({"version": 1, "files": files}, indent=2) + "\n")
        return
    for path, what in done:
        terminal.result(f"{what:9}{os.path.relpath(path)}\n")
    terminal.note(f"to share it: git add {os.path.relpath(where.root)} && git commit")


def set_up(layout: Layout, *, in_work_tree: bool) -> list[tuple[Path, str]]:
    """Make what is missing; each file with what was done to it: "made", "changed" or "kept".

    Raises Refused when a part of the folder is a symbolic link or of another kind.
    """
    from repoagent.store import ensure, read_regular, write_whole

    ensure(layout)
    done = []
    for path, text in ((layout.config, config_template()), (layout.context, CONTEXT)):
        missing = read_regular(path) is None
        if missing:
            write_whole(path, text.encode(), private=False)
        done.append((path, "made" if missing else "kept"))
    ignore = layout.root / ".gitignore"
    old = read_regular(ignore) or b""
    new = unignore(old, SHARED) if in_work_tree else old
    if new != old:
        write_whole(ignore, new, private=False)
    done.append((ignore, "changed" if new != old else "kept"))
    return done


def unignore(ignore: bytes, names: tuple[str, ...]) -> bytes:
    """A `.gitignore` with what it lacks to let git see `names`; whatever else it says stays."""
    lines = ignore.decode("utf-8", "surrogateescape").split("\n")
    missing = [f"!/{name}" for name in names if f"!/{name}" not in lines]
    ended = b"" if not ignore or ignore.endswith(b"\n") else b"\n"
    return ignore + ended + "".join(f"{line}\n" for line in missing).encode() if missing else ignore


def config_template() -> str:
    """A `config.toml` of comments: every option that a repository may set to its default, with that."""
    from repoagent.config import OPTIONS
    from repoagent.config.layers import why_not_from_repository

    options = [option for option in OPTIONS if why_not_from_repository(option, option.default) is None]
    entries = [f"# {option.doc}\n#{option.key} = {_toml(option.default)}\n" for option in options]
    return "\n".join([CONFIG_HEAD, *entries])


def _toml(value: object) -> str:
    if value is None:
        return '"none"'
    return json.dumps(list(value) if isinstance(value, tuple) else value)
