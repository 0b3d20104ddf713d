"""`.repoagentignore`: ignores the same files as git, without exponential time, and has a size limit."""

from __future__ import annotations

import random
import re
import time
from pathlib import Path

import pytest

from repoagent.edit.guards.off_limits import LARGEST, IgnoreFile, gate
from repoagent.errors import Refused
from tests.conftest import GitRepo

PIECES = ["a", "b", "ab", "*", "**", "?", "/", "/", "[ab]", "[!a]", "[^b]", "[]a]", "[[:alpha:]]", "[a-c]", "\\*", "!", " ", ".", "c#", "\\a"]  # fmt: skip
NAMES = ["a", "b", "ab", "aab", "abc", "c#", "*", "a.b", "]"]


def by_git(repo: GitRepo, lines: list[str], paths: list[str]) -> set[str]:
    repo.write(".gitignore", "\n".join(lines) + "\n")
    out = repo.git("check-ignore", "--no-index", "-z", "--stdin", stdin="\0".join(paths).encode(), ok=False)
    return set(out.split("\0")[:-1])


@pytest.mark.parametrize("seed", range(3))
def test_it_ignores_the_same_files_as_git(repo: GitRepo, seed: int) -> None:
    chosen = random.Random(seed)
    for _ in range(25):
        count = chosen.randint(1, 4)
        lines = ["".join(chosen.choices(PIECES, k=chosen.randint(1, 6))) for _ in range(count)]
        # git compares two unrelated pointers if `**` does not follow a slash, and may read it as `*/**`;
        # before an escaped slash it reads it as at least one folder
        lines = [line for line in lines if not re.search(r"[^/]\*\*/|\*\*\*|\*\*\\/", line)]
        paths = sorted({"/".join(chosen.choices(NAMES, k=chosen.randint(1, 4))) for _ in range(60)})
        paths = [path for path in paths if not any(other.startswith(f"{path}/") for other in paths)]
        known = IgnoreFile("\n".join(lines).encode())
        assert {path for path in paths if known.match_file(path)} == by_git(repo, lines, paths), lines


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("a*" * 60 + "b", "a" * 4_000), ("*a" * 60 + "*b", "a" * 255), ("**/a/" * 30 + "x", "a/" * 1_000 + "a"),
        ("**/" * 200 + "x", "a/" * 1_000 + "y"), ("a?*" * 60 + "b", "a" * 4_000),
        ("[" * 900, "a"), ("[a]" * 300 + "[", "a"),
    ],
)  # fmt: skip
def test_no_pattern_takes_exponential_time(pattern: str, path: str) -> None:
    began = time.process_time()
    assert not IgnoreFile(pattern.encode()).match_file(path)
    assert time.process_time() - began < 2


def test_the_ignore_file_has_a_size_limit(tmp_path: Path) -> None:
    for text, reason in (
        ("a\n" * LARGEST, "larger than the limit of 256 KiB"),
        ("[" * 9_999, "has a line of more"),
    ):
        (tmp_path / ".repoagentignore").write_text(text)
        with pytest.raises(Refused, match=reason):
            gate(tmp_path, ())
