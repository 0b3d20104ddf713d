"""A report as a comment on a pull request: counts, and the findings by file with suggestions.

Foreign text outside of code is escaped. A backslash escapes markup; a zero width space follows signs such as @ and #,
because code hosts link @name, #1 and URLs in the rendered page.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from html import escape
from itertools import groupby

from repoagent.display_text import plural, truncate
from repoagent.review import report_formats as formats
from repoagent.review.finding import Finding, Level, Report
from repoagent.review.report_formats import plain, plain_line

MARKER = "<!-- repoagent-review -->"  # the first line, by which a program recognizes its own comment
LIMIT = 65_000  # bytes; GitHub accepts 65,536 characters
BODY = 6_000  # characters of a finding's text
CODE = 12  # lines of quoted code
COMMITS = 5
SENTENCES = 6_000  # bytes of notes and unreviewed parts
_MARKUP = frozenset("\\`*_[]~|$")  # anywhere; the brackets cover links and images
# at the start of a line: headings, lists, rules, commands of GitLab
_BLOCK = re.compile(r"[#+\-=/]|(?<=\d)[.)]")
_SIGNS = re.compile(r"@|[#!$%~^&*\[](?=\w)|(?<=\w)-(?=\d)|:(?=[/\w+-])|(?<=[wW])\.(?=\w)")
_HTML = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
_BREAK = "&#8203;"  # zero width space


def as_text(text: str) -> str:
    """Markdown that renders as this plain text, including its line breaks."""
    lines = []
    for line in text.expandtabs(4).split("\n"):
        stripped = line.lstrip(" ")
        start = len(stripped) - len(stripped.lstrip("0123456789"))
        parts = ["&nbsp;" * (len(line) - len(stripped))]
        for index, character in enumerate(stripped):
            is_markup = character in _MARKUP or (index == start and _BLOCK.match(stripped, index))
            parts.append(_HTML.get(character) or (f"\\{character}" if is_markup else character))
            if _SIGNS.match(stripped, index):
                parts.append(_BREAK)
        lines.append("".join(parts))
    return "\n".join(lines)


def as_code(text: str, *, table: bool = False) -> str:
    """The one-line `text` as a code span; in a `table`, bars are escaped. An empty text stays empty."""
    text = text.replace("\n", " ")
    if not text.strip():
        return ""
    marks = "`" * (_longest(text) + 1)
    pad = " " if text[0] in "` " or text[-1] in "` " else ""
    span = f"{marks}{pad}{text}{pad}{marks}"
    return span.replace("|", "\\|") if table else span


def fenced(text: str, info: str = "") -> str:
    """A code block with a fence longer than any in the text."""
    fence = "`" * max(3, _longest(text) + 1)
    return f"{fence}{info}\n{text}\n{fence}"


def _longest(text: str) -> int:
    return max((len(run) for run in re.findall("`+", text)), default=0)


def render(report: Report) -> str:
    """The report as a Markdown comment, with the number of findings that did not fit."""
    head = "\n".join([MARKER, *_head(report)]) + "\n"
    tail = "\n".join(["", *_tail(report)]) + "\n"
    remaining = LIMIT - len(head.encode()) - len(tail.encode()) - 200
    blocks: list[str] = []
    omitted = 0
    first = {finding.location.path: number for number, finding in reversed([*enumerate(report.findings)])}
    by_file = sorted(report.findings, key=lambda finding: first[finding.location.path])
    for path, group in groupby(by_file, key=lambda finding: finding.location.path):
        findings = list(group)
        state = " open" if any(finding.level is Level.ERROR for finding in findings) else ""
        name = escape(truncate(plain_line(path), 500)).replace("\n", " ")
        summary = f"<code>{name}</code>: {plural(len(findings), 'finding')}"
        opening, closing = f"\n<details{state}><summary>{summary}</summary>\n", "\n</details>\n"
        remaining_in_file = remaining - len((opening + closing).encode())
        parts = []
        for finding in findings:
            part = "\n".join(_finding(report, finding)) + "\n"
            if len(part.encode()) > remaining_in_file:
                omitted += 1
                continue
            remaining_in_file -= len(part.encode())
            parts.append(part)
        if parts:
            blocks.append(opening + "".join(parts) + closing)
            remaining = remaining_in_file
    if omitted:
        blocks.append(f"\n{plural(omitted, 'more finding')} did not fit into this comment.\n")
    return head + "".join(blocks) + tail


def _head(report: Report) -> Iterator[str]:
    files = plural(report.files, "file")
    yield f"### Review of {as_text(truncate(plain_line(report.title), 200)) or 'the change'}"
    yield ""
    if not report.findings:
        no_model = "" if report.model else "; no model asked"
        yield f"No findings in {files} ({plural(len(report.rules), 'rule')}{no_model})."
        return
    counts = Counter(finding.level for finding in report.findings)
    counted = [f"**{plural(counts[level], level.word)}**" for level in sorted(counts, reverse=True)]
    yield f"{', '.join(counted)} in {files}."
    yield ""
    yield "| level | rule | findings |"
    yield "|---|---|---:|"
    rows = Counter((finding.level, finding.rule) for finding in report.findings)
    for (level, rule), number in sorted(rows.items(), key=lambda row: (-row[0][0], row[0][1]))[:40]:
        yield f"| {level.word} | {as_code(truncate(plain_line(rule), 60), table=True)} | {number:,} |"


def _finding(report: Report, finding: Finding) -> Iterator[str]:
    lines = ""
    if region := formats.region(finding):
        start, end = region
        lines = f"line {start}, " if start == end else f"lines {start}–{end}, "
    elif finding.location.old and finding.location.start:
        lines = f"removed line {finding.location.start}, "
    title = as_text(truncate(plain_line(finding.title), 500)) or "(no title)"
    yield ""
    rule, name = as_code(truncate(plain_line(finding.rule), 60)), as_code(finding.id)
    yield f"**{finding.level.word}**: {title} ({lines}{rule}, {name})"
    if body := plain(finding.body).strip():
        yield ""
        yield as_text(truncate(body, BODY))
    code = formats.lines_of(report, finding.location) or formats.text_lines(finding.quote)
    suggestion = finding.suggestion
    if suggestion is not None and formats.before_and_after(report, suggestion) is not None:
        path = suggestion.location.path
        old = [f"-{plain(line)}" for line in formats.lines_of(report, suggestion.location)]
        new = [f"+{plain(line)}" for line in formats.text_lines(suggestion.text)]
        yield "" if path == finding.location.path else f"\nIn {as_code(plain_line(path))}:\n"
        yield fenced("\n".join(old + new), "diff")
    elif code:
        rest = [f"… {plural(len(code) - CODE, 'more line')}"] if len(code) > CODE else []
        yield ""
        yield fenced("\n".join([*(plain(truncate(line, 300)) for line in code[:CODE]), *rest]))
    if finding.evidence:
        yield ""
        for commit in finding.evidence[:COMMITS]:
            subject = as_text(truncate(plain_line(commit.subject), 120))
            yield f"- {as_code(plain_line(commit.commit)[:12])} {subject}"
        if len(finding.evidence) > COMMITS:
            yield f"- and {plural(len(finding.evidence) - COMMITS, 'more commit')}"


def _tail(report: Report) -> Iterator[str]:
    sentences = [*map("not checked: {}".format, report.unseen), *report.notes]
    remaining = SENTENCES
    for index, sentence in enumerate(sentences):
        line = f"- {as_text(truncate(plain_line(sentence), 500))}"
        remaining -= len(line.encode())
        if remaining < 0:
            yield f"- and {plural(len(sentences) - index, 'more note')}"
            break
        yield line
    if sentences:
        yield ""
    parts = []
    if report.dismissed:
        parts.append(f"{len(report.dismissed):,} dismissed before")
    if report.dropped:
        parts.append(f"{report.dropped:,} dropped as unverifiable")
    if report.model:
        parts.append(f"model {as_code(truncate(plain_line(report.model), 100))}")
    if report.findings:
        parts.append("to dismiss a finding: <code>repoagent review dismiss ID</code>")
    if parts:
        yield f"<sub>{'; '.join(parts)}</sub>"
