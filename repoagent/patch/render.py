"""Compare two sequences in bounded time, and render changes as a diff in git's format."""

from __future__ import annotations

import base64
import hashlib
import io
import zlib
from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from difflib import SequenceMatcher

from repoagent.dataclass import dataclass
from repoagent.git.files import FileChange

Range = tuple[int, int, int, int]
Pairs = list[tuple[int, int]]
_MAX_EDITS = 300
_MAX_CELLS = 400_000
_CONTEXT = 3
_ESCAPES = {7: "a", 8: "b", 9: "t", 10: "n", 11: "v", 12: "f", 13: "r", 34: '"', 92: "\\"}


def diff_ranges(old: Sequence[Hashable], new: Sequence[Hashable]) -> list[Range]:
    """Return the ranges (i1, i2, j1, j2) where `old[i1:i2]` became `new[j1:j2]`, in order.

    The sequences are compared by Myers' greedy algorithm ("An O(ND) Difference Algorithm and Its Variations", 1986).
    With many edits, they are divided at the lines that are unique on both sides (Bram Cohen's patience diff). If there
    are none, difflib compares a small range, and a large one counts as replaced.
    """
    ranges: list[Range] = []
    work: list[Range] = [(0, len(old), 0, len(new))]
    while work:
        i1, i2, j1, j2 = work.pop()
        while i1 < i2 and j1 < j2 and old[i1] == new[j1]:
            i1, j1 = i1 + 1, j1 + 1
        while i1 < i2 and j1 < j2 and old[i2 - 1] == new[j2 - 1]:
            i2, j2 = i2 - 1, j2 - 1
        if i1 == i2 or j1 == j2:
            if i1 < i2 or j1 < j2:
                ranges.append((i1, i2, j1, j2))
            continue
        whole, old_part, new_part = (i1, i2, j1, j2), old[i1:i2], new[j1:j2]
        matches = _myers(old_part, new_part)
        if matches is not None:
            ranges += _gaps(matches, whole)
        elif anchors := _unique_in_order(old_part, new_part):
            work += _gaps(anchors, whole)
        elif len(old_part) * len(new_part) <= _MAX_CELLS:
            opcodes = SequenceMatcher(None, old_part, new_part, autojunk=False).get_opcodes()
            ranges += [(i1 + a, i1 + b, j1 + c, j1 + d) for tag, a, b, c, d in opcodes if tag != "equal"]
        else:
            ranges.append(whole)
    joined: list[Range] = []  # adjacent ranges are one
    for part in sorted(ranges):
        if joined and joined[-1][1] == part[0]:
            part = (joined[-1][0], part[1], joined.pop()[2], part[3])
        joined.append(part)
    return joined


def _gaps(pairs: Pairs, whole: Range) -> list[Range]:
    """The gaps between matching lines; `pairs` are relative to the start of `whole`."""
    i, i2, j, j2 = whole
    gaps: list[Range] = []
    for a, b in [*((whole[0] + a, whole[2] + b) for a, b in pairs), (i2, j2)]:
        if a > i or b > j:
            gaps.append((i, a, j, b))
        i, j = a + 1, b + 1
    return gaps


def _myers(old: Sequence[Hashable], new: Sequence[Hashable]) -> Pairs | None:
    """The matching pairs of a shortest edit script; None above `_MAX_EDITS` edits."""
    n, m = len(old), len(new)
    reach = {1: 0}  # for each diagonal k = x - y, the furthest x
    trace: list[dict[int, int]] = []

    def goes_down(k: int, edits: int, reach: dict[int, int]) -> bool:
        return k == -edits or (k != edits and reach.get(k - 1, -1) < reach.get(k + 1, -1))

    for edits in range(min(n + m, _MAX_EDITS) + 1):
        step: dict[int, int] = {}
        for k in range(-edits, edits + 1, 2):
            x = reach[k + 1] if goes_down(k, edits, reach) else reach[k - 1] + 1
            while x < n and x - k < m and old[x] == new[x - k]:
                x += 1
            step[k] = x
            if x >= n and x - k >= m:
                break
        trace.append(step)
        if step.get(n - m, -1) >= n:
            break
        reach = {**reach, **step}
    else:
        return None
    pairs: Pairs = []
    x, y = n, m
    for edits in range(len(trace) - 1, 0, -1):
        k, before = x - y, trace[edits - 1]
        down = goes_down(k, edits, before)
        k_before = k + 1 if down else k - 1
        start = before[k_before] + (not down)
        pairs += [(row, row - k) for row in range(x - 1, start - 1, -1)]
        x, y = before[k_before], before[k_before] - k_before
    pairs += [(row, row) for row in range(x - 1, -1, -1)]
    return pairs[::-1]


def _unique_in_order(old: Sequence[Hashable], new: Sequence[Hashable]) -> Pairs:
    """The longest chain of lines that occur once on each side, in order on both."""
    in_old, in_new = Counter(old), Counter(new)
    new_rows = {line: row for row, line in enumerate(new) if in_new[line] == 1}
    pairs = [(row, new_rows[line]) for row, line in enumerate(old) if in_old[line] == 1 and line in new_rows]
    tops: list[int] = []  # for each length of a chain, the pair with the lowest end
    previous: list[int] = []
    for number, (_, row) in enumerate(pairs):
        length = bisect_left(tops, row, key=lambda top: pairs[top][1])
        previous.append(tops[length - 1] if length else -1)
        tops[length : length + 1] = [number]
    chain: Pairs = []
    at = tops[-1] if tops else -1
    while at >= 0:
        chain.append(pairs[at])
        at = previous[at]
    return chain[::-1]


def canonical_diff(changes: Iterable[FileChange], *, hash_name: str = "sha1") -> str:
    """Return one git-style diff of all changes.

    Bytes that are not UTF-8 become surrogate escapes. Content with a NUL byte becomes a `GIT binary patch`, whose blob
    ids use `hash_name`, the repository's object format.
    """
    return "".join(
        text
        for change in changes
        for text in (header_of(change, hash_name), *(hunk.text for hunk in hunks_of(change)))
    )


def header_of(change: FileChange, hash_name: str = "sha1") -> str:
    """Return the diff of one change without its hunks: the header lines and, if it is binary, the binary patch."""
    before, after = change.before or b"", change.after or b""
    old, new = change.old_path or change.name, change.path or change.name
    lines = [b"diff --git " + quoted("a/" + old) + b" " + quoted("b/" + new)]
    if change.is_new:
        lines.append(b"new file mode " + (change.mode or "100644").encode())
    elif change.is_deletion:
        lines.append(b"deleted file mode " + (change.old_mode or "100644").encode())
    elif change.old_mode != change.mode:
        lines += [
            b"old mode " + (change.old_mode or "").encode(),
            b"new mode " + (change.mode or "").encode(),
        ]
    if old != new:
        # The share of the larger side's bytes in unchanged lines; git may print a slightly different number.
        same, larger = len(before), max(1, len(before), len(after))
        rows = io.BytesIO(before).readlines()
        for i1, i2, _, _ in diff_ranges(rows, io.BytesIO(after).readlines()):
            same -= sum(map(len, rows[i1:i2]))
        percent = 100 if before == after else 100 * same // larger
        lines.append(b"similarity index %d%%" % percent)
        lines += [b"rename from " + quoted(old), b"rename to " + quoted(new)]
    body = b""
    if before != after and (b"\0" in before or b"\0" in after):
        ids = [
            hashlib.new(hash_name, b"blob %d\0" % len(data) + data).hexdigest() for data in (before, after)
        ]
        lines.append(f"index {ids[0]}..{ids[1]}".encode())
        lines.append(b"GIT binary patch")
        body = _binary_literal(after) + b"\n" + _binary_literal(before) + b"\n"
    elif before != after:
        lines.append(b"--- " + (_header_name("a/", old) if change.old_path else b"/dev/null"))
        lines.append(b"+++ " + (_header_name("b/", new) if change.path else b"/dev/null"))
    return (b"\n".join(lines) + b"\n" + body).decode() if len(lines) > 1 else ""


def _header_name(prefix: str, path: str) -> bytes:
    """A name in a `---` or `+++` line; as in git, a tab follows one with spaces."""
    name = quoted(prefix + path)
    return name + b"\t" if b" " in name else name


def quoted(path: str) -> bytes:
    """Return a path as in a git header: in C quotes unless it is plain printable ASCII."""
    raw = path.encode("utf-8", "surrogateescape")
    if all(32 <= byte < 127 and byte not in (34, 92) for byte in raw):
        return raw
    escaped = (
        "\\" + _ESCAPES[byte] if byte in _ESCAPES else chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}"
        for byte in raw
    )
    return b'"' + "".join(escaped).encode() + b'"'


@dataclass(frozen=True)
class RenderedHunk:
    """The `ranges` in which `after` differs from `before`, and the context around them.

    With context, the hunk shows the lines `start` to `end` (from 0, exclusive) of `before`.
    """

    before: Sequence[bytes]
    after: Sequence[bytes]
    ranges: tuple[Range, ...]
    start: int
    end: int
    heading: str

    @property
    def text(self) -> str:
        """The text of the hunk with its header line."""
        (i1, _, j1, _), (_, i2, _, j2) = self.ranges[0], self.ranges[-1]
        new = _extent(j1 - i1 + self.start, j2 - i2 + self.end)
        lines: list[bytes] = []
        at = self.start
        for a, b, c, d in self.ranges:
            lines += [_signed(b" ", line) for line in self.before[at:a]]
            lines += [_signed(b"-", line) for line in self.before[a:b]]
            lines += [_signed(b"+", line) for line in self.after[c:d]]
            at = b
        lines += [_signed(b" ", line) for line in self.before[at : self.end]]
        body = b"".join(lines).decode("utf-8", "surrogateescape")
        return f"@@ -{_extent(self.start, self.end)} +{new} @@{self.heading}\n{body}"


def hunks_of(change: FileChange) -> Iterator[RenderedHunk]:
    """Yield the hunks of one change; none if its content has a NUL byte."""
    before, after = change.before or b"", change.after or b""
    if b"\0" in before or b"\0" in after:
        return
    old, new = io.BytesIO(before).readlines(), io.BytesIO(after).readlines()
    groups: list[list[Range]] = []
    for part in diff_ranges(old, new):
        part = _slide_down(part, old, new)
        if groups and part[0] - groups[-1][-1][1] <= 2 * _CONTEXT:
            groups[-1].append(part)
        else:
            groups.append([part])
    for group in groups:
        start, end = max(0, group[0][0] - _CONTEXT), min(len(old), group[-1][1] + _CONTEXT)
        heading = ""  # the nearest line above that starts with a letter, as git prints by default
        for line in reversed(old[max(0, start - 2000) : start]):
            if line[:1].isalpha() or line[:1] in {b"_", b"$"}:
                heading = " " + line.rstrip()[:80].decode("utf-8", "ignore")
                break
        yield RenderedHunk(old, new, tuple(group), start, end, heading)


def _slide_down(part: Range, old: Sequence[bytes], new: Sequence[bytes]) -> Range:
    """Move a pure insertion or deletion as git does: as low as possible, or to start after the last blank line that it
    passes."""
    i1, i2, j1, j2 = part
    if i1 != i2 and j1 != j2:
        return part
    lines, low, high = (new, j1, j2) if i1 == i2 else (old, i1, i2)
    limit = min(len(old) - i2, len(new) - j2)
    shifts = [0]
    while shifts[-1] < limit and lines[low + shifts[-1]] == lines[high + shifts[-1]]:
        shifts.append(shifts[-1] + 1)
    after_blank = [shift for shift in shifts if lines[high + shift - 1].strip() == b""]
    by = after_blank[-1] if after_blank else shifts[-1]
    return i1 + by, i2 + by, j1 + by, j2 + by


def _extent(start: int, end: int) -> str:
    count = end - start
    return f"{start + 1}" if count == 1 else f"{start + bool(count)},{count}"


def _signed(sign: bytes, line: bytes) -> bytes:
    return sign + line if line.endswith(b"\n") else sign + line + b"\n\\ No newline at end of file\n"


def _binary_literal(data: bytes) -> bytes:
    packed = zlib.compress(data)
    rows = [b"literal %d\n" % len(data)]
    for at in range(0, len(packed), 52):
        row = packed[at : at + 52]
        length = len(row) + 64 if len(row) <= 26 else len(row) - 26 + 96
        rows.append(bytes([length]) + base64.b85encode(row, pad=True) + b"\n")
    return b"".join(rows)
