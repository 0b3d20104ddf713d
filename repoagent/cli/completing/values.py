"""The candidates of each kind: (value, what it is). All that fit what is typed so far, quick, and none on a failure.

Each looks at as little as it can: one call of git, or one file. They are imported by their name in kinds.py, and load
what they need when they are asked.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from repoagent.store import Layout

Found = Iterator[tuple[str, str]]
GOES_ON = ("/", ":", "=", "..")  # a value that ends so is not whole yet
MOST = 500  # names of branches and tags: nobody reads more
_HEADS = ("HEAD", "HEAD~", "HEAD^", "ORIG_HEAD", "FETCH_HEAD", "MERGE_HEAD")


def files(incomplete: str, *, folders_only: bool = False) -> Iterator[tuple[str, bool]]:
    """Names of files below this folder, and whether more has to follow: that of a folder ends with a slash."""
    folder, slash, begin = incomplete.rpartition("/")
    try:
        entries = sorted(os.scandir(Path(folder + slash).expanduser() if folder + slash else "."), key=_name)
    except OSError:
        return
    for entry in entries:
        hidden = entry.name.startswith(".") and not begin.startswith(".")
        if hidden or not entry.name.startswith(begin):
            continue
        if entry.is_dir():
            yield f"{folder}{slash}{entry.name}/", True
        elif not folders_only:
            yield f"{folder}{slash}{entry.name}", False


def revisions(incomplete: str) -> Found:
    """Branches, tags, remote branches and HEAD; also after the dots of a range."""
    if ":" in incomplete:
        return
    before, dots, begin = incomplete.rpartition("..")
    if dots and begin.startswith("."):
        dots, begin = "...", begin[1:]
    head = f"{before}{dots}"
    if not head and begin.startswith("^"):
        head, begin = "^", begin[1:]
    for name in _HEADS[:3] if not begin else _HEADS:
        if name.startswith(begin):
            yield f"{head}{name}", ""
    for name, kind in _refs(begin):
        yield f"{head}{name}", kind


def _refs(begin: str) -> Found:
    from repoagent.repo.run import git

    escaped = "".join(f"\\{character}" if character in "*?[\\" else character for character in begin)
    kinds = {"refs/heads/": "branch", "refs/tags/": "tag", "refs/remotes/": "remote branch"}
    if begin.startswith("refs/"):
        patterns = [f"{escaped}*", f"{escaped}*/**"]
    else:
        patterns = [f"{kind}{escaped}{end}" for kind in kinds for end in ("*", "*/**")]
    said = git(Path.cwd(), "for-each-ref", f"--count={MOST}", "--format=%(refname)", *patterns)
    for ref in os.fsdecode(said).splitlines():
        if begin.startswith("refs/"):
            yield ref, ""
        elif not ref.endswith("/HEAD"):
            yield next((ref.removeprefix(kind), name) for kind, name in kinds.items() if ref.startswith(kind))


def models(incomplete: str) -> Found:
    """Aliases, what is configured, models that we know of, and the other ways to name one."""
    for kind in ("local/", "replay:"):
        if incomplete.startswith(kind):
            yield from ((f"{kind}{name}", "") for name, _ in files(incomplete.removeprefix(kind)))
            return
    from repoagent.config import load
    from repoagent.errors import RepoagentError
    from repoagent.llm.listed import names

    found = names()
    found |= {
        "manual": "any chat, by hand",
        "command:": "a program",
        "local/": "a file",
        "replay:": "a recording",
    }
    try:
        settings = load(None)  # to find what the repository itself says would take as long as all the rest
        found |= dict.fromkeys(settings.family("models"), "yours")
        found |= settings.names("alias")
    except RepoagentError:  # a broken configuration has no aliases
        pass
    yield from ((name, what) for name, what in found.items() if name.startswith(incomplete))


def keys(incomplete: str) -> Found:
    """Keys of options."""
    from repoagent.config import OPTIONS

    for option in OPTIONS:
        if option.key.startswith(incomplete):
            yield option.key, option.doc


def rules(incomplete: str) -> Found:
    """Rules of the review."""
    from repoagent.review.rules import RULES

    for name, rule in RULES.items():
        if name.startswith(incomplete):
            yield name, rule.line


def edits(incomplete: str) -> Found:
    """The edits of this work tree, by the id that undo takes, the newest first."""
    import json

    found = _layout()
    try:
        lines = [] if found is None else found.edits.read_bytes().splitlines()
        entries = [json.loads(line) for line in reversed(lines)]
    except (OSError, ValueError):
        return
    told = set()
    for entry in entries:
        name = str(entry["id"]) if isinstance(entry, dict) and "id" in entry else ""
        if name and name not in told and name.startswith(incomplete):
            told.add(name)
            yield name, " ".join(map(str, entry.get("paths", ())))


def runs(incomplete: str) -> Found:
    """The runs of tasks by name, the newest first; and by the last part of a name, where that is what is typed."""
    from repoagent.work.home import runs as all_runs

    layout = _layout()
    found = [] if layout is None else all_runs(layout, warn=None)
    for run in found[:MOST]:
        if run.name.startswith(incomplete):
            yield run.name, run.record.prompt
        elif run.short.startswith(incomplete):
            yield run.short, run.record.prompt
    if found and "last".startswith(incomplete):
        yield "last", "the newest"


def languages(incomplete: str) -> Found:
    """Languages that there is a grammar for."""
    from repoagent.split.languages import LANGUAGES

    yield from ((name, "") for name in sorted(LANGUAGES) if name.startswith(incomplete))


def symbol_kinds(incomplete: str) -> Found:
    """Kinds of definitions."""
    from repoagent.cli.outline.command import KINDS

    yield from ((name, "") for name in KINDS if name.startswith(incomplete))


def _layout() -> Layout | None:
    from repoagent.cli.program.session import find_layout

    return find_layout()


def _name(entry: os.DirEntry[str]) -> str:
    return entry.name
