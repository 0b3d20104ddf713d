"""The front matter of a Markdown file: YAML as PyYAML reads it, every scalar a text.

A plain text may hold a colon and a blank ("description: Use when: …"), which YAML forbids and people write. Anchors,
tags, names given twice and what is nested deeply are refused, with the number of the line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NoReturn, TypeAlias

from repoagent.errors import Refused

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
        raise Refused("has no front matter: it has to begin with a line `---`, and another one ends it")
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
        _refuse(line, f"is no YAML ({error.problem})")
    except (ValueError, OverflowError) as error:  # an escape in it is the number of no character
        raise Refused(f"has a front matter that can't be read: {error}") from error


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
            _refuse(event.start_mark.line, "has a name that is no text")
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
        _refuse(line, "has an anchor or a tag: put a value that begins with &, * or ! in quotes")
    if isinstance(event, yaml.MappingStartEvent):
        return _mapping(events, depth + 1)
    if isinstance(event, yaml.ScalarEvent):
        if _LONE.search(event.value):
            _refuse(line, "has the number of no character in an escape")
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
    raise Refused(f"has a front matter that can't be read: line {line + 2} {what}")
