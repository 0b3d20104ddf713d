"""An edit becomes one commit; everything else of the user's stays exactly the same, whatever happens meanwhile."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import time
from pathlib import Path

import pytest

from repoagent.errors import Busy, NothingDone, Refused
from repoagent.git import file_writer
from repoagent.git.file_writer import FilesChanged
from repoagent.git.files import Content, FileChange
from repoagent.git.transaction.results import HookFailed, Options
from repoagent.git.transaction.transaction import Transaction
from repoagent.git.undo import undo
from repoagent.git.undo_log import is_shared
from repoagent.git.worktree import WorkTree
from tests.conftest import GitRepo
from tests.git.edits import (
    change,
    committed,
    delete,
    edit,
    journals,
    lines,
    new_file,
    refused,
    shell,
    shout,
    worktree,
)
from tests.git.snapshot import as_before, changed, snapshot, untimed, visible


def test_clean_file(repo: GitRepo) -> None:
    parent = repo.head()
    message = "Shout line 5\n\n#12 is the issue\n---\nnot a diff"
    result = edit(repo, shout(repo, 5), message=message)
    assert (result.parent, result.commit, result.branch) == (parent, repo.head(), "main")
    assert repo.git("log", "-1", "--format=%B%an <%ae>") == message + "\nAda Tester <ada@example.com>\n"
    assert repo.git("diff", "--stat", "HEAD^", "HEAD").split()[0] == "a.txt"
    assert repo.status() == ""
    assert journals(repo) == [] and not (repo.top / ".git/index.lock").exists()
    size = [line for line in repo.git("ls-files", "--debug", "a.txt").splitlines() if "size:" in line]
    assert size[0].split()[1] == str(len(lines()))  # git status need not read the file again


MINE_4 = "sed -i 's/line 4/new\\nmine 4/' a.txt"
SHOUT = ("a.txt", "line 5", "LINE 5")
HOOK = "mkdir -p .git/hooks; echo 'exit 1' > .git/hooks/pre-commit; chmod +x .git/hooks/*"
REFUSED = {
    # the preparation, the edit (path, old, new; None: no file), its options, and the error
    "unstaged work": (
        MINE_4, ("a.txt", "mine 4", "LINE 4"), {}, Refused, r"work in that file on line 5 .*--include-dirty.*--no-commit",
    ),
    "staged work": (
        MINE_4 + "; git add .", ("a.txt", "mine 4", "LINE 4"), {}, Refused, r"uncommitted work in that file on line 5 ",
    ),
    "staged work that the file has not": (
        "sed -i 's/line 4/staged 4/' a.txt; git add a.txt; git show HEAD:a.txt > a.txt",
        ("a.txt", "line 4", "LINE 4"), {}, Refused, "compared with the index",
    ),
    "new where one is deleted": ("rm a.txt", ("a.txt", None, "other\n"), {}, Refused, r"deletion of a\.txt is uncommitted"),
    "deletion with other work": ("echo mine > README.md", ("README.md", "", None), {}, Refused, "cannot separate"),
    "unmerged": (
        "echo stashed > README.md; git stash -q; echo other > README.md; git commit -qam other; ! git stash pop -q",
        SHOUT, {}, Refused, r"merge conflicts in README\.md",
    ),
    "the commit has it already": (
        "sed -i 's/line 5/old 5/' a.txt", ("a.txt", "old 5", "line 5"), {}, NothingDone, "already contains this change",
    ),
    "a message that cannot be encoded": (
        "git config i18n.commitEncoding ISO-8859-1", SHOUT, {"message": "日本"}, Refused, "ISO-8859-1",
    ),
    "no identity": (
        "printf '[user]\nuseConfigOnly=true' > ~/.gitconfig", SHOUT, {}, HookFailed, r"(?s)user\.email.*user\.name",
    ),
    "an empty name": (
        "printf '[user]\nname =' > ~/.gitconfig", SHOUT, {}, HookFailed, r"(?s)user\.email.*user\.name",
    ),
    "no key": (
        "git config gpg.format ssh; git config user.signingkey /nowhere/key", SHOUT, {"sign": ""}, HookFailed, "nowhere",
    ),
    "an empty message": (
        "printf '#!/bin/sh\n: > \"$1\"' > ../editor; chmod +x ../editor; git config core.editor $PWD/../editor",
        SHOUT, {"edit_message": True}, HookFailed, "failed",
    ),
    "a hook": (HOOK, SHOUT, {"branch": "topic"}, HookFailed, ""),
    "a hook, detached": (f"git checkout -q --detach; {HOOK}", SHOUT, {"branch": "topic"}, HookFailed, ""),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_refused(repo: GitRepo, case: str) -> None:
    script, (path, old, new), options, error, match = REFUSED[case]
    shell(repo, script)
    if old is None:
        the_change = new_file(path, (new or "").encode())
    else:
        the_change = delete(repo, path) if new is None else change(repo, path, old, new)
    raised = refused(repo, error, match, the_change, **options)
    assert not isinstance(raised, HookFailed) or raised.by_git == ("hook" not in case)


def test_a_branch_that_cannot_be_created(repo: GitRepo) -> None:
    repo.git("branch", "topic/one")
    for name in ("main", "a..b", "-x", "main/x", "topic", "topic/one/two"):
        refused(repo, Refused, "branch", shout(repo, 5), branch=name)


def test_another_git_cannot_commit_or_edit_in_between(repo: GitRepo) -> None:
    with Transaction(worktree(repo), [shout(repo, 5)]) as transaction:
        text = (repo.top / ".git/index.lock").read_text()
        assert transaction.id in text and str(os.getpid()) in text
        transaction.write()
        command = ["git", "commit", "-qam", "theirs"]
        other = subprocess.run(command, cwd=repo.top, capture_output=True, check=False)
        assert other.returncode != 0 and b"index.lock" in other.stderr
        with pytest.raises(Busy, match=f"process {os.getpid()}"):
            edit(repo, change(repo, "README.md", "# Sample", "# Other"))
        result = transaction.commit("edit\n")
    assert repo.head() == result.commit and repo.status() == ""


def test_leaving_without_commit_puts_everything_back(repo: GitRepo) -> None:
    shell(repo, "chmod 600 a.txt README.md; echo b > b.txt; git add .; git commit -qm more")
    repo.write("mine.txt", "mine\n")
    before, data = visible(repo), repo.read("a.txt")
    changes = [
        FileChange("a.txt", "c.txt", Content(data), Content(data)),
        change(repo, "b.txt", "b", "B"),
        new_file("deep/er/new.txt", b"new\n"),
        delete(repo, "src/app.py"),
        delete(repo, "README.md"),
    ]
    with Transaction(worktree(repo), changes) as transaction:
        transaction.write()
        assert repo.read("deep/er/new.txt") == b"new\n" and not (repo.top / "src").exists()
        assert (repo.top / "c.txt").stat().st_mode & 0o777 == 0o600
    assert visible(repo) == before and not (repo.top / "deep").exists()
    assert {(repo.top / name).stat().st_mode & 0o777 for name in ("a.txt", "README.md")} == {0o600}


def test_a_file_saved_during_the_check_is_left_and_not_committed(repo: GitRepo) -> None:
    others = [change(repo, "src/app.py", "hello", "hi"), change(repo, "README.md", "Sample", "X")]
    edits = [shout(repo, 5), *others]
    with Transaction(worktree(repo), edits) as transaction:
        transaction.write()
        repo.write("a.txt", "saved by the user\n")
        (repo.top / "README.md").unlink()
    assert transaction.left == ("README.md", "a.txt") and not (repo.top / "README.md").exists()
    assert repo.read("a.txt") == b"saved by the user\n" and b"hello" in repo.read("src/app.py")
    folder = next((repo.top / ".git/repoagent/kept").iterdir())
    assert (folder / "old-0").read_bytes().decode() == lines()
    repo.write("a.txt", lines())
    with Transaction(worktree(repo), [shout(repo, 5)]) as transaction:
        transaction.write()
        repo.write("a.txt", repo.read("a.txt") + b"more\n")
        transaction.commit("edit\n")
    assert committed(repo, "a.txt") == lines({5: "LINE 5"}) and "+more" in repo.git("diff")


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("path", ["a.txt", "n/new.txt"])
def test_file_changed_before_the_write(
    repo: GitRepo, monkeypatch: pytest.MonkeyPatch, path: str, late: bool
) -> None:
    """Or, `late`, while the others are written."""
    last = shout(repo, 5) if path == "a.txt" else new_file(path, b"ours\n")
    changes = [change(repo, "src/app.py", "hello", "hi"), last]
    with pytest.raises(FilesChanged) as caught, Transaction(worktree(repo), changes) as transaction:
        if late:
            monkeypatch.setattr(file_writer, "new_folders", lambda *_: repo.write(path, "theirs\n") and ())
        else:
            repo.write(path, "theirs\n")
        transaction.write()
    assert caught.value.current == {path: Content(b"theirs\n")}
    assert b"hello" in repo.read("src/app.py") and repo.read(path) == b"theirs\n" and journals(repo) == []
    assert transaction.left == () and not (repo.top / ".git/repoagent/kept").exists()


@pytest.mark.parametrize("planned", [False, True])
def test_files_are_kept_without_a_commit(repo: GitRepo, planned: bool) -> None:
    parent = repo.head()
    with Transaction(worktree(repo), [shout(repo, 5)], Options(no_commit=not planned)) as transaction:
        transaction.write()
        assert (repo.top / ".git/index.lock").exists() is planned
        transaction.keep()
    assert not (repo.top / ".git/index.lock").exists() and journals(repo) == []
    assert repo.head() == parent and repo.status() == " M a.txt\n"
    undo(worktree(repo))
    assert repo.status() == ""


def test_new_branch(repo: GitRepo) -> None:
    parent = repo.head()
    repo.write("README.md", "mine\n")
    assert edit(repo, shout(repo, 5), branch="topic/one").branch == "topic/one"
    assert repo.git("symbolic-ref", "--short", "HEAD") == "topic/one\n"
    assert repo.git("rev-parse", "main").strip() == parent and repo.status() == " M README.md\n"
    actions = repo.git("log", "-g", "--format=%gs", "HEAD").splitlines()
    assert actions[1].startswith("checkout: moving from main to topic/one (")
    detached = repo.head()
    repo.git("checkout", "-q", "--detach")
    edit(repo, shout(repo, 6), branch="two")
    assert f"checkout: moving from {detached} to two (" in repo.git("log", "-g", "--format=%gs", "HEAD")


def test_foreign_index_file(repo: GitRepo, monkeypatch: pytest.MonkeyPatch) -> None:
    changes = [shout(repo, 5)]
    monkeypatch.setenv("GIT_INDEX_FILE", str(repo.top / ".git" / "next-index-1.lock"))
    with pytest.raises(Refused, match="GIT_INDEX_FILE"), Transaction(worktree(repo), changes):
        pass
    assert journals(repo) == []
    monkeypatch.setenv("GIT_INDEX_FILE", ".git/index")
    edit(repo, *changes)
    monkeypatch.delenv("GIT_INDEX_FILE")
    assert repo.status() == ""


def test_skip_worktree_and_assume_unchanged_stay(repo: GitRepo) -> None:
    repo.git("update-index", "--skip-worktree", "a.txt", "README.md")
    repo.git("update-index", "--assume-unchanged", "src/app.py")
    repo.write("a.txt", lines({9: "private 9"}))
    repo.write("src/app.py", b"# private\n" + b"\n" * 9 + repo.read("src/app.py"))
    bits = repo.git("ls-files", "-v")
    edit(repo, shout(repo, 2), change(repo, "src/app.py", "hello", "hi"))
    assert repo.git("ls-files", "-v") == bits
    assert committed(repo, "a.txt") == lines({2: "LINE 2"})
    assert "private" not in committed(repo, "src/app.py") and b"private" in repo.read("src/app.py")
    assert b"private 9" in repo.read("a.txt") and repo.status() == ""


def test_sha256_repository(tmp_path: Path) -> None:
    repo = GitRepo(tmp_path / "sha256")
    subprocess.run(["git", "init", "-q", "--object-format=sha256", str(repo.top)], check=True)
    repo.write("a.txt", lines())
    repo.write("b.txt", "b\n")
    repo.commit("first")
    edit(repo, shout(repo, 5), delete(repo, "b.txt"))
    assert repo.status() == "" and len(repo.head()) == 64


def test_signed_by_ssh(repo: GitRepo, tmp_path: Path) -> None:
    key = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    allowed = tmp_path / "allowed"
    allowed.write_text(f"ada@example.com {key.with_suffix('.pub').read_text()}")
    for name, value in [
        ("gpg.format", "ssh"), ("user.signingkey", str(key)), ("commit.gpgsign", "true"),
        ("gpg.ssh.allowedSignersFile", str(allowed)),
    ]:  # fmt: skip
        repo.git("config", name, value)
    edit(repo, shout(repo, 5))
    assert repo.git("log", "-1", "--format=%G?") == "G\n"
    repo.hook("pre-commit", "git add -u\n")
    repo.write("README.md", "mine\n")
    assert edit(repo, shout(repo, 6)).taken_out == ("README.md",)
    assert repo.git("log", "-1", "--format=%G?") == "G\n"
    # a file added by a hook cannot be removed from the commit if the second signature fails: there is no commit
    program = tmp_path / "once"
    program.write_text(f'#!/bin/sh\ntest -e {key}.used && exit 1\ntouch {key}.used\nexec ssh-keygen "$@"\n')
    program.chmod(0o755)
    repo.git("config", "gpg.ssh.program", str(program))
    refused(repo, HookFailed, r"README\.md", shout(repo, 4))


def test_several_processes_edit_one_file(repo: GitRepo) -> None:
    def edits(number: int) -> None:
        while True:
            try:
                edit(repo, shout(repo, number), message=str(number))
                return
            except (Busy, FilesChanged):
                time.sleep(0.01)

    numbers = [2, 4, 6, 8]
    fork = multiprocessing.get_context("fork")
    processes = [fork.Process(target=edits, args=[number]) for number in numbers]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    expected = lines({number: f"LINE {number}" for number in numbers})
    assert repo.read("a.txt").decode() == expected == committed(repo, "a.txt")
    assert sorted(repo.git("log", "--format=%s").splitlines()) == [*map(str, numbers), "first commit"]
    assert repo.status() == "" and journals(repo) == []


OWN = {"file a.txt", "index a.txt", "status a.txt"}

PLUMBING = "git update-ref HEAD $(git commit-tree -p HEAD -m theirs HEAD^{tree})"
ONCE = 'test -n "$AGAIN" && exit; export AGAIN=1; '
MEDDLING_HOOKS = {
    # the hook, its script, whether the edit is committed, and the commits since
    "before, by plumbing": ("pre-commit", PLUMBING, False, ["theirs"]),
    "before, in prepare-commit-msg": ("prepare-commit-msg", PLUMBING, False, ["theirs"]),
    "the edit itself": ("pre-commit", "git commit -q --no-verify -m theirs", True, ["theirs"]),
    "after": ("post-commit", ONCE + "echo 1 > COUNT; git add COUNT; git commit -qm theirs", True, ["theirs", "edit"]),
    "after, two": (
        "post-commit", ONCE + "for n in 1 2; do git commit -q --allow-empty -m theirs; done", True, ["theirs", "theirs", "edit"],
    ),
    "after, by plumbing": ("post-commit", PLUMBING, True, ["theirs", "edit"]),
    "amended after": ("post-commit", ONCE + "git commit -q --amend -m numbered", True, ["numbered"]),
}  # fmt: skip


@pytest.mark.parametrize("how", MEDDLING_HOOKS)
def test_a_hook_that_commits_loses_neither_its_commit_nor_ours(repo: GitRepo, how: str) -> None:
    """Nor the user's other work."""
    hook, script, done, subjects = MEDDLING_HOOKS[how]
    shell(repo, "echo staged > README.md; git add README.md; sed -i 's/line 9/mine 9/' a.txt")
    repo.hook(hook, script)
    before, start = snapshot(repo), repo.head()
    moved = {"ref refs/heads/main"}
    if done:
        made = edit(repo, shout(repo, 2))
        assert changed(before, snapshot(repo)) - moved <= OWN | {"file COUNT", "index COUNT"}
        assert repo.git("rev-parse", f"{made.commit}^").strip() == start
        assert committed(repo, "a.txt", made.commit) == committed(repo, "a.txt") == lines({2: "LINE 2"})
        by_hook = "git failed, but the commit exists: a hook made it" in made.notes
        assert by_hook == (how == "the edit itself")
    else:
        with pytest.raises((Busy, HookFailed)):
            edit(repo, shout(repo, 2))
        assert changed(untimed(before), untimed(snapshot(repo))) == moved
        assert committed(repo, "a.txt") == lines()
    assert repo.git("log", "--format=%s", f"{start}..HEAD").splitlines() == subjects
    assert repo.status() == "M  README.md\n M a.txt\n"
    assert journals(repo) == []
    if how == "the edit itself":
        undo(worktree(repo))
        as_before(repo, before)


@pytest.mark.parametrize("lock", ["index.lock", "HEAD.lock", "refs/heads/main.lock"])
@pytest.mark.parametrize("how", ["edit", "undo"])
def test_a_lock_of_another_program(repo: GitRepo, lock: str, how: str) -> None:
    edit(repo, shout(repo, 2))
    (repo.top / ".git" / lock).touch()
    before = snapshot(repo)
    with pytest.raises((Busy, HookFailed), match=r"lock") as caught:
        if how == "edit":
            edit(repo, shout(repo, 5))
        else:
            undo(worktree(repo))
    assert isinstance(caught.value, Busy) or how == "edit"
    after = snapshot(repo)
    assert changed(untimed(before), untimed(after)) == set() and changed(before, after) <= OWN
    assert journals(repo) == []


@pytest.mark.soak
def test_a_commit_between_undo_and_its_move_is_kept(repo: GitRepo, monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit made after undo has read HEAD must not be removed with the edit."""
    from repoagent.git import undo as module

    edit(repo, shout(repo, 2))

    def slowly(place: WorkTree, commit: str) -> bool:
        answer = is_shared(place, commit)
        repo.git("commit", "-q", "--allow-empty", "-m", "theirs")
        return answer

    monkeypatch.setattr(module, "is_shared", slowly)
    with pytest.raises(Busy, match="another program moved HEAD: check `git log`"):
        undo(worktree(repo))
    assert repo.git("log", "-1", "--format=%s") == "theirs\n" and b"LINE 2" in repo.read("a.txt")
    assert repo.status() == "" and journals(repo) == []


@pytest.mark.parametrize("moved", ["branch", "commit"])
@pytest.mark.parametrize("at_once", [True, False])
def test_head_that_moves_before_the_commit(repo: GitRepo, moved: str, at_once: bool) -> None:
    """By a program that ignores the lock."""
    other = repo.git("commit-tree", "-p", "HEAD", "-m", "theirs", "HEAD^{tree}").strip()
    with (
        pytest.raises(Busy, match="another program moved HEAD during the edit: run the edit again"),
        Transaction(worktree(repo), [shout(repo, 5)]) as transaction,
    ):
        transaction.write()
        if moved == "commit":
            repo.git("update-ref", "HEAD", other)
        else:
            repo.git("branch", "other")
            repo.git("symbolic-ref", "HEAD", "refs/heads/other")
        transaction.commit("edit\n", at_once=at_once)
    assert repo.status() == "" and b"LINE 5" not in repo.read("a.txt") and journals(repo) == []
    assert repo.git("log", "--format=%s", "-1").strip() == ("theirs" if moved == "commit" else "first commit")
