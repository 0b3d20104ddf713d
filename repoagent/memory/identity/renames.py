"""Compare versions of a file: similarity as git measures it for renames, and whether a file was reworked.

`seen.z` stores the content that a memory last saw; each linked work tree has a file of its own. The content is stored
as raw bytes, because a work tree may differ from any git object (filters, line endings, uncommitted work), and objects
may be deleted by `git gc`. Only the beginning of a large file is stored and compared.
"""

from __future__ import annotations

import os
import re
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from hashlib import sha256
from itertools import pairwise
from pathlib import Path

from repoagent.errors import Refused
from repoagent.git.process import OFFLINE, GitError, git
from repoagent.git.worktree import WorkTree
from repoagent.storage.atomic import read_regular, write_whole

RENAME = 0.5  # git's threshold for a rename (-M without a number)
_CHUNK = 64
_SAME_LINES = 0.8  # least common share of the smaller version, if the file grew or shrank
_SAME_WORDS = 0.8  # least common share of pairs of words, if the file was reformatted
_TOO_LITTLE = 64  # common bytes that prove nothing: an import, a heading
LIMIT = 4 * 1024 * 1024  # bytes that are stored and compared


def similarity(before: bytes, after: bytes) -> float:
    """Return the share of the larger content that is also in the smaller one, in any order, from 0.0 to 1.0.

    Equal lines and pieces of 64 bytes count, as in git's diffcore-delta; carriage returns before newlines do not.
    Return 0.0 if the sizes alone rule out `RENAME`. Only the first LIMIT bytes are compared.
    """
    before, after = before[:LIMIT], after[:LIMIT]
    if before == after:
        return 1.0
    before, after = before.replace(b"\r\n", b"\n"), after.replace(b"\r\n", b"\n")
    larger, smaller = max(len(before), len(after)), min(len(before), len(after))
    if larger == 0:
        return 1.0
    if smaller < larger * RENAME:
        return 0.0
    return _weight(Counter(_pieces(before)) & Counter(_pieces(after))) / larger


def worked_over(before: bytes, now: bytes) -> bool:
    """Whether `now` is `before` reformatted, extended or shortened, so that most lines or words are the same."""
    now = now[:LIMIT]
    if _shares(_lines(before), _lines(now), _SAME_LINES, min):
        return True
    return _shares(_word_pairs(before), _word_pairs(now), _SAME_WORDS, max)


def is_alike(content: bytes, data: bytes) -> bool:
    """Whether `data` may be a later version of the stored `content`."""
    return similarity(content, data) >= RENAME or worked_over(content, data)


def _pieces(data: bytes) -> Iterator[bytes]:
    for line in data.splitlines(keepends=True):
        yield from (line[at : at + _CHUNK] for at in range(0, len(line), _CHUNK))


def _lines(data: bytes) -> Counter[bytes]:
    """Lines without white space and without blank ones."""
    return Counter(bare for line in data.splitlines() if (bare := b"".join(line.split())))


def _word_pairs(data: bytes) -> Counter[bytes]:
    """Pairs of consecutive words, without what a formatter changes: white space, punctuation and line breaks."""
    return Counter(map(b" ".join, pairwise(re.findall(rb"\w+", data))))


def _shares(
    before: Counter[bytes], after: Counter[bytes], share: float, of: Callable[[int, int], int]
) -> bool:
    common = _weight(before & after)
    return common > _TOO_LITTLE and common >= share * of(_weight(before), _weight(after))


def _weight(counts: Counter[bytes]) -> int:
    return sum(len(piece) * times for piece, times in counts.items())


def keep_content(folder: Path, worktree: WorkTree, data: bytes) -> None:
    """Store `data` as the content that the memory in `folder` last saw in `worktree`."""
    path = folder / _name(worktree.top, linked=worktree.is_linked)
    write_whole(path, zlib.compress(data[:LIMIT], 6))


def drop_contents(folder: Path, tops: Collection[str]) -> None:
    """Remove the stored contents of linked work trees other than `tops`."""
    wanted = {"seen.z", *(_name(top, linked=True) for top in tops)}
    for path in folder.glob("seen-*.z"):
        if path.name not in wanted:
            path.unlink(missing_ok=True)


def last_contents(folder: Path, worktree: WorkTree) -> list[bytes]:
    """The stored contents, that of `worktree` first. Unreadable ones are left out."""
    own = folder / _name(worktree.top, linked=worktree.is_linked)
    contents = []
    for path in (own, *sorted(path for path in folder.glob("seen*.z") if path != own)):
        try:
            packed = read_regular(path)
            # the limit prevents a forged file from exhausting memory
            content = b"" if packed is None else zlib.decompressobj().decompress(packed, LIMIT)
        except (Refused, zlib.error):  # a link, a FIFO, or damaged
            continue
        contents += [content] if content else []
    return contents


def _name(top: Path | str, *, linked: bool) -> str:
    digest = sha256(str(top).encode(errors="surrogateescape")).hexdigest()
    return f"seen-{digest[:8]}.z" if linked else "seen.z"


_DEPTH = 500  # commits
_RENAMES = ("--diff-filter=R", "--raw", "--no-abbrev", "-z")


def _ask(worktree: WorkTree, *arguments: str, stdin: bytes | None = None) -> bytes | None:
    """git's output; None if it fails: HEAD is unborn, an object is missing."""
    try:
        return git(worktree.top, *arguments, stdin=stdin, env=OFFLINE)
    except GitError:
        return None


def _ask_renames(
    worktree: WorkTree, command: str, *arguments: str, similar: Sequence[str] = ("-M",)
) -> bytes | None:
    """Like `_ask`, with renames detected; only exact ones if a partial clone lacks contents to compare."""
    listed = _ask(worktree, command, *similar, *arguments)
    return _ask(worktree, command, "-M100%", *arguments) if listed is None else listed


def _names(listed: bytes | None) -> Iterator[str]:
    return (os.fsdecode(name) for name in (listed or b"").split(b"\0") if name)


def blob_at(worktree: WorkTree, name: str) -> bytes | None:
    """The content of the blob `name`: HEAD:PATH, or :0:PATH in the index; None if there is none."""
    return _ask(worktree, "cat-file", "blob", name)


def as_in_work_tree(worktree: WorkTree, blob: str, path: str) -> bytes | None:
    """The content of `blob` as a checkout would write it to `path`; None if it is missing."""
    return _ask(worktree, "cat-file", "--filters", f"--path={path}", blob)


def _ids_at(worktree: WorkTree, path: str, commits: Collection[str]) -> list[bytes]:
    """The ids that `commits` have at `path`, also of missing objects; none if one of the commits has no such path."""
    return (_ask(worktree, "rev-parse", *(f"{commit}:{path}" for commit in commits)) or b"").split()


def former_names(worktree: WorkTree, path: str, commits: set[str | None]) -> Iterator[tuple[str, str]]:
    """Yield the earlier names of `path` in the index and at most _DEPTH commits, newest first, each with its last blob.

    `commits` are those at which files that may have been renamed to `path` were last seen (None: unknown). If all of
    them contain `path`, history is not read.
    """
    yield from _followed(path, _ask_renames(worktree, "diff-index", "--cached", *_RENAMES, "HEAD", "--"))
    since = {commit for commit in commits if commit is not None}
    if len(since) == len(commits) and _ids_at(worktree, path, since):
        return
    oldest = (_ask(worktree, "rev-list", "-1", f"--skip={_DEPTH}", "HEAD", "--") or b"").decode().strip()
    bounds = [f"^{commit}" for commit in (oldest, *(since if len(commits) == 1 else ())) if commit]
    yield from _followed(path, _ask_renames(worktree, "log", *_RENAMES, "--format=", "HEAD", *bounds, "--"))


def _followed(path: str, raw: bytes | None) -> Iterator[tuple[str, str]]:
    """Follow renames back in git's raw output: `:MODE MODE BLOB BLOB R<score>`, old and new name for each."""
    fields = list(_names(raw))
    before: dict[str, tuple[str, str]] = {}
    for head, old, new in zip(fields[0::3], fields[1::3], fields[2::3], strict=False):
        before.setdefault(new, (old, head.split()[2]))
    while path in before:
        path, blob = before.pop(path)
        yield path, blob


def same_through_history(worktree: WorkTree, path: str, data: bytes, since: str) -> bool:
    """Whether `path` has the content `data` at HEAD and was neither added, removed nor renamed after the commit
    `since`."""
    blob = _ask(worktree, "hash-object", "--stdin", "--path", path, stdin=data)
    if blob is None or _ids_at(worktree, path, (since, "HEAD"))[1:] != [blob.strip()]:
        return False
    log = ("log", "-1", "--format=%H", "--no-renames", "--diff-filter=AD", f"{since}...HEAD", "--", path)
    return _ask(worktree, *log) == b"" and all(old != path for old, _ in renames_since(worktree, since))


def changed_files(worktree: WorkTree) -> Iterator[str]:
    """The files that differ from HEAD, and untracked files that are not ignored."""
    yield from _names(_ask(worktree, "ls-files", "-o", "--exclude-standard", "-z"))
    changed = _ask(worktree, "diff-index", "--no-renames", "--name-only", "-z", "HEAD", "--")
    if changed is None:  # an unborn HEAD: all of the index is new
        changed = _ask(worktree, "ls-files", "-z")
    yield from _names(changed)


def renames_since(worktree: WorkTree, commit: str) -> list[tuple[str, str]]:
    """Return (old, new) for each tracked file renamed since `commit`, even if another file is now at the old path."""
    listing = ("diff-index", "--name-status", "-z", commit, "--")
    fields = _names(_ask_renames(worktree, *listing, similar=("-B", "-M")))
    changed = [(letter, next(fields), next(fields) if letter[0] in "RC" else "") for letter in fields]
    rewritten = {old for letter, old, _ in changed if letter.startswith("M") and letter != "M"}
    return [
        (old, new)
        for letter, old, new in changed
        if letter[0] == "R" or (letter[0] == "C" and old in rewritten)
    ]
