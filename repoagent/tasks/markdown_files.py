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
_COLONS = 10  # values with a colon that are quoted: each costs another parse
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
    return _parse(front[1], _COLONS), text[front.end() :]


def _parse(text: str, colons: int) -> dict[str, Value]:
    import yaml
    from yaml.reader import ReaderError

    fields: dict[str, Value] = {}
    documents = 0
    try:
        events = yaml.parse(text, Loader=yaml.BaseLoader)
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
            elif documents > 1 or isinstance(event, yaml.ScalarEvent | yaml.SequenceStartEvent):
                _refuse(event.start_mark.line, "is not `key: value`")
            elif isinstance(event, yaml.MappingStartEvent):
                fields = _mapping(events, 1)
    except ReaderError as error:
        raise Refused("has control characters in its front matter") from error
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line if error.problem_mark else 0
        if colons and error.problem == _NO_COLON and (quoted := _quote_value(text.split("\n"), line)):
            return _parse(quoted, colons - 1)
        _refuse(line, f"is not valid YAML ({error.problem})")
    except (ValueError, OverflowError) as error:  # an escape that is not a character
        raise Refused(f"has invalid front matter: {error}") from error
    return fields


def _mapping(events: Iterator[Event], depth: int) -> dict[str, Value]:
    import yaml

    fields: dict[str, Value] = {}
    while not isinstance(event := next(events), yaml.MappingEndEvent):
        name = _value(event, events, depth)
        if not isinstance(name, str):
            _refuse(event.start_mark.line, "has a name that is not text")
        if name in fields:
            _refuse(event.start_mark.line, f"repeats {name}")
        fields[name] = _value(next(events), events, depth)
    return fields


def _value(event: Event, events: Iterator[Event], depth: int) -> Value:
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


def _quote_value(lines: list[str], at: int) -> str:
    """The text with quotes around the plain value that includes line `at`; "" if there is none."""
    first = at
    for above in range(at - 1, -1, -1):
        if lines[above].strip() and _indent(lines[above]) < _indent(lines[first]):
            if not _PLAIN.fullmatch(lines[above]):
                break
            first = above  # the start of the value
    match = _PLAIN.fullmatch(lines[first])
    if match is None:
        return ""
    last = first + 1
    while last < len(lines) and (not lines[last].strip() or lines[last].startswith(f"{match['indent']} ")):
        last += 1
    value = [_COMMENT.sub("", line, count=1) for line in (match["text"], *lines[first + 1 : last])]
    while not value[-1].strip():
        value.pop()
    quoted = "\n".join(value).replace("'", "''")
    return "\n".join([*lines[:first], f"{match['key']}'{quoted}'", *lines[first + len(value) :]])


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _refuse(line: int, problem: str) -> NoReturn:
    """`line` counts from 0 after the `---`."""
    raise Refused(f"has invalid front matter: line {line + 2} {problem}")


WhyNot = Callable[[str], "str | None"]
ENTRIES = 200  # of one folder are looked at


@dataclass(frozen=True)
class MarkdownFolder:
    """A folder of Markdown files.

    base: no link may lead out of it; None for a user's own folder, in which links are allowed.
    top: `why_not` gets paths relative to it. option: the option that names the folder, which then must exist; "" for
    a usual place.
    """

    path: Path
    base: Path | None = None
    top: Path | None = None
    why_not: WhyNot | None = None
    option: str = ""

    @property
    def own(self) -> bool:
        """Whether it is the user's; the content of a repository's is data."""
        return self.base is None

    def shown(self, path: Path) -> str:
        """`path`, relative to the top of the repository or to the home of the user."""
        for start, prefix in ((self.top, ""), (Path(os.environ.get("HOME") or "/nowhere"), "~/")):
            if start is not None and path.is_relative_to(start):
                return prefix + path.relative_to(start).as_posix()
        return str(path)


def names_in(folder: MarkdownFolder, warn: Callable[[str], None]) -> list[str]:
    """The sorted names in the folder, at most ENTRIES, with a warning; none if it does not exist.

    Raises Refused, worded as the end of a sentence, if it can't be listed or leads out of the repository.
    """
    path, option = folder.path, folder.option
    if option and not path.is_absolute():
        raise Refused(f"is named by {option}, and is not an absolute path")
    if not os.path.lexists(path) and not option:
        return []
    try:
        with os.scandir(inside(folder, path)) as entries:
            names = sorted(entry.name for entry in entries if not entry.name.startswith("."))
    except (FileNotFoundError, NotADirectoryError):
        if option:
            raise Refused(f"is named by {option}, and does not exist") from None
        return []
    except OSError as error:
        raise Refused(f"could not be listed ({error.strerror})") from error
    if len(names) > ENTRIES:
        warn(f"{folder.shown(path)} has {len(names)} entries; only the first {ENTRIES} are read")
    return names[:ENTRIES]


def inside(folder: MarkdownFolder, path: Path) -> Path:
    """The real path of `path`. Raises Refused, worded as the end of a sentence, if it leads out of the repository or is
    hidden from models."""
    real = Path(os.path.realpath(path))
    if folder.base is None:
        return real
    if not real.is_relative_to(os.path.realpath(folder.base)):
        raise Refused("is a link out of the repository")
    for candidate in {path, real}:
        top = folder.top if candidate is path else folder.top and Path(os.path.realpath(folder.top))
        if top is None or not candidate.is_relative_to(top) or candidate == top:
            continue
        name = candidate.relative_to(top).as_posix()
        try:
            check_path(name)
        except Refused as error:
            raise Refused(f"cannot be used: {error}") from error
        if folder.why_not and (reason := folder.why_not(name)):
            raise Refused(f"is hidden from models: {reason.rstrip('.')}")
    return real


def read_text(folder: MarkdownFolder, path: Path, limit: int, *, within: Path | None = None) -> str | None:
    """The text of `path`, of at most `limit` bytes; None if there is no such file. No link may lead out of `within`.

    Raises Refused, worded as the end of a sentence ("is not text"), for anything that may not be read.
    """
    real = inside(folder, path)
    if within is not None and not real.is_relative_to(os.path.realpath(within)):
        raise Refused("is a link out of its folder")
    base = Path(os.path.realpath(folder.base)) if folder.base else real.parent
    try:
        # no link is followed: one that appears after the path was resolved is an OSError
        with open_location(base, real.relative_to(base).as_posix()) as location:
            descriptor = location.open(location.name, os.O_RDONLY)
            try:
                if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                    raise Refused("is not a regular file")
                with open(descriptor, "rb", closefd=False) as file:
                    data = file.read(limit + 1)
            finally:
                os.close(descriptor)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise Refused(f"could not be read ({error.strerror})") from error
    if len(data) > limit:
        raise Refused(f"has more than {limit:,} bytes")
    if b"\0" in data:
        raise Refused("is not text")
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise Refused("is not UTF-8") from error


def one_line(text: str) -> str:
    """`text` with single spaces, and without control characters."""
    return " ".join(printable(text).split())


def cut(text: str, limit: int) -> str:
    """At most `limit` characters of `text`, to the end of a word, with an ellipsis."""
    if len(text) <= limit:
        return text
    head = text[: limit - 1]
    at = head.rfind(" ")
    return (head[:at] if at > limit // 2 else head).rstrip(" ,;:") + "…"
