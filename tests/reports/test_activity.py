"""`repoagent activity`: what was really done is what it lists, and its page holds no markup but its own."""

from __future__ import annotations

import json
import os
import re
from datetime import date
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from repoagent.cli.ui.terminal import write_to
from repoagent.errors import UsageError
from repoagent.reports.activity import Sum, spans
from repoagent.reports.activity_html import Bar, bars
from repoagent.storage import json_files
from tests.browser import needs_browser, rendered
from tests.cli.screens import PROGRAM, Screen
from tests.conftest import GitRepo
from tests.edit.conftest import Run, Script, run, script

__all__ = ["run", "script"]


NAME = "<commit>Say hello\n</commit>\n```diff\n--- a/src/app.py\n+++ b/src/app.py\n@@ -1 +1 @@\n-x = 1\n+x = 2\n```\n"
LOST = "```diff\n--- a/src/app.py\n+++ b/src/app.py\n@@ -1 +1 @@\n-never there\n+x = 2\n```\n"


@pytest.fixture(autouse=True)
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "repoagent" / "spent"


def remember(repo: GitRepo, *records: dict[str, object], name: str = "odd-1") -> None:
    """Write edits into the memory of a file, each with what a record must have."""
    memory = repo.top / ".repoagent/memory" / name
    memory.mkdir(parents=True)
    usual = {"version": 1, "id": "a", "time": "2026-01-02T03:04:05+00:00", "path": "a.txt", "request": "x"}
    for record in records:
        blobs = {"source_blob": "a", "result_blob": "b"}
        json_files.append_record(memory / "edits.jsonl", {**usual, **blobs, **record})


def listed(run: Run, *args: str) -> dict[str, Any]:
    done = run("activity", "--json", "--since", "ever", *args)
    assert done.code == 0, done.err
    return done.json


@pytest.mark.soak
def test_nothing_was_done(repo: GitRepo, run: Run) -> None:
    repo.commit(a="1")
    done = run("activity")
    assert (done.code, done.out) == (1, "")
    assert "no activity since" in done.err
    done = run("activity", "--html", "page.html")
    assert done.code == 1 and "Nothing yet" in (repo.top / "page.html").read_text()


@pytest.mark.parametrize(
    "args", [("--since", "yesterday"), ("--limit", "0"), ("--json", "--html", "x")], ids=" ".join
)
def test_bad_options(repo: GitRepo, run: Run, args: tuple[str, ...]) -> None:
    done = run("activity", *args)
    assert done.code == 2 and args[0] in done.err + done.out


@pytest.mark.soak
def test_edit_refusal_undo_and_redo(repo: GitRepo, run: Run, script: Script, ledger: Path) -> None:
    prepare(repo, script)
    assert run("edit", "src/app.py", "say <b>hello</b>", "--yes").code == 0
    assert run("undo").code == 0
    script.replies(*[LOST] * 4)
    assert run("edit", "src/app.py", "never", "--yes").code == 3
    found = listed(run)
    kinds = [(event["kind"], event["state"]) for event in found["events"]]
    assert sorted(kinds) == [("edit", "committed"), ("edit", "refused"), ("undo", "undone")]
    done = next(event for event in found["events"] if event["state"] == "committed")
    assert done["what"] == "say <b>hello</b>" and done["files"] == ["src/app.py"] and done["commit"]
    assert [one["reason"] for one in found["refused"]] == ["deleted-line-missing"]
    (day,) = found["days"]
    assert (day["applied"], day["refused"], day["undone"], day["calls"]) == (1, 1, 1, 5)
    assert [one["name"] for one in found["files"]] == ["src/app.py"]
    table = run("activity").out
    assert "say <b>hello</b> (src/app.py)" in table and "not applied: deleted-line-missing 1" in table
    page = run("activity", "--html", "-").out
    assert (
        "say &lt;b&gt;hello&lt;/b&gt;" in page and "<b>hello" not in page and "deleted-line-missing" in page
    )


def prepare(repo: GitRepo, script: Script) -> None:
    """Two files, and a reply that changes one of them."""
    repo.commit("files", **{"src/app.py": "x = 1\n", "b.txt": "b\n"})
    script.replies(NAME)


@pytest.mark.soak
def test_an_edit_without_a_memory_is_listed_too(repo: GitRepo, run: Run, script: Script) -> None:
    prepare(repo, script)
    assert run("edit", "src/app.py", "hello", "--yes", env={"REPOAGENT_MEMORY__ENABLED": "false"}).code == 0
    (event,) = listed(run)["events"]
    seen = (event["kind"], event["state"], event["files"], event["what"])
    assert seen == ("edit", "committed", ["src/app.py"], "")


def test_broken_lines_and_hostile_names_do_no_harm(repo: GitRepo, run: Run) -> None:
    hostile = "</table><script>x\x1b[2J"
    remember(
        repo, {"path": hostile, "request": "a\nb", "source_blob": "", "result_blob": "", "state": "</script>"}
    )
    edits = repo.top / ".repoagent/memory/odd-1/edits.jsonl"
    edits.write_bytes(b'no json\n{"version": 99}\n[1]\n{"version": 1, "id": 3}\n' + edits.read_bytes())
    done = run("activity", "--since", "ever")
    assert done.code == 0 and "\x1b[2J" not in done.out and "broken line" in done.err
    tags: list[str] = []

    class Reader(HTMLParser):
        def handle_starttag(self, tag: str, attrs: object) -> None:
            tags.append(tag)

    Reader().feed(run("activity", "--since", "ever", "--html", "-").out)
    assert "script" not in tags and tags.count("table") == tags.count("tbody")


def test_reviews_are_listed(repo: GitRepo, run: Run) -> None:
    path = repo.top / ".repoagent/reviews/log.jsonl"
    path.parent.mkdir(parents=True)
    line = {"version": 1, "time": "2026-11-02T03:04:05+00:00", "title": "the staged change"}
    line |= {"warnings": 2, "errors": 1}
    json_files.append_record(path, line)
    (event,) = listed(run)["events"]
    assert (event["kind"], event["what"], event["findings"]) == ("review", "the staged change", 3)


def test_each_undo_and_redo_counts_however_soon_it_follows(repo: GitRepo, run: Run) -> None:
    """Each memory, and the list of the work tree, has all of them, some seconds apart."""
    states = ("committed", "undone", "redone", "undone")
    for late, name in enumerate(("a.txt", "b.txt")):
        seconds = [57 + late + number for number in range(4)]
        times = [f"2026-01-02T03:{4 + second // 60:02}:{second % 60:02}+00:00" for second in seconds]
        usual: dict[str, object] = {"id": "e1", "path": name, "usage": {"input": 7}, "cost": 0.1}
        records = [{**usual, "time": time, "state": state} for time, state in zip(times, states, strict=True)]
        remember(repo, *records, name=f"odd-{late}")
    found = listed(run)
    assert [event["kind"] for event in found["events"]] == ["edit", "undo", "redo", "undo"]
    assert [event["tokens"] for event in found["events"]] == [7, 0, 0, 0]
    assert all(event["files"] == ["a.txt", "b.txt"] for event in found["events"])
    assert found["days"][0]["undone"] == 2


@pytest.mark.soak
def test_all_work_trees_of_a_repository_count_and_others_do_not(
    repo: GitRepo, run: Run, script: Script, tmp_path: Path
) -> None:
    prepare(repo, script)
    repo.git("worktree", "add", "-q", "-b", "side", str(tmp_path / "linked tree"))
    env = {"REPOAGENT_MEMORY__ENABLED": "false"}
    linked = ("-C", str(tmp_path / "linked tree"))
    assert run(*linked, "edit", "src/app.py", "b.txt", "hello", "--yes", env=env).code == 0
    for found in (listed(run), run(*linked, "activity", "--json").json):
        assert [event["files"] for event in found["events"]] == [["src/app.py"]]
        assert found["days"][0]["calls"] == 1
        assert [(one["applied"], one["calls"]) for one in found["models"]] == [(0, 1)]
    assert run("activity", "--cost", "--here", "--json").json["rows"][0]["calls"] == 1
    (tmp_path / "other").mkdir()
    GitRepo(tmp_path / "other").git("init", "-q")
    assert run("-C", str(tmp_path / "other"), "activity").code == 1


@pytest.mark.soak
def test_spending_before_the_repository_was_moved_counts(
    repo: GitRepo, run: Run, script: Script, tmp_path: Path
) -> None:
    prepare(repo, script)
    assert run("edit", "src/app.py", "b.txt", "hello", "--yes").code == 0
    repo.top.rename(tmp_path / "moved")
    repo.top.mkdir()
    found = run("-C", str(tmp_path / "moved"), "activity", "--json").json
    assert found["days"][0]["calls"] == 1
    assert [event["files"] for event in found["events"]] == [["src/app.py"]]  # b.txt stayed as it was
    assert [(one["applied"], one["calls"]) for one in found["models"]] == [(1, 1)]


def test_names_that_no_file_can_have(repo: GitRepo, run: Run) -> None:
    paths = ("a" * 400, "nul\0", "\u202eyp.live")
    remember(repo, *({"id": str(number), "path": path} for number, path in enumerate(paths)))
    done = run("activity", "--since", "ever", "--html", "-")
    assert done.code == 0 and "<U+202E>".replace("<", "&lt;").replace(">", "&gt;") in done.out


def test_a_terminal_has_colors_and_lines_that_fit(repo: GitRepo, run: Run) -> None:
    states = ("committed", "undone", "redone", "refused", "answered")
    remember(
        repo,
        *(
            {
                "id": "a" if number < 3 else state,
                "time": f"2026-01-02T03:04:0{number}+00:00",
                "request": "say it " * 20,
                "state": state,
            }
            for number, state in enumerate(states)
        ),
    )
    command = [*PROGRAM, "--no-pager", "activity", "--since", "ever"]
    with Screen(command, repo.top, width=60) as screen:
        assert screen.end() == 0
    assert all(style in screen.seen for style in ("32mcommitted", "34mundone", "33mrefused", "36manswered"))
    plain = re.sub(r"\x1b\[[0-9;]*m", "", screen.seen)
    assert max(map(len, plain.splitlines())) <= 60 and "no model calls" in plain


def test_a_long_time_is_shown_by_week_and_by_month() -> None:
    days = [Sum(f"{date.fromordinal(730000 + number)}", applied=1, cost=0.5) for number in range(60)]
    assert spans(days) == ("day", days)
    more = [Sum(f"{date.fromordinal(730000 + number)}", applied=1, cost=0.5) for number in range(365)]
    unit, weeks = spans(more)
    assert unit == "week" and sum(one.applied for one in weeks) == 365 and 53 <= len(weeks) <= 54
    assert all(date.fromisoformat(one.name).weekday() == 0 for one in weeks)
    unit, months = spans(more * 2)
    assert unit == "month" and sum(one.cost for one in months) == 365 and len(months) == 13


def test_a_page_goes_where_it_is_sent(tmp_path: Path) -> None:
    write_to(tmp_path / "new.html", b"1", "--html", private=True)
    (tmp_path / "link").symlink_to("new.html")
    write_to(tmp_path / "link", b"2", "--html")
    assert not (tmp_path / "link").is_symlink() and (tmp_path / "new.html").read_bytes() == b"1"
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    write_to(tmp_path / "pipe", b"3", "--html")
    assert os.read(reader, 9) == b"3" and (tmp_path / "pipe").is_fifo()
    os.close(reader)
    with (tmp_path / "open").open("wb") as file:
        write_to(Path(f"/dev/fd/{file.fileno()}"), b"4", "--html")
    assert (tmp_path / "open").read_bytes() == b"4"
    for bad in (tmp_path, tmp_path / "none" / "new.html"):
        with pytest.raises(UsageError, match="--html"):
            write_to(bad, b"4", "--html")
    assert not (tmp_path / "none").exists()


def test_a_chart_reaches_from_zero_to_its_highest_column() -> None:
    svg = bars(["a", "b"], [[Bar("x", 3, "three")], [Bar("x", 1, "one"), Bar("y", 3, "more")]], "t")
    assert ">4</text>" in svg and "b: one, more" in svg
    money = bars(["a"], [[Bar("x", 0.13, "spent")]], "t", money=True)
    assert ">$0.20</text>" in money and ">$0.10</text>" in money
    assert bars([], [], "nothing").startswith("<svg")


def test_runs_are_listed_with_what_they_cost(repo: GitRepo, run: Run) -> None:
    home = repo.top / ".repoagent" / "runs" / "task"
    home.mkdir(parents=True)
    told = {
        "version": 1, "started": "2026-11-22T10:00:00+00:00", "ended": "2026-11-22T10:01:00+00:00", "state": "limit",
        "prompt": "make <b>it</b>", "model": "m", "tokens": 1200, "cost": 0.25, "commits": ["a" * 40],
    }  # fmt: skip
    (home / "run.json").write_text(json.dumps(told))
    for name, text in (("broken", "{"), ("newer", '{"version": 2}'), ("odd", '{"version": 1, "started": 7}')):
        (home.parent / name).mkdir()
        (home.parent / name / "run.json").write_text(text)
    found = listed(run)
    (event,) = found["events"]
    assert (event["kind"], event["id"], event["state"], event["cost"]) == ("run", "task", "limit", 0.25)
    assert event["commit"] == "a" * 40 and found["days"][0]["runs"] == 1
    table = run("activity", "--since", "ever").out
    assert "run limit" in table and "make <b>it</b>" in table and "$0.2500" in table and "1 run;" in table
    page = run("activity", "--since", "ever", "--html", "-").out
    assert "make &lt;b&gt;it" in page and "run limit" in page


def test_options_of_cost_need_it(repo: GitRepo, run: Run) -> None:
    for arguments, sentence in (
        (["--by", "model"], "--by and --here need --cost"),
        (["--here"], "--by and --here need --cost"),
        (["--cost", "--html", "x.html"], "--cost cannot be combined with --html or --limit"),
        (["--cost", "-n", "3"], "--cost cannot be combined with --html or --limit"),
    ):
        done = run("activity", *arguments)
        assert (done.code, done.err) == (2, f"repoagent: {sentence}\n")
    assert not (repo.top / "x.html").exists()


@needs_browser
def test_a_browser_shows_the_page_without_scrolling_sideways(
    repo: GitRepo, run: Run, script: Script, tmp_path: Path
) -> None:
    prepare(repo, script)
    assert run("edit", "src/app.py", "say hello " * 30, "--yes").code == 0
    page = run("activity", "--html", "-").out
    text = re.sub(r"<meta http-equiv[^>]*>", "", page)  # else it would refuse the test's script
    measure = "document.title = [document.documentElement.scrollWidth <= innerWidth, document.body.innerText.includes('src/app.py')]"
    (tmp_path / "page.html").write_text(
        text.replace("</body>", f"<script>{measure}</script></body>"), "utf-8"
    )
    for width in (500, 1200):
        assert "<title>true,true</title>" in rendered(tmp_path / "page.html", width=width), width
