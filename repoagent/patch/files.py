"""What is known about the files, and what came of one of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING

from repoagent.dataclass import dataclass
from repoagent.patch.hunk import FilePatch
from repoagent.patch.locate.fit import Placement
from repoagent.patch.text import SourceText
from repoagent.patch.verify import ParsesWorse
from repoagent.repo.change import FileChange

if TYPE_CHECKING:
    from repoagent.patch.splice.splices import Splice

_MANY, _FEW = 12, 5  # names in an error text


@dataclass(frozen=True)
class Files:
    """The files of one call of `apply_answer`, and its rules."""

    sources: Mapping[str, SourceText]
    scope: frozenset[str]
    may_create: Callable[[str], bool]
    strict: bool = False
    parses_worse: ParsesWorse | None = None
    exists: Callable[[str], bool] = lambda path: False

    def closed(self, near: str) -> str:
        """Why a file may not be changed that is not in scope."""
        return f"it may not be changed in this edit (only {self.named(near)})."

    def which(self, near: str) -> str:
        """A sentence that names the files in scope, after another one; "" where there are none."""
        return f" The files that may be changed: {self.named(near)}." if self.scope else ""

    def named(self, near: str = "") -> str:
        """The files in scope, for an error text; of many, those whose names are most like `near`."""
        if len(self.scope) <= _MANY:
            return ", ".join(sorted(self.scope)) or "none"
        from rapidfuzz import process
        from rapidfuzz.distance import Indel

        like = process.extract(near, sorted(self.scope), scorer=Indel.normalized_similarity, limit=_FEW)
        return ", ".join(name for name, _, _ in like) + ", …"


@dataclass(frozen=True)
class Target:
    """One `FilePatch` with its files: `source` is the known path it starts from (None: a new file), `path`
    the one it ends at (None: the file is deleted)."""

    patch: FilePatch
    source: str | None
    path: str | None

    @property
    def name(self) -> str:
        return self.path or self.source or ""


@dataclass(frozen=True)
class Outcome:
    """What the patches of one file come to. `parts` are the splices that make the change, None where it is not made of
    hunks for one text; `ends` is what these say of the newline at its end."""

    change: FileChange
    placements: tuple[Placement, ...]
    parts: tuple[Splice, ...] | None = field(default=None, compare=False)
    ends: bool | None = field(default=None, compare=False)

    @property
    def changes(self) -> bool:
        change = self.change
        return (change.before, change.old_mode, change.old_path) != (change.after, change.mode, change.path)
