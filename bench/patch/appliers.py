"""The appliers under comparison (repoagent, `git apply` in two ways, GNU patch) and the verdict on their results.

The diff that repoagent shows for an applied answer is checked too: unidiff and `git apply` must accept it.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from bench.patch.model import Case, Content
from repoagent.git import files as git_files
from repoagent.patch.apply_answer import apply_answer
from repoagent.patch.refusal import NoPatch, PatchRefused

BASELINES: dict[str, tuple[str, ...]] = {
    "git apply": ("git", "apply"),
    "git apply, lenient": ("git", "apply", "--recount", "--unidiff-zero", "-C1", "--ignore-whitespace"),
    "patch --fuzz=3": ("patch", "--fuzz=3", "--batch", "--forward", "--no-backup-if-mismatch"),
}
OURS = "repoagent"
RIGHT, WRONG, REFUSED, APPLIED, ERROR = "right", "wrong", "refused", "applied", "error"
CRASHES = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)
SECONDS = 20
_FENCE = re.compile(r"^(`{3,}|~{3,})[^\n`]*\n(.*?)^\1[ \t]*$", re.M | re.S)


@dataclass(frozen=True)
class Result:
    """`files` are all files afterwards (None: refused); `text` is the reason, or where each hunk went."""

    files: dict[str, Content] | None
    text: str = ""
    ms: float = 0.0
    diff: str = ""
    error: bool = False


def verdict(case: Case, result: Result) -> str:
    """Judge a result. Applying what must be refused is APPLIED, unless no file changed. For other answers, RIGHT needs
    the expected bytes and mode of every file, and no other file."""
    if result.error:
        return ERROR
    if result.files is None:
        return RIGHT if case.expected is None else REFUSED
    if case.expected is None:
        return REFUSED if result.files == case.files else APPLIED
    return RIGHT if result.files == expected_files(case) else WRONG


def expected_files(case: Case) -> dict[str, Content]:
    """All files as they should be afterwards."""
    files: dict[str, Content | None] = {**case.files, **case.expected}
    return {path: content for path, content in files.items() if content is not None}


def available() -> dict[str, tuple[str, ...]]:
    return {name: command for name, command in BASELINES.items() if shutil.which(command[0])}


def ours(case: Case) -> Result:
    """Apply the answer with repoagent, on bytes in memory."""
    sources = {path: git_files.Content(data, mode) for path, (data, mode) in case.files.items()}
    creates = case.creates
    start = time.process_time()  # CPU time: the machine may be busy
    failed: Exception | None = None
    try:
        applied = apply_answer(
            case.answer, sources, scope=case.scope, may_create=lambda path: creates is None or path in creates
        )
    except (PatchRefused, NoPatch, *CRASHES) as error:
        failed = error
    ms = 1000 * (time.process_time() - start)
    if isinstance(failed, PatchRefused | NoPatch):
        return Result(None, str(failed), ms)
    if failed is not None:
        return Result(None, f"{type(failed).__name__}: {failed}", ms, error=True)
    files = dict(case.files)
    for change in applied.changes:
        if change.old_path and change.old_path != change.path:
            files.pop(change.old_path, None)
    for change in applied.changes:
        if change.path:
            files[change.path] = (change.after, change.mode or "")
    return Result(files, "\n".join(map(str, applied.placements)), ms, applied.diff)


def diff_of(answer: str) -> str:
    """What a person would pass from an answer to `git apply`: the fences that hold a diff, or all of it."""
    bodies = [match[2] for match in _FENCE.finditer(answer)]
    diffs = [body for body in bodies if re.search(r"^(@@|--- |\+\+\+ |diff --git )", body, re.M)]
    return "".join(diffs) if diffs else answer


def baseline(case: Case, command: tuple[str, ...]) -> Result:
    """Apply the answer with another program, in a temporary folder with the case's files."""
    text = diff_of(case.answer)
    with tempfile.TemporaryDirectory() as folder:
        top = Path(folder, "inner", "work")
        top.mkdir(parents=True)
        for path, (data, mode) in case.files.items():
            write(top, path, data, mode)
        if command[0] == "patch":
            names = re.findall(r"^(?:---|\+\+\+) (\S+)", text, re.M)
            plain = [name for name in names if name != "/dev/null"]
            prefixed = all(re.match(r"[a-z]+/", name) and name not in case.files for name in plain)
            command = (*command, "-p1" if prefixed else "-p0")
        env = {**os.environ, "GIT_CEILING_DIRECTORIES": folder, "LC_ALL": "C", "GIT_CONFIG_NOSYSTEM": "1"}
        env.pop("GIT_DIR", None)
        start = time.perf_counter()
        try:
            data = text.encode(errors="surrogateescape")
            process = subprocess.run(
                command, cwd=top, env=env, input=data, capture_output=True, check=False, timeout=SECONDS
            )
        except subprocess.TimeoutExpired:
            return Result(None, "took too long")
        ms = 1000 * (time.perf_counter() - start)
        if process.returncode:
            return Result(None, (process.stderr + process.stdout).decode(errors="replace"), ms)
        return Result(_tree(top), "", ms)


def write(top: Path, path: str, data: bytes, mode: str) -> None:
    file = top / path
    file.parent.mkdir(parents=True, exist_ok=True)
    if mode == "120000":
        file.symlink_to(os.fsdecode(data))
        return
    file.write_bytes(data)
    file.chmod(0o755 if mode == "100755" else 0o644)


def _tree(top: Path) -> dict[str, Content]:
    files: dict[str, Content] = {}
    for folder, _, names in os.walk(top):
        for name in names:
            file = Path(folder, name)
            status = file.lstat()
            key = file.relative_to(top).as_posix()
            if stat.S_ISLNK(status.st_mode):
                files[key] = (os.fsencode(file.readlink()), "120000")
            else:
                files[key] = (file.read_bytes(), "100755" if status.st_mode & 0o100 else "100644")
    return files


def wrong_with(case: Case, diff: str, *, git: bool) -> str:
    """What is wrong with the canonical diff, "" if nothing. With `git`, `git apply --check` must accept it too."""
    from unidiff.errors import UnidiffParseError
    from unidiff.patch import PatchSet

    added, removed = (sum(line.startswith(mark) for line in _body(diff)) for mark in "+-")
    try:
        parsed = PatchSet([line + "\n" for line in diff.split("\n")[:-1]])
    except UnidiffParseError as error:
        return f"unidiff: {error}"
    if (parsed.added, parsed.removed) != (added, removed):
        return f"unidiff sees +{parsed.added} -{parsed.removed} of +{added} -{removed}"
    return _checked(case, diff) if git else ""


def _body(diff: str) -> list[str]:
    """The lines inside hunks, found by the counts of their `@@` lines."""
    body: list[str] = []
    old = new = 0
    for line in diff.split("\n"):
        if old > 0 or new > 0:
            body.append(line)
            old -= line[:1] in (" ", "-", "")
            new -= line[:1] in (" ", "+", "")
        elif match := re.match(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@", line):
            old, new = (int(count) if count else 1 for count in match.groups())
    return body


def _checked(case: Case, diff: str) -> str:
    with tempfile.TemporaryDirectory() as folder:
        for path, (data, mode) in case.files.items():
            write(Path(folder), path, data, mode)
        git = subprocess.run(
            ["git", "-c", "core.symlinks=true", "apply", "--check", "--whitespace=nowarn"],
            check=False, cwd=folder, input=diff.encode(errors="surrogateescape"), capture_output=True,
            env={"PATH": os.environ["PATH"], "GIT_CEILING_DIRECTORIES": str(Path(folder).parent), "LC_ALL": "C"},
        )  # fmt: skip
    return "" if not git.returncode else f"git apply --check: {git.stderr.decode(errors='replace').strip()}"
