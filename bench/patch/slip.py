"""The tables of slips and refusals that cases are made from.

A slip alters a draft at its stage and keeps its meaning, or returns False where it does not apply. The modules
`slips_*` and `refusals_*` fill the tables on import. `unambiguous` decides whether a draft fits at one place only.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random

from bench.patch.draft import Draft, new_draft
from bench.patch.history import Repository
from bench.patch.model import ADDED, Case, File, Hunk, Line

FILE, HUNKS, LINES, NUMBERS, NAMES, RAW, BLOCKS, ANSWER = range(8)  # stages, in order
MARGIN = 0.7  # with blur 3, a place with this share of the right one's votes makes a hunk ambiguous
SlipFunction = Callable[[Draft], bool]
HunkSlipFunction = Callable[[Draft, Hunk], bool]
RefusalFunction = Callable[[Draft], "Case | str | None"]


@dataclass(frozen=True)
class Slip:
    """A registered slip. Slips that share a word of `about` are never combined; `blur` is how far the hunks can be
    trusted after it (see Draft)."""

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
    """Register a function in SLIPS; `about` holds words separated by spaces, by default the name."""

    def add(do: SlipFunction) -> SlipFunction:
        assert name not in SLIPS
        SLIPS[name] = Slip(name, stage, frozenset(about.split() or [name]), do, blur, combines, files)
        return do

    return add


def hunk_slip(
    name: str, stage: int, about: str, *, blur: int = 0, combines: bool = True
) -> Callable[[HunkSlipFunction], HunkSlipFunction]:
    """Register a function that alters one hunk; it is called for all and must return True for at least one."""

    def add(do: HunkSlipFunction) -> HunkSlipFunction:
        slip(name, stage, about, blur=blur, combines=combines)(
            lambda draft: sum(do(draft, hunk) for hunk in draft.hunks) > 0
        )
        return do

    return add


def refusal(name: str, files: int = 1) -> Callable[[RefusalFunction], RefusalFunction]:
    """Register a function in REFUSALS. It gets a draft with hunks and returns the answer, the whole case, or None if
    the commit does not suit."""

    def add(do: RefusalFunction) -> RefusalFunction:
        def make(repository: Repository, rng: Random, case_name: str) -> Case | None:
            seed = repository.seed(rng, files)
            if seed is None:
                return None
            draft = new_draft(seed, rng)
            draft.build()
            result = do(draft)
            case = refused(draft, result) if isinstance(result, str) else result
            return case and replace(case, name=case_name, slips=(name,))

        assert name not in REFUSALS
        REFUSALS[name] = make
        return do

    return add


def answer_text(draft: Draft) -> str:
    draft.blocks = []
    draft.render()
    return draft.text()


def refused(draft: Draft, answer: str) -> Case:
    """A case in which nothing of the answer may be applied."""
    files, seed = draft.files(), draft.seed
    return Case(
        "", files, frozenset(files), None, answer, None, (), seed.repository, seed.commit, seed.language
    )


def unambiguous(draft: Draft) -> bool:
    """Whether every hunk fits at one place only, going by as much of its text as can be trusted."""
    return not draft.blur or all(
        _occurs_once(part.change.before, run, draft.blur)
        for part in draft.parts
        if part.change.before and part.change.after
        for hunk in part.hunks
        for run in runs(hunk)
    )


def runs(hunk: Hunk) -> list[list[Line]]:
    """The file's own lines in a hunk, split where it skips more than one line of the file or goes back."""
    groups: list[list[Line]] = []
    for line in hunk.lines:
        if line.kind == ADDED or line.row is None:
            continue
        if groups and (last := groups[-1][-1].row) is not None and 0 < line.row - last <= 2:
            groups[-1].append(line)
        else:
            groups.append([line])
    return groups


def plain(text: str, blur: int) -> str:
    """The part of a line that counts when lines are compared with this blur."""
    return text.removesuffix("\r") if blur < 2 else re.sub(r"\W+", "", text) or re.sub(r"\s+", "", text)


def _occurs_once(file: File, run: Sequence[Line], blur: int) -> bool:
    rows = [line.row for line in run if line.row is not None]
    pattern = [(row - rows[0], plain(file.lines[row], blur)) for row in rows]
    if not any(len(text.strip()) > 2 for _, text in pattern):
        return False
    rows_of: dict[str, list[int]] = defaultdict(list)
    texts = {text for _, text in pattern}
    for row, line in enumerate(file.lines):
        if (text := plain(line, blur)) in texts:
            rows_of[text].append(row)
    votes: Counter[int] = Counter()
    for offset, text in pattern:
        for row in rows_of[text]:
            votes[row - offset] += 10 if len(text) > 2 else 2
    best = votes.pop(rows[0], 0)
    return best > 0 and max(votes.values(), default=0) < best * (MARGIN if blur > 2 else 1)


def in_file(draft: Draft, line: Line) -> bool:
    """Whether the file has this context line at its row, ignoring white space and typography."""
    row, files = line.row, [change.before for change in draft.changes if change.before]
    return row is not None and any(
        row < len(file.lines) and plain(file.lines[row], 2) == plain(line.text, 2) for file in files
    )
