"""The kinds of cases and how each is made: the same repositories and seed always give the same cases."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib import import_module
from random import Random

from bench.patch.draft import Draft, new_draft
from bench.patch.history import Repository
from bench.patch.model import ADDED, Case
from bench.patch.slip import ANSWER, BLOCKS, FILE, HUNKS, NUMBERS, REFUSALS, SLIPS, Slip, unambiguous

for _module in ("refusals_answer", "refusals_text", "slips_files", "slips_forms", "slips_hunks", "slips_lines",
                "slips_several", "slips_wrap"):  # fmt: skip
    import_module(f"bench.patch.{_module}")

COMBINATIONS = {"2 slips": 2, "3 slips": 3, "4 slips": 4, "5 slips": 5}
SHARES = (("single", 0.55), ("combined", 0.25), ("refused", 0.20))
SAME = 80  # tries before other slips are drawn: fewer would favour slips that fit every file
ENTITY = re.compile(r"&(?:lt|gt|amp|quot|apos|nbsp|#39|#34|#x27|#x2F|#x60);", re.IGNORECASE)
TRIES = 400  # commits tried for one case: some slips need a rare kind of file


def kinds() -> dict[str, list[str]]:
    return {"single": sorted(SLIPS), "combined": list(COMBINATIONS), "refused": sorted(REFUSALS)}


def plan(cases: int, only: Sequence[str] = ()) -> list[tuple[str, int]]:
    """The kind and number of each case; within a group, every kind is equally frequent."""
    groups = kinds()
    if only:
        chosen = [kind for group in groups.values() for kind in group if any(word in kind for word in only)]
        return [(chosen[n % len(chosen)], n // len(chosen)) for n in range(cases if chosen else 0)]
    planned = []
    for group, share in SHARES:
        names = groups[group]
        planned += [(names[n % len(names)], n // len(names)) for n in range(round(cases * share))]
    return planned


def make(kind: str, number: int, seed: int, repositories: Sequence[Repository]) -> Case | None:
    """Make a case, or return None if no commit that was tried suits its kind."""
    rng = Random(f"{seed}/{kind}/{number}")
    name = f"{kind}#{number}"
    slips: list[Slip] = []
    for attempt in range(TRIES):
        repository = rng.choice(repositories)
        if kind in REFUSALS:
            case = REFUSALS[kind](repository, rng, name)
        else:
            if attempt % SAME == 0:
                slips = [SLIPS[kind]] if kind in SLIPS else _choice(rng, COMBINATIONS[kind])
            case = _slipped(repository, rng, name, slips)
        if case is not None and _sound(case):
            return case
    return None


def _slipped(repository: Repository, rng: Random, name: str, chosen: Sequence[Slip]) -> Case | None:
    least = max(slip.files for slip in chosen)
    seed = repository.seed(rng, max(least, rng.choice([1, 1, 1, 1, 2, 3])))
    if seed is None:
        return None
    draft = new_draft(seed, rng)
    ordered = sorted(chosen, key=lambda slip: slip.stage)
    names = tuple(slip.name for slip in ordered)

    def until(stage: int) -> bool:
        while ordered and ordered[0].stage <= stage:
            slip = ordered.pop(0)
            if not slip.do(draft):
                return False
            draft.blur = max(draft.blur, slip.blur)
        return True

    if not until(FILE):
        return None
    draft.build()
    if not until(HUNKS) or not unambiguous(draft) or not until(NUMBERS) or not until(BLOCKS - 1):
        return None
    if not unambiguous(draft):
        return None
    if not draft.blocks:
        draft.render()
    if not until(ANSWER):
        return None
    draft.may_refuse = draft.may_refuse or _seems_cut(draft, names) or _seems_escaped(draft)
    try:
        return draft.case(name, names, draft.text())
    except UnicodeEncodeError:  # one slip added characters that another's encoding lacks
        return None


def _seems_cut(draft: Draft, slips: Sequence[str]) -> bool:
    """Whether the answer may have been cut: no fence closes the diff, and its last `@@` line counts more lines than
    there are or, if a fence was opened, has no numbers."""
    if not draft.hunks or (draft.marks[1] and "fence-not-closed" not in slips):
        return False
    hunk = draft.hunks[-1]
    match = re.search(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@", hunk.header or "")
    if match is None:
        return "fence-not-closed" in slips and hunk.header != ""
    return any(int(count or 1) > there for count, there in zip(match.groups(), hunk.counts(), strict=True))


def _seems_escaped(draft: Draft) -> bool:
    """Whether `&lt;` and the like in added lines may come from escaping the whole answer: the files have no such
    entity, and the hunks no bare `<`, `>` or `&`."""
    lines = [line for hunk in draft.hunks for line in hunk.lines]
    if not any(line.kind == ADDED and ENTITY.search(line.text) for line in lines):
        return False
    if any(re.search("[<>&]", ENTITY.sub("", line.text)) for line in lines):
        return False
    old = (line for change in draft.changes if change.before for line in change.before.lines)
    return not any(ENTITY.search(line) for line in old)


def _choice(rng: Random, count: int) -> list[Slip]:
    """Draw `count` slips that can be combined."""
    names = sorted(name for name, slip in SLIPS.items() if slip.combines)
    chosen: list[Slip] = []
    words: set[str] = set()
    while len(chosen) < count:
        slip = SLIPS[rng.choice(names)]
        if not slip.about & words:
            chosen.append(slip)
            words |= slip.about
    return chosen


def _sound(case: Case) -> bool:
    """Whether the answer can be encoded and, unless it must be refused, changes something."""
    try:
        case.answer.encode()
    except UnicodeEncodeError:
        return False
    if case.expected is None:
        return True
    return any(case.files.get(path) != content for path, content in case.expected.items())
