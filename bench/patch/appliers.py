"""The appliers that are compared: ours, `git apply` in two ways, and GNU patch."""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import tempfile
import time
from pathlib import Path

from bench.patch.judge import Result
from bench.patch.model import Case, Content
from repoagent.patch.apply_file import apply_answer
from repoagent.patch.errors import NoPatch, PatchRefused
from repoagent.patch.model import SourceText

BASELINES: dict[str, tuple[str, ...]] = {
    "git apply": ("git", "apply"),
    "git apply, lenient": ("git", "apply", "--recount", "--unidiff-zero", "-C1", "--ignore-whitespace"),
    "patch --fuzz=3": ("patch", "--fuzz=3", "--batch", "--forward", "--no-backup-if-mismatch"),
}
OURS = "repoagent"
SECONDS = 20
_FENCE = re.compile(r"^(`{3,}|~{3,})[^\n`]*\n(.*?)^\1[ \t]*$", re.M | re.S)


def available() -> dict[str, tuple[str, ...]]:
    return {name: command for name, command in BASELINES.items() if shutil.which(command[0])}


def ours(case: Case) -> Result:
    """The applier of this project, on bytes in memory."""
    sources = {path: SourceText(data, mode) for path, (data, mode) in case.files.items()}
    creates = case.creates
    start = time.process_time()  # the machine may have other work
    try:
        applied = apply_answer(
            case.answer,
            sources,
            scope=case.scope,
            may_create=lambda path: creates is None or path in creates,
        )
    except (PatchRefused, NoPatch) as error:
        return Result(None, str(error), 1000 * (time.process_time() - start))
    except (
        ArithmeticError,
        AssertionError,
        AttributeError,
        LookupError,
        RecursionError,
        TypeError,
        ValueError,
    ) as error:
        return Result(
            None, f"{type(error).__name__}: {error}", 1000 * (time.process_time() - start), error=True
        )
    ms = 1000 * (time.process_time() - start)
    files = dict(case.files)
    for change in applied.changes:
        if change.old_path and change.old_path != change.path:
            files.pop(change.old_path, None)
    for change in applied.changes:
        if change.path:
            assert change.after is not None
            files[change.path] = (change.after, change.mode or "")
    tells = "\n".join(f"{place}" for place in applied.placements)
    return Result(files, tells, ms, applied.diff)


def diff_of(answer: str) -> str:
    """The part of an answer that a person would have given to a program that takes diffs: the fences that hold one,
    or all of it."""
    bodies = [match[2] for match in _FENCE.finditer(answer)]
    diffs = [body for body in bodies if re.search(r"^(@@|--- |\+\+\+ |diff --git )", body, re.M)]
    return "".join(diffs) if diffs else answer


def baseline(case: Case, command: tuple[str, ...]) -> Result:
    """Another applier, in a folder of its own that holds the case's files."""
    text = diff_of(case.answer)
    with tempfile.TemporaryDirectory() as folder:
        top = Path(folder, "inner", "work")
        top.mkdir(parents=True)
        for path, (data, mode) in case.files.items():
            write(top, path, data, mode)
        if command[0] == "patch":
            named = re.findall(r"^(?:---|\+\+\+) (\S+)", text, re.M)
            plain = [name for name in named if name != "/dev/null"]
            prefixed = all(re.match(r"[a-z]+/", name) and name not in case.files for name in plain)
            command = (*command, "-p1" if prefixed else "-p0")
        env = {**os.environ, "GIT_CEILING_DIRECTORIES": folder, "LC_ALL": "C", "GIT_CONFIG_NOSYSTEM": "1"}
        env.pop("GIT_DIR", None)
        start = time.perf_counter()
        try:
            done = subprocess.run(
                command,
                cwd=top,
                env=env,
                input=text.encode(errors="surrogateescape"),
                capture_output=True,
                check=False,
                timeout=SECONDS,
            )
        except subprocess.TimeoutExpired:
            return Result(None, "took too long")
        ms = 1000 * (time.perf_counter() - start)
        if done.returncode:
            return Result(None, (done.stderr + done.stdout).decode(errors="replace"), ms)
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
