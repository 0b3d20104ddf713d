"""The searchable passages of notes, conversations, edits and summaries, with their lines."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from typing import Literal, NamedTuple

from repoagent.llm.conversation import BrokenConversation, loads, turn_offsets
from repoagent.memory.edit_records import outcome_text
from repoagent.memory.notes import note_entries
from repoagent.storage import json_files

Kind = Literal["note", "edit", "conversation", "commit", "summary"]
LONGEST = 1_500  # most characters of a passage; a long turn becomes several
# tools whose output is stored elsewhere
_LOOKED_UP = {"read", "outline", "search", "history", "neighbors", "uses", "recall"}
# calls of these tools by a model, left out so that a search does not find itself
_ASKED = re.compile(rf"<({'|'.join(sorted(_LOOKED_UP))})\b[^<>]{{0,2000}}?(?:/>|>[^<]{{0,2000}}</\1>)")
_FIELDS = re.compile(r"(?m)^([a-z]+):[ \t]*(.*)$")


class Passage(NamedTuple):
    """A searchable piece of text. `file` is the path of the file that it is about, "" if none; `line` is its first
    line, counted from 1, in the plain file that contains it; `title` the length of its heading in `text`; `name` its
    name if there is no file; `blob` the abbreviated id of the version that a note is about."""

    kind: Kind
    file: str
    date: str
    line: int
    text: str
    title: int = 0
    name: str = ""
    blob: str = ""


def of_file(path: str, text: str, about: str) -> Iterator[Passage]:
    """Yield the passages of the file `path`, relative to `.repoagent`.

    `about` is the file of its memory, "" if unknown. Raises NewerConversation if a newer repoagent wrote it.
    """
    parts = path.split("/")
    if parts[0] == "conversations":
        yield from conversation(text, "", parts[-1].removesuffix(".md"))
    elif parts[:2] == ["summaries", "files"]:
        yield from summary(text)
    elif parts[0] == "summaries":
        yield from commit(text, parts[1] + parts[2].removesuffix(".json"))
    else:
        read = {"notes.md": notes, "edits.jsonl": edits}.get(parts[-1], conversation)
        name = "" if about else parts[1]
        yield from (passage._replace(name=name) for passage in read(text, about))


def notes(text: str, file: str) -> Iterator[Passage]:
    """The notes in a `notes.md`: bullets and paragraphs, with the first line of each."""
    for entry in note_entries(text.encode("utf-8", "replace")):
        note = entry.note
        for _, piece in _pieces(note.text):
            yield Passage("note", file, note.day, entry.first + 1, piece, len(piece), "", note.blob)


def edits(text: str, file: str) -> Iterator[Passage]:
    """The requests in an `edits.jsonl` with their outcomes, taken from the last line of each edit."""
    latest: dict[str, tuple[int, dict[str, object]]] = {}
    for number, line in enumerate(text.split("\n"), 1):
        value = json_files.record_of(line.encode("utf-8", "replace")) or {}
        if isinstance(value.get("id"), str) and isinstance(value.get("request"), str):
            latest.pop(str(value["id"]), None)
            latest[str(value["id"])] = (number, value)
    for number, value in latest.values():
        state = _words(value.get("state"))
        end = f" ({outcome_text(state, _words(value.get('commit')))})" if state else ""
        request = " ".join(_words(value["request"]).split())
        for at, piece in _pieces(request):
            whole = piece + end if at == 0 and len(request) <= LONGEST else piece
            yield Passage("edit", file, _words(value.get("time"))[:10], number, whole, len(piece))


def conversation(text: str, file: str, name: str = "") -> Iterator[Passage]:
    """Yield the turns of a conversation; a broken conversation is treated as plain text.

    Raises NewerConversation if a newer repoagent wrote it.
    """
    try:
        turns = loads(text).turns
    except BrokenConversation:
        for at, piece in _pieces(text):
            yield Passage("conversation", file, "", 1 + at, piece, 0, name)
        return
    for offset, turn in zip(turn_offsets(text), turns, strict=False):
        line = text.count("\n", 0, offset) + 2
        if not (turn.role == "observation" and turn.meta.get("kind", "") in _LOOKED_UP):
            shown = turn.text
            if turn.role == "assistant":
                shown = _ASKED.sub(lambda call: "\n" * call[0].count("\n"), shown)
            for at, piece in _pieces(shown):
                first = turn.role == "user" and at == 0
                title = len(piece.split("\n", 1)[0]) if first else 0
                yield Passage(
                    "conversation", file, turn.meta.get("time", "")[:10], line + at, piece, title, name
                )


def commit(text: str, identity: str) -> Iterator[Passage]:
    """The passages of a commit's summary (JSON): one for the commit, and one for each of its files."""
    value = json_files.record_of(text.encode("utf-8", "replace")) or {}
    name, date, line = f"commit {identity[:12]}", _words(value.get("date"))[:10], _words(value.get("summary"))
    files = value.get("files")
    sentences = (
        [(str(path), _words(sentence)) for path, sentence in files.items()] if isinstance(files, dict) else []
    )
    if line.strip():
        yield Passage(
            "commit",
            sentences[0][0] if len(sentences) == 1 else "",
            date,
            _at(text, line),
            line,
            len(line),
            name,
        )
    for path, sentence in sentences:
        if sentence.strip() and sentence != line:
            yield Passage("commit", path, date, _at(text, sentence), sentence, len(sentence), name)


def summary(text: str) -> Iterator[Passage]:
    """The passages of a stored file summary, which has fields, an empty line, then the text."""
    head, _, body = text.replace("\r\n", "\n").partition("\n\n")
    fields = dict(_FIELDS.findall(head))
    file = re.sub(r", lines? [\d-]+$", "", fields.get("about", ""))
    for at, piece in _pieces(body):
        line = head.count("\n") + 3 + at
        yield Passage("summary", file, fields.get("date", "")[:10], line, piece, len(piece.split("\n", 1)[0]))


def _pieces(text: str) -> Iterator[tuple[int, str]]:
    """(lines before it, piece) for pieces of at most LONGEST characters that are not blank."""
    before, lines, size = 0, list[str](), 0
    number = 0
    for number, line in enumerate(text.split("\n")):
        if lines and size + len(line) > LONGEST:
            if any(part.strip() for part in lines):
                yield before, "\n".join(lines)
            before, lines, size = number, [], 0
        while len(line) > LONGEST:
            cut = line.rfind(" ", LONGEST // 2, LONGEST)
            cut = cut if cut > 0 else LONGEST
            if line[:cut].strip():
                yield number, line[:cut]
            line = line[cut:]
        if not lines:
            before = number
        lines.append(line)
        size += len(line) + 1
    if any(part.strip() for part in lines):
        yield before, "\n".join(lines)


def _words(value: object) -> str:
    return value if isinstance(value, str) else ""


def _at(text: str, line: str) -> int:
    """The line of a string in a JSON text."""
    offset = text.find(json.dumps(line, ensure_ascii=False)[1:-1])
    return text.count("\n", 0, offset) + 1 if offset >= 0 else 1


LONGEST_WORD = 64  # characters of a word; longer ones are data, and cut
_TOKEN = re.compile(r"[^\W_]+(?:(?:::|->|[_\-./:])_*[^\W_]+)*")
_SEGMENT = re.compile(r"(?:::|->|[./:])_*")  # separators between the names in a path
_PART = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+|[^\W\dA-Za-z_]+")
_HASH = re.compile(r"(?=.*\d)[0-9a-fA-F]{7,64}")
_WIDE = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+")  # written without spaces between words
_COMMON = re.compile(
    "an?|and|are|as|at|be|been|but|by|can|do|does|for|from|ha[ds]|have|how|i|if|in|into|is|it|its|no|not|of|on|or|so|"
    "than|that|the|their|them|then|there|these|this|those|to|was|we|were|what|when|where|which|who|why|will|with|"
    "would|you|your"
)


class Words(NamedTuple):
    """The words of a text.

    parts: the stems of the words, in order.
    names: the compound names among the words, each as one word.
    raw: the words before stemming, in order.
    """

    parts: tuple[str, ...]
    names: tuple[str, ...]
    raw: tuple[str, ...]


def find_tokens(text: str) -> Iterator[re.Match[str]]:
    """The regex matches for words and compound names in `text`."""
    return _TOKEN.finditer(text)


def words_of(text: str) -> Words:
    """The words and names in `text`."""
    parts: list[str] = []
    names: list[str] = []
    raw: list[str] = []
    for token in _TOKEN.findall(text):
        words = words_in(token)
        parts += words.parts
        names += words.names
        raw += words.raw
    return Words(tuple(parts), tuple(names), tuple(raw))


@lru_cache(maxsize=1 << 16)
def words_in(token: str) -> Words:
    """The words and names in one token from `find_tokens`."""
    parts: list[str] = []
    names: list[str] = []
    segments = _SEGMENT.split(token)
    for segment in segments:
        words = _parts(segment)
        parts += words
        if len(words) > 1 and not _WIDE.search(segment):
            names.append("".join(words)[:LONGEST_WORD])
    if len(segments) > 1:
        names.append("".join(parts)[:LONGEST_WORD])
    raw = tuple(part[:LONGEST_WORD] for part in parts)
    return Words(tuple(map(stem, raw)), tuple(dict.fromkeys(names)), raw)


def is_common(word: str) -> bool:
    """Whether a word (unstemmed) is too common to search for if the query has other words."""
    return _COMMON.fullmatch(word.lower()) is not None


def stem(word: str) -> str:
    """An English word without plural or tense endings; other words unchanged."""
    if len(word) < 4 or not word.isascii() or not word.isalpha():
        return word
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(("sses", "shes", "ches", "xes", "zes")):
        word = word[:-2]
    elif word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    for ending in ("ing", "ed"):
        rest = word.removesuffix(ending)
        if rest != word and len(rest) > 2 and re.search("[aeiouy]", rest):
            if rest[-1] == rest[-2] and rest[-1] not in "lsz":
                rest = rest[:-1]
            word = rest
            break
    return word[:-1] if len(word) > 4 and word.endswith("e") else word


def _parts(segment: str) -> list[str]:
    """The words of a name without separators, in lower case."""
    if _HASH.fullmatch(segment):
        return [segment.lower()]
    if segment.isascii():
        return [part.lower() for part in _PART.findall(segment)]
    plain = unicodedata.normalize("NFKC", segment)
    words: list[str] = []
    at = 0
    for run in _WIDE.finditer(plain):
        words += _latin(plain[at : run.start()])
        pairs = zip(run[0], run[0][1:], strict=False)
        words += ["".join(pair) for pair in pairs] or [run[0]]
        at = run.end()
    return words + _latin(plain[at:])


def _latin(text: str) -> list[str]:
    """The words of `text` without accents."""
    apart = unicodedata.normalize("NFD", text)
    bare = "".join(character for character in apart if not unicodedata.combining(character))
    parts = (unicodedata.normalize("NFC", part) for part in re.findall(r"[^\W_]+", bare))
    words = (word for part in parts for word in (_PART.findall(part) if part.isascii() else [part]))
    return [folded for word in words if (folded := word.casefold())]
