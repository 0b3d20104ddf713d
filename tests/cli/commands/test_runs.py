"""`repoagent runs`: the list fits and is sanitized, and requests reach the run."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from repoagent.cli.commands.runs import table_lines
from repoagent.cli.ui.table import Page
from repoagent.display_text import display_width
from repoagent.llm.conversation import Turn, append_turns
from repoagent.storage.layout import Layout
from repoagent.tasks.runs import list as run_list
from repoagent.tasks.runs.directory import RunDirectory, RunRecord
from tests.cli.apply_patch import Ask
from tests.cli.screens import PROGRAM, Screen, python
from tests.conftest import GitRepo
from tests.edit.conftest import GREET, Run, Script

ALIVE = """
import sys
from pathlib import Path
from repoagent.cli import listen
from repoagent.llm.model import Usage
from repoagent.storage.layout import Layout
from repoagent.tasks.runs.control import live_run
from repoagent.tasks.runs.directory import RunRecord, RunDirectory as Home
listen()
top = Path(sys.argv[1])
with live_run(Home(Layout(top / ".repoagent", top / ".git"), "alive"), RunRecord("work on it")) as live:
    live.turn(turns=3, activity="runs make test", usage=Usage(1000, 200), cost=0.5)
    print("alive", flush=True)
    for line in sys.stdin:
        print([*live.control().values()], flush=True)
    live.ended("limit", "the limit of $2")
"""


@pytest.fixture
def layout(repo: GitRepo) -> Layout:
    return Layout(repo.top / ".repoagent", repo.top / ".git")


@pytest.fixture
def alive(repo: GitRepo) -> Iterator[subprocess.Popen[str]]:
    """The run `alive` in a separate process; for each line of input it checks for requests."""
    with subprocess.Popen(
        python(ALIVE, str(repo.top)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None and process.stdout.readline() == "alive\n"
        yield process
        process.kill()


def past(layout: Layout, name: str, **more: Any) -> RunDirectory:
    run_dir = RunDirectory(layout, name)
    run_dir.folder.mkdir(parents=True)
    at = datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone.utc).isoformat()
    times = {"started": at, "process_started": at, "ended": at}
    record = RunRecord(**times, state="done", prompt="make it", tokens=9, turns=2, text="made")
    run_dir.record.write_text(json.dumps({"version": 1, **vars(record), **more}))
    return run_dir


def test_the_list_is_the_same_with_and_without_its_name(ask: Ask, layout: Layout) -> None:
    assert "no runs yet" in ask(code=1).error
    assert ask("--json").json["runs"] == [] and ask("--json").code == 1
    assert ask("--live").code == 1 and ask("show", "x").code == 2
    past(layout, "run-20260102-030405-abcdef", cost=0.25)
    past(layout, "child", parent="run-20260102-030405-abcdef", state="failed", text="it does not fit")
    past(layout, "odd", cost=None)
    result = ask()
    assert result == ask("list") and result.code == 0
    head, *rows = result.out.splitlines()
    assert head.split() == ["run", "started", "state", "turns", "cost", "task", "status"]
    assert re.fullmatch(r"abcdef +\S.* ago +✓ done +2 +\$0\.2500 +make it +made", rows[0])
    assert re.fullmatch(r"└ child .*✗ failed .*it does not fit", rows[1])
    assert re.search(r" \? +make it", rows[2])
    output = ask("--json", "-n", "2").json
    assert (output["version"], output["total"]) == (1, 3)
    assert [one["name"] for one in output["runs"]] == ["run-20260102-030405-abcdef", "odd"]
    assert ask("--live").code == 1 and ask("list", "--live", "--json").json["runs"] == []


@pytest.mark.parametrize("width", [40, 80])
def test_lines_fit_and_are_clean(width: int) -> None:
    layout = Layout(Path("/nowhere"), Path("/nowhere"))
    states = "running done answered unfinished rejected limit stopped failed killed conversation unreadable"
    result = [
        run_list.Run(
            RunDirectory(layout, "日本語" * 9 + str(number)),
            RunRecord(
                prompt="words\x1b[31m " * number * 4, text="ended\n" * 9, activity="does " * 30, turns=10**number,
                cost=10.0**number, tokens=1, host="h" * 60, parent="日本語" * 9 + str(number - 1),
            ),
            state, 1.0, "broken" * 30 if state == "unreadable" else "",
        )
        for number, state in enumerate(states.split())
    ]  # fmt: skip
    rows = [*run_list.run_tree(result[:2]), *((0, run) for run in result[2:])]
    shown = [*table_lines(rows, Page(width))]
    assert len(shown) == 12 and all("\x1b" not in line for line in shown)
    if width >= 80:  # billions of dollars take more columns
        assert max(map(display_width, shown)) <= width, shown
    plain = [*table_lines([(0, run) for run in result[:4]], Page(None, color=True))]
    assert all(line.count("\x1b[m") == 1 for line in plain)


def test_show(ask: Ask, layout: Layout) -> None:
    limits = {"cost": 2.0, "turns": None}
    run_dir = past(layout, "task", model="m", limits=limits, commits=["a" * 40], state="limit")
    past(layout, "child", parent="task")
    run_dir.plan.write_text("- [x] read\n- [ ] write\x1b[31m\n")
    append_turns(run_dir.conversation, Turn("user", "make it"), Turn("assistant", "\x1b[2J\n".join("made")))
    page = ask("show", "task").out
    for part in ("◆ limit", "made", "cost 2.0", "a" * 12, "child", "- [x] read", "write^[[31m", "user", "^[[2J",
                 "repoagent run --resume task", ".repoagent/runs/task/", ".repoagent/conversations/task.md"):  # fmt: skip
        assert part in page, part
    assert "\x1b" not in page and "turns None" not in page
    output = ask("show", "task", "--json").json
    assert output["run"]["state"] == "limit" and [one["name"] for one in output["children"]] == ["child"]
    assert [turn["role"] for turn in output["turns"]] == ["user", "assistant"]
    assert output["plan"].startswith("- [x] read")
    run_dir.conversation.write_text("broken")
    run_dir.plan.unlink()
    run_dir.plan.symlink_to("/etc/passwd")
    page = ask("show", "task").out
    assert "unreadable" in page and "root:" not in page


@pytest.mark.soak
def test_message_and_wait(ask: Ask, alive: subprocess.Popen[str]) -> None:
    assert "● running" in ask("--live").out and "runs make test" in ask("show", "last").out
    done = ask("message", "last", "leave", "the tests")
    assert done.code == 0 and "sent to alive, which will read it before its next model call" in done.out
    assert ask("show", "alive", "--json").json["unread"] == 1 and "1 message" in ask("show", "alive").out
    assert ask("message", "alive", "run them", "--json").json["file"].endswith(".md")
    assert alive.stdin is not None and alive.stdout is not None
    alive.stdin.write("\n")
    alive.stdin.flush()
    assert alive.stdout.readline() == "['leave the tests', 'run them']\n"
    assert ask("wait", "alive", "--timeout", "0.1").code == 7
    assert ask("delete", "alive", "--yes").code == 7
    alive.stdin.close()
    done = ask("wait", "alive")
    assert done.code == 5 and done.out == "alive: limit, the limit of $2\n"
    for words in ("stop alive", "message alive x"):
        message = "not running (limit); resume it with `repoagent run --resume alive"
        assert message in ask(*words.split(), code=3).err


def test_stop_and_stop_now(ask: Ask, alive: subprocess.Popen[str]) -> None:
    assert "use --now to stop at once" in ask("stop", "alive", code=0).out
    assert ask("--live", "--json").json["runs"][0]["state"] == "running"  # until it checks for requests
    done = ask("stop", "alive", "--now", "--json")
    assert done.code == 0 and done.json["ended"] == ["alive"] and done.json["runs"][0]["state"] == "stopped"
    assert ask("wait", "alive").code == 130


def test_a_killed_run_shows_how_to_resume_it(ask: Ask, alive: subprocess.Popen[str]) -> None:
    alive.kill()
    alive.wait()
    assert re.search(r"✗ killed .*last: runs make test", ask().out)
    assert "repoagent run --resume alive" in ask("show", "alive").out
    assert ask("wait", "alive").code == 130


def test_delete_asks_and_can_be_undone(ask: Ask, in_process: Ask, layout: Layout, repo: GitRepo) -> None:
    name = "run-20260102-030405-abcdef"
    run_dir = past(layout, name)
    append_turns(run_dir.conversation, Turn("user", "precious"))
    assert ask("delete", "abcdef").code == 2 and run_dir.folder.exists()
    with Screen([*PROGRAM, "runs", "delete", "abcdef"], repo.top) as screen:
        screen.answer("Delete run-20260102-030405-abcdef (done: make it)", "n\n")
        assert screen.end() == 1
    assert run_dir.folder.exists()
    assert f"repoagent conversation undo {name}" in ask("delete", "abcdef", "--yes", code=0).out
    assert not run_dir.folder.exists()
    assert in_process("conversation", "undo", name).code == 0
    assert ask("list", "--json").json["runs"][0]["state"] == "conversation"


# `runs delete` of a run that worked in a linked work tree.


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("", "kept its branch side; `git branch -d side` deletes it"),
        ("--no-commit", "`git worktree remove {folder}`"),  # with uncommitted work
        ("--worktree ../mine", "`git worktree remove {folder}`"),  # chosen by the user
    ],
)
def test_a_branch_and_work_stay(repo: GitRepo, run: Run, script: Script, options: str, message: str) -> None:
    repo.commit(**{"src/app.py": "def greet(name):\n    return 'hello ' + name\n"})
    script.replies(GREET, "<commit>\nGreet\n</commit>\n<finish>greets</finish>")
    run("run", "greet", "--mode", "auto-edit", "--branch", "side", *options.split(), code=0)
    (file,) = (repo.top / ".repoagent/runs").glob("*/run.json")
    record = json.loads(file.read_text())
    folder = Path(record["worktree"])
    assert folder.is_dir() == bool(options)
    assert message.format(folder=folder) in run("runs", "delete", record["name"], "--yes", code=0).out
    assert folder.is_dir() == bool(options)
    assert not options or "hello, " in (folder / "src/app.py").read_text()
    subject = repo.git("log", "-1", "--format=%s", "side")
    assert subject == ("change\n" if options == "--no-commit" else "Greet\n")


@pytest.mark.parametrize("option", ["--branch side", "--worktree ../mine"])
def test_the_uncommitted_files_of_a_linked_work_tree_are_named_at_a_limit(
    repo: GitRepo, run: Run, script: Script, option: str
) -> None:
    repo.commit(**{"src/app.py": "def greet(name):\n    return 'hello ' + name\n"})
    script.replies(GREET)
    limited = ("run", "greet", "--mode", "auto-edit", "--max-turns", "1")
    assert "\nnot committed: src/app.py; undo these changes" in run(*limited, *option.split(), code=5).err
