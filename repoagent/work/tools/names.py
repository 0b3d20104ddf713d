"""Names of files in sentences that a model reads: who names a file may not speak there."""

from __future__ import annotations

import json
import re

_PLAIN = re.compile(r"[\w./+@%=~-]+")


def named(path: str) -> str:
    """`path` as it is where it can't be taken for words; else in quotes, on one line, with what can't be seen
    escaped."""
    return path if _PLAIN.fullmatch(path) else json.dumps(path, ensure_ascii=not path.isprintable())
