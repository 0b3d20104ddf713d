"""`repoagent neighbors`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from repoagent.cli.commands.neighbors import table
from repoagent.cli.ui.table import Page, age_text, share_bar, shorten
from repoagent.display_text import display_width, sanitize
from repoagent.history.cochange import Neighbor
from repoagent.history.neighbors import Neighborhood
from repoagent.history.render import CommitHeader
from tests.cli.apply_patch import Ask, Done
from tests.cli.screens import PROGRAM, Screen
from tests.conftest import GitRepo


def rows(done: Done) -> dict[str, dict[str, Any]]:
    return {row["path"]: row for row in done.json["neighbors"]}


@pytest.fixture
def pair(repo: GitRepo) -> GitRepo:
    """`core.py` changes with its test, less often with a page, once with a stray file."""
    for number in range(4):
        repo.commit(f"pair {number}", **{"core.py": f"{number}", "tests/test_core.py": f"{number}"})
    repo.commit("page", **{"core.py": "x", "docs.md": "x"})
    return repo


def test_wrong_calls_are_one_sentence(pair: GitRepo, ask: Ask) -> None:
    (pair.top / "empty").mkdir()
    for words, sentence in (
        ("nope.py", "no such file: nope.py, and no commit touches it"),
        ("../x.py", "../x.py is outside the work tree"),
        (".", "the path is the whole work tree; name files or a folder in it"),
        ("empty", "empty contains no tracked files; name a file or folder with a history"),
        ("core.py --at nope", "no such commit: nope; name a commit, branch or tag"),
        ("core.py --at --all", "no such commit: --all; name a commit, branch or tag"),
        ("core.py --at HEAD:core.py", "no such commit: HEAD:core.py; name a commit, branch or tag"),
        ("core.py --limit 0", "'--limit': 0 is not in the range x>=1"),
        ("core.py -o no/folder/x.html", "no such folder"),
        ("core.py -o tests", "tests is a folder"),
        ("-dash", "no such option"),
        ("", "no file: name one, or use --map for the whole repository"),
        ("--map core.py", "--map cannot be combined with FILE"),
        ("--map --format svg", "--map cannot be combined with --format svg"),
        ("--map --at nope", "no such commit: nope"),
    ):
        assert sentence in ask(*words.split(), code=2).error


def test_the_table_explains_its_rows(pair: GitRepo, ask: Ask) -> None:
    done = ask("core.py", code=0)
    lines = done.out.splitlines()
    assert lines[0].endswith("neighbors of core.py (based on its last 5 commits)")
    head = next(number for number, line in enumerate(lines) if line.startswith("file"))
    assert lines[head].split() == ["file", "score", "together", "rate", "last", "why"]
    partners = {line.split()[0]: line for line in lines[head + 1 : head + 3]}
    assert "4 of 5" in partners["tests/test_core.py"] and "high" in partners["tests/test_core.py"]
    assert "1 of 5" in partners["docs.md"] and "low" in partners["docs.md"]
    assert lines[-2] == "files that changed with this file; they are worth a look, but need not change"
    assert "\x1b" not in done.out and done.err == ""
    # the commits, with authors by mailmap
    pair.commit("map", **{".mailmap": "Ada Lovelace <ada@example.com>\n"})
    lines = ask("core.py", "--explain").out.splitlines()
    start = next(place for place, line in enumerate(lines) if line.startswith("tests/test_core.py"))
    behind = lines[start + 1 : start + 5]
    short = pair.git("log", "-1", "--format=%h", "--grep=pair 3").strip()
    date = pair.git("log", "-1", "--format=%cs", "--grep=pair 3").strip()
    assert behind[0] == f"    {date} {short} Ada Lovelace: pair 3"
    assert [line.rpartition(": ")[2] for line in behind] == ["pair 3", "pair 2", "pair 1", "pair 0"]


def test_json_has_full_ids_dates_and_every_byte_of_a_name(pair: GitRepo, ask: Ask) -> None:
    odd = os.fsdecode(b'-odd \xff\n"\xc3\xb1.py')
    pair.git("config", "core.quotepath", "true")
    commit = pair.commit("odd", **{"core.py": "odd", odd: "1"})
    done = ask("core.py", "--json")
    row, result = rows(done)[odd], done.json
    assert row["evidence"] == [commit]
    assert str(row["last"]).endswith("Z") and row["together"] == 1 and row["commits"] == 6
    assert result["commit"] == commit and result["paths"] == ["core.py"] and result["commits"] == 6
    output = rows(ask("core.py", "--explain", "--json"))[odd]["evidence"]
    assert output[0]["commit"] == commit
    assert (output[0]["author"], output[0]["subject"]) == ("Ada Tester", "odd")
    assert '\n-odd <FF>^J"ñ.py ' in ask("core.py", "--weak").out
    assert "core.py" in rows(ask("--json", "--", odd))


def test_an_untracked_file_gets_candidates_by_name_that_are_marked(pair: GitRepo, ask: Ask) -> None:
    pair.write("lib/core.c", "new")
    pair.write("lib/near.c", "1")
    pair.git("add", "lib/near.c")
    pair.git("commit", "-qm", "near")
    done = ask("lib/core.c", "--json")
    assert done.json["state"] == "names" and "is not tracked yet" in done.json["note"]
    candidates = rows(done)
    assert {"core.py", "tests/test_core.py", "lib/near.c"} <= set(candidates)
    assert str(candidates["core.py"]["reasons"]).startswith("['name'")
    assert "folder" in str(candidates["lib/near.c"]["reasons"])
    assert candidates["core.py"]["together"] == 0 and candidates["core.py"]["last"] is None
    out = ask("lib/core.c").out
    assert out.startswith("no file has changed with lib/core.c (no commit touches it), ")
    assert "candidates that have never changed with this file; they are worth a look" in out


@pytest.mark.soak
def test_a_graph_is_never_written_through_a_link(pair: GitRepo, ask: Ask, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (pair.top / "out.svg").symlink_to(victim)
    assert ask("core.py", "--format", "svg", "-o", "out.svg", code=0).out == ""
    assert victim.read_text() == "mine" and not (pair.top / "out.svg").is_symlink()
    root = ElementTree.parse(pair.top / "out.svg").getroot()
    titles = [title.text or "" for title in root.iter("{http://www.w3.org/2000/svg}title")]
    assert any("Ada Tester: pair 3" in title for title in titles)
    on_stdout = ask("core.py", "--format", "svg").out
    assert on_stdout == (pair.top / "out.svg").read_text(encoding="utf-8")
    page = ask("core.py", "--format", "html").out
    assert page.startswith("<!DOCTYPE html>") and "pair 3" in page


def test_the_whole_repository_is_mapped(pair: GitRepo, ask: Ask) -> None:
    assert "written to map.html" in ask("--map", "-o", "map.html", code=0).error
    page = (pair.top / "map.html").read_text(encoding="utf-8")
    assert "What changes together in" in page and "tests/test_core.py" in page
    assert ask("--map").out == page


@pytest.mark.parametrize("words", ["--map", "core.py --format html"])
def test_on_a_terminal_a_page_opens_in_the_browser(pair: GitRepo, tmp_path: Path, words: str) -> None:
    browser, pages = tmp_path / "browser", tmp_path / "pages"
    browser.write_text(f'#!/bin/sh\necho "$1" > {tmp_path / "opened"}\n')
    browser.chmod(0o755)
    pages.mkdir()
    env = {"BROWSER": f"{browser} %s", "TMPDIR": str(pages)}
    with Screen([*PROGRAM, "neighbors", *words.split()], pair.top, width=200, env=env) as screen:
        assert screen.end() == 0
    (page,) = pages.iterdir()
    assert screen.seen.strip() == str(page)
    assert (tmp_path / "opened").read_text().strip() == page.as_uri()
    assert page.stat().st_mode & 0o777 == 0o600
    assert page.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


# The table as text.

NOW = 1_800_000_000.0
DAY = 86_400


def neighborhood(*names: bytes) -> Neighborhood:
    reasons = ("together", "through", "name")
    rows = tuple(
        Neighbor(n, name, 0.9 / (1 + n), 3, 300, 1_799_000_000, (7,), reasons) for n, name in enumerate(names)
    )
    return Neighborhood((b"core.c",), "HEAD", "a" * 40, rows, "whole", "a note", 300, {7: "c" * 40})


HEADER = CommitHeader("c" * 40, "ccccccc", "Ada\x1b[2J", "2026-01-02T00:00:00Z", "Fix\n\x07it " * 30)


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
        assert (age_text(seconds), age_text(seconds, short=True)) == (long, short)
    bars = {0: "    ", 0.001: "▏   ", 0.4: "█▋  ", 0.5: "██  ", 1: "████", 9: "████"}  # never empty above 0
    assert {score: share_bar(score, 4) for score in bars} == bars


@given(st.text(max_size=60), st.integers(4, 60))
def test_a_shortened_path_fits_and_keeps_its_end(text: str, room: int) -> None:
    path = sanitize(text).replace("\n", "^J").replace("\t", "^I")
    short = shorten(path, room)
    assert display_width(short) <= room
    if display_width(path) <= room:
        assert short == path
    else:
        assert path.endswith(short.rpartition("…")[2])


TEXT = st.text(min_size=1, max_size=80).map(lambda text: text.encode("utf-8", "replace"))
NAMES = st.lists(st.binary(min_size=1, max_size=200) | TEXT, min_size=1, max_size=5)


@settings(max_examples=60, deadline=None)
@given(NAMES, st.integers(60, 200), st.booleans())
def test_any_names_fit_and_nothing_acts_on_the_terminal(names: list[bytes], width: int, behind: bool) -> None:
    text = table(neighborhood(*names), {"c" * 40: HEADER} if behind else {}, Page(width), NOW)
    lines = text.split("\n")
    assert max(map(display_width, lines)) <= width
    assert text == sanitize(text) and "\t" not in text
    assert sum("3 of 300" in line for line in lines) == len(names)


def test_a_candidate_without_history_has_no_numbers() -> None:
    row = Neighbor(1, b"near.c", 0.02, 0, 0, None, (), ("folder",))
    result = Neighborhood((b"new.c",), "HEAD", "a" * 40, (row,), "names")
    (line,) = [line for line in table(result, {}, Page(80), NOW).split("\n") if line.startswith("near.c")]
    assert line.split()[-4:] == ["–", "–", "–", "folder"]


def test_weak_pairs_are_only_counted_by_default() -> None:
    def row(name: bytes, together: int, commits: int, score: float) -> Neighbor:
        return Neighbor(1, name, score, together, commits, 1_799_000_000, (), ("through",))

    rows = (row(b"sure.c", 9, 143, 0.4), row(b"once.c", 1, 143, 0.05), row(b"near.c", 1, 143, 0.3))
    result = Neighborhood((b"a.c",), "HEAD", "a" * 40, (*rows, row(b"few.c", 1, 9, 0.05)), "whole", "", 143)
    shown = table(result, {}, Page(80), NOW, weak=False)
    assert "once.c" not in shown
    assert all(name in shown for name in ("3 neighbors", "sure.c", "near.c", "few.c"))
    assert shown.endswith("\n1 weak pair hidden (at most one commit in common): use --weak to see it\n")
    assert "\nbar: share of best score; medium: from 20%; high: from 50%; partners: shared\n" in shown
    assert "partners" not in table(result, {}, Page(44), NOW)  # where the column `why` is dropped
    whole = table(result, {}, Page(80), NOW)
    assert "once.c" in whole and "hidden" not in whole
