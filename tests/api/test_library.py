"""The library: values and errors, nothing printed, nothing of the process changed."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import FrozenInstanceError, asdict
from pathlib import Path
from typing import Any

import pytest

import repoagent
from repoagent import Repository, errors
from repoagent.agent.approvals.policy import ApprovalRequest
from repoagent.git.transaction.results import Options
from repoagent.llm.model import Reply
from repoagent.llm.usage import Limits
from tests import program
from tests.conftest import GitRepo
from tests.llm.helpers import Scripted
from tests.mcp.test_tools import PATCH
from tests.tasks.bare import DONE, diff


def says(*replies: str) -> Scripted:
    return Scripted([Reply(text, "end") for text in replies], spec="own/says")


ONE_TURN = {"max_turns": 1}
NOT_AT_THE_IMPORT = tuple(
    f"repoagent.{package}" for package in ("agent", "edit", "history", "memory", "review", "tasks")
)
EDIT = f"<commit>Greet with a comma</commit>\n```diff\n{PATCH}```\n"


@pytest.fixture(autouse=True)
def nothing_of_the_process(capfd: pytest.CaptureFixture[str]) -> Iterator[None]:
    """No test here may print anything, change the folder or the environment."""
    before = (Path.cwd(), dict(os.environ))
    yield
    # pytest says in a variable of its own which test runs
    after = {**os.environ, "PYTEST_CURRENT_TEST": before[1].get("PYTEST_CURRENT_TEST", "")}
    assert (Path.cwd(), after) == before
    assert capfd.readouterr() == ("", "")


def test_the_import_is_light_and_the_names_are_there() -> None:
    code = "import sys; old = set(sys.modules); import repoagent; print(*sorted(set(sys.modules) - old))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["repoagent"]
    done = subprocess.run(
        [sys.executable, "-c", code.replace("import repoagent", "from repoagent import Repository")],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    loaded = done.stdout.split()
    assert not {"anthropic", "asyncio", "git", "json", "rich", "tomlkit", "tree_sitter", "unidiff"} & set(
        loaded
    )
    own = [name for name in loaded if name.startswith("repoagent")]
    assert len(own) <= 30 and not [name for name in own if name.startswith(NOT_AT_THE_IMPORT)]
    for name in repoagent.__all__:
        assert getattr(repoagent, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'Repo'"):
        repoagent.Repo  # noqa: B018
    assert (Path(repoagent.__file__).parent / "py.typed").exists()


def test_edit_commits_and_reports_progress(repo: GitRepo) -> None:
    repo.write("a.txt", "mine\n")
    said, notes = list[str](), list[str]()
    opened = Repository(repo.top / "src")
    how = {"model": says(EDIT), "on_text": said.append, "on_note": notes.append}
    done = opened.edit("src/app.py", "greet with a comma", **how)
    assert (done.kind, done.commit, done.branch, done.model) == ("committed", repo.head(), "main", "own/says")
    assert [(file.path, file.old_path) for file in done.files] == [("src/app.py", "src/app.py")]
    assert done.message.startswith("Greet with a comma\n")
    assert "".join(said) == EDIT and "asking own/says" in notes
    assert repo.status() == " M a.txt\n"
    assert repo.git("log", "-1", "--format=%an").strip() == "Ada Tester"
    with pytest.raises(FrozenInstanceError):
        done.kind = "written"


@pytest.mark.soak
def test_edit_asks_the_callback(repo: GitRepo) -> None:
    opened = Repository(repo.top)
    seen: list[str] = []

    def decide(proposal: object) -> bool:
        seen.append(getattr(proposal, "diff", ""))
        return False

    with pytest.raises(errors.NothingDone):
        opened.edit("src/app.py", "comma", model=says(EDIT), decide=decide)
    assert "+    return 'hello, ' + name" in seen[0]
    dry = opened.edit("src/app.py", "comma", model=says(EDIT), dry_run=True, decide=decide)
    assert (dry.kind, dry.commit, len(seen)) == ("proposed", None, 1)
    assert repo.status() == ""
    words = opened.edit("src/app.py", "what is it?", model=says("It greets whom you name."))
    assert (words.kind, words.answer) == ("answered", "It greets whom you name.")
    kept = opened.edit("src/app.py", "comma", model=says(EDIT), commit=False)
    assert (kept.kind, repo.status()) == ("written", " M src/app.py\n")


def test_edit_refuses_with_the_public_errors(repo: GitRepo) -> None:
    opened = Repository(repo.top)
    head = repo.head()
    refusals: list[tuple[type[errors.RepoagentError], str, str, str, dict[str, Any]]] = [
        (errors.UsageError, "no such file: nowhere", "nowhere.py", "x", {}),
        (errors.UsageError, "empty instruction", "a.txt", " ", {}),
        (errors.UsageError, "outside the work tree", "../x", "x", {}),
        (errors.UsageError, "needs a terminal", "a.txt", "x", {"model": "manual"}),
        (errors.ModelError, "no model is configured", "a.txt", "x", {"model": None}),
        (errors.UsageError, "unknown option max_costs; did you mean max_cost", "a.txt", "x", {"settings": {"max_costs": 1}}),
        (errors.LimitReached, "1 model call", "a.txt", "x", {"model": says("<read path='README.md'/>", ""), "settings": ONE_TURN}),
        (errors.CheckFailed, "exit code 3", "src/app.py", "comma", {"model": says(EDIT), "check": "exit 3", "settings": ONE_TURN}),
        (errors.UsageError, "edit_message needs a terminal", "a.txt", "x", {"commit": Options(edit_message=True)}),
    ]  # fmt: skip
    for kind, words, path, instruction, options in refusals:
        with pytest.raises(kind, match=words):
            opened.edit(path, instruction, **{"model": says(), **options})
    assert (repo.head(), repo.status()) == (head, "")


@pytest.mark.soak
def test_apply_undo_redo(repo: GitRepo) -> None:
    opened = Repository(repo.top)
    before = repo.read("src/app.py")
    source = repo.git("hash-object", "src/app.py").strip()
    done = opened.apply(PATCH, sources={"src/app.py": source[:8]}, message="Comma")
    assert (done.kind, done.commit, done.usage) == ("committed", repo.head(), None)
    back = opened.undo(done.edit_id)
    assert (back.moved, repo.read("src/app.py")) == (True, before)
    again = opened.redo()
    assert again.edit.id == done.edit_id
    with pytest.raises(errors.NothingDone, match="already"):
        opened.apply(PATCH.encode())
    with pytest.raises(errors.Refused) as refused:
        opened.apply(PATCH.replace("hello", "bye"))
    assert refused.value.details()["problems"]
    branch = opened.apply(
        "--- /dev/null\n+++ b/new.txt\n@@ -0,0 +1 @@\n+new\n", commit=Options(branch="topic", signoff=True)
    )
    assert (branch.branch, branch.files[0].old_path) == ("topic", None)
    assert "Signed-off-by" in repo.git("log", "-1", "topic")


@pytest.mark.soak
def test_results_are_those_of_the_commands(repo: GitRepo) -> None:
    for number in range(4):
        repo.commit(f"both {number}", **{"a.txt": f"{number}\n", "README.md": f"{number}\n"})
    opened = Repository(repo.top)

    def printed(*arguments: str) -> object:
        return json.loads(program.run([*arguments, "--json"], repo.top).stdout)

    found = json.loads(json.dumps(asdict(opened.neighbors("a.txt"))))
    assert printed("neighbors", "a.txt") == {"version": 1, **found, "note": found["note"] or None}
    used = opened.uses("greet")
    assert json.loads(json.dumps(asdict(used))) | {"version": 1} == printed("uses", "greet")
    assert [row.path for row in used.symbols[0].files] == ["src/app.py"]
    assert [one.symbol for one in opened.uses(repo.top / "src/app.py").symbols] == []
    assert [step.commit.subject for step in opened.history("a.txt", limit=2).steps] == ["both 3", "both 2"]
    assert [symbol.name for symbol in opened.outline(repo.top / "src/app.py").symbols] == ["greet", "main"]
    split = opened.split("src/app.py", natural=True)
    assert b"".join(map(split.text, split.segments)) == repo.read("src/app.py")
    assert split.folder is None
    written = opened.split("src/app.py", write=True)
    assert written.folder is not None and (written.folder / "index.json").exists()
    opened.edit("src/app.py", "greet with a comma for the court", model=says(EDIT))
    assert opened.recall("court").hits[0].file == "src/app.py"
    repo.write("a.txt", "staged\n")
    repo.git("add", "a.txt")
    assert opened.review().files == 1
    assert opened.review("HEAD~2..HEAD~1").files == 2
    assert opened.review(diff=PATCH).files == 1
    assert opened.review(commit="HEAD", files=["a.txt"]).files == 0


FOUND = """\
<finding rule="correctness" path="src/app.py" lines="2">
title: The name is lost
quote:
|     return 'hello '
why: greet('you') says hello to nobody.
</finding>
<finish>one</finish>
"""


@pytest.mark.soak
def test_review_calls_a_model_only_on_request(repo: GitRepo) -> None:
    repo.write("src/app.py", repo.read("src/app.py").replace(b" + name", b""))
    repo.git("add", "-A")
    opened = Repository(repo.top, settings={"review.model": "command:exit 9"})
    assert opened.review().model == ""  # whatever is configured: a library call does not spend by itself
    model = says(FOUND)
    report = opened.review(model=model)
    assert [(one.rule, one.title) for one in report.findings] == [("correctness", "The name is lost")]
    assert (report.model, len(model.seen)) == ("own/says", 1)
    with pytest.raises(errors.ModelError):
        opened.review(model=True)


def test_a_query_or_a_limit_that_means_nothing_is_refused(repo: GitRepo) -> None:
    opened = Repository(repo.top)
    for wrong in (
        lambda: opened.recall("?!"),
        lambda: opened.neighbors("a.txt", limit=0),
        lambda: opened.neighbors("nowhere.txt"),
        lambda: opened.outline("nowhere.txt"),
        lambda: opened.split("a.txt", target_bytes=1),
        lambda: opened.review("HEAD"),
        lambda: opened.review("HEAD~1..HEAD", base="HEAD"),
        lambda: opened.history("nowhere.txt"),
        lambda: Repository(repo.top, settings={"colour": "never"}),
        lambda: Repository(repo.top.parent / "nowhere"),
        lambda: Repository(repo.top.parent),
        lambda: opened.apply(PATCH, check="true\0"),
        lambda: opened.neighbors("a.txt", revision="HEAD\0"),
        lambda: opened.apply(PATCH, path="a.txt\0"),
        lambda: opened.run("make it two", model=says(), commit=False, commit_per_edit=True),
        lambda: opened.run("  ", model=says()),
        lambda: opened.run("x", model=says(), name="../x"),
    ):
        with pytest.raises(errors.UsageError):
            wrong()


def test_warnings_are_logged(repo: GitRepo, caplog: pytest.LogCaptureFixture) -> None:
    repo.write(".repoagent/config.toml", 'colour = "never"\n')
    with caplog.at_level(logging.WARNING, "repoagent"):
        Repository(repo.top)
    assert "colour" in caplog.text


def test_variables_of_git_are_refused(repo: GitRepo, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as set_here:
        set_here.setenv("GIT_DIR", str(repo.top / ".git"))
        with pytest.raises(errors.UsageError, match="GIT_DIR is set in the environment: unset it"):
            Repository(repo.top)
    repo.git("init", "-q", "../other")
    other = GitRepo(repo.top.parent / "other")
    other.git("config", "core.worktree", str(repo.top / "src"))
    with pytest.raises(errors.UsageError, match="is inside a git directory: run repoagent in the work tree"):
        Repository(other.top / ".git")
    with pytest.raises(errors.UsageError, match=r"write `gitdir: .*/other/.git` to .*/src/.git"):
        Repository(other.top)
    repo.write("src/.git", f"gitdir: {other.top / '.git'}\n")
    assert Repository(other.top).top == repo.top / "src"
    assert Repository(repo.top).top == repo.top


@pytest.mark.soak
def test_threads_share_one(repo: GitRepo) -> None:
    """Four threads apply to files of their own, while two look: every change is one commit, nothing is lost."""
    count = 8
    repo.commit("files", **{f"f{number}.txt": "before\n" for number in range(count)})
    opened = Repository(repo.top)

    def work(number: int) -> None:
        name = f"f{number}.txt"
        opened.apply(f"--- a/{name}\n+++ b/{name}\n@@ -1 +1 @@\n-before\n+after {number}\n")
        opened.outline("src/app.py")
        opened.neighbors(name)

    with ThreadPoolExecutor(4) as threads:
        assert [*threads.map(work, range(count))] == [None] * count
    assert repo.git("rev-list", "--count", "HEAD").strip() == str(2 + count)
    assert repo.status() == ""
    for number in range(count):
        assert repo.read(f"f{number}.txt").decode() == f"after {number}\n"


def test_a_run_is_committed_and_can_be_resumed(repo: GitRepo) -> None:
    repo.commit(**{"f.txt": "one\n"})
    here, model = Repository(repo.top), says(diff("f.txt", "one", "two"), DONE)
    with pytest.raises(errors.LimitReached):
        here.run("make it two", model=model, name="mine", limits=Limits(turns=1))
    outcome = here.run("", model=says(DONE), name="mine")
    assert (outcome.kind, outcome.text, len(outcome.commits)) == ("done", "it is two", 1)
    assert (repo.git("show", "HEAD:f.txt"), repo.status()) == ("two\n", "")


@pytest.mark.soak
@pytest.mark.parametrize("allowed", [True, False])
def test_a_run_asks_the_program_before_a_command(repo: GitRepo, allowed: bool) -> None:
    repo.commit(**{"f.txt": "one\n"})
    asked: list[str] = []

    def allow(what: ApprovalRequest) -> bool:
        asked.append(what.what)
        return allowed

    model = says("<run>echo more >> f.txt</run>", "<finish>tried</finish>")
    Repository(repo.top).run("try it", model=model, mode="ask", allow=allow)
    assert asked[0] == "echo more >> f.txt"
    shown = ["+more" in what for what in asked[1:]]  # and what it changed, before the commit
    assert shown == [True] * allowed
    assert repo.git("show", "HEAD:f.txt") == ("one\nmore\n" if allowed else "one\n")


def test_a_run_works_on_a_branch_of_its_own(repo: GitRepo, tmp_path: Path) -> None:
    head = repo.head()
    model = says(EDIT, "<finish>Greeted with a comma.</finish>")
    done = Repository(repo.top).run("greet", model=model, branch="topic", worktree=tmp_path / "linked")
    assert (done.kind, repo.head(), repo.status()) == ("done", head, "")
    assert repo.git("rev-parse", "topic").strip() == done.commits[-1]
    assert b"hello, " in (tmp_path / "linked/src/app.py").read_bytes()
