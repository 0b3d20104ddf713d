"""Summaries of commits as files, one for each commit, and as git notes that a team can share.

`summaries/ab/cdef….json` has the summary of the commit abcdef…; `summaries/patches/12/34….json` has the id of a
summarized commit with the patch id 1234…, for rebased and cherry-picked commits. Lines are stored by commit and path,
so later renames do not affect them. A note under refs/notes/repoagent has one line of JSON for each summary, with
sorted keys, so that git's `cat_sort_uniq` merges notes without conflicts. Notes are untrusted: they are cleaned and
cut.
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
from repoagent.storage.layout import Warn, to_stderr

VERSION = 1  # of files and of notes
LINE = 200  # characters of a summary
REF = "refs/notes/repoagent"
_FETCHED = (
    "refs/notes/remotes/*/repoagent"  # the refspec in docs/history.md fetches the notes of others to it
)
_FILES, _MODEL, _DATE = 50, 200, 40  # files of a commit; characters
_NOTE_LINES, _NOTE_LINE = 50, 16 * 1024  # lines of a note that are read; characters of one
_TRIES = 12
_PAUSE = 0.05  # seconds, varied so that two processes do not collide again
_ID = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_LOG = (
    "log", "--no-walk=unsorted", "--stdin", "-z", "--no-patch", "--no-decorate", "--no-color",
    "--no-show-signature", "--no-notes", f"--notes={REF}", "--format=%H%x00%N",
)  # fmt: skip


@dataclass(frozen=True)
class Summary:
    """A model's summary of a commit: one line for the whole, and one for each of `files`, by their paths in it.

    `patch` is git's stable patch id, "" for none; `date` is ISO 8601.
    """

    commit: str
    line: str
    files: Mapping[str, str] = field(default_factory=dict)
    patch: str = ""
    model: str = ""
    date: str = ""


def add_summaries(steps: Iterable[Step], summaries: Mapping[str, Summary]) -> tuple[Step, ...]:
    """`steps` with their summaries, by commit id: the line of the file, else that of the commit."""
    return tuple(
        replace(step, summary=summary.files.get(step.commit.path, summary.line))
        if (summary := summaries.get(step.commit.commit))
        else step
        for step in steps
    )


def add_saved(folder: Path, steps: Sequence[Step]) -> tuple[Step, ...]:
    """`steps` with the saved summaries of their commits. Unreadable ones are left out: a prompt does without them."""
    summaries = {}
    for step in steps:
        try:
            summary = read_summary(folder, step.commit.commit, warn=lambda sentence: None)
        except Refused:
            continue
        if summary is not None:
            summaries[summary.commit] = summary
    return add_summaries(steps, summaries)


def _path(folder: Path, name: str) -> Path:
    return folder / name[:2] / f"{name[2:]}.json"


def read_summary(folder: Path, commit: str, warn: Warn = to_stderr) -> Summary | None:
    """The summary of `commit`, or None. A broken file is set aside. Raises Refused for a link, or a newer format."""
    value = json_files.read_document(_path(folder, commit), version=VERSION, warn=warn)
    return None if value is None else from_dict(value, commit)


def read_by_patch(folder: Path, patch: str, warn: Warn = to_stderr) -> Summary | None:
    """The summary of a commit with this patch, or None."""
    if not _ID.fullmatch(patch):
        return None
    value = json_files.read_document(_path(folder / "patches", patch), version=VERSION, warn=warn)
    commit = str(value.get("commit", "")) if value is not None else ""
    return read_summary(folder, commit, warn) if _ID.fullmatch(commit) else None


def write_summary(folder: Path, summary: Summary) -> None:
    """Save `summary` by its commit and its patch. Raises Refused."""
    json_files.write_document(_path(folder, summary.commit), to_dict(summary), version=VERSION)
    if _ID.fullmatch(summary.patch):
        path = _path(folder / "patches", summary.patch)
        json_files.write_document(path, {"commit": summary.commit}, version=VERSION)


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
    """The summary of `commit` in data that others may have written, cleaned and cut; None if there is none."""
    line = one_line(value.get("summary"))
    if not line:
        return None
    files = value.get("files")
    pairs = list(files.items())[:_FILES] if isinstance(files, Mapping) else []
    patch = str(value.get("patch", ""))
    return Summary(
        commit,
        line,
        {str(path): text for path, value in pairs if (text := one_line(value))},
        patch if _ID.fullmatch(patch) else "",
        one_line(value.get("model"), _MODEL),
        one_line(value.get("date"), _DATE),
    )


def one_line(value: object, width: int = LINE) -> str:
    """A text on one line, printable and cut; "" for a value that is not a text."""
    from repoagent.history.render import plain

    return plain(value, width) if isinstance(value, str) else ""


def read_notes(top: Path, commits: Sequence[str]) -> dict[str, Summary]:
    """The newest summary in the note of each of `commits`; one call of git for all, and one to see whether there are
    notes. Nothing is fetched: a partial clone without the notes' blobs has none."""
    newest = {}
    for commit, lines in _notes(top, commits).items():
        candidates = [line for line in lines if line.startswith("{") and len(line) <= _NOTE_LINE]
        summaries = []
        for line in candidates[:_NOTE_LINES]:
            value = json_files.parse(line.encode("utf-8", "replace"))
            if value is not None and value["version"] <= VERSION and (summary := from_dict(value, commit)):
                summaries.append(summary)
        if summaries:
            newest[commit] = max(summaries, key=lambda summary: (summary.date, summary.model, summary.line))
    return newest


def write_notes(top: Path, summaries: Iterable[Summary]) -> int:
    """Add `summaries` to the notes, all with one new commit of the notes' ref; how many notes were changed.

    Existing lines stay. Raises UsageError without an identity to commit as, Busy, GitError.
    """
    lines = {}
    for summary in summaries:
        value = {**to_dict(summary), "version": VERSION}
        del value["commit"]
        lines[summary.commit] = json.dumps(value, sort_keys=True, ensure_ascii=True)
    error: GitError | None = None
    for attempt in range(_TRIES):
        tip = _tip(top)
        notes = _notes(top, list(lines))
        if _tip(top) != tip:  # another process has changed the notes that were just read
            continue
        changed = {}
        for commit, line in lines.items():
            if line not in notes.get(commit, ()):
                changed[commit] = "".join(f"{text}\n" for text in sorted({*notes.get(commit, ()), line}))
        if not changed:
            return 0
        try:
            git(top, "fast-import", "--quiet", stdin=_import_stream(top, tip, changed), read_only=False)
        except GitError as refused:  # the ref has moved: git does not overwrite it
            error = refused
            time.sleep(_PAUSE * (attempt + 1) * (0.5 + random.random()))
        else:
            return len(changed)
    raise error or Busy(f"other processes keep writing {REF}; run the command again")


def merge_fetched(top: Path) -> list[str]:
    """Merge the fetched notes of others into ours; the refs with something new. Raises GitError."""
    listed = os.fsdecode(git(top, "for-each-ref", "--format=%(objectname) %(refname)", _FETCHED)).splitlines()
    merged = []
    for oid, _, ref in (line.partition(" ") for line in listed):
        tip = _tip(top)
        if not tip:
            git(top, "update-ref", "-m", "Merge the notes of others", REF, oid, "", read_only=False)
        elif git_output(top, "merge-base", "--is-ancestor", oid, tip, ok=(0, 1)).returncode == 0:
            continue
        else:
            git(top, "notes", f"--ref={REF}", "merge", "-q", "-s", "cat_sort_uniq", ref, read_only=False)
        merged.append(ref)
    return merged


def _tip(top: Path) -> str:
    return git_output(top, "rev-parse", "--verify", "--quiet", REF, ok=(0, 1)).stdout.decode().strip()


def _notes(top: Path, commits: Sequence[str]) -> dict[str, list[str]]:
    """The lines of the notes of `commits`, without empty ones."""
    if not commits or not _tip(top):
        return {}
    try:
        tokens = offline(top, *_LOG, names=commits).split(b"\0")
    except GitError:  # a partial clone without the blobs of the notes
        return {}
    wanted, notes = set(commits), dict[str, list[str]]()
    for oid, text in pairwise(tokens):
        commit = oid.decode("ascii", "replace")
        if commit in wanted and commit not in notes:
            notes[commit] = [line for line in text.decode("utf-8", "replace").split("\n") if line.strip()]
    return notes


def _import_stream(top: Path, tip: str, notes: Mapping[str, str]) -> bytes:
    """Input of `git fast-import`: one commit with all of `notes` on top of `tip`."""
    identity = git_output(top, "var", "GIT_COMMITTER_IDENT", ok=(0, 1, 128))
    if identity.returncode:
        raise UsageError("cannot share summaries without an author; set user.name and user.email")
    message = b"Notes added by 'repoagent history --share'\n"
    head = b"commit %s\ncommitter %s\ndata %d\n%s"
    parts = [head % (REF.encode(), identity.stdout.strip(), len(message), message)]
    if tip:
        parts.append(b"from %s\n" % tip.encode())
    for commit, text in notes.items():
        parts.append(b"N inline %s\ndata %d\n%s\n" % (commit.encode(), len(text.encode()), text.encode()))
    return b"".join(parts)
