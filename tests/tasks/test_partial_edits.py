"""A partly refused edit: the valid part is kept until the rest arrives, and nothing is written before."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from repoagent.errors import LimitReached
from repoagent.llm.model import Request
from repoagent.llm.usage import Limits
from repoagent.tasks import edit_tool, session
from repoagent.tasks.runs.directory import new_name
from tests.conftest import GitRepo
from tests.tasks.bare import NAME, Answer, User, diff, go

FIRST = diff("a.txt", "one", "two")
REST = diff("b.txt", "1", "2")
WRONG = diff("b.txt", "uno", "2")
DONE = "<commit>\nCount on\n</commit>\n<finish>counted</finish>"
WAITING = "Kept as a draft: a.txt. Still missing: hunk 1 of b.txt. Send only what is missing."
DROPPED = "What was kept of your refused edit is dropped"


@pytest.fixture
def files(repo: GitRepo) -> GitRepo:
    repo.commit(**{"a.txt": "one\n", "b.txt": "1\n", "c.txt": "c\n"})
    return repo


def untouched(repo: GitRepo) -> bool:
    return (repo.status(), repo.read("a.txt"), repo.read("b.txt")) == ("", b"one\n", b"1\n")


def looking(repo: GitRepo, reply: str, act: Callable[[], object] = lambda: None) -> Callable[[Request], str]:
    """A reply that checks that the work tree is unchanged, after calling `act`."""

    def answer(_: Request) -> str:
        assert untouched(repo)
        act()
        return reply

    return answer


def committed(repo: GitRepo) -> list[str]:
    return repo.git("show", "--format=", "--name-only", "HEAD").split()


@pytest.mark.parametrize("again", [REST, REST + FIRST, FIRST + REST])
@pytest.mark.parametrize("mode", ["auto-edit", "ask"])
def test_the_rest_or_the_whole_edit_completes_the_change(files: GitRepo, again: str, mode: str) -> None:
    before = files.head()
    outcome, model, user = go(files, FIRST + WRONG, looking(files, again), DONE, mode=mode)
    assert (outcome.kind, files.status(), committed(files)) == ("done", "", ["a.txt", "b.txt"])
    assert files.git("rev-parse", "HEAD^").strip() == before
    assert (files.read("a.txt"), files.read("b.txt")) == (b"two\n", b"2\n")
    assert f'{WAITING} `<restore path="@draft"/>` drops the kept part.' in model.last_prompt
    (edit,) = [proposal for proposal in user.proposals if not proposal.message]
    assert [change.name for change in edit.changes] == ["a.txt", "b.txt"]
    assert (user.observations[0].shown or "").endswith(
        "\n1 hunk fits and is kept; waiting for hunk 1 of b.txt"
    )


def test_a_commit_per_edit_has_both_parts(files: GitRepo) -> None:
    go(files, FIRST + WRONG, REST, DONE, commit_per_edit=True)
    assert committed(files) == ["a.txt", "b.txt"]


def test_a_command_in_between_does_not_see_a_partial_edit(files: GitRepo) -> None:
    look = "<run>cat a.txt b.txt</run>"
    _, _, user = go(files, FIRST + WRONG + look, look, REST + look, DONE, mode="auto")
    *before, after = (seen.text for seen in user.observations if seen.kind == "run")
    assert ["one\n1\n" in text for text in before] == [True, True] and "two\n2\n" in after


def test_parts_are_sent_one_by_one(files: GitRepo) -> None:
    c = diff("c.txt", "c", "d")
    wrong = diff("c.txt", "x", "d")
    outcome, _, user = go(files, FIRST + WRONG + wrong, looking(files, REST), looking(files, c), DONE)
    assert committed(files) == ["a.txt", "b.txt", "c.txt"] and outcome.kind == "done"
    assert [(seen.shown or "").split("\n")[-1] for seen in user.observations[:2]] == [
        "1 hunk fits and is kept; waiting for hunk 1 of b.txt, hunk 1 of c.txt",
        "2 hunks fit and are kept; waiting for hunk 1 of c.txt",
    ]
    assert user.observations[1].text.startswith("This fits; nothing is written yet")


def test_a_second_refusal_keeps_the_kept_part(files: GitRepo) -> None:
    _, _, user = go(files, FIRST + WRONG, WRONG, diff("gone.txt", "x", "y"), REST, DONE)
    assert committed(files) == ["a.txt", "b.txt"]
    assert [WAITING in seen.text for seen in user.observations[:3]] == [True] * 3


def test_all_files_wait_until_the_edit_is_complete(files: GitRepo) -> None:
    def look(_: Request) -> str:
        assert untouched(files) and files.read("c.txt") == b"c\n"
        return REST

    go(files, FIRST + WRONG, diff("c.txt", "c", "d"), look, DONE)
    assert committed(files) == ["a.txt", "b.txt", "c.txt"]


def test_a_part_sent_again_in_another_form_replaces_the_kept_part(files: GitRepo) -> None:
    go(files, FIRST + WRONG, diff("a.txt", "one", "three") + REST, DONE)
    assert (files.read("a.txt"), files.read("b.txt")) == (b"three\n", b"2\n")


def test_the_model_withdraws_the_edit(files: GitRepo) -> None:
    drop = '<restore path="@draft"/>'
    outcome, _, user = go(files, FIRST + WRONG, drop, drop, diff("c.txt", "c", "d"), DONE)
    assert (outcome.kind, committed(files)) == ("done", ["c.txt"])
    assert [seen.text for seen in user.observations if seen.kind == "restore"] == [
        f"{DROPPED}.",
        "You have not changed @draft.",
    ]


def test_nothing_is_missing_after_a_withdrawal(files: GitRepo) -> None:
    outcome, _, _ = go(files, FIRST + WRONG, '<restore path="@draft"/>', "<finish>left it</finish>")
    assert (outcome.kind, untouched(files)) == ("done", True)


@pytest.mark.parametrize("path", ["a.txt", "b.txt"])
def test_a_command_changes_a_file_of_the_edit(files: GitRepo, path: str) -> None:
    change = f"<run>echo more >> {path}</run>"
    _, model, user = go(files, FIRST + WRONG, change, FIRST + REST, DONE, mode="auto")
    notice = f"{DROPPED}, because {path} changed since. Send the whole edit again if you still want it."
    assert model.last_prompt.count(notice) == 1
    assert any(f"{path} changed since" in said for said in user.messages)


def test_a_command_and_the_rest_in_one_reply(files: GitRepo) -> None:
    """The rest alone would be half of the edit."""

    def look(_: Request) -> str:
        assert (files.read("a.txt"), files.read("b.txt")) == (b"one\nmore\n", b"1\n")
        return FIRST + REST

    both = f"<run>echo more >> a.txt</run>\n{REST}"
    _, _, user = go(files, FIRST + WRONG, both, look, DONE, mode="auto")
    refused = [seen.text for seen in user.observations if seen.kind == "edit" and not seen.ok]
    assert refused[1].startswith(f"Not applied. {DROPPED}, because a.txt changed since.")
    assert files.read("a.txt") == b"two\nmore\n" and files.read("b.txt") == b"2\n"


@pytest.mark.parametrize("how", ["saved", "mode", "deleted", "link", "folder"])
def test_the_user_changes_a_file_of_the_edit(files: GitRepo, how: str) -> None:
    path = files.top / "a.txt"

    def save() -> None:
        if how == "saved":
            path.write_text("one\nmine\n")
        elif how == "mode":
            path.chmod(0o755)
        else:
            path.unlink()
            if how == "link":
                path.symlink_to("c.txt")
            elif how == "folder":
                path.mkdir()

    _, model, user = go(
        files, FIRST + WRONG, looking(files, '<read path="c.txt"/>', save), REST, "<finish>b</finish>"
    )
    assert f"{DROPPED}, because a.txt changed since." in model.last_prompt
    assert [seen.ok for seen in user.observations if seen.kind == "edit"] == [False, True]
    if how in {"saved", "mode"}:
        assert path.read_bytes() == (b"one\nmine\n" if how == "saved" else b"one\n")


def test_the_user_saves_at_the_last_moment(files: GitRepo) -> None:
    """After the notices for a reply, before its edit."""

    def save() -> None:
        files.write("a.txt", "one\nmine\n")

    _, _, user = go(files, FIRST + WRONG, looking(files, REST, save), FIRST + REST, "<finish>done</finish>")
    assert [seen.ok for seen in user.observations if seen.kind == "edit"] == [False, False, True]
    assert files.read("a.txt") == b"two\nmine\n"


def test_a_file_that_the_edit_creates_appears(files: GitRepo) -> None:
    new = "```diff\n--- /dev/null\n+++ b/new.txt\n@@ -0,0 +1 @@\n+new\n```\n"

    def save() -> None:
        files.write("new.txt", "mine\n")

    _, model, _ = go(files, new + WRONG, looking(files, REST, save), REST, "<finish>done</finish>")
    assert f"{DROPPED}, because new.txt changed since." in model.last_prompt
    assert files.read("new.txt") == b"mine\n" and files.read("b.txt") == b"2\n"


def test_a_save_of_another_file_drops_nothing(files: GitRepo) -> None:
    go(files, FIRST + WRONG, looking(files, REST, lambda: files.write("c.txt", "mine\n")), DONE)
    assert committed(files) == ["a.txt", "b.txt"] and files.read("c.txt") == b"mine\n"


PARTS = {
    "create": "--- /dev/null\n+++ b/new.txt\n@@ -0,0 +1 @@\n+new\n",
    "delete": "--- a/c.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-c\n",
    "rename": "diff --git a/c.txt b/d.txt\nrename from c.txt\nrename to d.txt\n",
    "mode": "diff --git a/c.txt b/c.txt\nold mode 100644\nnew mode 100755\n",
}


@pytest.mark.parametrize("kind", PARTS)
def test_creations_deletions_and_renames_are_kept(files: GitRepo, kind: str) -> None:
    part = f"```diff\n{PARTS[kind]}```\n"
    go(files, part + WRONG, looking(files, REST), DONE, name=f"{NAME[:-6]}abcde0")
    apart = files.git("diff", "HEAD^", "--summary", "--", "c.txt", "d.txt", "new.txt").strip()
    assert files.read("b.txt") == b"2\n"
    files.git("reset", "-q", "--hard", "HEAD^")
    go(files, part + REST, DONE)
    whole = files.git("diff", "HEAD^", "--summary", "--", "c.txt", "d.txt", "new.txt").strip()
    assert apart == whole != ""


def test_nothing_is_kept_of_an_edit_of_a_binary_file(repo: GitRepo) -> None:
    repo.write("b.bin", bytes(range(256)))
    repo.commit(**{"a.txt": "one\n"})
    _, model, _ = go(repo, FIRST + diff("b.bin", "x", "y"), FIRST, "<finish>a</finish>")
    assert "Kept as a draft" not in model.last_prompt
    assert repo.read("a.txt") == b"two\n"


def test_a_hunk_that_is_already_applied_is_not_missing(files: GitRepo) -> None:
    both = diff("a.txt", "zero", "one") + REST
    _, model, _ = go(files, both, REST, DONE)
    assert "Kept as a draft" not in model.last_prompt and committed(files) == ["b.txt"]


@pytest.mark.parametrize("changed", [False, True])
def test_a_run_cannot_finish_while_a_part_is_missing(files: GitRepo, changed: bool) -> None:
    """Even if it has changed something else, which stays uncommitted in the files."""
    before = files.head()
    other = [diff("c.txt", "c", "d")] if changed else []
    outcome, model, user = go(files, *other, FIRST + WRONG, DONE, DONE)
    assert (outcome.kind, outcome.left, files.head()) == ("unfinished", ("c.txt",) if changed else (), before)
    assert f"Your edit is incomplete. {WAITING}" in model.last_prompt
    assert any("part of the model's last edit was refused" in said for said in user.messages)
    assert (files.read("a.txt"), files.read("b.txt")) == (b"one\n", b"1\n")


def test_each_edit_reports_missing_parts(files: GitRepo) -> None:
    wrong = diff("a.txt", "none", "x") + diff("c.txt", "c", "d")
    right = diff("a.txt", "two", "three")
    outcome, _, user = go(files, FIRST + WRONG, DONE, REST, wrong, DONE, right, DONE)
    assert outcome.kind == "done" and committed(files) == ["a.txt", "b.txt", "c.txt"]
    assert sum(seen.kind == "finish" and not seen.ok for seen in user.observations) == 2


def test_a_reply_without_an_action_while_a_part_is_missing(files: GitRepo) -> None:
    outcome, model, _ = go(files, FIRST + WRONG, "I stop.", "I do.")
    assert (outcome.kind, untouched(files)) == ("unfinished", True)
    assert "your edit is incomplete (missing: hunk 1 of b.txt)" in model.last_prompt


@pytest.mark.parametrize("kind", ["run", "chat"])
def test_the_kept_part_is_dropped_at_the_next_prompt(files: GitRepo, kind: str) -> None:
    go(files, FIRST + WRONG, "Shall I?", "Shall I?", kind=kind)
    _, model, _ = go(files, looking(files, REST), DONE, prompt="yes", kind=kind)
    assert model.last_prompt.count(f"{DROPPED}, because it is kept only while the run is active.") == 1
    assert committed(files) == ["b.txt"]
    _, model, _ = go(files, "nothing", prompt="more?", kind=kind)
    assert model.last_prompt.count(DROPPED) == 1


def limited(repo: GitRepo, turns: int, *answers: Answer) -> None:
    with pytest.raises(LimitReached):
        go(repo, *answers, limits=Limits(turns=turns))


def test_the_kept_part_is_dropped_at_a_resume(files: GitRepo) -> None:
    limited(files, 1, FIRST + WRONG)
    outcome, model, _ = go(files, looking(files, FIRST + REST), DONE, prompt="")
    assert (
        f"{DROPPED}, because it is kept only while the run is active. Send the whole edit again"
        in model.last_prompt
    )
    assert (outcome.kind, committed(files)) == ("done", ["a.txt", "b.txt"])


class Killed(BaseException):
    pass


def dies(*_: object, **__: object) -> None:
    raise Killed


@pytest.mark.parametrize("prompt", ["", "go on"])
def test_killed_before_the_rest_was_applied(
    files: GitRepo, monkeypatch: pytest.MonkeyPatch, prompt: str
) -> None:
    """The reply has the rest, but the kept part is lost: the rest is not applied alone."""
    with monkeypatch.context() as patched, pytest.raises(Killed):
        go(files, FIRST + WRONG, looking(files, REST, lambda: patched.setattr(edit_tool, "_bind", dies)))
    answers = [looking(files, FIRST + REST), DONE]
    outcome, model, _ = go(files, *answers, prompt=prompt)
    assert model.last_prompt.count(f"{DROPPED}, because it is kept only while the run is active.") == 1
    assert (outcome.kind, committed(files)) == ("done", ["a.txt", "b.txt"])


def test_killed_after_the_edit_was_written(files: GitRepo, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched, pytest.raises(Killed):
        patched.setattr(edit_tool, "_note_written", dies)
        go(files, FIRST + WRONG, looking(files, REST))
    outcome, model, _ = go(files, DONE, prompt="")
    assert "Applied: b.txt, with the kept part of it, before the run was interrupted." in model.last_prompt
    assert DROPPED not in model.last_prompt
    assert (outcome.kind, committed(files)) == ("done", ["a.txt", "b.txt"])


def test_the_runs_own_edit_is_known_after_a_resume(files: GitRepo) -> None:
    """A file with hunks from an earlier reply did not change "since you last read it"."""
    limited(files, 3, '<read path="a.txt"/>', FIRST + WRONG, REST)
    _, model, _ = go(files, diff("a.txt", "two", "three"), DONE, prompt="")
    assert "changed since you last read it" not in model.last_prompt


def test_the_kept_part_is_dropped_at_a_checkpoint(files: GitRepo, monkeypatch: pytest.MonkeyPatch) -> None:
    ready = session.ModelRequests.ready
    calls = iter([False, True, False, False, False])
    monkeypatch.setattr(
        session.ModelRequests, "ready", lambda self, state: ready(self, state, force=next(calls))
    )
    checkpoint = "## Goal\nCount on.\n## Next step\nSend the rest of the edit.\n"
    _, model, _ = go(files, FIRST + WRONG, checkpoint, looking(files, REST), DONE)
    assert f"{DROPPED}, because a checkpoint replaced earlier turns." in model.last_prompt


@pytest.mark.parametrize("says", ["not like this", ""])
def test_a_rejection_by_the_user_drops_the_whole_edit(files: GitRepo, says: str) -> None:
    user = User(says=[says])
    answers = [FIRST + WRONG, REST, looking(files, FIRST + REST), DONE]
    _, model, _ = go(files, *answers, user=user, mode="ask")
    assert f"{DROPPED}. Send the whole edit again if you still want it." in model.last_prompt
    assert committed(files) == ["a.txt", "b.txt"]


TEXT = "".join(f"line {n}\n" for n in range(1, 41))
NAMES = ("a.txt", "b.txt", "c.txt")


def hunk(number: int, *, right: bool) -> str:
    around = "line" if right else "no such"
    return f"@@\n {around} {number - 1}\n-{around} {number}\n+new {number}\n {around} {number + 1}\n"


def patch(hunks: list[tuple[str, int]], wrong: tuple[str, int] | None = None) -> str:
    files = {path: [n for name, n in hunks if name == path] for path in NAMES}
    body = "".join(
        f"--- a/{path}\n+++ b/{path}\n" + "".join(hunk(n, right=(path, n) != wrong) for n in numbers)
        for path, numbers in files.items()
        if numbers
    )
    return f"```diff\n{body}```\n"


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sets(st.tuples(st.sampled_from(NAMES), st.sampled_from(range(3, 40, 6))), min_size=2, max_size=6),
    st.data(),
)
def test_an_edit_in_parts_has_the_same_result(
    repo: GitRepo, wanted: set[tuple[str, int]], data: st.DataObject
) -> None:
    """One hunk is wrong at first, and is sent again corrected: alone, or together with others."""
    hunks = sorted(wanted)
    wrong = data.draw(st.sampled_from(hunks))
    again = data.draw(st.sets(st.sampled_from(hunks))) | {wrong}
    before = repo.commit(**dict.fromkeys(NAMES, TEXT))

    def rest(_: Request) -> str:
        assert (repo.status(), [repo.read(path).decode() for path in NAMES]) == ("", [TEXT] * 3)
        return patch(sorted(again))

    outcome, _, _ = go(repo, patch(hunks, wrong), rest, DONE, name=new_name("run"))
    assert (outcome.kind, repo.git("rev-parse", "HEAD^").strip()) == ("done", before)
    for path in NAMES:
        text = TEXT
        for name, n in hunks:
            text = text.replace(f"line {n}\n", f"new {n}\n") if name == path else text
        assert repo.read(path).decode() == text
