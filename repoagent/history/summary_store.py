"""Summaries of commits as files, one for each commit, and as git notes that a team can share.

`summaries/ab/cdef….json` is the commit abcdef…; `summaries/patches/12/34….json` names the commit that was summarized
for the patch id 1234…, by which a rebased or cherry-picked commit finds it. A line is stored under commit and path, so
later renames do not affect it. A note under refs/notes/repoagent has one line of JSON for each model's summary, keys
sorted, so that git's `cat_sort_uniq` merges notes without conflicts. Notes come from others: they are cleaned and cut.
"""

from __future__ import annotations

import json
import os
import random
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from repoagent.dataclass import dataclass
from repoagent.errors import Busy, Refused, UsageError
from repoagent.git.process import GitError, git, git_output
from repoagent.history.commit_details import Step
from repoagent.history.log import offline
from repoagent.storage import json_files
from repoagent.storage.json_files import parse
from repoagent.storage.layout import Warn, to_stderr

VERSION = 1
LINE = 200  # characters of one line
FILES = 50  # of one commit
NAME = 200  # characters of a model's name
_ID = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")


@dataclass(frozen=True)
class Summary:
    """What a model said of a commit: one line for the whole, and one for each of the `files` (by the path that they
    have in it) that it was asked about. `patch` is git's stable patch id, "" where there is none; `date` ISO 8601."""

    commit: str
    line: str
    files: Mapping[str, str] = field(default_factory=dict)
    patch: str = ""
    model: str = ""
    date: str = ""


def line_of(summary: Summary, path: str) -> str:
    """What it says of one file; of a file it has no own line for, what it says of the commit."""
    return summary.files.get(path, summary.line)


def read_summary(folder: Path, commit: str, warn: Warn = to_stderr) -> Summary | None:
    """The summary of `commit`, or None. A broken file is set aside. Raises Refused for a link, or a newer format."""
    value = json_files.read_document(_place(folder, commit), version=VERSION, warn=warn)
    return None if value is None else from_dict(value, commit)


def read_by_patch(folder: Path, patch: str, warn: Warn = to_stderr) -> Summary | None:
    """The summary of a commit with this patch, or None."""
    if not _ID.fullmatch(patch):
        return None
    value = json_files.read_document(_place(folder / "patches", patch), version=VERSION, warn=warn)
    named = str(value.get("commit", "")) if value is not None else ""
    return read_summary(folder, named, warn) if _ID.fullmatch(named) else None


def write_summary(folder: Path, summary: Summary) -> None:
    """Keep `summary`, found by its commit and its patch from now on. Raises Refused."""
    json_files.write_document(_place(folder, summary.commit), to_dict(summary), version=VERSION)
    if _ID.fullmatch(summary.patch):
        place = _place(folder / "patches", summary.patch)
        json_files.write_document(place, {"commit": summary.commit}, version=VERSION)


def to_dict(summary: Summary) -> dict[str, Any]:
    """The summary as plain data."""
    return {
        "commit": summary.commit,
        "patch": summary.patch,
        "model": summary.model,
        "date": summary.date,
        "summary": summary.line,
        "files": dict(summary.files),
    }


def from_dict(value: Mapping[str, Any], commit: str) -> Summary | None:
    """What `value` says of `commit`, cleaned and cut: it may be somebody else's. None when it says nothing."""
    line = one_line(value.get("summary"))
    if not line:
        return None
    files = value.get("files")
    pairs = list(files.items())[:FILES] if isinstance(files, Mapping) else []
    said = {str(path): one_line(text) for path, text in pairs}
    patch = str(value.get("patch", ""))
    return Summary(
        commit,
        line,
        {path: text for path, text in said.items() if text},
        patch if _ID.fullmatch(patch) else "",
        one_line(value.get("model"), NAME),
        one_line(value.get("date"), 40),
    )


def one_line(value: object, width: int = LINE) -> str:
    """A text that may stand in a line: on one line, printable, cut; "" for what is no text."""
    from repoagent.history.render import plain

    return plain(value, width) if isinstance(value, str) else ""


def lines_for(folder: Path, steps: Iterable[Step]) -> list[Step]:
    """`steps` with the lines that are kept of them, by commit id alone. What can't be read is left out in silence:
    this is for a prompt, which is whole without them."""
    found = []
    for step in steps:
        try:
            summary = read_summary(folder, step.commit.commit, warn=lambda sentence: None)
        except Refused:
            summary = None
        said = line_of(summary, step.commit.path) if summary is not None else step.summary
        found.append(replace(step, summary=said))
    return found


def has_patches(folder: Path) -> bool:
    """Whether any summary is kept that a patch could find."""
    return (folder / "patches").is_dir()


def as_lines(summaries: Mapping[str, Summary], steps: Sequence[Step]) -> dict[str, str]:
    """The line of each step that has a summary, by commit id."""
    return {
        step.commit.commit: line_of(summaries[step.commit.commit], step.commit.path)
        for step in steps
        if step.commit.commit in summaries
    }


def _place(folder: Path, name: str) -> Path:
    return folder / name[:2] / f"{name[2:]}.json"


REF = "refs/notes/repoagent"
FETCHED = "refs/notes/remotes/*/repoagent"  # where docs/history.md has the notes of others fetched to
NOTES_VERSION = 1
LONGEST = 16 * 1024  # characters of a line that is looked at
LINES = 50  # of one note
_TRIES = 12
_PAUSE = 0.05  # seconds, and half as much again or less, so that two do not meet again
_LOG = (
    "log", "--no-walk=unsorted", "--stdin", "-z", "--no-patch", "--no-decorate", "--no-color",
    "--no-show-signature", "--no-notes", f"--notes={REF}", "--format=%H%x00%N",
)  # fmt: skip


def read_notes(top: Path, commits: Sequence[str]) -> dict[str, Summary]:
    """The newest summary in the note of each of `commits`; one call of git for all, and one to see whether there are
    notes. Nothing is fetched: a partial clone without the notes' blobs has none."""
    found = {}
    for commit, text in _texts(top, commits).items():
        likely = [line for line in _lines(text) if line.startswith("{") and len(line) <= LONGEST][:LINES]
        summaries = [one for line in likely if (one := _parsed(line, commit)) is not None]
        if summaries:
            found[commit] = max(summaries, key=lambda one: (one.date, one.model, one.line))
    return found


def write_notes(top: Path, summaries: Iterable[Summary]) -> int:
    """Add `summaries` to the notes, all with one new commit of the notes' ref; how many notes were changed.

    Lines that are there stay. Raises UsageError without an identity to commit as, GitError.
    """
    wanted = {summary.commit: summary for summary in summaries}
    error: GitError | None = None
    for number in range(_TRIES):
        tip = _tip(top)
        there = _texts(top, list(wanted))
        if _tip(top) != tip:  # what was read may be older or newer than what we would add to
            continue
        changed = {}
        for commit, summary in wanted.items():
            lines = _lines(there.get(commit, ""))
            if (line := _line(summary)) not in lines:
                changed[commit] = "".join(f"{text}\n" for text in sorted({*lines, line}))
        if not changed:
            return 0
        try:
            git(top, "fast-import", "--quiet", stdin=_stream(top, tip, changed), read_only=False)
        except GitError as refused:  # somebody else has added notes meanwhile: git leaves theirs alone
            error = refused
            time.sleep(_PAUSE * (number + 1) * (0.5 + random.random()))
        else:
            return len(changed)
    raise error or Busy(f"other processes keep writing {REF}; run the command again")


def merge_fetched(top: Path) -> list[str]:
    """Merge the notes that were fetched from others into ours; the refs that held something new. Raises GitError."""
    listed = os.fsdecode(git(top, "for-each-ref", "--format=%(objectname) %(refname)", FETCHED)).splitlines()
    merged = []
    for oid, _, ref in (line.partition(" ") for line in listed):
        ours = _tip(top)
        if not ours:
            git(top, "update-ref", "-m", "Merge the notes of others", REF, oid, "", read_only=False)
        elif git_output(top, "merge-base", "--is-ancestor", oid, ours, ok=(0, 1)).returncode == 0:
            continue
        else:
            git(top, "notes", f"--ref={REF}", "merge", "-q", "-s", "cat_sort_uniq", ref, read_only=False)
        merged.append(ref)
    return merged


def _tip(top: Path) -> str:
    done = git_output(top, "rev-parse", "--verify", "--quiet", REF, ok=(0, 1))
    return done.stdout.decode().strip()


def _texts(top: Path, commits: Sequence[str]) -> dict[str, str]:
    """The notes of `commits`, as they are."""
    if not commits or not _tip(top):
        return {}
    try:
        tokens = offline(top, *_LOG, names=commits).split(b"\0")
    except GitError:  # the blobs of the notes are not here
        return {}
    wanted = set(commits)
    found: dict[str, str] = {}
    for oid, text in pairwise(tokens):
        name = oid.decode("ascii", "replace")
        if name in wanted and name not in found:
            found[name] = text.decode("utf-8", "replace")
    return {name: text for name, text in found.items() if text.strip()}


def _lines(text: str) -> list[str]:
    return [line for line in text.split("\n") if line.strip()]


def _line(summary: Summary) -> str:
    value = {key: text for key, text in to_dict(summary).items() if key != "commit"}
    return json.dumps({**value, "version": NOTES_VERSION}, sort_keys=True, ensure_ascii=True)


def _parsed(line: str, commit: str) -> Summary | None:
    value = parse(line.encode("utf-8", "replace"))
    return None if value is None or value["version"] > NOTES_VERSION else from_dict(value, commit)


def _stream(top: Path, tip: str, notes: Mapping[str, str]) -> bytes:
    """What `git fast-import` is told: one commit with all of `notes`, on top of `tip`. Should the ref have moved on by
    then, git leaves it as it is."""
    done = git_output(top, "var", "GIT_COMMITTER_IDENT", ok=(0, 1, 128))
    if done.returncode:
        raise UsageError("cannot share summaries without an author; set user.name and user.email")
    message = b"Notes added by 'repoagent history --share'\n"
    parts = [
        b"commit %s\ncommitter %s\ndata %d\n%s" % (REF.encode(), done.stdout.strip(), len(message), message)
    ]
    if tip:
        parts.append(b"from %s\n" % tip.encode())
    for commit, text in notes.items():
        data = text.encode()
        parts.append(b"N inline %s\ndata %d\n%s\n" % (commit.encode(), len(data), data))
    return b"".join(parts)
