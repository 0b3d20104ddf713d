"""Shorten a long text to its head and tail: cut between lines, and repeat the fences around quoted text.

If the output of a tool is too long, all of it is saved in a file; the model gets both ends and the name of the file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

from repoagent.agent.actions import Action, Observation
from repoagent.agent.state import Tool
from repoagent.dataclass import dataclass
from repoagent.llm.model import fence, wire_text

LIMIT = 8192  # bytes of one observation
_OPENING = re.compile(r'^<([a-z][\w-]*)((?: [^<>\n]*?)??)( id="[0-9a-f]{6,64}")?>\n', re.MULTILINE)
_MAX_MISSES = 200  # tags that only look like a fence: each costs a search for its end
_HEAD = 0.6  # share of the head in the result
_MAX_PIECES = 8  # of a text with more pieces, only the first are shown


@dataclass(frozen=True)
class Quoted:
    """The content of a fence (`llm.model.fence`), and its label without the id."""

    label: str
    content: str


@dataclass(frozen=True)
class Cut:
    """The head and tail of a text that has `lines` lines. Lines `first` to `last` (counted from 1) are left out. If
    `within` is set, only parts of them are left out, because a long line was cut."""

    head: str
    tail: str
    first: int
    last: int
    lines: int
    within: bool = False


def split_quoted(text: str) -> list[str | Quoted]:
    """Split `text` into quoted and other pieces. Only the exact output of `fence` counts as quoted."""
    parts: list[str | Quoted] = []
    at = misses = 0
    for opening in _OPENING.finditer(text):
        if opening.start() < at or misses > _MAX_MISSES:
            continue
        closing = f"</{opening[1]}{opening[3] or ''}>"
        end = text.find(closing, opening.end())
        body = text[opening.end() : end] if end >= 0 else ""
        candidates = [body, body.removesuffix("\n")] if body.endswith("\n") or not body else []
        label, source = opening[1] + opening[2], text[opening.start() : end + len(closing)]
        content = next((content for content in candidates if fence(content, label) == source), None)
        if end < 0 or content is None:
            misses += 1
            continue
        parts += [text[at : opening.start()], Quoted(label, content)]
        at = end + len(closing)
    return [piece for piece in [*parts, text[at:]] if piece != ""]


def piece_text(piece: str | Quoted) -> str:
    """A piece as text, with its fence if it is quoted."""
    return piece if isinstance(piece, str) else fence(piece.content, piece.label)


def byte_length(text: str) -> int:
    """The number of bytes of `text` in UTF-8."""
    return len(text.encode("utf-8", "surrogatepass"))


def cut_middle(content: str, most: int, head: float = _HEAD) -> Cut:
    """The head and tail of `content`, at most `most` bytes together; `head` is the head's share, from 0 to 1. Cuts
    between lines if a whole line fits at each end."""
    rows = content.split("\n")
    if not rows[-1]:
        rows.pop()
    head_size = int(most * head)

    def fitting(rows: Sequence[str], budget: int) -> int:
        for number, row in enumerate(rows):
            budget -= byte_length(row) + 1
            if budget < 0:
                return number
        return len(rows)

    first = fitting(rows, head_size)
    tail = fitting(rows[first:][::-1], most - head_size)
    if first and tail:
        last = len(rows) - tail
        end = "\n".join(rows[last:]) + "\n" * content.endswith("\n")
        return Cut("\n".join(rows[:first]) + "\n", end, first + 1, last, len(rows))
    data = content.encode("utf-8", "surrogatepass")
    begin = data[:head_size].decode("utf-8", "ignore")
    end = data[len(data) - (most - head_size) :].decode("utf-8", "ignore")
    return Cut(begin, end, begin.count("\n") + 1, len(rows) - end.rstrip("\n").count("\n"), len(rows), True)


def fair_limit(sizes: Sequence[int], most: int) -> int:
    """The largest limit such that `sizes`, each cut to it, add up to at most `most` (water filling)."""
    remaining, rest = most, sorted(sizes)
    for count, smallest in zip(range(len(rest), 0, -1), rest, strict=True):
        if smallest * count > remaining:
            return max(0, remaining // count)
        remaining -= smallest
    return max(sizes, default=0)


def _shortened(text: str, most: int, note: Callable[[str, Cut], str], note_size: int) -> str:
    """Shorten `text` to about `most` bytes: a `note` of at most `note_size` bytes replaces the middle of its longest
    pieces, and both ends are quoted again. If there is no room for a part of each piece, only the first are shown."""
    parts = split_quoted(text)
    contents = [part if isinstance(part, str) else part.content for part in parts]
    sizes = list(map(byte_length, contents))
    most_shown = (
        most - 3 * len(parts) - 2 * sum(byte_length(piece_text(part)) for part in parts) + 2 * sum(sizes)
    )
    limit, count, longer = 0, -1, 0
    while longer > count:  # every piece that is cut needs a note
        count = longer
        limit = fair_limit(sizes, most_shown - note_size * count)
        longer = sum(content > limit for content in sizes)
    if len(parts) > _MAX_PIECES or limit < 40:
        head = ""
        for part in parts:
            if byte_length(head) + byte_length(piece_text(part)) > most - note_size - 1:
                break
            head += piece_text(part)
        lines = text.count("\n") + 1
        middle = note(text, Cut(head, "", head.count("\n") + 1, lines, lines))
        return f"{head.rstrip()}\n{middle}".lstrip("\n")
    shown = []
    for part, content in zip(parts, contents, strict=True):
        if byte_length(content) <= limit:
            shown.append(piece_text(part))
            continue
        ends = cut_middle(content, limit)
        head, tail = ends.head.rstrip(), ends.tail
        if isinstance(part, Quoted):
            head, tail = fence(ends.head, part.label), fence(tail, part.label)
        shown.append(f"{head}\n{note(content, ends)}\n{tail}")
    return "".join(shown)


def shorten(text: str, most: int, note: str) -> str:
    """Shorten `text` to at most `most` bytes, with `note` in place of what is left out."""
    if byte_length(text) <= most:
        return text
    return (
        _shortened(text, most, lambda content, ends: note, byte_length(note))
        if byte_length(note) <= most
        else ""
    )


def spill_long_results(tool: Tool, folder: Path, shown_as: Callable[[Path], str] = str) -> Tool:
    """Wrap `tool` so that a result of more than LIMIT bytes is shortened and its full contents are saved in `folder`.

    `shown_as` converts a saved file's path to the one that the `read` tool accepts; these paths are added to `data` as
    `spilled`. Raises Refused if a file cannot be written.
    """

    def perform(action: Action) -> Observation:
        result = tool.perform(action)
        text, files = spill_text(result.text, folder, shown_as)
        if not files:
            return result
        data = {**result.data, "spilled": [shown_as(file) for file in files]}
        return replace(result, text=text, data=data)

    return replace(tool, perform=perform)


def spill_text(
    text: str, folder: Path, shown_as: Callable[[Path], str] = str, limit: int = LIMIT
) -> tuple[str, list[Path]]:
    """Shorten `text` to about `limit` bytes; also return the files with the full contents of the shortened pieces."""
    if byte_length(text) <= limit:
        return text, []
    from repoagent.storage.atomic import read_regular, write_whole

    files: list[Path] = []

    def note(content: str, ends: Cut) -> str:
        # named by its hash, so that the same text has the same file, even after a kill
        data = wire_text(content).encode()
        file = folder / f"{sha256(data).hexdigest()[:16]}.txt"
        if not folder.is_dir() or read_regular(file) != data:
            write_whole(file, data)
        files.append(file)
        name = json.dumps(shown_as(files[-1]), ensure_ascii=False)
        lines = f"{ends.first}-{ends.last}"
        omission = f"Lines {lines} of {ends.lines:,}"
        action = f'<read path={name} lines="{lines}"/>'
        if ends.within:
            omitted = len(content) - len(ends.head) - len(ends.tail)
            omission = f"{omitted:,} characters in lines {lines} of {ends.lines:,}"
            action = f'<read path={name} lines="{ends.first}" characters="1-4000"/>'
        return f"[{omission} are left out here; all of it is in {name}: {action} and so on.]"

    note_size = 240 + 2 * byte_length(shown_as(folder / "0123456789abcdef.txt"))
    return _shortened(text, limit, note, note_size), files
