"""Histories in a few letters: of a repository, by `git fast-import`, and in memory alone; and partial clones."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from bench.cochange.history import Change, MemoryView
from tests.conftest import GitRepo

START, DAY = 1_700_000_000, 86_400
# Settings of a user that change what git prints, or what it counts as a change.
_SETTINGS = {
    "color.ui": "always", "core.commentChar": "%", "core.quotePath": "true", "diff.algorithm": "patience",
    "diff.colorMoved": "zebra", "diff.context": "9", "diff.external": "false", "diff.ignoreSubmodules": "all",
    "diff.interHunkContext": "5", "diff.mnemonicPrefix": "true", "diff.noprefix": "true", "diff.relative": "true",
    "diff.orderFile": "missing-order-file", "diff.renameLimit": "1", "diff.srcPrefix": "x/", "diff.statGraphWidth": "3",
    "diff.statNameWidth": "3", "diff.submodule": "log", "diff.suppressBlankEmpty": "true", "format.pretty": "fuller",
    "i18n.logOutputEncoding": "latin1", "log.date": "relative", "log.decorate": "full", "log.diffMerges": "combined",
    "log.excludeDecoration": "x", "log.follow": "true", "log.mailmap": "false", "log.showRoot": "false",
    "log.showSignature": "true", "notes.displayRef": "refs/notes/*",
}  # fmt: skip


def configure(repo: GitRepo, renames: str) -> None:
    """Set all that a user may set to change the output of git; `renames` is the value of `diff.renames`."""
    for key, value in {**_SETTINGS, "diff.renames": renames}.items():
        repo.git("config", key, value)


def commit_files(repo: GitRepo, *commits: str, start: int = 0) -> None:
    """Commits on main, oldest first. Each gives the files that it names, by space, a content of twenty lines that
    no other commit has, from the number `start` on."""
    stream = []
    for number, names in enumerate(commits, start):
        stream.append(f"commit refs/heads/main\ncommitter A <a@b> {1_600_000_000 + number} +0000\ndata 0\n")
        stream += ["from refs/heads/main^0\n"] if number == start else []
        data = f"{number}\n" * 20
        stream += [f"M 100644 inline {name}\ndata {len(data)}\n{data}\n" for name in names.split()]
    repo.git("fast-import", "--quiet", stdin="".join(stream).encode())
    repo.git("reset", "-q", "--hard", "main")


def partial_clone(repo: GitRepo, blobs: str, *options: str) -> GitRepo:
    """A clone next to the repository that lacks `blob:none` or `tree:0`."""
    repo.git("config", "uploadpack.allowFilter", "true")
    repo.git("config", "uploadpack.allowAnySHA1InWant", "true")
    clone = GitRepo(repo.top.with_name("partial"))
    repo.git("clone", "-q", f"--filter={blobs}", *options, repo.top.as_uri(), str(clone.top))
    return clone


@contextmanager
def without_a_fetch(clone: GitRepo) -> Iterator[None]:
    """Check that no object comes."""
    before = clone.git("count-objects", "-v")
    yield
    assert clone.git("count-objects", "-v") == before


def history(*commits: str) -> MemoryView:
    """Commits, a day apart and oldest first: paths by space, `+path` is added, `-path` deleted, `old>new` renamed."""
    view = MemoryView()
    for number, commit in enumerate(commits):
        view.add(Change(START + number * DAY, b"one@example.com", tuple(map(_entry, commit.split()))))
    return view


def _entry(text: str) -> tuple[bytes, bytes, bytes]:
    if ">" in text:
        before, _, after = text.partition(">")
        return b"R", before.encode(), after.encode()
    letter, path = (text[0], text[1:]) if text[0] in "+-" else ("M", text)
    return {"+": b"A", "-": b"D", "M": b"M"}[letter], path.encode(), path.encode()
