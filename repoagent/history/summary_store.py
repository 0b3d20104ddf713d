"""Summaries of commits as files, one for each commit: `summaries/ab/cdef….json` has that of the commit abcdef….

Lines are stored by commit and path, so later renames do not affect them. Earlier versions also wrote
`summaries/patches/`, which is not read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Any

from repoagent.dataclass import dataclass
from repoagent.errors import Refused
from repoagent.history.commit_details import Step
from repoagent.history.render import plain
from repoagent.storage import json_files
from repoagent.storage.layout import Warn, to_stderr

VERSION = 1
LINE = 200  # characters of a summary
_FILES, _MODEL, _DATE = 50, 200, 40  # files of a commit; characters


@dataclass(frozen=True)
class Summary:
    """A model's summary of a commit: one line for the whole, and one for each of `files`, by their paths in it; `date`
    is ISO 8601."""

    commit: str
    line: str
    files: Mapping[str, str] = field(default_factory=dict)
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


def read_summaries(folder: Path, steps: Iterable[Step], warn: Warn = to_stderr) -> dict[str, Summary]:
    """The saved summaries of `steps`, by commit id. Raises Refused for a link, or a newer format."""
    every = (read_summary(folder, step.commit.commit, warn) for step in steps)
    return {summary.commit: summary for summary in every if summary is not None}


def _path(folder: Path, commit: str) -> Path:
    return folder / commit[:2] / f"{commit[2:]}.json"


def read_summary(folder: Path, commit: str, warn: Warn = to_stderr) -> Summary | None:
    """The summary of `commit`, or None. A broken file is set aside. Raises Refused for a link, or a newer format."""
    value = json_files.read_document(_path(folder, commit), version=VERSION, warn=warn)
    return None if value is None else from_dict(value, commit)


def write_summary(folder: Path, summary: Summary) -> None:
    """Save a summary by its commit. Raises Refused."""
    value = {
        "commit": summary.commit,
        "model": summary.model,
        "date": summary.date,
        "summary": summary.line,
        "files": dict(summary.files),
    }
    json_files.write_document(_path(folder, summary.commit), value, version=VERSION)


def from_dict(value: Mapping[str, Any], commit: str) -> Summary | None:
    """The summary of `commit` in data that others may have written, cleaned and cut; None if there is none."""
    line = one_line(value.get("summary"))
    if not line:
        return None
    files = value.get("files")
    pairs = list(files.items())[:_FILES] if isinstance(files, Mapping) else []
    lines = {str(path): text for path, value in pairs if (text := one_line(value))}
    return Summary(
        commit, line, lines, one_line(value.get("model"), _MODEL), one_line(value.get("date"), _DATE)
    )


def one_line(value: object, width: int = LINE) -> str:
    """A text on one line, printable and cut; "" for a value that is not a text."""
    return plain(value, width) if isinstance(value, str) else ""
