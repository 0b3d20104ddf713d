"""The input of a check: the changed texts for a static one, the history before the change for a history one.

A check is a function from its context to findings; `run.CHECKS` lists them. Both contexts collect in `unseen` a
phrase for each part of the change for which a check had no time or data.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from repoagent.dataclass import dataclass
from repoagent.review.change import Change, ChangedFile
from repoagent.review.finding import Evidence, Finding, Level, Location

if TYPE_CHECKING:
    from repoagent.history.cochange.score import View
    from repoagent.review.checks.file_origin import Attributes
    from repoagent.review.checks.statistics import Habits

LARGEST = 2 << 20  # bytes of a text that static checks read
MOST = 200  # files of a change that history checks read
SHOWN = 5  # commits that support a finding


def is_text(file: ChangedFile) -> bool:
    """Whether the file is regular on both sides: not a submodule or a symbolic link."""
    return all(mode in ("", "100644", "100755") for mode in (file.old_mode, file.new_mode))


@dataclass(frozen=True, eq=False, repr=False)
class StaticContext:
    """`files` are the readable files of the change; `findings` those of earlier checks. A check stops when the
    processor time of the process reaches `deadline`, and adds values that must not be printed to `secrets`."""

    top: Path
    change: Change
    levels: Mapping[str, Level]
    files: tuple[ChangedFile, ...]
    deadline: float
    findings: list[Finding] = field(default_factory=list)
    unseen: list[str] = field(default_factory=list)
    secrets: list[str] = field(default_factory=list)

    def texts(self, file: ChangedFile) -> tuple[bytes, bytes] | None:
        """The text before and after, b"" for none; None if one is missing, binary or too large."""
        old, new = self.change.read_old(file), self.change.read_new(file)
        if (old is None and file.old_blob) or (new is None and file.status != "deleted"):
            return None
        texts = old or b"", new or b""
        return None if any(len(text) > LARGEST or b"\0" in text[:8000] for text in texts) else texts

    def late(self) -> bool:
        return time.process_time() > self.deadline

    def finding(
        self, rule: str, title: str, location: Location, body: str, *, key: str = "", quote: str = ""
    ) -> Finding:
        return Finding(rule, self.levels[rule], title, location, body, key, quote)


@dataclass(frozen=True, eq=False, repr=False)
class HistoryContext:
    """`view` is the history before the change, None if there is none; `ids` maps its commit numbers to full ids,
    `author` is the id of the change's author. `levels` has the enabled rules. `habits` is None until learned. A check
    stops at `deadline`, a time of `time.monotonic`."""

    top: Path
    change: Change
    levels: Mapping[str, Level]
    view: View | None
    ids: Callable[[Iterable[int]], Mapping[int, str]]
    author: int | None
    habits: Habits | None
    deadline: float
    unseen: list[str] = field(default_factory=list)
    own_attributes: bool = False  # .git/info/attributes exists

    def finding(
        self,
        rule: str,
        title: str,
        location: Location,
        body: str,
        key: str,
        *,
        evidence: tuple[Evidence, ...] = (),
        confidence: float | None = None,
    ) -> Finding:
        level = self.levels[rule]
        return Finding(rule, level, title, location, body, key, evidence=evidence, confidence=confidence)

    @cached_property
    def files(self) -> dict[str, int]:
        """The ids of the changed files that have a history, by their new paths; only the first 200 of the change."""
        if self.view is None:
            return {}
        ids = {
            file.path: self.view.file(os.fsencode(file.old_path))
            for file in self.change.files[:MOST]
            if file.status != "added"
        }
        return {path: number for path, number in ids.items() if number is not None}

    @cached_property
    def _existed(self) -> list[str]:
        return [file.path for file in self.change.files if file.status in ("modified", "renamed")][:MOST]

    @cached_property
    def marked(self) -> frozenset[str]:
        """Of the first 200 files that existed before, those that may be generated; and the attribute files that may
        mark them."""
        from repoagent.review.checks.file_origin import attribute_files, marked

        return frozenset(marked(self.top, self.change, [*attribute_files(self._existed), *self._existed]))

    @cached_property
    def attributes(self) -> Attributes:
        """The attributes of these files."""
        from repoagent.review.checks.file_origin import Attributes, attributes, has_attribute_file

        searched = self.change.kind in ("staged", "commit", "range") and not self.own_attributes
        if searched and not has_attribute_file(
            self.marked
        ):  # `git check-attr` is slow even if there is nothing to report
            return Attributes()
        return attributes(self.top, self.change, self._existed)

    @cached_property
    def changed(self) -> frozenset[str]:
        """All paths of the change, before and after."""
        return frozenset(path for file in self.change.files for path in (file.path, file.old_path))

    def evidence(self, numbers: Sequence[int]) -> tuple[Evidence, ...]:
        """The newest of these commits, read with one git call."""
        ids = self.ids(numbers[:SHOWN])
        return evidence_of(self.top, [ids[number] for number in numbers[:SHOWN] if number in ids])


def evidence_of(top: Path, ids: Sequence[str]) -> tuple[Evidence, ...]:
    """The commits as evidence, by their full ids; skips those that no longer exist."""
    from datetime import datetime

    from repoagent.history.render import read_headers

    def seconds(date: str) -> int:
        return int(datetime.fromisoformat(date.replace("Z", "+00:00")).timestamp())

    headers = read_headers(top, ids)
    commits = (headers[commit] for commit in ids if commit in headers)
    return tuple(Evidence(header.commit, seconds(header.date), header.subject) for header in commits)
