"""A report as a comment on a pull request: counts, the findings by file, and suggestions to apply.

Foreign text is escaped so that nothing in it is markup, a mention, a reference or a link. A backslash escapes markup,
but code hosts link @name, #1 and URLs in the rendered page, so a zero width space follows these signs. Code needs
neither.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from html import escape

from repoagent.review.change import Change
from repoagent.review.finding import Finding, Level, Report
from repoagent.review.output.formats import (
    added_lines,
    before_and_after,
    count,
    lines_of,
    plain,
    plain_line,
    region,
    shorten,
    text_lines,
)

_MARKUP = frozenset("\\`*_[]~|$")  # anywhere; the brackets cover links and images
_BLOCK = re.compile(
    r"[#+\-=/]|(?<=\d)[.)]"
)  # at the start of a line: headings, lists, rules, commands of GitLab
_SIGNS = re.compile(r"@|[#!$%~^&*\[](?=\w)|(?<=\w)-(?=\d)|:(?=[/\w+-])|(?<=[wW])\.(?=\w)")
_HTML = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
_BREAK = "&#8203;"  # zero width space


def as_text(text: str) -> str:
    """Plain text, of one or more lines, as Markdown that renders the same, with its line breaks."""
    return "\n".join(_line(line) for line in text.expandtabs(4).split("\n"))


def as_code(text: str, *, table: bool = False) -> str:
    """A text of one line as a code span; in a `table` the bar is escaped. An empty text stays empty."""
    text = text.replace("\n", " ")
    if not text.strip():
        return ""
    marks = "`" * (_longest(text) + 1)
    pad = " " if text[0] in "` " or text[-1] in "` " else ""
    span = f"{marks}{pad}{text}{pad}{marks}"
    return span.replace("|", "\\|") if table else span


def as_html(text: str) -> str:
    """Text within an HTML element of a Markdown document, where blank lines are not allowed."""
    return " ".join(escape(text).split("\n"))


def fenced(text: str, info: str = "", *, empty: bool = False) -> str:
    """A code block with a fence longer than any in the text; `empty` for a block without lines."""
    fence = "`" * max(3, _longest(text) + 1)
    return f"{fence}{info}\n{fence}" if empty else f"{fence}{info}\n{text}\n{fence}"


def _longest(text: str) -> int:
    return max((len(run) for run in re.findall("`+", text)), default=0)


def _line(line: str) -> str:
    stripped = line.lstrip(" ")
    start = len(stripped) - len(stripped.lstrip("0123456789"))
    escaped = "".join(_character(stripped, index, first=index == start) for index in range(len(stripped)))
    return "&nbsp;" * (len(line) - len(stripped)) + escaped


def _character(line: str, index: int, *, first: bool) -> str:
    character = line[index]
    is_markup = character in _MARKUP or (first and _BLOCK.match(line, index))
    escaped = _HTML.get(character) or (f"\\{character}" if is_markup else character)
    return escaped + _BREAK if _SIGNS.match(line, index) else escaped


MARKER = "<!-- repoagent-review -->"  # the first line, by which a program recognizes its own comment
LIMIT = 65_000  # bytes; GitHub takes 65,536 characters
_LEVELS = (Level.ERROR, Level.WARNING, Level.NOTE)
_BODY = 6_000  # characters of a finding's text
_CODE = 12  # lines of quoted code
_COMMITS = 5
_SENTENCES = 6_000  # bytes of notes and unreviewed parts


def render(report: Report, *, change: Change | None = None) -> str:
    """The comment. Its last line counts what does not fit. A suggestion can be applied only if all its lines are
    changed lines; others are shown as a diff."""
    head = "\n".join([MARKER, *_head(report)]) + "\n"
    tail = "\n".join(["", *_tail(report)]) + "\n"
    remaining = LIMIT - len(head.encode()) - len(tail.encode()) - 200
    blocks: list[str] = []
    omitted = 0
    for path, findings in _by_file(report.findings).items():
        opening, closing = _opening(path, findings), "\n</details>\n"
        remaining_in_file = remaining - len((opening + closing).encode())
        parts = []
        for finding in findings:
            part = "\n".join(_finding(report, finding, change)) + "\n"
            if len(part.encode()) > remaining_in_file:
                omitted += 1
                continue
            remaining_in_file -= len(part.encode())
            parts.append(part)
        if parts:
            blocks.append(opening + "".join(parts) + closing)
            remaining = remaining_in_file
    if omitted:
        blocks.append(f"\n{count(omitted, 'more finding')} did not fit into this comment.\n")
    return head + "".join(blocks) + tail


def _head(report: Report) -> Iterator[str]:
    looked_at = count(report.files, "file")
    yield f"### Review of {as_text(shorten(plain_line(report.title), 200)) or 'the change'}"
    yield ""
    if not report.findings:
        no_model = "" if report.model else "; no model asked"
        yield f"Nothing was found in {looked_at} ({count(len(report.rules), 'rule')}{no_model})."
        return
    counts = Counter(finding.level for finding in report.findings)
    counted = ", ".join(f"**{count(counts[level], level.word)}**" for level in _LEVELS if counts[level])
    yield f"{counted} in {looked_at}."
    yield ""
    yield "| level | rule | findings |"
    yield "|---|---|---:|"
    rows = Counter((finding.level, finding.rule) for finding in report.findings)
    for (level, rule), number in sorted(rows.items(), key=lambda row: (-row[0][0], row[0][1]))[:40]:
        yield f"| {level.word} | {as_code(shorten(plain_line(rule), 60), table=True)} | {number:,} |"


def _opening(path: str, findings: Sequence[Finding]) -> str:
    opened = " open" if any(finding.level is Level.ERROR for finding in findings) else ""
    name = as_html(shorten(plain_line(path), 500))
    return f"\n<details{opened}><summary><code>{name}</code>: {count(len(findings), 'finding')}</summary>\n"


def _finding(report: Report, finding: Finding, change: Change | None) -> Iterator[str]:
    lines_of_finding = region(finding)
    lines = (
        ""
        if lines_of_finding is None
        else f"line {lines_of_finding[0]}"
        if lines_of_finding[0] == lines_of_finding[1]
        else f"lines {lines_of_finding[0]}–{lines_of_finding[1]}"
    )
    if finding.location.old and finding.location.start:
        lines = f"removed line {finding.location.start}"
    prefix = f"{lines}, " if lines else ""
    title = as_text(shorten(plain_line(finding.title), 500)) or "(no title)"
    yield ""
    rule, name = as_code(shorten(plain_line(finding.rule), 60)), as_code(finding.id)
    yield f"**{finding.level.word}**: {title} ({prefix}{rule}, {name})"
    if body := plain(finding.body).strip():
        yield ""
        yield as_text(shorten(body, _BODY))
    code = lines_of(report, finding.location) or text_lines(finding.quote)
    suggested = _suggestion(report, finding, change)
    if code and not suggested:
        rest = [f"… {count(len(code) - _CODE, 'more line')}"] if len(code) > _CODE else []
        yield ""
        yield fenced("\n".join([*(plain(shorten(line, 300)) for line in code[:_CODE]), *rest]))
    if suggested:
        yield ""
        yield suggested
    if finding.evidence:
        yield ""
        for commit in finding.evidence[:_COMMITS]:
            subject = as_text(shorten(plain_line(commit.subject), 120))
            yield f"- {as_code(plain_line(commit.commit)[:12])} {subject}"
        if len(finding.evidence) > _COMMITS:
            yield f"- and {count(len(finding.evidence) - _COMMITS, 'more commit')}"


def _suggestion(report: Report, finding: Finding, change: Change | None) -> str:
    """A suggestion block, or else a diff; "" if there is no suggestion or it does not fit the text."""
    suggestion = finding.suggestion
    texts = None if suggestion is None else before_and_after(report, suggestion)
    if suggestion is None or texts is None:
        return ""
    location = suggestion.location
    exact = plain(suggestion.text) == suggestion.text and "\r" not in suggestion.text
    lines = range(location.start, location.end + 1)
    if (
        exact
        and location.path == finding.location.path
        and added_lines(change, location.path).issuperset(lines)
    ):
        return fenced(suggestion.text.removesuffix("\n"), "suggestion", empty=not suggestion.text)
    old = [f"-{plain(line)}" for line in lines_of(report, location)]
    new = [f"+{plain(line)}" for line in text_lines(suggestion.text)]
    prefix = "" if location.path == finding.location.path else f"In {as_code(plain_line(location.path))}:\n\n"
    return prefix + fenced("\n".join(old + new), "diff")


def _by_file(findings: Sequence[Finding]) -> dict[str, list[Finding]]:
    by_file: dict[str, list[Finding]] = {}
    for finding in findings:
        by_file.setdefault(finding.location.path, []).append(finding)
    return by_file


def _tail(report: Report) -> Iterator[str]:
    sentences = [*report.unseen, *report.notes]
    remaining = _SENTENCES
    for index, sentence in enumerate(sentences):
        line = f"- {as_text(shorten(plain_line(sentence), 500))}"
        remaining -= len(line.encode())
        if remaining < 0:
            yield f"- and {len(sentences) - index} more of this kind"
            break
        yield line
    if sentences:
        yield ""
    parts = []
    if report.dismissed:
        parts.append(f"{len(report.dismissed):,} dismissed before")
    if report.dropped:
        parts.append(f"{report.dropped:,} dropped, since they could not be verified")
    if report.model:
        parts.append(f"model {as_code(shorten(plain_line(report.model), 100))}")
    if report.findings:
        parts.append("to dismiss one: <code>repoagent review dismiss ID</code>")
    if parts:
        yield f"<sub>{'; '.join(parts)}</sub>"
