"""What a rule is given: the change, the history before it, and what is usual in the repository."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from repoagent.dataclass import dataclass
from repoagent.review.change import Change, ChangedFile
from repoagent.review.diff.read import SUBMODULE
from repoagent.review.finding import Evidence, Level

if TYPE_CHECKING:
    from repoagent.history.cochange.score import View
    from repoagent.review.checks.file_origin import Attributes
    from repoagent.review.checks.statistics import Habits

MOST = 200  # files of a change that are looked into
SHOWN = 5  # commits that speak for a finding


@dataclass(frozen=True, eq=False, repr=False)
class HistoryContext:
    """`view` is the history before the change, None where there is none; `ids` gives the full ids of its commits by
    number, `author` the id of who makes the change. `levels` has the rules that are on. `habits` is None until they
    are learned. `deadline` is a time of `time.monotonic` after which a rule gives up."""

    top: Path
    change: Change
    levels: Mapping[str, Level]
    view: View | None
    ids: Callable[[Iterable[int]], Mapping[int, str]]
    author: int | None
    habits: Habits | None
    deadline: float
    unseen: list[str] = field(default_factory=list)
    own_attributes: bool = False  # some stand beside those of the repository

    @cached_property
    def files(self) -> dict[str, int]:
        """The ids of the changed files that have a history, by their paths after the change; of a change of more than
        200 files, those of the first ones."""
        if self.view is None:
            return {}
        found: dict[str, int] = {}
        for file in self.change.files[:MOST]:
            known = None if file.status == "added" else self.view.file(os.fsencode(file.old_path))
            if known is not None:
                found[file.path] = known
        return found

    @cached_property
    def _there_before(self) -> list[str]:
        return [file.path for file in self.change.files if file.status in ("modified", "renamed")][:MOST]

    @cached_property
    def marked(self) -> frozenset[str]:
        """Of the files that were there before, 200 at most, those that may be generated; and the files of attributes
        that may say so of them."""
        from repoagent.review.checks.file_origin import attribute_files, marked

        paths = self._there_before
        return frozenset(marked(self.top, self.change, [*attribute_files(paths), *paths]))

    @cached_property
    def attributes(self) -> Attributes:
        """What the attributes say of these files."""
        from repoagent.review.checks.file_origin import Attributes, attributes, says_linguist

        looked = self.change.kind in ("staged", "commit", "range") and not self.own_attributes
        if looked and not says_linguist(self.marked):  # git takes as long for "nothing" as for all else
            return Attributes()
        return attributes(self.top, self.change, self._there_before)

    @cached_property
    def changed(self) -> frozenset[str]:
        """All paths of the change, before and after."""
        return frozenset(path for file in self.change.files for path in (file.path, file.old_path))

    def evidence(self, numbers: Sequence[int]) -> tuple[Evidence, ...]:
        """The newest of these commits, told; one git call."""
        ids = self.ids(numbers[:SHOWN])
        return evidence_of(self.top, [ids[number] for number in numbers[:SHOWN] if number in ids])


def evidence_of(top: Path, ids: Sequence[str]) -> tuple[Evidence, ...]:
    """Commits by their full ids as evidence; those that are not here any more are left out."""
    from datetime import datetime

    from repoagent.history.render import tell

    found = tell(top, ids)
    return tuple(
        Evidence(one.commit, int(datetime.fromisoformat(one.date.replace("Z", "+00:00")).timestamp()), one.subject)
        for one in (found[each] for each in ids if each in found)
    )  # fmt: skip


def is_text(file: ChangedFile) -> bool:
    """Whether it is a regular file on both sides where it exists: no submodule, no symbolic link."""
    return all(mode in ("", "100644", "100755") for mode in (file.old_mode, file.new_mode)) and (
        SUBMODULE not in (file.old_mode, file.new_mode)
    )
