"""The entry point: apply all hunks of an answer to its files, or none.

The parser is imported on first use, so that the request to the model is sent earlier.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from repoagent.dataclass import dataclass
from repoagent.patch.refusal import NoPatch, PatchError, PatchRefused, Problem

if TYPE_CHECKING:
    from repoagent.git.files import Content, FileChange
    from repoagent.patch.locate.exact import Placement
    from repoagent.patch.model import FilePatch

LARGEST = 4 * 1024 * 1024  # characters of an answer: parsing takes about forty times the memory


@dataclass(frozen=True)
class AppliedAnswer:
    """The result of applying an answer: one change per file, the placement of each hunk, and one canonical diff.

    `unclosed`: whether a fence is not closed.
    """

    changes: tuple[FileChange, ...]
    placements: tuple[Placement, ...]
    diff: str
    unclosed: bool = False


def apply_answer(
    answer: str,
    sources: Mapping[str, Content],
    *,
    scope: Collection[str] | None = None,
    may_create: Callable[[str], bool] | None = None,
    strict: bool = False,
    parses_worse: Callable[[str, bytes, bytes], str | None] | None = None,
) -> AppliedAnswer:
    """Apply all patches of an answer in memory, or none of them.

    sources: the content of every known file.
    scope: the files that may be changed; None means all.
    may_create: called with a path; returns whether a new file may be created there.
    strict: whether only exact matches are accepted.
    parses_worse: called with (path, before, after); returns a sentence if a parser rejects the result.

    Raises NoPatch if the answer contains no patch, PatchRefused with all problems.
    """
    return apply_patches(
        read_answer(answer, known=sources),
        sources,
        scope=scope,
        may_create=may_create,
        strict=strict,
        parses_worse=parses_worse,
    )


def read_answer(
    answer: str, *, loose: bool = False, known: Collection[str] = (), ended: bool = False
) -> tuple[FilePatch, ...]:
    """Return the patches in an answer, as written.

    `loose` is as in `patch_spans`. `known` has the names of known files. `ended`: the model ended the answer, so an
    unclosed fence is complete. Raises PatchRefused for an answer that is malformed or too long.
    """
    from repoagent.patch.parse.answer import parse_answer

    if len(answer) > LARGEST:
        text = f"{len(answer):,} characters exceed the limit of {LARGEST:,}. Send the change in parts."
        raise PatchRefused([Problem("", 0, "too-large", text)])
    try:
        return tuple(parse_answer(answer, loose=loose, known=known, ended=ended))
    except PatchError as error:
        raise PatchRefused([error.at("")]) from None


def apply_patches(
    patches: Sequence[FilePatch],
    sources: Mapping[str, Content],
    *,
    scope: Collection[str] | None = None,
    may_create: Callable[[str], bool] | None = None,
    strict: bool = False,
    parses_worse: Callable[[str, bytes, bytes], str | None] | None = None,
    exists: Callable[[str], bool] | None = None,
) -> AppliedAnswer:
    """Apply patches from `read_answer`, as `apply_answer` does. `exists` returns whether a file outside `sources`
    exists."""
    from repoagent.patch.combine import combine_patches
    from repoagent.patch.parse.retractions import without_withdrawn
    from repoagent.patch.render import canonical_diff
    from repoagent.patch.targets import PatchFiles, PatchOutcome, resolve_targets

    def never(path: str) -> bool:
        return False

    scope = frozenset(sources if scope is None else scope)
    files = PatchFiles(sources, scope, may_create or never, strict, parses_worse, exists or never)
    remaining: Sequence[FilePatch] = without_withdrawn(patches, files.sources)
    outcomes: dict[str, PatchOutcome] = {}
    unclosed = False
    while remaining:
        groups, problems, remaining = resolve_targets(remaining, files)
        for group in groups:
            outcome = combine_patches(group, files)
            if not isinstance(outcome, PatchOutcome):
                problems += outcome
                continue
            name = outcome.change.name
            if earlier := outcomes.get(name):
                change = replace(earlier.change, new=outcome.change.new)
                outcome = PatchOutcome(change, earlier.placements + outcome.placements)
            outcomes[name] = outcome
            unclosed |= any(target.patch.unclosed for target in group)
        if problems:
            raise PatchRefused(problems)
        results = {name: outcome.change.new for name, outcome in outcomes.items() if outcome.change.new}
        files = replace(files, sources=results, scope=frozenset(results))
    if not outcomes:
        raise NoPatch
    changes = tuple(outcome.change for outcome in outcomes.values() if not outcome.change.is_noop)
    if not changes:
        text = "no change: the old and new lines are identical."
        raise PatchRefused([Problem(", ".join(outcomes), 0, "no-change", text)])
    placements = tuple(placement for outcome in outcomes.values() for placement in outcome.placements)
    return AppliedAnswer(changes, placements, canonical_diff(changes), unclosed)
