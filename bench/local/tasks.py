"""The tasks: folders with an instruction, a source tree, a check that the model may see, and a hidden judge.

`May` names the lines that an edit may touch; everything else must stay the same, to the byte.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class May:
    """A part of `file` that may change. Lines are named by how they begin, with or without their indentation.

    Exactly one of these is set: `start`, for the lines from it to the one before `until` ("" is the end of the file);
    `line`, for that line alone; `before`, for new lines above that line.
    """

    file: str
    start: str = ""
    until: str = ""
    line: str = ""
    before: str = ""

    def range(self, lines: Sequence[str]) -> tuple[int, int]:
        """Return the half-open range of `lines` that may be replaced. Raises ValueError if a name is not unique."""
        if self.line:
            first = _only(lines, self.line)
            return first, first + 1
        if self.before:
            first = _only(lines, self.before)
            return first, first
        first = _only(lines, self.start)
        if not self.until:
            return first, len(lines)
        for number in range(first + 1, len(lines)):
            if _begins(lines[number], self.until):
                return first, number
        raise ValueError(f"{self.file}: no line after {self.start!r} begins with {self.until!r}")


def damage(before: str, after: str | None, parts: Sequence[May], keep: Sequence[str] = ()) -> str:
    """Describe the first change outside of `parts` (all of one file) in a few words; "" if there is none.

    The runs of lines between the parts must all be in `after`, in order, the first at its start and the last at its
    end. A line of `keep` (without indentation) must occur at least as often as before.
    """
    if after is None:
        return "the file is gone"
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    runs = frozen(old, parts)
    at = 0
    for number, (first, run) in enumerate(runs):
        start = _find(new, run, at, anchored=number == 0, to_end=number == len(runs) - 1)
        if start is None:
            return f"changed near line {first + _agreeing(new, run, at) + 1}"
        at = start + len(run)
    for line in keep:
        old_count, new_count = (sum(text.strip() == line for text in lines) for lines in (old, new))
        if new_count < old_count:
            return f"lost: {line}"
    return ""


def frozen(lines: Sequence[str], parts: Sequence[May]) -> list[tuple[int, Sequence[str]]]:
    """Return the runs of lines between the parts, each with the index of its first line. The first and the last may be
    empty. Raises ValueError if parts overlap."""
    runs: list[tuple[int, Sequence[str]]] = []
    at = 0
    for first, end in sorted(part.range(lines) for part in parts):
        if first < at:
            raise ValueError(f"two parts overlap at line {first + 1}")
        runs.append((at, lines[at:first]))
        at = end
    return [*runs, (at, lines[at:])]


def stray(before: Mapping[str, bytes], after: Mapping[str, bytes], files: Sequence[str]) -> list[str]:
    """Return the paths that were changed, created or removed, except `files`."""
    return sorted(
        path for path in {*before, *after} if path not in files and before.get(path) != after.get(path)
    )


def _find(lines: Sequence[str], run: Sequence[str], at: int, *, anchored: bool, to_end: bool) -> int | None:
    last = len(lines) - len(run)
    if last < at:
        return None
    if to_end:
        return last if list(lines[last:]) == list(run) and (not anchored or last == at) else None
    for first in [at] if anchored else range(at, last + 1):
        if list(lines[first : first + len(run)]) == list(run):
            return first
    return None


def _agreeing(lines: Sequence[str], run: Sequence[str], at: int) -> int:
    """How many lines of `run` match where it fits best, which tells where the first difference is."""
    best = 0
    for first in range(at, len(lines)):
        count = 0
        while count < len(run) and first + count < len(lines) and lines[first + count] == run[count]:
            count += 1
        best = max(best, count)
    return min(best, max(0, len(run) - 1))


def _only(lines: Sequence[str], start: str) -> int:
    numbers = [number for number, line in enumerate(lines) if _begins(line, start)]
    if len(numbers) != 1:
        raise ValueError(f"{len(numbers)} lines begin with {start!r}")
    return numbers[0]


def _begins(line: str, start: str) -> bool:
    return line.startswith(start) or line.lstrip().startswith(start)


if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FOLDER = Path(__file__).parent / "tasks"
_JUDGES = {"judge.py": sys.executable, "judge.mjs": "node"}


@dataclass(frozen=True)
class Verdict:
    """`outcome` is "solved", "wrong" (rejected by the judge) or "damaged" (something outside the task changed)."""

    outcome: str
    note: str = ""


@dataclass(frozen=True)
class Task:
    folder: Path
    language: str
    instruction: str
    files: tuple[str, ...]
    check: str
    may: tuple[May, ...]
    keep: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.folder.name

    @cached_property
    def source(self) -> dict[str, bytes]:
        return tree(self.folder / "before")

    @property
    def lines(self) -> int:
        return sum(self.source[file].count(b"\n") for file in self.files)

    @property
    def output_tokens(self) -> int:
        """The limit of a reply: the files in full, at three bytes a token, and 400 more."""
        return sum(len(self.source[file]) for file in self.files) // 3 + 400

    def write(self, top: Path, variant: str = "") -> None:
        """Write the source tree to `top` and apply the patch `variant` ("after" or "wrong"), if given."""
        shutil.copytree(self.folder / "before", top, dirs_exist_ok=True)
        if variant:
            patch = ["git", "apply", str(self.folder / f"{variant}.patch")]
            # inside another repository, git would resolve the paths from its top
            outside = {**environment(), "GIT_CEILING_DIRECTORIES": str(top.resolve().parent)}
            subprocess.run(patch, cwd=top, env=outside, check=True)

    def passes_check(self, top: Path) -> bool:
        null = subprocess.DEVNULL
        quiet = {"stdin": null, "stdout": null, "stderr": null}
        done = subprocess.run(self.check, shell=True, cwd=top, env=environment(), check=False, **quiet)
        return done.returncode == 0

    def judge(self, top: Path, after: dict[str, bytes] | None = None) -> Verdict:
        """Judge the edited source tree at `top`; `after` is its content, if it has been read already."""
        after = tree(top) if after is None else after
        if note := self.harm(after):
            return Verdict("damaged", note)
        script, program = next(
            (self.folder / name, by) for name, by in _JUDGES.items() if (self.folder / name).exists()
        )
        try:
            done = subprocess.run(
                [program, str(script)], cwd=top, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                errors="replace", timeout=60, env={**environment(), "PYTHONPATH": str(top)}, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return Verdict("wrong", "the judge timed out")
        if done.returncode:
            return Verdict("wrong", _last_words(done.stderr))
        return Verdict("solved")

    def harm(self, after: dict[str, bytes]) -> str:
        """Describe a change outside the task in a few words; "" if there is none."""
        if others := stray(self.source, after, self.files):
            return f"{others[0]}: not a file of this task"
        for file in self.files:
            parts = [part for part in self.may if part.file == file]
            text = self.source[file].decode()
            keep = [line for line in self.keep if any(line == own.strip() for own in text.splitlines())]
            new = after.get(file)
            if note := damage(text, None if new is None else new.decode(errors="replace"), parts, keep):
                return f"{file}: {note}"
        return ""


def load(folder: Path) -> Task:
    """Read the task in `folder`. Raises KeyError if its `task.toml` lacks a value."""
    data: dict[str, Any] = tomllib.loads((folder / "task.toml").read_text(encoding="utf-8"))
    parts = tuple(
        May(**{{"from": "start"}.get(name, name): value for name, value in may.items()})
        for may in data["may"]
    )
    values = (data["language"], data["instruction"], tuple(data["files"]), data["check"])
    return Task(folder, *values, parts, tuple(data.get("keep", ())))


def all_tasks() -> list[Task]:
    """Return all tasks, the shortest first."""
    return sorted(
        map(load, (path.parent for path in FOLDER.glob("*/task.toml"))),
        key=lambda task: (task.lines, task.name),
    )


def tree(top: Path) -> dict[str, bytes]:
    """Return the content of the files under `top` by path, without those of git, repoagent and `__pycache__`."""
    contents = {}
    for path in sorted(top.rglob("*")):
        name = path.relative_to(top).as_posix()
        if path.is_file() and not name.startswith((".git/", ".repoagent/")) and "__pycache__" not in name:
            contents[name] = path.read_bytes()
    return contents


def environment() -> dict[str, str]:
    """Return the environment of checks and judges: no bytecode is written, and `python3` is this Python."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    return {**os.environ, "PATH": path, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUTF8": "1"}


def _last_words(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if "Error" in line]
    return (errors or lines or ["no output"])[-1][:200]
