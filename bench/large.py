"""Is what must change among what is shown? `python -m bench.large --repo PATH:FILE...`

Requests are the subjects of real commits to large files; the truth are the lines that they changed. Each way shows at
most as many bytes as repoagent's. Tokens (bytes / 4) are relative to the whole file.
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
from repoagent.edit.prompt.relevance import COMMITS, About, Touched

LEAST_BYTES = 64 * 1024
MOST_HUNKS, MOST_LINES = 6, 60
SHARE = 0.4  # of the lines that the commit changed are those of the file, at least
_OLD_LINES = re.compile(rb"^@@ -(\d+)(?:,(\d+))? \+\d+(?:,\d+)? @@", re.MULTILINE)
_NO_REQUEST = re.compile(r"^(merge|revert|bump|release|version|update (changelog|version))\b", re.IGNORECASE)


@dataclass(frozen=True)
class Case:
    """One request about `path` of the repository `top` as it was in `parent`; `truth` are the lines (from 1) that
    stood where the commit changed something."""

    top: Path
    path: str
    commit: str
    request: str
    truth: frozenset[int]

    def data(self) -> bytes:
        return git(self.top, "cat-file", "blob", f"{self.commit}^:{self.path}")


def cases(top: Path, path: str, limit: int, seed: int) -> list[Case]:
    """At most `limit` cases of one file, drawn at random from its last 600 commits."""
    drawn = list(_requests(top, path))
    random.Random(f"{seed} {path}").shuffle(drawn)
    found: list[Case] = []
    for commit, request in drawn:
        if len(found) == limit:
            break
        if case := _case(top, path, commit, request):
            found.append(case)
    return found


def _requests(top: Path, path: str) -> Iterator[tuple[str, str]]:
    """Commits with one parent, and their subjects, as far as these ask for something."""
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
    listed = git(top, "ls-tree", "-l", f"{commit}^", "--", path).split()
    if not listed or int(listed[3]) < LEAST_BYTES:
        return None
    diff = git(top, "diff-tree", "-p", "-U0", "--no-renames", f"{commit}^", commit, "--", path)
    hunks = [(int(start), int(count or 1)) for start, count in _OLD_LINES.findall(diff)]
    if not 0 < len(hunks) <= MOST_HUNKS:
        return None
    truth = frozenset(line for start, count in hunks for line in range(start, start + max(1, count)) if line)
    return Case(top, path, commit, request, truth) if truth else None


AROUND = 15  # lines on both sides of one that matches
_NEW_LINES = re.compile(rb"^@@ -\S+ \+(\d+)(?:,(\d+))? @@", re.MULTILINE)


@dataclass(frozen=True)
class Shown:
    """The lines that a way shows (from 1), and the bytes of all that it shows."""

    lines: frozenset[int]
    size: int


Way = Callable[[Case, bytes], Shown]


def ours(case: Case, data: bytes) -> Shown:
    about = About(case.request, (), _touched(case))
    excerpt = excerpt_of(case.path, data, about, Budget(PARTS_BYTES, MAP_BYTES))
    lines = {line for part in excerpt.parts for line in range(part.first, part.last + 1)}
    return Shown(frozenset(lines), sum(part.size for part in excerpt.parts) + len(excerpt.outline.encode()))


def matches(case: Case, data: bytes) -> Shown:
    """Lines with the words of the request and what is around them; lines with the most words of it first."""
    words = [word.lower().encode() for word in set(re.findall(r"\w{3,}", case.request))]
    lines = data.lower().split(b"\n")
    scored = [(sum(word in line for word in words), number) for number, line in enumerate(lines, 1)]
    best = sorted((-count, number) for count, number in scored if count)
    return _lines(
        data,
        (line for _, at in best for line in range(max(1, at - AROUND), min(len(lines), at + AROUND) + 1)),
    )


def _lines(data: bytes, wanted: Iterable[int]) -> Shown:
    """The first of these lines, as far as there is room."""
    lines = data.split(b"\n")
    taken: set[int] = set()
    size = 0
    for line in wanted:
        if line in taken or line > len(lines):
            continue
        size += len(lines[line - 1]) + 1
        if size > PARTS_BYTES + MAP_BYTES:
            size -= len(lines[line - 1]) + 1
            break
        taken.add(line)
    return Shown(frozenset(taken), size)


def _touched(case: Case) -> tuple[Touched, ...]:
    """As the product looks, from the commit before the case."""
    text = git(
        case.top, "log", "--no-merges", "--no-renames", "-p", "-U0", "--format=%x01", "-n", str(COMMITS),
        f"{case.commit}^", "--", case.path,
    )  # fmt: skip
    return tuple(
        (int(first), int(first) + max(0, int(count or 1) - 1), age)
        for age, patch in enumerate(text.split(b"\x01")[1:])
        for first, count in _NEW_LINES.findall(patch)
    )


WAYS: dict[str, Way] = {"repoagent": ours, "lines that match": matches}
Row = tuple[Case, int, dict[str, Shown], float]


def main(arguments: Sequence[str] | None = None) -> None:
    given = options(
        "bench.large", __doc__, arguments,
        repo=([str], "a repository and a large file of it", {"metavar": "PATH:FILE"}),
        cases=(10, "at most so many of each file"),
        seed=(1, ""),
    )  # fmt: skip
    rows: list[Row] = []
    for name in given.repo:
        top, _, path = name.rpartition(":")
        chosen = cases(Path(top), path, given.cases, given.seed)
        found = [_measured(case) for case in chosen]
        rows += found
        if found:
            print(f"{path}: {len(found)} requests, {median(size for _, size, _, _ in found):,.0f} bytes")
            print(_table(found), flush=True)
    if rows:
        print(f"\nall: {len(rows)} requests, {len({row[0].path for row in rows})} files\n{_table(rows)}")
        seconds = [row[3] for row in rows]
        print(f"choosing takes {median(seconds):.2f} s of CPU (median), at most {max(seconds):.2f} s")


def _measured(case: Case) -> Row:
    data = case.data()
    started = time.process_time()
    found = {"repoagent": WAYS["repoagent"](case, data)}
    seconds = time.process_time() - started
    found |= {name: way(case, data) for name, way in WAYS.items() if name != "repoagent"}
    return case, len(data), found, seconds


def _table(rows: Sequence[Row]) -> str:
    lines = ["| way | all lines | a line | tokens | x whole |", "|---|---|---|---|---|"]
    for name in WAYS:
        shares = [len(case.truth & found[name].lines) / len(case.truth) for case, _, found, _ in rows]
        sizes = [found[name].size for _, _, found, _ in rows]
        whole = mean(size / total for size, (_, total, _, _) in zip(sizes, rows, strict=True))
        lines.append(
            f"| {name} | {mean(share == 1 for share in shares):.3f} | {mean(share > 0 for share in shares):.3f} "
            f"| {mean(sizes) / 4:,.0f} | {whole:.3f} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
