"""`repoagent activity` lists what was really done."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from repoagent.cli.ui.terminal import write_to
from repoagent.errors import UsageError
from repoagent.storage import json_files
from tests.cli.screens import PROGRAM, Screen
from tests.conftest import GitRepo
from tests.edit.conftest import Run, Script, run, script

__all__ = ["run", "script"]


NAME = "<commit>Say hello\n</commit>\n```diff\n--- a/src/app.py\n+++ b/src/app.py\n@@ -1 +1 @@\n-x = 1\n+x = 2\n```\n"
LOST = "```diff\n--- a/src/app.py\n+++ b/src/app.py\n@@ -1 +1 @@\n-never there\n+x = 2\n```\n"


@pytest.fixture(autouse=True)
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def remember(repo: GitRepo, record: dict[str, object], name: str = "odd-1") -> None:
    """Write an edit into the memory of a file, with what a record must have."""
    memory = repo.top / ".repoagent/memory" / name
    memory.mkdir(parents=True, exist_ok=True)
    usual = {"version": 1, "id": "a", "time": "2026-01-02T03:04:05+00:00", "path": "a.txt", "request": "x"}
    blobs = {"source_blob": "a", "result_blob": "b"}
    json_files.append_record(memory / "edits.jsonl", {**usual, **blobs, **record})


def listed(run: Run) -> dict[str, Any]:
    return run("activity", "--json", "--since", "ever", code=0).json


@pytest.mark.soak
def test_edit_refusal_undo_and_redo(repo: GitRepo, run: Run, script: Script) -> None:
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
    assert [row["reason"] for row in found["refused"]] == ["deleted-line-missing"]
    table = run("activity").out
    assert "1 applied, 1 refused, 1 undone; 5 calls" in table
    assert "say <b>hello</b> (src/app.py)" in table and "not applied: deleted-line-missing 1" in table


def prepare(repo: GitRepo, script: Script) -> None:
    """Two files, and a reply that changes one of them."""
    repo.commit("files", **{"src/app.py": "x = 1\n", "b.txt": "b\n"})
    script.replies(NAME)


def test_broken_lines_and_hostile_names_do_no_harm(repo: GitRepo, run: Run) -> None:
    hostile = "</table><script>x\x1b[2J"
    remember(repo, {"path": hostile, "request": "a\nb", "source_blob": "", "state": "</script>"})
    edits = repo.top / ".repoagent/memory/odd-1/edits.jsonl"
    edits.write_bytes(b'no json\n{"version": 99}\n[1]\n{"version": 1, "id": 3}\n' + edits.read_bytes())
    done = run("activity", "--since", "ever")
    assert done.code == 0 and "\x1b[2J" not in done.out and "broken line" in done.err


def test_each_undo_and_redo_counts_however_soon_it_follows(repo: GitRepo, run: Run) -> None:
    """Each memory, and the list of the work tree, has all of them, some seconds apart."""
    states = ("committed", "undone", "redone", "undone")
    for late, name in enumerate(("a.txt", "b.txt")):
        for second, state in enumerate(states, 57 + late):
            time = f"2026-01-02T03:{4 + second // 60:02}:{second % 60:02}+00:00"
            edit = {"id": "e1", "path": name, "time": time, "state": state}
            remember(repo, {**edit, "usage": {"input": 7}, "cost": 0.1}, name=f"odd-{late}")
    found = listed(run)
    assert [event["kind"] for event in found["events"]] == ["edit", "undo", "redo", "undo"]
    assert [event["tokens"] for event in found["events"]] == [7, 0, 0, 0]
    assert all(event["files"] == ["a.txt", "b.txt"] for event in found["events"])
    assert "1 applied, 2 undone; no model calls" in run("activity", "--since", "ever").out


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
    assert "1 applied, 0 undone; 1 call," in run("activity").out
    assert run("activity", "--cost", "--here", "--json").json["rows"][0]["calls"] == 1
    repo.git("init", "-q", str(tmp_path / "other"))
    assert run("-C", str(tmp_path / "other"), "activity").code == 1


def test_a_terminal_has_colors_and_lines_that_fit(repo: GitRepo, run: Run) -> None:
    states = ("committed", "undone", "redone", "refused", "answered")
    for number, state in enumerate(states):
        event = {"id": "a" if number < 3 else state, "time": f"2026-01-02T03:04:0{number}+00:00"}
        remember(repo, {**event, "request": "say it " * 20, "state": state})
    command = [*PROGRAM, "--no-pager", "activity", "--since", "ever"]
    with Screen(command, repo.top, width=60) as screen:
        assert screen.end() == 0
    assert all(style in screen.seen for style in ("32mcommitted", "34mundone", "33mrefused", "36manswered"))
    plain = re.sub(r"\x1b\[[0-9;]*m", "", screen.seen)
    assert max(map(len, plain.splitlines())) <= 60 and "no model calls" in plain


def test_a_page_goes_where_it_is_sent(tmp_path: Path) -> None:
    write_to(tmp_path / "new", b"1")
    (tmp_path / "link").symlink_to("new")
    write_to(tmp_path / "link", b"2")
    assert not (tmp_path / "link").is_symlink() and (tmp_path / "new").read_bytes() == b"1"
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    write_to(tmp_path / "pipe", b"3")
    assert os.read(reader, 9) == b"3" and (tmp_path / "pipe").is_fifo()
    os.close(reader)
    with (tmp_path / "open").open("wb") as file:
        write_to(Path(f"/dev/fd/{file.fileno()}"), b"4")
    assert (tmp_path / "open").read_bytes() == b"4"
    for bad in (tmp_path, tmp_path / "none" / "new"):
        with pytest.raises(UsageError, match="-o"):
            write_to(bad, b"4")
    assert not (tmp_path / "none").exists()


def test_reviews_and_runs_are_listed(repo: GitRepo, run: Run) -> None:
    """Runs with what they cost; malformed ones are left out."""
    reviews = repo.top / ".repoagent/reviews/log.jsonl"
    reviews.parent.mkdir(parents=True)
    review = {"time": "2026-11-02T03:04:05+00:00", "title": "the staged change", "warnings": 2, "errors": 1}
    json_files.append_record(reviews, {"version": 1, **review})
    task = {
        "version": 1, "started": "2026-11-22T10:00:00+00:00", "ended": "2026-11-22T10:01:00+00:00", "state": "limit",
        "prompt": "make <b>it</b>", "model": "m", "tokens": 1200, "cost": 0.25, "commits": ["a" * 40],
    }  # fmt: skip
    broken = {"broken": "{", "newer": '{"version": 2}', "odd": '{"version": 1, "started": 7}'}
    for name, text in {"task": json.dumps(task), **broken}.items():
        repo.write(f".repoagent/runs/{name}/run.json", text)
    events = {event["kind"]: event for event in listed(run)["events"]}
    assert events.keys() == {"review", "run"}
    assert (events["review"]["what"], events["review"]["findings"]) == ("the staged change", 3)
    event = events["run"]
    assert (event["id"], event["state"], event["cost"], event["commit"]) == ("task", "limit", 0.25, "a" * 40)
    table = run("activity", "--since", "ever").out
    assert "run limit" in table and "make <b>it</b>" in table and "$0.2500" in table
    assert "1 review with findings, 1 run;" in table


def test_wrong_options_and_no_activity(repo: GitRepo, run: Run) -> None:
    for arguments, sentence in (
        (["--by", "model"], "--by and --here need --cost"),
        (["--here"], "--by and --here need --cost"),
        (["--cost", "-n", "3"], "--cost cannot be combined with --limit"),
        (["--since", "yesterday"], "--since yesterday: use a date such as 2026-11-30, today, 7d or ever"),
    ):
        done = run("activity", *arguments)
        assert (done.code, done.err) == (2, f"repoagent: {sentence}\n")
    done = run("activity")
    assert (done.code, done.out) == (1, "") and "no activity since" in done.err
