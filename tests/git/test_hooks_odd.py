"""Hooks with side effects: the commit is the edit as they left it, and everything else is unchanged."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from repoagent.errors import Refused
from repoagent.git.transaction.finish import recover
from repoagent.git.transaction.results import HookFailed, UnfinishedTransaction
from tests.conftest import GitRepo
from tests.git.edits import change, committed, edit, lines, shout, staged, worktree
from tests.git.only import nothing_left, only, seen, unchanged

pytestmark = pytest.mark.soak

LINES = lines()


FAILING = ["pre-commit", "prepare-commit-msg", "commit-msg"]
WAYS = [
    "exit 1\n",
    "git add -u; exit 1\n",
    "exit 255\n",
    "kill -9 $$\n",
    "kill -9 $PPID\n",
    "git add -A; exit 3\n",
]


@pytest.mark.parametrize(
    ("name", "script"),
    [
        pytest.param(name, way, marks=[] if n % 3 == m else pytest.mark.soak)
        for m, name in enumerate(FAILING)
        for n, way in enumerate(WAYS)
    ],
)
def test_that_fail(messy: GitRepo, name: str, script: str) -> None:
    messy.hook(name, script)
    before, head = seen(messy), messy.head()
    with pytest.raises(HookFailed):
        edit(messy, shout(messy, 2))
    unchanged(messy, before)
    assert messy.head() == head
    nothing_left(messy)


@pytest.mark.parametrize("name", ["post-commit", "post-index-change", "post-rewrite", "fsmonitor-watchman"])
def test_that_fail_too_late_to_count(messy: GitRepo, name: str) -> None:
    messy.hook(name, "exit 1\n")
    only(messy, "a.txt", "line 2", "LINE 2")


def test_that_is_not_executable(messy: GitRepo) -> None:
    messy.hook("pre-commit", "exit 1\n").chmod(0o644)
    only(messy, "a.txt", "line 2", "LINE 2")


def test_without_its_interpreter(messy: GitRepo) -> None:
    messy.hook("pre-commit", "").write_text("#!/nowhere/python\n")
    before = seen(messy)
    with pytest.raises(HookFailed, match=r"pre-commit.*No such file|cannot (run|exec)"):
        edit(messy, shout(messy, 2))
    unchanged(messy, before)


@pytest.mark.parametrize("where", ["hooks", ".husky/_", "absolute"])
def test_in_another_place(messy: GitRepo, where: str, tmp_path: Path) -> None:
    folder = tmp_path / "hooks" if where == "absolute" else messy.top / where
    folder.mkdir(parents=True)
    messy.git("config", "core.hooksPath", str(folder) if where == "absolute" else where)
    hook = folder / "pre-commit"
    hook.write_text(f"#!/bin/sh\npwd > {tmp_path}/ran\n")
    hook.chmod(0o755)
    only(messy, "a.txt", "line 2", "LINE 2")
    assert (tmp_path / "ran").read_text() == f"{messy.top}\n"


TOUCHING = [
    "git stash -q --keep-index && git stash pop -q\n",
    "git stash -q --keep-index -u; git reset -q --hard; git stash pop -q --index || git stash pop -q\n",
    "git checkout -q -- .\n",
    "git checkout-index -qaf\n",
    "git add -u\n",
    "git add -A\n",
    "git add .; git reset -q; git add -u\n",
    "git reset -q --hard HEAD; git checkout -q HEAD -- a.txt\n",
    "rm -f README.md b.txt\n",
    "git update-index --refresh -q || true\n",
    "git status > /dev/null; git diff > /dev/null; git diff --cached > /dev/null\n",
    "git checkout -q-index 2> /dev/null; true\n",
    "git ls-files -z | xargs -0 -P4 -n1 git add 2> /dev/null; true\n",
]


@pytest.mark.parametrize(
    "script", [*TOUCHING[:6], *(pytest.param(one, marks=pytest.mark.soak) for one in TOUCHING[6:])]
)
def test_that_touch_the_users_work(messy: GitRepo, script: str) -> None:
    messy.hook("pre-commit", script)
    before, file = seen(messy, "a.txt"), messy.read("a.txt")
    edited = shout(messy, 2)
    if "reset -q --hard HEAD" in script:  # that takes the edit out of what is committed
        with pytest.raises(HookFailed):
            edit(messy, edited)
        assert messy.read("a.txt") == file
    else:
        edit(messy, edited)
        assert messy.git("diff", "--numstat", "HEAD^", "HEAD") == "1\t1\ta.txt\n"
        assert committed(messy, "a.txt") == LINES.replace("line 2", "LINE 2")
        assert messy.read("a.txt") == edited.after
    unchanged(messy, before, "a.txt")
    assert staged(messy, "a.txt").replace("LINE 2", "line 2") == LINES.replace("line 9", "staged 9")
    nothing_left(messy)


def test_that_loses_work_in_the_file_and_passes_the_second_time(messy: GitRepo, tmp_path: Path) -> None:
    """A formatter that reads only the committed text, and does not restore the rest."""
    messy.hook(
        "pre-commit",
        f"git checkout -q -- .; sed -i 's/  */ /' a.txt; test -e {tmp_path}/x && exit; touch {tmp_path}/x; exit 1\n",
    )
    before = seen(messy, "a.txt")
    edit(messy, change(messy, "a.txt", "line 2", "LINE    2"))
    assert committed(messy, "a.txt") == LINES.replace("line 2", "LINE 2")
    assert messy.read("a.txt").decode() == LINES.replace("line 2", "LINE 2").replace(
        "line 6", "unstaged 6"
    ).replace("line 9", "staged 9")
    unchanged(messy, before, "a.txt")


def test_formatter_that_does_not_add_again(repo: GitRepo) -> None:
    repo.hook("pre-commit", "sed -i 's/  */ /' a.txt\n")
    edit(repo, change(repo, "a.txt", "line 2", "LINE    2"))
    assert committed(repo, "a.txt") == LINES.replace("line 2", "LINE    2")
    assert repo.read("a.txt").decode() == LINES.replace("line 2", "LINE 2")
    assert repo.status() == " M a.txt\n"
    nothing_left(repo)


def test_that_delete_the_file(repo: GitRepo) -> None:
    repo.hook("pre-commit", "git rm -qf a.txt\n")
    result = edit(repo, shout(repo, 2))
    assert repo.git("diff", "--name-status", "HEAD^", "HEAD") == "D\ta.txt\n" and "a.txt" in result.folded
    assert repo.status() == "" and not (repo.top / "a.txt").exists()


def test_that_delete_the_file_with_the_users_work_in_it(messy: GitRepo) -> None:
    messy.hook("pre-commit", "git rm -qf --cached a.txt; rm a.txt\n")
    edited = shout(messy, 2)
    result = edit(messy, edited)
    assert messy.git("diff", "--name-status", "HEAD^", "HEAD") == "D\ta.txt\n" and "a.txt" in result.folded
    assert messy.read("a.txt") == edited.after and result.restored == ("a.txt",)
    assert staged(messy, "a.txt") == LINES.replace("line 2", "LINE 2").replace("line 9", "staged 9")


def test_that_make_a_file(messy: GitRepo) -> None:
    messy.hook("pre-commit", "wc -l < a.txt > COUNT; echo x > build.log; git add COUNT\n")
    before = seen(messy, "a.txt", "COUNT", "build.log")
    edit(messy, shout(messy, 2))
    assert messy.git("diff", "--name-status", "HEAD^", "HEAD") == "A\tCOUNT\nM\ta.txt\n"
    assert messy.status().endswith("?? build.log\n?? src/app.py\n?? untracked.txt\n")
    (messy.top / "build.log").unlink()
    after = seen(messy, "a.txt", "COUNT", "build.log")
    assert {name for name in before if before[name] != after[name]} == {"bits"}


IN_THE_WAY = [
    "rm -rf src\n",
    "rm README.md; mkdir README.md\n",
    "rm README.md; mkdir README.md; touch README.md/x\n",
    "rm -rf src; touch src\n",
    "rm -rf src; ln -s /nowhere src\n",
    "rm -rf src; ln -s . src\n",
    "rm README.md; mkfifo README.md\n",
    "rm a.txt; mkdir a.txt\n",
    "rm a.txt; mkdir a.txt; touch a.txt/x\n",
    "rm a.txt; mkfifo a.txt\n",
]


@pytest.mark.parametrize(
    ("script", "code"),
    [
        pytest.param(script, code, marks=[] if n % 2 == code else pytest.mark.soak)
        for n, script in enumerate(IN_THE_WAY)
        for code in (0, 1)
    ],
)
def test_that_put_something_in_the_place_of_a_file(repo: GitRepo, script: str, code: int) -> None:
    """The obstacle is removed, or reported and waited for: when it is gone, the next command restores the file."""
    repo.write("README.md", "mine\n")
    repo.write("src/app.py", "mine too\n")
    before, head = seen(repo, "a.txt"), repo.head()
    repo.hook("pre-commit", f"{script}exit {code}\n")
    edited = shout(repo, 2)
    try:
        edit(repo, edited)
    except (HookFailed, UnfinishedTransaction, Refused) as error:
        assert code or "next repoagent command" in str(error), error
    for path in ("a.txt", "README.md", "src"):
        there = repo.top / path
        if there.is_symlink() or there.is_fifo() or there.is_file() == (path == "src"):
            there.unlink() if not there.is_dir() or there.is_symlink() else shutil.rmtree(there)
    recover(worktree(repo))
    assert (repo.head() == head) == bool(code)
    if not code:  # the hook has removed it
        repo.git("checkout", "-q", "--", "a.txt")
    assert repo.git("diff", "--cached", "--name-only") == ""
    unchanged(repo, before, "a.txt")
    nothing_left(repo)


@pytest.mark.parametrize("script", ["echo gone > README.md", "rm README.md; ln -s a.txt README.md"])
def test_that_write_over_the_users_work(repo: GitRepo, script: str) -> None:
    """It may be a save of the user, so it stays; the previous content is kept and reported."""
    repo.write("README.md", "mine\n")
    repo.hook("pre-commit", script)
    (note,) = edit(repo, shout(repo, 2)).notes
    assert repo.read("README.md") != b"mine\n" and note.startswith("README.md changed")
    assert Path(note.rpartition(" ")[2]).read_bytes() == b"mine\n"


def test_that_put_a_link_in_the_place_of_the_file_and_fail(repo: GitRepo) -> None:
    repo.hook("pre-commit", "rm a.txt; ln -s README.md a.txt; exit 1\n")
    with pytest.raises(HookFailed, match=r"a\.txt changed") as caught:
        edit(repo, shout(repo, 2))
    assert (repo.top / "a.txt").is_symlink()
    kept = next(word for word in str(caught.value).split() if "/old-0" in word).rstrip(".;")
    assert Path(kept).read_text() == LINES
