"""What the name of a file says about its kin: `src/core/parser.c`, `core/parser.h`, `tests/test_parser.py`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

# Names that stand for their folder: the folder's name is what they are about.
_INDEX = frozenset((b"__init__", b"__main__", b"index", b"mod", b"lib", b"main", b"package-info", b"readme"))
_ENDINGS = re.compile(rb"(?:[._-](?:tests?|specs?)|\.(?:d|min|stories|module|inl|in|bench|e2e|snap))$")
_CAMEL = re.compile(rb"(?<=[a-z0-9])(?:Tests?|TestCase|Specs?|IT)$")
_STARTS = re.compile(rb"^(?:tests?|specs?|t\d{2,})[._-]")
_CAMEL_START = re.compile(rb"^Test(?=[A-Z])")
_WORD = re.compile(rb"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_SEPARATORS = b"._- "


def stem(path: bytes) -> bytes:
    """The name that a file shares with its test, header or page, in lower case without separators.

    `path` is relative to the top of the work tree. The extension and the markers of tests and generated companions are
    cut (`test_`, `_test`, `.spec`, `.d`, `Test`, `t1234-`); a name that stands for its folder (`__init__.py`, `mod.rs`,
    `index.ts`) gives the folder's name. Empty only for an empty path.
    """
    folder, _, name = path.rpartition(b"/")
    bare = _bare(name)
    if bare in _INDEX and folder:
        return _bare(folder.rpartition(b"/")[2] + b".") or bare
    return bare


def _bare(name: bytes) -> bytes:
    head, dot, _ = name.rpartition(b".")
    kept = head if dot and head else name.lstrip(b".")
    while True:
        cut = _CAMEL.sub(b"", _ENDINGS.sub(b"", _STARTS.sub(b"", _CAMEL_START.sub(b"", kept))))
        if cut == kept or not cut:
            break
        kept = cut
    lowered = kept.lower()
    if lowered in _INDEX:
        return lowered
    return lowered.translate(None, _SEPARATORS) or lowered or name


def words(path: bytes) -> frozenset[bytes]:
    """The words of a path and its folders without the extension, in lower case; `camelCase` is two."""
    head, dot, last = path.rpartition(b".")
    return frozenset(word.lower() for word in _WORD.findall(head if dot and b"/" not in last else path))


def alike(path: bytes, candidates: Mapping[int, bytes]) -> dict[int, float]:
    """How telling the rarest word is that a candidate shares with `path`: 1 when no other candidate has it, else one by
    how many have it. Candidates that share nothing are left out."""
    asked = words(path)
    own = {file: asked & words(candidate) for file, candidate in candidates.items()}
    having = Counter(word for shared in own.values() for word in shared)
    return {file: 1 / min(having[word] for word in shared) for file, shared in own.items() if shared}
