"""`repoagent apply` in a sparse checkout, with a submodule, and with SHA-256 object names."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.applying import Here, diff, program, snapshot
from tests.conftest import GitRepo

TEN = "".join(f"line {n}\n" for n in range(1, 11))
SECOND = ["@@ -1,3 +1,3 @@", " line 1", "-line 2", "+line two", " line 3"]


@pytest.mark.parametrize("index", ["--sparse-index", "--no-sparse-index"])
def test_sparse_checkout(repo: GitRepo, here: Here, index: str) -> None:
    for folder in ("in", "out"):
        repo.write(f"{folder}/a.txt", TEN)
    repo.commit("folders")
    repo.git("sparse-checkout", "set", "--cone", index, "in")
    before = repo.git("ls-files", "--sparse", "-t")
    assert here(diff("in/a.txt", *SECOND), "--yes").code == 0
    assert repo.git("diff", "--name-only", "HEAD^").split() == ["in/a.txt"]
    assert (repo.git("ls-files", "--sparse", "-t"), repo.status()) == (before, "")
    files, head = snapshot(repo.top), repo.head()
    source = f"out/a.txt={repo.git('rev-parse', 'HEAD:out/a.txt').strip()}"
    for options in (["--yes"], ["--yes", "--no-commit"], ["--yes", "--source", source]):
        done = here(diff("out/a.txt", *SECOND), *options)
        assert done.code == 3 and "git sparse-checkout add" in done.err
    assert (snapshot(repo.top), repo.head(), repo.status()) == (files, head, "")


def test_file_of_a_submodule(repo: GitRepo, here: Here, tmp_path: Path) -> None:
    inner = GitRepo(tmp_path / "inner")
    inner.top.mkdir()
    inner.git("init", "-q")
    inner.commit("first", **{"a.txt": TEN})
    repo.git("-c", "protocol.file.allow=always", "submodule", "add", "-q", str(inner.top), "sub")
    repo.commit("with a submodule")
    head, sub = repo.head(), GitRepo(repo.top / "sub")
    done = here(diff("sub/a.txt", *SECOND), "--yes")
    assert done.code == 3 and "run repoagent inside sub" in done.err and repo.status() == ""
    assert here(diff("a.txt", *SECOND), "--yes", cwd=sub.top).code == 0
    assert sub.git("show", "--format=", "--name-only").split() == ["a.txt"] and sub.status() == ""
    assert (repo.head(), repo.status()) == (head, " M sub\n")
    assert program(sub.top, "undo").code == 0
    assert repo.status() == ""


def test_sha256(here: Here, tmp_path: Path) -> None:
    repo = GitRepo(tmp_path / "long")
    repo.top.mkdir()
    repo.git("init", "-q", "--object-format=sha256")
    repo.commit("first", **{"a.txt": TEN})
    blob = repo.git("rev-parse", "HEAD:a.txt").strip()
    assert len(blob) == 64
    repo.write("a.txt", TEN.replace("line 9", "mine 9"))
    done = here(diff("a.txt", *SECOND), "--yes", "--source", f"a.txt={blob}", cwd=repo.top)
    assert done.code == 0, done.err
    assert repo.git("show", "HEAD:a.txt") == TEN.replace("line 2", "line two")
    assert repo.read("a.txt").decode() == TEN.replace("line 2", "line two").replace("line 9", "mine 9")
    assert f"Source-Blob: {blob}\n" in repo.git("log", "-1", "--format=%B")
    assert program(repo.top, "undo").code == 0
    assert repo.read("a.txt").decode() == TEN.replace("line 9", "mine 9") and repo.status() == " M a.txt\n"
