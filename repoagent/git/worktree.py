"""Find the work tree as git does, with one git call, and read facts about it.

The facts are HEAD, recent subjects, languages and the operation in progress.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

from repoagent.errors import UsageError
from repoagent.git.process import GitError, git, git_output
from repoagent.storage.layout import Layout

# `rev-parse --path-format` came with it (March 2021); an older git echoes the option, which is how we know.
OLDEST_GIT = "2.31"
_PATH_FORMAT = "--path-format=absolute"
_HEXADECIMAL = frozenset("0123456789abcdef")
_FALSE = {b"false", b"no", b"off", b"0", b""}
_SUBJECTS = 8
_LANGUAGES = 8
_LANGUAGE_NAMES = {
    "bash": "shell", "c": "C", "cc": "C++", "cpp": "C++", "cs": "C#", "css": "CSS", "cxx": "C++",
    "dart": "Dart", "ex": "Elixir", "exs": "Elixir", "go": "Go", "h": "C", "hpp": "C++", "hs": "Haskell",
    "htm": "HTML", "html": "HTML", "java": "Java", "jl": "Julia", "js": "JavaScript", "json": "JSON",
    "jsx": "JavaScript", "kt": "Kotlin", "lua": "Lua", "m": "Objective-C", "md": "Markdown",
    "mjs": "JavaScript", "ml": "OCaml", "php": "PHP", "pl": "Perl", "pm": "Perl", "py": "Python",
    "pyi": "Python", "r": "R", "rb": "Ruby", "rs": "Rust", "rst": "reStructuredText", "scala": "Scala",
    "sh": "shell", "sql": "SQL", "svelte": "Svelte", "swift": "Swift", "toml": "TOML", "ts": "TypeScript",
    "tsx": "TypeScript", "vue": "Vue", "xml": "XML", "yaml": "YAML", "yml": "YAML", "zig": "Zig",
}  # fmt: skip


class NoWorkTree(UsageError):
    pass


class WorkTree(NamedTuple):  # each run makes this class, and a dataclass would take 1 ms more
    """A work tree and its repository.

    top: the root folder, without symbolic links in its path.
    git_dir: the git directory that is private to this work tree.
    common_dir: the git directory that is shared with linked work trees.
    main_top: the top of the main work tree; None if it is bare or unknown.
    object_format: "sha1" or "sha256".
    """

    top: Path
    git_dir: Path
    common_dir: Path
    main_top: Path | None = None
    object_format: str = "sha1"

    @property
    def is_linked(self) -> bool:
        return self.git_dir != self.common_dir


def open_worktree(start: Path) -> WorkTree:
    """The work tree that contains the folder or file `start`, honoring GIT_DIR and GIT_WORK_TREE.

    Makes these variables absolute in the environment of this process. Raises UsageError if there is no work tree, if
    git refuses it, or if git is older than OLDEST_GIT.
    """
    return open_at_head(start)[0]


def open_at_head(start: Path) -> tuple[WorkTree, str | None]:
    """Like `open_worktree`, but also return HEAD's commit id (None: unborn), in one git call."""
    cwd = start if start.is_dir() else start.parent
    (bare, git_folder, common_folder, object_format, *tops), head = _rev_parse(cwd)
    if not tops and bare == "true":
        raise UsageError(
            f"{git_folder} is a bare repository: run repoagent in one of its work trees (git worktree add)"
        )
    if not tops:
        raise UsageError(f"{cwd} is inside a git directory: run repoagent in the work tree")
    top, git_dir, common_dir = Path(tops[0]), Path(git_folder), Path(common_folder)
    main: Path | None = top
    if git_dir != common_dir:
        # the main work tree is in core.worktree for a submodule, else next to its `.git`
        arguments = ("--git-dir", str(common_dir), "config", "-z", "--get-regexp", r"^core\.(bare|worktree)$")
        settings = git_output(common_dir, *arguments, ok=(0, 1)).stdout
        config = dict(entry.partition(b"\n")[::2] for entry in settings.split(b"\0") if entry)
        if b"core.worktree" in config:
            main = Path(os.path.realpath(common_dir / os.fsdecode(config[b"core.worktree"])))
        else:
            is_bare = config.get(b"core.bare", b"false").lower() not in _FALSE
            main = None if is_bare or common_dir.name != ".git" else common_dir.parent
    worktree = WorkTree(top, git_dir, common_dir, main, object_format)
    _pin_environment(worktree)
    return worktree, head


def bare_repository(cwd: Path) -> Path | None:
    """The folder that git would use as a bare repository in `cwd`; None if `.git` or GIT_DIR names the repository.

    A clone may contain such a folder as tracked files, with settings that someone else wrote.
    """
    if "GIT_DIR" in os.environ:
        return None
    start = Path(os.path.realpath(cwd))
    for folder in (start, *start.parents):
        if (folder / ".git").exists() or folder.name == ".git":
            return None
        if not os.path.lexists(folder / "HEAD"):
            continue
        if not any((folder / name).exists() for name in ("refs", "commondir")):
            continue
        parsed = git_output(folder, "rev-parse", "--absolute-git-dir", ok=(0, 128))
        if parsed.returncode and b"safe.bareRepository" in parsed.stderr:
            return folder
        if not parsed.returncode and Path(os.path.realpath(os.fsdecode(parsed.stdout[:-1]))) == folder:
            return folder
    return None


def settings_folder(cwd: Path) -> Path:
    """The folder in which to read git's settings: `cwd`, or "/" if that is in a bare repository.

    The settings of a bare repository may name programs to run.
    """
    return cwd if bare_repository(cwd) is None else Path("/")


def is_full_id(text: str) -> bool:
    return len(text) in (40, 64) and _HEXADECIMAL.issuperset(text)


def _rev_parse(cwd: Path) -> tuple[list[str], str | None]:
    """The lines of `git rev-parse`, and HEAD's commit. The top comes last: git stops there if there is none."""
    flags = ("--is-bare-repository", "--absolute-git-dir", "--git-common-dir", "--show-object-format")
    try:
        parsed = git_output(
            cwd, "rev-parse", _PATH_FORMAT, *flags, "--show-toplevel", "--default", "HEAD", ok=(0, 128)
        )
    except FileNotFoundError as error:
        if cwd.is_dir():
            raise UsageError(f"git was not found: install git {OLDEST_GIT} or newer") from error
        raise UsageError(f"no such folder: {cwd}") from error
    except NotADirectoryError as error:
        raise UsageError(f"{cwd} is not a folder") from error
    lines = os.fsdecode(parsed.stdout).split("\n")[:-1]
    if lines[:1] == [_PATH_FORMAT]:
        raise UsageError(f"this git is too old: repoagent needs git {OLDEST_GIT} or newer")
    bare = bare_repository(cwd)
    if bare is not None:
        raise UsageError(
            f"{bare} is a bare repository, possibly someone else's: run repoagent in a work tree (git worktree add)"
        )
    if len(lines) < len(flags):
        text = parsed.stderr.decode(errors="replace")
        reason = next((line for line in text.splitlines() if line.startswith("fatal: ")), text.strip())
        reason = reason.removeprefix("fatal: ")
        if "safe.bareRepository" in reason:
            raise UsageError(f"{cwd} is inside a git directory: run repoagent in the work tree")
        allow = re.search(r"^\s*(git config --global --add safe\.directory .*)$", text, re.MULTILINE)
        if allow:
            raise UsageError(f"git refuses this repository: {reason}; if you trust it, run: {allow[1]}")
        if reason.startswith("not a git repository (or any"):
            raise NoWorkTree(
                f"{cwd} is not in a git work tree: run repoagent inside one, or create one with `git init`"
            )
        names = [name for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR") if name in os.environ]
        remedy = f"; unset {' and '.join(names)}" if names else ""
        raise UsageError(f"git cannot open the repository at {cwd}: {reason}{remedy}")
    head = lines.pop() if is_full_id(lines[-1]) else None
    if len(lines) > len(flags) + 1:
        raise UsageError(
            f"the path of the repository at {cwd} contains a line break, which git cannot report: rename that folder"
        )
    return lines, head


def _pin_environment(worktree: WorkTree) -> None:
    """Make GIT_DIR, GIT_WORK_TREE and GIT_COMMON_DIR absolute. With GIT_DIR alone git takes the current folder for the
    top, so both are set; also if the `.git` of core.worktree does not lead back."""
    link = worktree.top / ".git"
    try:
        if link.is_dir():
            leads_back = link.samefile(worktree.git_dir)
        else:
            target = os.fsdecode(link.read_bytes().removeprefix(b"gitdir:").strip())
            leads_back = (link.parent / target).samefile(worktree.git_dir)
    except OSError:
        leads_back = False
    if "GIT_DIR" in os.environ or "GIT_WORK_TREE" in os.environ or not leads_back:
        os.environ["GIT_DIR"] = str(worktree.git_dir)
        os.environ["GIT_WORK_TREE"] = str(worktree.top)
    if "GIT_COMMON_DIR" in os.environ:
        os.environ["GIT_COMMON_DIR"] = str(worktree.common_dir)


def layout_of(worktree: WorkTree) -> Layout:
    """The paths of repoagent's files, both shared ones and those private to this work tree."""
    if worktree.main_top is None:
        return Layout(worktree.common_dir / "repoagent", worktree.git_dir)
    return Layout(worktree.main_top / ".repoagent", worktree.git_dir)


def relative_path(worktree: WorkTree, path: Path | str, cwd: Path) -> str:
    """Convert `path`, as written in `cwd`, to a path relative to the top; "." for the top itself.

    Symbolic links to folders on the way are resolved; one at the end is not. Raises UsageError for a path outside the
    work tree.
    """
    full = cwd / path
    if full.name in ("", ".."):  # Path has dropped a final "." already
        real = Path(os.path.realpath(full))
    else:
        real = Path(os.path.realpath(full.parent)) / full.name
    try:
        return real.relative_to(worktree.top).as_posix()
    except ValueError:
        raise UsageError(f"{path} is outside the work tree {worktree.top}: name a file inside it") from None


class Facts(NamedTuple):
    """What a prompt says about a work tree.

    branch: the short name of HEAD's branch; None if detached.
    subjects: the subjects of the last commits, newest first, without merges.
    languages: the languages with their number of files, most frequent first.
    operation: the result of `operation_in_progress`.
    unmerged: the unmerged paths.
    """

    branch: str | None
    subjects: tuple[str, ...]
    languages: tuple[tuple[str, int], ...]
    operation: str | None
    unmerged: tuple[str, ...]


def gather_facts(worktree: WorkTree) -> Facts:
    """Gather the facts for a prompt. Raises GitError if git cannot read the repository."""
    # read twice as many commits, in case every second one is a merge
    command = ("log", "-z", f"-n{2 * _SUBJECTS + 1}", "--encoding=UTF-8", "--format=%P%n%s")
    try:
        log = git(worktree.top, *command).split(b"\0")
    except GitError as error:
        if "does not have any commits yet" not in error.stderr:
            raise
        log = []
    commits = [entry.partition(b"\n") for entry in log if entry]
    subjects = [subject.decode(errors="replace") for parents, _, subject in commits if b" " not in parents]
    entries = git(
        worktree.top, "ls-files", "-t", "-z", "--cached"
    )  # a tag before each path, M if it is unmerged
    languages: Counter[str] = Counter()
    for extension, files in Counter(re.findall(rb"[^/ ]\.([0-9A-Za-z]{1,10})\0", entries)).items():
        name = extension.decode().lower()
        languages[_LANGUAGE_NAMES.get(name, "." + name)] += files
    unmerged = {os.fsdecode(path) for path in re.findall(rb"(?:\A|\0)M ([^\0]+)", entries)}
    return Facts(
        current_branch(worktree),
        tuple(subjects[:_SUBJECTS]),
        tuple(languages.most_common(_LANGUAGES)),
        operation_in_progress(worktree),
        tuple(sorted(unmerged)),
    )


def head_blobs(worktree: WorkTree, paths: Collection[str]) -> dict[str, str]:
    """The blob ids of `paths` in HEAD; paths that are not in HEAD are left out."""
    if not paths:
        return {}
    listing = git_output(worktree.top, "ls-tree", "-z", "--full-tree", "HEAD", "--", *paths, ok=(0, 128))
    entries = (os.fsdecode(entry).partition("\t") for entry in listing.stdout.split(b"\0") if entry)
    return {path: fields.split(" ")[2] for fields, _, path in entries}


def operation_in_progress(worktree: WorkTree) -> str | None:
    """The operation in progress: "rebase", "am", "merge", "cherry-pick", "revert", "squash", "bisect", or None."""
    folder = worktree.git_dir
    if (folder / "rebase-apply" / "applying").exists():
        return "am"
    if (folder / "rebase-apply").is_dir() or (folder / "rebase-merge").is_dir():
        return "rebase"
    if (folder / "MERGE_HEAD").exists():
        return "merge"
    for ref, name in (("CHERRY_PICK_HEAD", "cherry-pick"), ("REVERT_HEAD", "revert")):
        if (folder / ref).exists():
            return name
        if (folder / "reftable").exists():
            verified = git_output(worktree.top, "rev-parse", "--verify", "--quiet", ref, ok=(0, 1))
            if verified.returncode == 0:
                return name
    todo = folder / "sequencer" / "todo"  # between two picks of a series
    if todo.exists():
        return "revert" if todo.read_bytes().startswith(b"revert") else "cherry-pick"
    if (folder / "SQUASH_MSG").exists():
        return "squash"
    return "bisect" if (folder / "BISECT_LOG").exists() else None


def current_branch(worktree: WorkTree) -> str | None:
    """The short name of HEAD's branch (None: detached)."""
    ref = head_ref(worktree)
    return None if ref is None else ref.removeprefix("refs/heads/")


def head_ref(worktree: WorkTree) -> str | None:
    """The reference that a commit moves; None if HEAD is detached.

    Reads the HEAD file, or asks git for reftable repositories and symbolic refs.
    """
    file = worktree.git_dir / "HEAD"
    text = b"" if file.is_symlink() else file.read_bytes()
    ref = text.removeprefix(b"ref:").strip()
    if text.startswith(b"ref:") and ref != b"refs/heads/.invalid":
        try:
            is_link = (worktree.common_dir / os.fsdecode(ref)).read_bytes().startswith(b"ref:")
        except OSError:  # the reference is packed, or unborn
            is_link = False
        if not is_link:
            return os.fsdecode(ref)
    if re.fullmatch(rb"[0-9a-f]{40}(?:[0-9a-f]{24})?", text.strip()):
        return None
    resolved = git_output(worktree.top, "symbolic-ref", "--quiet", "HEAD", ok=(0, 1))
    return os.fsdecode(resolved.stdout.rstrip(b"\n")) if resolved.returncode == 0 else None
