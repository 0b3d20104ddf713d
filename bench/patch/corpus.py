"""Kinds of cases, and the cases of each: always the same for the same repositories and seed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib import import_module
from random import Random

from bench.patch.draft import Draft, draft
from bench.patch.history import Repository
from bench.patch.model import ADDED, Case
from bench.patch.slip import ANSWER, BLOCKS, FILE, HUNKS, NUMBERS, REFUSALS, SLIPS, Slip, told_apart

for _module in ("refusals_answer", "refusals_text", "slips_files", "slips_forms", "slips_hunks", "slips_lines",
                "slips_several", "slips_wrap"):  # fmt: skip
    import_module(f"bench.patch.{_module}")

COMBINATIONS = {"2 slips": 2, "3 slips": 3, "4 slips": 4, "5 slips": 5}
SHARES = (("single", 0.55), ("combined", 0.25), ("refused", 0.20))
SAME = 80  # draws with the same slips, or those that fit every file would crowd out the rest
ENTITY = re.compile(r"&(?:lt|gt|amp|quot|apos|nbsp|#39|#34|#x27|#x2F|#x60);", re.IGNORECASE)
TRIES = 400  # draws for one case: some slips need a file of a rare kind


def kinds() -> dict[str, list[str]]:
    return {"single": sorted(SLIPS), "combined": list(COMBINATIONS), "refused": sorted(REFUSALS)}


def plan(cases: int, only: Sequence[str] = ()) -> list[tuple[str, int]]:
    """Kind and number of each case: every kind of a group as often as the others of it."""
    groups = kinds()
    if only:
        chosen = [kind for group in groups.values() for kind in group if any(word in kind for word in only)]
        return [(chosen[n % len(chosen)], n // len(chosen)) for n in range(cases if chosen else 0)]
    found = []
    for group, share in SHARES:
        names = groups[group]
        found += [(names[n % len(names)], n // len(names)) for n in range(round(cases * share))]
    return found


def make(kind: str, number: int, seed: int, repositories: Sequence[Repository]) -> Case | None:
    """The case, or None where no commit that was tried is fit for it."""
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
    made = draft(seed, rng)
    ordered = sorted(chosen, key=lambda slip: slip.stage)
    names = tuple(slip.name for slip in ordered)

    def until(stage: int) -> bool:
        while ordered and ordered[0].stage <= stage:
            slip = ordered.pop(0)
            if not slip.do(made):
                return False
            made.blur = max(made.blur, slip.blur)
        return True

    if not until(FILE):
        return None
    made.build()
    if not until(HUNKS) or not told_apart(made) or not until(NUMBERS) or not until(BLOCKS - 1):
        return None
    if not told_apart(made):
        return None
    if not made.blocks:
        made.render()
    if not until(ANSWER):
        return None
    made.may_refuse = made.may_refuse or _seems_cut(made, names) or _seems_escaped(made)
    try:
        return made.case(name, names, made.text())
    except UnicodeEncodeError:  # a slip has put into a file what its encoding, another slip, can't hold
        return None


def _seems_cut(made: Draft, slips: Sequence[str]) -> bool:
    """No fence closes the diff, and its last `@@` line speaks of more lines than there are, or of none in an answer
    that has opened a fence: it may have been cut."""
    if not made.hunks or (made.marks[1] and "fence-not-closed" not in slips):
        return False
    hunk = made.hunks[-1]
    said = re.search(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@", hunk.header or "")
    if said is None:
        return "fence-not-closed" in slips and hunk.header != ""
    return any(int(count or 1) > there for count, there in zip(said.groups(), hunk.counts(), strict=True))


def _seems_escaped(made: Draft) -> bool:
    """Do added lines hold `&lt;` and the like, the files nothing of it, and no hunk a bare `<`, `>` or `&`? Then it may
    as well have happened on the way."""
    lines = [line for hunk in made.hunks for line in hunk.lines]
    if not any(line.kind == ADDED and ENTITY.search(line.text) for line in lines):
        return False
    if any(re.search("[<>&]", ENTITY.sub("", line.text)) for line in lines):
        return False
    old = (line for change in made.changes if change.before for line in change.before.lines)
    return not any(ENTITY.search(line) for line in old)


def _choice(rng: Random, count: int) -> list[Slip]:
    """So many slips that go together."""
    names = sorted(name for name, slip in SLIPS.items() if slip.combines)
    chosen: list[Slip] = []
    taken: set[str] = set()
    while len(chosen) < count:
        slip = SLIPS[rng.choice(names)]
        if not slip.about & taken:
            chosen.append(slip)
            taken |= slip.about
    return chosen


def _sound(case: Case) -> bool:
    """An answer can be written down, and asks for something."""
    try:
        case.answer.encode()
    except UnicodeEncodeError:
        return False
    if case.expected is None:
        return True
    return any(case.files.get(path) != content for path, content in case.expected.items())
