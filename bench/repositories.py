"""The repositories that the benchmarks work in: generated or cloned, never the user's own."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

CACHE = Path(__file__).parent / ".cache"
BASE = "refs/benchmark/base"
NOTE = "Checked by the benchmark."
# How a line comment begins, by file name extension
COMMENTS = {".py": "#", ".rb": "#", ".sh": "#", ".c": "//", ".h": "//", ".cpp": "//", ".cc": "//", ".java": "//",
            ".js": "//", ".ts": "//", ".go": "//", ".rs": "//", ".php": "//", ".cs": "//"}  # fmt: skip
USUAL_BYTES = 12_000  # preferred size of the file to edit
RECENT = 500  # commits, one of which changed the file to edit
FOLDERS, FILES, COMMITS = 400, 32_000, 4_000  # of the generated large repository


@dataclass(frozen=True)
class Edit:
    """An edit that works in any repository: a comment above a line that occurs once in its file."""

    path: str
    context: tuple[str, ...]  # the lines around the comment
    at: int  # index in `context` of the line that the comment goes above
    comment: str

    @property
    def request(self) -> str:
        return (
            f"add the comment '{self.comment}' above the line that begins with '{self.context[self.at][:40]}'"
        )

    @property
    def diff(self) -> str:
        before, after = self.context[: self.at], self.context[self.at :]
        lines = [f" {line}" for line in before] + [f"+{self.comment}"] + [f" {line}" for line in after]
        return "\n".join(["```diff", f"--- a/{self.path}", f"+++ b/{self.path}", "@@", *lines, "```", ""])

    @property
    def search_replace(self) -> str:
        """The edit in the form that aider asks for."""
        before, after = self.context[: self.at], self.context[self.at :]
        changed = (*before, self.comment, *after)
        marks = ("<<<<<<< SEARCH", *self.context, "=======", *changed, ">>>>>>> REPLACE")
        return "\n".join([self.path, "```", *marks, "```", ""])


@dataclass(frozen=True)
class Repository:
    """A work tree that a benchmark may change and then restore to the commit `base`."""

    name: str
    top: Path
    base: str
    edit: Edit

    def restore(self) -> None:
        """Reset the work tree to `base`, delete what repoagent stored, and let git refresh its index."""
        git(self.top, "reset", "--quiet", "--hard", self.base)
        for folder in (self.top / ".repoagent", self.top / ".git" / "repoagent"):
            shutil.rmtree(folder, ignore_errors=True)
        git(self.top, "status", "--porcelain", "--untracked-files=no")

    def write(self) -> None:
        """Write the edit to its file, without a commit."""
        file = self.top / self.edit.path
        line = self.edit.context[self.edit.at]
        data = file.read_bytes().decode()
        file.write_bytes(data.replace(f"\n{line}\n", f"\n{self.edit.comment}\n{line}\n", 1).encode())

    def was_edited(self) -> bool:
        """Return whether HEAD is one commit above `base` that adds one line to the edited file and nothing else."""
        parent = git(self.top, "rev-parse", "HEAD^").strip()
        changed = git(self.top, "diff", "--numstat", "HEAD^", "HEAD").split("\t")
        return parent == self.base and changed == ["1", "0", f"{self.edit.path}\n"]

    def describe(self) -> str:
        files = git(self.top, "ls-files", "-z").count("\0")
        commits = git(self.top, "rev-list", "--count", self.base).strip()
        return f"{self.name} ({files:,} files, {int(commits):,} commits)"


def environment() -> dict[str, str]:
    """Return the environment of measured programs: a home and git configuration of their own, no proxies, no keys."""
    home = CACHE / "home"
    home.mkdir(parents=True, exist_ok=True)
    (home / ".gitconfig").write_text(
        "[user]\n\tname = Bench\n\temail = bench@example.com\n[gc]\n\tauto = 0\n"
    )
    inherited = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
    return {**inherited, "HOME": str(home), "GIT_CONFIG_NOSYSTEM": "1", "NO_PROXY": "127.0.0.1"}


def git(cwd: Path, *args: str, stdin: bytes | None = None, env: Mapping[str, str] | None = None) -> str:
    done = subprocess.run(
        ["git", *args], cwd=cwd, env=env or environment(), input=stdin, capture_output=True, check=True
    )
    return done.stdout.decode(errors="surrogateescape")


def small() -> Repository:
    """Return a generated repository of 8 Python files and 12 commits."""
    return _open("small", _generate("small", _history(folders=2, files=8, commits=12)))


def large() -> Repository:
    """Return a generated repository of 32,000 files and 4,000 commits, always the same."""
    return _open("large, generated", _generate("large", _history(FOLDERS, FILES, COMMITS)))


def cloned(source: Path, file: str | None = None) -> Repository:
    top = CACHE / "repositories" / f"clone-of-{source.resolve().name}"
    head = git(source, "rev-parse", "HEAD").strip()
    if not (top / ".git" / "benchmark").exists() or (top / ".git" / "benchmark").read_text() != head:
        shutil.rmtree(top, ignore_errors=True)
        top.parent.mkdir(parents=True, exist_ok=True)
        git(CACHE, "clone", "--quiet", str(source.resolve()), str(top))
        (top / ".git" / "benchmark").write_text(head)
    return _open(source.resolve().name, top, file)


def _open(name: str, top: Path, file: str | None = None) -> Repository:
    """The repository at `top`, reset to the commit at which the first run found it."""
    if not git(top, "for-each-ref", BASE):
        git(top, "update-ref", BASE, "HEAD")
    git(top, "reset", "--quiet", "--hard", BASE)
    return Repository(name, top, git(top, "rev-parse", BASE).strip(), _edit(top, file or _usual_file(top)))


def _usual_file(top: Path) -> str:
    """A recently changed file in a language of COMMENTS, as near to USUAL_BYTES as possible; the same in each run."""
    changed = set(
        git(top, "log", f"--max-count={RECENT}", "--no-merges", "--format=", "--name-only", "-z").split("\0")
    )
    entries = (
        entry.partition("\t") for entry in git(top, "ls-tree", "-r", "-l", "-z", "HEAD").split("\0") if entry
    )
    candidates = [
        (abs(int(fields.split()[3]) - USUAL_BYTES), path)
        for fields, _, path in entries
        if path in changed and fields.startswith("100644") and Path(path).suffix in COMMENTS
    ]
    for _, path in sorted(candidates):
        if _comment_point(top, path) is not None:
            return path
    raise SystemExit(f"{top} has no file to add a comment to; name one with --file")


def _comment_point(top: Path, path: str) -> tuple[list[str], int] | None:
    """The lines of a file and the index of the line nearest its middle that occurs once and follows an empty one."""
    try:
        lines = (top / path).read_bytes().decode("ascii").split("\n")
    except UnicodeDecodeError:
        return None
    if any("\r" in line for line in lines):
        return None
    numbers = [
        number
        for number, line in enumerate(lines)
        if 3 <= number < len(lines) - 4
        and not lines[number - 1]
        and line[:1].isalpha()
        and lines.count(line) == 1
    ]
    return (lines, min(numbers, key=lambda number: abs(number - len(lines) // 2))) if numbers else None


def _edit(top: Path, path: str) -> Edit:
    point = _comment_point(top, path)
    if point is None or Path(path).suffix not in COMMENTS:
        raise SystemExit(f"{path} has no line to put the comment above; name another file with --file")
    lines, number = point
    return Edit(path, tuple(lines[number - 3 : number + 3]), 3, f"{COMMENTS[Path(path).suffix]} {NOTE}")


def _generate(name: str, history: Iterator[bytes]) -> Path:
    top = CACHE / "repositories" / name
    if not (top / ".git" / "benchmark").exists():
        shutil.rmtree(top, ignore_errors=True)
        top.mkdir(parents=True)
        git(top, "init", "--quiet", "--initial-branch=main")
        git(top, "fast-import", "--quiet", stdin=b"".join(history))
        git(top, "reset", "--quiet", "--hard")
        (top / ".git" / "benchmark").write_text("made")
    return top


def _history(folders: int, files: int, commits: int) -> Iterator[bytes]:
    """A stream for `git fast-import`: a commit of all files, then commits of up to four files of one folder."""
    rng = random.Random(2)
    paths = [f"src/part{number % folders:03}/module{number // folders:02}.py" for number in range(files)]
    versions = [0] * files
    yield _commit(0, "Add everything", [(path, _module(path, 0)) for path in paths])
    for number in range(1, commits):
        # some files change far more often than others
        first = min(int(rng.expovariate(8 / files)), files - 1)
        touched = sorted({(first + rng.randrange(4) * folders) % files for _ in range(rng.randint(1, 5))})
        for index in touched:
            versions[index] += 1
        changed = [(paths[index], _module(paths[index], versions[index])) for index in touched]
        yield _commit(number, f"Change how {Path(paths[first]).stem} counts ({number})", changed)


def _commit(number: int, subject: str, files: list[tuple[str, bytes]]) -> bytes:
    message = subject.encode()
    when = 1_600_000_000 + number * 3600
    head = b"commit refs/heads/main\ncommitter Bench <bench@example.com> %d +0000\ndata %d\n%s\n" % (
        when,
        len(message),
        message,
    )
    body = b"".join(
        b"M 100644 inline %s\ndata %d\n%s\n" % (path.encode(), len(data), data) for path, data in files
    )
    return head + body


def _module(path: str, version: int) -> bytes:
    """A module of twelve functions, one of which depends on `version`."""
    name = Path(path).stem
    functions = [
        f"def {name}_{number}(value):\n"
        f'    """Return the value of step {number} of {path}."""\n'
        f"    step = value + {number + (version if number == version % 12 else 0)}\n"
        f"    return step * {number + 1}\n"
        for number in range(12)
    ]
    return ('"""Generated."""\n\n\n' + "\n\n".join(functions)).encode()
