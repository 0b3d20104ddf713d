"""bench/split on a small repository: which files it takes, what it measures, and that it can say no."""

from __future__ import annotations

import subprocess
from itertools import accumulate, pairwise
from pathlib import Path

import pytest

from bench.origins import with_files
from bench.split.__main__ import main
from bench.split.corpus import LARGE, File, candidates, chosen, local
from bench.split.measure import Edit, Settings, changed, edits, measured
from bench.split.report import good, in_definitions, orphans, targets, tiny
from bench.split.splitters import OURS, SPLITTERS, blank_lines, ours

FUNCTION = "# What {n} does.\ndef function_{n}(value):\n    first = value + {n}\n    return first\n\n\n"
MODULE = "".join(FUNCTION.format(n=n) for n in range(430))
FILES = {
    "module.py": MODULE, "same.py": MODULE, "other.py": MODULE.replace("value", "other"),
    "broken.py": MODULE + "def (\n", "small.py": "one = 1\n",
    "one_line.json": "[" + ",".join(map(str, range(20_000))) + "]", "binary.txt": "\0" * 40_000,
    "latin.txt": "caf\xe9\n" * 9_000, "notes.txt": "A line.\nAnother.\n\n" * 3_000,
    "more.txt": "A line.\nA second one.\n\n" * 3_000,
}  # fmt: skip


@pytest.fixture
def large(tmp_path: Path) -> Path:
    top = tmp_path / "large"
    top.mkdir()
    subprocess.run(["git", "init", "--quiet", str(top)], check=True)
    for name, text in FILES.items():
        (top / name).write_text(text, encoding="latin-1")
    commit(top)
    return top


def commit(top: Path) -> None:
    git = ["git", "-C", str(top), "-c", "user.name=T", "-c", "user.email=t@example.com"]
    subprocess.run([*git, "add", "-A"], check=True)
    subprocess.run([*git, "commit", "--quiet", "-m", "all"], check=True)


def test_files_are_large_readable_drawn_by_the_seed_and_not_taken_twice(large: Path) -> None:
    ((origin, clone),) = with_files([large], None)
    found = list(candidates(origin, clone))
    assert "small.py" not in {one.path for one in found}
    names = {file.source.path for file in chosen(found, seed=1, per_kind=5)}
    assert len(names) == 4 and names & {"module.py", "same.py"}
    assert names > {"other.py", "notes.txt", "more.txt"}
    choices = [[one.source.path for one in chosen(found, seed, 1, ["text"])] for seed in range(5)]
    assert choices == [[one.source.path for one in chosen(found, seed, 1, ["text"])] for seed in range(5)]
    assert len({tuple(choice) for choice in choices}) > 1


def test_a_file_above_a_megabyte_takes_the_place_of_a_usual_one(large: Path) -> None:
    (large / "huge.txt").write_text(("word " * 50 + "\n\n") * (LARGE // 200))
    commit(large)
    ((origin, clone),) = with_files([large], None)
    files = [one.source.path for one in chosen(list(candidates(origin, clone)), 1, 2, ["text"])]
    assert len(files) == 2 and files[1] == "huge.txt"


def test_a_repository_that_is_none_is_said(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="not a git repository"):
        list(with_files([tmp_path], None))
    assert list(with_files([], tmp_path)) == []  # a folder that has none of the listed ones


@pytest.fixture
def file(tmp_path: Path) -> File:
    path = tmp_path / "module.py"
    path.write_text(MODULE)
    found = local(path)
    assert found is not None
    return found


def test_bad_cuts_lost_bytes_and_sizes_are_counted(file: File) -> None:
    cut_by_lines = measured(
        file,
        OURS,
        lambda _, __, data, size: [data[n : n + size] for n in range(0, len(data), size)],
        Settings(1000, 1),
    )
    assert cut_by_lines.exact and good([cut_by_lines]) < 60 and in_definitions([cut_by_lines]) > 0
    by_paragraph = measured(file, OURS, blank_lines, Settings(1000, 1))
    missed = [text for text, well in targets([by_paragraph], 1000) if not well]
    assert orphans([by_paragraph]) == 0 and not any("Python definition" in text for text in missed)
    lossy = measured(file, OURS, lambda kind, path, data, target: [data[:-1]], Settings(1000, 1))
    assert (
        not lossy.exact and not lossy.verdicts and ("exact 0.0 % (100)", False) in [*targets([lossy], 1000)]
    )
    pieces = [file.data[a:b] for a, b in pairwise([0, 10, 5000, len(file.data)])]
    uneven = measured(file, OURS, lambda *_: pieces, Settings(1000, 1))
    assert uneven.over == 2 and round(tiny([uneven], 1000)) == 33


def test_offsets_are_carried_over_an_edit_and_edits_are_local_and_by_seed() -> None:
    data = b"one\ntwo\nthree\nfour\n"
    assert Edit(4, 8, b"").applied(data) == b"one\nthree\nfour\n"
    for edit, after in (
        (Edit(4, 8, b""), [4, 4, 10]),
        (Edit(4, 14, b"five\n"), [4, 9]),
        (Edit(4, 4, b"x\n"), [4, 10, 16]),
    ):
        assert edit.carried([4, 8, 14]) == after
    data = MODULE.encode()
    found = edits(data, 12, 3)
    assert found == edits(data, 12, 3) != edits(data, 12, 4)
    for edit in found:
        assert data[edit.start : edit.end].count(b"\n") <= 20 and edit.new.count(b"\n") <= 20
        assert edit.start == 0 or data[edit.start - 1 : edit.start] == b"\n"


def test_changed_segments_are_counted() -> None:
    data = b"".join(b"line %03d\n" % number for number in range(1000))
    first = [Edit(0, 0, b"new\n")]
    middle = data.index(b"line 500\n")

    def kept_only(text: bytes, kept: list[int]) -> list[bytes]:
        cuts = list(kept) or [middle]
        return [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]

    assert changed(data, first, lambda text, kept: [text], keep=False) == [1]
    assert (
        changed(
            data, first, lambda text, kept: [text[n : n + 900] for n in range(0, len(text), 900)], keep=False
        )[0]
        >= 8
    )
    assert changed(data, first, kept_only, keep=True) == [1]


@pytest.mark.parametrize("name", ["blank lines", OURS])
def test_the_splitters_at_hand_are_exact(name: str) -> None:
    for text in (MODULE.encode()[:9000], b"x" * 5000, b"a\r\nb\r\n" * 400, b"\n\n\n", b"one"):
        pieces = SPLITTERS[name]("python", "a.py", text, 1000)
        longest = max(map(len, text.splitlines(keepends=True)))  # ours never cuts a line
        assert b"".join(pieces) == text
        assert max(map(len, pieces)) <= max(1000, longest if name == OURS else 0)
    pieces = ours("python", "a.py", MODULE.encode(), 4096)
    assert ours("python", "a.py", MODULE.encode(), 4096, list(accumulate(map(len, pieces)))[:-1]) == pieces


def test_the_whole_run_prints_tables_and_says_what_was_missed(
    large: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(f"--repo {large} --per-kind 2 --edits 3 --edited-files 1 --no-times --kind python".split())
    said = capsys.readouterr().out
    assert f"\n{OURS} " in said and "\nblank lines " in said and "\npython " in said
    assert "good cuts" in said and "changed segments per edit, refreshed" in said
    with pytest.raises(SystemExit, match="--repo"):
        main(["--repo", str(large), "--kind", "rust"])
