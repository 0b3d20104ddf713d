"""Rules shared by several tasks: a model does a common piece of work, using only what it sees."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from tests.tasks.scenarios.sight import Rule, Say, Sight, edit, finish, patch

CHECK = "python3 -S tests/run.py"


def replace_line(path: str, old: str, new: str, subject: str = "Change a line") -> Rule:
    """Read a file, replace a line, and finish when the edit was applied."""

    def rule(see: Sight) -> str:
        if any(one.applied for one in see.done):
            return finish(subject, f"{path} says {new}")
        lines = see.lines(path)
        return edit(patch(path, lines, changed(lines, old, new)))

    return rule


def changed(lines: Sequence[str], old: str, new: str) -> list[str]:
    """Replace `old` by `new` in the lines; give up if `old` is not visible."""
    if not any(old in line for line in lines):
        raise Say(f"<reject>I see no {old}</reject>")
    return [line.replace(old, new) for line in lines]


def fix_rounding(see: Sight) -> str:
    """Make a failing test pass; its output shows which test fails and where the bug is."""
    result = see.ran(CHECK)
    if result.exit == 0:
        if not any(one.applied for one in see.done):
            return "<reject>all tests pass</reject>"
        return finish(
            "Round to a whole number", f"`{CHECK}` says {result.output.strip()!r}, exit {result.exit}"
        )
    failed = re.search(r"FAILED (\S+)::(\w+)", result.output)
    wrong = re.search(r"AssertionError: (\S+)", result.output)
    called = re.search(r"assert (\w+)\(", result.output)
    if not (failed and called and wrong):
        return f"<reject>I can't read this: {result.seen}</reject>"
    test = see.lines(failed[1])
    wanted = next(
        line
        for line in test
        if f"{called[1]}(" in line and "==" in line and "assert" in line and '"3"' in line
    )
    places = [path for path, _, text in see.found(rf"def {called[1]}\(") if "test" not in path]
    lines = see.lines(places[0])
    assert_says = re.search(r'== "(\d+)"', wanted)
    if not assert_says or assert_says[1] == wrong[1]:
        return "<reject>the test wants what it gets</reject>"
    return edit(patch(places[0], lines, changed(lines, "str(value)", "str(round(value))")))


def rename_everywhere(old: str, new: str, check: str | None = None) -> Rule:
    """Rename a word at each search result, reading only the surrounding lines of long files, and search again until
    there are no results. Follows the advice in a refused edit."""

    def rule(see: Sight) -> str:
        places = see.found(rf"\b{old}\b", anew=True)
        changed_before = any(one.applied for one in see.done)
        if not places:
            if not changed_before:
                return f"<reject>there is no {old}</reject>"
            if check and (result := see.ran(check)).exit != 0:
                return f"<reject>{check} fails: {result.output[:200]}</reject>"
            return finish(f"Rename {old} to {new}", f"no line has {old} any more")
        wanted = [(path, line) for path, line, _ in places if line not in see.known(path)]
        if wanted:
            paths = list(dict.fromkeys(path for path, _ in wanted))
            fresh = [path for path in paths if not see.known(path)]
            if fresh:
                return "\n".join(f'<read path="{path}"/>' for path in fresh[:8])
            path, line = wanted[0]
            return f'<read path="{path}" lines="{max(1, line - 20)}-{line + 20}"/>'
        made = []
        for path in dict.fromkeys(path for path, _, _ in places):
            made.append(renamed(path, see.known(path), old, new))
        refused = see.last("edit")
        named = (
            f"This removes `{old}` on purpose."
            if refused and "name it in a sentence before the edit" in (refused.seen or "")
            else ""
        )
        return f"{named}\n{edit(*made)}"

    return rule


def renamed(path: str, lines: Mapping[int, str], old: str, new: str) -> str:
    """A patch of the known lines, with a hunk for each contiguous range."""
    stretches: list[list[str]] = []
    before = -1
    for number in sorted(lines):
        if number != before + 1:
            stretches.append([])
        stretches[-1].append(lines[number])
        before = number
    hunks = [patch(path, rows, [re.sub(rf"\b{old}\b", new, row) for row in rows]) for rows in stretches]
    heads = [hunk.split("\n", 2) for hunk in hunks if hunk.strip()]
    return "\n".join(heads[0][:2]) + "\n" + "".join(rest for _, _, rest in heads)
