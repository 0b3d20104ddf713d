"""Helpers to cut a text into segments."""

from __future__ import annotations

from typing import Any

from repoagent.split.pack import TARGET_BYTES, Segment
from repoagent.split.splitter import cut, describe


def segments(path: str, data: bytes, *, target: int = TARGET_BYTES, **options: Any) -> tuple[Segment, ...]:
    spans, symbols = cut(path, data, target=target, **options)
    return describe(data, spans, target, symbols())
