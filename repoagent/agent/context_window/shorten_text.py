"""Shorten a long text to its head and tail: cut between lines, and never inside what quotes something else.

A tool's output that is too long goes to a file in full; the model sees both ends, and where the rest is.
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

_OPENING = re.compile(r'^<([a-z][\w-]*)((?: [^<>\n]*?)??)( id="[0-9a-f]{6,64}")?>\n', re.MULTILINE)
_IN_VAIN = 200  # of what only looks like a fence: each costs a look at all that it seems to hold
_HEAD = 0.6  # of what is shown


@dataclass(frozen=True)
class Quoted:
    """What a fence (`agent.fence`) holds, and its label without the id."""

    label: str
    content: str


@dataclass(frozen=True)
class Cut:
    """Head and tail of a content of `lines` lines; of those, `first` to `last` (from 1) are not, or not wholly,
    shown. `within`: a line that is too long was cut inside."""

    head: str
    tail: str
    first: int
    last: int
    lines: int
    within: bool = False


def pieces(text: str) -> list[str | Quoted]:
    """`text` as what quotes something and what does not, in order. Only what `agent.fence` can have written counts."""
    parts: list[str | Quoted] = []
    at = vain = 0
    for opening in _OPENING.finditer(text):
        if opening.start() < at or vain > _IN_VAIN:
            continue
        closing = f"</{opening[1]}{opening[3] or ''}>"
        end = text.find(closing, opening.end())
        body = text[opening.end() : end] if end >= 0 else ""
        candidates = [body, body.removesuffix("\n")] if body.endswith("\n") or not body else []
        label, whole = opening[1] + opening[2], text[opening.start() : end + len(closing)]
        content = next((content for content in candidates if fence(content, label) == whole), None)
        if end < 0 or content is None:
            vain += 1
            continue
        parts += [text[at : opening.start()], Quoted(label, content)]
        at = end + len(closing)
    return [piece for piece in [*parts, text[at:]] if piece != ""]


def whole(piece: str | Quoted) -> str:
    """The text of a piece."""
    return piece if isinstance(piece, str) else fence(piece.content, piece.label)


def size(text: str) -> int:
    """Bytes, as they are sent."""
    return len(text.encode("utf-8", "surrogatepass"))


def cut(content: str, most: int) -> Cut:
    """Head and tail of `content`, together at most `most` bytes; whole lines, as long as one fits."""
    rows = content.split("\n")
    if not rows[-1]:
        rows.pop()
    head = _fitting(rows, int(most * _HEAD))
    tail = _fitting(rows[head:][::-1], most - int(most * _HEAD))
    last = len(rows) - tail
    if head and tail:
        end = _lines(rows[last:])
        end = end if content.endswith("\n") else end[:-1]
        return Cut(_lines(rows[:head]), end, head + 1, last, len(rows))
    data = content.encode("utf-8", "surrogatepass")
    begin = data[: int(most * _HEAD)].decode("utf-8", "ignore")
    end = data[len(data) - (most - int(most * _HEAD)) :].decode("utf-8", "ignore")
    return Cut(begin, end, begin.count("\n") + 1, len(rows) - end.rstrip("\n").count("\n"), len(rows), True)


def share(sizes: Sequence[int], most: int) -> int:
    """The largest size for one so that all together, none above it, are at most `most` (water filling)."""
    left, rest = most, sorted(sizes)
    for count, smallest in zip(range(len(rest), 0, -1), rest, strict=True):
        if smallest * count > left:
            return max(0, left // count)
        left -= smallest
    return max(sizes, default=0)


def trimmed(text: str, most: int, note: str) -> str:
    """`text` in at most about `most` bytes: the middle of what is longest is left out, and `note` says so there. What
    quotes something is cut inside and quoted again."""
    most = max(0, most)
    if size(text) <= most:
        return text
    parts = pieces(text)
    quoted = [part for part in parts if isinstance(part, Quoted)]
    contents = [part if isinstance(part, str) else part.content for part in parts]
    overhead = sum(2 * size(fence("", part.label)) + 2 for part in quoted)
    each = share([size(content) for content in contents], most - overhead - 8)
    # too many, or too few bytes, to show something of each
    if len(parts) > 8 or each < 2 * size(note) + 40:
        each = most - size(note) - 120 * bool(quoted)
        if each < 40:
            return note if size(note) <= most else ""
        return _ends(Quoted("content", "\n".join(contents)) if quoted else text, each, note)
    return "".join(
        whole(part) if size(content) <= each else _ends(part, each - size(note) - 2, note)
        for part, content in zip(parts, contents, strict=True)
    )


def _ends(part: str | Quoted, most: int, note: str) -> str:
    """Head and tail of a piece, with `note` between them."""
    if isinstance(part, str):
        ends = cut(part, most)
        return f"{ends.head.rstrip()}\n{note}\n{ends.tail}"
    ends = cut(part.content, most)
    head, tail = (fence(end, part.label) for end in (ends.head, ends.tail))
    return f"{head}\n{note}\n{tail}"


def _fitting(rows: Sequence[str], most: int) -> int:
    """How many of the first `rows` fit."""
    left = most
    for number, row in enumerate(rows):
        left -= size(row) + 1
        if left < 0:
            return number
    return len(rows)


def _lines(rows: Sequence[str]) -> str:
    return "".join(f"{row}\n" for row in rows)


LIMIT = 8192  # bytes of one observation
_PIECES = 8  # of more, only the first stay
_LEFT_OUT = "are left out here; all of it is in "
_WHERE = re.compile(rf'{_LEFT_OUT}("(?:[^"\\\n]|\\.)*")')


def spilling(tool: Tool, folder: Path, shown_as: Callable[[Path], str] = str, limit: int = LIMIT) -> Tool:
    """`tool`, but what it says beyond `limit` bytes is kept whole in a file of `folder`.

    The file is named by a hash of what it holds, so the same text is the same file, also after a kill. `shown_as` is
    its path as the tool `read` takes it. What the observation quotes stays quoted; its `data` stays, with `spilled`,
    the paths. Raises what writing a file does (Refused).
    """

    def perform(action: Action) -> Observation:
        seen = tool.perform(action)
        text, files = spilled(seen.text, folder, shown_as, limit)
        if not files:
            return seen
        return replace(seen, text=text, data={**seen.data, "spilled": [shown_as(file) for file in files]})

    return replace(tool, perform=perform)


def spilled(
    text: str, folder: Path, shown_as: Callable[[Path], str] = str, limit: int = LIMIT
) -> tuple[str, list[Path]]:
    """`text` in at most about `limit` bytes, and the files that hold what is left out of it, whole."""
    if size(text) <= limit:
        return text, []
    parts = pieces(text)
    if len(parts) > _PIECES:
        return _first_ones(text, parts, folder, shown_as, limit)
    contents = [part.content if isinstance(part, Quoted) else part for part in parts]
    note = 240 + 2 * size(shown_as(folder / "0123456789abcdef.txt"))
    notes = note * sum(size(content) > limit // _PIECES for content in contents)
    most = share([size(content) for content in contents], max(limit // 2, limit - notes))
    made, files = [], []
    for part, content in zip(parts, contents, strict=True):
        if size(content) <= most:
            made.append(whole(part))
            continue
        files.append(_store(content, folder))
        made.append(_shortened(part, content, most, shown_as(files[-1])))
    return "".join(made), files


def spilled_to(text: str) -> list[str]:
    """The paths, as `read` takes them, that a text which was shortened by `spilled` names."""
    notes = "".join(piece for piece in pieces(text) if isinstance(piece, str))
    return [path for path in map(unquoted, _WHERE.findall(notes)) if path]


def unquoted(path: str) -> str:
    """Decode a path in double quotes; "" if it is malformed."""
    try:
        return str(json.loads(path))
    except ValueError:
        return ""


def _shortened(part: str | Quoted, content: str, most: int, path: str) -> str:
    ends = cut(content, most)
    name = json.dumps(path, ensure_ascii=False)
    lines = f"{ends.first}-{ends.last}"
    what = f"Lines {lines} of {ends.lines:,}"
    how = f'<read path={name} lines="{lines}"/>'
    if ends.within:
        what = f"{len(content) - len(ends.head) - len(ends.tail):,} characters in lines {lines} of {ends.lines:,}"
        how = f'<read path={name} lines="{ends.first}" characters="1-4000"/>'
    note = f"[{what} {_LEFT_OUT}{name}: {how} and so on.]"
    if isinstance(part, Quoted):
        return f"{fence(ends.head, part.label)}\n{note}\n{fence(ends.tail, part.label)}"
    return f"{ends.head.rstrip()}\n{note}\n{ends.tail}"


def _first_ones(
    text: str, parts: list[str | Quoted], folder: Path, shown_as: Callable[[Path], str], limit: int
) -> tuple[str, list[Path]]:
    """A text of very many pieces: the first of them, and the whole of it in a file."""
    file = _store(text, folder)
    made, left = "", limit - 400
    for part in parts:
        left -= size(whole(part))
        if left < 0:
            break
        made += whole(part)
    name = json.dumps(shown_as(file), ensure_ascii=False)
    lines = f"{made.count(chr(10)) + 1}-{text.count(chr(10)) + 1}"
    note = f'[Lines {lines} {_LEFT_OUT}{name}: <read path={name} lines="{lines}"/> and so on.]'
    return f"{made.rstrip()}\n{note}", [file]


def _store(content: str, folder: Path) -> Path:
    from repoagent.storage.atomic import read_regular, write_whole

    data = wire_text(content).encode()
    file = folder / f"{sha256(data).hexdigest()[:16]}.txt"
    if not folder.is_dir() or read_regular(file) != data:
        write_whole(file, data)
    return file
