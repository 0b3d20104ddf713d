"""The edited segments and the source as it is, merged by git; and what would be lost where the segments win."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from repoagent.dataclass import dataclass
from repoagent.edit.join.gather import Edited, Gathered
from repoagent.patch import canonical_diff, differing
from repoagent.repo import FileChange, WorkTree
from repoagent.repo.change import REGULAR
from repoagent.repo.merge import Conflict, merge
from repoagent.split import parses_worse
from repoagent.split.joining import Clash, Part, Place, join_parts
from repoagent.split.joining.joined import How, Merge


@dataclass(frozen=True)
class Merged:
    """The source as it is to be, None where something clashes; what became of each edited file; what clashes; and with
    the last word of the segments the diff of the source's own changes that this takes away."""

    data: bytes | None
    how: Mapping[str, How]
    clashes: tuple[Clash, ...] = ()
    lost: str = ""


def merged(
    worktree: WorkTree | None, gathered: Gathered, name: str, present: bytes, *, last_word: bool = False
) -> Merged:
    """Join the edits with the `present` source, which is called `name` in diffs."""
    with ExitStack() as stack:
        if worktree is None:
            folder = Path(stack.enter_context(TemporaryDirectory(prefix="repoagent-")))
            worktree = WorkTree(folder, folder, folder)
        by_git = _by_git(worktree)
        edits: list[Edited] = []
        clashes: list[Clash] = []
        lost, kept = "", gathered.base
        for edit in gathered.edits[::-1]:
            one = _rebased(gathered, edit, by_git, last_word)
            clashes += one.clashes
            edits.append(replace(edit, after=one.data))
            if one.clashes:
                kept = kept[: edit.segment.start] + one.kept + kept[edit.segment.end :]
        if clashes and not last_word:
            how: dict[str, How] = {file: "clash" for clash in clashes for file in clash.files}
            return Merged(None, how, tuple(clashes[::-1]))
        parts = gathered.parts(edits)
        joined = join_parts(parts, present, merge=by_git, differing=differing, last_word=last_word)
    if clashes:
        lost = _diff(name, kept, gathered.base)
    if joined.kept is not None:
        lost += _diff(name, joined.kept, present)
    how = {edit.file: _how(edit, joined.how) for edit in gathered.edits}
    return Merged(joined.data, how, (*clashes[::-1], *joined.clashes), lost)


def breaking(gathered: Gathered) -> list[str]:
    """The edited files after which the text that was split, with nothing else changed, parses worse."""
    path, base = gathered.index.source.path, gathered.base
    return [
        edit.file
        for edit in gathered.edits
        if parses_worse(path, base, base[: edit.segment.start] + edit.after + base[edit.segment.end :])
    ]


def _how(edit: Edited, how: Mapping[str, How]) -> How:
    """Of one that the refreshed text has already nothing is left to join; of some only the form was changed."""
    return "unchanged" if edit.before == edit.after else how.get(edit.file, "already")


@dataclass(frozen=True)
class _Rebased:
    data: bytes
    kept: bytes
    clashes: tuple[Clash, ...] = ()


def _rebased(gathered: Gathered, edit: Edited, by_git: Merge, last_word: bool) -> _Rebased:
    """The edit as one of the text that the index is of now: it was made of an earlier one where the split was
    refreshed under it."""
    segment = edit.segment
    text = gathered.base[segment.start : segment.end]
    if edit.before == text:
        return _Rebased(edit.after, text)
    parts = [Part(edit.file, edit.before, edit.after)]
    joined = join_parts(parts, text, merge=by_git, differing=differing, last_word=last_word)
    by = segment.first_line - 1
    clashes = tuple(
        Clash(clash.files, tuple(_moved(place, by) for place in clash.places)) for clash in joined.clashes
    )
    return _Rebased(
        text if joined.data is None else joined.data, text if joined.kept is None else joined.kept, clashes
    )


def _moved(place: Place, by: int) -> Place:
    return replace(place, source=(place.source[0] + by, place.source[1] + by))


def _by_git(worktree: WorkTree) -> Merge:
    def by_git(version: bytes, before: bytes, after: bytes, last_word: bool) -> bytes | None:
        found = merge(worktree, version, before, after, after_wins=last_word)
        return None if isinstance(found, Conflict) else found

    return by_git


def _diff(path: str, before: bytes, after: bytes) -> str:
    return canonical_diff([FileChange(path, path, before, after, REGULAR, REGULAR)])
