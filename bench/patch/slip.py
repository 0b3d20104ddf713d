"""The two tables of the corpus: slips, which leave an answer right, and kinds that must be refused.

A slip alters a draft at its stage, or returns False where it cannot. Modules `slips_*` and `refusals_*` fill the
tables when they are imported. `told_apart` decides whether a draft still says which place it means.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random

from bench.patch.draft import Draft, draft
from bench.patch.history import Repository
from bench.patch.model import ADDED, Case, File, Hunk, Line

FILE, HUNKS, LINES, NUMBERS, NAMES, RAW, BLOCKS, ANSWER = range(8)  # stages, in order
MARGIN = 0.7  # another place that is so like the right one could be meant as well
SlipFunction = Callable[[Draft], bool]
HunkSlipFunction = Callable[[Draft, Hunk], bool]
Refusing = Callable[[Draft], "Case | str | None"]


@dataclass(frozen=True)
class Slip:
    """Slips that share a word of `about` don't go together. After one with `blur` the numbers of the hunks cannot be
    believed, and their text only to that degree (see Draft)."""

    name: str
    stage: int
    about: frozenset[str]
    do: SlipFunction
    blur: int = 0
    combines: bool = True
    files: int = 1


SLIPS: dict[str, Slip] = {}
REFUSALS: dict[str, Callable[[Repository, Random, str], Case | None]] = {}


def slip(
    name: str, stage: int, about: str = "", *, blur: int = 0, combines: bool = True, files: int = 1
) -> Callable[[SlipFunction], SlipFunction]:
    """Add a function to SLIPS; `about` holds words."""

    def add(do: SlipFunction) -> SlipFunction:
        assert name not in SLIPS
        SLIPS[name] = Slip(name, stage, frozenset(about.split() or [name]), do, blur, combines, files)
        return do

    return add


def hunk_slip(
    name: str, stage: int, about: str, *, blur: int = 0, combines: bool = True
) -> Callable[[HunkSlipFunction], HunkSlipFunction]:
    """Add a function that alters one hunk to SLIPS: it is called for all, and must return True for one at least."""

    def add(do: HunkSlipFunction) -> HunkSlipFunction:
        slip(name, stage, about, blur=blur, combines=combines)(
            lambda draft: sum(do(draft, hunk) for hunk in draft.hunks) > 0
        )
        return do

    return add


def refusal(name: str, files: int = 1) -> Callable[[Refusing], Refusing]:
    """Add a function to REFUSALS. It takes a draft with hunks and returns the answer, or the whole case, or None where
    the commit does not suit it."""

    def add(do: Refusing) -> Refusing:
        def make(repository: Repository, rng: Random, case_name: str) -> Case | None:
            seed = repository.seed(rng, files)
            if seed is None:
                return None
            made = draft(seed, rng)
            made.build()
            result = do(made)
            case = refused(made, result) if isinstance(result, str) else result
            return case and replace(case, name=case_name, slips=(name,))

        assert name not in REFUSALS
        REFUSALS[name] = make
        return do

    return add


def answered(made: Draft) -> str:
    made.blocks = []
    made.render()
    return made.text()


def refused(made: Draft, answer: str) -> Case:
    """A case of which nothing may be applied."""
    files, seed = made.files(), made.seed
    return Case(
        "", files, frozenset(files), None, answer, None, (), seed.repository, seed.commit, seed.language
    )


def told_apart(draft: Draft) -> bool:
    """Whether every hunk of the draft fits at one place only, by as much of its text as can be believed."""
    return not draft.blur or all(
        _occurs_once(part.change.before, run, draft.blur)
        for part in draft.parts
        if part.change.before and part.change.after
        for hunk in part.hunks
        for run in runs(hunk)
    )


def runs(hunk: Hunk) -> list[list[Line]]:
    """The file's own lines of a hunk, cut where lines of the file are left out between them."""
    found: list[list[Line]] = []
    for line in hunk.lines:
        if line.kind == ADDED or line.row is None:
            continue
        if found and (last := found[-1][-1].row) is not None and 0 < line.row - last <= 2:
            found[-1].append(line)
        else:
            found.append([line])
    return found


def plain(text: str, blur: int) -> str:
    """What remains of a line to recognize it by."""
    return text.removesuffix("\r") if blur < 2 else re.sub(r"\W+", "", text) or re.sub(r"\s+", "", text)


def _occurs_once(file: File, run: Sequence[Line], blur: int) -> bool:
    rows = [line.row for line in run if line.row is not None]
    pattern = [(row - rows[0], plain(file.lines[row], blur)) for row in rows]
    if not any(len(text.strip()) > 2 for _, text in pattern):
        return False
    where: dict[str, list[int]] = defaultdict(list)
    wanted = {text for _, text in pattern}
    for row, line in enumerate(file.lines):
        if (text := plain(line, blur)) in wanted:
            where[text].append(row)
    votes: Counter[int] = Counter()
    for offset, text in pattern:
        for row in where[text]:
            votes[row - offset] += 10 if len(text) > 2 else 2
    best = votes.pop(rows[0], 0)
    return best > 0 and max(votes.values(), default=0) < best * (MARGIN if blur > 2 else 1)


def in_file(draft: Draft, line: Line) -> bool:
    """Whether a line of context is in its file, white space and typography aside."""
    row, files = line.row, [change.before for change in draft.changes if change.before]
    return row is not None and any(
        row < len(file.lines) and plain(file.lines[row], 2) == plain(line.text, 2) for file in files
    )
