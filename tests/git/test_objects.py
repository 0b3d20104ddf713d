"""Work-tree content and blobs: an edit is committed as `git add` would, including filters and line endings."""

from __future__ import annotations

import pytest

from repoagent.errors import Refused
from repoagent.git.files import Content, FileChange
from repoagent.git.index import read_entries
from repoagent.git.objects import files_in, from_blob, read_blobs, store_blob, to_blob
from tests.conftest import GitRepo
from tests.git.edits import change, committed, edit, new_file, staged, worktree

CRLF = "".join(f"line {n}\r\n" for n in range(1, 11))
LF = CRLF.replace("\r\n", "\n")


@pytest.mark.soak
@pytest.mark.parametrize(
    "attributes", ["", "* text=auto", "* text", "* text eol=crlf", "* -text", "* eol=crlf", "* ident"]
)
@pytest.mark.parametrize("autocrlf", ["false", "true", "input"])
@pytest.mark.parametrize("stored", ["LF", "CRLF"])
def test_the_same_blob_as_git_add(repo: GitRepo, attributes: str, autocrlf: str, stored: str) -> None:
    repo.write("w.txt", CRLF if stored == "CRLF" else LF)
    repo.commit("store")
    repo.git("config", "core.autocrlf", autocrlf)
    repo.write(".gitattributes", attributes + "\n")
    entry = read_entries(worktree(repo), ["w.txt"])["w.txt"].entry
    for data in (CRLF.replace("5", "five").encode(), LF.replace("5", "five").encode()):
        ours = to_blob(worktree(repo), "w.txt", Content(data), entry)
        repo.write("w.txt", data)
        repo.git("add", "w.txt")
        assert ours.oid == repo.git("rev-parse", ":w.txt").strip()
        repo.git("update-index", "--cacheinfo", f"100644,{entry.oid},w.txt")


@pytest.mark.parametrize("attributes", ["* text eol=crlf\n", "* text=auto\n"])
def test_crlf_file_with_other_work_in_it(repo: GitRepo, attributes: str) -> None:
    repo.git("config", "core.autocrlf", "true")
    repo.write(".gitattributes", attributes)
    repo.write("w.txt", CRLF)
    repo.commit("crlf")
    assert committed(repo, "w.txt") == LF
    repo.write("w.txt", CRLF.replace("line 9", "mine 9"))
    edit(repo, change(repo, "w.txt", "line 2", "LINE 2"))
    assert committed(repo, "w.txt") == staged(repo, "w.txt") == LF.replace("line 2", "LINE 2")
    assert repo.read("w.txt").decode() == CRLF.replace("line 2", "LINE 2").replace("line 9", "mine 9")
    edit(repo, new_file("new.txt", CRLF.encode()))
    assert committed(repo, "new.txt") == LF and repo.read("new.txt").decode() == CRLF
    assert repo.status() == " M w.txt\n"


def test_a_filter_and_a_rename_out_of_it(repo: GitRepo) -> None:
    """Upper case in the repository, lower case in the work tree, as a checkout writes it."""
    repo.git("config", "filter.case.clean", "tr a-z A-Z")
    repo.git("config", "filter.case.smudge", "tr A-Z a-z")
    repo.write(".gitattributes", "*.low filter=case\n")
    repo.write("w.low", LF)
    repo.commit("filtered")
    entry = read_entries(worktree(repo), ["w.low"])["w.low"].entry
    assert from_blob(worktree(repo), "w.low", entry) == Content(LF.encode())
    edit(repo, FileChange("w.low", "w.txt", Content(LF.encode()), Content(LF.encode())))
    assert committed(repo, "w.txt") == LF and repo.status() == ""


def test_binary_file(repo: GitRepo) -> None:
    repo.write("b.bin", b"\0one\0two\0")
    repo.commit("binary")
    edit(repo, change(repo, "b.bin", b"one", b"ONE"))
    assert repo.status() == ""
    repo.write("b.bin", b"\0ONE\0mine\0")
    with pytest.raises(Refused, match="cannot separate"):
        edit(repo, change(repo, "b.bin", b"ONE", b"three"))


def test_many_blobs_in_one_call_and_a_link_outside_that_is_only_text(repo: GitRepo) -> None:
    tree, link = worktree(repo), Content(b"/etc/passwd", "120000")
    contents = [b"", b"\n", b"no newline", b"line\n" * 1000, b"\0binary\n\0"]
    oids = [store_blob(tree, data) for data in contents]
    entry = to_blob(tree, "link", link, None)
    expected = {**dict(zip(oids, contents, strict=True)), entry.oid: link.data}
    assert read_blobs(tree, [*oids, entry.oid]) == expected
    assert entry.mode == "120000" and from_blob(tree, "link", entry) == link


def test_the_files_of_several_commits(repo: GitRepo) -> None:
    first = repo.commit("first", **{"deep/one": "1\n", "same": "1\n", "changed": "1\n"})
    repo.git("rm", "-q", "-r", "deep")
    second = repo.commit("second", changed="2\n")
    one, two = (repo.git("hash-object", "--stdin", stdin=f"{n}\n".encode()).strip() for n in (1, 2))
    files = files_in(worktree(repo), [first, second, repo.commit("empty")])
    assert {("deep/one", one), ("same", one), ("changed", one), ("changed", two)} <= set(files)
    assert files.count(("same", one)) == 1
    tree = repo.git("rev-parse", f"{first}^{{tree}}").strip()
    (repo.top / ".git/objects" / tree[:2] / tree[2:]).unlink()
    with pytest.raises(Refused, match="trees of some branches are missing"):
        files_in(worktree(repo), [first, second])
