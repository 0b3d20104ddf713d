"""The co-change score: histories by hand, names, and which candidates are looked up."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from math import log
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.cochange.history import Change, MemoryView
from repoagent.history.cochange import Alive, HistoryView, Neighbor, alike, name_stem, rank_neighbors, words
from tests.history.histories import DAY, START, history


def ask(view: MemoryView, *paths: str, limit: int = 20, min_score: float = 0.0) -> list[Neighbor]:
    names = [path.encode() for path in paths]
    files = [file for name in names if (file := view.file(name)) is not None]
    return rank_neighbors(view, files, names, limit=limit, min_score=min_score)


OTHERS = [f"w{n}/u{n}.x" for n in range(25)]  # so that the newest commits of all say nothing
BULK, FLOOD = (" ".join(f"+d{n}/f{n}.x" for n in range(count)) for count in (40, 101))
FOLDER = [f"src/f{n}.c" for n in range(30)]
CASES: dict[str, tuple[list[str], list[str], list[str]]] = {
    # commits, queried files, and the first rows: path, together of commits, reasons
    "no history": ([], ["x/a.c"], []),
    "one commit with the file alone": (["+x/a.c"], ["x/a.c"], []),
    "one commit with two files": (["+x/a.c +y/b.c"], ["x/a.c"], ["y/b.c 1 of 1 together"]),
    "all commits of the file count": (
        ["+x/a.c +y/b.c", "x/a.c", "x/a.c y/b.c", "y/b.c", "x/a.c y/b.c"], ["x/a.c"], ["y/b.c 3 of 4 together"],
    ),
    "a bulk commit weighs less": (["x/a.c y/small.h", f"x/a.c {BULK}"], ["x/a.c"], ["y/small.h 1 of 2 together"]),
    "a flood says nothing": (["+x/a.c +y/b.c", f"x/a.c {FLOOD}"], ["x/a.c"], ["y/b.c 1 of 2 together"]),
    "old habits fade": (
        ["x/a.c y/old.c"] * 6 + ["x/a.c z/new.c"] * 4, ["x/a.c"],
        ["z/new.c 4 of 10 together", "y/old.c 6 of 10 together"],
    ),
    "a partner of a partner": (
        ["y/b.c z/c.c"] * 5 + ["x/a.c y/b.c"] * 3 + OTHERS, ["x/a.c"],
        ["y/b.c 3 of 3 together", "z/c.c 0 of 3 through"],
    ),
    "a dead file leads to others": (
        ["+x/a.c +y/dead.c +z/c.c", "x/a.c y/dead.c", "-y/dead.c"], ["x/a.c"], ["z/c.c 1 of 2 together"],
    ),
    "a file that came back": (["+x/a.c +y/b.c", "-y/b.c", "+y/b.c"], ["x/a.c"], ["y/b.c 1 of 1 together"]),
    "renamed files": (
        ["+x/a.c +y/b.c", "x/a.c y/b.c", "x/a.c>p/one.c", "y/b.c>q/two.c", *OTHERS], ["p/one.c"],
        ["q/two.c 2 of 3 together"],
    ),
    "ties by path": (
        ["x/a.c z/c.q y/b.q w/d.q", *OTHERS], ["x/a.c"],
        ["w/d.q 1 of 1 together", "y/b.q 1 of 1 together", "z/c.q 1 of 1 together"],
    ),
    "a name alone": (
        ["+src/parser.c", "+tests/test_parser.py", "+src/lexer.c", "+docs/guide.md"], ["src/parser.c"],
        ["tests/test_parser.py 0 of 1 name"],
    ),
    "several files": (
        ["x/a.c y/b.c t/both.q"] * 2 + ["x/a.c k/one.w", "y/b.c m/other.v"], ["x/a.c", "y/b.c"],
        ["t/both.q 2 of 4 together"],
    ),
    "a file named twice": (["x/a.c y/b.c"], ["x/a.c", "x/a.c"], ["y/b.c 1 of 1 together"]),
    "a folder counts as one": (
        [f"{name} doc/manual.txt" for name in FOLDER] + [f"{name} x/{n}.q" for n, name in enumerate(FOLDER[:3])],
        FOLDER, ["doc/manual.txt 30 of 33 together"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_neighbors(case: str) -> None:
    commits, query, expected = CASES[case]
    rows = ask(history(*commits), *query)
    shown = [f"{r.path.decode()} {r.together} of {r.commits} {r.reasons[0]}" for r in rows]
    assert shown[: len(expected)] == expected and (rows or not expected)
    assert bool(rows) == bool(expected)


def test_evidence_and_names_for_an_untracked_file() -> None:
    (row,) = ask(history(*["x/a.c y/b.c"] * 50), "x/a.c")
    assert (row.together, row.commits, row.last) == (50, 50, START + 49 * DAY)
    assert row.evidence == tuple(range(49, 29, -1))
    view = history("+tests/test_new.py", "+src/other.py +CHANGES.md", "src/other.py CHANGES.md")
    rows = ask(view, "src/new.py")
    assert {row.path for row in rows} == {b"tests/test_new.py", b"src/other.py", b"CHANGES.md"}
    assert all(row.commits == row.together == 0 and row.last is None for row in rows)


def test_the_current_work_of_who_made_the_newest_commit_counts_more() -> None:
    """`q/l` and `q/m` changed with the file equally often; ann is at `q/l`, bob at `q/m`."""

    def scores(newest: bytes) -> dict[bytes, float]:
        view = history("+p/k +q/l +q/m", *["z/z"] * 30)
        for author, path in [(b"ann", b"q/l"), (b"bob", b"q/m"), (newest, b"z/z")]:
            view.add(Change(START, author, ((b"M", path, path),)))
        return {row.path: row.score for row in ask(view, "p/k")}

    by_ann, by_bob = scores(b"ann"), scores(b"bob")
    assert by_ann[b"q/l"] > by_bob[b"q/l"] and by_ann[b"q/m"] < by_bob[b"q/m"]


def test_a_shared_word_counts_more_for_a_file_that_changes_with_the_queried_one() -> None:
    def gain(alone: int) -> float:
        """What the word adds if the file had so many commits with a third one since."""
        sums = []
        for other in ("b/parse_it.c", "b/zeta.c"):
            view = history(f"+a/parse_x.c +{other}", *["a/parse_x.c c/third.c"] * alone)
            (row,) = (row for row in ask(view, "a/parse_x.c") if row.path == other.encode())
            sums.append(-log(1 - row.score))
        return sums[0] - sums[1]

    assert gain(0) > gain(5) > 0


@pytest.mark.parametrize("limit", [0, 1, 3])
def test_limit_and_least_score(limit: int) -> None:
    view = history("x/a.c p/b.q r/c.w s/d.v", "x/a.c p/b.q")
    every = ask(view, "x/a.c")
    assert ask(view, "x/a.c", limit=limit) == every[:limit]
    assert ask(view, "x/a.c", min_score=every[0].score) == every[:1]


MARKED = itertools.product(["", "", "+", "-"], ["a/x.c", "a/x.h", "b/test_x.c", "b/y", "z"])
WORDS = st.sampled_from([*map("".join, MARKED), "a/x.c>b/y", "b/y>z", "z>a/x.c", "a/x.h>new/x.h"])
COMMITS = st.lists(st.lists(WORDS, min_size=1, max_size=5, unique=True).map(" ".join), max_size=25)
QUERIES = st.sampled_from(["a/x.c", "a/x.h", "b/y", "z", "none/such.c"])


@settings(max_examples=150)
@given(COMMITS, st.lists(QUERIES, min_size=1, max_size=3), st.integers(0, 8))
def test_whatever_the_history(commits: list[str], query: list[str], limit: int) -> None:
    view = history(*commits)
    rows = ask(view, *query, limit=limit)
    files = {view.file(path.encode()) for path in query}
    assert len({row.file for row in rows}) == len(rows) <= limit
    assert rows == sorted(rows, key=lambda row: (-row.score, row.path)) == ask(view, *query, limit=limit)
    for row in rows:
        assert 0 <= row.score <= 1 and row.reasons
        assert row.file not in files and row.path.decode() not in query
        assert view.alive[row.file] == row.path
        assert 0 <= row.together <= row.commits and (row.last is None) == (row.together == 0)
        assert list(row.evidence) == sorted(row.evidence, reverse=True)
        assert len(row.evidence) == min(row.together, 20)
        assert all(row.file in view.full[number] for number in row.evidence)


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        (b"src/core/parser.c core/parser.h tests/test_parser.py", b"parser"),
        (b"parser_test.go spec/parser_spec.rb", b"parser"),
        (b"src/StringUtils.java test/StringUtilsTest.java test/TestStringUtils.java", b"stringutils"),
        (b"string_utils.py string-utils.js StringUtils.java", b"stringutils"),
        (b"src/foo.ts src/foo.spec.ts src/foo.test.tsx types/foo.d.ts t/t1234-foo.sh", b"foo"),
        (b"pkg/foo/__init__.py foo/index.ts foo/mod.rs tests/test_foo.py foo/index.test.ts", b"foo"),
        (b".gitignore", b"gitignore"),
        (b"a/Makefile", b"makefile"),
        (b"index.ts", b"index"),  # at the top there is no folder to name it
        (b"tests/test.js", b"test"),  # never cut to nothing
        (b"latest.py Latest.java", b"latest"),
        (b"contest.c", b"contest"),
        (b"...", b".."),
        (b"a/\xff\xfe.c", b"\xff\xfe"),
    ],
)
def test_related_files_have_one_stem(paths: bytes, expected: bytes) -> None:
    assert name_stem(b"") == b"" and {name_stem(path) for path in paths.split()} == {expected}


def test_words() -> None:
    assert words(b"src/HTTPServer/parse_url.test.py") == set(b"src http server parse url test".split())
    assert words(b"v1.2/notes") == {b"v", b"notes"}  # a dot in a folder is no extension
    assert words(b"\xff.c") == frozenset()
    candidates = {1: b"Documentation/git-fsck.txt", 2: b"builtin/log.c", 3: b"builtin/add.c", 4: b"README"}
    assert alike(b"builtin/fsck.c", candidates) == {1: 1.0, 2: 0.5, 3: 0.5}  # a rare word says more
    assert alike(b"", candidates) == {}


class _View:
    """Knows paths, and records for which files it was called."""

    def __init__(self, dead: frozenset[int]) -> None:
        self.dead, self.calls = dead, list[int]()

    def paths(self, files: Sequence[int]) -> dict[int, bytes]:
        self.calls += files
        return {file: b"%d" % file for file in files if file not in self.dead}


@given(
    st.dictionaries(st.integers(0, 400), st.sampled_from([0.1, 0.2, 0.5, 0.5, 0.9]), max_size=300),
    st.frozensets(st.integers(0, 400)),
    st.frozensets(st.integers(0, 400), max_size=3),
    st.integers(1, 90),
)
def test_the_best_that_are_alive(
    scores: dict[int, float], dead: frozenset[int], excluded: frozenset[int], count: int
) -> None:
    view = _View(dead)
    best = Alive(cast(HistoryView, view)).best(scores, count, {b"%d" % file for file in excluded})
    everything = sorted(scores.keys() - dead - excluded, key=lambda file: (-scores[file], file))
    assert list(best) == everything[: len(best)]
    left = everything[len(best) :]
    assert not left or (len(best) >= count and scores[left[0]] < scores[everything[count - 1]])
    assert len(view.calls) == len(set(view.calls))
    # those that cannot be among the best are not looked up
    view = _View(frozenset())
    Alive(cast(HistoryView, view)).best({file: 1 / (1 + file) for file in range(5000)}, 12)
    assert len(view.calls) < 100
