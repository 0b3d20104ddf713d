"""Hooks that change history, the message or references: their results stay, and what is impossible is reported."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from repoagent.errors import Exit
from repoagent.git.transaction.results import HookFailed
from tests.conftest import GitRepo
from tests.git.edits import committed, edit, lines, recovered, shout, staged
from tests.git.only import nothing_left, only, seen, unchanged

pytestmark = pytest.mark.soak

LINES = lines()


@pytest.mark.parametrize("name", ["pre-commit", "post-commit"])
def test_that_commit_themselves(messy: GitRepo, name: str) -> None:
    """Before: that is the commit then. After: the hook's commit is on top of the edit's, and both stay."""
    messy.hook(
        name,
        'test -n "$INSIDE" && exit\nINSIDE=1; export INSIDE\necho 2 > VERSION\ngit add VERSION\ngit commit -qm theirs\n',
    )
    before, parent = seen(messy, "a.txt", "VERSION"), messy.head()
    result = edit(messy, shout(messy, 2), message="ours")
    subjects = messy.git("log", "--format=%s", f"{parent}..HEAD").split()
    assert subjects == (["theirs", "ours"] if name == "post-commit" else ["theirs"])
    assert result.parent == parent and "hook" in " ".join(result.notes)
    assert messy.git("diff", "--name-status", parent, "HEAD") == "A\tVERSION\nM\ta.txt\n"
    assert committed(messy, "a.txt") == LINES.replace("line 2", "LINE 2")
    after = seen(messy, "a.txt", "VERSION")
    assert {one for one in before if before[one] != after[one]} == {"bits"}
    assert b"unstaged 6" in messy.read("a.txt") and staged(messy, "VERSION") == "2\n"
    nothing_left(messy)


def test_that_amend(messy: GitRepo) -> None:
    messy.hook(
        "post-commit",
        'test -n "$INSIDE" && exit\nINSIDE=1 git commit -q --amend -m amended --trailer Seen:yes\n',
    )
    parent = messy.head()
    before = seen(messy, "a.txt")
    result = edit(messy, shout(messy, 2))
    assert (result.commit, result.parent) == (messy.head(), parent)
    assert messy.git("log", "-1", "--format=%B") == "amended\n\nSeen: yes\n\n"
    assert messy.git("diff", "--numstat", "HEAD^", "HEAD") == "1\t1\ta.txt\n"
    unchanged(messy, before, "a.txt")


def test_that_push_a_commit_that_is_corrected(messy: GitRepo, tmp_path: Path) -> None:
    messy.git("init", "-q", "--bare", str(tmp_path / "there.git"))
    messy.git("remote", "add", "there", str(tmp_path / "there.git"))
    messy.hook("post-commit", "git push -q there main\n")
    only(
        messy,
        "a.txt",
        "line 2",
        "LINE 2",
    ) if False else None
    messy.hook("pre-commit", "git add -u\n")
    result = edit(messy, shout(messy, 2))
    assert result.taken_out
    pushed = messy.git("rev-parse", "there/main").strip()
    assert pushed != result.commit == messy.head()
    assert any(pushed[:12] in note and "push" in note for note in result.notes)


def test_that_rewrite_the_message(messy: GitRepo) -> None:
    messy.hook("prepare-commit-msg", 'echo "# not a comment\n---\nTicket: 1" >> "$1"\n')
    messy.hook(
        "commit-msg",
        'sed -i "s/the edit/The edit/" "$1"; git interpret-trailers --in-place --trailer Change-Id:1 "$1"\n',
    )
    edit(messy, shout(messy, 2), message="the edit\n\nRepoagent-Edit: 1")
    assert messy.git("log", "-1", "--format=%B").startswith("The edit\n")
    assert "Change-Id: 1" in messy.git("log", "-1", "--format=%B")
    assert "# not a comment\n---\nTicket: 1" in messy.git("log", "-1", "--format=%B")


@pytest.mark.parametrize("name", ["commit-msg", "prepare-commit-msg"])
def test_that_empties_the_message(messy: GitRepo, name: str) -> None:
    messy.hook(name, ': > "$1"\n')
    before = seen(messy)
    with pytest.raises(HookFailed, match="empty commit message"):
        edit(messy, shout(messy, 2))
    unchanged(messy, before)


@pytest.mark.parametrize("state", ["prepared", "committed", "aborted"])
def test_veto_of_a_reference(messy: GitRepo, state: str) -> None:
    messy.hook("reference-transaction", f'test "$1" != {state}\n')
    before = seen(messy)
    edited = shout(messy, 2)
    if state == "prepared":
        with pytest.raises(HookFailed, match="hook") as raised:
            edit(messy, edited)
        assert raised.value.by_git
        unchanged(messy, before)
    else:
        edit(messy, edited)
        unchanged(messy, seen(messy))
        assert messy.read("a.txt") == edited.after
    nothing_left(messy)


@pytest.mark.parametrize("adds", ["git add README.md", 'sed -i "s/2/Z/" a.txt; git add README.md a.txt'])
@pytest.mark.parametrize("branch", [None, "new"])
def test_veto_of_the_second_reference_update(
    messy: GitRepo, tmp_path: Path, adds: str, branch: str | None
) -> None:
    """Files that another hook added cannot be removed from the commit then: it is undone, although this hook rejects
    that as well."""
    messy.hook("pre-commit", f"{adds}\n")
    messy.hook(
        "reference-transaction",
        f'test "$1" = prepared && grep -q refs/heads || exit 0\n'
        f"test $(wc -l < {tmp_path}/x) -ge {2 if branch else 1} && echo no-rewriting >&2 && exit 1\n"
        f"echo >> {tmp_path}/x\n",
    )
    (tmp_path / "x").touch()
    before, head = seen(messy), messy.head()
    with pytest.raises(HookFailed, match=r"README\.md(?s:.)*no-rewriting") as raised:
        edit(messy, shout(messy, 2), branch=branch)
    assert raised.value.by_git and raised.value.exit_code == Exit.CHECK_FAILED
    assert messy.head() == head and "new" not in messy.git("branch")
    unchanged(messy, before)
    nothing_left(messy)


def test_veto_of_the_second_reference_update_after_a_crash(messy: GitRepo, tmp_path: Path) -> None:
    """The next command undoes it as well, and says why."""
    messy.hook("pre-commit", "git add README.md\n")
    messy.hook("reference-transaction", f'test "$1" != prepared || ! test -e {tmp_path}/x\n')
    messy.hook("post-commit", f"touch {tmp_path}/x; kill -9 $(ps -o ppid= -p $PPID)\n")
    before, head = seen(messy), messy.head()
    child = os.fork()
    if child == 0:
        edit(messy, shout(messy, 2))
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL and messy.head() != head
    (said,) = recovered(messy)
    assert "rolled back" in said and "README.md" in said
    assert messy.head() == head
    unchanged(messy, before)


def test_no_verify_is_gits_own(messy: GitRepo, tmp_path: Path) -> None:
    for name in ("pre-commit", "commit-msg"):
        messy.hook(name, "exit 1\n")
    messy.hook("prepare-commit-msg", f"touch {tmp_path}/ran\n")
    only(messy, "a.txt", "line 2", "LINE 2", no_verify=True)
    assert (tmp_path / "ran").exists()


def test_that_sweep_in_and_commit_on_top(messy: GitRepo) -> None:
    """The added files are in the history then, and this is reported."""
    messy.hook("pre-commit", "git add README.md\n")
    messy.hook(
        "post-commit",
        'test -n "$INSIDE" && exit\nINSIDE=1; export INSIDE\necho 2 > VERSION\ngit add VERSION\ngit commit -qm theirs\n',
    )
    before = seen(messy, "a.txt", "README.md", "VERSION")
    result = edit(messy, shout(messy, 2), message="ours")
    assert messy.git("log", "-2", "--format=%s").split() == ["theirs", "ours"]
    assert result.commit == messy.git("rev-parse", "HEAD^").strip() and result.taken_out == ()
    assert (
        "a hook added README.md to the commit, where it stays because another commit is on top of it"
        in " ".join(result.notes)
    )
    assert committed(messy, "README.md") == "mine\n" == staged(messy, "README.md")
    after = seen(messy, "a.txt", "README.md", "VERSION")
    assert {one for one in before if before[one] != after[one]} <= {"bits", "status"}
    assert "README.md" not in messy.status() and messy.read("README.md") == b"mine\n"
    nothing_left(messy)


@pytest.mark.parametrize(
    "stages", ["git add b.txt", "git add -N untracked.txt", "git rm -q --cached src/app.py"]
)
def test_that_stage_something_after_the_commit(repo: GitRepo, stages: str) -> None:
    """It is in the index that git used, which must not become the user's."""
    repo.commit("more", **{"b.txt": LINES})
    repo.write("b.txt", "mine\n")
    repo.write("untracked.txt", "mine\n")
    repo.hook("post-commit", f"{stages}\n")
    before = seen(repo, "a.txt")
    edit(repo, shout(repo, 2))
    unchanged(repo, before, "a.txt")
    nothing_left(repo)


def test_that_the_index_is_as_fresh_as_git_leaves_it(repo: GitRepo) -> None:
    """git need not read a file again to see that nothing has changed, not even the one that was edited."""
    repo.commit("more", **{"b.txt": LINES})
    edit(repo, shout(repo, 2))
    assert repo.git("diff-files", "--name-only") == "" == repo.git("diff-index", "--cached", "HEAD")
