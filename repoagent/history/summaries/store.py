"""Summaries as files: one for each commit, so that two processes never write the same one at odds.

`summaries/ab/cdef….json` is the commit abcdef…; `summaries/patches/12/34….json` names the commit that was summarized
for the patch 1234…, under which a rebased or cherry-picked commit finds it. A commit never changes, and neither does
what a file was called in it: so a line is kept under commit and path, and outlives every later rename.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Any

from repoagent.dataclass import dataclass
from repoagent.errors import Refused
from repoagent.history.steps import Step
from repoagent.store import document
from repoagent.store.report import Warn, to_stderr

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
    value = document.read(_place(folder, commit), version=VERSION, warn=warn)
    return None if value is None else from_dict(value, commit)


def read_by_patch(folder: Path, patch: str, warn: Warn = to_stderr) -> Summary | None:
    """The summary of a commit with this patch, or None."""
    if not _ID.fullmatch(patch):
        return None
    value = document.read(_place(folder / "patches", patch), version=VERSION, warn=warn)
    named = str(value.get("commit", "")) if value is not None else ""
    return read_summary(folder, named, warn) if _ID.fullmatch(named) else None


def write_summary(folder: Path, summary: Summary) -> None:
    """Keep `summary`, found by its commit and its patch from now on. Raises Refused."""
    document.write(_place(folder, summary.commit), to_dict(summary), version=VERSION)
    if _ID.fullmatch(summary.patch):
        place = _place(folder / "patches", summary.patch)
        document.write(place, {"commit": summary.commit}, version=VERSION)


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
    from repoagent.history.block import plain

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
