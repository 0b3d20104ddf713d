"""What one `read` shows of a file: lines, a definition, or characters of a line that is too long."""

from __future__ import annotations

from repoagent.dataclass import dataclass
from repoagent.errors import UsageError


@dataclass(frozen=True)
class Read:
    """Lines `first` to `last` (from 1, both included), or `characters` of one line (from 1, both included). `rest` is a
    sentence that says how to go on, where less is shown than was asked for."""

    text: str
    first: int
    last: int
    characters: tuple[int, int] | None = None
    rest: str = ""


def read_part(text: str, lines: str, characters: str, most: int) -> Read:
    """The part that `lines` ("10-40", "" for all) and `characters` ("1-2000", of one line) name, at most `most`
    characters of it: whole lines, or the beginning of a line that is longer.

    Raises UsageError for what is no range or outside the file.
    """
    rows = text.split("\n")
    if len(rows) > 1 and not rows[-1]:
        rows.pop()
    first, last = _range("lines", lines, len(rows), "the file, which has {:,} lines")
    if characters:
        if first != last:
            raise UsageError('characters are those of one line: say which, as lines="1"')
        return _piece(rows[first - 1], first, characters, most)
    size = 0
    for number in range(first, last + 1):
        size += len(rows[number - 1]) + 1
        if size > most + 1:
            if number == first:
                return _piece(rows[first - 1], first, f"1-{most}", most)
            rest = f'Lines {number}-{last} were left out: read them as lines="{number}-{last}".'
            return Read("\n".join(rows[first - 1 : number - 1]), first, number - 1, rest=rest)
    return Read("\n".join(rows[first - 1 : last]), first, last)


def _piece(line: str, number: int, characters: str, most: int) -> Read:
    first, last = _range("characters", characters, len(line), "line {}, which has {:,} characters", number)
    last = min(last, first + most - 1)
    rest = ""
    if last < len(line):
        rest = (
            f"Line {number} has {len(line):,} characters: read on as "
            f'lines="{number}" characters="{last + 1}-{min(len(line), last + most)}".'
        )
    return Read(line[first - 1 : last], number, number, (first, last), rest)


def _range(name: str, text: str, count: int, whole: str, *of: int) -> tuple[int, int]:
    if not text.strip():
        return 1, count
    first, _, last = text.partition("-")
    try:
        start = max(1, int(first))
        end = min(count, int(last)) if last.strip() else start
    except ValueError:
        raise UsageError(f'{name}="{text}" is no range; write {name}="10-40"') from None
    if start > end or start > count:
        raise UsageError(f'{name}="{text}" is outside {whole.format(*of, count)}')
    return start, end
