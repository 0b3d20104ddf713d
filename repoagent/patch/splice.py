"""Splice placed hunks and whole-file answers into a file; every other byte is unchanged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from repoagent.dataclass import dataclass
from repoagent.patch.errors import PatchError
from repoagent.patch.indentation import rebase
from repoagent.patch.locate.exact import Match, is_blank
from repoagent.patch.model import Text, is_elision, split_lines
from repoagent.patch.render import differing


@dataclass(frozen=True)
class Splice:
    """Replace the lines `start:end` of the file by `lines`. `endings` is set if the hunk determines them."""

    start: int
    end: int
    lines: tuple[str, ...]
    hunk: int = 0
    endings: tuple[str, ...] | None = None


def splices(match: Match, text: Text, others: Sequence[Match] = ()) -> list[Splice]:
    """The splices of a placed hunk, in order; `others` are all matches of the file. Raises PatchError
    ("indentation")."""
    match = replace(match, hunk=rebase(match, text.lines, others))
    # Carriage returns in the hunk count if they are on the same lines as in the file.
    explicit = any(line.cr for line in match.hunk.lines) and all(
        row is not None and line.cr == (text.endings[row] == "\r\n")
        for line, row in zip(match.hunk.old, match.rows, strict=True)
    )
    result: list[Splice] = []
    for change in match.changes():
        endings = tuple("\r\n" if line.cr else "\n" for line in change.added) if explicit else None
        added = tuple(line.text for line in change.added)
        result.append(Splice(change.start, change.end, added, match.hunk.number, endings))
    return result


def merged(parts: Iterable[Splice]) -> list[Splice]:
    """All splices of a file in order, without duplicates. Raises PatchError if two change the same lines."""
    result: list[Splice] = []
    for part in sorted(parts, key=lambda part: (part.start, part.end)):
        if result:
            last = result[-1]
            if (last.start, last.end, last.lines) == (part.start, part.end, part.lines):
                continue
            if part.start < last.end or last.start == last.end == part.start == part.end:
                raise overlap(last.hunk, part.hunk, part.start)
        result.append(part)
    return result


def overlap(first: int, second: int, row: int) -> PatchError:
    """The error for two hunks that change the same lines."""
    text = f"hunks {first} and {second} both change the file around line {row + 1}. Send one hunk with both changes."
    return PatchError("overlap", text, second)


def spliced(text: Text, parts: Sequence[Splice], final_newline: bool | None = None) -> Text:
    """`text` with `parts` (from `merged`) applied. `final_newline` None keeps the newline at the end."""
    lines: list[str] = []
    endings: list[str] = []
    at = 0
    for part in parts:
        lines += text.lines[at : part.start]
        endings += text.endings[at : part.start]
        lines += part.lines
        at = part.end
        if part.endings is not None:
            endings += part.endings
            continue
        # The endings of the lines that they replace, the last one repeated, or that of a neighbour.
        replaced = list(text.endings[part.start : part.end])
        if not replaced:
            replaced = [
                *text.endings[part.start - 1 : part.start],
                *text.endings[part.start : part.start + 1],
            ][:1]
        earlier = next((ending for ending in reversed(text.endings[: part.end]) if ending), "\n")
        replaced = [ending or earlier for ending in replaced] or ["\n"]
        endings += [replaced[min(number, len(replaced) - 1)] for number in range(len(part.lines))]
    lines += text.lines[at:]
    endings += text.endings[at:]
    final_newline = text.final_newline if final_newline is None else final_newline
    last = "\n"
    for number, ending in enumerate(endings):  # only the last line may lack its ending
        if ending:
            last = ending
        elif number < len(endings) - 1 or final_newline:
            endings[number] = last
    if endings and not final_newline:
        endings[-1] = ""
    return replace(text, lines=tuple(lines), endings=tuple(endings))


def end_of_file(matches: Iterable[Match], text: Text) -> bool | None:
    r"""Whether the new file ends in a newline, by the `\ No newline` marks; None without such a mark."""
    for match in matches:
        marked = match.hunk.old_marker or match.hunk.new_marker
        if marked and (not text.lines or (match.rows and match.rows[-1] == len(text.lines) - 1)):
            return not match.hunk.new_marker
    return None


def whole_splices(whole: str, text: Text, rows: tuple[int, int] | None = None) -> list[Splice]:
    """The differences between a file (or its `rows`) and the new text; equal lines keep their bytes.

    Raises PatchError for a text that is empty, that looks like a part of the file or like another file, or in which a
    new line such as `...` replaces several old lines.
    """
    new, _ = split_lines(whole.removeprefix("\ufeff"))
    first, last = rows or (0, len(text.lines))
    old = text.lines[first:last]
    if rows is None:
        old_texts = [line.strip() for line in old if not is_blank(line)]
        new_texts = [line.strip() for line in new if not is_blank(line)]
        common = _common_count(old_texts, new_texts)
        tiny = len(old_texts) < 8 and common < len(new_texts)
        if not tiny and (2 * len(new_texts) < len(old_texts) or 10 * common < len(old_texts)):
            raise PatchError(
                "empties-file",
                f"the answer would replace the whole file and keep only {common} of its {len(old_texts)} lines. "
                "To change a part of it, send a unified diff; to rewrite it, send a diff that deletes the old lines.",
            )
    if old and not new:
        raise PatchError(
            "empties-file",
            "the answer contains an empty file. To delete the file, send a diff that deletes it.",
        )
    result = []
    for i1, i2, j1, j2 in differing(old, new):
        removed = old[i1:i2]
        if sum(not is_blank(line) for line in removed) > 1:
            for line in new[j1:j2]:
                if line not in removed and is_elision(line):
                    raise elided(line)
        result.append(Splice(first + i1, first + i2, tuple(new[j1:j2])))
    return result


def _common_count(old: Iterable[str], new: Iterable[str]) -> int:
    return sum((Counter(old) & Counter(new)).values())


def elided(line: str) -> PatchError:
    return PatchError(
        "elided",
        f"the line `{line.strip()}` is a placeholder for omitted code. Write all lines in full, or send a "
        "unified diff of only what changes.",
    )


def looks_whole(whole: str, lines: Sequence[str]) -> bool:
    """Whether a fence without a file name can be the whole file: it has the first, the last, and most other lines."""
    present = [line.strip() for line in lines if not is_blank(line)]
    offered = [line.strip() for line in whole.split("\n") if not is_blank(line)]
    if not present or not offered:
        return False
    common = _common_count(present, offered)
    return present[0] in offered and present[-1] in offered and 10 * common >= 6 * len(present)


def check_claimed_whole(whole: str, text: Text) -> None:
    """Raise PatchError if a text that only the prose calls the whole file keeps too little of it, or lacks its first or
    last lines."""
    new, _ = split_lines(whole.removeprefix("\ufeff"))
    old = text.lines
    common = _common_count(map(str.strip, old), map(str.strip, new))
    cut = [
        (i1, i2)
        for i1, i2, j1, j2 in differing(old, new)
        if (i1 == 0 or i2 == len(old)) and 2 * (j2 - j1) < sum(not is_blank(line) for line in old[i1:i2])
    ]
    if old and (10 * common < 6 * len(old) or cut):
        reason = (
            f"lines {cut[0][0] + 1} to {cut[0][1]} are missing"
            if cut
            else f"it keeps {common} of {len(old)} lines"
        )
        raise PatchError(
            "empties-file",
            f"the text calls this the whole file, but {reason}. If that is intended, write the file's name alone on "
            "the line before the fence, or send a unified diff.",
        )
