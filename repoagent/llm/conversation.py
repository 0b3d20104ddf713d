"""The conversation file: converts turns to text and to messages, and back.

    # repoagent conversation, version 1, nonce 7f3a9c21

    ## [7f3a9c21] user · time=2026-11-21T10:00:00Z
    make it faster
    ## [7f3a9c21] assistant · model=anthropic/claude-sonnet-5-5

A heading contains the file's nonce, which no body contains, so nothing needs to be escaped and no text can imitate a
heading. A body extends from its heading to the next one, without the last newline. The user may edit everything. Only a
line feed ends a line. A heading that begins with "~" instead of "#" marks a turn that is still being written or was cut
short by a crash; such a turn is ignored.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import field, replace
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, get_args

from repoagent.dataclass import dataclass
from repoagent.errors import Refused
from repoagent.llm.model import Message, Part, ReplyBlocks, Role

if TYPE_CHECKING:
    from repoagent.llm.media import Media

VERSION = 1
ATTACHED = "attached"  # in `meta`: the image or PDF of a turn; see llm/media.py

Speaker = Literal["user", "assistant", "observation"]

_TITLE = re.compile(
    r"\ufeff?# repoagent conversation, version (\d{1,9}), nonce ([0-9a-f]{8,})[ \t]*\r?(?:\n|\Z)"
)
_ENTRY = re.compile(r' · ([\w.-]+)=("(?:[^"\\\n]|\\.)*"|[^\s"·]*)')
_PLAIN = re.compile(r'[^\s"·\x00-\x1f\x7f]*')
_OBSERVED = re.compile(r"\s*<(observation-[0-9a-f]+)[^>\n]*>\n(.*)\n</\1>", re.DOTALL)
_UNFINISHED = "~"
_NOT_BYTES = re.compile("[\ud800-\udc7f\udd00-\udfff]")


class BrokenConversation(Refused):
    """The file is not a valid conversation; it may be set aside."""


class NewerConversation(Refused):
    """The file was written by a newer repoagent; it must not be changed."""


@dataclass(frozen=True)
class Turn:
    """One message of a conversation.

    `meta` is for users and programs (time, model, kind); its names consist of letters, digits, `_`, `.` and `-`.
    """

    role: Speaker
    text: str
    meta: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Conversation:
    nonce: str
    turns: tuple[Turn, ...]


def dumps(turns: Iterable[Turn], nonce: str = "") -> str:
    """The text of a conversation file. Picks a new nonce if a turn contains `nonce`."""
    turns = tuple(turns)
    nonce = _unused(nonce, [turn.text for turn in turns])
    return "".join([_title(nonce), *(_block(turn, nonce) for turn in turns)])


def loads(text: str) -> Conversation:
    """The conversation in `text`. Raises BrokenConversation or NewerConversation."""
    nonce = _nonce(text)
    text = _whole(text, nonce)
    headings = list(_headings(nonce).finditer(text))
    ends = [*(heading.start() for heading in headings), len(text)][1:]
    turns = []
    for heading, end in zip(headings, ends, strict=True):
        speaker = next(speaker for speaker in get_args(Speaker) if speaker == heading[1])
        meta = dict(_ENTRY.findall(heading[2]))
        for name, value in meta.items():
            with suppress(ValueError):  # edited by hand
                meta[name] = str(json.loads(value)) if value.startswith('"') else value
        turns.append(Turn(speaker, text[heading.end() : end].removesuffix("\n"), meta))
    return Conversation(nonce, tuple(turns))


def turn_offsets(text: str) -> tuple[int, ...]:
    """The offset of each turn's heading in `text`. Raises what `loads` raises."""
    return tuple(heading.start() for heading in _headings(_nonce(text)).finditer(text))


def read_conversation(path: Path) -> Conversation | None:
    """Read the conversation in a file; return None if there is no file.

    Bytes that are not UTF-8 become lone surrogates. Raises what `loads` raises, and Refused if it is not a regular
    file.
    """
    from repoagent.storage.atomic import read_regular

    data = read_regular(path)
    if data is None:
        return None
    with _named(path):
        return loads(data.decode("utf-8", "surrogateescape"))


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Put the path before the message of an error, and a remedy after it."""
    try:
        yield
    except BrokenConversation as error:
        raise BrokenConversation(f"{path}: {error}; restore it, or move the file aside") from error
    except NewerConversation as error:  # has a remedy
        raise NewerConversation(f"{path}: {error}") from error


def append_turns(path: Path, *turns: Turn, again: bool = False, before: Iterable[Turn] = ()) -> None:
    """Append `turns` to the file in one write; a missing file is created, starting with the turns in `before`.

    With `again`, for use after a crash, turns that were already written, completely or in part, are not added twice.
    Raises what `read_conversation` raises, and Busy if another process holds the lock for too long.
    """
    from repoagent.storage.atomic import append_line, read_regular, write_whole
    from repoagent.storage.locks import hold_lock

    with hold_lock(path.with_name(path.name + ".lock"), label=f"the conversation {path.name}"):
        data = read_regular(path)
        if data is None:
            write_whole(path, _encoded(dumps((*before, *turns))))
            return
        text = data.decode("utf-8", "surrogateescape")
        with _named(path):
            nonce = _nonce(text)
        torn, text = text, _whole(text, nonce)
        if any(nonce in turn.text for turn in turns):
            fresh = _unused(nonce, [*(turn.text for turn in turns), text])
            text = _TITLE.sub(_title(fresh), text, count=1)
            text = re.sub(rf"(?m)^## \[{nonce}\] ", f"## [{fresh}] ", text)
            whole = text + "\n" * (not text.endswith("\n"))
            write_whole(path, _encoded(whole + "".join(_block(turn, fresh) for turn in turns)))
            return
        blocks = "".join(_block(turn, nonce) for turn in turns)
        heading = blocks[: blocks.index("\n") + 1]
        if again and (at := _find_start(text, heading)) is not None:
            if text[at:] != blocks and blocks.startswith(text[at:].rstrip("\n")):
                write_whole(path, _encoded(text[:at] + blocks))
            return
        last = text.rpartition("\n")[2]
        if last and blocks.startswith(last):  # an earlier version's write, cut short by a crash
            text = text[: len(text) - len(last)]
        if torn != text:
            write_whole(path, _encoded(text + blocks))
            return
        append_line(path, _encoded(blocks), marker=_UNFINISHED.encode())


def _whole(text: str, nonce: str) -> str:
    """The text without an incomplete turn at its end."""
    at = _find_start(text, f"{_UNFINISHED}# [{nonce}] ")
    return text if at is None else text[:at]


def _find_start(text: str, heading: str) -> int | None:
    """The offset of the last line that starts with `heading`, or of the last line if `heading` starts with that."""
    at = text.rfind("\n" + heading) + 1
    if at > 0:
        return at
    line = text.rpartition("\n")[2]
    return len(text) - len(line) if line and heading.startswith(line) else None


def to_messages(
    turns: Iterable[Turn],
    nonce: str = "",
    blocks: Mapping[int, ReplyBlocks] = MappingProxyType({}),
    answers: Mapping[int, str] = MappingProxyType({}),
    attached: Mapping[str, Media | str] = MappingProxyType({}),
) -> tuple[Message, ...]:
    """Convert `turns` to alternating messages, the user's first.

    Consecutive turns of one role become one message, and blank turns are omitted. An observation is part of a user
    message, in a tag with a nonce that no turn contains, so its text cannot close the tag or imitate another speaker.

    blocks: the blocks of replies, by turn number.
    answers: the ids of the calls that observations answer, by turn number.
    attached: the image or PDF of a turn by its reference, or the reason why it is not sent.
    """
    numbered = [(number, turn) for number, turn in enumerate(turns) if turn.text.strip()]
    nonce = _unused(nonce, [turn.text for _, turn in numbered])
    messages: list[Message] = []
    for number, turn in numbered:
        role: Role = "assistant" if turn.role == "assistant" else "user"
        if not messages and role == "assistant":
            messages.append(Message("user", (Part("(Earlier turns are left out.)", "left out"),)))
        media = attached.get(turn.meta.get(ATTACHED, ""))
        if isinstance(media, str):
            turn, media = replace(turn, text=f"{turn.text}\n{media}"), None
        text = turn.text
        if turn.role == "observation":
            kind = re.sub(r"[^\w.-]", "", turn.meta.get("kind", ""))
            attribute = f' kind="{kind}"' if kind else ""
            text = f"<observation-{nonce}{attribute}>\n{text}\n</observation-{nonce}>"
        same_role = bool(messages) and messages[-1].role == role
        part = Part(
            "\n\n" * same_role + text,
            turn.role,
            answers=answers.get(number, ""),
            media=media,
            failed=turn.meta.get("ok") == "no",
        )
        if same_role:  # merged replies cannot be sent as blocks
            messages[-1] = replace(messages[-1], parts=(*messages[-1].parts, part), blocks=None)
        else:
            messages.append(Message(role, (part,), blocks.get(number)))
    return tuple(messages)


def observation_text(observed: str) -> str:
    """The text of an observation without the tag from `to_messages`."""
    match = _OBSERVED.fullmatch(observed)
    return match[2] if match else observed


def _title(nonce: str) -> str:
    return f"# repoagent conversation, version {VERSION}, nonce {nonce}\n\n"


def _block(turn: Turn, nonce: str) -> str:
    entries = ""
    for name, value in turn.meta.items():
        is_plain = _PLAIN.fullmatch(value) and value.isprintable()
        entries += f" · {name}={value if is_plain else json.dumps(value, ensure_ascii=False)}"
    return f"## [{nonce}] {turn.role}{entries}\n{turn.text}\n"


def _headings(nonce: str) -> re.Pattern[str]:
    speakers = "|".join(get_args(Speaker))
    return re.compile(rf"(?m)^## \[{nonce}\] ({speakers})((?:{_ENTRY.pattern})*)[ \t]*\r?\n")


def _nonce(text: str) -> str:
    title = _TITLE.match(text)
    if title is None:
        raise BrokenConversation("not a repoagent conversation: the first line is not a conversation title")
    if int(title[1]) > VERSION:
        raise NewerConversation(
            f"this conversation has format version {title[1]}, newer than the supported {VERSION}: "
            "update repoagent, or move the file aside"
        )
    return title[2]


def _unused(nonce: str, texts: list[str]) -> str:
    """`nonce`, or another one if it is empty or contained in a text; deterministic for the same texts and nonce."""
    nonce = nonce or os.urandom(4).hex()
    while any(nonce in text for text in texts):
        nonce = sha256(nonce.encode()).hexdigest()[:8]
    return nonce


def _encoded(text: str) -> bytes:
    """Encode lone surrogates as the bytes they represent; others, which a model's JSON may contain, as U+FFFD."""
    return _NOT_BYTES.sub("\ufffd", text).encode("utf-8", "surrogateescape")
