"""The user edits lines that a run has changed: the run does not commit them, and nothing is lost."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path

import pytest

from repoagent.agent.approvals.policy import Verdict
from repoagent.cli.app import cli
from repoagent.cli.run_program import run as run_command
from repoagent.edit.undo import undo
from repoagent.errors import Refused
from repoagent.git.transaction.results import Inseparable, Options
from repoagent.git.worktree import open_worktree
from repoagent.tasks.restore import restore_changes, uncommitted_diff, uncommitted_files
from tests.conftest import GitRepo
from tests.tasks import bare
from tests.tasks.bare import DONE, EDIT, NAME, Answer, User, committed, diff, go, run_dir

REST = "".join(f"{n}\n" for n in range(10))
MINE = "mine\n" + REST  # the user's line in place of the run's
COMMITTED = {"f.txt": "one\n" + REST}


def then(repo: GitRepo, reply: str, *, staged: str | None = None, **files: str | bytes | None) -> Answer:
    """A slow reply, during which the user stages f.txt as `staged`, and saves files."""

    def save() -> None:
        if staged is not None:
            repo.write("f.txt", staged)
            repo.git("add", "f.txt")
        for name, text in files.items():
            path = name.replace("_", ".")
            if text is None:
                (repo.top / path).unlink()
            else:
                repo.write(path, text)

    return bare.then(save, reply)


def notes(user: User) -> str:
    return "\n".join(user.sentences)


def mix(repo: GitRepo) -> list[Answer]:
    """Replies in which the run changes a line again that the user changed after it."""
    return [EDIT, then(repo, diff("f.txt", "mine", "again"), f_txt=MINE), DONE]


def test_a_users_line_on_the_runs_line_is_not_committed(repo: GitRepo) -> None:
    """Unless the user wants it."""
    outcome, _, user = go(repo, EDIT, then(repo, DONE, f_txt=MINE))
    assert repo.git("show", "HEAD:f.txt") == "two\n" + REST
    assert (repo.read("f.txt"), repo.status()) == (MINE.encode(), " M f.txt\n")
    assert "note: your own changes to f.txt are not in the commit: they stay in the file" in notes(user)
    assert (outcome.kind, outcome.left, len(outcome.commits)) == ("done", (), 1)
    made = repo.head()
    with pytest.raises(Refused, match="later changes on the same lines"):
        undo(open_worktree(repo.top))
    assert (repo.head(), repo.read("f.txt")) == (made, MINE.encode())
    repo.git("reset", "-q", "--hard", "HEAD^")
    include = Options(include_dirty=True)
    go(repo, EDIT, then(repo, DONE, f_txt=MINE), commit=include, name=f"{NAME}2")
    assert (repo.git("show", "HEAD:f.txt"), repo.status()) == (MINE, "")


@pytest.mark.parametrize("staged", [MINE, MINE.replace("9", "nine"), "two\n" + REST])
def test_the_users_staged_line_stays_staged(repo: GitRepo, staged: str) -> None:
    go(repo, EDIT, then(repo, DONE, staged=staged, f_txt=MINE))
    assert (repo.git("show", "HEAD:f.txt"), repo.git("show", ":f.txt")) == ("two\n" + REST, staged)
    assert repo.read("f.txt") == MINE.encode()


def test_a_new_file_that_the_user_changes(repo: GitRepo) -> None:
    new = "```diff\n--- /dev/null\n+++ b/g.txt\n@@ -0,0 +1 @@\n+g\n```\n"
    go(repo, new, then(repo, DONE, g_txt="g\nmine\n"))
    assert (repo.git("show", "HEAD:g.txt"), repo.read("g.txt")) == ("g\n", b"g\nmine\n")
    repo.git("reset", "-q", "--hard", "HEAD^")
    go(repo, new, then(repo, DONE, g_txt=None), name=f"{NAME}2")
    assert "g.txt" not in repo.git("ls-tree", "--name-only", "HEAD")


def test_a_new_file_at_the_old_path_of_a_renamed_file(repo: GitRepo) -> None:
    move = "```diff\ndiff --git a/f.txt b/h.txt\nsimilarity index 100%\nrename from f.txt\nrename to h.txt\n```\n"
    go(repo, move, then(repo, DONE, f_txt="mine\n", h_txt="mine too\n" + REST))
    assert repo.git("show", "--format=", "--name-status", "-M", "HEAD").split() == ["R100", "f.txt", "h.txt"]
    assert (repo.read("f.txt"), repo.read("h.txt")) == (b"mine\n", ("mine too\n" + REST).encode())
    assert repo.status() == " M h.txt\n?? f.txt\n"


def test_a_file_whose_type_changed(repo: GitRepo) -> None:
    repo.commit(**{"b.bin": b"\0one\n"})
    go(repo, EDIT, "<run>printf '\\0two\\n' > b.bin</run>", then(repo, DONE, b_bin=b"\0mine\n"), mode="ask")
    assert (repo.git("show", "HEAD:b.bin"), repo.read("b.bin")) == ("\0two\n", b"\0mine\n")

    file = repo.top / "f.txt"
    link = bare.then(lambda: (file.unlink(), file.symlink_to("b.bin")))
    go(repo, diff("f.txt", "two", "three"), link, name=f"{NAME}2")
    assert repo.git("show", "HEAD:f.txt") == "three\n" + REST
    assert file.readlink() == Path("b.bin")


FORMATS = "sed -i s/9/nine/ f.txt && git add f.txt\n"
FAILS = "grep -q nine f.txt || { sed -i s/9/nine/ f.txt; exit 1; }\n"
STAGES = "git add -u\n"
ONLY_STAGED = (
    "blob=$(git show :f.txt | sed s/9/nine/ | git hash-object -w --stdin)\n"
    "git update-index --cacheinfo 100644,$blob,f.txt\n"
)


@pytest.mark.parametrize(
    "hook", [FORMATS, FAILS, STAGES, ONLY_STAGED], ids=["formats", "fails", "stages", "index"]
)
def test_hooks_that_rewrite_or_stage_the_file(repo: GitRepo, hook: str) -> None:
    """The hook's changes are in the commit, the user's are not, and undo keeps those."""
    before = repo.head()
    repo.hook("pre-commit", hook)
    go(repo, EDIT, then(repo, DONE, f_txt=MINE))
    formatted = REST.replace("9", "nine")
    assert repo.git("show", "HEAD:f.txt") == "two\n" + (REST if hook == STAGES else formatted)
    in_file = formatted if hook in {FORMATS, FAILS} else REST
    assert repo.read("f.txt") == ("mine\n" + in_file).encode()
    repo.write("f.txt", "two\n" + in_file)
    undo(open_worktree(repo.top))
    assert (repo.head(), repo.read("f.txt")) == (before, ("one\n" + REST).encode())


def test_undo_keeps_the_users_staged_line(repo: GitRepo) -> None:
    before, staged = repo.head(), "two\n" + REST + "mine\n"
    go(repo, EDIT, then(repo, DONE, staged=staged, f_txt=staged + "more\n"))
    undo(open_worktree(repo.top))
    assert (repo.head(), repo.git("show", ":f.txt")) == (before, "one\n" + REST + "mine\n")
    assert repo.read("f.txt") == ("one\n" + REST + "mine\nmore\n").encode()


# -- the run changes the user's lines again


@pytest.mark.parametrize("whole", [True, False])
def test_an_inseparable_line_is_reported_with_the_remedies(repo: GitRepo, whole: bool) -> None:
    """Nothing is restored; then it is committed whole, or restored by hand."""
    before, worktree = repo.head(), open_worktree(repo.top)
    remedies = r"changed the same lines in f\.txt: .* --include-dirty .* by hand, .* restore"
    with pytest.raises(Inseparable, match=remedies):
        go(repo, *mix(repo))
    done = restore_changes(worktree, run_dir(repo))
    assert (done.paths, done.left) == ((), ("f.txt",))
    assert (repo.head(), repo.read("f.txt")) == (before, ("again\n" + REST).encode())
    assert "+again" in uncommitted_diff(worktree, run_dir(repo))
    if whole:
        repo.write("f.txt", "again\n" + REST + "more\n")
        outcome, model, user = go(repo, prompt="", commit=Options(include_dirty=True))
        assert "note: the commit includes your own changes to f.txt" in notes(user)
        assert (model.seen, outcome.left, repo.status()) == ([], (), "")
        assert repo.git("show", "HEAD:f.txt") == "again\n" + REST + "more\n"
    else:
        repo.git("checkout", "-q", "f.txt")
        assert not restore_changes(worktree, run_dir(repo)).left
        assert uncommitted_files(worktree, run_dir(repo)) == ()


def test_an_inseparable_file_is_committed_by_hand(repo: GitRepo) -> None:
    repo.commit(**{"g.txt": "one\n"})
    with pytest.raises(Inseparable):
        go(repo, diff("g.txt", "one", "two"), *mix(repo))
    repo.git("commit", "-qm", "mine", "f.txt")
    outcome, _, user = go(repo, prompt="")
    assert (outcome.left, repo.status(), len(outcome.commits)) == ((), "", 1)
    assert committed(repo) == ["g.txt"]
    assert "the last commit already contains the run's change to f.txt" in notes(user)


@pytest.mark.parametrize("yes", [True, False])
def test_the_user_is_asked_to_include_a_whole_file(repo: GitRepo, yes: bool) -> None:
    before = repo.commit(**{"g.txt": "one\n" + REST})
    repo.write("g.txt", "one\n" + REST + "dirty\n")
    user = User(allows=lambda request: Verdict(request.kind != "include" or yes))
    with nullcontext() if yes else pytest.raises(Inseparable):
        replies = [*mix(repo)[:2], then(repo, DONE, f_txt=f"again\n{REST}more\n")]
        go(repo, diff("g.txt", "one", "two"), *replies, user=user, mode="ask")
    if yes:
        assert repo.git("show", "HEAD:f.txt") == f"again\n{REST}more\n"
        assert repo.git("show", "HEAD:g.txt") == "two\n" + REST
        assert repo.status() == " M g.txt\n"
    else:
        assert repo.head() == before
    (shown,) = [request.what for request in user.requests if request.kind == "include"]
    assert "+again" in shown and "+more" in shown


def test_the_user_is_asked_about_earlier_work(repo: GitRepo) -> None:
    repo.write("f.txt", MINE)
    repo.write("u.txt", "one\n")
    edits = [diff("f.txt", "mine", "two"), diff("u.txt", "one", "two")]
    _, _, user = go(repo, *edits, DONE, mode="ask")
    assert [request.kind for request in user.requests] == ["include", "include"]
    assert (repo.status(), repo.git("show", "HEAD:u.txt")) == ("", "two\n")


# -- restore


@pytest.mark.parametrize("whole", [False, True])
def test_restore_skips_overlapping_lines_or_keeps_a_copy(
    repo: GitRepo, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], whole: bool
) -> None:
    """With the command, whose exit code is 3 for a skipped file: the user has changed a line that the run changed."""
    repo.commit(**{"g.txt": "one\n"})
    edits = [diff("g.txt", "one", "two"), EDIT]
    go(repo, *edits, then(repo, DONE, f_txt=MINE), commit=Options(no_commit=True))
    monkeypatch.chdir(repo.top)
    restore = ["runs", "restore", "last", "--yes", "--json"]
    if whole:
        assert run_command(cli, "repoagent", [*restore, "--whole"]) == 0
        (copy,) = json.loads(capsys.readouterr().out)["copies"]
        assert (repo.read(copy), repo.status()) == ((MINE).encode(), "")
        return
    assert run_command(cli, "repoagent", restore) == 3
    shown = capsys.readouterr()
    assert "the run's changes to f.txt, because" in shown.err
    assert [json.loads(shown.out)[key] for key in ("files", "skipped")] == [["g.txt"], ["f.txt"]]
    assert (repo.read("g.txt"), repo.read("f.txt")) == (b"one\n", (MINE).encode())
    assert uncommitted_files(open_worktree(repo.top), run_dir(repo)) == ("f.txt",)
    repo.write("f.txt", "two\n" + REST.replace("9", "mine"))
    assert run_command(cli, "repoagent", restore[:-1]) == 0
    assert capsys.readouterr().out == "restored: f.txt\n"
    assert repo.read("f.txt") == ("one\n" + REST.replace("9", "mine")).encode()
    assert run_command(cli, "repoagent", restore) == 1
