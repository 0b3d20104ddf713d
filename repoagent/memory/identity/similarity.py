"""How similar two versions of a file are, as git measures it for renames, and whether a file was reworked.

`seen.z` keeps the content that a memory last saw, one more for each linked work tree: raw bytes, because the work tree
may differ from any git object (filters, line endings, uncommitted work), and objects may be gone after `git gc`. For a
large file a sample of lines is kept, chosen by their content, so that the next version yields the same lines.
"""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from hashlib import sha256
from itertools import pairwise
from pathlib import Path

from repoagent.errors import Refused
from repoagent.git.worktree import WorkTree
from repoagent.storage.atomic import read_regular, write_whole

RENAME = 0.5  # what git asks of a rename (-M without a number)
_CHUNK = 64
_SAME_LINES = 0.8  # of the smaller version, for one that grew or shrank
_SAME_WORDS = 0.8  # of all pairs of words, for a text that was reformatted
_SHARED = 0.1  # of the smaller version, for one that git has at the same path
_TOO_LITTLE = 64  # bytes in common that prove nothing: an import, a heading


def similarity(one: bytes, other: bytes) -> float:
    """The share of the larger content that is also in the smaller one, 0.0 to 1.0; order does not count.

    Both are cut into lines, long lines into pieces of 64 bytes, and equal pieces are matched, as git's
    diffcore-delta does; a carriage return before a newline does not count (git counts it in the size
    only). Linear in size. A pair that can't reach `RENAME` for the difference in size alone is 0.0.
    """
    if one == other:
        return 1.0
    one, other = one.replace(b"\r\n", b"\n"), other.replace(b"\r\n", b"\n")
    larger, smaller = max(len(one), len(other)), min(len(one), len(other))
    if larger == 0:
        return 1.0
    if smaller < larger * RENAME:
        return 0.0
    return _weight(Counter(pieces(one)) & Counter(pieces(other))) / larger


def worked_over(before: bytes, now: bytes) -> bool:
    """Whether `now`, at the same path, is `before`, extended, shortened, reindented or reformatted.

    git has no need to ask: to it the path is proof. Here most of the smaller version must be in the larger one,
    white space apart, or nearly all words must be the same. A sample of a large file proves nothing.
    """
    if is_sample(before):
        return False
    if _shares(_lines(before), _lines(now), _SAME_LINES, min):
        return True
    return _shares(_word_pairs(before), _word_pairs(now), _SAME_WORDS, max)


def shares_lines(before: bytes, now: bytes) -> bool:
    """Whether enough of the lines of one version is in the other for the path to be believed."""
    return not is_sample(before) and _shares(_lines(before), _lines(now), _SHARED, min)


def is_alike(content: bytes, data: bytes) -> bool:
    """Whether `data` may be a later version of what was kept as `content`."""
    return likeness(content, data) >= RENAME or worked_over(content, data)


def pieces(data: bytes) -> Iterator[bytes]:
    """Lines with their ends, long ones in pieces of 64 bytes."""
    for line in data.splitlines(keepends=True):
        yield from (line[at : at + _CHUNK] for at in range(0, len(line), _CHUNK))


def _lines(data: bytes) -> Counter[bytes]:
    """Lines without white space, blank ones left out."""
    return Counter(bare for line in data.splitlines() if (bare := b"".join(line.split())))


def _word_pairs(data: bytes) -> Counter[bytes]:
    """Pairs of neighboring words: white space, punctuation and line breaks are what a formatter changes."""
    return Counter(map(b" ".join, pairwise(re.findall(rb"\w+", data))))


def _shares(one: Counter[bytes], other: Counter[bytes], share: float, of: Callable[[int, int], int]) -> bool:
    common = _weight(one & other)
    return common > _TOO_LITTLE and common >= share * of(_weight(one), _weight(other))


def _weight(counts: Counter[bytes]) -> int:
    return sum(len(piece) * times for piece, times in counts.items())


_LIMIT = 4 * 1024 * 1024  # bytes; of a larger file a sample is kept
_SAMPLE = 512 * 1024
_HEAD = re.compile(rb"\0sample 1 of (\d{1,6})\n")


def keep_content(folder: Path, worktree: WorkTree, data: bytes) -> None:
    """Keep `data` as what the memory in `folder` last saw in `worktree`."""
    content = data
    if len(data) > _LIMIT:
        share = len(data) // _SAMPLE
        content = b"\0sample 1 of %d\n" % share + _sample(data, share)
    write_whole(folder / _name(worktree.top, linked=worktree.is_linked), zlib.compress(content, 6))


def drop_contents(folder: Path, tops: Collection[str]) -> None:
    """Remove what was kept of linked work trees other than `tops`."""
    wanted = {"seen.z", *(_name(top, linked=True) for top in tops)}
    for path in folder.glob("seen-*.z"):
        if path.name not in wanted:
            path.unlink(missing_ok=True)


def last_contents(folder: Path, worktree: WorkTree) -> list[bytes]:
    """What is kept, that of `worktree` first; what can't be read is left out: then only equality and git decide."""
    own = folder / _name(worktree.top, linked=worktree.is_linked)
    others = sorted(path for path in folder.glob("seen*.z") if path != own)
    return [content for content in map(_unpacked, (own, *others)) if content]


def likeness(content: bytes, data: bytes) -> float:
    """The `similarity` of a file that was kept as `content` and `data`."""
    head = _HEAD.match(content)
    if head is None:
        return similarity(content, data)
    return similarity(content[head.end() :], _sample(data, int(head[1]) or 1))


def is_sample(content: bytes) -> bool:
    return _HEAD.match(content) is not None


def _sample(data: bytes, share: int) -> bytes:
    chosen = (piece for piece in pieces(data) if zlib.crc32(piece) % share == 0)
    return b"".join(piece if piece.endswith(b"\n") else piece + b"\n" for piece in chosen)


def _name(top: Path | str, *, linked: bool) -> str:
    digest = sha256(str(top).encode(errors="surrogateescape")).hexdigest()
    return f"seen-{digest[:8]}.z" if linked else "seen.z"


def _unpacked(path: Path) -> bytes | None:
    try:
        packed = read_regular(path)
        # the limit keeps a forged file from filling the memory
        return None if packed is None else zlib.decompressobj().decompress(packed, _LIMIT)
    except (Refused, zlib.error):  # a link, a fifo
        return None
