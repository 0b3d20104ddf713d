"""No answer reaches a file that it may not: whatever the name, the form, or what is there, even for a moment."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from repoagent.agent.actions import Action
from repoagent.edit.draft import Draft, EditSession
from repoagent.edit.guards.off_limits import off_limits_gate
from repoagent.edit.patch_tool import edit_tool
from repoagent.edit.request import EditRequest, Target
from repoagent.errors import Refused
from repoagent.git.file_writer import exchange_files, write_file
from repoagent.git.files import Content, read_source
from repoagent.git.worktree import open_worktree
from tests.conftest import GitRepo
from tests.security.conftest import FORMS, Attack, copy, create, delete, modify, rename, snapshot, whole

pytestmark = pytest.mark.soak

NAMES = [
    "../x", "../../etc/x", "/etc/x", "/tmp/x", "a/../../x", "src/../../x", "./../x", "~/x",
    ".git/config", ".git/hooks/pre-commit", ".git/info/attributes", ".GIT/config", ".Git/hooks/pre-commit", ".git./x",
    ".git /x", "git~1/x", "GIT~1/hooks/post-commit", ".git\u200c/x", ".g\u200cit/config", ".git::$INDEX_ALLOCATION/x",
    ".git:x", "sub/.git/x", "src/.git/config", ".repoagent/config.toml", ".Repoagent/config.toml", ".repoagent/memory/x",
    "sub/.git", "sub/x.txt", "sub/new.txt", "empty/x.txt", ".git/modules/sub/config",
    "outward/x", "outward/there.txt", "upward/x", "chain/x", "dangling", "dangling/x", "tofile", "tofile/x", "inward/x",
    "fifo", "sock", "src", "src/", "src/app.py/x", "a.txt/x",
    "a\\..\\..\\x", "C:/x", "\\\\server\\x",
]  # fmt: skip


@pytest.fixture
def minefield(
    repo: GitRepo, make_repo: Callable[[str], GitRepo], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> GitRepo:
    """The sample with a submodule, an empty one, links of all kinds, special files."""
    inner = make_repo("inner")
    inner.write("x.txt", "x\n")
    inner.commit("inner")
    for name in ("sub", "empty"):
        repo.git("-c", "protocol.file.allow=always", "submodule", "add", "-q", str(inner.top), name)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "there.txt").write_text("line 1\n")
    links = {
        "outward": str(outside), "upward": "../outside", "chain": "middle", "middle": "outward", "dangling": "../nowhere",
        "tofile": "../outside/there.txt", "inward": "src", "toself": "toself", "hooked": ".git/hooks",
    }  # fmt: skip
    for name, target in links.items():
        (repo.top / name).symlink_to(target)
    repo.commit("links")
    repo.git("submodule", "deinit", "-q", "empty")
    os.mkfifo(repo.top / "fifo")
    os.link(outside / "there.txt", repo.top / "hard")
    monkeypatch.chdir(repo.top)  # a socket's name is short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("sock")
    return repo


def state(repo: GitRepo) -> tuple[str, object]:
    return repo.git("--no-optional-locks", "status", "--porcelain"), snapshot(repo.top.parent)


def test_no_form_of_answer_reaches_a_bad_path(minefield: GitRepo) -> None:
    before = state(minefield)
    request = EditRequest("x", (Target("a.txt"),), scope="repo", create=True)
    worktree = open_worktree(minefield.top)
    for name in NAMES:
        for form in FORMS:
            draft = Draft({"a.txt": read_source(worktree, "a.txt")})
            session = EditSession(
                worktree, request, draft, {"a.txt"}, off_limits_gate(minefield.top, ("a.txt",))
            )
            seen = edit_tool(session).perform(Action("edit", {}, form(name)))
            assert (seen.ok, session.draft.edits) == (False, ()), (name, form(name), seen)
    assert state(minefield) == before


def test_nor_does_the_whole_program(minefield: GitRepo, attack: Attack) -> None:
    before = state(minefield)
    names = (
        "../x", "/etc/x", ".git/hooks/pre-commit", ".GIT/config", "git~1/x", "sub/x.txt", "outward/x", "dangling", "~/x",
    )  # fmt: skip
    answers = [FORMS[number % 4](name) for number, name in enumerate(names)]
    ended = attack(answers, "edit", "a.txt", "x", "--yes", "--scope", "repo", "--create", "--allow-sensitive")
    for name, end in zip(names, ended, strict=True):
        assert end.code in {1, 3, 4, 5}, (name, end)
        assert "\x1b" not in end.err and "Traceback" not in end.err, (name, end)
    assert state(minefield) == before


LEADING = [
    "tofile", "outward/there.txt", "hooked/pre-commit", "fifo", "sock", "dangling", "toself", "chain/there.txt", "src",
]  # fmt: skip


def test_no_model_is_asked_about_what_leads_elsewhere(minefield: GitRepo, attack: Attack) -> None:
    before = state(minefield)
    answer = "```diff\n--- a/x\n+++ b/x\n@@\n-line 1\n+evil\n```\n"
    each = [(name, "change it") for name in LEADING]
    ended = attack([answer] * len(LEADING), "edit", "--yes", "--create", each=each)
    for name, end in zip(LEADING, ended, strict=True):
        assert (end.code in {2, 3}, end.out) == (True, ""), (name, end)
        assert end.err.count("\n") == 1, end
    assert state(minefield) == before


def test_the_git_file_of_a_linked_work_tree(repo: GitRepo, attack: Attack, tmp_path: Path) -> None:
    repo.git("worktree", "add", "-q", str(tmp_path / "linked"))
    before = snapshot(tmp_path)
    link = (tmp_path / "linked/.git").read_text().strip()
    answers = [
        modify(".git", link, "gitdir: /tmp"), whole(".git"), delete(".git"), rename("a.txt", ".git"), rename(".git", "x"),
        copy(".git", "x"), create(".git/x"),
    ]  # fmt: skip
    options = ("--yes", "--scope", "repo", "--create")
    ended = attack(answers, "edit", "a.txt", "x", *options, cwd=tmp_path / "linked")
    assert {end.code for end in ended} <= {3, 5}, ended
    assert snapshot(tmp_path) == before


ODD = [
    "-O", "--upload-pack=x", ":(top)x", ":!x", ":/x", "*.py", "[a]", "@", "HEAD", "refs/heads/main", "-", "--", "$(id)", "a;id",
]  # fmt: skip


def test_odd_names_are_only_names(repo: GitRepo, attack: Attack, tmp_path: Path) -> None:
    others = snapshot(repo.top / "src")
    made = "".join(create(name) for name in ODD)
    changed = "".join(modify(name, "x = 1", "x = 2") for name in ODD)
    first, second = attack(
        [made, changed], "edit", "--yes", "--create",
        each=[("--scope", "repo", "a.txt", "make them"), ("--", *ODD, "make it two things")],
    )  # fmt: skip
    assert (first.code, second.code) == (0, 0), (first, second)
    for name in ODD:
        assert (repo.top / name).read_text() == "x = 2\n", name
    assert sorted(repo.git("show", "--format=", "--name-only").split("\n")[:-1]) == sorted(ODD)
    assert (repo.status(), snapshot(repo.top / "src")) == ("", others)


def test_names_that_differ_in_case_do_not_clobber_each_other(repo: GitRepo, attack: Attack) -> None:
    repo.git("config", "core.ignoreCase", "true")
    answers = [create("README.MD"), create("A.TXT"), create("SRC/app.py")]
    ended = attack(answers, *["edit", "a.txt", "x", "--yes", "--scope", "repo"])
    assert repo.read("README.md").startswith(b"# Sample")
    assert repo.read("a.txt").startswith(b"line 1")
    assert all(end.code in {0, 3, 5} for end in ended), ended


@contextmanager
def swapping(folder: Path, outside: Path) -> Iterator[None]:
    """`folder` is by turns itself and a link to `outside`, as fast as can be."""
    stop = threading.Event()
    folder.with_name("link").symlink_to(outside)
    parent = os.open(folder.parent, os.O_RDONLY)

    def swap() -> None:
        while not stop.is_set():
            exchange_files(parent, "link", folder.name)

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        os.close(parent)


@pytest.mark.parametrize("path", ["d/x", "d/deep/x"])
def test_what_is_swapped_for_a_link_is_never_followed(repo: GitRepo, tmp_path: Path, path: str) -> None:
    outside = tmp_path / "outside"
    (outside / "deep").mkdir(parents=True)
    for name in ("x", "deep/x"):
        (outside / name).write_bytes(b"theirs\n")
    repo.write(path, b"one\n")
    repo.write(f"{path}.keep", b"")
    worktree = open_worktree(repo.top)
    one, two = Content(b"one\n"), Content(b"two\n")
    read: set[bytes | None] = set()
    written = refused = 0
    with swapping(repo.top / "d", outside):
        for number in range(400):
            old, new = ((one, two), (two, one), (one, None), (None, one))[number % 4]
            try:
                write_file(repo.top, path, old, new, f".tmp-{number}")
                written += 1
            except Refused:
                refused += 1
            try:
                read.add(read_source(worktree, path).data)
            except Refused:
                refused += 1
    assert written and refused
    assert read <= {b"one\n", b"two\n", None}
    assert sorted(p.read_bytes() for p in outside.rglob("*") if p.is_file()) == [b"theirs\n"] * 2
