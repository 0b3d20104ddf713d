"""The searchable passages of notes, conversations, edits and summaries, with their lines."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

from repoagent.llm.conversation import BrokenConversation, NewerConversation, loads

Kind = Literal["note", "edit", "conversation", "commit", "summary"]
LONGEST = 1_500  # characters of a passage: a long turn is several
# tools whose output is stored elsewhere
_LOOKED_UP = {"read", "outline", "search", "history", "neighbors", "uses", "recall"}
# calls of these tools by a model: otherwise a search would find itself
_ASKED = re.compile(rf"<({'|'.join(sorted(_LOOKED_UP))})\b[^<>]{{0,2000}}?(?:/>|>[^<]{{0,2000}}</\1>)")
_STAMPED = re.compile(r"[-*+] (\d{4}-\d\d-\d\d)(?: ([0-9a-f]{7,64}))?(?: by .{1,80}?)?: ")
_FIELDS = re.compile(r"(?m)^([a-z]+):[ \t]*(.*)$")


class Passage(NamedTuple):
    """`file` is the path of the file that it is about, "" for none; `line`, from 1, where it begins in its plain file;
    `title` how much of `text` counts as its heading, in characters; `name` what it is called where there is no
    file; `blob` the abbreviated version that a note is about."""

    kind: Kind
    file: str
    date: str
    line: int
    text: str
    title: int = 0
    name: str = ""
    blob: str = ""


def notes(text: str, file: str) -> Iterator[Passage]:
    """The notes of a `notes.md`: bullets and paragraphs, with the line of each."""
    start, taken = 0, list[str]()
    for number, line in enumerate([*text.split("\n"), ""], 1):
        stripped = line.strip()
        ends = not stripped or stripped.startswith("#")
        if taken and (ends or re.match(r"[-*+] ", line)):
            yield from _note("\n".join(taken), file, start)
            taken = []
        if not ends:
            start = start if taken else number
            taken.append(line)


def _note(text: str, file: str, line: int) -> Iterator[Passage]:
    stamped = _STAMPED.match(text)
    body = text[stamped.end() :] if stamped else re.sub(r"\A[-*+] ", "", text)
    day, blob = (stamped[1], stamped[2] or "") if stamped else ("", "")
    for at, piece in _pieces(body):
        yield Passage("note", file, day, line + at, piece, len(piece), "", blob)


def edits(text: str, file: str) -> Iterator[Passage]:
    """The requests of an `edits.jsonl` with what came of them, each as its last line has it."""
    latest: dict[str, tuple[int, dict[str, object]]] = {}
    for number, line in enumerate(text.split("\n"), 1):
        value = _object(line)
        if isinstance(value.get("id"), str) and isinstance(value.get("request"), str):
            latest.pop(str(value["id"]), None)
            latest[str(value["id"])] = (number, value)
    for number, value in latest.values():
        commit = value.get("commit")
        state = _words(value.get("state"))
        outcome = (
            f" ({state} as {_words(commit)[:12]})" if state and commit else f" ({state})" if state else ""
        )
        request = " ".join(_words(value["request"]).split())
        for at, piece in _pieces(request):
            whole = piece + outcome if at == 0 and len(request) <= LONGEST else piece
            yield Passage("edit", file, _words(value.get("time"))[:10], number, whole, len(piece))


def conversation(text: str, file: str, name: str = "") -> Iterator[Passage]:
    """The turns of a conversation, long ones in pieces. What a person has made of it is taken as text.

    Raises NewerConversation.
    """
    try:
        turns = loads(text).turns
    except NewerConversation:
        raise
    except BrokenConversation:
        for at, piece in _pieces(text):
            yield Passage("conversation", file, "", 1 + at, piece, 0, name)
        return
    line = 1 + text.count("\n") - sum(2 + turn.text.count("\n") for turn in turns)
    heading = re.compile(r"(?m)^## \[" + re.escape(loads(text).nonce) + r"\] \w+.*$")
    starts = [text.count("\n", 0, found.end()) + 2 for found in heading.finditer(text)]
    exact = len(starts) == len(turns)
    for number, turn in enumerate(turns):
        line = starts[number] if exact else max(1, line)
        if not (turn.role == "observation" and turn.meta.get("kind", "") in _LOOKED_UP):
            said = turn.text
            if turn.role == "assistant":
                said = _ASKED.sub(lambda asked: "\n" * asked[0].count("\n"), said)
            for at, piece in _pieces(said):
                first = turn.role == "user" and at == 0
                title = len(piece.split("\n", 1)[0]) if first else 0
                yield Passage(
                    "conversation", file, turn.meta.get("time", "")[:10], line + at, piece, title, name
                )


def commit(text: str, identity: str) -> Iterator[Passage]:
    """A commit's summary (JSON): its line, and that of each of its files."""
    value = _object(text)
    name, date, line = f"commit {identity[:12]}", _words(value.get("date"))[:10], _words(value.get("summary"))
    files = value.get("files")
    each = [(str(path), _words(said)) for path, said in files.items()] if isinstance(files, dict) else []
    if line.strip():
        yield Passage(
            "commit", each[0][0] if len(each) == 1 else "", date, _at(text, line), line, len(line), name
        )
    for path, said in each:
        if said.strip() and said != line:
            yield Passage("commit", path, date, _at(text, said), said, len(said), name)


def summary(text: str) -> Iterator[Passage]:
    """A file's summary: fields, an empty line, then the words."""
    head, _, body = text.replace("\r\n", "\n").partition("\n\n")
    fields = dict(_FIELDS.findall(head))
    file = re.sub(r", lines? [\d-]+$", "", fields.get("about", ""))
    for at, piece in _pieces(body):
        line = head.count("\n") + 3 + at
        yield Passage("summary", file, fields.get("date", "")[:10], line, piece, len(piece.split("\n", 1)[0]))


def _pieces(text: str) -> Iterator[tuple[int, str]]:
    """`text` in pieces of at most LONGEST characters, cut between lines where that can be, each with the number of
    lines before it. Blank pieces are left out."""
    before, taken, size = 0, list[str](), 0
    number = 0
    for number, line in enumerate(text.split("\n")):
        if taken and size + len(line) > LONGEST:
            if any(part.strip() for part in taken):
                yield before, "\n".join(taken)
            before, taken, size = number, [], 0
        while len(line) > LONGEST:
            cut = line.rfind(" ", LONGEST // 2, LONGEST)
            cut = cut if cut > 0 else LONGEST
            if line[:cut].strip():
                yield number, line[:cut]
            line = line[cut:]
        if not taken:
            before = number
        taken.append(line)
        size += len(line) + 1
    if any(part.strip() for part in taken):
        yield before, "\n".join(taken)


def _object(text: str) -> dict[str, object]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _words(value: object) -> str:
    return value if isinstance(value, str) else ""


def _at(text: str, line: str) -> int:
    """The line of a JSON text on which a string stands."""
    found = text.find(json.dumps(line, ensure_ascii=False)[1:-1])
    return text.count("\n", 0, found) + 1 if found >= 0 else 1
