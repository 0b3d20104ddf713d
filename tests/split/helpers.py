"""Helpers to write a text and to cut one into segments."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from repoagent.split.pack import TARGET_BYTES, Segment
from repoagent.split.source import SourceText
from repoagent.split.splitter import cut_into_spans, describe_segments

SOURCE = b"".join(b"def f%d():\n    return %d\n\n\n" % (n, n) for n in range(40))


def text(top: Path, data: bytes = SOURCE, name: str = "a.py") -> SourceText:
    (top / name).write_bytes(data)
    return SourceText(str(top / name), data)


def segments(path: str, data: bytes, *, target: int = TARGET_BYTES, **options: Any) -> tuple[Segment, ...]:
    spans, symbols = cut_into_spans(path, data, target=target, **options)
    return describe_segments(data, spans, target, symbols())
