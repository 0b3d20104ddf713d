"""The table of neighbors as text."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from repoagent.cli.commands.neighbors import table
from repoagent.cli.ui.table import Page, ago, bar, shorten
from repoagent.display_text import clean, display_width
from repoagent.history.cochange import Neighbor
from repoagent.history.neighbors import Neighborhood
from repoagent.history.render import CommitHeader

NOW = 1_800_000_000.0
DAY = 86_400


def neighborhood(*names: bytes) -> Neighborhood:
    reasons = ("together", "through", "name")
    rows = tuple(
        Neighbor(n, name, 0.9 / (1 + n), 3, 300, 1_799_000_000, (7,), reasons) for n, name in enumerate(names)
    )
    return Neighborhood((b"core.c",), "HEAD", "a" * 40, rows, "whole", "a note", 300, {7: "c" * 40})


TOLD = {
    "c" * 40: CommitHeader("c" * 40, "ccccccc", "Ada\x1b[2J", "2026-01-02T00:00:00Z", "Fix\n\x07it " * 30)
}


def plain(width: int | None) -> Page:
    return Page(width, color=False)


def test_how_long_ago_and_bars() -> None:
    for seconds, long, short in (
        (-5, "just now", "now"),
        (59, "just now", "now"),
        (60, "1 minute ago", "1m"),
        (7_300, "2 hours ago", "2h"),
        (13 * DAY, "13 days ago", "13d"),
        (59 * DAY, "8 weeks ago", "8w"),
        (100 * DAY, "3 months ago", "3mo"),
        (366 * DAY, "1 year ago", "1y"),
    ):
        assert (ago(seconds), ago(seconds, short=True)) == (long, short)
    bars = {0: "    ", 0.001: "▏   ", 0.4: "█▋  ", 0.5: "██  ", 1: "████", 9: "████"}  # never empty above 0
    assert {score: bar(score, 4) for score in bars} == bars


@given(st.text(max_size=60), st.integers(4, 60))
def test_a_shortened_path_fits_and_keeps_its_end(text: str, room: int) -> None:
    path = clean(text).replace("\n", "^J").replace("\t", "^I")
    short = shorten(path, room)
    assert display_width(short) <= room
    if display_width(path) <= room:
        assert short == path
    else:
        assert path.endswith(short.rpartition("…")[2])


NAME = st.one_of(
    st.binary(min_size=1, max_size=200),
    st.text(min_size=1, max_size=80).map(lambda t: t.encode("utf-8", "replace")),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(NAME, min_size=1, max_size=5), st.integers(60, 200), st.booleans())
def test_any_names_fit_any_width_and_nothing_acts_on_the_terminal(
    names: list[bytes], width: int, behind: bool
) -> None:
    text = table(neighborhood(*names), TOLD if behind else {}, plain(width), NOW)
    lines = text.split("\n")
    assert max(map(display_width, lines)) <= width
    assert text == clean(text) and "\t" not in text
    assert sum("3 of 300" in line for line in lines) == len(names)


def test_a_candidate_without_history_has_no_numbers() -> None:
    row = Neighbor(1, b"near.c", 0.02, 0, 0, None, (), ("folder",))
    result = Neighborhood((b"new.c",), "HEAD", "a" * 40, (row,), "names")
    (line,) = [line for line in table(result, {}, plain(80), NOW).split("\n") if line.startswith("near.c")]
    assert line.split()[-4:] == ["–", "–", "–", "folder"]


def test_weak_pairs_are_only_counted_by_default() -> None:
    def row(name: bytes, together: int, commits: int, score: float) -> Neighbor:
        return Neighbor(1, name, score, together, commits, 1_799_000_000, (), ("through",))

    rows = (row(b"sure.c", 9, 143, 0.4), row(b"once.c", 1, 143, 0.05), row(b"near.c", 1, 143, 0.3))
    result = Neighborhood((b"a.c",), "HEAD", "a" * 40, (*rows, row(b"few.c", 1, 9, 0.05)), "whole", "", 143)
    shown = table(result, {}, plain(80), NOW, weak=False)
    assert "once.c" not in shown
    assert all(name in shown for name in ("3 neighbors", "sure.c", "near.c", "few.c"))
    assert shown.endswith("\n1 weak pair hidden (at most one commit in common): use --weak to see it\n")
    assert "\nbar: share of best score; medium: from 20%; high: from 50%; partners: shared\n" in shown
    assert "partners" not in table(result, {}, plain(44), NOW)  # where the column `why` is dropped
    whole = table(result, {}, plain(80), NOW)
    assert "once.c" in whole and "hidden" not in whole
