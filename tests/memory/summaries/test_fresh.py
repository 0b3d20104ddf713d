"""Summaries in prompts: only those that still match the file."""

from __future__ import annotations

from repoagent.memory.file_summaries import purpose, summary_block
from tests.memory.summaries.conftest import Desk, large

SMALL = b"def f():\n    return 1\n"


def test_no_summary_for_a_changed_small_file(desk: Desk) -> None:
    assert summary_block(desk.layout, "a.py", SMALL) == ""
    desk.says("It adds numbers. Keep f pure.")
    desk.ask(SMALL, "a.py")
    assert summary_block(desk.layout, "a.py", SMALL) == (
        "Summary of the file (by test/scripted):\nIt adds numbers. Keep f pure.\n"
    )
    assert purpose(desk.layout, "a.py", SMALL) == "It adds numbers."
    assert summary_block(desk.layout, "a.py", SMALL + b"#\n") == ""
    assert purpose(desk.layout, "a.py", SMALL + b"#\n") == ""
    assert summary_block(desk.layout, "a.py", b"") == ""
    assert "It adds numbers." in summary_block(desk.layout, "b.py", SMALL)  # the same text at another path
    desk.ask(SMALL, "a.py", words=40)
    assert "It is answer 2." in summary_block(desk.layout, "a.py", SMALL)  # the last requested one


def test_a_large_file_has_a_summary_while_nearly_unchanged(desk: Desk) -> None:
    data = large() * 4
    parts = len(desk.ask(data).parts)
    assert parts > 10
    at = data.index(b" 7  #", len(data) // 2)
    edited = data[:at] + b" 8  #" + data[at + 5 :]
    block = summary_block(desk.layout, "src/app.py", edited)
    assert f"of an older version: 1 of {parts} parts changed since" in block
    assert purpose(desk.layout, "src/app.py", edited) == ""
    assert summary_block(desk.layout, "src/app.py", data[: len(data) // 2]) == ""
    assert "text was added since" in summary_block(desk.layout, "src/app.py", data + b"# more\n")
    assert summary_block(desk.layout, "src/app.py", data + large()) == ""


def test_changes_in_several_places_are_counted(desk: Desk) -> None:
    data = b"".join(large().replace(b"step_", b"turn_%d_" % n) for n in range(9))
    parts = len(desk.ask(data).parts)
    first, last = (data.index(b" 7  #", data.index(b"def turn_%d_9(" % n)) for n in (1, 7))
    edited = data[:first] + b" + 1" + data[first:last] + b" + 1" + data[last:]
    assert f"2 of {parts} parts changed since" in summary_block(desk.layout, "src/app.py", edited)
    assert desk.ask(edited).paid == 2
    assert summary_block(desk.layout, "src/app.py", data.replace(b" 7  #", b" 8  #")) == ""


def test_corrections_are_marked_and_long_ones_cut(desk: Desk) -> None:
    place = desk.ask(SMALL, "a.py").summary.place
    assert place is not None
    place.write_text(place.read_text().replace("And more.", "Ask Ada.\x1b[31m " + "x " * 30_000))
    block = summary_block(desk.layout, "a.py", SMALL)
    assert "corrected by a user" in block and "Ask Ada." in block
    assert "\x1b" not in block and len(block) < 11_000


def test_unreadable_summaries_are_left_out(desk: Desk) -> None:
    place = desk.ask(SMALL, "a.py").summary.place
    assert place is not None
    place.write_text("version: 9\n\nfrom the future\n")
    assert summary_block(desk.layout, "a.py", SMALL) == ""
    place.unlink()
    place.mkdir()
    assert summary_block(desk.layout, "a.py", SMALL) == ""
