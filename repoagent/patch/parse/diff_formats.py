"""Parse the formats of patches: unified diffs, envelopes and SEARCH/REPLACE blocks.

Counts and line numbers are recorded, but never used alone to find the end of a hunk.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import product

from repoagent.patch.model import ADD, CONTEXT, DELETE, FilePatch, Hunk, HunkLine, unchanged_as_context
from repoagent.patch.parse import markers
from repoagent.patch.paths import NO_FILE, is_no_file, name_in_comment, plain_name, unquote_name
from repoagent.patch.refusal import PatchError
from repoagent.patch.render import diff_ranges

_QUOTED = r'"(?:[^"\\]|\\.)*"'
_TWO_NAMES = re.compile(rf"({_QUOTED}|\S+) +({_QUOTED}|\S+)[ \t\r]*$")
_MODE = re.compile(r"(new file mode|deleted file mode|new mode|old mode) (\d{6})\s*$")
_MOVE = re.compile(r"(rename|copy) (from|to) (.+)$")
_MAIL_HEAD = re.compile(r"(?:From|Date|Subject|Author|AuthorDate|Commit|Merge|X-[\w-]+|Message-I[dD]): ")
_MOST_HEADINGS = 16
_OLD_NUMBER = re.compile(r"@@+[ \t]*-(\d{1,9})(?:,\d{1,9})?[ \t]*@@+(.*)$")
_LINE_NUMBER = re.compile(
    r"@@+[ \t]*(?:lines?[ \t]+)?(\d{1,9})(?:[ \t]*[-,][ \t]*\d{1,9})?[ \t]*@@+(.*)$", re.I
)
_DOTS = re.compile(r"[ \t]*[\[(]?(?:\.{3,}|…)[\])]?[ \t]*\r?$")
_NAME = re.compile(r"(?:[ab]/|[^ ]*/)?[^ /]+\.\w{1,12}$")
_EMPTY = FilePatch(None, None)
_COMBINED = "combined diffs (from merges) are not supported. Send a plain diff against the current file."


def _sent_with_crlf(lines: Sequence[str]) -> bool:
    """Whether the whole answer has CRLF endings, by its first header."""
    headers = (line for line in lines if line.startswith(("@@", "--- ", "+++ ", "diff --git ", "*** ")))
    return next(headers, "").endswith("\r")


def parse_diff(lines: Sequence[str]) -> list[FilePatch]:
    """Return the patches in the lines of one block. Raises PatchError for a combined diff."""
    if _sent_with_crlf(lines):
        lines = [line.removesuffix("\r") for line in lines]
    patches: list[FilePatch] = []
    at = 0
    while at < len(lines):
        patch, at = _parse_file(lines, at)
        if patch is not None:
            patches.append(patch)
    return patches


def _parse_file(lines: Sequence[str], at: int) -> tuple[FilePatch | None, int]:
    """The file section at line `at` (None if there is only prose), and the line after it."""
    at = _after_mail_head(lines, at)
    patch, first = _EMPTY, at
    hunks: list[Hunk] = []
    sides: set[str] = set()  # "old" if there was a `---` line, "new" for `+++`
    similar = unread = False
    while at < len(lines):
        line = lines[at]
        if markers.is_signature(lines, at):
            at += 2
            break
        if markers.COMBINED.match(line):
            raise PatchError("combined", _COMBINED)
        is_command = markers.COMMAND.match(line) is not None
        if is_command:
            if hunks or (at > first and (patch.old, patch.new) != (None, None)):
                break
            patch, at = _with_command_names(patch, line), at + 1
        elif markers.is_file_header(lines, at):
            below = [plain_name(row[4:]) for row in lines[at : at + 2] if not is_no_file(row[4:])]
            if hunks or (below and patch.name and not _is_same_file(patch, below)):
                break
            sides = {"old", "new"} if line.startswith("-") else {"new"}
            patch, at = _with_header_names(patch, line[4:], lines[at + 1][4:]), at + 2
        elif markers.is_lone_header(lines, at) or markers.HALF_HEADER.match(line):
            if hunks:
                break
            name = plain_name(line[4:])
            patch = replace(patch, old=name) if line.startswith("-") else replace(patch, new=name)
            at += 1
        elif markers.is_mail(line):
            if hunks or patch != _EMPTY:
                break
            at = max(at + 1, _after_mail_head(lines, at))
        elif line.startswith("@@") or line[:1] in {" ", "+", "-"}:
            hunk, at = _read_hunk(lines, at, len(hunks) + 1)
            if hunk.lines:
                hunks.append(hunk)
        else:
            if sides and not hunks and not unread and markers.number_before(line):
                hunk, after = _read_hunk(lines, at, 1)  # without an `@@` line, with a number before each line
                if hunk.changes:
                    hunks, at = [hunk], after
                    continue
            unread = unread or (bool(sides) and line.strip() != "")
            similar = similar or line.startswith("similarity index ")
            patch, at = _with_extended_header(patch, line), at + 1
    if not hunks and patch == _EMPTY:
        return None, at
    if similar and patch.action == "edit" and patch.old and patch.new:
        is_rename = patch.old.removeprefix("a/") != patch.new.removeprefix("b/")
        patch = replace(patch, action="rename") if is_rename else patch
    if hunks:
        missing = frozenset({"header"} if len(sides) < 2 else ())
        return replace(patch, hunks=tuple(hunks), tolerances=patch.tolerances | missing), at
    # A file without hunks or other changes, or with unreadable lines below its names, is truncated.
    if patch.action in {"rename", "copy"}:
        cut = unread and not patch.binary
    elif patch.action == "edit":
        cut = patch.mode is None and not patch.binary
    else:
        cut = patch.action == "create" and bool(sides)
    return replace(patch, cut=cut), at


def _after_mail_head(lines: Sequence[str], at: int) -> int:
    """The first line of the diff in a mail or commit that begins at line `at`, else `at`."""
    number = at
    while number < len(lines) and not lines[number].strip():
        number += 1
    if number == len(lines) or not (markers.is_mail(lines[number]) or _MAIL_HEAD.match(lines[number])):
        return at
    for later in range(number + 1, len(lines)):
        if (
            markers.COMMAND.match(lines[later])
            or markers.is_file_header(lines, later)
            or lines[later].startswith("@@")
        ):
            return later
    return len(lines)


def _is_same_file(patch: FilePatch, names: Sequence[str]) -> bool:
    """Whether the names can belong to the file of the lines above: equal but for the first folder, or a tail."""
    for left, right in product(filter(None, (patch.old, patch.new)), names):
        left, right = left.strip('"').replace("\\", "/"), right.strip('"').replace("\\", "/")
        same = {left, left.partition("/")[2]} & {right, right.partition("/")[2]} - {""}
        if same or f"/{left}".endswith(f"/{right}") or f"/{right}".endswith(f"/{left}"):
            return True
    return False


def _with_command_names(patch: FilePatch, line: str) -> FilePatch:
    """The names of a `diff --git a/x b/x`, `diff -u x y` or `Index: x` line."""
    line = line.rstrip("\r")
    if len(line) > markers.LONGEST:
        return patch
    rest = line[len("diff ") :]
    while rest.startswith("-"):
        rest = rest.partition(" ")[2].lstrip()
    for names in (rest, rest.rstrip()):  # trailing spaces may belong to the name or not
        half = (len(names) - 5) // 2
        if (
            names[:2] == "a/"
            and names[half + 2 : half + 5] == " b/"
            and names[2 : half + 2] == names[half + 5 :]
        ):
            return replace(patch, old=names[: half + 2], new=names[half + 3 :])
    match = _TWO_NAMES.match(rest)
    return (
        replace(patch, old=unquote_name(match.group(1)), new=unquote_name(match.group(2))) if match else patch
    )


def _with_header_names(patch: FilePatch, old: str, new: str) -> FilePatch:
    if patch.action in {"rename", "copy"}:
        return patch
    # A diff of a file `dev/null` names it on both sides, with a prefix; /dev/null has none.
    both = is_no_file(old) and is_no_file(new)
    old_name, new_name = plain_name(old), plain_name(new)
    if is_no_file(old) and not (both and old_name != NO_FILE):
        return replace(patch, old=new_name, new=new_name, action="create")
    if is_no_file(new) and not (both and new_name != NO_FILE):
        return replace(patch, old=old_name, new=old_name, action="delete")
    return replace(patch, old=old_name, new=new_name)


def _with_extended_header(patch: FilePatch, line: str) -> FilePatch:
    """With one of git's extended header lines; others are ignored."""
    if mode := _MODE.match(line):
        if mode[1] == "new file mode":
            return replace(patch, action="create", mode=mode[2])
        if mode[1] == "deleted file mode":
            return replace(patch, action="delete")
        return replace(patch, mode=mode[2]) if mode[1] == "new mode" else patch
    if move := _MOVE.match(line):
        patch, name = replace(patch, action=move[1]), unquote_name(move[3])
        return replace(patch, old=name) if move[2] == "from" else replace(patch, new=name)
    if line.startswith(("Binary files ", "GIT binary patch")):
        return replace(patch, binary=True)
    return patch


def _read_hunk(lines: Sequence[str], at: int, number: int, *, envelope: bool = False) -> tuple[Hunk, int]:
    """The hunk at line `at`, and the line after it. It may lack its `@@` line, or have several headings. In an
    `envelope` numbers are no part of the format, and directives end it. Raises PatchError for a combined diff."""
    hunk = Hunk((), number, tolerances=frozenset() if envelope else frozenset({"numbers"}))
    headings: list[str] = []
    # Of several adjacent `@@` lines use the last one with numbers, or the last few headings.
    end = at
    while end < len(lines) and lines[end].startswith("@@"):
        end += 1
    at = max(at, end - _MOST_HEADINGS)
    first = at = max([at, *(row for row in range(at, end) if markers.NUMBERS.match(lines[row]))])
    while at < len(lines) and lines[at].startswith("@@"):
        if markers.COMBINED.match(lines[at]):
            raise PatchError("combined", _COMBINED)
        hunk, at = _with_header(hunk, lines[at]), at + 1
        headings.append(hunk.section)
    hunk = replace(hunk, headings=tuple(heading for heading in headings if heading))
    raw: list[str] = []
    marks: list[int] = []  # lines followed by a `\ No newline` mark
    left = list(hunk.counts or ())  # lines that the header still expects, old and new
    while at < len(lines):
        line = lines[at]
        if (
            line.startswith("@@")
            or _ends_hunk(lines, at, left)
            or (envelope and markers.DIRECTIVE.match(line))
        ):
            break
        if line.startswith("\\"):
            marks.append(len(raw) - 1)
        else:
            raw.append(line)
            if left:
                left = [left[0] - (line[:1] != ADD), left[1] - (line[:1] != DELETE)]
        at += 1
    at = max(at, first + 1)
    if not raw:
        return hunk, at
    if not any(line.startswith((ADD, DELETE)) for line in raw):
        without = markers.without_numbers(raw, hunk.counts, hunk.start)
        if without is not None:
            raw, hunk = without, replace(hunk, tolerances=hunk.tolerances | {"numbered"})
    if hunk.counts == (0, 0):
        hunk = replace(hunk, counts=None, tolerances=hunk.tolerances | {"counts"})
    return _with_lines(hunk, raw, marks), at


def _with_header(hunk: Hunk, line: str) -> Hunk:
    if full := markers.NUMBERS.match(line):
        start, old, _, new, section = full.groups()
        counts = (int(old or 1), int(new or 1))
        tolerances = hunk.tolerances - {"numbers"}
        section = section.strip(" .\t\r")
        return replace(hunk, start=int(start), counts=counts, section=section, tolerances=tolerances)
    if partial := _OLD_NUMBER.match(line) or _LINE_NUMBER.match(line):
        return replace(hunk, start=int(partial[1]), section=partial[2].strip(" .\t\r"))
    return replace(hunk, section=line.strip("@ .…\r\t"))


def _ends_hunk(lines: Sequence[str], at: int, left: Sequence[int]) -> bool:
    """Whether another file or mail begins at line `at`, or the diff ends. `--- x` / `+++ y` may also delete `-- x` and
    add `++ y`."""
    line = lines[at]
    if line[:1] in {" ", "+", "-"} and line[:2] not in {"++", "--"}:
        return False
    if not line.startswith(("--- ", "+++ ")):
        if line.startswith("--"):
            return markers.is_signature(lines, at)
        return markers.COMMAND.match(line) is not None or markers.is_mail(line)
    old = plain_name(line[4:])
    if not markers.is_file_header(lines, at):
        lone, half = markers.is_lone_header(lines, at), markers.is_half_header(line)
        if left:
            last = list(left) == ([1, 0] if line[0] == DELETE else [0, 1])  # the hunk's last line
            return lone and (max(left) <= 0 or (half and not last))
        return half or (lone and _NAME.match(old) is not None)
    new = plain_name(lines[at + 1][4:])
    below = at + 2
    below += below < len(lines) and not lines[below].strip()
    followed = below < len(lines) and lines[below].startswith("@@")
    followed = followed or (at + 2 >= len(lines) and _NAME.match(old) is not None)
    same = is_no_file(old) or is_no_file(new) or old.split("/")[-1] == new.split("/")[-1]
    if left:
        return (followed and same) or min(left) < 1
    return same or (followed and bool(_NAME.match(old) and _NAME.match(new)))


def _with_lines(hunk: Hunk, raw: Sequence[str], marks: Sequence[int]) -> Hunk:
    body: list[HunkLine] = []
    for line in raw:
        text, cr = line.removesuffix("\r"), line.endswith("\r")
        kind = text[:1] if text[:1] in {CONTEXT, DELETE, ADD} and text else ""
        text = text[len(kind) :]
        body.append(HunkLine(kind or CONTEXT, text, bare=not kind, cr=cr))
    old_marker = new_marker = False
    for row in marks:
        kind = body[row].kind if 0 <= row < len(body) else CONTEXT
        old_marker, new_marker = old_marker or kind != ADD, new_marker or kind != DELETE
    # Blank lines, prose and dots before the next hunk do not belong to this one, unless the header counts them.
    old = sum(line.kind != ADD for line in body)
    while body and body[-1].bare and (hunk.counts is None or old > hunk.counts[0]):
        text = body[-1].text
        if hunk.counts is None and (not _DOTS.match(text) if text else body[-2:-1] and not body[-2].bare):
            break
        body.pop()
        old -= 1
    tolerances = set(hunk.tolerances)
    lines = unchanged_as_context(body)
    if lines != tuple(body) and not old_marker and not new_marker:
        tolerances.add("marked-context")
    if any(line.bare and not line.text.strip() for line in body):
        tolerances.add("blank-context")
    if any(line.bare and line.text.strip() for line in body):
        tolerances.add("bare-context")
    result = replace(hunk, lines=lines, old_marker=old_marker, new_marker=new_marker)
    if result.counts is not None and not result.exact_counts:
        tolerances.add("counts")
    return replace(result, tolerances=frozenset(tolerances))


_ACTIONS = {"Add File": "create", "Update File": "edit", "Delete File": "delete"}


def parse_envelope(lines: Sequence[str], *, closed: bool) -> list[FilePatch]:
    """Return the patches in an envelope, the format of `apply_patch` tools.

    `closed`: whether its fence is closed or more text follows. Raises PatchError for changes before the first file.
    """
    if _sent_with_crlf(lines):
        lines = [line.removesuffix("\r") for line in lines]
    patches: list[FilePatch] = []
    hunks: list[list[Hunk]] = []  # of each patch
    begun = ended = False
    at = 0
    while at < len(lines):
        line = lines[at]
        keyword, name = markers.directive(line)
        if keyword == "Begin Patch":
            begun, ended = True, False
        elif keyword == "End Patch":
            ended = True
        elif keyword in _ACTIONS:
            patches.append(FilePatch(name, name, "envelope", _ACTIONS[keyword]))
            hunks.append([])
        elif keyword == "Move to" and patches:
            patches[-1] = replace(patches[-1], new=name, action="rename")
        elif keyword == "End of File":
            if hunks and hunks[-1]:
                hunks[-1][-1] = replace(hunks[-1][-1], at_end=True)
        elif (
            patches and not ended and (line.startswith(("@@", " ", "+", "-")) or (line.strip() and hunks[-1]))
        ):
            hunk, at = _read_hunk(lines, at, len(hunks[-1]) + 1, envelope=True)
            hunks[-1] += [hunk] if hunk.lines else []
            continue
        elif line.startswith(("+", "-", "@@")) and begun and not ended:
            raise PatchError(
                "malformed",
                "the patch has changes before its first `*** Update File:` line. Name the file that they change.",
            )
        at += 1
    cut = begun and not ended and not closed
    return [
        replace(patch, hunks=tuple(own), cut=cut and patch is patches[-1])
        for patch, own in zip(patches, hunks, strict=True)
    ]


_CONFLICT = re.compile(r"<{7} (?!SEARCH|ORIGINAL)\S|<{7}$")
_CONFLICT_END = re.compile(r">{7} (?!REPLACE|UPDATED)\S|>{7}$")
_SEARCH_LINE = re.compile(r":(?:start|end)_line:[ \t]*\d{1,9}[ \t]*$")
_MOST_DIVIDERS = 40


def parse_search_replace(lines: Sequence[str], name: str | None, known: Collection[str]) -> list[FilePatch]:
    """Return the SEARCH/REPLACE blocks in order, with adjacent ones for the same file as one patch.

    A block without a name is for the file of the previous block, or `name` for the first. Raises PatchError for markers
    that are out of order or missing.
    """
    sections: list[tuple[str | None, list[Hunk]]] = []
    body: list[str] | None = None
    opening = before = ""
    for line in (line.removesuffix("\r") for line in lines):
        if markers.SEARCH.match(line):
            if body is not None:
                raise _broken(name)
            body, opening, name = [], line, name_in_comment(before, known) or name
        elif markers.REPLACE.match(line):
            if body is None:
                raise _broken(name)
            if not sections or sections[-1][0] != name:
                sections.append((name, []))
            hunks = sections[-1][1]
            hunks.append(replace(_search_replace_hunk(body, opening, name), number=len(hunks) + 1))
            body = None
        elif body is not None:
            body.append(line)
        before = line if line.strip() else before
    if body is not None:
        raise PatchError(
            "cut-off",
            f"the SEARCH/REPLACE block for {name or 'a file'} has no end marker. Send it again in full.",
        )
    return [FilePatch(None, name, "search-replace", hunks=tuple(hunks)) for name, hunks in sections]


def _broken(name: str | None) -> PatchError:
    return PatchError(
        "malformed",
        f"the markers of a SEARCH/REPLACE block for {name or 'a file'} are out of order, "
        "or its text contains such a marker. Send that change as a unified diff instead.",
    )


def _search_replace_hunk(body: Sequence[str], opening: str, name: str | None) -> Hunk:
    """The text between the markers as a hunk, with all its readings."""
    at = 0
    while at < min(2, len(body)) and _SEARCH_LINE.match(body[at]):
        at += 1
    if at and at < len(body) and re.fullmatch(r"-{5,9}\s*", body[at]):
        at += 1
    body = body[at:]
    # Ignore dividers inside a conflict in the text; prefer dividers that are as long as the opening marker.
    dividers: list[int] = []
    depth = 0
    last = max((row for row, line in enumerate(body) if _CONFLICT_END.match(line)), default=-1)
    for row, line in enumerate(body):
        if row < last and _CONFLICT.match(line):
            depth += 1
        elif _CONFLICT_END.match(line) and depth:
            depth -= 1
        elif not depth and markers.DIVIDER.match(line):
            dividers.append(row)
    length = len(opening) - len(opening.lstrip(opening[0]))
    dividers = [row for row in dividers if len(body[row].rstrip()) == length] or dividers
    if not dividers or len(dividers) > _MOST_DIVIDERS:
        raise _broken(name)
    # A repeated divider is more likely a mistake than intended.
    hunks: list[Hunk] = []
    for row in dividers[len(dividers) // 2 :]:
        search, replacement = body[:row], body[row + 1 :]
        lines: list[HunkLine] = []
        at = 0
        # Equal lines are context: they keep their bytes.
        for i1, i2, j1, j2 in diff_ranges(search, replacement):
            lines += [HunkLine(CONTEXT, text) for text in search[at:i1]]
            lines += [HunkLine(DELETE, text) for text in search[i1:i2]]
            lines += [HunkLine(ADD, text) for text in replacement[j1:j2]]
            at = i2
        lines += [HunkLine(CONTEXT, text) for text in search[at:]]
        hunks.append(Hunk(tuple(lines)))
    return replace(hunks[0], alternatives=tuple(hunks)) if len(dividers) > 1 else hunks[0]
