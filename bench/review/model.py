"""`python -m bench.review.model --repo PATH...`: what the check of a model's findings lets through.

Findings are made up about real commits: good ones, as models write them (with a number that is off, other spaces, a
piece of a line, the lines around it, the marks of the prompt), and bad ones (code that is not there, a line that the
change did not make, one of another file, one that was removed, lines left out). Beside ours stand two simple checks:
the number is that of a changed line, and the quote is somewhere in the file. No bad finding may be let through.
"""

from __future__ import annotations

import random
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.options import REPOSITORIES, options
from bench.origins import name_of
from repoagent.git.process import git
from repoagent.git.worktree import open_at_head
from repoagent.review.change import Change
from repoagent.review.diff.read import read_change
from repoagent.review.diff.select import ChangeSelector
from repoagent.review.finding import Finding, Level
from repoagent.review.llm.chunks import FileView, gather
from repoagent.review.llm.claims import Claim, verify

GOOD = ("exact", "number off", "other spaces", "piece of a line", "with lines around", "as shown")
BAD = (
    "made up",
    "one word other",
    "unchanged line",
    "unchanged twin",
    "other file",
    "lines left out",
    "removed",
)
METHODS = ("ours", "number", "quote in file")
EACH = 3  # findings of a kind and file
_WORD = re.compile(r"[A-Za-z_]\w{2,}")

Views = Mapping[str, FileView]


@dataclass(frozen=True)
class Case:
    """One made-up finding; `right` are the lines that it may be placed on, None for none."""

    kind: str
    claim: Claim
    right: tuple[int, int] | None


def main() -> None:
    args = options(
        "bench.review.model", __doc__,
        repo=([Path], REPOSITORIES), commits=(100, "of each repository"), seed=(1, ""),
    )  # fmt: skip
    total: Counter[tuple[str, str, str]] = Counter()
    for repository in args.repo:
        began = time.process_time()
        found = measured(repository, args.commits, random.Random(args.seed))
        total += found
        cases = sum(count for (method, _, _), count in found.items() if method == "ours")
        spent = time.process_time() - began
        print(f"{name_of(repository)}: {cases:,} findings, {spent:.0f} s", flush=True)
    print(table(total))
    if any(total["ours", kind, "wrong"] for kind in (*GOOD, *BAD)):
        sys.exit("let a wrong finding through")


def measured(repository: Path, commits: int, rng: random.Random) -> Counter[tuple[str, str, str]]:
    """How many findings of each kind each method let through, rightly or wrongly, or dropped."""
    worktree, head = open_at_head(repository)
    listed = git(worktree.top, "rev-list", "--no-merges", f"-n{commits * 3}", "HEAD").decode().split()
    counts: Counter[tuple[str, str, str]] = Counter()
    for commit in rng.sample(listed, min(commits, len(listed))):
        change, _ = read_change(worktree, head, ChangeSelector("commit", commit))
        if len(change.files) > 40:
            continue
        views = gather(change, worktree, lambda path: None).views
        for case in cases_of(change, views, rng):
            for method in METHODS:
                counts[method, case.kind, _judged(_JUDGES[method](case.claim, views), case)] += 1
    return counts


def _judged(place: tuple[int, int] | None, case: Case) -> str:
    if place is None:
        return "dropped"
    right = case.right
    return "right" if right is not None and right[0] <= place[0] and place[1] <= right[1] else "wrong"


def _ours(claim: Claim, views: Views) -> tuple[int, int] | None:
    found = verify(claim, views, Level.WARNING)
    return (found.location.start, found.location.end) if isinstance(found, Finding) else None


def _by_number(claim: Claim, views: Views) -> tuple[int, int] | None:
    lines = [n for n in views[claim.path].changed(old=False) if claim.first <= n <= claim.last]
    return (lines[0], lines[-1]) if lines else None


def _in_file(claim: Claim, views: Views) -> tuple[int, int] | None:
    text = "\n".join(views[claim.path].new.values())
    return (claim.first, claim.last) if "\n".join(claim.quote) in text else None


_JUDGES: Mapping[str, Callable[[Claim, Views], tuple[int, int] | None]] = {
    "ours": _ours, "number": _by_number, "quote in file": _in_file,
}  # fmt: skip


def cases_of(change: Change, views: Views, rng: random.Random) -> Iterator[Case]:
    for view in views.values():
        added = [n for n in view.changed(old=False) if len(_WORD.findall(view.new[n])) >= 2]
        if not added:
            continue
        for kind in (*GOOD, *BAD):
            for number in rng.sample(added, min(EACH, len(added))):
                case = _made(kind, number, view, views, rng)
                if case is not None:
                    yield case


def _made(kind: str, number: int, view: FileView, views: Views, rng: random.Random) -> Case | None:
    line = view.new[number]
    changed = set(view.changed(old=False))
    if kind in GOOD:
        return _good(kind, number, view, rng)
    quote: list[str] = []
    if kind == "made up":
        quote = [line.replace(rng.choice(_WORD.findall(line)), f"frobnicate_{rng.random():.6f}"[:18])]
    elif kind == "one word other":
        words = _WORD.findall(line)
        quote = [line.replace(words[-1], words[0], 1)]
    elif kind == "other file":
        rest = (other for name, other in views.items() if name != view.path)
        others = [other.new[n] for other in rest for n in other.changed(old=False)]
        quote = [rng.choice(others)] if others else []
    elif kind == "lines left out":
        run = [number, number + 1, number + 2]
        quote = [view.new[n] for n in run[::2]] if set(run) <= changed else []
    elif kind == "removed":
        gone = view.changed(old=True)
        quote = [view.old[rng.choice(gone)]] if gone else []
    else:
        return _unchanged(kind, number, view, changed, rng)
    return _bad(kind, view, number, quote) if quote else None


def _unchanged(kind: str, number: int, view: FileView, changed: set[int], rng: random.Random) -> Case | None:
    """A line that the change did not make; for a twin, one that reads as a changed one does."""
    texts = {" ".join(view.new[n].split()) for n in changed}
    twin = kind == "unchanged twin"
    rest = [
        n for n, text in view.new.items() if n not in changed and (" ".join(text.split()) in texts) is twin
    ]
    if not rest:
        return None
    other = rng.choice(rest)
    if not twin:
        return _bad(kind, view, rng.choice([number, other]), [view.new[other]])
    found = _WORD.search(view.new[other])
    return Case(kind, _claim(view, other, [view.new[other]]), None) if found else None


def _good(kind: str, number: int, view: FileView, rng: random.Random) -> Case | None:
    line = view.new[number]
    quote, first, right = [line], number, (number, number)
    if kind == "number off":
        first = max(1, number + rng.choice([-1, 1]) * rng.randint(1, 30))
        if " ".join(view.new.get(first, "").split()) == " ".join(line.split()):
            return None  # an equal line: nobody can tell which is meant
    elif kind == "other spaces":
        quote = [re.sub(r"(?<=\S) (?=\S)", "   ", line).strip()]
    elif kind == "piece of a line":
        text = line.strip()
        start = rng.randint(0, max(0, len(text) - 16))
        quote = [text[start : start + rng.randint(12, 40)].strip()]
        if len(_WORD.findall(quote[0])) < 1 or len(quote[0]) < 10:
            return None
    elif kind == "with lines around":
        around = [n for n in (number - 1, number, number + 1) if n in view.new]
        quote, right = [view.new[n] for n in around], (around[0], around[-1])
    elif kind == "as shown":
        quote = [f"{number:>6} +| {line}"]
    return Case(kind, _claim(view, first, quote), right)


def _bad(kind: str, view: FileView, number: int, quote: Sequence[str]) -> Case | None:
    """A bad finding, unless by chance it is a good one: its text is on changed lines after all."""
    texts = [" ".join(view.new[n].split()) for n in view.changed(old=False)]
    wanted = [" ".join(line.split()) for line in quote]
    if not all(_WORD.search(line) for line in quote):
        return None
    if len(wanted) == 1 and any(wanted[0] in text for text in texts):
        return None
    lines = [" ".join(line.split()) for line in view.new.values()]
    if len(wanted) > 1 and any(lines[at : at + len(wanted)] == wanted for at in range(len(lines))):
        return None
    return Case(kind, _claim(view, number, quote), None)


def _claim(view: FileView, number: int, quote: Sequence[str]) -> Claim:
    last = number + len(quote) - 1
    return Claim("correctness", view.path, number, last, "It is wrong", tuple(quote), "So it is.")


def table(counts: Mapping[tuple[str, str, str], int]) -> str:
    """A line for each kind: how many, and what each method let through in the right place and wrongly."""
    lines = [f"{'':20}{'findings':>9}" + "".join(f"{method:>24}" for method in METHODS)]
    for name, kinds in (("good", GOOD), ("bad", BAD)):
        for kind in (*kinds, f"all {name}"):
            group = kinds if kind not in kinds else (kind,)
            lines.append(_row(kind, group, counts))
    return "\n".join(lines)


def _row(label: str, kinds: Sequence[str], counts: Mapping[tuple[str, str, str], int]) -> str:
    def sum_of(method: str, verdict: str) -> int:
        return sum(counts.get((method, kind, verdict), 0) for kind in kinds)

    size = sum(sum_of("ours", verdict) for verdict in ("right", "wrong", "dropped"))
    cells = [
        f"{sum_of(method, 'right') / max(1, size):>8.1%} right {sum_of(method, 'wrong'):>5} wrong"
        for method in METHODS
    ]
    return f"{label:20}{size:>9,}" + "".join(f"{cell:>24}" for cell in cells)


if __name__ == "__main__":
    main()
