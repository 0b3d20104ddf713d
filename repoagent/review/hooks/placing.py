"""Put a hook of ours beside what is there, and take it away so that everything is as it was, byte for byte."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from repoagent.errors import Refused
from repoagent.review.hooks.managers import advice, line_for
from repoagent.review.hooks.place import Found, Hooks
from repoagent.review.hooks.script import BEFORE, script
from repoagent.store import write_whole


def install(
    hooks: Hooks,
    names: Sequence[str],
    command: Sequence[str],
    *,
    strict: bool = False,
    everywhere: bool = False,
) -> list[str]:
    """Install the hooks `names`, which run `command` (see `script.script`); a sentence for each.

    Raises Refused, with nothing done, where a hook belongs to a program or to the team, where git would not run it,
    and, unless `everywhere`, where all repositories share the folder: the sentence says what to do instead.
    """
    if hooks.off:
        raise Refused(f"git runs no hooks here, since {hooks.off}: put that right first")
    chosen = [found for found in hooks.found if found.name in names]
    for found in chosen:
        _check(hooks, found, everywhere=everywhere)
    return [_install(found, script(found.name, command, strict=strict)) for found in chosen]


def _check(hooks: Hooks, found: Found, *, everywhere: bool) -> None:
    name, line = found.name, line_for(found.name)
    if found.state == "legacy":
        raise Refused(
            f"{found.path} is a hook of repoagent already, run by the one of pre-commit: leave it there"
        )
    if found.state == "odd":
        raise Refused(f"{found.path} is no file, so it can't be kept beside ours: remove or rename it")
    if found.manager is not None:
        raise Refused(
            f"{found.path} belongs to {found.manager.name}, which would write over a change: "
            f"{advice(found.manager, name)}"
        )
    if hooks.whose == "team":
        raise Refused(
            f"{hooks.folder} is part of the repository, for all who work on it: add to {name} there: {line}"
        )
    if hooks.whose == "everywhere" and not everywhere:
        raise Refused(
            f"core.hooksPath is {hooks.setting} for all your repositories: say --everywhere to have the hook in all of "
            f"them, or add to {found.path}: {line}"
        )
    if found.state == "changed":
        raise Refused(f"{found.path} is a hook of repoagent that was changed by hand: take your lines out")
    if found.before and found.state != "ours":
        raise Refused(
            f"{found.path}{BEFORE} is there from an earlier time, when another program replaced our hook: "
            "look at both, and remove or rename it"
        )


def _install(found: Found, text: str) -> str:
    path = found.path
    before = path.with_name(f"{path.name}{BEFORE}")
    new = path.with_name(f"{path.name}.new-repoagent")
    write_whole(new, os.fsencode(text), private=False)
    try:
        new.chmod(_executable(new))
        if found.state == "foreign":
            _second_name(path, before)
        new.replace(path)  # at no moment is there no hook, or half of one
    except OSError as error:
        with suppress(FileNotFoundError):
            new.unlink()
        raise Refused(f"{path} could not be written: {error.strerror}") from error
    if found.state == "ours":
        return f"{path} was brought up to date"
    if found.state != "foreign":
        return f"{path} was installed"
    how = "runs before it" if found.runs else "is kept, not executable and so not run"
    return f"{path} was installed; what was there {how}, as {before.name}"


def _executable(path: Path) -> int:
    """The mode of a new file, executable for whom it can be read by."""
    mode = path.stat().st_mode & 0o777
    return mode | (mode & 0o444) >> 2


def _second_name(path: Path, before: Path) -> None:
    try:
        os.link(path, before, follow_symlinks=False)
    except (OSError, NotImplementedError):  # a file system without hard links
        path.rename(before)


def uninstall(hooks: Hooks, names: Sequence[str]) -> list[str]:
    """Take the hooks of ours among `names` away; what was there before is there again. A sentence for each.

    Raises Refused for one that was changed by hand, before anything is done.
    """
    chosen = [found for found in hooks.found if found.name in names]
    for found in chosen:
        if found.state == "changed":
            raise Refused(
                f"{found.path} was changed by hand since it was installed: take your lines out first"
            )
    return [_uninstall(found) for found in chosen if found.state in ("ours", "legacy")]


def _uninstall(found: Found) -> str:
    path = found.path
    before = path.with_name(f"{found.name}{BEFORE}")
    try:
        if found.before:
            before.replace(path)
            return f"{path} is again what it was before"
        path.unlink()
    except OSError as error:
        raise Refused(f"{path} could not be removed: {error.strerror}") from error
    return f"{path} was removed"
