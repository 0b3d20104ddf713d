"""Summaries as git notes under refs/notes/repoagent, which a team can fetch and push.

A note has one line of JSON for each model's summary of the commit, keys sorted, so that git's own `cat_sort_uniq`
merges the notes of two people without a conflict. Notes come from others: they are cleaned and cut.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from repoagent.errors import Busy, UsageError
from repoagent.history.blobs import offline
from repoagent.history.summaries.store import Summary, from_dict, to_dict
from repoagent.repo.run import GitError, git, git_output
from repoagent.store.document import parse

REF = "refs/notes/repoagent"
FETCHED = "refs/notes/remotes/*/repoagent"  # where docs/history.md has the notes of others fetched to
VERSION = 1
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
    raise error or Busy(f"other processes keep writing {REF}: run it again")


def merge_fetched(top: Path) -> list[str]:
    """Merge the notes that were fetched from others into ours; the refs that held something new. Raises GitError."""
    listed = os.fsdecode(git(top, "for-each-ref", "--format=%(objectname) %(refname)", FETCHED)).splitlines()
    merged = []
    for oid, _, ref in (line.partition(" ") for line in listed):
        ours = _tip(top)
        if not ours:
            git(top, "update-ref", "-m", "repoagent: take the notes of others", REF, oid, "", read_only=False)
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
    return json.dumps({**value, "version": VERSION}, sort_keys=True, ensure_ascii=True)


def _parsed(line: str, commit: str) -> Summary | None:
    value = parse(line.encode("utf-8", "replace"))
    return None if value is None or value["version"] > VERSION else from_dict(value, commit)


def _stream(top: Path, tip: str, notes: Mapping[str, str]) -> bytes:
    """What `git fast-import` is told: one commit with all of `notes`, on top of `tip`. Should the ref have moved on by
    then, git leaves it as it is."""
    done = git_output(top, "var", "GIT_COMMITTER_IDENT", ok=(0, 1, 128))
    if done.returncode:
        raise UsageError("git does not know who shares the summaries: set user.name and user.email")
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
