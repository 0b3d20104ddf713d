"""The questions to a model, and what of its answers may be kept."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from hashlib import sha256
from importlib.resources import files

from repoagent.llm import Message, Part, Request
from repoagent.llm.quoting import fence, printable, without_thought
from repoagent.store.secrets import without_secrets

PROMPT = 1  # raised when the prompt changes so much that what it has brought should be asked for again
WORDS = 150
_TOKENS_A_WORD = 3
_THINKING = 4_000  # tokens of a reply that a model may use up before its answer
_FENCED = re.compile(r"(`{3,})[\w-]*\n(.*?)\n?\1", re.DOTALL)
_MOST_WORDS = 4  # times what was asked for: what is longer is not taken, and not shown to who joins it
_SPARE_WORDS = 100


def words_of_part(words: int) -> int:
    """How long the summary of a part is for a whole of `words`; in few steps, so that another whole does not mean
    other parts."""
    return next((part for most, part in ((300, 120), (800, 300)) if words <= most), 600)


def key_of(kind: str, words: int, *texts: str) -> str:
    """Under what the answer is kept: made of all that it depends on but the model, as a hash in hexadecimal. `texts`
    are the hashes of the bytes that are asked about, or the summaries that are joined."""
    marks = [sha256(text.encode("utf-8", "surrogatepass")).hexdigest() for text in texts]
    return sha256("\0".join([f"{kind} {PROMPT} {words}", *marks]).encode()).hexdigest()


def whole_request(
    name: str, text: str, words: int, *, key: str, note: str = "", earlier: str = ""
) -> Request:
    """A file in one call. `note` says what of it is not shown, `earlier` is what a person wrote of an older text."""
    asked = f"Summarize the file {_named(name)} in about {words} words."
    return _request(fence(text, f"file path={_quoted(name)}"), asked, words, key, note=note, earlier=earlier)


def part_request(
    name: str,
    text: str,
    words: int,
    *,
    key: str,
    scope: Sequence[str] = (),
    note: str = "",
    earlier: str = "",
) -> Request:
    """A part of a file; `scope` names what holds its beginning."""
    inside = f", which begins inside {' > '.join(map(_quoted, scope))}," if scope else ""
    asked = (
        f"This is one part of the larger file {_named(name)}. Summarize this part{inside} in about {words} words, with "
        "the names of what is defined in it: who reads your summary does not see the part, and joins it with those "
        "of the others."
    )
    return _request(fence(text, f"part path={_quoted(name)}"), asked, words, key, note=note, earlier=earlier)


def join_request(
    name: str, texts: Sequence[str], words: int, *, key: str, whole: bool = True, earlier: str = ""
) -> Request:
    """The summaries of parts, in the order of the file, to be made one: of the `whole` file, or of a stretch of it."""
    blocks = "\n".join(fence(text, f'summary part="{number}"') for number, text in enumerate(texts, 1))
    of = f"{'' if whole else 'a stretch of '}the file {_named(name)}"
    asked = (
        f"These are the summaries of the parts of {of}, in their order. Make of them one summary of "
        f"{'the whole file' if whole else 'that stretch'} in about {words} words."
    )
    return _request(blocks, asked, words, key, earlier=earlier)


def clipped(text: str, words: int, most: int) -> str:
    """A summary as it is shown to who joins it: not much longer than was asked for, at most `most` characters."""
    limit = min(most, words * _MOST_WORDS * 8)
    if len(text) <= limit:
        return text
    return text[:limit].rpartition(" ")[0] + " …"


def usable(reply: str, words: int) -> str:
    """The summary in a reply; "" where there is none, or one so much longer than the `words` that were asked for that
    it can't be meant as one."""
    text = without_thought(reply).strip()
    if fenced := _FENCED.fullmatch(text):
        text = fenced[2].strip()
    if len(text.split()) > _MOST_WORDS * words + _SPARE_WORDS:
        return ""
    return without_secrets(printable(text.replace("\r\n", "\n"))).strip()


def _request(data: str, asked: str, words: int, key: str, *, note: str = "", earlier: str = "") -> Request:
    parts = [data]
    if note:
        parts.append(f"({note})")
    if earlier:
        parts.append(
            "A person has written this of it before, perhaps of an older version. Keep of it what still holds, in "
            f"their words where that can be:\n{fence(earlier, 'earlier')}"
        )
    text = without_secrets(printable("\n".join([*parts, "", asked, ""])))
    system = (files("repoagent.memory.summaries") / "prompt.md").read_text(encoding="utf-8")
    return Request(
        (Part(system, "instructions", cache=True),),
        (Message("user", (Part(text, "text"),)),),
        _THINKING + _TOKENS_A_WORD * 2 * words,
        json.dumps({"summary": key}),
    )


def _quoted(name: str) -> str:
    return json.dumps(name, ensure_ascii=False)


def _named(name: str) -> str:
    """A path in prose: as it is, or quoted where it holds what would break the line."""
    return name if name.isprintable() else _quoted(name)
