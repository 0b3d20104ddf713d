"""Compare two sequences in bounded time, and render changes as the diff that git would show and apply."""

from __future__ import annotations

import base64
import hashlib
import io
import zlib
from collections.abc import Hashable, Iterable, Sequence
from difflib import SequenceMatcher

from repoagent.git.files import FileChange

Range = tuple[int, int, int, int]
_MAX_EDITS = 300
_MAX_CELLS = 400_000


def differing(old: Sequence[Hashable], new: Sequence[Hashable]) -> list[Range]:
    """The ranges (i1, i2, j1, j2) where `old[i1:i2]` became `new[j1:j2]`, in order; lines between them are
    equal.

    Common ends are cut first. What is left is compared by Myers' greedy algorithm ("An O(ND) Difference
    Algorithm and Its Variations", 1986), which is quick and minimal while there are few edits. With many, it
    is parted at the lines that are unique on both sides (Bram Cohen's patience diff); what has none goes to
    difflib if it is small, and counts as replaced if it is not.
    """
    result: list[Range] = []
    work: list[tuple[int, int, int, int]] = [(0, len(old), 0, len(new))]
    while work:
        i1, i2, j1, j2 = work.pop()
        while i1 < i2 and j1 < j2 and old[i1] == new[j1]:
            i1, j1 = i1 + 1, j1 + 1
        while i1 < i2 and j1 < j2 and old[i2 - 1] == new[j2 - 1]:
            i2, j2 = i2 - 1, j2 - 1
        if i1 == i2 or j1 == j2:
            if i1 < i2 or j1 < j2:
                result.append((i1, i2, j1, j2))
            continue
        matches = _myers(old[i1:i2], new[j1:j2])
        if matches is not None:
            result += _between(matches, (i1, i2, j1, j2))
            continue
        anchors = _unique_in_order(old[i1:i2], new[j1:j2])
        if anchors:
            work += _parted(anchors, (i1, i2, j1, j2))
        elif (i2 - i1) * (j2 - j1) <= _MAX_CELLS:
            found = SequenceMatcher(None, old[i1:i2], new[j1:j2], autojunk=False).get_opcodes()
            result += [(i1 + a, i1 + b, j1 + c, j1 + d) for tag, a, b, c, d in found if tag != "equal"]
        else:
            result.append((i1, i2, j1, j2))
    return _joined(sorted(result))


def _between(matches: Sequence[tuple[int, int]], whole: Range) -> list[Range]:
    """The gaps between matching lines (pairs relative to the start of `whole`)."""
    i, i2, j, j2 = whole
    gaps: list[Range] = []
    for a, b in [*((whole[0] + a, whole[2] + b) for a, b in matches), (i2, j2)]:
        if a > i or b > j:
            gaps.append((i, a, j, b))
        i, j = a + 1, b + 1
    return gaps


def _parted(anchors: Sequence[tuple[int, int]], whole: Range) -> list[Range]:
    i, i2, j, j2 = whole
    parts: list[Range] = []
    for a, b in [*((whole[0] + a, whole[2] + b) for a, b in anchors), (i2, j2)]:
        parts.append((i, a, j, b))
        i, j = a + 1, b + 1
    return parts


def _joined(ranges: Sequence[Range]) -> list[Range]:
    """Ranges that touch, as one."""
    result: list[Range] = []
    for part in ranges:
        if result and result[-1][1] == part[0] and result[-1][3] == part[2]:
            result[-1] = (result[-1][0], part[1], result[-1][2], part[3])
        else:
            result.append(part)
    return result


def _myers(old: Sequence[Hashable], new: Sequence[Hashable]) -> list[tuple[int, int]] | None:
    """The matching pairs of a shortest edit script, or None when it takes more than `_MAX_EDITS` edits."""
    n, m = len(old), len(new)
    reach = {1: 0}
    trace: list[dict[int, int]] = []
    for edits in range(min(n + m, _MAX_EDITS) + 1):
        step: dict[int, int] = {}
        for k in range(-edits, edits + 1, 2):
            down = k == -edits or (k != edits and reach.get(k - 1, -1) < reach.get(k + 1, -1))
            x = reach[k + 1] if down else reach[k - 1] + 1
            y = x - k
            while x < n and y < m and old[x] == new[y]:
                x, y = x + 1, y + 1
            step[k] = x
            if x >= n and y >= m:
                trace.append(step)
                return _path(trace, n, m)
        trace.append(step)
        reach = {**reach, **step}
    return None


def _path(trace: Sequence[dict[int, int]], n: int, m: int) -> list[tuple[int, int]]:
    pairs: list[tuple[int, int]] = []
    x, y = n, m
    for edits in range(len(trace) - 1, 0, -1):
        before = trace[edits - 1]
        k = x - y
        down = k == -edits or (k != edits and before.get(k - 1, -1) < before.get(k + 1, -1))
        k_before = k + 1 if down else k - 1
        x_before = before[k_before]
        x_start = x_before if down else x_before + 1
        while x > x_start:
            x, y = x - 1, y - 1
            pairs.append((x, y))
        x, y = x_before, x_before - k_before
    while x > 0 and y > 0:
        x, y = x - 1, y - 1
        pairs.append((x, y))
    pairs.reverse()
    return pairs


def _unique_in_order(old: Sequence[Hashable], new: Sequence[Hashable]) -> list[tuple[int, int]]:
    """The longest chain of lines that stand once on each side, in the same order on both."""
    once_old, once_new = _once(old), _once(new)
    pairs = [(row, once_new[text]) for text, row in once_old.items() if text in once_new]
    pairs.sort()
    tops: list[int] = []
    back: list[int] = [-1] * len(pairs)
    for number, (_, row) in enumerate(pairs):
        low, high = 0, len(tops)
        while low < high:
            middle = (low + high) // 2
            if pairs[tops[middle]][1] < row:
                low = middle + 1
            else:
                high = middle
        back[number] = tops[low - 1] if low else -1
        tops[low : low + 1] = [number]
    chain: list[tuple[int, int]] = []
    at = tops[-1] if tops else -1
    while at >= 0:
        chain.append(pairs[at])
        at = back[at]
    return chain[::-1]


def _once(lines: Sequence[Hashable]) -> dict[Hashable, int]:
    seen: dict[Hashable, int] = {}
    for row, text in enumerate(lines):
        seen[text] = -1 if text in seen else row
    return {text: row for text, row in seen.items() if row >= 0}


_CONTEXT = 3
_SHORT = {7: "a", 8: "b", 9: "t", 10: "n", 11: "v", 12: "f", 13: "r", 34: '"', 92: "\\"}


def canonical_diff(changes: Iterable[FileChange], *, hash_name: str = "sha1") -> str:
    """One git-style unified diff of all changes, "" when nothing changed.

    Bytes that are not UTF-8 are surrogate escapes: `diff.encode("utf-8", "surrogateescape")` is what `git
    apply` takes. Content with a NUL byte becomes a `GIT binary patch`, which names blobs by `hash_name`, the
    repository's object format.
    """
    whole = b"".join(_file(change, hash_name) for change in changes)
    return whole.decode("utf-8", "surrogateescape")


def _file(change: FileChange, hash_name: str) -> bytes:
    before, after = change.before or b"", change.after or b""
    old, new = change.old_path or change.name, change.path or change.name
    moved = old != new
    body = _body(before, after, old if change.old_path else None, new if change.path else None, hash_name)
    head = [b"diff --git " + quoted("a/" + old) + b" " + quoted("b/" + new)]
    if change.is_new:
        head.append(b"new file mode " + (change.mode or "100644").encode())
    elif change.is_deletion:
        head.append(b"deleted file mode " + (change.old_mode or "100644").encode())
    elif change.old_mode != change.mode:
        head += [b"old mode " + (change.old_mode or "").encode(), b"new mode " + (change.mode or "").encode()]
    if moved:
        head.append(b"similarity index %d%%" % _similarity(before, after))
        head += [b"rename from " + quoted(old), b"rename to " + quoted(new)]
    if not body and len(head) == 1:
        return b""
    return b"\n".join(head) + b"\n" + body


def _body(before: bytes, after: bytes, old: str | None, new: str | None, hash_name: str) -> bytes:
    if before == after:
        return b""
    if b"\0" in before or b"\0" in after:
        return _binary(before, after, hash_name)
    names = [
        b"--- " + (_header_name("a/", old) if old is not None else b"/dev/null"),
        b"+++ " + (_header_name("b/", new) if new is not None else b"/dev/null"),
    ]
    return b"\n".join(names) + b"\n" + _hunks(_lines(before), _lines(after))


def _header_name(prefix: str, path: str) -> bytes:
    """A tab ends a name with spaces, as git writes it."""
    name = quoted(prefix + path)
    return name + b"\t" if b" " in name and not name.startswith(b'"') else name


def _lines(data: bytes) -> list[bytes]:
    return io.BytesIO(data).readlines()


def _hunks(old: Sequence[bytes], new: Sequence[bytes]) -> bytes:
    result: list[bytes] = []
    for group in _grouped([_slid(part, old, new) for part in differing(old, new)]):
        i1, j1 = max(0, group[0][0] - _CONTEXT), max(0, group[0][2] - _CONTEXT)
        i2, j2 = min(len(old), group[-1][1] + _CONTEXT), min(len(new), group[-1][3] + _CONTEXT)
        result.append(b"@@ -%s +%s @@%s\n" % (_extent(i1, i2), _extent(j1, j2), _heading(old, i1)))
        at = i1
        for a, b, c, d in group:
            result += [_marked(b" ", line) for line in old[at:a]]
            result += [_marked(b"-", line) for line in old[a:b]]
            result += [_marked(b"+", line) for line in new[c:d]]
            at = b
        result += [_marked(b" ", line) for line in old[at:i2]]
    return b"".join(result)


def _slid(part: Range, old: Sequence[bytes], new: Sequence[bytes]) -> Range:
    """A pure insertion or deletion can often stand a few lines lower just as well; git shows it as low as it
    goes, but starts it at a blank line's end where one is passed."""
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


def _grouped(ranges: Sequence[Range]) -> list[list[Range]]:
    groups: list[list[Range]] = []
    for part in ranges:
        if groups and part[0] - groups[-1][-1][1] <= 2 * _CONTEXT:
            groups[-1].append(part)
        else:
            groups.append([part])
    return groups


def _extent(start: int, end: int) -> bytes:
    count = end - start
    if count == 1:
        return b"%d" % (start + 1)
    return b"%d,%d" % (start + 1 if count else start, count)


def _heading(lines: Sequence[bytes], row: int) -> bytes:
    """The nearest line above that starts with a letter, as git's default shows it."""
    for line in reversed(lines[max(0, row - 2000) : row]):
        if line[:1].isalpha() or line[:1] in {b"_", b"$"}:
            return b" " + line.rstrip()[:80].decode("utf-8", "ignore").encode()
    return b""


def _marked(mark: bytes, line: bytes) -> bytes:
    return mark + line if line.endswith(b"\n") else mark + line + b"\n\\ No newline at end of file\n"


def quoted(path: str) -> bytes:
    """A path as in a git header: in C quotes if a byte of it is not plain ASCII."""
    raw = path.encode("utf-8", "surrogateescape")
    if all(32 <= byte < 127 and byte not in (34, 92) for byte in raw):
        return raw
    return b'"' + "".join(map(_escaped, raw)).encode() + b'"'


def _escaped(byte: int) -> str:
    if byte in _SHORT:
        return "\\" + _SHORT[byte]
    return chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}"


def _similarity(before: bytes, after: bytes) -> int:
    """Percent of the larger side's bytes that stayed, by lines; what git prints may differ by a little."""
    if before == after:
        return 100
    old, new = _lines(before), _lines(after)
    gone = sum(len(line) for i1, i2, _, _ in differing(old, new) for line in old[i1:i2])
    return min(99, 100 * (len(before) - gone) // max(1, len(before), len(after)))


def _binary(before: bytes, after: bytes, hash_name: str) -> bytes:
    index = f"index {_blob(before, hash_name)}..{_blob(after, hash_name)}\n".encode()
    return index + b"GIT binary patch\n" + _literal(after) + b"\n" + _literal(before) + b"\n"


def _blob(data: bytes, hash_name: str) -> str:
    return hashlib.new(hash_name, b"blob %d\0" % len(data) + data).hexdigest()


def _literal(data: bytes) -> bytes:
    packed = zlib.compress(data)
    rows = [b"literal %d\n" % len(data)]
    for at in range(0, len(packed), 52):
        row = packed[at : at + 52]
        length = len(row) + 64 if len(row) <= 26 else len(row) - 26 + 96
        rows.append(bytes([length]) + base64.b85encode(row, pad=True) + b"\n")
    return b"".join(rows)
