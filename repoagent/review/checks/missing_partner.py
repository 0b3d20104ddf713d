"""partner-missing: a file that usually changes together with the changed files is missing.

The score and its threshold are those of `history.cochange`; the threshold is learned from single commits of the
repository, so a short branch is checked commit by commit. A partner is missing if no commit of the branch touches it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from repoagent.review.checks.context import CheckContext, only_comments
from repoagent.review.checks.file_origin import LOCKS
from repoagent.review.finding import Finding, Location

if TYPE_CHECKING:
    from repoagent.history.cochange.missing import Missing
    from repoagent.history.cochange.score import View

USUAL = 30  # files; the threshold is not learned from larger commits
STEPS = 3  # commits of a branch that is checked commit by commit; a longer one would give too many findings
SHOWN = 3
UNLEARNED = 0.8  # threshold while there are too few commits to learn it
FEWEST = 40  # commits to learn the threshold from
ALIKE = 10  # past commits with the largest weights, of which SUPPORT must have the partner
SUPPORT = 3  # since one commit alone can be most of the weight


class _Partner(NamedTuple):
    """A partner of the changed files `files` (ids by path), in `hits` of the `alike` most relevant commits."""

    missing: Missing
    files: Mapping[str, int]
    hits: int
    alike: int


def find_missing_partners(context: CheckContext) -> Iterator[Finding]:
    """Yield a finding for at most three partners, the surest first."""
    view, habits = context.view, context.habits
    threshold = habits.threshold if habits is not None and habits.commits >= FEWEST else UNLEARNED
    if view is None or threshold >= 1:
        return
    changed = {*context.changed, *context.change.earlier}
    for path in context.changed:  # the rule generated-edited covers the manifests of lock files
        folder, slash, name = path.rpartition("/")
        changed.update(f"{folder}{slash}{manifest}" for manifest in LOCKS.get(name, ()))
    best: dict[str, _Partner] = {}
    for paths in _steps(context):
        files = {path: file for path, file in context.file_ids.items() if path in paths}
        if not files or len(paths) > USUAL:
            continue
        for partner in _likely_partners(context, view, files, threshold):
            name = os.fsdecode(partner.missing.path)
            known = best.get(name)
            if name not in changed and (not known or known.missing.confidence < partner.missing.confidence):
                best[name] = partner
    surest = sorted(best.values(), key=lambda partner: (-partner.missing.confidence, partner.missing.file))
    if surest and not only_comments(context.change, *context.change.files):
        for partner in surest[:SHOWN]:
            yield _finding(context, view, partner, threshold)


def _steps(context: CheckContext) -> list[frozenset[str]]:
    """The paths of the change; for a branch of 2 or 3 commits, those of each commit, with one git call."""
    change = context.change
    if change.kind == "range":
        from repoagent.review.diff.select import paths_by_commit

        paths = paths_by_commit(context.top, change.head, change.base, STEPS)
        if paths is not None and len(paths) > 1:
            return paths
    return [context.changed] if len(change.files) <= USUAL else []


def _likely_partners(
    context: CheckContext, view: View, files: Mapping[str, int], threshold: float
) -> list[_Partner]:
    """The partners of these files that are in enough of the most relevant commits."""
    from repoagent.history.cochange.missing import DEPTH, merge, missing, weigh

    ids, author = sorted(set(files.values())), context.history.author
    candidates = missing(view, ids, limit=SHOWN, threshold=threshold, author=author)
    if not candidates:
        return []
    weighed = weigh(frozenset(ids), merge(view.many(ids, DEPTH)), author)
    alike = [commit for commit, _ in sorted(weighed, key=lambda entry: -entry[1])[:ALIKE]]
    partners = []
    for candidate in candidates:
        hits = sum(candidate.file in commit.files for commit in alike)
        if hits >= min(SUPPORT, len(alike)):
            partners.append(_Partner(candidate, files, hits, len(alike)))
    return partners


def _finding(context: CheckContext, view: View, partner: _Partner, threshold: float) -> Finding:
    from repoagent.history.cochange.missing import DEPTH

    missing, files = partner.missing, partner.files
    common = set(missing.evidence)
    histories = view.many(sorted(set(files.values())), DEPTH)
    counts = {
        path: sum(commit.number in common for commit in histories[file]) for path, file in files.items()
    }
    path = min(files, key=lambda path: (-counts[path], path))  # most often in the commits with the partner
    name, subject = os.fsdecode(missing.path), "the changed files" if len(files) > 1 else path
    body = f"It changed in {missing.together} of the last {missing.commits} commits of {subject}"
    if missing.commits > partner.alike and missing.together < missing.commits:
        body += f", and in {partner.hits} of the {partner.alike} most relevant (similar, recent, same author)"
    body += f". The weighted share is {missing.confidence:.0%}, the threshold {threshold:.0%}."
    frequency = "usually" if 2 * missing.together >= missing.commits else "often"
    title = f"{name} {frequency} changes along with {path}, but is not part of this change"
    return context.finding(
        "partner-missing", title, Location(path), body, name,
        evidence=context.evidence(missing.evidence), confidence=round(missing.confidence, 3),
    )  # fmt: skip
