"""A run that was killed at the worst moment, or changed while it was not running, is resumed; nothing is repeated."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from unittest.mock import DEFAULT, patch

import pytest

from repoagent.cli.commands.run_options import chosen_name
from repoagent.errors import Refused, UsageError
from repoagent.git.file_writer import FilesChanged
from repoagent.git.files import Content, FileChange
from repoagent.git.transaction.results import Options
from repoagent.git.worktree import open_worktree
from repoagent.llm.conversation import Turn, append_turns, read_conversation
from repoagent.llm.model import Usage
from repoagent.storage.folders import SystemFailed
from repoagent.tasks import commit, file_tools
from repoagent.tasks.changes import command_watch
from repoagent.tasks.changes.change_set import INDEX, ChangeSet, open_change_set
from repoagent.tasks.restore import restore_changes, uncommitted_files
from repoagent.tasks.runs.control import live_run
from repoagent.tasks.runs.directory import RunRecord
from repoagent.tasks.sandbox import Confinement
from tests.conftest import GitRepo
from tests.tasks.bare import DONE, EDIT, NAME, Answer, User, committed, diff, go, run_dir, then

COMMITTED = {"f.txt": "one\n"}


class Killed(BaseException):
    pass


def killed(repo: GitRepo, *replies: Answer, at: tuple[object, str] | None = None, **wishes: object) -> None:
    """A run that is killed when it calls the function `at`, or at last."""

    def dies(*_: object, **__: object) -> None:
        raise Killed

    with pytest.MonkeyPatch.context() as patched, pytest.raises(Killed):
        if at:
            patched.setattr(*at, dies)
        go(repo, *replies, *([] if at else [Killed()]), **wishes)


def record(repo: GitRepo) -> dict[str, object]:
    value: dict[str, object] = json.loads(run_dir(repo).record.read_text())
    return value


def turns(repo: GitRepo) -> Sequence[Turn]:
    conversation = read_conversation(run_dir(repo).conversation)
    assert conversation is not None
    return conversation.turns


def observations(repo: GitRepo, kind: str) -> list[str]:
    return [turn.text for turn in turns(repo) if turn.role == "observation" and turn.meta["kind"] == kind]


@pytest.mark.parametrize("each", [False, True])
def test_killed_after_the_commit(repo: GitRepo, each: bool) -> None:
    """The change set still contains the committed change: it is not committed again, and the commit counts as the
    run's."""
    before = repo.head()
    killed(repo, EDIT, DONE, commit_per_edit=each, at=(ChangeSet, "committed"))
    made, worktree = repo.head(), open_worktree(repo.top)
    assert uncommitted_files(worktree, run_dir(repo)) == () == restore_changes(worktree, run_dir(repo)).paths
    assert (repo.read("f.txt"), repo.status()) == (b"two\n", "")
    outcome, _, _ = go(repo, *([DONE] if each else []), prompt="", commit_per_edit=each)
    assert (outcome.kind, outcome.left, repo.head(), record(repo)["commits"]) == ("done", (), made, [made])
    assert repo.git("rev-parse", "HEAD^").strip() == before
    applied = any(text.startswith("Applied: f.txt, before the run") for text in observations(repo, "edit"))
    assert applied == each and (each or outcome.commits == (made,))


def test_killed_after_an_edit_was_written(repo: GitRepo, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not written again, and the model and the user's hook get the file names."""
    killed(repo, EDIT, at=(file_tools, "_written"))
    monkeypatch.setenv("REPOAGENT_RUN__AFTER_EDIT", "cat")
    outcome, _, _ = go(repo, DONE, prompt="")
    assert outcome.kind == "done"
    (said,) = observations(repo, "edit")
    assert said.startswith("Applied: f.txt, before the run was interrupted.") and '"paths": ["f.txt"]' in said


def test_a_file_that_is_saved_repeatedly_during_the_commit(repo: GitRepo) -> None:
    """What the last try commits is not listed as uncommitted."""
    tries = [*[FilesChanged({})] * commit.TRIES, DEFAULT]
    with patch.object(commit, "_commit", side_effect=tries, wraps=commit._commit) as made:
        outcome, _, _ = go(repo, EDIT, DONE)
    assert (len(outcome.commits), outcome.left, made.call_count) == (1, (), commit.TRIES + 1)


def test_changes_of_an_interrupted_command_are_reported(repo: GitRepo) -> None:
    """It is unknown whether the command or the user made them: they are committed if kept, and reported otherwise."""
    repo.commit(**{"g.txt": "g\n", "h.txt": "h\n"})
    repo.write("h.txt", "mine\n")
    command = "<run>echo G > g.txt; echo new > n.txt; echo more >> h.txt</run>"
    killed(repo, EDIT, command, confine=False, at=(command_watch.CommandWatch, "_after_command"))
    keep = ['<keep path="g.txt"/>', '<keep path="n.txt"/>']
    outcome, model, _ = go(repo, *keep, DONE, "<finish>it is two</finish>", prompt="")
    assert outcome.kind == "done" and "was interrupted" in model.last_prompt
    assert any("changed g.txt, h.txt, n.txt (new)" in text for text in observations(repo, "notice"))
    assert "changed again" not in model.last_prompt  # f.txt, which the run had changed before
    notices = observations(repo, "repository")
    assert all("f.txt" not in text for text in notices) and "the user's uncommitted work: h.txt" in notices[0]
    assert committed(repo) == ["f.txt", "g.txt", "n.txt"]
    assert repo.read("h.txt") == b"mine\nmore\n"
    assert repo.status() == " M h.txt\n"


def test_killed_after_a_restore(repo: GitRepo) -> None:
    """The file is restored, but not the change set: it is not listed any more."""
    killed(repo, EDIT, '<restore path="f.txt"/>', at=(ChangeSet, "drop"))
    assert repo.read("f.txt") == b"one\n"
    outcome, _, _ = go(repo, "<finish>left as it is</finish>", prompt="", confine=False)
    assert (outcome.kind, outcome.left, repo.status()) == ("done", (), "")


def test_changes_that_the_user_undid_are_reported(repo: GitRepo) -> None:
    killed(repo, EDIT)
    repo.git("checkout", "f.txt")
    outcome, model, _ = go(repo, EDIT, DONE, prompt="")
    assert "The files no longer contain your changes to f.txt" in model.last_prompt
    assert repo.git("show", "HEAD:f.txt") == "two\n"
    assert outcome.left == ()


def test_without_the_folder_of_the_run(repo: GitRepo) -> None:
    """Only the conversation exists, as in another clone: the model is asked once to look at the files."""
    killed(repo, EDIT)
    shutil.rmtree(run_dir(repo).folder)
    repo.git("checkout", "f.txt")
    killed(repo, prompt="")
    outcome, model, _ = go(repo, EDIT, DONE, prompt="")
    assert model.last_prompt.count("continues without its run's folder") == 1
    assert (outcome.kind, repo.git("show", "HEAD:f.txt")) == ("done", "two\n")


@pytest.mark.parametrize("by_command", [False, True])
def test_a_run_whose_folder_is_removed_ends(repo: GitRepo, by_command: bool) -> None:
    """`git clean -fdx` during a run: the change is reported, and nothing is committed."""
    before = repo.head()

    clean = then(lambda: repo.git("clean", "-q", "-ffdx"), "<run>touch made</run>")
    reply = "<run>git clean -q -ffdx</run>" if by_command else clean
    wishes = {"confine": False, "mode": "ask"} if by_command else {}
    end = r"was removed .*, which ended the run: its uncommitted changes \(f\.txt\) are still in your files"
    end += "$" if by_command else "; its conversation is in /"
    with pytest.raises(Refused, match=end):
        go(repo, EDIT, reply, DONE, **wishes)
    assert (repo.read("f.txt"), repo.head(), repo.status()) == (b"two\n", before, " M f.txt\n")
    if not by_command:
        first, *_, last = turns(repo)
        assert (first.text, last.text) == ("do it", "<run>touch made</run>")


def test_a_message_during_the_last_reply_is_read(repo: GitRepo) -> None:
    message = then(lambda: repo.write(f".repoagent/runs/{NAME}/inbox/1.md", "make it three"))
    _, model, _ = go(repo, EDIT, message, diff("f.txt", "two", "three"), DONE)
    assert model.last_prompt.count("make it three") == 1
    assert repo.git("show", "HEAD:f.txt") == "three\n"


@pytest.mark.parametrize("each", [False, True])
def test_a_system_error_of_an_edit_ends_the_run(repo: GitRepo, each: bool) -> None:
    """The model cannot fix it; the edit is made after the user has."""
    journal = repo.top / ".git/repoagent/journal"
    occupy = then(lambda: (journal.parent.mkdir(exist_ok=True), journal.touch()), EDIT)
    with pytest.raises(SystemFailed, match="fix that"):
        go(repo, occupy, DONE, commit_per_edit=each)
    assert (record(repo)["state"], record(repo)["exit"]) == ("failed", 3)
    journal.unlink()
    outcome, _, _ = go(repo, DONE, prompt="", commit_per_edit=each)
    assert (outcome.kind, outcome.left, repo.status()) == ("done", (), "")
    assert repo.git("show", "HEAD:f.txt") == "two\n"


DELETE = "```diff\n--- a/g.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-g\n```\n"


@pytest.mark.parametrize("kind", ["run", "chat"])
def test_an_accepted_edit_is_not_asked_about_again(repo: GitRepo, kind: str) -> None:
    """Neither after a resume nor in a later message of a chat; the check need not be confined."""
    repo.commit(**{"g.txt": "g\n"})
    killed(repo, EDIT, DELETE, user=User(by_person=True), mode="ask", kind=kind)
    user = User()
    with patch.object(Confinement, "program", side_effect=AssertionError):
        go(
            repo,
            DONE,
            prompt="" if kind == "run" else "Go on.",
            user=user,
            mode="ask",
            kind=kind,
            check="true",
        )
    assert (user.requests, repo.status(), committed(repo)) == ([], "", ["f.txt", "g.txt"])


def by_mode(repo: GitRepo) -> None:
    killed(repo, EDIT, mode="auto-edit")


def below_another_edit(repo: GitRepo) -> None:
    by_mode(repo)
    killed(repo, diff("f.txt", "two", "two!"), prompt="", user=User(by_person=True), mode="ask")


def command_after_it(repo: GitRepo) -> None:
    killed(repo, EDIT, "<run>echo more >> f.txt</run>", user=User(by_person=True), mode="ask")


def tampered(repo: GitRepo) -> None:
    killed(repo, EDIT, user=User(by_person=True), mode="ask")
    index = run_dir(repo).changes / INDEX
    value = json.loads(index.read_text())
    (item,) = value["changes"]
    item["accepted"] = item["before"]
    index.write_text(json.dumps(value))


@pytest.mark.parametrize("begin", [by_mode, below_another_edit, command_after_it, tampered])
def test_a_change_that_was_not_accepted_is_asked_about(
    repo: GitRepo, begin: Callable[[GitRepo], None]
) -> None:
    begin(repo)
    user = User()
    go(repo, DONE, prompt="", user=user, mode="ask")
    (request,) = user.requests
    assert "+two" in request.what and request.why.startswith("you have not accepted this change")


NO_COMMIT = Options(no_commit=True)


def test_what_the_user_accepted_of_a_subagent_is_not_asked_about_again(repo: GitRepo) -> None:
    repo.commit(**{"g.txt": "g\n", "h.txt": "h\n"})
    killed(repo, EDIT, user=User(by_person=True), mode="ask")
    child = "run-20260101-000001-abcdef"
    for path, mode in (("g", "ask"), ("h", "auto-edit")):
        wishes = {"name": child, "kind": "edit", "parent": NAME, "mode": mode, "commit": NO_COMMIT}
        go(
            repo,
            diff(f"{path}.txt", path, path.upper()),
            "Done.",
            user=User(by_person=mode == "ask"),
            **wishes,
        )
    user = User()
    go(repo, DONE, prompt="", user=user, mode="ask")
    (request,) = user.requests
    assert "+H" in request.what and "+G" not in request.what and "+two" not in request.what
    assert committed(repo) == ["f.txt", "g.txt", "h.txt"]


def test_a_sub_agent_that_outlived_its_parent(repo: GitRepo) -> None:
    """Its changes are merged once when the run is resumed, and committed with the others."""
    repo.commit(**{"g.txt": "g\n"})
    killed(repo, EDIT)
    child_dir = run_dir(repo, "run-20260101-000001-abcdef")
    with live_run(child_dir, RunRecord("do it", kind="worker", parent=NAME)) as live:
        live.ended("failed", "it was killed")
    change_set = open_change_set(open_worktree(repo.top), child_dir.changes)
    repo.write("g.txt", "G\n")
    change_set.wrote([FileChange.at("g.txt", Content(b"g\n"), Content(b"G\n"))])
    for folder in child_dir.folders:  # temporary files of the killed process
        folder.mkdir(exist_ok=True)
        (folder / ".tmp-1-abcdef").touch()
    outcome, model, _ = go(repo, DONE, prompt="")
    assert "A subagent had changed g.txt" in model.last_prompt
    assert committed(repo) == ["f.txt", "g.txt"]
    assert (outcome.left, open_change_set(change_set.worktree, child_dir.changes).changes) == ((), ())
    assert not list(child_dir.folder.rglob(".tmp-*"))


@pytest.mark.parametrize("long", [False, True])
def test_the_answer_of_a_finished_sub_agent_is_not_lost(repo: GitRepo, *, long: bool) -> None:
    """Its parent was killed before it stored the answer: it is reported once when the run is resumed."""
    killed(repo, EDIT)
    answer = "It is in signs.py. " * (500 if long else 1) + "The end."
    for number, state in enumerate(("answered", "failed")):
        child_dir = run_dir(repo, f"run-20260101-00000{number}-abcde{number}")
        append_turns(child_dir.conversation, Turn("user", "where?"), Turn("assistant", answer))
        with live_run(child_dir, RunRecord("where?", kind="explore", parent=NAME)) as live:
            live.turn(turns=2, activity="", usage=Usage(1_000 * (number + 1), 200), cost=0.25)
            live.ended(state, answer)
    used = record(repo)["tokens"]
    outcome, model, _ = go(repo, DONE, prompt="")
    prompt, name = model.last_prompt, "run-20260101-00000"
    assert prompt.count("The end.") == 1
    assert f"The subagent answered ({name}0-abcde0), 2 calls, 1,200 tokens, $0.2500:" in prompt
    assert f"The subagent ({name}1-abcde1) did not finish: 2 calls, 2,200 tokens" in prompt
    assert record(repo)["tokens"] == used + outcome.usage.total
    _, model, _ = go(repo, "So.", prompt="and now?")
    assert model.last_prompt.count("The end.") == 1


@pytest.mark.parametrize("written", [True, False])
def test_interrupted_at_a_write(repo: GitRepo, monkeypatch: pytest.MonkeyPatch, written: bool) -> None:
    """The change set has the change if the files are written, and it is written once."""
    write_changes = file_tools.write_changes

    def write(*args: object) -> None:
        if written:
            write_changes(*args)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(file_tools, "write_changes", write)
        go(repo, EDIT)
    changes = open_change_set(open_worktree(repo.top), run_dir(repo).changes).changes
    assert [change.name for change in changes] == (["f.txt"] if written else [])
    outcome, _, _ = go(repo, DONE, prompt="")
    assert (outcome.kind, repo.git("show", "HEAD:f.txt"), outcome.left) == ("done", "two\n", ())


@pytest.mark.parametrize("said", ["mine", "run-20260101-000000-abcdef"])
def test_resume_by_name_with_only_the_conversation(repo: GitRepo, said: str) -> None:
    worktree = open_worktree(repo.top)
    options = SimpleNamespace(continues=False, resume=said, conversation=None)
    with pytest.raises(UsageError):
        chosen_name(options, worktree, "run")
    append_turns(run_dir(repo, said).conversation, Turn("user", "do it"))
    assert chosen_name(options, worktree, "run") == (said, False)
