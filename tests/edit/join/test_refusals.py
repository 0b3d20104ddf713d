"""Refused joins: one sentence, the right exit code, and nothing is changed."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.cli.applying import program
from tests.conftest import GitRepo
from tests.edit.join.conftest import MakeSplit, Split

pytestmark = pytest.mark.soak


def test_nothing_edited(split: Split) -> None:
    before = split.everything()
    done = split.join()
    assert done.code == 1 and "no segment of src/big.py has been edited" in done.err
    assert split.everything() == before
    split.change(b"second = first", b"second = theirs")  # or an undo of the last join
    done = split.join()
    assert done.code == 1 and "has changed, and `repoagent split --refresh parts` brings" in done.err


def test_the_same_lines_are_named_in_both_files(split: Split) -> None:
    split.edit(2, b"second = first", b"second = ours")
    split.change(b"def load(value):\n", b"def load(value):\n    # new\n")
    split.change(
        b"parse(value):\n    first = value\n    second = first",
        b"parse(value):\n    first = value\n    second = theirs",
    )
    before = split.everything()
    done = split.join()
    assert done.code == 3 and "line 3 of 002.py against line 11 of src/big.py" in done.err
    done = split.join("--json")
    (conflict,) = done.json["error"]["conflicts"]
    assert conflict == {
        "files": ["002.py"], "places": [{"file": "002.py", "lines": [3, 3], "source_lines": [11, 11]}],
    }  # fmt: skip
    assert split.everything() == before


def test_force_without_a_terminal_shows_what_would_go_and_refuses(split: Split) -> None:
    split.edit(2, b"second = first", b"second = ours")
    split.change(
        b"second = first\n    third = second\n    return third\n\n\ndef check",
        b"second = theirs\n    third = second\n    return third\n\n\ndef check",
    )
    before = split.everything()
    done = split.join("--force")
    assert done.code == 3 and "cannot ask without a terminal" in done.err
    assert "or move 002.py away, run --refresh" in done.err
    assert "+    second = theirs\n" in done.err and "-    second = first\n" in done.err
    assert split.everything() == before
    split.file(2).rename(split.repo.top / "mine.py")
    assert split.program("--refresh", "parts").code == 0
    split.edit(2, b"second = theirs", b"second = theirs + ours")
    assert split.join("--no-commit").code == 0 and b"second = theirs + ours" in split.source.read_bytes()


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (lambda data: data.replace(b"\n", b"\r\n", 2), "line 1 does not end in LF"),
        (lambda data: b"<<<<<<< HEAD\n" + data, "conflict markers (line 1)"),
        (lambda data: data[:40], "looks truncated in line 3"),
        (lambda data: data + b"\0\0", "NUL bytes"),
        (lambda data: data.replace(b"value", b"v\xe4lue"), "is no longer valid UTF-8 (line 1)"),
        (lambda data: data.replace(b"return third", b"return ((third"), "; fix 003.py and join again"),
    ],
)
def test_a_segment_that_can_not_be_taken_over(
    split: Split, edit: Callable[[bytes], bytes], said: str
) -> None:
    split.file(3).write_bytes(edit(split.file(3).read_bytes()))
    before = split.everything()
    done = split.join()
    assert done.code == 3 and said in done.err
    assert split.everything() == before


def test_a_missing_segment_file(split: Split) -> None:
    split.edit(2, b"second", b"other")
    split.file(3).unlink()
    before = split.everything()
    done = split.join()
    assert done.code == 3 and "003.py is missing" in done.err and "--refresh" in done.err
    assert split.everything() == before


def test_all_segments_emptied(split: Split) -> None:
    for number in range(1, 6):
        split.file(number).write_bytes(b"")
    before = split.everything()
    done = split.join()
    assert done.code == 3 and "all segments are empty" in done.err
    assert split.everything() == before


def test_the_source_is_gone_or_elsewhere_or_something_else(split: Split) -> None:
    split.edit(2, b"second = first", b"second = ours")
    data = split.source.read_bytes()
    split.repo.git("mv", "src/big.py", "src/large.py")
    done = split.join()
    assert done.code == 3 and "src/large.py has the same text" in done.err
    command = done.err.partition("run `repoagent split ")[2].partition("`")[0].split()
    assert split.program(*command).code == 0 and split.program("--join", "parts", "-n").code == 0
    assert split.program("src/large.py", "--refresh", "parts").code == 0
    index = split.folder / "index.json"
    index.write_text(index.read_text().replace("src/large.py", "src/big.py"))
    split.repo.git("rm", "-q", "-f", "src/large.py")
    done = split.join()
    assert done.code == 3 and "src/big.py no longer exists" in done.err
    split.source.parent.mkdir(exist_ok=True)
    split.source.symlink_to("../a.txt")
    done = split.join()
    assert done.code == 3 and "symbolic link" in done.err
    split.source.unlink()
    split.source.write_bytes(data[:50] + b"\0" + data[50:])
    done = split.join()
    assert done.code == 3 and "is now binary" in done.err
    split.source.write_bytes(data.decode().encode("utf-16"))
    done = split.join()
    assert done.code == 3 and "src/big.py is now encoded in UTF-16: save it as UTF-8" in done.err
    assert split.repo.read("a.txt").startswith(b"line 1\n")


def test_an_untracked_source(make_split: MakeSplit) -> None:
    split = make_split()
    split.repo.git("rm", "-q", "--cached", "src/big.py")
    split.repo.git("commit", "-q", "-m", "not any more")
    split.edit(2, b"second = first", b"second = ours")
    before = split.everything()
    done = split.join()
    assert done.code == 3 and "not in the last commit" in done.err
    assert split.everything() == before
    assert split.join("--no-commit").code == 0
    assert b"second = ours" in split.source.read_bytes()


def test_work_that_can_not_be_told_apart_and_the_ways_out(split: Split) -> None:
    split.change(b"third = second", b"third = mine")
    assert split.program("--refresh", str(split.folder)).code == 0
    split.edit(1, b"third = mine", b"third = ours")
    before = split.everything()
    done = split.join()
    assert done.code == 3 and "--include-dirty" in done.err
    assert split.everything() == before
    assert split.join("--include-dirty").code == 0
    assert b"third = ours" in split.repo.git("show", "HEAD:src/big.py").encode()


def test_a_tampered_index(split: Split) -> None:
    split.edit(2, b"second = first", b"second = ours")
    path = split.folder / "index.json"
    whole = json.loads(path.read_text())
    for target in ("../outside.py", "/etc/hostname", ".git/config", "a.txt/../../x"):
        path.write_text(json.dumps({**whole, "source": {**whole["source"], "path": target}}))
        assert split.join().code == 3, target
    path.write_text(json.dumps({**whole, "version": 99}))
    done = split.join()
    assert done.code == 3 and "version 99" in done.err
    path.write_text(json.dumps({**whole, "source": {**whole["source"], "path": "a.txt"}}))
    done = split.join()
    assert done.code == 3
    assert split.repo.status() == ""


def test_a_hook_that_says_no(split: Split) -> None:
    split.edit(2, b"second = first", b"second = ours")
    split.repo.hook("pre-commit", "echo not today; exit 1\n")
    before = split.everything()
    done = split.join()
    assert done.code == 6 and "not today" in done.err
    assert split.everything() == before


def test_a_merge_in_progress(split: Split) -> None:
    split.edit(2, b"second = first", b"second = ours")
    split.repo.write(".git/MERGE_HEAD", split.repo.head() + "\n")
    before = split.everything()
    done = split.join()
    assert done.code == 3 and "merge is in progress" in done.err
    assert split.everything() == before


@pytest.mark.parametrize(
    "options",
    [("--join", "parts", "x.py"), ("--join", "parts", "--natural"), ("a.txt", "--force"), ("a.txt", "-m", "x"),
     ("--join", "parts", "-m", " "), ("--join", "parts", "-n", "--no-commit"), ("--join", "nowhere")],
)  # fmt: skip
def test_options_that_make_no_sense(split: Split, options: tuple[str, ...]) -> None:
    split.edit(2, b"second = first", b"second = ours")
    before = split.everything()
    assert split.program(*options).code == 2
    assert split.everything() == before


def test_a_split_of_standard_input(repo: GitRepo) -> None:
    done = program(repo.top, "split", "-", "--language", "python", "-o", "parts", stdin=b"x = 1\n")
    assert done.code == 0, done.err
    segment = next(path for path in (repo.top / "parts").iterdir() if path.name.startswith("001"))
    segment.write_bytes(b"x = 2\n")
    done = program(repo.top, "split", "--join", "parts")
    assert done.code == 3 and "standard input" in done.err
