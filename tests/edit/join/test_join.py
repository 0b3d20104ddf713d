"""Edited segments become one commit of their source, whatever other work is in the repository."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from repoagent.split.folder_index import base_bytes, edited_segments, read_index
from tests.cli.apply_patch import program
from tests.conftest import GitRepo
from tests.crash.fault_library import build, environment
from tests.edit.join.conftest import NAMES, SOURCE, MakeSplit, Split

Make = Callable[[str], GitRepo]
PARSED = SOURCE.replace(b"parse(value):\n    first = value\n    second = first", b"parse(value):\n    first = value\n    second = 2")  # fmt: skip


def is_fresh(split: Split) -> bool:
    """Whether the folder has the current source, without edits."""
    index = read_index(split.folder)
    data = base_bytes(index)
    files = b"".join((split.folder / segment.file).read_bytes() for segment in index.segments)
    return data == files == split.source.read_bytes() and not edited_segments(index)


@pytest.mark.soak
def test_edits_of_two_segments_are_one_commit_that_can_be_undone(split: Split) -> None:
    before = split.repo.head()
    split.edit(2, b"second = first", b"second = 2")
    split.edit(4, b"    third = second\n", b"")
    head, mark, tail = PARSED.partition(b"def store")
    done = split.join(code=0)
    assert split.source.read_bytes() == head + mark + tail.replace(b"    third = second\n", b"", 1)
    assert split.repo.status() == "" and is_fresh(split)
    message = split.repo.git("log", "-1", "--format=%B")
    assert message.startswith("Change src/big.py\n\nRepoagent-Edit: ")
    assert f"Source-Blob: {split.repo.git('rev-parse', f'{before}:src/big.py').strip()}" in message
    assert "Assisted-by" not in message
    assert done.out.startswith("[main ") and "1 file +1 -2" in done.out
    assert "002.py  +1 -1\n" in done.err and "004.py  +0 -1\n" in done.err
    assert split.repo.git("apply", "--check", "-R", str(split.folder / "join.diff")) == ""
    (file,) = split.repo.top.glob(".repoagent/memory/*/edits.jsonl")
    assert json.loads(file.read_text())["commit"] == split.repo.head()
    assert "kind=join" in next(split.repo.top.glob(".repoagent/memory/*/conversation.md")).read_text()
    assert program(split.repo.top, "undo").code == 0
    assert split.source.read_bytes() == SOURCE and split.repo.head() == before


def test_each_join_saves_its_diff_and_uses_the_message(split: Split) -> None:
    split.edit(1, b"first", b"one")
    split.join(code=0)
    split.edit(2, b"first", b"two")
    value = split.join("-m", "Say two", "-m", "It is clearer.", "--json", code=0).json
    assert value["outcome"] == "committed" and value["refreshed"]
    assert value["join_diff"] == str(split.folder / "join-2.diff")
    assert value["segments"] == [{"file": "002.py", "added": 1, "removed": 1, "how": "applied", "notes": []}]
    assert (split.folder / "join-2.diff").read_text() == value["diff"]
    assert "one" in (split.folder / "join.diff").read_text()
    assert (value["source"], value["index"]) == ("src/big.py", str(split.folder / "index.json"))
    message = split.repo.git("log", "-1", "--format=%B")
    assert f"Repoagent-Edit: {value['edit']}\n" in message
    assert message.startswith("Say two\n\nIt is clearer.\n\nRepoagent-Edit")


def test_a_dry_run_writes_nothing_and_no_commit_only_the_file(split: Split) -> None:
    split.edit(2, b"second = first", b"second = 2")
    before, head = split.everything(), split.repo.head()
    done = split.join("--dry-run", code=0)
    assert split.everything() == before
    assert split.repo.git("apply", "--check", "-", stdin=done.out.encode()) == ""
    assert not split.join("--dry-run", "--json", code=0).json["refreshed"]
    split.join("--no-commit", code=0)
    assert split.repo.head() == head and split.repo.status() == " M src/big.py\n"
    assert (split.folder / "join.diff").exists() and is_fresh(split)
    assert program(split.repo.top, "undo").code == 0 and split.source.read_bytes() == SOURCE


def test_staged_and_unstaged_work_is_unchanged(split: Split) -> None:
    split.change(b"def load(value):", b"def load(value, staged):")
    split.repo.git("add", "src/big.py")
    split.change(b"def close(value):", b"def close(value, unstaged):")
    split.repo.write("a.txt", "mine\n")
    split.edit(3, b"second = first", b"second = 3")
    done = split.join(code=0)
    shown = split.repo.git("show", "HEAD", "--format=", "-U0")
    assert "+    second = 3" in shown and "staged" not in shown
    assert "load(value, staged)" in split.repo.git("diff", "--cached")
    unstaged = split.repo.git("diff", "-U0")
    assert "close(value, unstaged)" in unstaged and "second" not in unstaged
    assert "kept its changes" in done.err and is_fresh(split)


def test_edits_that_the_source_already_has_are_not_joined_again(split: Split) -> None:
    split.edit(2, b"second = first", b"second = 2")
    split.edit(3, b"second = first", b"second = 3")
    now = SOURCE.replace(b"second = first", b"second = 2", 2).replace(b"second = 2", b"second = first", 1)
    split.source.write_bytes(now)
    split.repo.commit("done by hand")
    done = split.join(code=0)
    assert "002.py  +1 -1  already in the source" in done.err
    assert "1 file +1 -1" in done.out and is_fresh(split)
    split.join(code=1)


def test_a_kill_between_the_commit_and_the_refresh_is_recovered(split: Split) -> None:
    split.edit(2, b"second = first", b"second = 2")
    split.repo.hook("post-commit", "kill -9 $(ps -o ppid= -p $PPID)\n")
    assert program(split.repo.top, "split", "--join", "parts").code == -signal.SIGKILL
    split.repo.hook("post-commit", "true\n")
    head, data = split.repo.head(), split.source.read_bytes()
    assert data.count(b"second = 2") == 1 and not is_fresh(split)
    done = program(split.repo.top, "split", "--join", "parts")
    assert done.code == 1 and "src/big.py already has your edits, and parts is up to date" in done.err
    assert (split.repo.head(), split.source.read_bytes()) == (head, data) and is_fresh(split)
    assert split.repo.status() == "" and not (split.repo.top / ".git/index.lock").exists()


def test_the_folder_follows_a_formatting_hook(split: Split) -> None:
    split.edit(2, b"second = first", b"second = 2  ")
    split.repo.hook("pre-commit", "sed -i 's/ *$//' src/big.py && git add src/big.py\n")
    split.join(code=0)
    assert b"second = 2\n" in split.source.read_bytes() and is_fresh(split)
    assert split.repo.status() == ""


def test_changes_of_an_editor_are_reverted_and_reported(split: Split) -> None:
    split.edit(2, b"second = first", b"second = 2")
    split.file(2).write_bytes(split.file(2).read_bytes().replace(b"\n", b"\r\n"))
    assert "note: 002.py: changed the line endings from CRLF back to LF" in split.join(code=0).err
    assert split.source.read_bytes() == PARSED and is_fresh(split)


def test_other_encodings_are_preserved(make_split: MakeSplit) -> None:
    split = make_split(SOURCE.replace(b"value", "wért".encode("latin-1")), "src/old.txt")
    text = split.file(2).read_bytes().decode("latin-1").replace("second = first", "second = é")
    split.file(2).write_bytes(text.encode())
    assert "002.txt is no longer in its original single-byte encoding" in split.join(code=3).err
    assert split.file(2).read_bytes() == text.encode()
    split.file(2).write_bytes(text.encode("latin-1"))
    assert split.join().code == 0
    assert split.source.read_bytes().count(b"second = \xe9\n") == 1


def test_an_emptied_segment_deletes_its_text_and_other_files_stay(split: Split) -> None:
    split.file(3).write_bytes(b"")
    litter = ("003.py~", ".003.py.swp", "#003.py#", "003.py.orig")
    for name in (*litter, "006.py"):
        (split.folder / name).write_bytes(b"another")
    (split.folder / "__pycache__").mkdir()
    done = split.join(code=0)
    assert "003.py is empty: deleted all its 7 lines" in done.err
    assert "not part of this split: 006.py\n" in done.err
    assert all((split.folder / name).exists() for name in litter)
    assert b"def check" not in split.source.read_bytes() and split.source.read_bytes().count(b"def ") == 4


def test_a_segment_edited_before_a_refresh_is_merged_from_its_own_base(split: Split) -> None:
    split.edit(2, b"second = first", b"second = 2")
    split.change(b"parse(value):\n    first = value", b"parse(value):\n    first = source")
    split.repo.commit("moved on")
    assert split.program("--refresh", str(split.folder)).code == 0
    assert "002.py" in split.join(code=3).err  # adjacent lines: a conflict for git
    split.edit(2, b"second = 2", b"second = first")
    split.edit(2, b"return third", b"return 2")
    split.join(code=0)
    lines = b"first = source\n    second = first\n    third = second\n    return 2\n"
    assert lines in split.source.read_bytes() and is_fresh(split)


@pytest.mark.parametrize("place", ["a linked work tree", "a nested repository"])
def test_each_work_tree_has_its_own_source(split: Split, make_repo: Make, place: str) -> None:
    if place == "a nested repository":
        own = make_repo("repo/inner")
        own.commit("the file of the same name", **{"src/big.py": SOURCE})
    else:
        split.repo.git("worktree", "add", "-q", "-b", "side", "../side")
        own = GitRepo(split.repo.top.parent / "side")
    assert split.program("src/big.py", "--target-bytes", "110", "-o", "own", cwd=own.top).code == 0
    path = own.top / "own/002.py"
    path.write_bytes(path.read_bytes().replace(b"second = first", b"second = other"))
    cwd = split.repo.top if place == "a nested repository" else own.top
    done = split.program("--join", str(own.top / "own"), cwd=cwd)
    assert done.code == 0, done.err
    assert b"other" in own.read("src/big.py") and split.source.read_bytes() == SOURCE


@settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
@pytest.mark.soak
def test_random_edits_and_random_changes_elsewhere_are_both_joined(split: Split, data: st.DataObject) -> None:
    """At most one side changes a line of each function."""
    split.source.write_bytes(SOURCE)
    assert split.program("--refresh", str(split.folder)).code == 0
    sides = data.draw(st.lists(st.sampled_from(["ours", "theirs", "neither"]), min_size=5, max_size=5))
    wanted = present = SOURCE
    for number, (name, side) in enumerate(zip(NAMES, sides, strict=True), 1):
        lines = [b"    first = value\n", b"    third = second\n", b"    return third\n"]
        text = line = data.draw(st.sampled_from(lines))
        if side != "neither":
            text = data.draw(st.sampled_from([b"", b"    more = 1\n    less = 2\n", b"    return None\n"]))
        start = SOURCE.index(b"def %s" % name.encode())
        function = SOURCE[start : start + 100].partition(b"\n\n\n")[0] + b"\n\n\n"
        changed = function.replace(line, text, 1)
        wanted = wanted.replace(function, changed)
        if side == "ours":
            split.file(number).write_bytes(changed)
        present = present.replace(function, changed) if side == "theirs" else present
    split.source.write_bytes(present)
    done = split.join("--no-commit")
    assert done.code == (0 if "ours" in sides else 1), done.err
    assert split.source.read_bytes() == (wanted if "ours" in sides else present)


def test_a_result_that_does_not_parse_is_joined_only_with_an_option(split: Split) -> None:
    split.edit(2, b"parse(value):", b"parse(value:")
    before = split.everything()
    assert "fix 002.py and join again, or use --no-parse-check" in split.join(code=3).err
    assert split.everything() == before
    split.join("--no-parse-check", code=0)
    assert b"parse(value:" in split.source.read_bytes()


@pytest.mark.soak
def test_killed_at_many_events(tmp_path: Path) -> None:
    library = build(tmp_path)
    if library is None:
        pytest.skip("the fault library needs Linux and a C compiler")
    done = subprocess.run(
        [sys.executable, "-m", "tests.edit.join.killed", str(tmp_path / "work"), "7"], cwd=Path(__file__).parents[3],
        env=environment(library, tmp_path / "control"), capture_output=True, text=True, errors="replace", check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    assert "wrong:" not in done.stdout and int(done.stdout.split("kills:")[1].split()[0]) > 30, done.stdout
