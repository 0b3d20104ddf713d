"""Judge YAML by the events of PyYAML, whose marks are lines and columns."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, field

from bench.split.judges import Unjudged
from bench.split.marks import Item, Marks, with_comments

_TRAILING = re.compile(rb"[ \t]*,?(?:[ \t]+#[^\n]*)?")
_COMMENT = re.compile(rb"#[^\n]*")
_LINE = re.compile(rb"\r\n|\n|\r|\xe2\x80[\xa8\xa9]|\xc2\x85")


def marks(kind: str, text: bytes) -> Marks:
    """Units: documents, pairs of mappings and items of sequences."""
    try:
        import yaml
    except ImportError as error:
        raise Unjudged("PyYAML is not installed") from error
    judge = _Judge(text)
    try:
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        for event in yaml.parse(text.decode("utf-8-sig"), Loader=loader):
            judge.event(type(event).__name__.removesuffix("Event"), event)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise Unjudged(str(error)) from error
    comments = judge.comments()
    for items, head, first, close in judge.containers:
        judge.marks.container(with_comments(items, comments, first), head, close, "collection")
    judge.marks.container(with_comments(judge.documents, comments, 0))
    return judge.marks


@dataclass
class _Open:
    """A collection being read; `begun` is the start of the current item, -1 between items."""

    mapping: bool
    head: int
    start: int
    items: list[Item] = field(default_factory=list)
    begun: int = -1
    keyed: bool = False


class _Judge:
    def __init__(self, text: bytes) -> None:
        self.marks = Marks(text, _TRAILING)
        self.text = text
        self.starts = [0, *(match.end() for match in _LINE.finditer(text))]
        self.stack: list[_Open] = []
        self.documents: list[Item] = []
        self.containers: list[tuple[list[Item], int | None, int, tuple[int, int] | None]] = []
        self.begun = 0
        self.last = 0  # end of the last node
        self.scalars: list[tuple[int, int]] = []
        matches = _COMMENT.finditer(text)
        self.spans = [match.span() for match in matches if self.marks.start_of(match.start()) != match.start()
                         or text[match.start() - 1 : match.start()] in (b"", b"\n")]  # fmt: skip

    def _offset(self, mark: object) -> int:
        line, column = getattr(mark, "line", 0), getattr(mark, "column", 0)
        if line >= len(self.starts):
            return len(self.text)
        start = self.starts[line] + (3 if line == 0 and self.text.startswith(b"\xef\xbb\xbf") else 0)
        end = self.starts[line + 1] if line + 1 < len(self.starts) else len(self.text)
        return start + len(self.text[start:end].decode(errors="replace")[:column].encode())

    def event(self, name: str, event: object) -> None:
        start = self._offset(getattr(event, "start_mark", None))
        end = self._offset(getattr(event, "end_mark", None))
        if name == "DocumentStart":
            self.begun = start
        elif name == "DocumentEnd":
            self.documents.append(Item(self.begun, max(self.last, self.begun), "document"))
        elif name in ("MappingStart", "SequenceStart"):
            self.stack.append(_Open(name == "MappingStart", self._begins(start), start))
        elif name in ("MappingEnd", "SequenceEnd"):
            ended = self.stack.pop()
            flow = self.text[ended.start : ended.start + 1] in (b"{", b"[") and self.text[end - 1 : end] in (
                b"}",
                b"]",
            )
            if flow:
                self.last = end
            head = None if not self.stack or ended.head == ended.start else ended.head
            self.containers.append((ended.items, head, ended.start, (end - 1, end) if flow else None))
            self._ends()
        elif name in ("Scalar", "Alias"):
            self._begins(start)
            self.last = max(end - len(self.text[start:end]) + len(self.text[start:end].rstrip()), start)
            self.scalars.append((start, self.last))
            self._ends()

    def _begins(self, start: int) -> int:
        """Begin a node; return the start of the head of its contents: the key, the dash or the node itself."""
        if not self.stack:
            return start
        parent = self.stack[-1]
        if parent.begun < 0:
            parent.begun = start
            if not parent.mapping and self.text[parent.start : parent.start + 1] == b"-":
                dash = self.text.rfind(b"-", 0, start + 1)
                line = self.text.rfind(b"\n", 0, start) + 1
                if dash >= line or not self.text[dash + 1 : start].strip():
                    parent.begun = dash
        return parent.begun

    def _ends(self) -> None:
        if not self.stack:
            return
        parent = self.stack[-1]
        parent.keyed = parent.mapping and not parent.keyed
        if parent.keyed:
            return
        label = self.text[parent.begun : parent.begun + 40].split(b"\n")[0].decode(errors="replace")
        parent.items.append(Item(parent.begun, max(self.last, parent.begun + 1), label))
        parent.begun = -1

    def comments(self) -> list[Item]:
        """Comments alone on their lines."""
        return [
            Item(*span, "comment", sticks="orphan") for span in self.spans if not self._in_scalar(span[0])
        ]

    def _in_scalar(self, offset: int) -> bool:
        at = bisect_right(self.scalars, (offset, len(self.text))) - 1
        return at >= 0 and self.scalars[at][0] <= offset < self.scalars[at][1]
