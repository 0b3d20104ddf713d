"""The text report of a review: each finding with its code, its commits and its suggestion as a diff."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from repoagent.cli.ui.output_style import Page, plural
from repoagent.cli.ui.table import ago, columns, front
from repoagent.cli.ui.terminal_text import clean, one_line, width
from repoagent.errors import Busy, Refused
from repoagent.review.change import split_lines
from repoagent.review.finding import Finding, Level, Report, save_last
from repoagent.review.output.formats import before_and_after, shown, text_lines
from repoagent.review.rules import RULES

if TYPE_CHECKING:
    from repoagent.cli.ui.terminal import Terminal
    from repoagent.storage.layout import Layout

_READABLE = 100  # columns of running text
_COMMITS = 5
_HEADS = 5  # findings in the short form
_MANY = 5  # findings that make a summary worthwhile
_TOP = 3  # findings repeated at the end
_STYLES = {Level.ERROR: ("bold", "red"), Level.WARNING: ("bold", "yellow"), Level.NOTE: ("bold", "blue")}


def reaches(reports: Iterable[Report], word: str) -> bool:
    """Whether a finding reaches the level that `word` names; none reaches "never"."""
    worst = [level for report in reports if (level := report.worst()) is not None]
    return word != "never" and bool(worst) and max(worst) >= Level[word.upper()]


def save_for_dismissal(dirs: Layout, report: Report) -> None:
    """Save the report for `review dismiss`; ignore a failure to write it."""
    try:
        save_last(dirs, report)
    except (Refused, Busy):
        return


class Brief(NamedTuple):
    """The short form for hooks: only headings for findings of rules `below` a level (None: all); `why` is a hint how to
    see the rest."""

    below: Level | None
    why: str


def show(report: Report, terminal: Terminal, *, top: Path | None = None, brief: Brief | None = None) -> None:
    """Write the report to standard output; write notes, and what was not reviewed, to standard error.

    With `top`, paths are relative to the current folder, so that a terminal can open them.
    """
    page = Page.of(terminal)
    text: Iterable[str] = lines(report, page, brief, top=top)
    if os.environ.get("GITHUB_ACTIONS") == "true":
        text = map(_in_a_log, text)
    page.write(text, terminal)
    for sentence in report.unseen:
        terminal.warn(f"not reviewed: {sentence}")
    for sentence in report.notes:
        terminal.note(sentence, "dim")


def _in_a_log(line: str) -> str:
    """The line, escaped so that GitHub's runner does not read it as a workflow command."""
    line = line.replace("##[", "## [")
    return line.replace("::", ": :", 1) if line.lstrip().startswith("::") else line


def lines(
    report: Report,
    page: Page,
    brief: Brief | None = None,
    *,
    top: Path | None = None,
    now: float | None = None,
) -> Iterator[str]:
    """The lines of the report, the totals last. With many findings, a summary comes first, the findings are sorted by
    file, and the most important ones are repeated at the end."""
    now = time.time() if now is None else now
    findings = report.findings
    by_importance = sorted(findings, key=_importance)
    many = brief is None and len(findings) > _MANY
    small = 0
    if many:
        yield from _summary(report, by_importance, page)
        paths = list(dict.fromkeys(finding.location.path for finding in by_importance))
        findings = sorted(
            findings, key=lambda each: (paths.index(each.location.path), -each.level, each.location.start)
        )
    path = None
    for finding in findings:
        if brief and _is_small(finding, brief):
            small += 1
            if small <= _HEADS:
                yield from _head(finding, page, top)
            continue
        if many and finding.location.path != path:
            path = finding.location.path
            counts = _counts([entry for entry in findings if entry.location.path == path])
            yield page.paint(_path(path, top), "bold", "cyan") + page.paint(f"  {counts}", "dim")
            yield ""
        yield from _head(finding, page, top)
        parts = (_frame(report, finding, page), _body(finding, page), _evidence(finding, page, now))
        for part in (*map(list, parts), _suggested(report, finding, page)):
            yield from ["", *part] if part else []
        yield ""
    if small > _HEADS:
        yield f"and {small - _HEADS:,} more"
    if many:
        yield page.paint(f"the {_TOP} most important:", "bold")
        for finding in by_importance[:_TOP]:
            yield from _head(finding, page, top)
    for hint in (brief.why if brief and small else "", "hide one with: repoagent review dismiss ID"):
        if hint and findings:
            yield page.paint(hint, "dim")
    yield from _wrapped(_total(report), page, *(() if findings else ("green",)))


def _importance(finding: Finding) -> tuple[int, int, float]:
    """Sort key: the level, the position in the table of rules, the confidence."""
    rules = list(RULES)
    rule = rules.index(finding.rule) if finding.rule in RULES else len(rules)
    return -finding.level, rule, -(finding.confidence or 0.0)


def _is_small(finding: Finding, brief: Brief) -> bool:
    """Whether the heading is enough; findings of a model are shown in full."""
    rule = RULES.get(finding.rule)
    below = brief.below is None or finding.level < brief.below
    return rule is not None and rule.source != "model" and below


def _summary(report: Report, findings: Sequence[Finding], page: Page) -> Iterator[str]:
    """The totals, and the number of findings and files of each rule."""
    yield from _wrapped(_total(report), page, "bold")
    by_rule: dict[str, list[Finding]] = {}
    for finding in findings:
        by_rule.setdefault(one_line(f"{finding.level.word} {finding.rule}"), []).append(finding)
    wide = max(map(columns, by_rule))
    for name, some in by_rule.items():
        files = plural(len({finding.location.path for finding in some}), "file")
        padding = " " * (wide - columns(name))
        yield from _wrapped(f"  {name}{padding}  {len(some):>3}  in {files}", page)
    yield ""


def _head(finding: Finding, page: Page, top: Path | None) -> Iterator[str]:
    level, location = finding.level.word, finding.location
    head = f"{level} {one_line(finding.rule)}"
    for number, line in enumerate(_fitted(f"{head}: {one_line(finding.title) or '(no title)'}", page.width)):
        if number or not line.startswith(head):
            yield page.paint(line, "bold")
        else:
            rule = line[len(level) : len(head)] + page.paint(line[len(head) :], "bold")
            yield page.paint(level, *_STYLES[finding.level]) + rule
    name = _path(location.path, top)
    line = f":{location.start}" if location.start else ""
    removed = " (removed)" if location.old and line else ""
    if page.width is not None and columns(name) + 2 > 2 * page.width:
        # a terminal cannot open a shortened path
        name = page.shorten(name, page.width - 2 - len(line) - len(removed))
    yield f"  {page.paint(name + line, 'cyan')}{removed}  {page.paint(f'[{finding.id}]', 'dim')}"


def _path(path: str, top: Path | None) -> str:
    return one_line(path if top is None else os.path.relpath(top / path))


def _body(finding: Finding, page: Page) -> Iterator[str]:
    room = None if page.width is None else min(page.width, _READABLE) - 2
    body = finding.body.strip().replace("\r\n", "\n")
    if room is not None and finding.rule in RULES and RULES[finding.rule].source == "model":
        from repoagent.cli.ui.markdown import Markdown

        markdown = Markdown(lambda: room, color=page.color, utf8=not page.ascii)
        text = markdown.feed(body) + markdown.rest()
        yield from (f"  {line}".rstrip() for line in text.removesuffix("\n").split("\n"))
        return
    for paragraph in body.split("\n") if body else ():
        text = one_line(paragraph.expandtabs(4).rstrip())
        indent = text[: len(text) - len(text.lstrip(" "))][:20]
        for line in _fitted(text.lstrip(" "), None if room is None else room - len(indent)):
            yield f"  {indent}{line}" if line else ""


def _evidence(finding: Finding, page: Page, now: float) -> Iterator[str]:
    for commit in finding.evidence[:_COMMITS]:
        date = time.strftime("%Y-%m-%d", time.gmtime(max(0, min(commit.time, 2**37))))
        short, since = one_line(commit.commit[:10]), ago(max(0.0, now - commit.time))
        line = f"  {short} {date} {one_line(commit.subject) or '(no subject)'}"
        with_age = f"{line}  ({since})"
        if page.width is None or columns(with_age) <= page.width:
            line = with_age
        rest = page.cut(line)[2 + len(short) :]
        yield f"  {page.paint(short, 'yellow')}{page.paint(rest[:11], 'dim')}{rest[11:]}"
    if (more := len(finding.evidence) - _COMMITS) > 0:
        yield f"  and {plural(more, 'more commit')}"


def _total(report: Report) -> str:
    from repoagent.llm.usage import cost_text

    parts = [f"{plural(len(report.rules), 'rule')}, {plural(report.files, 'file')}", "no model asked"]
    if report.model:
        cost = report.cost
        price = "" if cost is None else f", {f'${cost:.2f}' if cost >= 0.01 else cost_text(cost)}"
        parts[1] = f"{one_line(report.model)}, {report.tokens:,} tokens{price}"
    if report.dismissed:
        parts.append(f"{len(report.dismissed):,} dismissed")
    if report.dropped:
        verb = "was" if report.dropped == 1 else "were"
        parts.append(f"{report.dropped:,} could not be verified and {verb} dropped")
    title = one_line(report.title) or "the change"
    return f"{_counts(report.findings) or 'no findings'} in {title} ({'; '.join(parts)})"


def _counts(findings: Sequence[Finding]) -> str:
    """`1 error, 2 warnings`."""
    counts = Counter(finding.level for finding in findings)
    return ", ".join(plural(counts[level], level.word) for level in sorted(counts, reverse=True))


def _wrapped(text: str, page: Page, *styles: str) -> Iterator[str]:
    for line in _fitted(text, page.width):
        yield page.paint(line, *styles)


def _fitted(text: str, room: int | None) -> Iterator[str]:
    """Words in lines of at most `room` columns; longer words are broken."""
    if room is None:
        yield text
        return
    line = ""
    for word in text.split(" "):
        if line and columns(line) + 1 + columns(word) > room:
            yield line
            line = word
        else:
            line = f"{line} {word}" if line else word
        while columns(line) > room:
            start = front(line, room) or line[0]
            yield start
            line = line[len(start) :]
    yield line


_AROUND = 2  # lines before and after those of the finding
_MOST = 12  # lines of the finding itself; of a longer one, the first and last lines
_END = 3
_TAB = 8
_DIFF = 60  # lines of a suggestion


def _frame(report: Report, finding: Finding, page: Page) -> Iterator[str]:
    """The marked lines with context, or removed lines as quoted by the finding; nothing for a whole file."""
    location = finding.location
    first, last = location.start, max(location.start, location.end)
    if first < 1:
        return
    text = report.by_file.get(location.path)
    source = [] if text is None or location.old else split_lines(text)
    if first > len(source):
        quoted = text_lines(finding.quote)
        numbered, last = dict(enumerate(quoted, first)), first + len(quoted) - 1
    else:
        begin, end = max(1, first - _AROUND), min(len(source), last + _AROUND)
        numbered, last = (
            {number: shown(source[number - 1]) for number in range(begin, end + 1)},
            min(last, len(source)),
        )
    mark, style = ("-", ("red",)) if location.old else (">", ("bold", "red"))
    gutter = len(str(max(numbered, default=0)))
    bar = "|" if page.ascii else "│"
    skipped = range(first + _MOST - _END, last - _END + 1) if last - first + 1 > _MOST else range(0)
    for number, line in numbered.items():
        if number in skipped:
            if number == skipped.start:
                yield page.paint(f"{'':{gutter + 3}}{bar} {page.dots} {len(skipped)} more lines", "dim")
            continue
        marked = first <= number <= last
        sign = page.paint(mark, *style) if marked else " "
        faint = () if marked else ("dim",)
        room = None if page.width is None else page.width - gutter - 6
        code = page.cut(_tabless(clean(line).replace("\n", "^J")), room)
        count = page.paint(f"{number:>{gutter}}", *faint)
        yield f" {sign} {count} {page.paint(bar, 'dim')} {page.paint(code, *faint)}".rstrip()


def _tabless(text: str) -> str:
    if "\t" not in text:
        return text
    out, column = [], 0
    for character in text:
        step = _TAB - column % _TAB if character == "\t" else width(character, column)
        out.append(" " * step if character == "\t" else character)
        column += step
    return "".join(out)


def _suggested(report: Report, finding: Finding, page: Page) -> list[str]:
    """The suggestion as a diff without headers; [] if there is none, or if it does not fit the text."""
    suggestion = finding.suggestion
    texts = None if suggestion is None else before_and_after(report, suggestion)
    if suggestion is None or texts is None or texts[0] == texts[1]:
        return []
    from repoagent.cli.ui.diff import render
    from repoagent.git.files import REGULAR, FileChange
    from repoagent.patch.render import canonical_diff

    path = suggestion.location.path
    diff = canonical_diff([FileChange(path, path, texts[0], texts[1], REGULAR, REGULAR)])
    hunks = diff[diff.find("\n@@ ") + 1 :] if "\n@@ " in diff else ""
    if not hunks:  # a binary file
        return []
    spaced = "".join(f"{line[:1]}{_tabless(line[1:])}\n" for line in hunks.removesuffix("\n").split("\n"))
    shown_diff = render(spaced, color=page.color, columns=page.width and page.width - 2)
    lines = shown_diff.removesuffix("\n").split("\n")
    more = [f"  and {len(lines) - _DIFF} more lines"] if len(lines) > _DIFF else []
    elsewhere = f" in {clean(path)}" if path != finding.location.path else ""
    return [f"  suggested{elsewhere}:", *(f"  {line}" for line in lines[:_DIFF]), *more]
