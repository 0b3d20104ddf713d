"""Refused joins: one sentence, the right exit code, and nothing is changed."""

from __future__ import annotations

import json

import pytest

from tests.cli.apply_patch import program
from tests.conftest import GitRepo
from tests.edit.join.conftest import Split

pytestmark = pytest.mark.soak
OURS = (2, b"second = first", b"second = ours")
PARSE = b"parse(value):\n    first = value\n    second = "


def refused(split: Split, *words: str, options: tuple[str, ...] = (), code: int = 3) -> None:
    """Join, which must fail with `code` and `words` and change nothing."""
    before = split.everything()
    error = split.join(*options, code=code).err
    for text in words:
        assert text in error
    assert split.everything() == before


def test_nothing_edited(split: Split) -> None:
    refused(split, "no segment of src/big.py has been edited", code=1)


def test_conflicting_lines_are_named_in_both_files(split: Split) -> None:
    split.edit(*OURS)
    split.change(b"def load(value):\n", b"def load(value):\n    # new\n")
    split.change(PARSE + b"first", PARSE + b"theirs")
    refused(split, "line 3 of 002.py against line 11 of src/big.py")
    (conflict,) = split.join("--json").json["error"]["conflicts"]
    assert conflict == {
        "files": ["002.py"], "places": [{"file": "002.py", "lines": [3, 3], "source_lines": [11, 11]}],
    }  # fmt: skip


def test_force_without_a_terminal_shows_the_discarded_changes_and_refuses(split: Split) -> None:
    split.edit(*OURS)
    split.change(PARSE + b"first", PARSE + b"theirs")
    remedies = ("which needs a terminal for confirmation", "or move 002.py away, run --refresh")
    refused(split, *remedies, "+    second = theirs\n", "-    second = first\n", options=("--force",))
    split.file(2).rename(split.repo.top / "mine.py")
    assert split.program("--refresh", "parts").code == 0
    split.edit(2, b"second = theirs", b"second = theirs + ours")
    assert split.join("--no-commit").code == 0 and b"second = theirs + ours" in split.source.read_bytes()


def test_a_segment_with_an_unusable_text(split: Split) -> None:
    text = split.file(3).read_bytes()
    for unusable, words in (
        (b"<<<<<<< HEAD\n" + text, "conflict markers (line 1)"),
        (text.replace(b"return third", b"return ((third"), "; fix 003.py and join again"),
    ):
        split.file(3).write_bytes(unusable)
        refused(split, words)


def test_missing_and_emptied_segments(split: Split) -> None:
    split.edit(2, b"second", b"other")
    text = split.file(3).read_bytes()
    split.file(3).unlink()
    refused(split, "003.py is missing", "--refresh")
    split.file(3).write_bytes(text)
    for number in range(1, 6):
        split.file(number).write_bytes(b"")
    refused(split, "all segments are empty")


def test_a_missing_moved_or_replaced_source(split: Split) -> None:
    split.edit(*OURS)
    data = split.source.read_bytes()
    split.repo.git("mv", "src/big.py", "src/large.py")
    assert "run `repoagent split NAME --refresh parts`" in split.join(code=3).err
    assert split.program("src/large.py", "--refresh", "parts").code == 0
    assert split.program("--join", "parts", "-n").code == 0
    index = split.folder / "index.json"
    index.write_text(index.read_text().replace("src/large.py", "src/big.py"))
    split.repo.git("rm", "-q", "-f", "src/large.py")
    assert "src/big.py no longer exists" in split.join(code=3).err
    split.source.parent.mkdir(exist_ok=True)
    split.source.symlink_to("../a.txt")
    refused(split, "symbolic link")
    split.source.unlink()
    for other, words in (
        (data[:50] + b"\0" + data[50:], "is now binary"),
        (data.decode().encode("utf-16"), "src/big.py is now encoded in UTF-16: save it as UTF-8"),
    ):
        split.source.write_bytes(other)
        refused(split, words)
    assert split.repo.read("a.txt").startswith(b"line 1\n")


def test_an_untracked_source(split: Split) -> None:
    split.repo.git("rm", "-q", "--cached", "src/big.py")
    split.repo.git("commit", "-q", "-m", "not any more")
    split.edit(*OURS)
    refused(split, "not in the last commit")
    assert split.join("--no-commit").code == 0
    assert b"second = ours" in split.source.read_bytes()


def test_inseparable_work_and_the_remedy(split: Split) -> None:
    split.change(b"third = second", b"third = mine")
    assert split.program("--refresh", str(split.folder)).code == 0
    split.edit(1, b"third = mine", b"third = ours")
    refused(split, "--include-dirty")
    assert split.join("--include-dirty").code == 0
    assert b"third = ours" in split.repo.git("show", "HEAD:src/big.py").encode()


@pytest.mark.parametrize(
    ("version", "path"), [(1, "../outside.py"), (1, "/etc/hostname"), (1, ".git/config"), (1, "a.txt/../../x"),
                          (99, "src/big.py"), (1, "a.txt")],
)  # fmt: skip
def test_a_tampered_index(split: Split, version: int, path: str) -> None:
    split.edit(*OURS)
    index = split.folder / "index.json"
    whole = json.loads(index.read_text())
    changed = {**whole, "version": version, "source": {**whole["source"], "path": path}}
    index.write_text(json.dumps(changed))
    refused(split, "version 99" if version == 99 else "")
    assert split.repo.status() == ""


def test_a_failing_hook_and_a_merge_in_progress(split: Split) -> None:
    split.edit(*OURS)
    split.repo.hook("pre-commit", "echo not today; exit 1\n")
    refused(split, "not today", code=6)
    split.repo.write(".git/MERGE_HEAD", split.repo.head() + "\n")
    refused(split, "merge is in progress")


@pytest.mark.parametrize(
    "options",
    [("--join", "parts", "x.py"), ("--join", "parts", "--natural"), ("a.txt", "--force"), ("a.txt", "-m", "x"),
     ("--join", "parts", "-m", " "), ("--join", "parts", "-n", "--no-commit"), ("--join", "nowhere")],
)  # fmt: skip
def test_conflicting_options(split: Split, options: tuple[str, ...]) -> None:
    split.edit(*OURS)
    before = split.everything()
    assert split.program(*options).code == 2
    assert split.everything() == before


def test_a_split_of_standard_input(repo: GitRepo) -> None:
    done = program(repo.top, "split", "-", "--language", "python", "-o", "parts", stdin=b"x = 1\n")
    assert done.code == 0, done.err
    next((repo.top / "parts").glob("001*")).write_bytes(b"x = 2\n")
    done = program(repo.top, "split", "--join", "parts")
    assert done.code == 3 and "standard input" in done.err
