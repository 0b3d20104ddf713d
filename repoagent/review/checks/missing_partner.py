"""partner-missing: a file that usually changes together with the changed files is missing."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from repoagent.review.checks.file_kinds import LOCKS, only_comments
from repoagent.review.finding import Evidence, Finding, Level, Location, ReviewOutcome, level_of

if TYPE_CHECKING:
    from repoagent.config.settings import Settings
    from repoagent.git.worktree import WorkTree
    from repoagent.history.index.reader import IndexView
    from repoagent.history.missing_partners import MissingPartner
    from repoagent.review.change import Change

RULE = "partner-missing"
USUAL = 30  # files; the threshold is not calibrated on larger commits
SHOWN = 3
COMMITS_SHOWN = 5  # that support a finding
UNCALIBRATED = 0.8  # threshold while there are too few commits to calibrate it
ALIKE = 10  # past commits with the largest weights, of which SUPPORT must have the partner
SUPPORT = 3  # since one commit alone can be most of the weight
MINING_SECONDS = 0.2  # wall time to extend an incomplete index


class _Partner(NamedTuple):
    """A partner of the changed files, in `hits` of the `alike` most relevant commits."""

    missing: MissingPartner
    hits: int
    alike: int


def find_missing_partners(change: Change, worktree: WorkTree, settings: Settings) -> ReviewOutcome:
    """Findings for at most three partners, the most likely first. Never fetches objects."""
    level = level_of(RULE, settings)
    if not level or not change.files:
        return ReviewOutcome()
    from repoagent.history.index.index import mine_in_background, open_index
    from repoagent.history.index.schema import NoCommits
    from repoagent.storage.database import DatabaseUnusable

    notes = []
    is_ci = os.environ.get("CI", "").lower() not in ("", "0", "false")
    if (is_ci or "GIT_INDEX_FILE" not in os.environ) and (worktree.common_dir / "shallow").exists():
        notes.append(
            "the clone is shallow, so older commits do not count; run `git fetch --unshallow` to include them"
        )
    findings: list[Finding] = []
    is_complete = True
    try:
        if change.base or change.kind == "diff":  # a diff without commits starts from HEAD
            with open_index(worktree) as index, suppress(NoCommits):
                tip = change.base or index.resolve("HEAD").decode("ascii")
                extends_head = change.kind in ("staged", "worktree", "diff")
                state = index.update(tip, seconds=MINING_SECONDS, head=extends_head)
                is_complete = not state.new and state.end != "mining"
                findings = _findings(change, worktree, index.view(tip), level, calibrates=is_complete)
    except DatabaseUnusable as error:  # the index cannot be created, or turns out to be damaged
        notes.append(f"could not look for files missing from the change: {error}")
    if not is_complete:
        if mine_in_background(worktree):
            notes.append(
                "the history is still being indexed in the background; until that is done, reviews may miss findings"
            )
        else:
            notes.append("the history has not been indexed yet; run `repoagent mine` to index it")
    return ReviewOutcome(tuple(findings), tuple(notes))


def _findings(
    change: Change, worktree: WorkTree, view: IndexView, level: Level, *, calibrates: bool
) -> list[Finding]:
    from repoagent.history import missing_partners as history

    if len(change.files) > USUAL:
        return []
    author = view.author(change.author) if change.author else None
    existed = [file for file in change.files if file.status != "added"]
    found = ((file.path, view.file(os.fsencode(file.old_path))) for file in existed)
    files = {path: file for path, file in found if file is not None}
    ids = sorted(set(files.values()))
    # calibrating takes longer than all else, and most changes lack nothing
    if not ids or not history.find_missing(view, ids, limit=1, threshold=history.FLOOR, author=author):
        return []
    threshold = history.calibrate_threshold(view) if calibrates else history.NEVER
    if threshold >= history.NEVER:  # too few commits to calibrate it on
        threshold = UNCALIBRATED
    weighed = history.weigh_commits(frozenset(ids), history.merge(view.many(ids, history.DEPTH)), author)
    alike = [commit for commit, _ in sorted(weighed, key=lambda entry: -entry[1])[:ALIKE]]
    touched = frozenset(path for file in change.files for path in (file.path, file.old_path))
    excluded = {*touched, *change.earlier}
    for path in touched:  # a lock file changes with its manifest, or alone
        folder, slash, name = path.rpartition("/")
        excluded.update(f"{folder}{slash}{manifest}" for manifest in LOCKS.get(name, ()))

    partners = []
    for missing in history.find_missing(view, ids, limit=SHOWN, threshold=threshold, author=author):
        hits = sum(missing.file in commit.files for commit in alike)
        if hits >= min(SUPPORT, len(alike)) and os.fsdecode(missing.path) not in excluded:
            partners.append(_Partner(missing, hits, len(alike)))
    if not partners or only_comments(change):
        return []
    partners.sort(key=lambda partner: (-partner.missing.confidence, partner.missing.file))
    return [
        _finding(worktree.top, view, partner, files, threshold=threshold, level=level)
        for partner in partners[:SHOWN]
    ]


def _finding(
    top: Path, view: IndexView, partner: _Partner, files: Mapping[str, int], *, threshold: float, level: Level
) -> Finding:
    """The finding for a partner; `files` are the ids of the changed files by path."""
    from repoagent.history.missing_partners import DEPTH

    missing = partner.missing
    common = set(missing.evidence)
    histories = view.many(sorted(set(files.values())), DEPTH)
    counts = {
        path: sum(commit.number in common for commit in histories[file]) for path, file in files.items()
    }
    path = min(files, key=lambda path: (-counts[path], path))  # most often in the commits with the partner
    name, subject = os.fsdecode(missing.path), "the changed files" if len(files) > 1 else path
    body = f"It changed in {missing.together} of the last {missing.commits} commits that touch {subject}"
    if missing.commits > partner.alike and missing.together < missing.commits:
        body += f", and in {partner.hits} of the {partner.alike} most relevant (similar, recent, same author)"
    body += f". Its weighted share is {missing.confidence:.0%}; the threshold is {threshold:.0%}."
    frequency = "usually" if 2 * missing.together >= missing.commits else "often"
    title = f"{name} {frequency} changes along with {path}, but is not part of this change"
    numbers = missing.evidence[:COMMITS_SHOWN]
    ids = view.ids(numbers)
    evidence = evidence_of(top, [ids[number] for number in numbers if number in ids])
    share = round(missing.confidence, 3)
    return Finding(RULE, level, title, Location(path), body, name, evidence=evidence, confidence=share)


def evidence_of(top: Path, ids: Sequence[str]) -> tuple[Evidence, ...]:
    """Return the commits with these full ids as evidence. Skips commits that no longer exist."""
    from datetime import datetime

    from repoagent.history.render import read_headers

    headers = read_headers(top, ids)
    evidence = []
    for header in (headers[commit] for commit in ids if commit in headers):
        time = datetime.fromisoformat(header.date.replace("Z", "+00:00"))
        evidence.append(Evidence(header.commit, int(time.timestamp()), header.subject))
    return tuple(evidence)
