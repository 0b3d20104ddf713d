"""Markdown files with YAML front matter: find them, read them safely, and quote them on a line of a prompt.

All scalars are text. An unquoted text may contain a colon and a blank ("description: Use when: …"), which YAML forbids.
Anchors, tags, repeated names and deep nesting are refused with the line number. No link may lead out of a repository.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, TypeAlias

from repoagent.dataclass import dataclass
from repoagent.errors import Refused
from repoagent.git.files import check_path, open_location
from repoagent.llm.model import printable

if TYPE_CHECKING:
    from yaml import Event

Value: TypeAlias = "str | list[Value] | dict[str, Value]"

DEEPEST = 8
LARGEST = 16 * 1024  # characters of a front matter
_COLONS = 10  # texts with a colon that are taken: each costs another look at all of it
_NO_COLON = "mapping values are not allowed here"
_FRONT = re.compile(r"\ufeff?---[ \t]*\n(.*?)^---[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
_PLAIN = re.compile(r"(?P<key>(?P<indent> *)[A-Za-z_][\w.-]*: +)(?P<text>[^\s\"'\[{|>&*!%@`#].*)")
_LONE = re.compile("[\ud800-\udfff]")
_COMMENT = re.compile(r"(?:^|[ \t])#.*")


def front_matter(text: str) -> tuple[dict[str, Value], str]:
    """The front matter of `text` and what comes after it. Lines may end in CRLF.

    Raises Refused, worded as the end of a sentence ("has no front matter"), when there is none or it can't be read.
    """
    text = text.replace("\r\n", "\n")
    front = _FRONT.match(text)
    if front is None:
        raise Refused("has no front matter: it must start with a line `---` and end with another")
    if len(front[1]) > LARGEST:
        raise Refused(f"has a front matter of more than {LARGEST:,} characters")
    return _fields(front[1], _COLONS), text[front.end() :]


def _fields(text: str, colons: int) -> dict[str, Value]:
    import yaml
    from yaml.reader import ReaderError

    try:
        return _document(yaml.parse(text, Loader=yaml.BaseLoader))
    except ReaderError as error:
        raise Refused("has control characters in its front matter") from error
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line if error.problem_mark else 0
        if colons and error.problem == _NO_COLON and (quoted := _quoted(text.split("\n"), line)):
            return _fields(quoted, colons - 1)
        _refuse(line, f"is not valid YAML ({error.problem})")
    except (ValueError, OverflowError) as error:  # an escape in it is the number of no character
        raise Refused(f"has invalid front matter: {error}") from error


def _document(events: Iterator[Event]) -> dict[str, Value]:
    import yaml

    found: dict[str, Value] = {}
    documents = 0
    for event in events:
        if isinstance(event, yaml.DocumentStartEvent):
            documents += 1
        elif documents > 1 or isinstance(event, yaml.ScalarEvent | yaml.SequenceStartEvent):
            _refuse(event.start_mark.line, "is not `key: value`")
        elif isinstance(event, yaml.MappingStartEvent):
            found = _mapping(events, 1)
    return found


def _mapping(events: Iterator[Event], depth: int) -> dict[str, Value]:
    import yaml

    found: dict[str, Value] = {}
    while not isinstance(event := next(events), yaml.MappingEndEvent):
        name = _value(event, events, depth)
        if not isinstance(name, str):
            _refuse(event.start_mark.line, "has a name that is not text")
        if name in found:
            _refuse(event.start_mark.line, f"says {name} again")
        found[name] = _value(next(events), events, depth)
    return found


def _value(event: Event, events: Iterator[Event], depth: int) -> Value:
    """The value that begins with `event`."""
    import yaml

    line = event.start_mark.line
    if depth > DEEPEST:
        _refuse(line, "is nested too deeply")
    if event.anchor or event.tag:
        _refuse(line, "has an anchor or a tag; quote values that start with &, * or !")
    if isinstance(event, yaml.MappingStartEvent):
        return _mapping(events, depth + 1)
    if isinstance(event, yaml.ScalarEvent):
        if _LONE.search(event.value):
            _refuse(line, "has an escape that is not a character")
        return str(event.value)
    items: list[Value] = []
    while not isinstance(event := next(events), yaml.SequenceEndEvent):
        items.append(_value(event, events, depth + 1))
    return items


def _quoted(lines: list[str], at: int) -> str:
    """The text with the plain value that goes over the line `at` in quotes; "" where there is none."""
    first = at
    for above in range(at - 1, -1, -1):
        if lines[above].strip() and _indent(lines[above]) < _indent(lines[first]):
            if not _PLAIN.fullmatch(lines[above]):
                break
            first = above  # which began the text that goes on here
    found = _PLAIN.fullmatch(lines[first])
    if found is None:
        return ""
    last = first + 1
    while last < len(lines) and (not lines[last].strip() or lines[last].startswith(f"{found['indent']} ")):
        last += 1
    value = [_COMMENT.sub("", line, count=1) for line in (found["text"], *lines[first + 1 : last])]
    while not value[-1].strip():
        value.pop()
    said = "\n".join(value).replace("'", "''")
    return "\n".join([*lines[:first], f"{found['key']}'{said}'", *lines[first + len(value) :]])


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _refuse(line: int, what: str) -> NoReturn:
    """`line` counts from 0 after the `---`."""
    raise Refused(f"has invalid front matter: line {line + 2} {what}")


WhyNot = Callable[[str], "str | None"]
ENTRIES = 200  # of one folder are looked at


@dataclass(frozen=True)
class Place:
    """A folder of texts.

    `base`: what nothing of it may lead out of; None for a person's own folder, in which links are theirs to make.
    `top`: what the paths begin at that `why_not` is asked about. `named`: by whom it is named, so that it has to be
    there; "" for a place where there may be nothing.
    """

    folder: Path
    base: Path | None = None
    top: Path | None = None
    why_not: WhyNot | None = None
    named: str = ""

    @property
    def own(self) -> bool:
        """Whether it is the person's; what a repository provides is data."""
        return self.base is None

    def shown(self, path: Path) -> str:
        """`path` as a person calls it: from the top of the repository, or from their home."""
        for start, sign in ((self.top, ""), (Path(os.environ.get("HOME") or "/nowhere"), "~/")):
            if start is not None and path.is_relative_to(start):
                return sign + path.relative_to(start).as_posix()
        return str(path)


def names_in(place: Place, warn: Callable[[str], None]) -> list[str]:
    """The names in the folder, sorted, at most ENTRIES, which `warn` is told; none when there is no such folder.

    Raises Refused, worded as the end of a sentence, when it can't be listed or leads out of the repository.
    """
    if place.named and not place.folder.is_absolute():
        raise Refused(f"is named by {place.named}, and is not an absolute path")
    if not os.path.lexists(place.folder) and not place.named:
        return []
    real = inside(place, place.folder)
    try:
        with os.scandir(real) as found:
            names = sorted(entry.name for entry in found if not entry.name.startswith("."))
    except (FileNotFoundError, NotADirectoryError):
        if place.named:
            raise Refused(f"is named by {place.named}, and does not exist") from None
        return []
    except OSError as error:
        raise Refused(f"could not be listed ({error.strerror})") from error
    if len(names) > ENTRIES:
        warn(f"{place.shown(place.folder)} has {len(names)} entries; only the first {ENTRIES} are read")
    return names[:ENTRIES]


def inside(place: Place, path: Path) -> Path:
    """The real path of `path`. Raises Refused, worded as the end of a sentence, when it leads out of the repository
    or may not be shown."""
    real = Path(os.path.realpath(path))
    if place.base is None:
        return real
    base = Path(os.path.realpath(place.base))
    if not real.is_relative_to(base):
        raise Refused("is a link out of the repository")
    for each in {path, real}:
        top = place.top if each is path else place.top and Path(os.path.realpath(place.top))
        if top is None or not each.is_relative_to(top) or each == top:
            continue
        name = each.relative_to(top).as_posix()
        try:
            check_path(name)
        except Refused as error:
            raise Refused(f"cannot be used: {error}") from error
        if place.why_not and (reason := place.why_not(name)):
            raise Refused(f"is hidden from models: {reason.rstrip('.')}")
    return real


def read_text(place: Place, path: Path, limit: int, *, within: Path | None = None) -> str | None:
    """The text of `path`, of at most `limit` bytes; None when there is no such file. `within`: a folder that it may not
    lead out of either.

    Raises Refused, worded as the end of a sentence ("is no regular file"), for anything that may not be read.
    """
    real = inside(place, path)
    if within is not None and not real.is_relative_to(os.path.realpath(within)):
        raise Refused("is a link out of its folder")
    base = Path(os.path.realpath(place.base)) if place.base else real.parent
    try:
        data = _bytes(base, real.relative_to(base).as_posix(), limit)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise Refused(f"could not be read ({error.strerror})") from error
    if b"\0" in data:
        raise Refused("is not text")
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise Refused("is not UTF-8") from error


def _bytes(base: Path, name: str, limit: int) -> bytes:
    """No link is followed: where one appears after the path was resolved, that is an OSError."""
    with open_location(base, name) as place:
        descriptor = place.open(place.name, os.O_RDONLY)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise Refused("is not a regular file")
            with open(descriptor, "rb", closefd=False) as file:
                data = file.read(limit + 1)
        finally:
            os.close(descriptor)
    if len(data) > limit:
        raise Refused(f"has more than {limit:,} bytes")
    return data


def one_line(text: str) -> str:
    """`text` with single blanks and no newline, nothing in it that is no character to see."""
    return " ".join(printable(text).split())


def cut(text: str, limit: int) -> str:
    """`text` as it is, or at most `limit` characters of it, to the end of a word, with an ellipsis."""
    if len(text) <= limit:
        return text
    head = text[: limit - 1]
    at = head.rfind(" ")
    return (head[:at] if at > limit // 2 else head).rstrip(" ,;:") + "…"
