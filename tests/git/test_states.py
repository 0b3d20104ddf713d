"""Every kind of edit against every state of its file, in a repository full of other work: only the change moves.

The expected result is computed line by line, without git: an edit replaces line 11 of the file in the work tree, so
each version of the file (HEAD, staged, work tree) gets that line, or the edit is refused.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from repoagent.errors import NothingDone, Refused
from repoagent.git.files import FileChange
from repoagent.git.undo import redo, undo
from tests.conftest import GitRepo
from tests.git.edits import edit, keep, worktree
from tests.git.snapshot import changed, snapshot, untimed
from tests.git.states import PATH, text

pytestmark = pytest.mark.soak

EDITED = 11
NEW_PATH = "moved/b.txt"


@dataclass(frozen=True)
class Version:
    """The file in its three versions; None for no file."""

    text: str
    mode: str = "100644"

    def line(self) -> str:
        return self.text.splitlines()[EDITED - 1]

    def edited(self) -> Version:
        lines = self.text.splitlines()
        lines[EDITED - 1] = "EDITED"
        return Version("\n".join(lines) + "\n", self.mode)


@dataclass(frozen=True)
class State:
    """The three versions; None for the one of HEAD."""

    staged: Version | None = None
    work: Version | None = None
    by_patch: bool = False  # staged by `git add -p`

    def versions(self) -> tuple[Version, Version, Version]:
        head = Version(text())
        return head, self.staged or head, self.work or head


_X = "100755"
STATES = {
    "clean": State(),
    "unstaged": State(None, Version(text(l18="mine"))),
    "staged": State(Version(text(l3="mine")), Version(text(l3="mine"))),
    "both": State(Version(text(l3="mine")), Version(text(l3="mine", l18="mine"))),
    "both on one line": State(Version(text(l3="mine")), Version(text(l3="other"))),
    "partly staged": State(Version(text(l3="mine")), Version(text(l3="mine", l19="mine")), by_patch=True),
    "staged and taken back": State(Version(text(l3="mine"))),
    "unstaged conflict": State(None, Version(text(l11="mine"))),
    "staged conflict": State(Version(text(l11="mine")), Version(text(l11="mine"))),
    "both conflict": State(Version(text(l11="mine")), Version(text(l11="other"))),
    "staged conflict taken back": State(Version(text(l11="mine"))),
    "neighbouring line": State(None, Version(text(l12="mine"))),
    "unstaged mode": State(None, Version(text(), _X)),
    "staged mode": State(Version(text(), _X), Version(text(), _X)),
    "everything": State(Version(text(l3="mine"), _X), Version(text(l3="mine", l18="mine"))),
}
KINDS = ("modify", "delete", "rename", "rename and edit", "mode")


def prepare(repo: GitRepo, state: State) -> None:
    _, staged, work = state.versions()
    file = repo.top / PATH
    if state.by_patch:
        repo.write(PATH, work.text)
        repo.git("add", "-p", PATH, stdin=b"y\nn\n")
    else:
        for version, stage in ((staged, True), (work, False)):
            if file.read_text() != version.text:
                repo.write(PATH, version.text)
            file.chmod(int(version.mode[-3:], 8))
            if stage:
                repo.git("add", PATH)
    assert repo.git("show", f":{PATH}") == staged.text


def change_of(repo: GitRepo, kind: str, work: Version) -> FileChange:
    data = work.text.encode()
    new = work.edited().text.encode()
    other_mode = "100644" if work.mode == _X else _X
    return {
        "modify": FileChange(PATH, PATH, data, new, work.mode, work.mode),
        "delete": FileChange(PATH, None, data, None, work.mode, None),
        "rename": FileChange(PATH, NEW_PATH, data, data, work.mode, work.mode),
        "rename and edit": FileChange(PATH, NEW_PATH, data, new, work.mode, work.mode),
        "mode": FileChange(PATH, PATH, data, data, work.mode, other_mode),
    }[kind]


def expected(kind: str, state: State) -> tuple[Version | None, ...] | str:
    """The content of HEAD, index and work tree at the edit's path afterwards, or why the edit is refused."""
    head, staged, work = state.versions()
    versions = (head, staged, work)
    if kind == "delete":
        return (None, None, None) if head == staged == work else "refused"
    if kind == "mode":
        to = "100644" if work.mode == _X else _X
        return "nothing" if head.mode == to else tuple(Version(one.text, to) for one in versions)
    if kind == "rename":
        return versions
    if len({one.line() for one in versions}) > 1:
        return "refused"
    return tuple(one.edited() for one in versions)


def found(repo: GitRepo, path: str) -> tuple[Version | None, ...]:
    file = repo.top / path
    on_disk = Version(file.read_text(), f"100{file.stat().st_mode & 0o777:o}") if file.exists() else None
    in_head = _version(repo, repo.git("ls-tree", "HEAD", path).replace(" blob ", " "))
    return in_head, _version(repo, repo.git("ls-files", "-s", path)), on_disk


def _version(repo: GitRepo, line: str) -> Version | None:
    if not line:
        return None
    mode, oid = line.split()[:2]
    return Version(repo.git("cat-file", "blob", oid), mode)


def keys(*paths: str) -> set[str]:
    return {f"{kind} {path}" for path in paths for kind in ("file", "index", "status")}


def product() -> list[object]:
    """All of it with `make soak`; otherwise most states for one kind, and a few for the others."""
    few = ("clean", "both conflict", "everything")
    alike = ("staged", "both", "unstaged conflict", "staged mode")
    return [
        pytest.param(
            kind,
            state,
            marks=() if state in few or (kind == "modify" and state not in alike) else pytest.mark.soak,
        )
        for kind in KINDS
        for state in STATES
    ]


@pytest.mark.parametrize(("kind", "state"), product())
def test_edit_against_the_state_of_its_file(busy: GitRepo, kind: str, state: str) -> None:
    repo = busy
    prepare(repo, STATES[state])
    change = change_of(repo, kind, STATES[state].versions()[2])
    wanted = expected(kind, STATES[state])
    before, parent = snapshot(repo), repo.head()
    if isinstance(wanted, str):
        with pytest.raises(Refused if wanted == "refused" else NothingDone) as caught:
            edit(repo, change)
        assert "--no-commit" in str(caught.value)
        assert changed(before, snapshot(repo)) == set()
        if wanted == "refused":
            assert "--include-dirty" in str(caught.value)
            if kind != "delete":
                assert "line 11" in str(caught.value)
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
    assert changed(untimed(before), untimed(snapshot(repo))) == set()
    assert changed(before, snapshot(repo)) <= keys(PATH)
    redo(worktree(repo))
    assert changed(untimed(after), untimed(snapshot(repo))) == set()


def _offers(repo: GitRepo, change: FileChange, before: dict[str, tuple[object, ...]]) -> None:
    """The two remedies in the refusal work."""
    keep(repo, change)
    allowed = {f"{kind} {path}" for path in (PATH, NEW_PATH) for kind in ("file", "status")}
    assert changed(before, snapshot(repo)) <= allowed | {"folder moved", "folder sub"}
    undo(worktree(repo))
    assert changed(untimed(before), untimed(snapshot(repo))) == set()
    edit(repo, change, include_dirty=True)
    after = snapshot(repo)
    assert changed(before, after) <= keys(PATH, NEW_PATH) | {
        "ref refs/heads/main", "folder moved", "folder sub",
    }  # fmt: skip
    whole = None if change.after is None else Version(change.after.decode(), change.mode or "")
    assert found(repo, change.path or PATH) == (whole, whole, whole)
    undo(worktree(repo))
    assert (repo.top / PATH).read_bytes() == change.before
    redo(worktree(repo))
    assert changed(untimed(after), untimed(snapshot(repo))) == set()
