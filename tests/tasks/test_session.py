"""Runs in real repositories, from the prompt to the commit; failures first."""

from __future__ import annotations

import json
import os

import pytest

from repoagent.agent.approvals.policy import Verdict
from repoagent.edit.undo import undo
from repoagent.errors import CheckFailed, LimitReached, ModelError, NothingDone, Refused, UsageError
from repoagent.git.worktree import open_worktree
from repoagent.llm.usage import Limits
from tests.conftest import GitRepo
from tests.tasks.bare import DONE, EDIT, FINISH, NAME, User, committed, diff, go, nobody, run_dir, then

COMMITTED = {"f.txt": "one\n"}
FLOW = "<run>mkdir -p .github/workflows; echo 'on: push' >> .github/workflows/x.yml</run>"


def test_nothing_to_resume(repo: GitRepo) -> None:
    with pytest.raises(UsageError, match="nothing to resume"):
        go(repo, prompt="")


def test_an_edit_is_written_immediately_and_committed_at_the_end(repo: GitRepo) -> None:
    before = repo.commit(**{"other.txt": "o\n"})
    repo.write("other.txt", "mine\n")
    seen = []

    look = then(lambda: seen.append((repo.read("f.txt"), repo.head() == before)))
    outcome, _, _ = go(repo, '<read path="f.txt"/>', EDIT, look)
    assert seen == [(b"two\n", True)]
    assert (outcome.kind, outcome.text, outcome.left) == ("done", "it is two", ())
    again, _, _ = go(repo, "nothing more to do", prompt="and now?")
    assert again.commits == () and len(outcome.commits) == 1  # a commit is recorded once
    record = json.loads(run_dir(repo).record.read_text())
    assert record["commits"] == list(outcome.commits)
    assert (record["turns"], record["activity"]) == (outcome.turns + again.turns, "")
    message = repo.git("log", "-1", "--format=%s %(trailers:key=Assisted-by,valueonly)")
    assert message.startswith("Make it two repoagent:scripted/one\n")
    assert committed(repo) == ["f.txt"]
    assert repo.status() == " M other.txt\n"
    undo(open_worktree(repo.top))
    assert (repo.head(), repo.read("f.txt"), repo.status()) == (before, b"one\n", " M other.txt\n")


def test_a_file_that_was_not_read_can_be_patched_but_not_replaced(repo: GitRepo) -> None:
    repo.commit(**{"g.txt": "long\n" * 50})
    whole = "<file path='g.txt'>\n```\n```\n"
    replaced = "g.txt\n```text\nshort\n```\n"
    outcome, model, _person = go(repo, EDIT, replaced + whole, DONE, DONE)
    assert outcome.kind == "done" and "Your last edit was refused" in model.last_prompt
    assert repo.read("g.txt") == b"long\n" * 50


@pytest.mark.parametrize(
    ("replies", "left", "told"),
    [  # one file of two is refused, a question after a change, an answer after a refused edit
        ((EDIT + diff("g.txt", "nonsense", "x"), *["<finish>gave up</finish>"] * 2), (), "Your last edit was refused"),
        ((EDIT, "Shall I also change g?", "Really: shall I?"), ("f.txt",), ""),
        ((diff("f.txt", "uno", "dos"), "f.txt says two.", "It does."), (), "your last edit was refused and nothing has changed since"),
    ],
)  # fmt: skip
def test_a_run_that_only_stops_is_questioned_once_and_unfinished(
    repo: GitRepo, replies: tuple[str, ...], left: tuple[str, ...], told: str
) -> None:
    repo.commit(**{"g.txt": "g\n"})
    outcome, model, _ = go(repo, *replies)
    assert (outcome.kind, outcome.left) == ("unfinished", left) and told in model.last_prompt
    assert (repo.read("f.txt"), repo.read("g.txt")) == (b"two\n" if left else b"one\n", b"g\n")
    again, _, _ = go(repo, DONE, prompt="no")  # a new prompt starts over
    assert (again.kind, repo.status()) == ("done", "")


def test_a_rejection_is_sent_to_the_model_and_five_end_the_run(repo: GitRepo) -> None:
    user = User(says=["I like one better"])
    _, model, _ = go(repo, EDIT, "<finish>left as it is</finish>", user=user, mode="ask")
    assert "I like one better" in model.last_prompt
    with pytest.raises(NothingDone):
        go(repo, *[EDIT] * 5, prompt="again", user=User(says=[""] * 5), mode="ask")
    assert repo.status() == ""


@pytest.mark.parametrize("only", [{"mode": "read-only"}, {"mode": "ask", "plan_only": True}])
def test_a_read_only_run_writes_nothing_and_offers_no_changes(repo: GitRepo, only: dict[str, object]) -> None:
    _, model, _ = go(repo, '<delegate kind="edit">change it</delegate>', EDIT, "the answer", **only)
    assert repo.status() == ""
    for words in ("patch", "commit message", "what was done, and how it was checked", "\n- edit:"):
        assert words not in model.last_prompt
    assert "Change nothing" in model.last_prompt
    assert "unknown kind edit: choose one of explore" in model.last_prompt


@pytest.mark.parametrize("each", [False, True])
def test_a_declined_task_leaves_no_changes_but_commits(repo: GitRepo, each: bool) -> None:
    patches = {"First": EDIT, "Second": diff("f.txt", "two", "three")}
    edits = [f"<commit>\n{subject}\n</commit>\n{patch}" for subject, patch in patches.items()]
    user = User()
    with pytest.raises(NothingDone, match="can't be done"):
        go(repo, *edits, "<reject>can't be done</reject>", commit_per_edit=each, user=user)
    assert (repo.read("f.txt"), repo.status()) == (b"three\n" if each else b"one\n", "")
    subjects = ["Second", "First"] if each else ["change", "first commit"]
    assert repo.git("log", "--format=%s", "-2").splitlines() == subjects
    assert any(f", {repo.head()[:7]} (`repoagent undo`" in message for message in user.sentences) == each


def test_a_sensitive_file_is_refused_to_the_model(repo: GitRepo) -> None:
    repo.commit(**{".github/workflows/x.yml": "on: pull\n"})
    restore = '<restore path=".github/workflows/x.yml"/>'
    outcome, model, _ = go(repo, EDIT, FLOW, DONE, restore + DONE, mode="ask")
    assert "is run by a server after a push" in model.last_prompt
    assert (outcome.kind, repo.status()) == ("done", "")
    assert committed(repo) == ["f.txt"]


MORE = "<run>echo more >> g.txt</run>"


@pytest.mark.parametrize(
    ("replies", "wishes"),
    [
        ((EDIT,), {"check": "grep three f.txt"}),
        ((EDIT, FLOW), {"mode": "ask"}),  # a sensitive file
        ((), {"mode": "read-only", "check": "false"}),
        ((MORE, EDIT), {"mode": "ask", "user": User(allows=lambda request: Verdict(request.kind != "edit"))}),
    ],
)
def test_the_third_reason_not_to_finish_ends_the_run(
    repo: GitRepo, replies: tuple[str, ...], wishes: dict[str, object]
) -> None:
    before = repo.commit(**{".github/workflows/x.yml": "on: pull\n", "g.txt": "g\n"})
    tries = (DONE, f"<run>ls</run>\n{DONE}", f"<run>pwd</run>\n{DONE}")
    with pytest.raises(CheckFailed, match="after 3 tries") as error:
        go(repo, *replies, *tries, **wishes)
    assert ("Your files contain the change; resume with" if replies else "Resume with") in str(error.value)
    assert (repo.head(), repo.read("f.txt")) == (before, b"two\n" if replies else b"one\n")
    if "check" in wishes:
        assert go(repo, DONE, prompt="never mind the check")[0].kind == "done"


def test_a_no_is_not_asked_again_and_without_a_user_the_run_ends(repo: GitRepo) -> None:
    repo.commit(**{"g.txt": "g\n"})
    user = User(allows=lambda request: Verdict(request.kind != "edit"))
    with pytest.raises(CheckFailed, match="in the commit: the user said no"):
        go(repo, MORE, DONE, DONE, user=user, mode="ask")
    with pytest.raises(
        Refused, match=r"no user to ask about the change to g.txt; use .* Your files contain"
    ) as error:
        go(repo, DONE, prompt="", user=User(allows=nobody), mode="ask")
    assert [request.kind for request in user.requests] == ["command", "edit"]
    assert error.value.exit_code == 3 and repo.status() == " M g.txt\n"


def test_an_unreadable_plan_ends_the_run(repo: GitRepo) -> None:
    """The file is kept. When it is repaired, the run is resumed."""
    plan = run_dir(repo).plan
    spoil = then(lambda: plan.write_bytes((plan.read_text() + "caf\xe9\n").encode("latin-1")))
    with pytest.raises(Refused, match=r"plan.md is not UTF-8 \(line 6\); save it as UTF-8 or move it away"):
        go(repo, '<task add="Make it two"/>', EDIT, spoil)
    plan.write_text(plan.read_text(encoding="latin-1"), encoding="utf-8")
    outcome, _, user = go(repo, '<finish open="optional">two</finish>', prompt="")
    assert user.observations[0].text.startswith("Tasks of the plan are open: 1 Make it two")
    assert outcome.text.endswith("Still open: optional")
    assert (outcome.kind, len(outcome.commits)) == ("done", 1)


@pytest.mark.parametrize("last", ["<finish>b.py is not done</finish>", "I can't: b.py is not done."])
def test_a_run_that_changes_nothing_after_a_failed_check_ends(repo: GitRepo, last: str) -> None:
    before = repo.head()
    with pytest.raises(CheckFailed, match="the model made no further change") as error:
        go(repo, EDIT, DONE, '<read path="f.txt"/>', last, check="grep three f.txt")
    assert "`repoagent run --resume" in str(error.value) and "Fix it" not in str(error.value)
    assert (repo.head(), repo.read("f.txt")) == (before, b"two\n")
    # a new process runs the check again, because its cause may be fixed
    outcome, _, _ = go(repo, DONE, prompt="again", check="grep two f.txt")
    assert outcome.kind == "done"


def test_a_command_may_replace_a_refused_edit(repo: GitRepo) -> None:
    replies = [diff("f.txt", "uno", "dos"), "<run>sed -i s/one/dos/ f.txt</run>", DONE]
    outcome, _, _ = go(repo, *replies, mode="auto", allow=("sed *",))
    assert (outcome.kind, repo.git("show", "HEAD:f.txt")) == ("done", "dos\n")


@pytest.mark.parametrize(("error", "by_user"), [(LimitReached, True), (ModelError, False)])
def test_changes_before_an_error_are_committed_by_the_next_process(
    repo: GitRepo, error: type[Exception], by_user: bool
) -> None:
    """It knows the run's own edit, and is told what the user has changed since."""
    before = repo.commit(**{"f.txt": "one\n1\n2\n3\n4\n"})
    limits = Limits(turns=2) if error is LimitReached else None
    with pytest.raises(error):
        go(repo, '<read path="f.txt"/>', EDIT, ModelError("no network"), limits=limits)
    assert (repo.head(), repo.read("f.txt")) == (before, b"two\n1\n2\n3\n4\n")
    if by_user:
        repo.write("f.txt", "two\n1\n2\n3\nfour\n")
    outcome, model, _ = go(repo, diff("f.txt", "two", "dos"), DONE, prompt="")
    assert ("The content of f.txt has changed since you last read it" in model.last_prompt) == by_user
    assert (outcome.kind, repo.status()) == ("done", " M f.txt\n" if by_user else "")
    assert repo.git("show", "HEAD:f.txt") == "dos\n1\n2\n3\n4\n"


@pytest.mark.parametrize("name", ["f.txt", f".repoagent/runs/{NAME}/plan.md"])
def test_keys_are_masked(repo: GitRepo, name: str) -> None:
    """In files, in the output of commands, and in a plan to which the user has added a task with a key."""
    key = "ghp_" + "Ab3dEf6hIj9kLm2nOp5qRs8tUv1wXy4zAb3d"
    reads = '<read path="f.txt"/>\n<run>cat f.txt</run>\n<task/>\n<task n="1" state="done"/>'
    write = then(lambda: repo.write(name, f"- [ ] 1. token = {key}\n"), reads)
    _, model, user = go(repo, write, "<task/>", "<finish>seen</finish>", mode="ask")
    placeholders = [seen.text.count("<<secret") for seen in user.observations[:4]]
    assert placeholders == ([1, 1, 0, 0] if name == "f.txt" else [0, 0, 1, 2])
    assert key not in model.last_prompt
    assert key not in run_dir(repo).conversation.read_text()


def test_scratch_files_and_outputs_are_outside_of_the_repository(repo: GitRepo) -> None:
    probe = '<write path="probe.sh">echo found $((6 * 7))</write>\n<run>sh "$TMPDIR/probe.sh"</run>'
    evil = '<write path="../f.txt">evil</write>'
    paths = ("@output/../run.json", "@output/../../../../.git/config", "@output/none.txt")
    reads = "".join(f'<read path="{path}"/>\n' for path in paths)
    _, _, user = go(repo, probe, evil, reads, "<finish>tried</finish>")
    texts = [seen.text for seen in user.observations]
    assert [seen.ok for seen in user.observations] == [True, True, False, False, False, False]
    assert "found 42" in texts[1] and (repo.status(), repo.read("f.txt")) == ("", b"one\n")
    assert [f"{path} is not an output of this run" for path in paths[:2]] == texts[3:5]
    assert texts[5] == "this run has no output @output/none.txt"


MOVE = "```diff\ndiff --git a/f.txt b/h.txt\nsimilarity index 100%\nrename from f.txt\nrename to h.txt\n```\n"
DELETE = "```diff\n--- a/h.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-one\n```\n"


@pytest.mark.parametrize("edits", [(MOVE,), (MOVE, DELETE), (DELETE.replace("h.txt", "f.txt"),)])
def test_an_accepted_edit_is_not_shown_again_before_the_commit(repo: GitRepo, edits: tuple[str, ...]) -> None:
    _, _, user = go(repo, *edits, DONE, mode="ask")
    assert (user.requests, len(user.proposals), repo.status()) == ([], len(edits) + 1, "")
    assert repo.git("ls-files", "f.txt", "h.txt") == ("h.txt\n" if edits == (MOVE,) else "")


@pytest.mark.parametrize("wanted", [True, False])
def test_changes_by_a_command_are_shown_before_the_commit(repo: GitRepo, wanted: bool) -> None:
    before = repo.commit(**{"g.txt": "g\n"})
    user = User(allows=lambda request: Verdict(request.kind == "command" or wanted, reason="not that"))
    answers = [EDIT, "<run>echo more >> g.txt</run>", DONE]
    if not wanted:
        answers += ['<restore path="g.txt"/>', DONE]
    go(repo, *answers, user=user, mode="ask")
    (shown,) = [request.what for request in user.requests if request.kind == "edit"]
    assert "+more" in shown and "f.txt" not in shown
    files = repo.git("diff", "--name-only", before, "HEAD").split()
    assert files == (["f.txt", "g.txt"] if wanted else ["f.txt"])
    assert repo.status() == ""


def test_what_a_command_wrote_below_an_accepted_edit_is_shown_before_the_commit(repo: GitRepo) -> None:
    again = diff("f.txt", "two", "three")
    _, _, user = go(repo, EDIT, "<run>echo more >> f.txt</run>", again, DONE, mode="ask")
    (shown,) = [request.what for request in user.requests if request.kind == "edit"]
    assert "+more" in shown and "+three" in shown and repo.status() == ""


ODD_NAMES = [
    "a b.txt", "ü.txt", 'quo"te.txt', "-dash.txt", "new\nline.txt", ":(top).txt", os.fsdecode(b"caf\xe9.txt"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("command", "keep", "paths"),
    [
        ("rm g.txt; mv h.txt i.txt; chmod +x f.txt; ln -s f.txt link", ["i.txt", "link"], "f.txt g.txt h.txt i.txt link"),
        ('for f in *.txt; do echo more >> "./$f"; done', [], "* a.txt f.txt g.txt h.txt"),
        ("echo x >> f.txt; sed -i '$d' f.txt", [], ""),
    ],
    ids=["move", "odd names", "reverted"],
)  # fmt: skip
def test_changes_by_commands_are_committed_and_undone(
    repo: GitRepo, command: str, keep: list[str], paths: str
) -> None:
    names = ODD_NAMES if paths.startswith("*") else []
    for name in ("g.txt", "h.txt", *names):
        (repo.top / name).write_text(f"{name!r}\n")
    before = repo.commit("Add more")
    reply = f"<run>{command}</run>" + "".join(f'<keep path="{path}"/>' for path in keep)
    outcome, _, _ = go(repo, reply, DONE, confine=False, mode="ask", user=User())
    changed = repo.git("diff", "-z", "--name-only", "--no-renames", before, "HEAD").split("\0")[:-1]
    assert sorted(changed) == sorted([*names, *paths.removeprefix("* ").split()])
    assert (outcome.kind, len(outcome.commits), repo.status()) == ("done", bool(paths), "")
    if paths:
        undo(open_worktree(repo.top))
    assert (repo.head(), repo.status()) == (before, "")


def test_in_a_repository_without_a_commit(repo: GitRepo) -> None:
    repo.git("update-ref", "-d", "HEAD")
    repo.git("rm", "-r", "-q", "--cached", ".")
    outcome, _, _ = go(repo, "```diff\n--- /dev/null\n+++ b/FIRST.md\n@@\n+# First\n```\n", DONE)
    assert (outcome.kind, repo.git("ls-tree", "-r", "--name-only", "HEAD")) == ("done", "FIRST.md\n")


def test_tolerances_of_a_hunk_are_reported(repo: GitRepo) -> None:
    repo.commit(**{"f.txt": "one\ntwo\nthree\nfour\nfive\nsix\n\u201cseven\u201d is it\neight\n"})
    hunks = '@@ -1,2 +1,2 @@\n one\n-two\n+2\n@@ -7,2 +7,2 @@\n "seven" is it\n-eight\n+8\n'
    outcome, model, user = go(repo, f"```diff\n--- a/f.txt\n+++ b/f.txt\n{hunks}", DONE)
    remark = (
        "Hunk 2 of f.txt, line 7: lines matched ignoring typographic punctuation; the file's own was kept."
    )
    unclosed = "The fence of the diff was not closed; the diff was read to the end of the answer."
    text = f"Applied: f.txt:1, f.txt:7.\n{remark}\n{unclosed}"
    assert (outcome.kind, user.observations[0].text) == ("done", text) and f"{text}\n" in model.last_prompt


def test_the_message_of_a_skipped_finish_is_kept(repo: GitRepo) -> None:
    kept = "The commit message is kept: send only `<finish>`"
    outcome, model, _ = go(repo, f"{EDIT}<run>false</run>\n{DONE}", FINISH, mode="auto")
    assert outcome.kind == "done" and kept in model.last_prompt
    assert repo.git("log", "-1", "--format=%s") == "Make it two\n"
    _, _, user = go(repo, f"<run>false</run>\n{FINISH}", "no", mode="auto", name="run-20260101-000001-abcdef")
    assert user.observations[-1].text == "finish was not performed because an earlier `run` failed."
