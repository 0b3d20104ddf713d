"""bench/split on a small repository: which files it takes, what it measures, and that it can say no."""

from __future__ import annotations

import subprocess
from itertools import accumulate, pairwise
from pathlib import Path

import pytest

from bench.origins import with_files
from bench.split.__main__ import main
from bench.split.corpus import File, local
from bench.split.measure import Settings, measured
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
