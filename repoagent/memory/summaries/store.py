"""What a model said of a text, as a file that a person can read and correct: one for each text, found by its hash.

    version: 1
    about: src/app.py, lines 1-310
    model: anthropic/claude-haiku-5-5
    date: 2026-11-22T11:09:14+00:00
    written: 3f2a9c1be04d7710

    Reads the configuration and starts the server. …

Below the first empty line all is the summary. `written` is the hash of what the model wrote: where it is not that of
what stands there, a person has corrected it, and nothing overwrites that.
"""

from __future__ import annotations

import re
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

from repoagent.dataclass import dataclass
from repoagent.llm.quoting import printable
from repoagent.store.atomic import read_regular, write_whole
from repoagent.store.document import Newer, put_aside
from repoagent.store.report import Warn, to_stderr

VERSION = 1
LONGEST = 40_000  # characters of one summary; a person's, or a stranger's, may be of any length
_FIELD = re.compile(r"([a-z]+):[ \t]*(.*)")
_NAME = 200  # characters of a field


@dataclass(frozen=True)
class Summary:
    """What was said of a text. `about` names the text as it was then, for people; `date` is ISO 8601; `edited`: a
    person has changed what the `model` wrote; `carries`: the model was given what a person wrote of an older text.
    `place` is its file, None for what is kept nowhere."""

    text: str
    about: str = ""
    model: str = ""
    date: str = ""
    edited: bool = False
    carries: bool = False
    place: Path | None = None


def place_of(folder: Path, key: str) -> Path:
    """The file of the summary with this key (a hash in hexadecimal)."""
    return folder / key[:2] / f"{key[2:24]}.md"


def read_summary(folder: Path, key: str, warn: Warn = to_stderr) -> Summary | None:
    """The summary with this key, or None. One that is broken is set aside by name. Raises Refused for a link, or a
    newer format."""
    place = place_of(folder, key)
    data = read_regular(place)
    if data is None:
        return None
    found = _parsed(data, place)
    if found is None:
        put_aside(place, "is broken, or holds no summary", warn)
    return found


def write_summary(folder: Path, key: str, summary: Summary) -> Summary:
    """Keep what a model wrote; the summary as it is kept. Raises Refused."""
    fields = {
        "version": str(VERSION),
        "about": summary.about,
        "model": summary.model,
        "date": summary.date,
        **({"carries": "a person's words"} if summary.carries else {}),
        "written": _mark(summary.text),
    }
    head = "".join(f"{name}: {_one_line(value)}\n" for name, value in fields.items())
    place = place_of(folder, key)
    write_whole(place, f"{head}\n{summary.text.strip()}\n".encode("utf-8", "replace"))
    return replace(summary, text=summary.text.strip(), place=place)


def _parsed(data: bytes, place: Path) -> Summary | None:
    """The summary in a file, or None. Raises Newer."""
    try:
        whole = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None
    head, _, body = whole.replace("\r\n", "\n").partition("\n\n")
    found = [_FIELD.fullmatch(line) for line in head.split("\n")]
    fields = {match[1]: match[2].strip() for match in found if match}
    version = fields.get("version", "")
    if None in found or not (version.isascii() and version.isdigit() and int(version[:9]) > 0):
        return None
    if int(version[:9]) > VERSION:
        raise Newer(
            f"{place} has format version {version} and this repoagent knows up to {VERSION}: update repoagent, "
            "or move the file away"
        )
    text = printable(body.strip())[:LONGEST]
    if not text:
        return None
    about, model, date = (_one_line(fields.get(name, "")) for name in ("about", "model", "date"))
    edited = fields.get("written") != _mark(text)
    return Summary(text, about, model, date, edited, carries="carries" in fields, place=place)


def _mark(text: str) -> str:
    """A hash of the words of `text`: how its lines are broken is no correction."""
    return sha256(" ".join(text.split()).encode("utf-8", "replace")).hexdigest()[:16]


def _one_line(text: str) -> str:
    return " ".join(printable(text).split())[:_NAME]
