"""Fences: where they end, what they contain and which file they are for; file names and here-documents.

A name is text that looks like a path, or that is in `known`, the names of existing files."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from repoagent.dataclass import dataclass
from repoagent.patch.errors import PatchError
from repoagent.patch.model import FilePatch
from repoagent.patch.parse.cleanup import margin_of, unwrapped, without_margin
from repoagent.patch.parse.markers import (
    DIFF_LANGUAGES,
    DIRECTIVE,
    INVISIBLE,
    NUMBERS,
    REPLACE,
    SEARCH,
    Fence,
    fence_on,
    starts_diff,
)
from repoagent.patch.parse.unified import parse_diff

_FILE = re.compile(r"[\w@+~\[\](){}$.#-]+(?:/[\w@+~\[\](){}$.#-]+)*")
_PLAIN_NAMES = {
    "Makefile",
    "Dockerfile",
    "LICENSE",
    "Jenkinsfile",
    "Rakefile",
    "Gemfile",
    "Justfile",
    "CODEOWNERS",
}


_MARKED_NAME = re.compile(r"[*_]*(?:`([^`]+)`|\*\*([^*`]+)\*\*)[*_]*\s*:?")
_LEAD = re.compile(
    r"(?:(?:and|then|now|next|also|first|finally|second|third|lastly),? )?"
    r"(?:in|for|to|change[sd]? (?:to|in|for)|updates? (?:to|for|in)|edits? (?:to|for|in)|diff (?:for|of|to)"
    r"|patch (?:for|of|to)|update|edit|modify|fix|change|patch)(?: the)?(?: file)?[ *_]+",
    re.IGNORECASE,
)


def _is_name(word: str) -> bool:
    if _FILE.fullmatch(word) is None or "://" in word:
        return False
    last = word.rsplit("/", 1)[-1]
    return last in _PLAIN_NAMES or re.search(r"\w\.[A-Za-z]\w{0,11}$|^\.[A-Za-z][\w.-]+$", last) is not None


def _is_known(text: str, known: Collection[str], *, marked: bool = False) -> bool:
    """Is it the name of a known file? A single word that could be any other must be marked as a name."""
    return text in known and (marked or "/" in text or "." in text or text.isupper())


def name_on_line(line: str, known: Collection[str] = ()) -> str | None:
    """The file that a line names and does nothing else: `src/a.py`, `### File: src/a.py`, **`src/a.py`**:"""
    if len(line) > 400:
        return None
    whole = line.strip().strip(INVISIBLE)
    text = re.sub(r"^[#>\s]*(?:[-*] +|\d+[.)] +)?", "", whole)
    for name in (whole, text):
        if _is_known(name, known):
            return name
    text = re.sub(
        r"\s*\((?:new|updated|modified|complete|full|whole|entire)[^)]*\)\s*:?$",
        "",
        text,
        flags=re.IGNORECASE,
    )
    if _MARKED_NAME.fullmatch(text) is None:
        text = text.strip("*_ :")
    text = re.sub(r"^(?:file ?name|file ?path|file|path)\**\s*:\**\s*", "", text, flags=re.IGNORECASE)
    marked = _MARKED_NAME.fullmatch(text)
    text = text.strip("*: ").strip("`\"'").strip("*: ")
    if _is_known(text, known, marked=marked is not None):
        return text
    lead = _LEAD.match(text) if marked is not None and marked[2] else None
    if lead is not None:  # **Then change src/a.py:**
        return name_on_line(text[lead.end() :], known)
    if marked is not None and _is_name(text.replace(" ", "_").lstrip("/")):
        return text
    return text if _is_name(text.lstrip("/")) else None


def name_in_info(info: str, known: Collection[str] = ()) -> str | None:
    """The file that a fence's info string names: ```python src/a.py, ```src/a.py, ```python
    title="src/a.py"."""
    for text in (info, *(info.partition(mark)[2] for mark in ": =")):
        name = text.strip("\"'` ")
        if _is_known(name, known, marked=text != info or " " in name):
            return name
    prefixed = re.fullmatch(r"\w[\w+#-]+:(?=[^/ ])(\S*/\S* .*)", info)
    words = (prefixed[1] if prefixed else info).split()  # `java:src/my App.java`
    for number, word in enumerate(words):
        value = re.sub(r"^\{?(?:title|file|filename|path|name)=", "", word).rstrip("}").strip("\"'`")
        language, colon, tail = value.partition(":")
        drive = len(language) == 1 and tail.startswith("/")
        if colon and not drive and re.fullmatch(r"\w[\w+#-]*", language) and _is_name(tail.lstrip("/")):
            return tail
        if _is_name(value.lstrip("/")) and (number or "/" in value or "." in value or value in _PLAIN_NAMES):
            folder = next((at for at in range(number) if "/" in words[at]), number)
            return " ".join([*words[folder:number], value])  # `src/my app.py`
    return None


_COMMENT = re.compile(r"[ \t]*(?:#+|//+|--|/\*+|<!--|;+|%)\s*(.*?)\s*(?:\*/|-->)?\s*$")


def name_in_comment(line: str, known: Collection[str] = ()) -> str | None:
    """The file that a comment, or the first line of a fence, names and nothing else: `# src/a.py`."""
    if len(line) > 400:
        return None
    found = _COMMENT.match(line)
    return name_on_line(found.group(1) if found else line, known)


def name_in_lead(line: str, known: Collection[str] = ()) -> str | None:
    """The file that the words before a diff name: `In src/a.py:`, `Then change **src/a.py**:`."""
    text = line.strip().rstrip("*_")
    if len(text) > 400 or not text.endswith(":"):
        return None
    text = text[:-1].rstrip("*_ ").lstrip("*_# >")
    lead = _LEAD.match(text)
    return name_on_line(text[lead.end() :], known) if lead is not None else None


_WHOLE = "full|complete|entire|whole"
_FRESH = "updated|new|fixed|corrected|revised|modified|final|rewritten|refactored|improved|cleaned-up"
_CLAIM = re.compile(
    r"(?:.*[.!]\s+)?(?:(?:here(?:['\u2019]?s| is| are)|this is|below is|the following is)\s+)?(?:(?:the|your|my|a)\s+)?"
    rf"(?P<what>(?:(?:{_WHOLE}|{_FRESH}),?\s+(?:and\s+)?)+)"
    r"(?:(?:file|contents?|version|source|code|text)\s+(?:(?:of|for)\s+)?(?:the\s+)?(?:file\s+)?)?"
    r"(?:`(?P<ticked>[^`]+)`|\*\*(?P<bold>[^*`]+)\*\*)(?:\s+file)?"
    r"(?P<more>\s+(?:with|including|incorporating)\s[^`]*)?:\**",
    re.IGNORECASE,
)
_IN_PART = re.compile(
    r"\b(?:only|just|parts?|snippets?|excerpts?|sections?|relevant|omitted|left out)\b", re.IGNORECASE
)


def name_claimed_whole(line: str) -> str | None:
    """The file that words present as a whole: `Here's the full updated x.py:`, its name in backticks or bold."""
    text = line.strip()
    found = _CLAIM.fullmatch(text) if len(text) <= 400 and text.rstrip("*").endswith(":") else None
    if found is None or not re.search(rf"\b(?:{_WHOLE})\b", found["what"], re.IGNORECASE):
        return None
    if found["more"] and _IN_PART.search(found["more"]):
        return None
    return (found["ticked"] or found["bold"]).strip().removeprefix("./")


def single_known(name: str, known: Collection[str]) -> str | None:
    """The known file of that name, or the only one whose path ends in it."""
    if name in known:
        return name
    tails = [path for path in known if path.endswith(f"/{name}")]
    return tails[0] if len(tails) == 1 else None


_OPENS = r"<<(?P<dash>-?)[ \t]*(?P<quote>[\\'\"]?)(?P<word>\w{1,40})['\"]?"
_CAT = re.compile(
    r"[ \t]*\$?[ \t]*(?:sudo )?(?:cat[ \t]*>[ \t]*(?P<to>[^\s<>|;&]+)[ \t]*|cat[ \t]*"
    r"|tee[ \t]+(?P<tee>[^\s<>|;&-][^\s<>|;&]*)[ \t]*(?:>[ \t]*/dev/null[ \t]*)?)"
    rf"{_OPENS}[ \t]*(?:>[ \t]*(?P<after>[^\s<>|;&]+))?[ \t]*\r?$"
)
_COMMAND = r"(?P<tool>git[ \t]+apply|patch)(?P<options>(?:[ \t]+-[^\s<>|;&'\"]*)*)"
_PIPED = re.compile(rf"cat[ \t]*{_OPENS}[ \t]*\|[ \t]*{_COMMAND}[ \t]*$")
_FED = re.compile(rf"{_COMMAND}[ \t]*(?:<[ \t]*<\([ \t]*cat[ \t]*)?{_OPENS}[ \t]*$")
_LINE = re.compile(
    r"[ \t]*(?:\$[ \t]+)?(?:cd[ \t]+(?P<folder>[^\s<>|;&]+)[ \t]*(?:&&|;)[ \t]*)?(?P<rest>.*?)\r?$"
)
_CD = re.compile(r"[ \t]*(?:\$[ \t]+)?cd[ \t]+([^\s<>|;&]+)[ \t]*\r?$")
_APPLIED = re.compile(
    rf"{_COMMAND}[ \t]*(?:<[ \t]*|[ \t]-i[ \t]*)?[\"']?(?P<file>[^\s<>|;&\"']+)[\"']?[ \t]*$"
)
# Options with which the diff means what it says. Others reverse it, try it, or look for its files elsewhere.
_PLAIN_OPTIONS = re.compile(
    r"-|-p[01]|-v|-s|-N|-u|-3|-l|--verbose|--quiet|--index|--3way|--recount|--unidiff-zero|--forward|--unified"
    r"|--strip=[01]|--ignore-whitespace|--ignore-space-change|--inaccurate-eof|--whitespace=\w+|--no-backup-if-mismatch"
)
_EXPANDED = re.compile(r"`|\$[\w{(\[*@#?$!-]|\\[$`\\\n]")


@dataclass(frozen=True)
class _Opening:
    """The line before a here-document: what ends it, and whether it is a `diff` or the text of the file `path`."""

    path: str
    diff: bool
    dash: bool
    quoted: bool
    word: str
    folder: str = ""


def is_heredoc(lines: Sequence[str]) -> bool:
    """Whether a shell script writes a file with `cat` or `tee`, or passes a diff to `git apply` or `patch`."""
    return any("<<" in line[:300] and _opening(line) for line in lines)


def _opening(line: str) -> _Opening | None:
    """What a line begins. Paths outside the project are none of ours."""
    if len(line) >= 600:
        return None
    found = _CAT.match(line)
    if found is not None:
        path = (found["to"] or found["tee"] or found["after"] or "").strip("\"'")
        if not path or path[0] in "/~$-" or "$" in path:
            return None
        return _Opening(path, False, bool(found["dash"]), bool(found["quote"]), found["word"])
    whole = _LINE.match(line)
    fed = (_PIPED.match(whole["rest"]) or _FED.match(whole["rest"])) if whole else None
    if whole is None or fed is None or not _is_plain(fed["options"]):
        return None
    folder = whole["folder"] or ""
    return _Opening("", True, bool(fed["dash"]), bool(fed["quote"]), fed["word"], folder)


def _is_plain(options: str) -> bool:
    return all(_PLAIN_OPTIONS.fullmatch(option) for option in options.split())


def parse_heredocs(lines: Sequence[str], known: Collection[str] = ()) -> list[FilePatch]:
    """The files that a script writes, and the patches that it applies. Raises PatchError for text that the shell
    would expand, and for a diff that the script applies with options that change its meaning."""
    patches: list[FilePatch] = []
    folder = ""
    scripts = _documents(lines)
    applied = dict(_applied(scripts[1]))
    for opening, body, ended in scripts[0]:
        if opening is None:
            folder = body[0]
            continue
        what = opening.path or "a diff"
        whole = "".join(f"{line}\n" for line in body)
        if not opening.quoted and _EXPANDED.search(whole):
            raise PatchError(
                "malformed",
                f"the shell would expand parts of the text for {what}. Send the file in a "
                "fence that names it, or a unified diff.",
            )
        if opening.path in applied and not applied[opening.path]:
            raise PatchError(
                "malformed",
                f"the script applies {opening.path} with options that change what the diff means. Send the "
                "diff by itself.",
            )
        if opening.diff or opening.path in applied:
            some = [_in_folder(patch, opening.folder or folder, known) for patch in parse_diff(body)]
            if some and not ended:
                some[-1] = replace(some[-1], cut=True)
            patches += some
        else:
            patches.append(FilePatch(None, opening.path, "whole-file", whole=whole, cut=not ended))
    return patches


def _documents(
    lines: Sequence[str],
) -> tuple[list[tuple[_Opening | None, list[str], bool]], list[str]]:
    """The here-documents of a script with their lines, and whether they end; between them, with None, the folder that
    a `cd` goes to. And the commands: all other lines."""
    found: list[tuple[_Opening | None, list[str], bool]] = []
    commands: list[str] = []
    at = 0
    while at < len(lines):
        opening = _opening(lines[at])
        at += 1
        if opening is None:
            line = lines[at - 1]
            commands.append(line)
            if len(line) < 600 and (gone := _CD.match(line)):
                found.append((None, [gone[1].strip("\"'")], True))
            continue
        first, ended = at, False
        while at < len(lines) and not ended:
            line = lines[at].removesuffix("\r")
            ended = (line.lstrip("\t") if opening.dash else line) == opening.word
            at += 1
        body = [line.removesuffix("\r") for line in lines[first : at - ended]]
        found.append((opening, [line.lstrip("\t") for line in body] if opening.dash else body, ended))
    return found, commands


def _applied(commands: Sequence[str]) -> Iterator[tuple[str, bool]]:
    """The files of which a script says that they are diffs to apply, and whether it says so plainly."""
    for line in commands:
        whole = _LINE.match(line) if len(line) < 600 else None
        found = _APPLIED.match(whole["rest"]) if whole else None
        if found is not None:
            yield found["file"].removeprefix("./"), _is_plain(found["options"])


def _in_folder(patch: FilePatch, folder: str, known: Collection[str]) -> FilePatch:
    """The patch with its names below the folder that the script went to, where such a file is known."""
    base = folder.strip("/").removeprefix("./")
    names = [re.sub(r"^[ab]/", "", name) for name in (patch.old, patch.new) if name]
    if base and names and all(f"{base}/{name}" in known for name in names):
        old, new = (f"{base}/{name}" for name in (names[0], names[-1]))
        return replace(patch, old=f"a/{old}", new=f"b/{new}")
    return patch


DIFF, SEARCH_REPLACE, WHOLE_FILE, CODE = "diff", "search-replace", "whole-file", "code"
ENVELOPE, SHELL = "envelope", "shell"
_DIFF_MARKS = frozenset("<>+-")
_SHELLS = {
    "",
    "sh",
    "bash",
    "zsh",
    "shell",
    "console",
    "terminal",
    "shell-session",
    "shellsession",
    "sh-session",
}
_AHEAD = 400  # lines of a hunk that are looked at below a fence in it
_MARKDOWN = (".md", ".markdown", ".mdx")


@dataclass(frozen=True)
class Fenced:
    """The lines of a fence, the line after it, whether it was closed, and the tolerances needed."""

    lines: list[str]
    after: int
    closed: bool
    tolerances: frozenset[str] = frozenset()


def fenced(lines: Sequence[str], at: int, fence: Fence) -> Fenced:
    """The body of the fence that opens at line `at`.

    A fence closes at the column where it opened (0, or that of a list's text), or left of it; so none in a line
    of a hunk does, nor one that the counts of the hunk it is in claim. Where nothing closes it there, the next
    bare fence does that is indented a little. In a
    whole Markdown file a fence with a language opens one of the file's own, which the next bare fence closes; in
    a SEARCH/REPLACE block none counts.
    """
    name = name_in_info(fence.info) or name_before(lines, at) or ""
    end = _end(lines, at, fence, name)
    closed = end is not None
    if end is None:
        end = _late_end(lines, at, fence)
        closed = end is not None and bool(fence.margin)  # else it may be a line of a hunk that was cut
    body = lines[at + 1 : end if end is not None else len(lines)]
    margin = fence.margin
    if margin:
        common = margin_of(body)
        margin = margin if common.startswith(margin) else common if margin.startswith(common) else ""
    after = len(lines) if end is None else end + 1
    names = frozenset({"indented"} if margin else ())
    return Fenced(without_margin(body, margin), after, closed, names)


def _end(lines: Sequence[str], at: int, fence: Fence, name: str) -> int | None:
    depth = 0
    nests = name.lower().endswith(_MARKDOWN)
    patched = _language(fence.info) in DIFF_LANGUAGES
    counted = patched or any(starts_diff(lines, row) for row in range(at + 1, min(at + 3, len(lines))))
    left: list[int] | None = None  # lines that the hunk's header still promises, old and new
    opened = marker = 0  # the SEARCH line that is open, and the marker that follows it
    for number in range(at + 1, len(lines)):
        line = lines[number]
        if line[:1] in _DIFF_MARKS and _marker(line):
            opened = number if SEARCH.match(line) else 0
        elif patched and line.startswith("+++ "):
            nests = line.rstrip().lower().endswith(_MARKDOWN)
        inner = fence_on(line) if "```" in line or "~~~" in line else None
        if (
            inner is None
            or not inner.mark.startswith(fence.mark)
            or not _at_margin(inner.margin, fence.margin)
        ):
            left = promised(line.removeprefix(fence.margin), left) if counted else None
            continue
        if not inner.info and left == [0, 0]:
            return number
        if left is not None and not inner.info and goes_on(lines, number, left, fence.margin):
            left = promised(line, left)
            continue
        left = promised(line, left)
        if opened:
            marker = marker if marker > number else _next_marker(lines, number)
            if marker < len(lines) and REPLACE.match(lines[marker]):
                continue
        if inner.info:
            depth += nests
        elif depth:
            depth -= 1
        else:
            return number
    return None


def promised(line: str, left: list[int] | None) -> list[int] | None:
    """The old and new lines that a hunk's header still promises after `line`; None without counts."""
    if line.startswith("@@"):
        counts = NUMBERS.match(line)
        return [int(counts.group(2) or 1), int(counts.group(4) or 1)] if counts else None
    if left is None or line.startswith("\\"):
        return left
    return [left[0] - (line[:1] != "+"), left[1] - (line[:1] != "-")]


def goes_on(lines: Sequence[str], at: int, left: list[int], margin: str = "") -> bool:
    """Is the fence on line `at` context of a hunk that has lost its first column? Then a line of the hunk comes
    after it, and the promised lines (`left`) end right before a fence, the next `@@` or the end; right before a fence
    if other context has lost its first column too."""
    changed = filled = text = False
    rest: list[int] | None = list(left)
    for row in range(at, min(at + min(sum(left), _AHEAD), len(lines))):
        line = lines[row].removeprefix(margin)
        text = text or (line.strip() != "" and line[:1] not in " +-\\`~")
        changed = changed or line[:1] in {"+", "-"}
        rest = promised(line, rest)
        filled = filled or (line.strip() != "" and row > at)
        if rest == [0, 0] and filled and not changed:
            below = lines[row + 1].removeprefix(margin) if row + 1 < len(lines) else ""
            changed = below.startswith(("```", "~~~", "@@"))
        if rest == [0, 0] and changed:
            end = next((number for number in range(row + 1, len(lines)) if lines[number].strip()), None)
            after = "" if end is None else lines[end].removeprefix(margin)
            if text:
                return end == row + 1 and after.startswith(("```", "~~~"))
            return not after or after.startswith(("```", "~~~", "@@", "\\")) or starts_diff(lines, end or 0)
        if rest is None or min(rest) < 0:
            return False
    return False


def _next_marker(lines: Sequence[str], at: int) -> int:
    """The next line after `at` that begins or ends a SEARCH/REPLACE block; the number of lines for none."""
    return next((number for number in range(at + 1, len(lines)) if _marker(lines[number])), len(lines))


def _marker(line: str) -> bool:
    return line[:1] in _DIFF_MARKS and (SEARCH.match(line) or REPLACE.match(line)) is not None


def _at_margin(inner: str, margin: str) -> bool:
    return inner == margin or (len(inner) < len(margin) and len(margin.expandtabs(4)) > 1)


def _late_end(lines: Sequence[str], at: int, fence: Fence) -> int | None:
    """The first bare fence that is indented more, where none is at the right column."""
    for number in range(at + 1, len(lines)):
        inner = fence_on(lines[number])
        if inner is None or not inner.mark.startswith(fence.mark):
            continue
        if inner.info:
            if not inner.margin:
                return None
        elif fence.margin or len(inner.margin) > 1:
            return number
    return None


def kind_and_name(
    info: str, body: Sequence[str], lines: Sequence[str], at: int, known: Collection[str] = ()
) -> tuple[str, str | None, Sequence[str], frozenset[str]]:
    """What a fence's body is, which file is named next to it, its lines unwrapped, and what that needed. `known` as in
    `names`. Code has a name where words present it as the whole of a file that is not known."""
    name = name_in_info(info, known) or name_before(lines, at, known)
    language = _language(info)
    if any(line[:1] in "<-" and SEARCH.match(line) for line in body if line):
        return SEARCH_REPLACE, name, body, frozenset()
    first = next((number for number, line in enumerate(body) if line.strip()), None)
    if first is None:
        return (CODE, None, body, frozenset()) if language in DIFF_LANGUAGES else _plain(name, body)
    inner, names = (
        unwrapped(body) if language in DIFF_LANGUAGES or _wrapped(body[first]) else (body, frozenset())
    )
    if _envelope(inner, first):
        return ENVELOPE, name, inner, names
    comment = name_in_comment(inner[first], known)
    second = next((n for n in range(first + 1, len(inner)) if inner[n].strip()), first) if comment else first
    if language in DIFF_LANGUAGES or starts_diff(inner, first) or starts_diff(inner, second):
        return DIFF, name or comment or name_leading(lines, at, known), inner, names
    if language in _SHELLS and is_heredoc(body):
        return SHELL, None, body, frozenset()
    above = next((line for line in lines[max(0, at - 3) : at][::-1] if line.strip()), "")
    if name is None and (claimed := name_claimed_whole(above)):
        path = single_known(claimed, known)
        return WHOLE_FILE if path else CODE, path or claimed, body, frozenset({"header"} if path else ())
    return _plain(name, body)


def _language(info: str) -> str:
    """The first word of a fence's info string, without a name after a colon: ```diff:src/a.py"""
    return info.split(maxsplit=1)[0].partition(":")[0].lower() if info.split() else ""


def _plain(name: str | None, body: Sequence[str]) -> tuple[str, str | None, Sequence[str], frozenset[str]]:
    return (WHOLE_FILE if name else CODE), name, body, frozenset()


def _wrapped(line: str) -> bool:
    """Can the first line of a diff stand here behind a quotation, a number or white space?"""
    return any(mark in line[:80] for mark in ("--- ", "@@", "diff -", "Index: ", "*** "))


def _envelope(lines: Sequence[str], first: int) -> bool:
    for line in lines[first : first + 4]:
        if DIRECTIVE.match(line):
            return True
        if line.strip() and "apply_patch" not in line and not line.startswith(("#!", "cd ", "set ")):
            return False
    return False


def name_before(lines: Sequence[str], at: int, known: Collection[str] = ()) -> str | None:
    """The file named on the line before a block, or in a heading with one short line of prose in between; blank
    lines are skipped."""
    above = [line for line in lines[max(0, at - 4) : at][::-1] if line.strip()]
    near = any(line.strip() for line in lines[max(0, at - 3) : at])
    if not above or not near:
        return None
    name = name_on_line(above[0], known)
    if (
        name is None
        and len(above) > 1
        and above[0].rstrip().endswith(":")
        and above[1].strip(f"{INVISIBLE} \t").startswith("#")
    ):
        return name_on_line(above[1], known)
    return name


def name_leading(lines: Sequence[str], at: int, known: Collection[str] = ()) -> str | None:
    """The file named in the text directly before a diff."""
    for line in lines[max(0, at - 3) : at][::-1]:
        if line.strip():
            return name_in_lead(line, known)
    return None
