"""Text as a manual page: the man(7) macros that groff and mandoc both read. Pure functions on text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

WIDEST = 76  # characters of a line that stays as it is, indented by 4: a page is read at 80 columns
_SPAN = re.compile(r"`([^`\n]+)`")
_ENTRY = re.compile(r"^ {2}(\S.*?) {2,}(\S.*)$")
_HEADING = re.compile(r"^([A-Z][A-Za-z ]*):$")


def escaped(text: str) -> str:
    """`text` as roff prints it: no character of it means anything, and a dash is the one that a shell takes."""
    for plain, roff in (
        ("\\", "\\e"),
        ("-", "\\-"),
        ("'", "\\(aq"),
        ("`", "\\(ga"),
        ("^", "\\(ha"),
        ("~", "\\(ti"),
    ):
        text = text.replace(plain, roff)
    return f"\\&{text}" if text.startswith((".", "'")) else text


def words(text: str) -> str:
    """A sentence: what stands in `backticks` is bold."""
    parts = _SPAN.split(text)
    return "".join(bold(part) if place % 2 else escaped(part) for place, part in enumerate(parts))


def bold(text: str) -> str:
    return f"\\fB{escaped(text)}\\fR"


def page(parts: Iterable[str]) -> str:
    """The whole page; the paragraph that a heading begins anyway is not begun twice."""
    text = "\n".join(parts)
    return re.sub(r"^(\.S[HS] .*\n)\.PP\n", r"\1", text, flags=re.MULTILINE) + "\n"


def title(name: str, version: str, date: str) -> str:
    head = f'.TH "{escaped(name.upper())}" 1 "{date}" "repoagent {version}" "repoagent manual"'
    return f"{head}\n.nh\n.ad l"  # no word is broken, for it may be a path or a command


def section(name: str) -> str:
    return f'.SH "{name.upper()}"'


def subsection(name: str) -> str:
    return f'.SS "{escaped(name)}"'


def paragraph(text: str) -> str:
    return f".PP\n{words(' '.join(text.split()))}"


def entry(term: str, text: str) -> str:
    """A term, printed as it is given in roff, and what it means below it."""
    return f".TP\n{term}\n{words(' '.join(text.split())) or chr(92) + '&'}"


def verbatim(lines: Iterable[str]) -> str:
    """Lines that stay as they are; what is too long for a page goes on below, or its remark does."""
    shown = (escaped(part) for line in lines for part in _fitted(line.rstrip()))
    return "\n".join([".PP", ".in 4n", ".nf", *shown, ".fi", ".in"])


def minor(name: str) -> str:
    """The heading of a part within a subsection."""
    return f".PP\n{bold(name)}"


def prose(text: str, heading_of: Callable[[str], str] = section) -> Iterator[str]:
    r"""Help as click has it: paragraphs, and after `\b` lines that stay; the first may be a heading ("Examples:")."""
    for block in re.split(r"\n\s*\n", text.strip("\n")) if text.strip() else ():
        lines = [line.rstrip() for line in block.splitlines()]
        if "\b" not in lines:
            yield paragraph(" ".join(lines))
            continue
        kept = [line for line in lines if line != "\b"]
        heading = _HEADING.match(kept[0]) if kept else None
        if heading:
            yield heading_of(heading[1])
            kept = kept[1:]
        yield from _table(kept)


def _table(lines: list[str]) -> Iterator[str]:
    """Lines of two columns become terms with what they mean; examples, and what has no columns, stay."""
    if any(line.startswith(("  repoagent", "  git ", "  $")) for line in lines):
        yield verbatim(line.removeprefix("  ") for line in lines)
        return
    if not lines or not _ENTRY.match(lines[0]):
        yield (
            paragraph(" ".join(lines)) if not any(line.startswith(" ") for line in lines) else verbatim(lines)
        )
        return
    terms: list[tuple[str, list[str]]] = []
    for line in lines:
        if found := _ENTRY.match(line):
            terms.append((found[1], [found[2]]))
        else:
            terms[-1][1].append(line.strip())
    yield from (entry(bold(term), " ".join(text)) for term, text in terms)


def _fitted(line: str) -> list[str]:
    if len(line) <= WIDEST:
        return [line]
    command, gap, remark = line.rpartition("   ")
    if gap and command.strip():
        return [command.rstrip(), f"    {remark.strip()}"]
    cut = max(
        (found.start() for found in re.finditer(r" (--|\| |> )", line) if found.start() < WIDEST - 2),
        default=0,
    )
    return [f"{line[:cut]} \\", *_fitted(f"    {line[cut + 1 :]}")] if cut else [line]
