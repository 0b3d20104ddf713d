"""Small histories by hand. A commit is written "a b c": it changes these files; "+a" adds, "-a" deletes, "a>b" renames."""

from __future__ import annotations

import itertools
from math import log

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.cochange.history import Change, MemoryView
from repoagent.history.cochange.score import Neighbor, neighbors

START = 1_700_000_000


def history(*commits: str) -> MemoryView:
    view = MemoryView()
    for number, commit in enumerate(commits):
        view.add(Change(START + number * 1000, b"one@example.com", tuple(map(_entry, commit.split()))))
    return view


def _entry(text: str) -> tuple[bytes, bytes, bytes]:
    if ">" in text:
        before, _, after = text.partition(">")
        return b"R", before.encode(), after.encode()
    letter, path = (text[0], text[1:]) if text[0] in "+-" else ("M", text)
    return {"+": b"A", "-": b"D", "M": b"M"}[letter], path.encode(), path.encode()


def ask(view: MemoryView, *paths: str, limit: int = 20, min_score: float = 0.0) -> list[Neighbor]:
    names = [path.encode() for path in paths]
    files = [file for name in names if (file := view.file(name)) is not None]
    return neighbors(view, files, names, limit=limit, min_score=min_score)


def order(found: list[Neighbor]) -> list[str]:
    return [row.path.decode() for row in found]


def test_nothing_is_known_of_an_empty_history() -> None:
    assert ask(history(), "x/a.c") == []


def test_one_commit_with_the_file_alone() -> None:
    assert ask(history("+x/a.c"), "x/a.c") == []


def test_one_commit_with_two_files() -> None:
    (row,) = ask(history("+x/a.c +y/b.c"), "x/a.c")
    assert (row.path, row.together, row.commits, row.last, row.evidence) == (b"y/b.c", 1, 1, START, (0,))
    assert row.reasons[0] == "together"
    assert 0 < row.score <= 1


def test_evidence_is_counted_over_all_commits_of_the_file_newest_first() -> None:
    view = history("+x/a.c +y/b.c", "x/a.c", "x/a.c y/b.c", "y/b.c", "x/a.c y/b.c")
    (row,) = ask(view, "x/a.c")
    assert (row.together, row.commits, row.evidence, row.last) == (3, 4, (4, 2, 0), START + 4000)


def test_at_most_20_commits_are_evidence() -> None:
    (row,) = ask(history(*["x/a.c y/b.c"] * 50), "x/a.c")
    assert (row.together, row.commits) == (50, 50)
    assert row.evidence == tuple(range(49, 29, -1))


def test_a_bulk_commit_weighs_less() -> None:
    bulk = " ".join(f"d{n}/f{n}.x" for n in range(40))
    view = history("x/a.c y/small.h", f"x/a.c {bulk}")
    assert order(ask(view, "x/a.c"))[0] == "y/small.h"


def test_a_commit_of_more_than_100_files_says_nothing_but_is_counted() -> None:
    flood = " ".join(f"+d{n}/f{n}.x" for n in range(101))
    view = history("+x/a.c +y/b.c", f"x/a.c {flood}")
    (row,) = ask(view, "x/a.c")
    assert (row.path, row.together, row.commits) == (b"y/b.c", 1, 2)


def test_old_habits_fade() -> None:
    view = history(*["x/a.c y/old.c"] * 6, *["x/a.c z/new.c"] * 4)
    old, new = (
        next(row for row in ask(view, "x/a.c") if row.path == path) for path in (b"y/old.c", b"z/new.c")
    )
    assert new.score > old.score
    assert old.together > new.together


def test_a_partner_of_a_partner_is_found() -> None:
    view = history(*["y/b.c z/c.c"] * 5, *["x/a.c y/b.c"] * 3, *[f"w{n}/u{n}.x" for n in range(25)])
    rows = ask(view, "x/a.c")
    assert order(rows) == ["y/b.c", "z/c.c"]
    assert (rows[1].together, rows[1].last, rows[1].evidence, rows[1].reasons) == (0, None, (), ("through",))


def test_dead_files_are_never_named_but_lead_to_none() -> None:
    view = history("+x/a.c +y/dead.c +z/c.c", "x/a.c y/dead.c", "-y/dead.c")
    assert order(ask(view, "x/a.c")) == ["z/c.c"]


def test_a_file_that_came_back_is_named() -> None:
    view = history("+x/a.c +y/b.c", "-y/b.c", "+y/b.c")
    assert order(ask(view, "x/a.c")) == ["y/b.c"]


def test_renamed_files_keep_their_partners_and_old_names_are_not_named() -> None:
    view = history(
        "+x/a.c +y/b.c", "x/a.c y/b.c", "x/a.c>p/one.c", "y/b.c>q/two.c", *[f"w{n}/u{n}.x" for n in range(25)]
    )
    (row,) = ask(view, "p/one.c")
    assert (row.path, row.together, row.commits) == (b"q/two.c", 2, 3)


def test_ties_go_by_path() -> None:
    view = history("x/a.c z/c.q y/b.q w/d.q", *[f"u{n}/v{n}.x" for n in range(25)])
    rows = ask(view, "x/a.c")
    assert len({row.score for row in rows}) == 1
    assert order(rows) == ["w/d.q", "y/b.q", "z/c.q"]


def test_the_same_name_counts_for_a_file_that_never_changed_with_it() -> None:
    view = history("+src/parser.c", "+tests/test_parser.py", "+src/lexer.c", "+docs/guide.md")
    rows = ask(view, "src/parser.c")
    assert order(rows)[0] == "tests/test_parser.py"
    assert rows[0].reasons[0] == "name"
    assert rows[0].together == 0


def test_an_untracked_file_is_answered_by_names_and_folders() -> None:
    view = history(
        "+tests/test_new.py", "+src/other.py +CHANGES.md", "src/other.py CHANGES.md", "+far/away.txt"
    )
    rows = ask(view, "src/new.py")
    assert {"tests/test_new.py", "src/other.py", "CHANGES.md"} <= set(order(rows))
    assert all(row.commits == row.together == 0 and row.last is None for row in rows)
    assert b"src/new.py" not in {row.path for row in rows}


def test_several_files_are_asked_together() -> None:
    view = history("x/a.c y/b.c t/both.q", "x/a.c y/b.c t/both.q", "x/a.c k/one.w", "y/b.c m/other.v")
    rows = ask(view, "x/a.c", "y/b.c")
    assert order(rows)[0] == "t/both.q"
    assert not {"x/a.c", "y/b.c"} & set(order(rows))
    assert (rows[0].together, rows[0].commits) == (2, 4)


def test_a_folder_of_many_files_counts_as_one() -> None:
    inside = [f"src/f{n}.c" for n in range(30)]
    view = history(
        *[f"{name} doc/manual.txt" for name in inside],
        *[f"{name} x/{n}.q" for n, name in enumerate(inside[:3])],
    )
    rows = ask(view, *inside)
    assert rows[0].path == b"doc/manual.txt"
    assert (rows[0].together, rows[0].commits) == (30, 33)


def test_the_current_work_of_who_made_the_newest_commit_counts_more() -> None:
    """`q/l` and `q/m` changed with the file equally often; ann is at `q/l`, bob at `q/m`."""

    def scores(newest: bytes) -> dict[bytes, float]:
        view = history("+p/k +q/l +q/m", *["z/z"] * 30)
        for author, path in [(b"ann", b"q/l"), (b"bob", b"q/m"), (newest, b"z/z")]:
            view.add(Change(START, author, ((b"M", path, path),)))
        files = [file for file in [view.file(b"p/k")] if file is not None]
        return {row.path: row.score for row in neighbors(view, files, [b"p/k"])}

    by_ann, by_bob = scores(b"ann"), scores(b"bob")
    assert by_ann[b"q/l"] > by_bob[b"q/l"]
    assert by_ann[b"q/m"] < by_bob[b"q/m"]


def test_a_shared_word_counts_more_for_a_file_that_changes_with_the_asked_one() -> None:
    def gain(alone: int) -> float:
        """What the word adds where the asked file had so many commits with a third one since."""
        sums = []
        for other in ("b/parse_it.c", "b/zeta.c"):
            view = history(f"+a/parse_x.c +{other}", *["a/parse_x.c c/third.c"] * alone)
            (found,) = (row for row in ask(view, "a/parse_x.c") if row.path == other.encode())
            sums.append(-log(1 - found.score))
        return sums[0] - sums[1]

    assert gain(0) > gain(5) > 0


def test_a_file_named_twice_is_one() -> None:
    view = history("x/a.c y/b.c", "x/a.c z/c.c")
    assert ask(view, "x/a.c", "x/a.c") == ask(view, "x/a.c")


@pytest.mark.parametrize("limit", [0, 1, 3])
def test_limit_and_least_score(limit: int) -> None:
    view = history("x/a.c p/b.q r/c.w s/d.v", "x/a.c p/b.q")
    every = ask(view, "x/a.c")
    assert ask(view, "x/a.c", limit=limit) == every[:limit]
    assert ask(view, "x/a.c", min_score=every[0].score) == every[:1]


COMMITS = st.lists(
    st.lists(
        st.sampled_from([f"{mark}{path}" for mark, path in itertools.product(["", "", "+", "-"], ["a/x.c", "a/x.h", "b/test_x.c", "b/y", "z"])]
                        + ["a/x.c>b/y", "b/y>z", "z>a/x.c", "a/x.h>new/x.h"]),
        min_size=1, max_size=5, unique=True,
    ).map(" ".join),
    max_size=25,
)  # fmt: skip


@settings(max_examples=150)
@given(
    COMMITS,
    st.lists(st.sampled_from(["a/x.c", "a/x.h", "b/y", "z", "none/such.c"]), min_size=1, max_size=3),
    st.integers(0, 8),
)
def test_whatever_the_history(commits: list[str], asked: list[str], limit: int) -> None:
    view = history(*commits)
    rows = ask(view, *asked, limit=limit)
    files = {view.file(path.encode()) for path in asked}
    assert len(rows) <= limit
    assert len({row.file for row in rows}) == len(rows)
    assert rows == sorted(rows, key=lambda row: (-row.score, row.path))
    assert rows == ask(view, *asked, limit=limit)
    for row in rows:
        assert 0 <= row.score <= 1
        assert row.file not in files
        assert row.path.decode() not in asked
        assert view.alive[row.file] == row.path
        assert 0 <= row.together <= row.commits
        assert (row.last is None) == (row.together == 0)
        assert list(row.evidence) == sorted(row.evidence, reverse=True)
        assert len(row.evidence) == min(row.together, 20)
        assert row.reasons
        assert all(row.file in view.full[number] for number in row.evidence)
