"""Which files of a change are not worth a model's look, or may not have it; and in which order the others are asked."""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Iterable, Mapping, Sequence

from repoagent.edit.verify.scope import WhyNot, why_content_is_off_limits
from repoagent.repo import WorkTree
from repoagent.repo.run import git_output
from repoagent.review.change import Change, ChangedFile
from repoagent.review.foreign import is_foreign

NAMED = 5
LONG_LINES = 1_000  # characters a line on average: no person wrote that
LOCKS = (
    "package-lock.json", "npm-shrinkwrap.json", "yarn.lock", "pnpm-lock.yaml", "bun.lock", "bun.lockb",
    "deno.lock", "poetry.lock", "pdm.lock", "uv.lock", "pipfile.lock", "cargo.lock", "gemfile.lock", "composer.lock",
    "go.sum", "go.work.sum", "flake.lock", "mix.lock", "pubspec.lock", "podfile.lock", "packages.lock.json",
    "gradle.lockfile", "*.lockfile", "conan.lock", "package.resolved", "module.bazel.lock", ".terraform.lock.hcl",
)  # fmt: skip
VENDORED = frozenset(
    {"vendor", "vendored", "third_party", "thirdparty", "third-party", "node_modules", "bower_components"}
)
BUILT = ("*.min.js", "*.min.css", "*.map", "*.snap", "*.pb.go", "*_pb2.py", "*_pb2_grpc.py", "*.g.dart")

_TEST = re.compile(
    r"(^|/)(tests?|specs?|__tests__|testing|testdata)/|(^|/)(test_[^/]*|conftest\.py)$|[._-](test|spec)s?\.\w+$|Tests?\.\w+$",
    re.ASCII,
)
_PROSE = re.compile(r"\.(md|rst|adoc|txt|tex)$|(^|/)(docs?|changelog|license|authors)(/|$)", re.IGNORECASE)
_DATA = re.compile(
    r"\.(json|ya?ml|toml|ini|cfg|conf|xml|csv|svg|lock|properties)$|(^|/)\.[^/]+$", re.IGNORECASE
)


def order(path: str) -> tuple[int, str]:
    """Sorts the files of a change: source, tests, configuration and data, prose."""
    kind = 3 if _PROSE.search(path) else 2 if _DATA.search(path) else 1 if _TEST.search(path) else 0
    return kind, path


def why_skipped(file: ChangedFile, marks: Mapping[str, str], why_not: WhyNot) -> str | None:
    """Why a file is not shown whatever stands in it, as words after its name; None: it may be."""
    path = file.path
    name = path.rsplit("/", 1)[-1].lower()
    if why_not(path) or (file.old_path and why_not(file.old_path)):
        return "withheld from models, by .repoagentignore or because such a name usually holds secrets"
    if "160000" in (file.old_mode, file.new_mode):
        return "a submodule"
    if file.status == "deleted":
        return "deleted"
    if any(fnmatch.fnmatchcase(name, pattern) for pattern in LOCKS):
        return "a lock file"
    if path in marks:
        return marks[path]
    if VENDORED & set(path.lower().split("/")[:-1]):
        return "vendored"
    if any(fnmatch.fnmatchcase(name, pattern) for pattern in BUILT):
        return "generated"
    return None


def why_content_skipped(data: bytes) -> str | None:
    """The same, for what stands in it."""
    if reason := why_content_is_off_limits(data):
        return "a Git LFS pointer" if "LFS" in reason else "generated"
    lines = data.count(b"\n") + 1
    return (
        "minified, or data in very long lines"
        if len(data) > LONG_LINES * lines and len(data) > 5_000
        else None
    )


def marks_of(worktree: WorkTree, change: Change) -> dict[str, str]:
    """What .gitattributes says of the files: generated, or vendored (as GitHub's linguist reads it).

    Of a foreign change as it was before.
    """
    paths = [file.path for file in change.files]
    if not paths:
        return {}
    stdin = b"".join(os.fsencode(path) + b"\0" for path in paths)
    names = ("linguist-generated", "linguist-vendored")
    before = (f"--source={change.base}",) if is_foreign(change) and change.base else ()
    done = git_output(
        worktree.top,
        "check-attr",
        *before,
        "-z",
        "--stdin",
        *names,
        stdin=stdin,
        ok=(0, 128, 129) if before else (0,),
    )  # --source is of git 2.40: without it nothing is passed over
    out = os.fsdecode(done.stdout if done.returncode == 0 else b"").split("\0")
    return {
        path: name.removeprefix("linguist-")
        for path, name, value in zip(out[::3], out[1::3], out[2::3], strict=False)
        if value in ("set", "true")
    }


def sentences(skipped: Iterable[tuple[str, str]]) -> list[str]:
    """For each reason the names of its files, as what comes after "not looked at"."""
    by_reason: dict[str, list[str]] = {}
    for path, reason in skipped:
        by_reason.setdefault(reason, []).append(path)
    return [f"{listed(paths)} ({reason}; by the model)" for reason, paths in by_reason.items()]


def listed(names: Sequence[str], most: int = NAMED) -> str:
    """The names in one line, the first of them where there are many."""
    shown = [name if name.isprintable() else repr(name) for name in names]
    if len(shown) > most:
        return ", ".join(shown[:most]) + f" and {len(shown) - most} more"
    return ", ".join(shown)
