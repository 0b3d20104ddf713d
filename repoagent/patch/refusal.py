"""The reasons for a refusal, as data for programs and as sentences for models, and the names of tolerances."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict

from repoagent.dataclass import dataclass
from repoagent.errors import Refused

NOTHING_TO_DO = frozenset({"already-applied", "no-change"})  # reasons: the files already have the change
NOTHING = "The change was refused; nothing was applied."
# The start of the advice for the model in the text of a problem.
_ADVICE = re.compile(
    r"(?<=[.:])\s+(?=(?:Send|Write|Name|Leave|Put|Use|Check|If|To) )|\n(?=The nearest lines |Around line |Send )"
)
_NEAREST = re.compile(r"(?:The nearest lines of the file are|Around line \d+):(?:\n +\d+  .*)+")
MOST_SHOWN, LONGEST_SHOWN = 20, 4000  # problems, and characters of each, in the text of a refusal


@dataclass(frozen=True)
class Problem:
    """A reason why nothing was applied.

    path: the known file, or the name in the answer.
    hunk: the number of the hunk within the file, from 1; 0 for the whole file.
    reason: a fixed code such as "not-found".
    text: the error and what to send instead.
    """

    path: str
    hunk: int
    reason: str
    text: str

    def __str__(self) -> str:
        return f"{self._location}: {self.text}"

    @property
    def brief(self) -> str:
        """The description for the user, without the advice for the model."""
        skip = " (use --no-parse-check to skip this check)" if self.reason == "parses-worse" else ""
        return f"{self._location}: {_ADVICE.split(self.text, maxsplit=1)[0].rstrip(' :')}{skip}"

    @property
    def brief_with_lines(self) -> str:
        """The description for the user, with the nearest lines of the file."""
        found = _NEAREST.search(self.text)
        return f"{self.brief}\n{found[0]}" if found else self.brief

    @property
    def _location(self) -> str:
        return (self.path or "the answer") + (f", hunk {self.hunk}" if self.hunk else "")


class PatchRefused(Refused):
    """A patch does not fit or is not allowed, so nothing was applied. `str(error)` is the text for the model.

    shows_lines: whether `sentence` has the nearest lines: no model corrects the patch, so the user has to.
    """

    shows_lines = False

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        shown = list(map(str, self.problems[:MOST_SHOWN]))
        for number, text in enumerate(shown):
            if len(text) > LONGEST_SHOWN:  # it begins with the error and ends with the advice
                shown[number] = f"{text[: 3 * LONGEST_SHOWN // 4]} … {text[-LONGEST_SHOWN // 4 :]}"
        more = len(self.problems) - len(shown)
        super().__init__(
            "\n\n".join([NOTHING, *shown, *([f"… and {more} more like these."] if more else [])])
        )

    @property
    def sentence(self) -> str:
        """The first MOST_SHOWN problems for the user, without the advice for the model."""
        problems = self.problems[:MOST_SHOWN]
        texts = [problem.brief_with_lines if self.shows_lines else problem.brief for problem in problems]
        return "\n".join([NOTHING, *texts])

    def details(self) -> dict[str, object]:
        return {"problems": [asdict(problem) for problem in self.problems]}

    @property
    def reasons(self) -> frozenset[str]:
        return frozenset(problem.reason for problem in self.problems)


class NoPatch(Refused):
    def __init__(self) -> None:
        super().__init__(
            "The answer contains no change: send a unified diff in a ```diff fence with the file's path in "
            "its header."
        )


class PatchError(Exception):
    """A hunk or patch cannot be applied. This internal error becomes a `Problem` once the file is known."""

    def __init__(self, reason: str, text: str, hunk: int = 0) -> None:
        super().__init__(text)
        self.reason = reason
        self.text = text
        self.hunk = hunk

    def at(self, path: str) -> Problem:
        return Problem(path, self.hunk, self.reason, self.text)


class PatchErrors(Exception):
    """Internal: all problems of one file."""

    def __init__(self, errors: Sequence[PatchError]) -> None:
        super().__init__(*errors)
        self.errors = tuple(errors)


READING = {  # tolerated while an answer is parsed
    "counts": "the line counts in the `@@` header were wrong",
    "numbers": "the `@@` header was missing or had no line numbers",
    "header": "the `---` or `+++` line was missing or malformed",
    "path": "the header did not have the file's exact path",
    "blank-context": "blank context lines had no leading space",
    "bare-context": "context lines had no leading space",
    "quoted": "the `>` before each line was removed",
    "numbered": "line numbers before the text were removed",
    "indented": "the indentation of the whole diff was removed",
    "invisible": "invisible characters before the text were removed",
    "marked-context": "a line deleted and added again unchanged was treated as context",
}
PLACING = {  # tolerated while a hunk is placed: how the lines differ, and which text the file has now
    "trailing-space": "lines matched ignoring trailing white space; the file's own was kept",
    "punctuation": "lines matched ignoring typographic punctuation; the file's own was kept",
    "whitespace": "lines matched ignoring white space; the file's own was kept",
    "html": "HTML escapes such as `&lt;` were decoded",
    "elision": "a line such as `...` was treated as a placeholder for lines of the file, which were kept",
    "split": "the parts of the hunk were placed separately because the file has other lines between them",
    "fuzzy-context": "some context lines did not match; the file's own were kept",
}
TOLERANCES = {**READING, **PLACING}
SPACED = "the space after each `+` was removed"  # "whitespace" in a new file, which has nothing to match
