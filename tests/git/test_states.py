"""Every kind of edit against every state of its file, with results computed without git, and of the repository."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import pytest

from repoagent.errors import NothingDone, Refused
from repoagent.git.files import Content, FileChange
from repoagent.git.transaction.results import Options
from repoagent.git.transaction.transaction import Transaction
from repoagent.git.undo import redo, undo
from tests.conftest import GitRepo
from tests.git.conftest import PATH, text
from tests.git.edits import change, delete, edit, keep, lines, new_file, shell, shout, undo_and_redo, worktree
from tests.git.snapshot import as_before, changed, snapshot, untouched

EDITED = 11  # the line that an edit replaces in each version of the file, or it is refused
NEW_PATH = "moved/b.txt"


class Version(NamedTuple):
    """The file in HEAD, the index or the work tree."""

    text: str
    mode: str = "100644"

    @property
    def line(self) -> str:
        return self.text.splitlines()[EDITED - 1]

    @property
    def edited(self) -> Version:
        lines = self.text.splitlines()
        lines[EDITED - 1] = "EDITED"
        return self._replace(text="\n".join(lines) + "\n")

    @property
    def other_mode(self) -> str:
        return "100644" if self.mode == _X else _X


_X = "100755"
HEAD, MINE_3, MINE_11 = Version(text()), Version(text(l3="mine")), Version(text(l11="mine"))
BOTH = Version(text(l3="mine", l18="mine"))
STATES = {
    # what is staged, and what is in the file
    "clean": (HEAD, HEAD),
    "unstaged": (HEAD, Version(text(l18="mine"))),
    "staged": (MINE_3, MINE_3),
    "both": (MINE_3, BOTH),
    "both on one line": (MINE_3, Version(text(l3="other"))),
    "partly staged, by `git add -p`": (MINE_3, Version(text(l3="mine", l19="mine"))),
    "staged and taken back": (MINE_3, HEAD),
    "unstaged conflict": (HEAD, MINE_11),
    "staged conflict": (MINE_11, MINE_11),
    "both conflict": (MINE_11, Version(text(l11="other"))),
    "staged conflict taken back": (MINE_11, HEAD),
    "neighbouring line": (HEAD, Version(text(l12="mine"))),
    "unstaged mode": (HEAD, HEAD._replace(mode=_X)),
    "staged mode": (HEAD._replace(mode=_X), HEAD._replace(mode=_X)),
    "everything": (MINE_3._replace(mode=_X), BOTH),
}
KINDS = ("modify", "delete", "rename", "rename and edit", "mode")


def prepare(repo: GitRepo, state: str) -> None:
    file, (staged, work) = repo.top / PATH, STATES[state]
    if "-p" in state:
        repo.write(PATH, work.text)
        repo.git("add", "-p", PATH, stdin=b"y\nn\n")
        return
    for version in (staged, work):
        if file.read_text() != version.text:
            repo.write(PATH, version.text)
        file.chmod(int(version.mode[-3:], 8))
        if version is staged:
            repo.git("add", PATH)


def change_of(kind: str, work: Version) -> FileChange:
    old, new = (Content(one.text.encode(), one.mode) for one in (work, work.edited))
    return {
        "modify": FileChange.at(PATH, old, new),
        "delete": FileChange.at(PATH, old, None),
        "rename": FileChange(PATH, NEW_PATH, old, old),
        "rename and edit": FileChange(PATH, NEW_PATH, old, new),
        "mode": FileChange.at(PATH, old, replace(old, mode=work.other_mode)),
    }[kind]


def expected(kind: str, versions: tuple[Version, ...]) -> tuple[Version | None, ...] | str:
    """The content of HEAD, index and work tree at the edit's path afterwards, or why the edit is refused."""
    if kind == "rename":
        return versions
    if kind == "delete":
        return (None, None, None) if len({*versions}) == 1 else "refused"
    if kind == "mode":
        mode = versions[2].other_mode
        return "nothing" if mode == HEAD.mode else tuple(one._replace(mode=mode) for one in versions)
    return tuple(one.edited for one in versions) if len({one.line for one in versions}) == 1 else "refused"


def found(repo: GitRepo, path: str) -> tuple[Version | None, ...]:
    def stored(listing: str) -> Version | None:
        mode, oid = listing.replace(" blob ", " ").split()[:2] if listing else ("", "")
        return Version(repo.git("cat-file", "blob", oid), mode) if listing else None

    file = repo.top / path
    on_disk = Version(file.read_text(), f"100{file.stat().st_mode & 0o777:o}") if file.exists() else None
    return stored(repo.git("ls-tree", "HEAD", path)), stored(repo.git("ls-files", "-s", path)), on_disk


def keys(*paths: str) -> set[str]:
    return {f"{kind} {path}" for path in paths for kind in ("file", "index", "status")}


QUICK = {
    "modify": ("clean", "both", "staged conflict", "both conflict", "everything"),
    "delete": ("clean",),
    "rename and edit": ("both",),
    "mode": ("unstaged",),
}


@pytest.mark.parametrize(
    ("kind", "state"),
    [
        pytest.param(kind, state, marks=[] if state in QUICK.get(kind, ()) else pytest.mark.soak)
        for kind in KINDS
        for state in STATES
    ],
)
def test_edit_against_the_state_of_its_file(busy: GitRepo, kind: str, state: str) -> None:
    repo = busy
    prepare(repo, state)
    change = change_of(kind, STATES[state][1])
    wanted = expected(kind, (HEAD, *STATES[state]))
    assert found(repo, PATH) == (HEAD, *STATES[state])
    before, parent = snapshot(repo), repo.head()
    if isinstance(wanted, str):
        with pytest.raises(Refused if wanted == "refused" else NothingDone) as caught:
            edit(repo, change)
        assert "--no-commit" in str(caught.value)
        untouched(repo, before)
        if wanted == "refused":
            assert "--include-dirty" in str(caught.value)
            assert "line 11" in str(caught.value) or kind == "delete"
            _offers(repo, change, before)
        return
    made = edit(repo, change)
    after = snapshot(repo)
    own = {change.old_path or "", change.path or PATH}
    assert changed(before, after) <= keys(*own) | {"ref refs/heads/main", "folder moved", "folder sub"}
    assert found(repo, change.path or PATH) == wanted
    if change.is_rename:
        assert found(repo, PATH) == (None, None, None)
    assert repo.git("rev-parse", "HEAD^").strip() == parent == made.parent
    names = repo.git("diff-tree", "-r", "--no-renames", "--name-only", "HEAD^", "HEAD").split()
    assert set(names) == own
    undo(worktree(repo))
    as_before(repo, before)
    assert changed(before, snapshot(repo)) <= keys(PATH)
    redo(worktree(repo))
    as_before(repo, after)


def _offers(repo: GitRepo, change: FileChange, before: dict[str, tuple[object, ...]]) -> None:
    """The two remedies in the refusal work."""
    keep(repo, change)
    folders = {"folder moved", "folder sub"}
    allowed = {f"{kind} {path}" for path in (PATH, NEW_PATH) for kind in ("file", "status")}
    assert changed(before, snapshot(repo)) <= allowed | folders
    undo(worktree(repo))
    as_before(repo, before)
    edit(repo, change, include_dirty=True)
    after = snapshot(repo)
    assert changed(before, after) <= keys(PATH, NEW_PATH) | folders | {"ref refs/heads/main"}
    whole = None if change.after is None else Version(change.after.decode(), change.mode or "")
    assert found(repo, change.path or PATH) == (whole, whole, whole)
    undo_and_redo(repo, before, after)


SEVERAL: dict[str, Callable[[GitRepo], list[FileChange]]] = {
    "new ones and the last of a folder": lambda repo: [
        new_file("new/dir/x.txt", b"x\n"), new_file("empty.txt", b""), new_file("new_link", b"sub/a.txt", "120000"),
        new_file("run.sh", b"#!/bin/sh\n", "100755"), delete(repo, PATH),
    ],
    "another target": lambda repo: [FileChange.at("link.txt", Content(b"sub/a.txt", "120000"), Content(b"README", "120000"))],
    "a link for a file, and no link": lambda repo: [
        FileChange.at(PATH, Content(repo.read(PATH)), Content(b"x", "120000")),
        FileChange.at("link.txt", Content(b"sub/a.txt", "120000"), None),
    ],
    "a file for a link": lambda repo: [FileChange.at("link.txt", Content(b"sub/a.txt", "120000"), Content(b"x\n"))],
}  # fmt: skip


@pytest.mark.parametrize("kind", SEVERAL)
def test_several_files_amid_other_work(busy: GitRepo, kind: str) -> None:
    changes = SEVERAL[kind](busy)
    paths = {one.name for one in changes}
    before = snapshot(busy)
    edit(busy, *changes)
    after = snapshot(busy)
    allowed = {f"{what} {path}" for path in paths for what in ("file", "index")} | {"ref refs/heads/main"}
    assert changed(before, after) <= allowed | {"folder new", "folder new/dir", "folder sub"}
    assert set(busy.git("diff-tree", "-r", "--name-only", "HEAD^", "HEAD").split()) == paths
    assert busy.git("diff", "HEAD", "--", *paths) == ""
    assert (busy.top / "sub").exists() != (kind == "new ones and the last of a folder")
    undo_and_redo(busy, before, after)


LINES = lines().encode()
REPLACED = {
    # what the user has done, the edit in that place, why only a whole commit can have it, and what that changes
    "a folder for a file": (
        "rm a.txt", new_file("a.txt/inner.txt", b"new\n"),
        r"a\.txt/inner\.txt would replace a\.txt, whose deletion is uncommitted", {"D a.txt", "A a.txt/inner.txt"},
    ),
    "a file for a folder": (
        "rm -r src", new_file("src", b"new\n"),
        r"src would replace src/app\.py, whose deletion is uncommitted", {"D src/app.py", "A src"},
    ),
    "a link for a file": (
        "ln -sf README.md a.txt", FileChange.at("a.txt", Content(b"README.md", "120000"), Content(b"src/app.py", "120000")),
        r"cannot separate .* from other uncommitted work in that file.*--include-dirty", {"T a.txt"},
    ),
    "a new file": (
        "cp a.txt b.txt", FileChange.at("b.txt", Content(LINES), Content(LINES.upper())),
        r"b\.txt is (not tracked|staged but not in the last commit).*--include-dirty", {"A b.txt"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("is_staged", [True, False])
@pytest.mark.parametrize("case", REPLACED)
def test_what_the_user_put_in_the_place_of_another(repo: GitRepo, is_staged: bool, case: str) -> None:
    """It is committed only together with the edit."""
    script, the_change, match, committed = REPLACED[case]
    shell(repo, script)
    if is_staged:
        repo.git("add", "-A")
    before = snapshot(repo)
    with pytest.raises(Refused, match=match):
        edit(repo, the_change)
    untouched(repo, before)
    made = edit(repo, the_change, include_dirty=True)
    changes = repo.git("diff-tree", "-r", "--name-status", "HEAD^", "HEAD").splitlines()
    assert {line.replace("\t", " ") for line in changes} == committed
    assert repo.status() == "" and made.taken_out == ()
    undo(worktree(repo))
    as_before(repo, before)


@pytest.mark.soak
def test_a_save_that_git_has_not_refreshed_is_noticed(repo: GitRepo) -> None:
    """A file saved at the time of the index, with the same size, is recognized only by the time of the index: the
    edit's copy of the index must not be newer."""
    repo.git("config", "core.trustctime", "false")
    file = repo.write("README.md", "one\n")
    then = file.stat().st_mtime_ns - 10**10
    os.utime(file, ns=(then, then))
    repo.git("add", "README.md")
    repo.write("README.md", "two\n")
    for path in (file, repo.top / ".git/index"):
        os.utime(path, ns=(then, then))
    assert repo.git("--no-optional-locks", "status", "--porcelain", "README.md") == "MM README.md\n"
    edit(repo, shout(repo, 2))
    assert repo.status() == "MM README.md\n"
    undo(worktree(repo))
    assert repo.status() == "MM README.md\n"


IN_PROGRESS = {
    # what begins it, what it is called, what goes on with it, and the subject of the last commit then
    "merge": (["merge", "side"], "merge", ["commit", "-q", "--no-edit"], "Merge branch 'side'"),
    "rebase": (["rebase", "side"], "rebase", ["rebase", "--continue"], "main"),
    "rebase --apply": (["rebase", "--apply", "side"], "rebase", ["rebase", "--continue"], "main"),
    "rebase -i": (["rebase", "-i", "HEAD~2"], "rebase", ["rebase", "--continue"], "main"),
    "cherry-pick": (["cherry-pick", "side~1"], "cherry-pick", ["cherry-pick", "--continue"], "side 1"),
    "cherry-pick of two": (
        ["cherry-pick", "side~2..side"], "cherry-pick", ["cherry-pick", "--continue"], "side 2",
    ),
    "revert": (["revert", "--no-edit", "HEAD~1"], "revert", ["revert", "--continue"], 'Revert "base"'),
    "revert without a commit": (["revert", "-n", "HEAD"], "revert", ["revert", "--continue"], 'Revert "main"'),
    "am": (["am", "../side.patch"], "am", ["am", "--continue"], "side 1"),
    "squash": (["merge", "--squash", "side"], "squash", ["commit", "-q", "--no-edit"], "Squashed commit of the following:"),
    "stash pop": (["stash", "pop"], "merge conflicts", ["commit", "-q", "-m", "popped"], "popped"),
}  # fmt: skip
FORK = """
echo base > README.md; git commit -qam base; echo stashed > README.md; git stash -q
git checkout -q -b side; echo side > README.md; git commit -qam 'side 1'
echo other > other.txt; git add other.txt; git commit -qm 'side 2'
git checkout -q main; echo main > README.md; git commit -qam main; git format-patch -q --stdout -1 side~1 > ../side.patch
"""


@pytest.fixture
def fork(repo: GitRepo, monkeypatch: pytest.MonkeyPatch) -> GitRepo:
    """`main` and `side` both changed README.md from "base"; a stash too. `side` has one more commit."""
    monkeypatch.setenv("GIT_EDITOR", "true")
    monkeypatch.setenv("GIT_SEQUENCE_EDITOR", "sed -i '1s/^pick/edit/'")
    shell(repo, FORK)
    return repo


@pytest.mark.parametrize(
    "operation",
    [pytest.param(name, marks=[] if name == "merge" else pytest.mark.soak) for name in IN_PROGRESS],
)
def test_no_commit_in_an_operation_but_the_file_and_then_it_goes_on(fork: GitRepo, operation: str) -> None:
    begin, name, go_on, subject = IN_PROGRESS[operation]
    fork.git(*begin, ok=False)
    before = snapshot(fork)
    the_edit = shout(fork, 5)
    problem = name if name == "merge conflicts" else f"an? {name} is in progress"
    with pytest.raises(Refused, match=f"{problem}.*--no-commit"):
        edit(fork, the_edit)
    untouched(fork, before)
    keep(fork, the_edit)
    assert changed(before, snapshot(fork)) == {"file a.txt", "status a.txt"}
    undo(worktree(fork))
    as_before(fork, before)
    fork.write("a.txt", lines().replace("line 5", "LINE 5"))
    if "README.md" in fork.git("ls-files", "-u"):
        fork.write("README.md", "resolved\n")
        fork.git("add", "README.md")
    fork.git("add", "a.txt")
    fork.git(*go_on)
    assert fork.git("log", "-1", "--format=%s").strip() == subject
    assert fork.git("status", "--porcelain") == "" and "LINE 5" in fork.git("show", "HEAD:a.txt")
    begun = {"MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "rebase-merge", "rebase-apply", "sequencer"}
    assert not begun & {path.name for path in (fork.top / ".git").iterdir()}


@pytest.mark.soak
@pytest.mark.parametrize("operation", ["merge", "rebase", "am"])
def test_undo_of_a_commit_waits_for_an_operation(fork: GitRepo, operation: str) -> None:
    edit(fork, shout(fork, 5))
    fork.git(*IN_PROGRESS[operation][0], ok=False)
    before = snapshot(fork)
    with pytest.raises(Refused, match=f"an? {operation} is in progress") as caught:
        undo(worktree(fork))
    assert "--no-commit" not in str(caught.value)  # undo has no such option
    untouched(fork, before)


@pytest.mark.parametrize("detach", [True, False])
def test_bisect(fork: GitRepo, detach: bool) -> None:
    fork.git("bisect", "start", *(["HEAD", "HEAD~2"] if detach else []))
    before = snapshot(fork)
    made = edit(fork, shout(fork, 5))
    assert ("a bisect is in progress" in " ".join(made.notes)) and (made.branch is None) == detach
    where = "HEAD" if detach else "ref refs/heads/main"
    assert changed(before, snapshot(fork)) == {"file a.txt", "index a.txt", where}
    undo(worktree(fork))
    as_before(fork, before)
    fork.git("bisect", "reset")


@pytest.mark.parametrize("staged", [False, True])
def test_a_repository_without_a_commit(make_repo: Callable[[str], GitRepo], staged: bool) -> None:
    repo = make_repo("empty")
    repo.write("mine.txt", "mine\n")
    repo.write("staged.txt", "staged\n")
    if staged:
        repo.git("add", "staged.txt")
    repo.git("config", "commit.verbose", "true")
    before = snapshot(repo)
    with pytest.raises(Refused, match=r"mine\.txt is not tracked.*--include-dirty.*--no-commit"):
        edit(repo, change(repo, "mine.txt", "mine", "MINE"))
    if staged:
        with pytest.raises(Refused, match=r"staged\.txt is staged but not in the last commit"):
            edit(repo, change(repo, "staged.txt", "staged", "STAGED"))
    untouched(repo, before)
    made = edit(repo, new_file("x/new.txt", b"new\n"))
    after = {"folder x", "file x/new.txt", "index x/new.txt", "ref refs/heads/main"}
    assert made.parent is None and changed(before, snapshot(repo)) == after
    assert repo.git("ls-tree", "-r", "--name-only", "HEAD") == "x/new.txt\n"
    assert undo(worktree(repo)).commit is None
    untouched(repo, before)
    assert redo(worktree(repo)).commit == made.commit


def test_a_file_where_the_edit_would_make_one(repo: GitRepo) -> None:
    repo.commit("ignore", **{".gitignore": "*.log\n"})
    for path in ("untracked.txt", "ignored.log"):
        repo.write(path, "mine\n")
        before = snapshot(repo)
        for options in (Options(), Options(no_commit=True), Options(include_dirty=True)):
            with (
                pytest.raises(Refused, match=f"{path} changed on disk, so the edit was not written"),
                Transaction(worktree(repo), [new_file(path, b"new\n")], options) as transaction,
            ):
                transaction.write()
            untouched(repo, before)
