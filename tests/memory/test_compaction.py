"""Which exchanges a prompt shows, and how old ones leave the conversation: whole, and never lost."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from repoagent.edit.checks import CheckResult
from repoagent.edit.commit import check_failure
from repoagent.errors import Refused
from repoagent.llm.conversation import Turn, append_turns, dumps, loads
from repoagent.llm.usage import estimate_tokens
from repoagent.memory import compaction
from repoagent.memory.compaction import compact, compact_above
from repoagent.memory.edit_records import append_edit, read_exchanges
from repoagent.memory.identity.record import Identity, Memory
from repoagent.memory.notes import COMPACTED, Note, read_notes
from repoagent.memory.prompt import exchanges_block, failing_line, prose_of, reason_of
from tests.memory.conftest import killed_at
from tests.memory.test_files import record

REJECTED = "The user rejected the change: keep the public name"
SAID_NO = Turn("observation", REJECTED, {"kind": "person", "ok": "no"})
CHECK = Turn(
    "observation",
    "The check `pytest -q` failed with exit code 1 after your edit. Its output:\n.F [100%]\n===== FAILURES =====\n"
    'Traceback (most recent call last):\n  File "a.py", line 3\nassert 1 == 2\nAssertionError: totals differ\n\n'
    "The files are as they were before it. Change your edit so that the check passes.",
    {"kind": "check", "ok": "no"},
)
REPLY = (
    "The cache must be cleared first.\n<commit>\nClear the cache\n</commit>\n<note>about `cache`</note>\n"
    '```diff\n--- a/a.py\n+++ b/a.py\n@@\n-secret_old\n+secret_new\n```\n<read path="b.py"/>\n'
)


@pytest.fixture
def memory(tmp_path: Path) -> Memory:
    return Memory(tmp_path / "memory" / "a-1", Identity("a.py"))


def say(memory: Memory, number: int, request: str, *turns: Turn, state: str = "committed") -> None:
    meta = {"edit": f"e{number}", "time": f"2026-11-{number:02}T10:00:00+00:00"}
    last = turns[-1] if turns else Turn("assistant", "Done.")
    last = Turn(last.role, last.text, {**last.meta, "state": state})
    append_turns(memory.conversation, Turn("user", request, meta), *turns[:-1], last)
    append_edit(memory.edits, record(number, id=f"e{number}", request=request, state=state, commit="c" * 40))


def test_relevant_exchanges_are_shown_in_detail(memory: Memory) -> None:
    assert exchanges_block(memory, "x", 1000) == ""
    say(memory, 1, "rename parseConfig", Turn("assistant", "Renamed."), SAID_NO, state="declined")
    say(memory, 2, "make the totals right", Turn("assistant", REPLY), CHECK, Turn("assistant", "Now it is."))
    for number in range(3, 16):
        say(memory, number, f"add a docstring to function {number}")
    found = exchanges_block(memory, "rename the function parse_config", 1000)
    assert "- 2026-11-01: rename parseConfig (declined as cccccccccccc)\n" in found
    assert "  the model: Renamed.\n  the user: keep the public name\n" in found
    assert "the totals" not in found and "secret_" not in found
    last = "- 2026-11-15: add a docstring to function 15 (committed as cccccccccccc)\n  the model: Done."
    assert last in found
    found = exchanges_block(memory, "totals are wrong again", 1000)
    assert "  the model: The cache must be cleared first. Clear the cache\n" in found
    assert "  the check: AssertionError: totals differ\n  the model: Now it is.\n" in found
    lines = found.splitlines()
    assert lines[1].startswith("- 2026-11-02: ") and lines[-2] == "  the model: Done."


def test_the_budget_holds(memory: Memory) -> None:
    for number in range(1, 20):
        say(memory, number, f"request {number} " + "word " * 30, Turn("assistant", "so it is " * 60))
    for budget in (0, 10, 30, 60, 200, 2000):
        found = exchanges_block(memory, "word", budget)
        assert estimate_tokens(found) <= budget
        assert bool(found) == (budget > 60)


def test_the_latest_state_is_always_shown(memory: Memory, capsys: pytest.CaptureFixture[str]) -> None:
    """Even if the conversation is broken."""
    say(memory, 1, "one")
    append_edit(memory.edits, record(1, id="e1", request="one", state="undone"))
    append_edit(memory.edits, record(2, id="e2", request="by a patch", state="written"))
    found = [(one.request, one.state) for one in read_exchanges(memory)]
    assert found == [("one", "undone"), ("by a patch", "written")]
    memory.conversation.write_text("rewritten by hand")
    assert "one (undone" in exchanges_block(memory, "one", 1000)
    assert capsys.readouterr().err.count("conversation.md") == 1
    with pytest.raises(Refused, match=r"conversation\.md"):
        compact(memory)
    assert memory.conversation.read_text() == "rewritten by hand"


def test_words_without_code(tmp_path: Path) -> None:
    assert prose_of(REPLY) == "The cache must be cleared first. Clear the cache"
    assert prose_of("so:\n--- a/x\n+++ b/x\n@@\n-a\n+b\nand done") == "so: and done"
    assert prose_of("<think>hm</think>yes\n```\nunclosed") == "yes"
    assert reason_of(SAID_NO) == "keep the public name" and reason_of(CHECK) == ""
    assert failing_line("hook said no\nmore") == "hook said no" and failing_line("") == ""
    silent = check_failure(CheckResult("false", 1, b"", 0.1), tmp_path)  # advice to the model is no failure
    assert failing_line(str(silent)).startswith("The check `false` failed")


def test_the_oldest_exchanges_are_archived_and_leave_a_line(memory: Memory) -> None:
    assert compact(memory) is None and compact_above(memory, 1) is None
    memory.folder.mkdir(parents=True)
    for number in range(1, 7):
        turns = [Turn("assistant", "x" * 1000), *([SAID_NO] if number == 2 else [])]
        say(memory, number, f"request {number}\nof two lines", *turns)
    head, mark, rest = memory.conversation.read_bytes().partition(b"## [")
    head += b"A word of mine, above all.\n\n"
    before = head + mark + rest
    memory.conversation.write_bytes(before)
    assert compact_above(memory, 0) is None and compact_above(memory, len(before)) is None
    done = compact_above(memory, 6000)
    assert done is not None and done.exchanges == 4
    archived = done.archive.read_bytes()
    assert done.archive.parent == memory.folder / "archive"
    assert done.archive.name.startswith("conversation-2026-11-04-")
    kept = memory.conversation.read_bytes()
    assert kept.startswith(head)
    assert archived.partition(b"\n\n")[2] + kept.removeprefix(head) == mark + rest  # every byte of it
    notes = [note for note in read_notes(memory.notes) if note.source == COMPACTED]
    assert len(notes) == 4 and notes[0].day == "2026-11-01"
    assert notes[0].text == f"request 1 of two lines (committed as cccccccccccc; archive/{done.archive.name})"
    assert 'rejected first: "keep the public name"' in notes[1].text
    block = exchanges_block(memory, "request 1", 3000)
    assert "request 1 of two lines (committed" in block  # its record is still there
    assert compact(memory) is None  # the last two stay


def test_a_concurrent_save_stops_the_move(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(1, 6):
        say(memory, number, f"request {number}")

    def add_notes(path: Path, notes: list[Note]) -> list[Note]:
        with memory.conversation.open("a") as file:
            file.write("saved by hand\n")
        return notes

    monkeypatch.setattr(compaction, "add_notes", add_notes)
    warnings: list[str] = []
    before = memory.conversation.read_text()
    assert compact(memory, warn=warnings.append) is None and len(warnings) == 1
    assert memory.conversation.read_text() == before + "saved by hand\n"


_TITLE = "# repoagent conversation, version 1, nonce 00000000\n"
_PIECES = st.sampled_from(["\n## [", "## [00000000] user\n", _TITLE, "\r\n", "\r", "\x00"])
_TEXTS = st.lists(_PIECES | st.text(st.characters(), max_size=6), max_size=5).map("".join)
_ROLES = st.sampled_from(["user", "user", "assistant", "observation"])
_TURNS = st.lists(st.builds(Turn, _ROLES, _TEXTS, st.just({})), min_size=3, max_size=9)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(_TURNS, st.integers(0, 400))
def test_no_byte_of_any_conversation_is_lost(
    tmp_path_factory: pytest.TempPathFactory, turns: list[Turn], keep: int
) -> None:
    memory = Memory(tmp_path_factory.mktemp("a") / "memory" / "a-1", Identity("a.py"))
    memory.folder.mkdir(parents=True)
    before = dumps(turns).encode("utf-8", "replace")
    memory.conversation.write_bytes(before)
    head = before[: before.index(b"\n") + 2]
    parts = [head]
    while (done := compact(memory, keep_bytes=keep)) is not None:
        parts.append(done.archive.read_bytes())
    parts.append(memory.conversation.read_bytes())
    assert all(part.startswith(head) for part in parts)
    assert head + b"".join(part.removeprefix(head) for part in parts) == before


@pytest.mark.soak
def test_a_kill_in_between_loses_nothing_and_writers_go_on(memory: Memory) -> None:
    code = (
        "import sys\nfrom pathlib import Path\nfrom repoagent.llm.conversation import Turn, append_turns\n"
        "from repoagent.memory.identity.record import Identity, Memory\n"
        "from repoagent.memory.compaction import compact_above\n"
        "memory = Memory(Path(sys.argv[1]), Identity('a.py'))\n"
        "for n in range(2000):\n"
        "    append_turns(memory.conversation, Turn('user', f'{sys.argv[2]} {n}'), Turn('assistant', 'x' * 200))\n"
        "    compact_above(memory, 1500)\n"
    )
    command = [sys.executable, "-c", code, str(memory.folder)]
    two = [subprocess.Popen([*command, name]) for name in ("one", "two")]
    archive = memory.folder / "archive"
    while not archive.exists() or len(list(archive.glob("conversation-*"))) < 6:
        assert all(process.poll() is None for process in two)
    for process in two:
        process.kill()
        process.wait()
    append_turns(memory.conversation, Turn("user", "after it"))
    files = [*archive.glob("conversation-*"), memory.conversation]
    said = {turn.text for path in files for turn in loads(path.read_text()).turns if turn.role == "user"}
    for name in ("one", "two"):
        numbers = {int(text.split()[1]) for text in said if text.startswith(name)}
        assert numbers == set(range(len(numbers)))
    assert "after it" in said


def test_a_kill_at_any_write_leaves_every_exchange_somewhere(memory: Memory) -> None:
    """The process ends at its first, second, … write or rename; the next compaction ends as one that was not killed."""
    for number in range(1, 6):
        say(memory, number, f"request {number}")
    before = memory.conversation.read_bytes()
    ends = []
    for number in range(1, 60):
        memory.conversation.write_bytes(before)
        memory.notes.unlink(missing_ok=True)
        for path in (memory.folder / "archive").glob("*"):
            path.unlink()
        killed = killed_at(number, lambda: compact(memory))
        parts = list((memory.folder / "archive").glob("conversation-*"))
        said = {turn.text for path in [*parts, memory.conversation] for turn in loads(path.read_text()).turns}
        assert {f"request {number}" for number in range(1, 6)} <= said
        compact(memory)
        assert len(list((memory.folder / "archive").glob("conversation-*"))) == 1
        ends.append((memory.conversation.read_bytes(), memory.notes.read_text().count("\n- ")))
        if not killed:
            break
    assert len(ends) > 5 and len(set(ends)) == 1 and ends[0][1] == 3
