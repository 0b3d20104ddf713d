"""Measure how often the first prompt shows the lines to change: `python -m bench.large --repo PATH:FILE...`

Each request is the subject of a real commit to a large file; the truth is the lines that it changed. All methods have
the same byte limit. Tokens are bytes / 4; the last column is the share of the whole file.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median

from bench.options import options
from bench.origins import git
from repoagent.edit.prompt.large_files import MAP_BYTES, PARTS_BYTES, Budget, excerpt_of
from repoagent.edit.prompt.relevance import COMMITS, Relevance, Touched

LEAST_BYTES = 64 * 1024
MOST_HUNKS, MOST_LINES = 6, 60
SHARE = 0.4  # minimum share of a commit's changed lines that are in the file
_OLD_LINES = re.compile(rb"^@@ -(\d+)(?:,(\d+))? \+\d+(?:,\d+)? @@", re.MULTILINE)
_NO_REQUEST = re.compile(r"^(merge|revert|bump|release|version|update (changelog|version))\b", re.IGNORECASE)


@dataclass(frozen=True)
class Case:
    """A request about `path` in the repository `top` before `commit`. `truth` has the line numbers (from 1) that the
    commit changed or inserted after."""

    top: Path
    path: str
    commit: str
    request: str
    truth: frozenset[int]

    def data(self) -> bytes:
        return git(self.top, "cat-file", "blob", f"{self.commit}^:{self.path}")


def cases(top: Path, path: str, limit: int, seed: int) -> list[Case]:
    """Up to `limit` cases of one file, drawn at random from its last 600 commits."""
    requests = list(_requests(top, path))
    random.Random(f"{seed} {path}").shuffle(requests)
    selected: list[Case] = []
    for commit, request in requests:
        if len(selected) == limit:
            break
        if case := _case(top, path, commit, request):
            selected.append(case)
    return selected


def _requests(top: Path, path: str) -> Iterator[tuple[str, str]]:
    """The hashes and subjects of single-parent commits whose subject reads like a request."""
    log = git(top, "log", "--no-merges", "-n", "600", "--format=%H%x09%P%x09%s", "HEAD", "--", path)
    for entry in log.decode(errors="replace").splitlines():
        commit, parents, subject = entry.split("\t", 2)
        if len(parents.split()) == 1 and len(subject.split()) > 2 and not _NO_REQUEST.match(subject):
            yield commit, subject


def _case(top: Path, path: str, commit: str, request: str) -> Case | None:
    counts = git(top, "diff-tree", "-r", "--numstat", "--no-renames", f"{commit}^", commit)
    rows = (line.split("\t", 2) for line in counts.decode(errors="replace").splitlines())
    changed = {name: int(added) + int(removed) for added, removed, name in rows if added != "-"}
    own = changed.get(path, 0)
    if not own or own > MOST_LINES or own < SHARE * sum(changed.values()):
        return None
    entry = git(top, "ls-tree", "-l", f"{commit}^", "--", path).split()
    if not entry or int(entry[3]) < LEAST_BYTES:
        return None
    diff = git(top, "diff-tree", "-p", "-U0", "--no-renames", f"{commit}^", commit, "--", path)
    hunks = [(int(start), int(count or 1)) for start, count in _OLD_LINES.findall(diff)]
    if not 0 < len(hunks) <= MOST_HUNKS:
        return None
    truth = frozenset(line for start, count in hunks for line in range(start, start + max(1, count)) if line)
    return Case(top, path, commit, request, truth) if truth else None


AROUND = 15  # lines shown before and after a match
_NEW_LINES = re.compile(rb"^@@ -\S+ \+(\d+)(?:,(\d+))? @@", re.MULTILINE)


@dataclass(frozen=True)
class Shown:
    """The line numbers (from 1) that a method shows, and the bytes of everything that it shows."""

    lines: frozenset[int]
    size: int


Method = Callable[[Case, bytes], Shown]


def ours(case: Case, data: bytes) -> Shown:
    about = Relevance(case.request, (), _touched(case))
    excerpt = excerpt_of(case.path, data, about, Budget(PARTS_BYTES, MAP_BYTES))
    lines = {line for part in excerpt.parts for line in range(part.first, part.last + 1)}
    return Shown(frozenset(lines), sum(part.size for part in excerpt.parts) + len(excerpt.outline.encode()))


def matches(case: Case, data: bytes) -> Shown:
    """Lines with words of the request and the 15 lines around each; lines with the most words come first."""
    words = [word.lower().encode() for word in set(re.findall(r"\w{3,}", case.request))]
    lines = data.lower().split(b"\n")
    scored = [(sum(word in line for word in words), number) for number, line in enumerate(lines, 1)]
    best = sorted((-count, number) for count, number in scored if count)
    return _lines(
        data,
        (line for _, at in best for line in range(max(1, at - AROUND), min(len(lines), at + AROUND) + 1)),
    )


def _lines(data: bytes, candidates: Iterable[int]) -> Shown:
    """The first of these lines, until one exceeds the byte limit."""
    lines = data.split(b"\n")
    shown: set[int] = set()
    size = 0
    for line in candidates:
        if line in shown or line > len(lines):
            continue
        size += len(lines[line - 1]) + 1
        if size > PARTS_BYTES + MAP_BYTES:
            size -= len(lines[line - 1]) + 1
            break
        shown.add(line)
    return Shown(frozenset(shown), size)


def _touched(case: Case) -> tuple[Touched, ...]:
    """The lines that commits before the case touched, computed as in the product."""
    text = git(
        case.top, "log", "--no-merges", "--no-renames", "-p", "-U0", "--format=%x01", "-n", str(COMMITS),
        f"{case.commit}^", "--", case.path,
    )  # fmt: skip
    return tuple(
        (int(first), int(first) + max(0, int(count or 1) - 1), age)
        for age, patch in enumerate(text.split(b"\x01")[1:])
        for first, count in _NEW_LINES.findall(patch)
    )


METHODS: dict[str, Method] = {"repoagent": ours, "lines that match": matches}
Row = tuple[Case, int, dict[str, Shown], float]  # with bytes of the file and CPU seconds of repoagent


def main(arguments: Sequence[str] | None = None) -> None:
    args = options(
        "bench.large", __doc__, arguments,
        repo=([str], "a repository and the path of a large file in it", {"metavar": "PATH:FILE"}),
        cases=(10, "maximum number of requests per file"),
        seed=(1, ""),
    )  # fmt: skip
    rows: list[Row] = []
    for name in args.repo:
        top, _, path = name.rpartition(":")
        own = [_measured(case) for case in cases(Path(top), path, args.cases, args.seed)]
        rows += own
        if own:
            print(f"{path}: {len(own)} requests, {median(size for _, size, _, _ in own):,.0f} bytes")
            print(_table(own), flush=True)
    if rows:
        print(f"\nall: {len(rows)} requests, {len({row[0].path for row in rows})} files\n{_table(rows)}")
        seconds = [row[3] for row in rows]
        print(f"choosing takes {median(seconds):.2f} s of CPU (median), at most {max(seconds):.2f} s")


def _measured(case: Case) -> Row:
    data = case.data()
    started = time.process_time()
    shown = {"repoagent": METHODS["repoagent"](case, data)}
    seconds = time.process_time() - started
    shown |= {name: method(case, data) for name, method in METHODS.items() if name != "repoagent"}
    return case, len(data), shown, seconds


def _table(rows: Sequence[Row]) -> str:
    lines = ["| method | all lines | a line | tokens | x whole |", "|---|---|---|---|---|"]
    for name in METHODS:
        shares = [len(case.truth & shown[name].lines) / len(case.truth) for case, _, shown, _ in rows]
        sizes = [shown[name].size for _, _, shown, _ in rows]
        whole = mean(size / total for size, (_, total, _, _) in zip(sizes, rows, strict=True))
        lines.append(
            f"| {name} | {mean(share == 1 for share in shares):.3f} | {mean(share > 0 for share in shares):.3f} "
            f"| {mean(sizes) / 4:,.0f} | {whole:.3f} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
