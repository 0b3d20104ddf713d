"""Conversions of content and names by git: the commit still contains only the change."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from repoagent.errors import Refused
from repoagent.git.files import FileChange, read_source
from tests.conftest import GitRepo
from tests.git.edits import change, committed, edit, lines, new_file, worktree
from tests.git.only import nothing_left, only, seen, unchanged

pytestmark = pytest.mark.soak

LINES = lines()
CRLF = LINES.replace("\n", "\r\n")

ROT13 = "tr A-Za-z N-ZA-Mn-za-m"

PROCESS = """
import os, sys
def read():
    size = int(sys.stdin.buffer.read(4) or b"0000", 16)
    return sys.stdin.buffer.read(size - 4) if size else None
def packets():
    while (data := read()) is not None:
        yield data
def write(*lines):
    for line in lines:
        sys.stdout.buffer.write(b"%04x" % (len(line) + 4) + line)
    sys.stdout.buffer.write(b"0000")
    sys.stdout.buffer.flush()
list(packets())
write(b"git-filter-server", b"version=2")
list(packets())
write(b"capability=clean", b"capability=smudge")
open(sys.argv[1], "a").write("started\\n")
while True:
    head = list(packets())
    if not head:
        break
    data = b"".join(packets())
    write(b"status=success\\n")
    data = data.swapcase()
    write(*(data[n : n + 60000] for n in range(0, len(data), 60000)))
    write()
"""


@pytest.fixture
def dirty(repo: GitRepo) -> GitRepo:
    """Staged and unstaged work in other files."""
    repo.write("b.txt", "b\n")
    repo.commit("more")
    repo.write("README.md", "mine\n")
    repo.git("add", "README.md")
    repo.write("b.txt", "mine too\n")
    return repo


ATTRIBUTES = [
    "* text=auto", "* text eol=crlf", "* -text", "* text", "*.txt ident", "* binary", "* -diff", "* merge=union",
    "* merge=ours", "* diff=none whitespace=-all", "* export-ignore export-subst",
    "[attr]odd text eol=crlf\n* odd",
]  # fmt: skip
ENDINGS = ["core.autocrlf=true", "core.autocrlf=input", "core.eol=crlf", "core.autocrlf=false"]


@pytest.mark.parametrize(
    ("attributes", "settings"),
    [
        pytest.param(attributes, settings, marks=[] if x == 3 * y else pytest.mark.soak)
        for x, attributes in enumerate(ATTRIBUTES)
        for y, settings in enumerate(ENDINGS)
    ],
)
def test_line_endings(dirty: GitRepo, attributes: str, settings: str) -> None:
    repo = dirty
    repo.git("config", *settings.split("="))
    repo.git("config", "merge.ours.driver", "true")
    repo.git("config", "core.safecrlf", "false")
    repo.write(".gitattributes", attributes + "\n")
    repo.git("add", ".gitattributes")
    repo.git("commit", "-qm", "attributes", "--", ".gitattributes")
    for ending in ("\n", "\r\n"):
        name = f"{len(ending)}.txt"
        repo.write(name, LINES.replace("\n", ending) + "$Id$\n")
        repo.git("add", name)
        repo.git("commit", "-qm", "file", "--", name)
        (repo.top / name).unlink()
        repo.git("checkout", "-q", "--", name)
        only(repo, name, "line 2", "LINE 2")
        repo.write(name, repo.read(name).replace(b"line 9", b"mine 9"))
        only(repo, name, "line 4", "LINE 4")


@pytest.mark.parametrize("driver", ["union", "ours", "binary", "own"])
def test_merge_drivers_do_not_separate_work(repo: GitRepo, driver: str) -> None:
    repo.git("config", "merge.ours.driver", "true")
    repo.git("config", "merge.own.driver", "cp %B %A")
    repo.write(".gitattributes", f"* merge={driver}\n")
    repo.commit("attributes")
    repo.write("a.txt", LINES.replace("line 5", "mine 5"))
    before = seen(repo)
    with pytest.raises(Refused, match="on line 5"):
        edit(repo, change(repo, "a.txt", "mine 5", "LINE 5"))
    unchanged(repo, before)
    only(repo, "a.txt", "line 9", "LINE 9")


@pytest.mark.parametrize("encoding", ["UTF-16", "UTF-16LE-BOM", "latin1"])
def test_working_tree_encoding(dirty: GitRepo, encoding: str) -> None:
    repo = dirty
    codec = {"UTF-16": "utf-16", "UTF-16LE-BOM": "utf-16"}.get(encoding, encoding)
    repo.write(".gitattributes", f"u.txt working-tree-encoding={encoding} text\n")
    repo.write("u.txt", ("größe\n" + LINES).encode(codec))
    repo.git("add", ".gitattributes", "u.txt")
    repo.git("commit", "-qm", "encoded", "--", "u.txt", ".gitattributes")
    repo.write("u.txt", ("größe\n" + LINES.replace("line 9", "mine 9")).encode(codec))
    plain = {"utf-16": "utf-16-le"}.get(codec, codec)
    only(repo, "u.txt", "line 2".encode(plain), "LINE 2".encode(plain), head_too=False)
    assert committed(repo, "u.txt") == "größe\n" + LINES.replace("line 2", "LINE 2")


def test_rot13(dirty: GitRepo) -> None:
    repo = dirty
    filtered(repo, clean=ROT13, smudge=ROT13, required="true")
    assert committed(repo, "x.rot").startswith("yvar 1")
    repo.write("x.rot", LINES.replace("line 9", "mine 9"))
    only(repo, "x.rot", "line 2", "edit 2", head_too=False)
    assert repo.git("diff", "HEAD^", "HEAD", "--numstat") == "1\t1\tx.rot\n"
    assert committed(repo, "x.rot").splitlines()[1] == "rqvg 2"


def test_process_filter(dirty: GitRepo, tmp_path: Path) -> None:
    (tmp_path / "filter.py").write_text(PROCESS)
    filtered(dirty, process=f"{sys.executable} {tmp_path}/filter.py {tmp_path}/log", required="true")
    assert committed(dirty, "x.rot").startswith("LINE 1")
    dirty.write("x.rot", LINES.replace("line 9", "mine 9"))
    only(dirty, "x.rot", "line 2", "edit 2", head_too=False)
    assert committed(dirty, "x.rot").splitlines()[1] == "EDIT 2"


@pytest.mark.parametrize("required", ["true", "false"])
def test_filter_that_fails(dirty: GitRepo, required: str) -> None:
    """If it is required, nothing can be committed; otherwise git continues without it, and so does an edit."""
    repo = dirty
    filtered(repo, clean=ROT13, smudge=ROT13, required=required)
    repo.git("config", "filter.rot.clean", "false")
    before = seen(repo)
    if required == "true":
        with pytest.raises(Refused, match=r"x\.rot.*filter.*rot.*--no-commit"):
            edit(repo, change(repo, "x.rot", "line 2", "edit 2"))
        unchanged(repo, before)
        nothing_left(repo)
    else:
        edit(repo, change(repo, "x.rot", "line 2", "edit 2"))
        assert committed(repo, "x.rot").splitlines()[1] == "edit 2"


def filtered(repo: GitRepo, **filters: str) -> None:
    for key, value in filters.items():
        repo.git("config", f"filter.rot.{key}", value)
    repo.write(".gitattributes", "*.rot filter=rot\n")
    os.utime(repo.write("x.rot", LINES), (1, 1))  # git trusts the time of an older file than its index
    repo.git("add", ".gitattributes", "x.rot")
    repo.git("commit", "-qm", "filtered", "--", ".gitattributes", "x.rot")


NAMES = [
    b"a[b].txt", b"*", b"?", b"*[a]", b":(top)x", b":!x", b":/x", b":x", b"-x", b"--", b"--all", b" lead", b"trail ", b"tab\there",
    b"new\nline", b"cr\rhere", b"\xff\xfe.txt", b"gr\xc3\xb6\xc3\x9fe", b"gro\xcc\x88", b'quo"te', b"back\\slash", b"~", b"$HOME", b"HEAD",
    b"a -> b", b"@{u}", b"0", b"a.txt.lock", b"\x01\x1b[31m", b"name:with:colons", b"CON", b"dir/-x/:y", b"A.TXT",
]  # fmt: skip


def test_names(dirty: GitRepo) -> None:
    repo = dirty
    names = [os.fsdecode(name) for name in NAMES]
    for number, name in enumerate(names):
        repo.write(name, LINES + f"{number}\n")
    repo.git("--literal-pathspecs", "add", "--", *names)
    repo.git("--literal-pathspecs", "commit", "-qm", "names", "--", *names)
    repo.git("config", "core.ignoreCase", "true")
    before = seen(repo, *names)
    for name in names:
        repo.write(name, repo.read(name).replace(b"line 9", b"mine 9"))
    changes = [change(repo, name, "line 2", "LINE 2") for name in names]
    edit(repo, *changes)
    shown = repo.git("diff", "--numstat", "-z", "HEAD^", "HEAD", "--").split("\0")[:-1]
    assert sorted(shown) == sorted(f"1\t1\t{name}" for name in names)
    status = repo.git("status", "--porcelain", "-z", "--", ":(exclude)README.md", ":(exclude)b.txt")
    assert sorted(status.split("\0")[:-1]) == sorted(f" M {name}" for name in names)
    repo.git("--literal-pathspecs", "checkout", "-q", "--", *names)
    unchanged(repo, before, *names)
    for name in (":!x", "-x", os.fsdecode(b"\xff\xfe.txt"), "new\nline", "*[a]"):  # and one alone
        only(repo, name, "line 4", "LINE 4")
    gone = [FileChange(name, None, repo.read(name), None, "100644", None) for name in names]
    edit(repo, *gone)
    assert repo.git("ls-tree", "-r", "--name-only", "HEAD").split() == [
        "README.md",
        "a.txt",
        "b.txt",
        "src/app.py",
    ]


def test_names_that_differ_in_case_only(dirty: GitRepo) -> None:
    repo = dirty
    for name in ("Case.txt", "case.txt", "CASE.TXT"):
        oid = repo.git("hash-object", "-w", "--stdin", stdin=(name + "\n" + LINES).encode()).strip()
        repo.git("update-index", "--add", "--cacheinfo", f"100644,{oid},{name}")
        repo.write(name, name + "\n" + LINES)
    repo.git("commit", "-qm", "cases", "--", "Case.txt", "case.txt", "CASE.TXT")
    repo.git("config", "core.ignoreCase", "true")
    for name in ("case.txt", "Case.txt"):
        only(repo, name, "line 2", "LINE 2")
    edit(repo, new_file("cASE.txt", b"new\n"))
    assert repo.git("diff", "--name-status", "HEAD^", "HEAD") == "A\tcASE.txt\n"


def test_links_that_are_files(repo: GitRepo) -> None:
    """With core.symlinks off, a checkout writes the target of a link into a plain file."""
    (repo.top / "link").symlink_to("a.txt")
    repo.commit("link")
    repo.git("config", "core.symlinks", "false")
    (repo.top / "link").unlink()
    repo.git("checkout", "-q", "--", "link")
    assert not (repo.top / "link").is_symlink()
    only(repo, "link", "a.txt", "README.md")
    assert repo.git("ls-tree", "HEAD", "link").startswith("120000")
    repo.write("link", "mine")
    before = seen(repo)
    with pytest.raises(Refused, match="link"):
        edit(repo, change(repo, "link", "mine", "ours"))
    unchanged(repo, before)


def test_executable_bits_that_mean_nothing(dirty: GitRepo) -> None:
    repo = dirty
    repo.git("config", "core.fileMode", "false")
    repo.git("update-index", "--chmod=+x", "src/app.py")
    repo.git("commit", "-qm", "executable", "--", "src/app.py", ok=False)
    for path in ("a.txt", "b.txt", "README.md"):
        (repo.top / path).chmod(0o755)
    assert read_source(worktree(repo), "a.txt").mode == "100644"
    only(repo, "a.txt", "line 2", "LINE 2")
    edit(repo, new_file("run.sh", b"#!/bin/sh\n", "100755"))
    assert repo.git("ls-tree", "HEAD", "run.sh").startswith("100755")
