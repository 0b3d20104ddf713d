"""Splice placed hunks and whole-file answers into a file; every other byte stays the same.

`rebase` finds out how a hunk is indented differently from the file, and indents the added lines accordingly.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import groupby, pairwise

from repoagent.dataclass import dataclass
from repoagent.patch.locate.exact import EXACT, Match, indent_of, is_blank, without_spaces
from repoagent.patch.model import ADD, CONTEXT, DELETE, FileText, Hunk, HunkLine, is_elision, split_lines
from repoagent.patch.refusal import PatchError
from repoagent.patch.render import diff_ranges


@dataclass(frozen=True)
class Splice:
    """Replaces the lines `start:end` of the file with `lines`. `endings` is set if the hunk determines the line
    endings."""

    start: int
    end: int
    lines: tuple[str, ...]
    hunk: int = 0
    endings: tuple[str, ...] | None = None


def splices(match: Match, text: FileText, others: Sequence[Match]) -> list[Splice]:
    """Return the splices of a placed hunk, in order. `others` are all matches in the file, including this one.

    Raises what `rebase` and `Match.changes` raise.
    """
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
    text = f"hunks {first} and {second} both change the file around line {row + 1}. Send one hunk with both changes."
    return PatchError("overlap", text, second)


def spliced(text: FileText, parts: Sequence[Splice], final_newline: bool | None) -> FileText:
    """Return `text` with `parts` (from `merged`) applied.

    If `final_newline` is None, the newline at the end, or the lack of one, is kept.
    """
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
        last = endings[number] = ending or last
    if endings and not final_newline:
        endings[-1] = ""
    return replace(text, lines=tuple(lines), endings=tuple(endings))


def end_of_file(matches: Iterable[Match], text: FileText) -> bool | None:
    r"""Return whether the `\ No newline` marks say that the new file ends in a newline; None if there are none."""
    for match in matches:
        marked = match.hunk.old_marker or match.hunk.new_marker
        if marked and (not text.lines or (match.rows and match.rows[-1] == len(text.lines) - 1)):
            return not match.hunk.new_marker
    return None


def whole_splices(whole: str, text: FileText, rows: tuple[int, int] | None) -> list[Splice]:
    """Return the differences between a file, or its `rows`, and the new text.

    Raises PatchError if the text is empty, looks like a part of the file or like another file, or has a new line such
    as `...` in place of several old lines.
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
    for i1, i2, j1, j2 in diff_ranges(old, new):
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
        "unified diff of the changed lines only.",
    )


def looks_whole(whole: str, lines: Sequence[str]) -> bool:
    """Whether a fence without a name can be the whole file: it has the first, the last and most other lines of the
    file."""
    present = [line.strip() for line in lines if not is_blank(line)]
    offered = [line.strip() for line in whole.split("\n") if not is_blank(line)]
    if not present or not offered:
        return False
    common = _common_count(present, offered)
    return present[0] in offered and present[-1] in offered and 10 * common >= 6 * len(present)


def check_claimed_whole(whole: str, text: FileText) -> None:
    """Raise PatchError if a text that the prose calls the whole file keeps too little of the file, or lacks its first
    or last lines."""
    new, _ = split_lines(whole.removeprefix("\ufeff"))
    old = text.lines
    common = _common_count(map(str.strip, old), map(str.strip, new))
    cut = [
        (i1, i2)
        for i1, i2, j1, j2 in diff_ranges(old, new)
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


Pair = tuple[str, str]  # the indentation of a line in the hunk (h), and in the file (f)
Table = dict[str, str]  # the new indentation for each indentation of added lines
Shift = Callable[[str], "str | None"]
_UNITS = (2, 3, 4, 8)


@dataclass(frozen=True)
class _File:
    """The indentation of each line, the usual step in spaces, and the pairs of all hunks."""

    known: frozenset[str]
    unit: int
    pairs: frozenset[Pair]

    def in_step(self, indent: str) -> bool:
        """Whether a line of this file could have this indentation."""
        if indent in self.known:
            return True
        if "\t" in indent:
            return any(known.startswith("\t") for known in self.known)
        return len(indent) % self.unit == 0


@lru_cache(maxsize=4)
def _indents(lines: tuple[str, ...]) -> tuple[frozenset[str], int]:
    """The indentations of a file's lines, and its most frequent step in spaces."""
    indents = [indent_of(line) for line in lines if not is_blank(line)]
    steps = Counter(len(below) - len(above) for above, below in pairwise(indents) if len(below) > len(above))
    return frozenset(indents), max(steps, key=lambda step: (steps[step], step), default=1)


def _quoted(match: Match, lines: Sequence[str]) -> Iterator[tuple[HunkLine, Pair]]:
    """The old lines that equal theirs in the file except for white space, with both indentations."""
    for line, row in zip(match.hunk.old, match.rows, strict=True):
        if (
            row is not None
            and not is_blank(line.text)
            and without_spaces(line.text) == without_spaces(lines[row])
        ):
            yield line, (indent_of(line.text), indent_of(lines[row]))


def rebase(match: Match, lines: Sequence[str], others: Sequence[Match]) -> Hunk:
    """Return the match's hunk with the file's indentation in its added lines.

    The lines that the hunk quotes show how the indentation differs: by a prefix, by the number of spaces for each
    level, or by spaces instead of tabs. Raises PatchError ("indentation") if they contradict each other or are
    ambiguous. `others` are all matches in the file.
    """
    hunk = match.hunk
    quoted = list(_quoted(match, lines))
    new = {indent_of(line.text) for line in hunk.added if not is_blank(line.text)}
    deleted = {pair for line, pair in quoted if line.kind == DELETE}
    rewritten = {pair for line, pair in quoted if line.rewritten}
    added = new | {h for h, _ in rewritten}
    if not added or (match.level == EXACT and hunk.exact_counts):
        return hunk
    context = {pair for line, pair in quoted if line.kind == CONTEXT and not line.rewritten}
    deleted |= rewritten
    every = context | deleted
    if all(h == f for h, f in every) and (any(h for h, _ in every) or not any(added)):
        return hunk
    elsewhere = {pair for other in others for line, pair in _quoted(other, lines)}
    file = _File(*_indents(tuple(lines)), frozenset(elsewhere))
    if not any(h or f for h, f in every) and any(added):
        used = {indent[0] for indent in file.known if indent}
        if not used or {indent[0] for indent in added if indent} <= used:
            return hunk  # the file uses the same characters for indentation, or none
        if all(h == f for h, f in elsewhere):
            raise _unclear(hunk)
        every |= elsewhere
    if all(h == f for h, f in every):
        return hunk  # rewritten context counts as deleted
    # Some lines of context are one space short, and all others have the file's indentation. If these are all at column
    # 0, the hunk must contain a line without its first column.
    rest = {pair for pair in context if not _is_one_space_short({pair})} | deleted
    bare = any(line.bare and not is_blank(line.text) for line in hunk.lines)
    if rest and all(h == f for h, f in rest) and (bare or any(h for h, _ in rest)):
        return hunk
    table = _table(every, added, file)
    if table is None and any(f and not h for h, f in deleted):
        table = _table_for_flush_lines(match, lines, every, added, file)
    elif table is None and any(h and f for h, f in deleted):
        in_place = any(h for h, _ in context) and all(h == f for h, f in context)
        if in_place and added <= {f for _, f in deleted} - {h for h, _ in deleted}:
            return hunk  # context and additions have the file's indentation, only deleted lines do not
        table = _table(deleted, added, file)
    if not deleted and _is_one_space_short(every - {("", "")}):
        table = _with_or_without_space(table, every, match, lines, file)
    if table is None or any(table[h] != f for h, f in rewritten):
        raise _unclear(hunk)
    result = []
    for line in hunk.lines:
        if (
            line.kind == ADD and line.text
        ):  # a blank line moves only if lines with text have the same indentation
            indent = line.text if is_blank(line.text) else indent_of(line.text)
            line = replace(line, text=table.get(indent, indent) + line.text[len(indent) :])
        result.append(line)
    return replace(hunk, lines=tuple(result))


def _unclear(hunk: Hunk) -> PatchError:
    return PatchError(
        "indentation",
        "the hunk is indented differently from the file, and the indentation of its added lines is ambiguous. Send it "
        "again with the whitespace of each line exactly as it is in the file.",
        hunk.number,
    )


def _is_one_space_short(pairs: set[Pair]) -> bool:
    """Whether all lines may have lost their first column and not indentation."""
    return all(f == f" {h}" for h, f in pairs)


def _with_or_without_space(
    table: Table | None, pairs: set[Pair], match: Match, lines: Sequence[str], file: _File
) -> Table | None:
    """For a hunk whose quoted lines are one space short: no change, or `table` (None: one more space). The option with
    which each added line has a known depth and the first word of a quoted line, or any line, of that depth."""
    added = [line.text for line in match.hunk.added if not is_blank(line.text)]
    same = {indent_of(text): indent_of(text) for text in added}
    shifted = table or {indent: f" {indent}" if indent or ("", " ") in pairs else "" for indent in same}
    choices = [option for option in (shifted, same) if all(new in file.known for new in option.values())]
    for some_lines in ([lines[row] for row in match.rows if row is not None], lines):
        begins = {(indent_of(line), *line.split(maxsplit=1)[:1]) for line in some_lines}
        fitting = [
            option
            for option in choices
            if all((option[indent_of(text)], text.split(maxsplit=1)[0]) in begins for text in added)
        ]
        if len(fitting) == 1:
            return fitting[0]
    return choices[0] if len(choices) == 1 or (choices and choices[0] == same) else None


def _scaled(old: str, new: str, offset: int) -> Shift:
    """Replaces each step `old` of the hunk by a step `new` of the file."""

    def shift(indent: str) -> str | None:
        depth, rest = divmod(len(indent), len(old))
        return None if indent.strip(old[0]) or rest or depth + offset < 0 else new * (depth + offset)

    return shift


def _table(pairs: set[Pair], added: set[str], file: _File) -> Table | None:
    """The new indentation of each added line, by the simplest shift that explains every pair; None without one, or if
    two equally simple ones differ. Prefers one that explains the other hunks and fits the steps of the file."""
    shown = dict(pairs)
    if len(shown) == len(pairs) and added <= shown.keys():
        some_stay = any(h and h == f for h, f in pairs) and any(h != f for h, f in pairs)
        if not some_stay and len(set(shown.values())) == len(shown):
            return {indent: shown[indent] for indent in added}
    options: list[tuple[int, Table]] = []
    h, f = max(pairs)
    more, less = f.removesuffix(h), h.removesuffix(f)
    spaces = [" " * unit for unit in _UNITS]
    steps = [(old, "\t") for old in spaces] + [("\t", new) for new in spaces]
    steps += [(old, new) for old in spaces for new in spaces if old != new]
    kinds: list[
        list[Shift]
    ] = [  # simplest first: none, a constant prefix, another step, another step and depth
        [str],
        [lambda indent: more + indent] if f.endswith(h) else [],
        [lambda indent: indent.removeprefix(less) if indent.startswith(less) else None]
        if h.endswith(f)
        else [],
        [_scaled(old, new, 0) for old, new in steps],
        [_scaled(old, new, len(f) // len(new) - len(h) // len(old)) for old, new in steps],
    ]
    for rank, shifts in enumerate(kinds):
        for shift in shifts:
            table = {indent: new for indent in added if (new := shift(indent)) is not None}
            if len(table) == len(added) and all(shift(h) == f for h, f in pairs):
                contradicts_others = any(shift(h) != f for h, f in file.pairs)
                if file.known <= {""}:
                    out_of_step = any(table.values())
                else:
                    moved = [(old, new) for old, new in table.items() if new != old and file.in_step(old)]
                    out_of_step = any(not file.in_step(new) for _, new in moved)
                options.append(((2 * out_of_step + contradicts_others) * 10 + rank, table))
    best = min((score for score, _ in options), default=0)
    tables = [table for score, table in options if score == best]
    if not tables or best >= 20 or any(table != tables[0] for table in tables):
        return None
    return tables[0]


def _table_for_flush_lines(
    match: Match, lines: Sequence[str], pairs: set[Pair], added: set[str], file: _File
) -> Table | None:
    """The table for deleted lines without indentation: that of the other lines. None if all lines added next to one
    that the file indents are flush, too: they may belong at its depth or at column 0."""
    rest = {(h, f) for h, f in pairs if h or not f}
    if not rest:
        return None
    rows = iter(match.rows)
    unclear: set[bool] = set()  # for each run with flush additions
    for is_context, run in groupby(match.hunk.lines, key=lambda line: line.kind == CONTEXT):
        indented = False
        run_added: set[str] = set()
        for line in run:
            row = next(rows) if line.kind != ADD else None
            if is_context or is_blank(line.text):
                continue
            if line.kind == ADD:
                run_added.add(indent_of(line.text))
            elif row is not None and not indent_of(line.text):
                indented = indented or indent_of(lines[row]) != ""
        if "" in run_added:
            unclear.add(indented and run_added == {""})
    if unclear == {False} or "" not in added:
        return _table(rest | {("", "")} if "" in added else rest, added, file)
    return None
