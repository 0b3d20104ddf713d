"""Notes: what is the same, what is stale, what is archived; nothing that a person wrote is touched."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from repoagent.errors import Busy
from repoagent.memory import notes as notes_module
from repoagent.memory.notes import (
    COMPACTED,
    LIMIT,
    PROGRAM,
    USER,
    Note,
    add_note,
    add_notes,
    code_names,
    drop_note,
    entries,
    make_note,
    older_texts,
    read_notes,
    says_nothing_new,
    shorten_note,
    stale_notes,
    staleness,
)
from repoagent.memory.prompt import notes_block
from tests.memory.conftest import Desk, edited, text

DAY = date(2026, 11, 21)


@pytest.mark.parametrize(
    ("new", "old"),
    [
        ("Callers rely on the order.", "callers rely on the order"),
        ("callers rely on the order of results", "Callers are relying on the order of the results."),
        ("the order of results is relied on by callers", "the order of results is relied on by the callers"),
        ("`parse()` must not raise", "`parse` must not raise"),
        ("`greet` is called with bytes, too.", "`greet` is called with bytes too"),
    ],
)
def test_repetitions(new: str, old: str) -> None:
    assert says_nothing_new(new, old)


@pytest.mark.parametrize(
    ("new", "old"),
    [
        ("callers do not rely on the order", "callers rely on the order"),
        ("the limit is 40 rows", "the limit is 400 rows"),
        ("`a` calls `b`", "`b` calls `a`"),
        ("the parser uses the lexer", "the lexer uses the parser"),
        ("rows must be sorted ascending", "rows must be sorted descending"),
        ("run it before the tests", "run it after the tests"),
        ("readConfig is slow", "writeConfig is slow"),
        (
            "callers rely on the order of the result and on its length",
            "callers rely on the order of the result",
        ),
        ("it is slow", "it is"),
        ("", "x"),
    ],
)
def test_different_notes(new: str, old: str) -> None:
    assert not says_nothing_new(new, old)


def test_a_note_has_date_blob_and_source_and_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "notes.md"
    add_note(path, "order\n matters: a lot", blob="3f2a9c1" * 6, day=DAY, source="ollama/qwen: 7b")
    add_note(path, "said by hand", day=DAY, source=USER)
    assert path.read_text() == (
        "# Notes\n\n- 2026-11-21 3f2a9c13f2a9 by ollama/qwen 7b: order matters: a lot\n"
        "- 2026-11-21 by person: said by hand\n"
    )
    assert read_notes(path) == (
        Note("order matters: a lot", "2026-11-21", "3f2a9c13f2a9", "ollama/qwen 7b"),
        Note("said by hand", "2026-11-21", "", USER),
    )


@settings(max_examples=60)
@given(
    st.text(st.characters(exclude_categories=["Cs"])).filter(lambda said: said.split() != []),
    st.text(st.characters(exclude_categories=["Cs"])) | st.sampled_from(["a: b", ":", "x:", "by y: "]),
    st.sampled_from(["", "3f2a9c1"]),
)
def test_an_added_note_is_one_line_and_reads_back_equal(words: str, source: str, blob: str) -> None:
    note = make_note(words, blob=blob, source=source, day=DAY)
    line = f"{note}\n".encode()
    assert line.count(b"\n") == 1
    assert [entry.note for entry in entries(b"# Notes\n\n" + line)] == [note]


def test_a_repetition_leaves_the_file_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "notes.md"
    first = add_note(path, "callers rely on the order", blob="a" * 12, day=DAY)
    before = path.read_bytes()
    assert add_note(path, "Callers rely on the order!", blob="b" * 12) == first
    assert path.read_bytes() == before
    assert add_note(path, "  ") and path.read_bytes() == before


def test_a_stale_note_does_not_block_the_same_note_on_the_new_text(tmp_path: Path) -> None:
    path = tmp_path / "notes.md"
    add_note(path, "the order matters", blob="a" * 12)
    add_note(path, "the order matters", blob="b" * 12, is_stale=lambda note: note.blob.startswith("a"))
    assert [note.blob[0] for note in read_notes(path)] == ["a", "b"]


def test_a_note_about_other_files_is_not_added_at_each_edit(desk: Desk) -> None:
    memory = desk.remember("a.py")
    for blob in ("a" * 12, "b" * 12, "c" * 12):
        add_note(memory.notes, "`redis` must be closed", blob=blob, is_stale=staleness(memory, text("a")))
    assert len(read_notes(memory.notes)) == 1


def test_surplus_notes_are_archived_stale_ones_first(tmp_path: Path) -> None:
    path = tmp_path / "notes.md"
    mine = [make_note(f"mine {n}", source=USER, day=DAY) for n in range(5)]
    told = [make_note(f"it happened {n}", source=PROGRAM, day=DAY) for n in range(3)]
    model = [make_note(f"fact {n} of it", source="m", day=DAY) for n in range(LIMIT - 7)]
    add_notes(path, [*mine, *model, *told])
    path.write_bytes(b"words of a person\n\n" + path.read_bytes())
    assert len(read_notes(path)) == LIMIT + 1
    add_note(path, "one more", source="m", day=DAY, is_stale=lambda note: note.text == "fact 40 of it")
    kept, away = read_notes(path), read_notes(tmp_path / "archive" / "notes.md")
    assert len(kept) == LIMIT
    assert [note.text for note in away] == ["it happened 0", "fact 40 of it", "it happened 1"]
    assert {note.text for note in mine} | {"words of a person", "one more"} <= {note.text for note in kept}
    assert path.read_bytes().startswith(b"words of a person\n\n# Notes\n\n- 2026-11-21 by person: mine 0\n")


def test_user_notes_are_never_archived(tmp_path: Path) -> None:
    path = tmp_path / "notes.md"
    path.write_text("".join(f"- by hand {n}\n" for n in range(LIMIT + 20)))
    add_note(path, "of a model", source="m")
    assert len(read_notes(path)) == LIMIT + 20  # what gives way is the model's, to the archive
    assert [note.text for note in read_notes(tmp_path / "archive" / "notes.md")] == ["of a model"]


def test_lines_of_compacted_exchanges_have_a_limit_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notes_module, "COMPACTED_LIMIT", 3)
    path = tmp_path / "notes.md"
    add_notes(path, [make_note(f"asked {n}", source=COMPACTED, day=DAY) for n in range(5)])
    assert [note.text for note in read_notes(path)] == ["asked 2", "asked 3", "asked 4"]
    assert [note.text for note in read_notes(tmp_path / "archive" / "notes.md")] == ["asked 0", "asked 1"]


def test_removing_a_note_preserves_all_other_bytes(tmp_path: Path) -> None:
    path = tmp_path / "notes.md"
    path.write_bytes(b"# Mine \xff\r\n\r\n- a\r\n  goes on\r\n- b\r\n\r\n## End")
    assert drop_note(path, "a goes on") and not drop_note(path, "a goes on")
    assert path.read_bytes() == b"# Mine \xff\r\n\r\n- b\r\n\r\n## End"
    assert not drop_note(tmp_path / "none.md", "a")
    assert not (tmp_path / "none.md").exists()


def test_a_concurrent_save_by_the_user_is_preserved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "notes.md"
    add_note(path, "first")
    saves = [b"- saved by hand\n"]

    def same(new: str, old: str) -> bool:
        if saves:
            path.write_bytes(path.read_bytes() + saves.pop())
        return False

    monkeypatch.setattr(notes_module, "says_nothing_new", same)
    add_note(path, "second")
    assert [note.text for note in read_notes(path)] == ["first", "saved by hand", "second"]
    monkeypatch.setattr(
        notes_module, "says_nothing_new", lambda *_: not path.write_bytes(path.read_bytes() + b"- again\n")
    )
    with pytest.raises(Busy, match=r"another program keeps saving .*notes\.md"):
        add_note(path, "third")


def test_writers_at_once_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "notes.md"
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda n: add_note(path, f"fact number {n}", source="m"), range(24)))
    assert sorted(note.text for note in read_notes(path)) == sorted(f"fact number {n}" for n in range(24))


def test_a_kill_leaves_the_notes_whole(tmp_path: Path) -> None:
    path = tmp_path / "notes.md"
    code = (
        "import sys; from pathlib import Path; from repoagent.memory.notes import add_note\n"
        "for n in range(1_000): add_note(Path(sys.argv[1]), f'number {n} of it', source='m')\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(path)])
    while not path.exists() or path.stat().st_size < 700:
        assert process.poll() is None
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    add_note(path, "after it")
    away = tmp_path / "archive" / "notes.md"
    told = [note.text for note in (*read_notes(away), *read_notes(path))]
    numbers = {int(said.split()[1]) for said in told[:-1]}
    assert numbers == set(range(len(numbers))) and told[-1] == "after it"
    assert all(line == "" or line.startswith(("# ", "- ")) for line in path.read_text().split("\n"))


@pytest.mark.parametrize(
    ("said", "named"),
    [
        ("`parse()` must come before readAll", ("parse()", "readAll")),
        ("see ``a `b` c`` and `x = 1`", ("a `b` c", "x = 1")),
        ("max_rows and close() of GitHub, not src/max_rows.py", ("max_rows", "close")),
        ("nothing here", ()),
    ],
)
def test_names_in_a_note(said: str, named: tuple[str, ...]) -> None:
    assert code_names(said) == named


FILE = b"def parse(rows):\n    return  sorted(rows,\n        key=len)\n\nclass Box:\n    LIMIT = 3\n"


@pytest.mark.parametrize(
    ("said", "lost"),
    [
        ("`parse` keeps the order", ()),
        ("`parse()` and `Box.LIMIT` belong together", ()),
        ("`return sorted(rows, key=len)` is on purpose", ()),
        ("`pars` is not a word of it", ("pars",)),
        ("`Box.MOST` is a limit", ("Box.MOST",)),
        ("`return sorted(rows)` is on purpose", ("return sorted(rows)",)),
        ("callers of `parse` in `server.py` rely on it", ()),  # of another file
        ("`redis` must be closed", ("redis",)),
        ("the order matters", ()),
        ("keep `tests/data.json` small", ()),
    ],
)
def test_a_note_about_removed_code_is_stale(said: str, lost: tuple[str, ...]) -> None:
    note = Note(said, "2026-11-21", "3f2a9c1")
    assert stale_notes([note], FILE).get(note, ()) == lost
    assert stale_notes([note], b"\xff\xfe" + FILE.decode().encode("utf-16-le")).get(note, ()) == lost


def test_a_known_version_decides_whether_a_note_is_stale() -> None:
    one = Note("`parse` feeds `redis`", "", "aaaaaaa")
    two = Note("`parse` feeds `load`", "", "aaaaaaa")
    asked: list[set[str]] = []

    def older(blobs: object) -> dict[str, bytes]:
        assert isinstance(blobs, set)
        asked.append(blobs)
        return {"aaaaaaa": FILE + b"def load(): pass\n"}

    assert stale_notes([one, two], FILE, older) == {two: ("load",)}
    assert asked == [{"aaaaaaa"}]
    assert stale_notes([Note("`parse` is fine", "", "aaaaaaa")], FILE, older) == {}
    assert len(asked) == 1  # nothing in doubt, nobody asked


def test_older_texts_are_looked_up_in_git(desk: Desk) -> None:
    blob = desk.repo.git("rev-parse", "HEAD:a.py").strip()
    tree = desk.repo.git("rev-parse", "HEAD^{tree}").strip()
    found = older_texts(desk.worktree)([blob[:12], "f" * 12, tree])
    assert found == {blob[:12]: text("a")}


def test_the_prompt_marks_stale_notes(desk: Desk) -> None:
    memory = desk.remember("a.py")
    blob = memory.identity.blob
    add_note(memory.notes, "`load_all` is slow", blob=blob, day=DAY, source="m")
    add_note(memory.notes, "`says` is a word that callers look for", blob=blob, day=DAY, source="m")
    add_note(memory.notes, "asked before", day=DAY, source=COMPACTED)
    told = notes_block(memory, 500, data=text("a"))
    assert told == (
        "Notes on this file:\n- 2026-11-21 by m: `says` is a word that callers look for\n\n"
        "Notes that may be out of date, because the file no longer contains what they name:\n"
        "- 2026-11-21 by m: `load_all` is slow [gone: load_all]\n\n"
    )
    older = older_texts(desk.worktree)  # the text that it was noted of did not have it either
    assert "may be out of date" not in notes_block(memory, 500, data=text("a"), older=older)
    is_stale = staleness(memory, edited(text("a")))
    assert [is_stale(note) for note in read_notes(memory.notes)] == [True, False, False]


def test_user_notes_come_first_if_the_budget_is_short(desk: Desk) -> None:
    memory = desk.remember("a.py")
    add_note(memory.notes, "keep the public names", source=USER, day=DAY)
    add_notes(memory.notes, [make_note(f"fact {n} " + "word " * 20, source="m") for n in range(20)])
    told = notes_block(memory, 120).splitlines()
    assert told[1] == "- 2026-11-21 by person: keep the public names"
    assert told[-2].startswith("- ") and "fact 19 " in told[-2]


def test_long_notes_are_cut_between_words() -> None:
    assert len(shorten_note("word " * 200)) <= 400 and shorten_note("word " * 200).endswith("word…")
    assert replace(make_note("x"), day="") == Note("x")
