"""bench/split on a small repository: which files it takes, what it measures, and that it can say no."""

from __future__ import annotations

import subprocess
from itertools import accumulate, pairwise
from pathlib import Path

import pytest

from bench.origins import Origin
from bench.origins import with_files as origins_opened
from bench.split.__main__ import main
from bench.split.corpus import LARGE, File, candidates, chosen, local, opened
from bench.split.measure import Edit, Settings, changed, edits, measured
from bench.split.report import failures, good, in_definitions, orphans, splitters, targets, tiny
from bench.split.splitters import OURS, SPLITTERS, blank_lines, lines, ours

FUNCTION = "# What {n} does.\ndef function_{n}(value):\n    first = value + {n}\n    return first\n\n\n"
MODULE = "".join(FUNCTION.format(n=n) for n in range(430))


@pytest.fixture
def large(tmp_path: Path) -> Path:
    top = tmp_path / "large"
    top.mkdir()
    git = ["git", "-C", str(top), "-c", "user.name=T", "-c", "user.email=t@example.com"]
    subprocess.run([*git, "init", "--quiet"], check=True)
    (top / "module.py").write_text(MODULE)
    (top / "same.py").write_text(MODULE)
    (top / "other.py").write_text(MODULE.replace("value", "other"))
    (top / "broken.py").write_text(MODULE + "def (\n")
    (top / "one_line.json").write_text("[" + ",".join(map(str, range(20_000))) + "]")
    (top / "binary.txt").write_bytes(b"\0" * 40_000)
    (top / "latin.txt").write_bytes(b"caf\xe9\n" * 9_000)
    (top / "notes.txt").write_text("A line.\nAnother.\n\n" * 3_000)
    (top / "more.txt").write_text("A line.\nA second one.\n\n" * 3_000)
    (top / "small.py").write_text("one = 1\n")
    subprocess.run([*git, "add", "-A"], check=True)
    subprocess.run([*git, "commit", "--quiet", "-m", "all"], check=True)
    return top


@pytest.mark.soak
def test_files_are_large_readable_and_not_taken_twice(large: Path) -> None:
    ((origin, clone),) = origins_opened([large], None)
    found = list(candidates(origin, clone))
    assert "small.py" not in {one.path for one in found}
    files = list(chosen(found, seed=1, per_kind=5))
    assert not {file.source.path for file in files} & {
        "broken.py",
        "binary.txt",
        "latin.txt",
        "one_line.json",
    }
    assert sorted(file.source.kind for file in files) == ["python", "python", "text", "text"]
    assert {file.source.path for file in files} >= {"other.py", "notes.txt"}


def test_the_choice_is_the_same_for_a_seed_and_held_out_files_do_not_depend_on_it(large: Path) -> None:
    ((origin, clone),) = origins_opened([large], None)
    found = list(candidates(origin, clone))
    choices = [[one.source.path for one in chosen(found, seed, 1, ["text"])] for seed in range(5)]
    assert choices == [[one.source.path for one in chosen(found, seed, 1, ["text"])] for seed in range(5)]
    assert len({tuple(choice) for choice in choices}) > 1
    assert {one.blob: one.held_out for one in found} == {
        one.blob: one.held_out for one in candidates(origin, clone)
    }


def test_a_file_above_a_megabyte_takes_the_place_of_a_usual_one(large: Path) -> None:
    (large / "huge.txt").write_text(("word " * 50 + "\n\n") * (LARGE // 200))
    git = ["git", "-C", str(large), "-c", "user.name=T", "-c", "user.email=t@example.com"]
    subprocess.run([*git, "add", "-A"], check=True)
    subprocess.run([*git, "commit", "--quiet", "-m", "more"], check=True)
    ((origin, clone),) = origins_opened([large], None)
    files = [one.source.path for one in chosen(list(candidates(origin, clone)), 1, 2, ["text"])]
    assert len(files) == 2 and files[1] == "huge.txt"


def test_a_repository_that_is_none_is_said(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="not a git repository"):
        list(origins_opened([tmp_path], None))
    assert list(origins_opened([], tmp_path)) == []  # a folder that has none of the listed ones


def _file(tmp_path: Path, text: str = MODULE) -> File:
    path = tmp_path / "module.py"
    path.write_text(text)
    file = local(path)
    assert file is not None
    return file


def test_lines_cut_functions_and_that_is_seen(tmp_path: Path) -> None:
    file = _file(tmp_path)
    result = measured(file, "lines", lines, Settings(1000, 1))
    assert result.exact and good([result]) < 60 and in_definitions([result]) > 0 and orphans([result]) > 0
    assert "cuts inside a Python definition" not in "".join(
        text
        for text, well in targets([measured(file, OURS, blank_lines, Settings(1000, 1))], 1000)
        if not well
    )
    (shown, *_) = failures(file, result)
    assert "-------- cut" in shown and "module.py:" in shown


def test_a_splitter_that_loses_a_byte_is_not_exact(tmp_path: Path) -> None:
    file = _file(tmp_path)
    result = measured(file, OURS, lambda kind, path, data, target: [data[:-1]], Settings(1000, 1))
    assert not result.exact and not result.verdicts
    assert ("exact 0.0 % (100)", False) in list(targets([result], 1000))
    assert "0.0" in "\n".join(splitters([result], 1000))


def test_what_is_too_long_and_what_is_tiny_is_counted(tmp_path: Path) -> None:
    file = _file(tmp_path)
    end = len(file.data)
    at = [0, 10, 5000, end]
    pieces = [file.data[a:b] for a, b in pairwise(at)]
    result = measured(file, OURS, lambda *_: pieces, Settings(1000, 1))
    assert result.over == 2 and round(tiny([result], 1000)) == 33


def test_offsets_are_carried_over_an_edit() -> None:
    data = b"one\ntwo\nthree\nfour\n"
    deleted = Edit(4, 8, b"")
    assert deleted.applied(data) == b"one\nthree\nfour\n"
    assert deleted.carried([4, 8, 14]) == [4, 4, 10]
    replaced = Edit(4, 14, b"five\n")
    assert replaced.carried([4, 8, 14]) == [4, 9]
    inserted = Edit(4, 4, b"new\n")
    assert inserted.carried([4, 8]) == [4, 12]


def test_edits_are_local_and_the_same_for_a_seed() -> None:
    data = MODULE.encode()
    found = edits(data, 12, 3)
    assert found == edits(data, 12, 3) != edits(data, 12, 4)
    for edit in found:
        assert data[edit.start : edit.end].count(b"\n") <= 20 and edit.new.count(b"\n") <= 20
        assert edit.start == 0 or data[edit.start - 1 : edit.start] == b"\n"


def test_changed_segments_are_counted() -> None:
    data = b"".join(b"line %d\n" % number for number in range(1000))

    def by_lines(text: bytes, kept: object) -> list[bytes]:
        return lines("text", "a.txt", text, 1000)

    def at_once(text: bytes, kept: object) -> list[bytes]:
        return [text]

    first = [Edit(0, 0, b"new\n")]
    assert changed(data, first, at_once, keep=False) == [1]
    assert changed(data, first, by_lines, keep=False)[0] >= 8  # all of them move
    middle = data.index(b"line 500\n")

    def kept_only(text: bytes, kept: list[int]) -> list[bytes]:
        cuts = list(kept) or [middle]
        return [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]

    assert changed(data, first, kept_only, keep=True) == [1]


@pytest.mark.parametrize("name", ["lines", "blank lines", OURS])
def test_the_splitters_at_hand_are_exact(name: str) -> None:
    for text in (MODULE.encode()[:9000], b"x" * 5000, b"a\r\nb\r\n" * 400, b"\n\n\n", b"one"):
        pieces = SPLITTERS[name]("python", "a.py", text, 1000)
        longest = max(map(len, text.splitlines(keepends=True)))  # ours never cuts a line
        assert b"".join(pieces) == text
        assert max(map(len, pieces)) <= max(1000, longest if name == OURS else 0)


def test_the_whole_run_prints_tables_and_says_what_was_missed(
    large: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = tmp_path / "bad.txt"
    main(
        f"--repo {large} --per-kind 2 --edits 3 --edited-files 1 --no-times --kind python"
        f" --failures {bad} --failures-of lines".split()
    )
    said = capsys.readouterr().out
    assert f"\n{OURS} " in said and "\nlines " in said and "\npython " in said
    assert "good cuts" in said and "changed segments per edit, refreshed" in said
    assert "large:" in bad.read_text()


def test_a_run_without_files_says_what_to_do(large: Path) -> None:
    with pytest.raises(SystemExit, match="--repo"):
        main(["--repo", str(large), "--kind", "rust"])


def test_a_file_that_is_not_utf_8_is_not_taken(large: Path) -> None:
    ((origin, clone),) = origins_opened([large], None)
    latin = next(one for one in candidates(origin, clone) if one.path == "latin.txt")
    assert opened(latin) is None
    assert isinstance(origin, Origin)


def test_ours_takes_kept_offsets() -> None:
    data = MODULE.encode()
    pieces = ours("python", "a.py", data, 4096)
    kept = list(accumulate(map(len, pieces)))[:-1]
    assert ours("python", "a.py", data, 4096, kept) == pieces
