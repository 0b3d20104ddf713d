"""The content that a memory last saw of its file, for comparing: `seen.z`, one more for each linked work tree.

It is kept here and not looked up among git's objects: it is the raw bytes of the work tree, which need not be an object
at all (filters, line endings, uncommitted work), and an object may be gone when it is needed most (an undone edit
after `git gc`). Of a large file a sample of its lines is kept, chosen by their content, so that the same lines are
chosen again in the next version.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Collection
from hashlib import sha256
from pathlib import Path

from repoagent.errors import Refused
from repoagent.memory.identity.similar import pieces, similarity
from repoagent.repo.worktree import WorkTree
from repoagent.store import read_regular, write_whole

_LIMIT = 4 * 1024 * 1024  # bytes; of a larger file a sample is kept
_SAMPLE = 512 * 1024
_HEAD = re.compile(rb"\0sample 1 of (\d{1,6})\n")


def keep_content(folder: Path, worktree: WorkTree, data: bytes) -> None:
    """Keep `data` as what the memory in `folder` last saw in `worktree`."""
    kept = data
    if len(data) > _LIMIT:
        share = len(data) // _SAMPLE
        kept = b"\0sample 1 of %d\n" % share + _sample(data, share)
    write_whole(folder / _name(worktree.top, linked=worktree.is_linked), zlib.compress(kept, 6))


def drop_contents(folder: Path, places: Collection[str]) -> None:
    """Remove what was kept of linked work trees other than `places`."""
    wanted = {"seen.z", *(_name(place, linked=True) for place in places)}
    for path in folder.glob("seen-*.z"):
        if path.name not in wanted:
            path.unlink(missing_ok=True)


def last_contents(folder: Path, worktree: WorkTree) -> list[bytes]:
    """What is kept, that of `worktree` first; what can't be read is left out: then only equality and git decide."""
    own = folder / _name(worktree.top, linked=worktree.is_linked)
    others = sorted(path for path in folder.glob("seen*.z") if path != own)
    return [content for content in map(_unpacked, (own, *others)) if content]


def likeness(kept: bytes, data: bytes) -> float:
    """As `similarity` of the file that was kept and `data`."""
    head = _HEAD.match(kept)
    if head is None:
        return similarity(kept, data)
    share = int(head[1]) or 1
    return similarity(kept[head.end() :], _sample(data, share))


def is_sample(kept: bytes) -> bool:
    return _HEAD.match(kept) is not None


def _sample(data: bytes, share: int) -> bytes:
    chosen = [piece for piece in pieces(data) if zlib.crc32(piece) % share == 0]
    return b"".join(piece if piece.endswith(b"\n") else piece + b"\n" for piece in chosen)


def _name(top: Path | str, *, linked: bool) -> str:
    return (
        f"seen-{sha256(str(top).encode(errors='surrogateescape')).hexdigest()[:8]}.z" if linked else "seen.z"
    )


def _unpacked(path: Path) -> bytes | None:
    try:
        packed = read_regular(path)
    except Refused:  # a link, a fifo
        return None
    if packed is None:
        return None
    unpacker = zlib.decompressobj()
    try:
        return unpacker.decompress(packed, _LIMIT)  # the limit keeps a forged file from filling the memory
    except zlib.error:
        return None
