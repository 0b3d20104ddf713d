"""The changes of commits, and what is the same change."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from repoagent.history.commit_summaries import bodies, patch_ids, patches
from tests.conftest import GitRepo


def ids(repo: GitRepo, *commits: str) -> list[str]:
    found = patch_ids(repo.top, patches(repo.top, commits))
    return [found.get(commit, "") for commit in commits]


def test_files_of_a_patch_have_their_paths(repo: GitRepo) -> None:
    odd = os.fsdecode(b't\tb\nc\xe9 "x".txt')
    repo.git("mv", "a.txt", "b.txt")
    repo.write(odd, "one\n")
    (repo.top / "README.md").unlink()
    (repo.top / "README.md").symlink_to("b.txt")
    head = repo.commit("all at once")
    other = repo.commit("a diff of a diff", **{"x.diff": f"diff --git a/x b/x\n\x01{'a' * 40}\0\n"})
    found = patches(repo.top, [head, other])
    assert [path for path, _ in found[head].files] == ["README.md", "README.md", "b.txt", odd]
    assert b"rename from a.txt" in dict(found[head].files)["b.txt"]
    assert dict(found[head].files)[odd].endswith(b"+one\n")
    assert [path for path, _ in found[other].files] == ["x.diff"]
    assert patches(repo.top, []) == {}
    only = patches(repo.top, [head], [odd])
    assert [path for path, _ in only[head].files] == [odd]


def test_a_rebase_keeps_the_patch_id(repo: GitRepo) -> None:
    base = repo.head()
    first = repo.commit("change", **{"a.txt": "".join(f"line {n}\n" for n in range(1, 12))})
    repo.git("checkout", "-q", "-b", "other", base)
    repo.commit("before", **{"b.txt": "b\n"})
    repo.git("cherry-pick", first)
    picked = repo.head()
    assert picked != first
    assert ids(repo, first)[0] == ids(repo, picked)[0] != ""


def test_settings_of_the_user_change_no_patch_id(repo: GitRepo) -> None:
    repo.git("mv", "a.txt", "b.txt")
    head = repo.commit("change", **{"src/app.py": "x = 1\n\n\ny = 2\n"})
    before = ids(repo, head)
    for key, value in {
        "diff.noprefix": "true", "diff.mnemonicPrefix": "true", "diff.context": "9", "diff.algorithm": "patience",
        "diff.renames": "false", "diff.external": "false", "diff.interHunkContext": "5", "color.ui": "always",
        "diff.suppressBlankEmpty": "true", "log.showSignature": "true", "diff.colorMoved": "zebra",
        "notes.displayRef": "refs/notes/*", "log.follow": "true", "format.pretty": "fuller", "diff.srcPrefix": "x/",
    }.items():  # fmt: skip
        repo.git("config", key, value)
    assert ids(repo, head) == before


def test_merges_empty_and_binary_commits_have_none(repo: GitRepo) -> None:
    binary = repo.commit("binary", **{"b.bin": b"\0\1" * 50})
    empty = repo.commit("empty")
    repo.git("checkout", "-q", "-b", "side", "HEAD^")
    repo.commit("side", **{"s.txt": "s\n"})
    repo.git("checkout", "-q", "main")
    repo.git("merge", "-q", "--no-ff", "--no-edit", "side")
    assert ids(repo, binary, empty, repo.head()) == ["", "", ""]


def test_messages(repo: GitRepo) -> None:
    first = repo.commit("subject\n\nbody of it\nin two lines\n")
    second = repo.commit(f"subject\n\n{first}")
    assert bodies(repo.top, [first, second]) == {first: "body of it\nin two lines\n", second: f"{first}\n"}
    assert bodies(repo.top, []) == {}


def test_a_partial_clone_has_no_patches_and_fetches_nothing(repo: GitRepo, tmp_path: Path) -> None:
    repo.git("config", "uploadpack.allowFilter", "true")
    head = repo.commit("change", **{"a.txt": "x\n"})
    clone = tmp_path / "partial"
    subprocess.run(
        ["git", "clone", "-q", "--bare", "--filter=blob:none", repo.top.as_uri(), clone], check=True
    )

    def objects() -> str:
        command = ["git", "count-objects", "-v"]
        return subprocess.run(command, cwd=clone, capture_output=True, text=True, check=True).stdout

    before = objects()
    assert patches(clone, [head]) == {}
    assert objects() == before
