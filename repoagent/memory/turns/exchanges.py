"""The exchanges about a file: each request with the turns that followed it and what came of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from repoagent.dataclass import dataclass
from repoagent.errors import Refused
from repoagent.llm.conversation import Turn, read
from repoagent.memory.identity.record import Memory
from repoagent.memory.records import read_edits
from repoagent.store import Warn, to_stderr

FAILED = frozenset({"refused", "failed", "declined", "rejected", "undone"})


@dataclass(frozen=True)
class Exchange:
    """`turns` begin with the request; none where only the record of the edit is kept, or nobody spoke. `state` is that
    of the record ("committed", …), `time` ISO 8601; "" where they are not known."""

    id: str
    time: str
    request: str
    turns: tuple[Turn, ...] = ()
    state: str = ""
    commit: str = ""

    @property
    def went_wrong(self) -> bool:
        return self.state in FAILED


def exchanges(memory: Memory, *, warn: Warn = to_stderr) -> list[Exchange]:
    """All exchanges that are kept in the present files of `memory`, oldest first. A conversation that can't be read is
    named in a warning, and the records of edits are told alone."""
    records = {record.id: record for record in read_edits(memory.edits, warn=warn)}
    found: list[Exchange] = []
    seen: set[str] = set()
    for turns in grouped(_turns(memory, warn)):
        one = of_turns(turns)
        record = records.get(one.id)
        if record is not None:
            seen.add(one.id)
            one = Exchange(
                one.id, one.time or record.time, one.request, one.turns, record.state, record.commit or ""
            )
        found.append(one)
    for record in records.values():
        if record.id not in seen:
            found.append(
                Exchange(record.id, record.time, record.request, (), record.state, record.commit or "")
            )
    return [one for _, one in sorted(_timed(found), key=lambda pair: pair[0])]


def grouped(turns: Iterable[Turn]) -> list[tuple[Turn, ...]]:
    """The turns of each exchange: a request of the person, and what came before the next one."""
    found: list[list[Turn]] = []
    for turn in turns:
        if turn.role == "user" or not found:
            found.append([])
        found[-1].append(turn)
    return [tuple(each) for each in found]


def of_turns(turns: Sequence[Turn]) -> Exchange:
    """The exchange that `turns` tell of, as far as they say what came of it."""
    first, last = turns[0], turns[-1]
    request = first.text if first.role == "user" else ""
    time = next((turn.meta["time"] for turn in turns if "time" in turn.meta), "")
    return Exchange(
        first.meta.get("edit", ""),
        time,
        request,
        tuple(turns),
        last.meta.get("state", ""),
        last.meta.get("commit", ""),
    )


def _turns(memory: Memory, warn: Warn) -> tuple[Turn, ...]:
    try:
        conversation = read(memory.conversation)
    except Refused as error:  # edited beyond recognition, of a newer format, a link
        warn(str(error))
        return ()
    return conversation.turns if conversation else ()


def _timed(found: Iterable[Exchange]) -> Iterator[tuple[str, Exchange]]:
    """Each with a time to sort by: one that a person wrote without any follows what stands before it."""
    last = ""
    for one in found:
        last = one.time or last
        yield last, one
