"""Notes: which are repetitions, stale or archived; nothing that a user wrote is touched."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import date
from pathlib import Path
from unittest.mock import Mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from repoagent.errors import Busy
from repoagent.git.worktree import open_worktree
from repoagent.memory import notes as notebook
from repoagent.memory.notes import COMPACTED, LIMIT, USER, Note, add_note, add_notes, make_note, read_notes
from repoagent.memory.prompt import notes_block
from tests.history.histories import partial_clone, without_a_fetch
from tests.memory.conftest import Workspace, edited, text

DAY = date(2026, 11, 21)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "notes.md"


def texts(path: Path, folder: str = "") -> list[str]:
    return [note.text for note in read_notes(path.parent / folder / path.name)]


@pytest.mark.parametrize(
    ("new", "old", "is_same"),
    [
        ("Callers rely on the order.", "callers rely on the order", True),
        ("`parse()` must not raise", "`parse` must not raise", True),
        ("`greet` is called with bytes, too.", "`greet` is called with bytes too", True),
        ("callers do not rely on the order", "callers rely on the order", False),
        ("the limit is 40 rows", "the limit is 400 rows", False),
        ("`a` calls `b`", "`b` calls `a`", False),
        ("the parser uses the lexer", "the lexer uses the parser", False),
        ("rows must be sorted ascending", "rows must be sorted descending", False),
        ("run it before the tests", "run it after the tests", False),
        ("it is slow", "it is", False),
        ("it **must** be closed!", "It must be closed -", True),
        ("raises if `x<5`", "raises if `x < 5`.", True),
        ("raises if `x < 5`", "raises if `x > 5`", False),
        ("raises if x <= 5", "raises if x < 5", False),
        ("raises if `x != 5`", "raises if `x == 5`", False),
        ("it sends `a - b`", "it sends `a * b`", False),
        ("it sends `a/b`", "it sends `a*b`", False),
        ("the default is -1", "the default is 1", False),
        ("it runs if `!ready`", "it runs if `ready`", False),
        ("", "x", False),
    ],
)
def test_a_repetition_has_the_same_words(new: str, old: str, is_same: bool) -> None:
    assert notebook.has_same_words(new, old) == is_same


def test_notes_have_date_blob_and_source_and_users_may_write_them_in_any_form(path: Path) -> None:
    assert read_notes(path) == ()
    add_note(path, "order\n matters: a lot", blob="3f2a9c1" * 6, day=DAY, source="ollama/qwen: 7b")
    add_note(path, "by hand", day=DAY, source=USER)
    assert path.read_text() == (
        "# Notes\n\n- 2026-11-21 3f2a9c13f2a9 by ollama/qwen 7b: order matters: a lot\n"
        "- 2026-11-21 by person: by hand\n"
    )
    with path.open("a") as file:
        file.write("* in\n  two lines\n\n## A heading\n\na paragraph\nof two lines\n- 2026-11-22: dated")
    add_note(path, "after a line without end", day=DAY)
    assert read_notes(path) == (
        Note("order matters: a lot", "2026-11-21", "3f2a9c13f2a9", "ollama/qwen 7b"),
        Note("by hand", "2026-11-21", "", USER),
        Note("in two lines"),
        Note("a paragraph of two lines"),
        Note("dated", "2026-11-22"),
        Note("after a line without end", "2026-11-21"),
    )


_WORDS = st.text(st.characters(exclude_categories=["Cs"]))


_SOURCES = _WORDS | st.sampled_from(["a: b", ":", "x:", "by y: "])


@settings(max_examples=60)
@given(_WORDS.filter(lambda words: words.split() != []), _SOURCES, st.sampled_from(["", "3f2a9c1"]))
def test_an_added_note_is_one_line_and_reads_back_equal(words: str, source: str, blob: str) -> None:
    note = make_note(words, blob=blob, source=source, day=DAY)
    line = f"{note}\n".encode()
    assert line.count(b"\n") == 1
    assert [entry.note for entry in notebook.note_entries(b"# Notes\n\n" + line)] == [note]


def test_a_repetition_leaves_the_file_unchanged(path: Path) -> None:
    first = add_note(path, "callers rely on the order", blob="a" * 12, day=DAY)
    before = path.read_bytes()
    assert add_note(path, "Callers rely on the order!", blob="b" * 12) == first
    assert add_note(path, "  ") and path.read_bytes() == before
    # but a stale note does not block the same note on the new text
    add_notes(path, [replace(first, blob="b" * 12)], is_stale=lambda note: note.blob[0] == "a")
    assert [note.blob[0] for note in read_notes(path)] == ["a", "b"]


def test_a_note_about_other_files_is_not_added_at_each_edit(workspace: Workspace) -> None:
    memory = workspace.remember("a.py")
    for blob in ("a" * 12, "b" * 12, "c" * 12):
        note = make_note("`redis` must be closed", blob=blob)
        add_notes(memory.notes, [note], is_stale=notebook.staleness(memory, text("a")))
    assert len(read_notes(memory.notes)) == 1


def test_surplus_notes_are_archived_stale_ones_first(path: Path) -> None:
    mine = [make_note(f"mine {n}", source=USER, day=DAY) for n in range(5)]
    events = [make_note(f"it happened {n}", source=notebook.PROGRAM, day=DAY) for n in range(3)]
    model = [make_note(f"fact {n} of it", source="m", day=DAY) for n in range(LIMIT - 7)]
    add_notes(path, [*mine, *model, *events])
    path.write_bytes(b"words of a user\n\n" + path.read_bytes())
    assert len(texts(path)) == LIMIT + 1
    one_more = make_note("one more", source="m", day=DAY)
    add_notes(path, [one_more], is_stale=lambda note: note.text == "fact 40 of it")
    assert len(texts(path)) == LIMIT
    assert texts(path, "archive") == ["it happened 0", "fact 40 of it", "it happened 1"]
    assert {note.text for note in mine} | {"words of a user", "one more"} <= set(texts(path))
    assert path.read_bytes().startswith(b"words of a user\n\n# Notes\n\n- 2026-11-21 by person: mine 0\n")


def test_user_notes_are_never_archived(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And compacted exchanges have a limit of their own."""
    mine = [f"by hand {n}" for n in range(LIMIT + 20)]
    path.write_text("".join(f"- {words}\n" for words in mine))
    add_note(path, "of a model", source="m")
    assert (texts(path), texts(path, "archive")) == (mine, ["of a model"])
    monkeypatch.setattr(notebook, "COMPACTED_LIMIT", 3)
    add_notes(path, [make_note(f"asked {n}", source=COMPACTED, day=DAY) for n in range(5)])
    assert texts(path) == [*mine, "asked 2", "asked 3", "asked 4"]
    assert texts(path, "archive") == ["of a model", "asked 0", "asked 1"]


def test_removing_a_note_preserves_all_other_bytes(path: Path) -> None:
    path.write_bytes(b"# Mine \xff\r\n\r\n- a\r\n  goes on\r\n- b\r\n\r\n## End")
    assert notebook.drop_note(path, "a goes on") and not notebook.drop_note(path, "a goes on")
    assert path.read_bytes() == b"# Mine \xff\r\n\r\n- b\r\n\r\n## End"
    missing = path.with_name("none.md")
    assert not notebook.drop_note(missing, "a") and not missing.exists()


def test_a_concurrent_save_by_the_user_is_preserved(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add_note(path, "first")
    saves = [b"- saved by hand\n"]

    def compare(new: str, old: str) -> bool:
        path.write_bytes(path.read_bytes() + (saves.pop() if saves else b""))
        return False

    monkeypatch.setattr(notebook, "has_same_words", compare)
    add_note(path, "second")
    assert texts(path) == ["first", "saved by hand", "second"]
    saves += [b"- again\n"] * 1000
    with pytest.raises(Busy, match=r"another program keeps saving .*notes\.md"):
        add_note(path, "third")


def test_writers_at_once_lose_nothing(path: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda n: add_note(path, f"fact number {n}", source="m"), range(24)))
    assert sorted(texts(path)) == sorted(f"fact number {n}" for n in range(24))


def test_a_kill_leaves_the_notes_whole(path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from repoagent.memory.notes import add_note\n"
        "for n in range(1_000): add_note(Path(sys.argv[1]), f'number {n} of it', source='m')\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(path)])
    while not path.exists() or path.stat().st_size < 700:
        assert process.poll() is None
    process.kill()
    process.wait()
    add_note(path, "after it")
    *numbered, last = [*texts(path, "archive"), *texts(path)]
    numbers = {int(line.split()[1]) for line in numbered}
    assert numbers == set(range(len(numbers))) and last == "after it"
    assert all(line == "" or line.startswith(("# ", "- ")) for line in path.read_text().split("\n"))


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ("`parse()` must come before readAll", ("parse()", "readAll")),
        ("see ``a `b` c`` and `x = 1`", ("a `b` c", "x = 1")),
        ("max_rows and close() of GitHub, not src/max_rows.py", ("max_rows", "close")),
        ("nothing here", ()),
    ],
)
def test_names_in_a_note(words: str, names: tuple[str, ...]) -> None:
    assert notebook.code_names(words) == names


FILE = b"def parse(rows):\n    return  sorted(rows,\n        key=len)\n\nclass Box:\n    LIMIT = 3\n"


@pytest.mark.parametrize(
    ("words", "gone"),
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
def test_a_note_about_removed_code_is_stale(words: str, gone: tuple[str, ...]) -> None:
    note = Note(words, "2026-11-21", "3f2a9c1")
    assert notebook.stale_notes([note], FILE).get(note, ()) == gone


def test_a_known_version_decides_whether_a_note_is_stale() -> None:
    one, two, sure = (Note(f"`parse` feeds `{name}`", "", "aaaaaaa") for name in ("redis", "load", "rows"))
    older = Mock(return_value={"aaaaaaa": FILE + b"def load(): pass\n"})
    assert notebook.stale_notes([one, two], FILE, older) == {two: ("load",)}
    assert notebook.stale_notes([sure], FILE, older) == {}
    older.assert_called_once_with({"aaaaaaa"})  # not for notes that are not in doubt


def test_older_texts_are_looked_up_in_git_but_not_fetched(workspace: Workspace) -> None:
    workspace.repo.commit("change", **{"a.py": text("new")})
    names = ("HEAD~1:a.py", "HEAD:a.py", "HEAD^{tree}")
    old, new, tree = (workspace.repo.git("rev-parse", name).strip() for name in names)
    found = notebook.older_texts(workspace.worktree)([old[:12], new, "f" * 12, tree])
    assert found == {old[:12]: text("a"), new: text("new")}
    clone = partial_clone(workspace.repo, "blob:none")
    with without_a_fetch(clone):
        assert notebook.older_texts(open_worktree(clone.top))([old, new[:12]]) == {new[:12]: text("new")}


def test_the_prompt_marks_stale_notes(workspace: Workspace) -> None:
    memory = workspace.remember("a.py")
    for words in ("`load_all` is slow", "`says` is a word that callers look for"):
        add_note(memory.notes, words, blob=memory.identity.blob, day=DAY, source="m")
    add_note(memory.notes, "asked before", day=DAY, source=COMPACTED)
    assert notes_block(memory, 500, data=text("a")) == (
        "Notes on this file:\n- 2026-11-21 by m: `says` is a word that callers look for\n\n"
        "Notes that may be out of date, because the file no longer contains what they name:\n"
        "- 2026-11-21 by m: `load_all` is slow [gone: load_all]\n\n"
    )
    older = notebook.older_texts(workspace.worktree)  # the text that it is about did not have it either
    assert "may be out of date" not in notes_block(memory, 500, data=text("a"), older=older)
    is_stale = notebook.staleness(memory, edited(text("a")))
    assert [is_stale(note) for note in read_notes(memory.notes)] == [True, False, False]


def test_user_notes_come_first_if_the_budget_is_short(workspace: Workspace) -> None:
    memory = workspace.remember("a.py")
    add_note(memory.notes, "keep the public names", source=USER, day=DAY)
    add_notes(memory.notes, [make_note(f"fact {n} " + "word " * 20, source="m") for n in range(20)])
    lines = notes_block(memory, 120).splitlines()
    assert lines[1] == "- 2026-11-21 by person: keep the public names"
    assert lines[-2].startswith("- ") and "fact 19 " in lines[-2]


def test_long_notes_are_cut_between_words() -> None:
    short = notebook.shorten_note("word " * 200)
    assert len(short) <= 400 and short.endswith("word…")
    assert replace(make_note("x"), day="") == Note("x")
