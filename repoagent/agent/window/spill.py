"""What a tool says at too great a length goes to a file; its head and tail stay, and where the rest is."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

from repoagent.agent.actions import Action, Observation
from repoagent.agent.tool import Tool
from repoagent.agent.window.cutting import Quoted, cut, pieces, share, size, whole
from repoagent.llm.quoting import fence
from repoagent.llm.rendering import wire_text

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
        files.append(_kept(content, folder))
        made.append(_shortened(part, content, most, shown_as(files[-1])))
    return "".join(made), files


def spilled_to(text: str) -> list[str]:
    """The paths, as `read` takes them, that a text which was shortened by `spilled` names."""
    said = "".join(piece for piece in pieces(text) if isinstance(piece, str))
    return [path for path in map(unquoted, _WHERE.findall(said)) if path]


def unquoted(path: str) -> str:
    """A path out of its double quotes; "" for what is none."""
    try:
        return str(json.loads(path))
    except ValueError:
        return ""


def _shortened(part: str | Quoted, content: str, most: int, path: str) -> str:
    found = cut(content, most)
    name = json.dumps(path, ensure_ascii=False)
    lines = f"{found.first}-{found.last}"
    what = f"Lines {lines} of {found.lines:,}"
    how = f'<read path={name} lines="{lines}"/>'
    if found.within:
        what = f"{len(content) - len(found.head) - len(found.tail):,} characters in lines {lines} of {found.lines:,}"
        how = f'<read path={name} lines="{found.first}" characters="1-4000"/>'
    note = f"[{what} {_LEFT_OUT}{name}: {how} and so on.]"
    if isinstance(part, Quoted):
        return f"{fence(found.head, part.label)}\n{note}\n{fence(found.tail, part.label)}"
    return f"{found.head.rstrip()}\n{note}\n{found.tail}"


def _first_ones(
    text: str, parts: list[str | Quoted], folder: Path, shown_as: Callable[[Path], str], limit: int
) -> tuple[str, list[Path]]:
    """A text of very many pieces: the first of them, and the whole of it in a file."""
    file = _kept(text, folder)
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


def _kept(content: str, folder: Path) -> Path:
    from repoagent.store import read_regular, write_whole

    data = wire_text(content).encode()
    file = folder / f"{sha256(data).hexdigest()[:16]}.txt"
    if not folder.is_dir() or read_regular(file) != data:
        write_whole(file, data)
    return file
