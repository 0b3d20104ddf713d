"""Commands that are known to only read, and whether such a command may show a file that is hidden from models.

`only_reads` is for a sandbox, which hides keys and prevents writes. `can_do_no_harm` is for running without one: it
excludes git, which may run what a configuration names (a file system monitor, a filter, a text conversion), and any
path out of the work tree. A word whose value is uncertain may be any file. Git is checked even if no such file exists
now, because a commit may have it.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal

from repoagent.agent.approvals.shell_words import Simple, Word

# Variables that only change how programs print, and may be set in front of a command.
HARMLESS = {
    "CI", "NO_COLOR", "FORCE_COLOR", "CLICOLOR", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "COLUMNS", "LINES",
    "VERBOSE", "RUST_BACKTRACE", "PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE", "PYTHONHASHSEED",
    "NODE_ENV", "DEBUG",
}  # fmt: skip

Words = tuple[Word, ...]

_GIT_READS = """
status log diff show blame ls-files ls-tree rev-parse rev-list shortlog describe grep merge-base name-rev diff-tree
whatchanged cherry count-objects show-ref
"""
GIT_READS = frozenset(_GIT_READS.split())  # read-only with any revisions and paths
# Options with which git runs another program or writes any file; also abbreviated.
_GIT_RUNS: tuple[str, ...] = ("--output", "--ext-diff", "--textconv", "--open-files-in-pager", "--exec")
_GIT_RUNS += ("--show-signature", "--upload-pack", "--receive-pack", "--unsafe-paths", "--no-index")
# Options with which it does more than read, or reads files outside the repository.
_GIT_NEVER: tuple[str, ...] = (*_GIT_RUNS, "--paginate", "--filters", "--batch", "--contents")
# Options that show files marked as binary, or read the names of objects from elsewhere.
_GIT_NEVER += ("--text", "--binary", "--submodule", "--stdin")
_OPENS = re.compile(r"-[A-Za-z]*O")
_RG_RUNS = re.compile(r"--pre|--hostname-bin|--search-zip|-[A-Za-z0-9]*z")
_SHOWS_BINARY = re.compile(r"-[bcdhilmprtuwzRW0-9]*a")
_PATCHES = {"show", "log", "diff", "grep", "whatchanged", "diff-tree", "stash", "reflog"}
_SORT = re.compile(
    r"-[bdfghikMnrRuVcCsz0-9.,t:]+|-k\S+|--(numeric|reverse|unique|ignore|human|version)[a-z-]*"
)


def obeys(words: Sequence[Word], intended: Collection[str]) -> bool:
    """Whether a word of a command, other than the `intended` ones, makes or may make a harmless program run another one
    or write any file. A rule whose pattern ends with `*` does not allow that."""
    rest = [word for word in words[1:] if not word.literal or word.text not in intended]
    if words[0].text == "git":
        verb = next((word.text for word in words[1:] if not word.text.startswith("-")), "")
        return any(word.kind == "open" or _runs_or_writes(word.text, verb) for word in rest)
    return words[0].text == "rg" and any(word.kind == "open" or _RG_RUNS.match(word.text) for word in rest)


def _runs_or_writes(text: str, verb: str) -> bool:
    name = text.partition("=")[0]
    if name.startswith("--"):
        return len(name) > 2 and any(
            name.startswith(option) or option.startswith(name) for option in _GIT_RUNS
        )
    return verb == "grep" and _OPENS.match(text) is not None


def _without(pattern: str) -> Callable[[Words], bool]:
    """Accept all words except those that match `pattern`."""
    refused = re.compile(pattern, re.DOTALL)
    return lambda words: not any(refused.fullmatch(word.text) for word in words)


def _cd(words: Words) -> bool:
    return len(words) == 1 and words[0].literal and not re.match(r"[/~-]|.*(^|/)\.\.(/|$)", words[0].text)


def _git(words: Words) -> bool:
    while words and words[0].text in {"--no-pager", "-P", "--no-optional-locks"}:
        words = words[1:]
    if not words or not words[0].literal:
        return False
    verb, rest = words[0].text, [word.text for word in words[1:]]
    if any(_is_git_never(text, verb) for text in rest) or any(w.kind == "glob" for w in words):
        return False
    if verb in GIT_READS:
        return True
    if verb == "branch":
        return all(re.fullmatch(r"--(list|show-current|all|remotes|verbose)|-[arv]+", text) for text in rest)
    if verb == "tag":
        return all(re.fullmatch(r"--list|-l|-n\d*", text) for text in rest)
    if verb in {"stash", "worktree"}:
        return rest[:1] == ["list"] or (verb == "stash" and rest[:1] == ["show"])
    return (verb == "remote" and rest in ([], ["-v"])) or (verb == "reflog" and rest[:1] in ([], ["show"]))


def _is_git_never(text: str, verb: str) -> bool:
    name = text.partition("=")[0]
    if name.startswith("--"):
        return len(name) > 2 and any(never.startswith(name) or name.startswith(never) for never in _GIT_NEVER)
    if verb == "grep" and _OPENS.match(text):
        return True
    return verb in _PATCHES and _SHOWS_BINARY.match(text) is not None


def _sort(words: Words) -> bool:
    return all(_SORT.fullmatch(word.text) if word.text.startswith("-") else word.literal for word in words)


def _one_file(words: Words) -> bool:
    """`uniq`, whose second file is written to."""
    options = [word for word in words if word.text.startswith("-")]
    return len(words) - len(options) <= 1 and all(re.fullmatch(r"-[cdDuiz]+", word.text) for word in options)


def _file(words: Words) -> bool:
    return all(
        re.fullmatch(r"-[biLk]+|--brief|--mime(-type)?", w.text) for w in words if w.text.startswith("-")
    )


def _printf(words: Words) -> bool:
    return bool(words) and words[0].literal and not words[0].text.startswith("-")


def _sed(words: Words) -> bool:
    """`sed -n 10,20p FILE`: its other commands can write and run."""
    return (
        len(words) >= 2
        and words[0].text == "-n"
        and re.fullmatch(r"\d+(,(\d+|\$))?p", words[1].text) is not None
        and not any(word.text.startswith("-") or not word.literal for word in words[2:])
    )


JUDGED: dict[str, Callable[[Words], bool]] = {
    "cd": _cd,
    "git": _git,
    "find": _without(r"-(delete|fprint.*|fls|ok(dir)?|exec(dir)?|files0-from)"),
    "rg": _without(r"--(pre|hostname|search-zip|no-config).*|-[A-Za-z0-9]*z.*"),
    "sort": _sort,
    "uniq": _one_file,
    "tree": _without(r"(-[A-Za-z]*[oR]|--output).*"),
    "date": lambda words: all(re.match(r"\+|-[uRI]", word.text) for word in words),
    "file": _file,
    "printf": _printf,
    "sed": _sed,
    "du": _without(r"--files0.*"),
}

_FREE = {
    "pwd", "true", "false", "echo", "cat", "head", "tail", "wc", "nl", "cut", "tr", "comm", "cmp",
    "diff", "stat", "seq", "basename", "dirname", "realpath", "readlink", "ls", "grep", "egrep",
    "fgrep", "md5sum", "sha1sum", "sha256sum", "cksum", "uname", "nproc", "id", "whoami", "which",
    "type", "sleep", "column", "rev", "tac", "paste", "expr", "test", "[",
}  # fmt: skip


def only_reads(command: Simple) -> bool:
    """Whether `command` only reads, without redirections to files and variables that change programs."""
    if command.writes or any(
        name not in HARMLESS or not value.literal for name, value in command.assignments
    ):
        return False
    if any(word.text.startswith(("/dev/tcp", "/dev/udp")) or not word.literal for word in command.reads):
        return False
    words = command.words[1:]
    if command.name in _FREE:
        return all(word.text != "-v" or command.name not in {"test", "["} for word in words)
    judge = JUDGED.get(command.name)
    return judge is not None and all(word.kind != "open" for word in words) and judge(words)


def can_do_no_harm(
    command: Simple,
    top: Path,
    cwd: str = "",
    path: str | None = None,
    off_limits: Callable[[str], str | None] = lambda _: None,
) -> bool:
    """Whether `command` only reads files of the work tree, even without a sandbox.

    `path` is the PATH of the command; a program in the work tree is not trusted. `off_limits`: why a path below the
    top is hidden.
    """
    if not only_reads(command) or command.name in {"git", "rg"}:
        return False
    program = shutil.which(command.name, path=path)
    builtin = command.name in {"cd", "echo", "pwd", "true", "false", "test", "[", "type"}
    if not builtin and (program is None or _is_in(Path(program), top)):
        return False
    words = [*command.words[1:], *command.reads]
    return all(_stays(word, top, cwd, command.name, off_limits) for word in words)


def _stays(word: Word, top: Path, cwd: str, name: str, off_limits: Callable[[str], str | None]) -> bool:
    """Whether a word cannot name a file outside the work tree, or a hidden one."""
    if not word.literal or word.text.startswith("~"):
        return False
    text = word.text
    if text.startswith("-"):
        if name in {"ls", "grep", "egrep", "fgrep", "find", "tree", "du"} and re.match(
            r"-[A-Za-z]*[RL]|--deref", text
        ):
            return name == "ls"
        return "/" not in text
    if text.startswith("/") or ".." in text.split("/") or "\0" in text:
        return False
    base = top.resolve()
    target = (base / cwd / text).resolve()
    if not _is_in(target, base):
        return False
    return not target.exists() or target == base or off_limits(str(target.relative_to(base))) is None


def names_off_limits(command: Simple, top: Path, cwd: str, off_limits: Callable[[str], str | None]) -> bool:
    """Whether a word of `command` is the path of a hidden file (`.env`, a key)."""
    base = top.resolve()
    for word in (*command.words[1:], *command.reads):
        if "\0" in word.text or len(word.text) > 4096:
            return True
        target = Path(os.path.normpath(base / cwd / word.text))
        inside = target.is_relative_to(base) and target != base and target.is_file()
        if inside and off_limits(str(target.relative_to(base))) is not None:
            return True
    return False


def _is_in(path: Path, top: Path) -> bool:
    try:
        path.resolve().relative_to(top.resolve())
    except (ValueError, OSError):
        return False
    return True


# Whether git tracks a hidden file: "" if not, "excluded" if it does and the user excluded the file by name.
Known = Literal["", "tracked", "excluded"]
Blobs = Callable[[Sequence[str]], bool]

# Programs that show names and sizes of files, but not their content.
_OUTSIDE = {
    "cd", "echo", "pwd", "true", "false", "test", "[", "type", "ls", "basename", "dirname", "which",
    "id", "whoami", "uname", "nproc", "sleep", "seq", "date", "stat", "du", "tree", "realpath",
    "readlink", "expr", "find", "printf", "file",
}  # fmt: skip
_GREPS = {"grep", "egrep", "fgrep", "rg"}
_INSIDE_OF_GIT = {"show", "log", "diff", "grep", "blame", "whatchanged", "diff-tree", "stash", "reflog"}
_WHOLE_OF_GIT = {"show", "diff", "cat-file"}  # these take the name of an object
_CONTENT_OF_GIT = _INSIDE_OF_GIT | _WHOLE_OF_GIT | {"archive", "checkout", "restore", "checkout-index"}
_PATCH = re.compile(r"-[A-Za-z0-9]*[puULcmW]|--(pa|cc|word|color-w|uni|func|bin|dd|rem)|-G")
_DEEP = re.compile(r"-[A-Za-z]*[rRd]|--(rec|deref|dir)")
_PATTERN_APART = re.compile(r"-[A-Za-z]*[ef]|--(regexp|file)")
_HIDDEN_TOO = re.compile(r"-[A-Za-z0-9]*[.uUg]|--(hidden|unrestricted|no-ignore|glob|iglob)")

_AS_TEXT = frozenset({"--text", "-a"})


def may_show(command: Simple, top: Path, cwd: str, withheld: Mapping[str, Known]) -> bool:
    """Whether `command`, which only reads, may show one of the `withheld` files, which are relative to the top. cwd:
    its folder, relative to the top."""
    if not withheld:
        return False
    if command.name == "git":
        return _git_shows(command.words[1:], withheld)
    words = command.reads if command.name in _OUTSIDE else (*command.words[1:], *command.reads)
    if any(_names(word, top, cwd, withheld) for word in words):
        return True
    return command.name not in _OUTSIDE and _goes_deep(command, top, cwd, withheld)


def git_names(
    command: Simple, cwd: str, off_limits: Callable[[str], str | None], withheld: Iterable[str], blobs: Blobs
) -> bool:
    """Whether a git `command` names a hidden file: as a path, as a path in any commit, or as an object. `blobs`:
    whether one of some object names is the content of a hidden file."""
    if command.name != "git":
        return False
    texts = [word.text for word in command.words[1:]]
    if not any(text in _CONTENT_OF_GIT for text in texts[:3]):
        return False
    names = tuple(path.rpartition("/")[2] for path in withheld)
    if names and _AS_TEXT.intersection(texts):  # git is told that these files are binary
        return True
    for text in texts:
        path = text.rpartition(":")[2]
        if (names and text.endswith(names)) or any(map(off_limits, _paths(path, cwd))):
            return True
    revisions = texts[: texts.index("--")] if "--" in texts else texts
    objects = [part for text in revisions if text[:1] != "-" and ":" not in text for part in text.split("..")]
    return any(verb in texts[:3] for verb in _WHOLE_OF_GIT) and blobs([name for name in objects if name])


def _paths(text: str, cwd: str) -> Iterator[str]:
    """The paths, relative to the top, that a path in a command may mean: relative to the top or to `cwd`."""
    for path in (text, f"{cwd}/{text}"):
        path = os.path.normpath(path.lstrip("/"))
        if path not in {".", ""} and not path.startswith("..") and "\0" not in path:
            yield path


def _git_shows(words: tuple[Word, ...], withheld: Mapping[str, Known]) -> bool:
    """A tracked file with a suspicious name only (such as the certificate of a test) counts if it is named."""
    texts = [word.text for word in words]
    verb = next((text for text in texts[:3] if text in _INSIDE_OF_GIT), "")
    if not verb or (verb in {"log", "reflog"} and not any(_PATCH.match(text) for text in texts)):
        return False
    if verb == "grep":
        return any(withheld.values()) or any(text.startswith("--unt") for text in texts)
    names = tuple(path.rpartition("/")[2] for path, known in withheld.items() if known)
    return "excluded" in withheld.values() or any(text.endswith(names) for text in texts)


def _names(word: Word, top: Path, cwd: str, withheld: Iterable[str]) -> bool:
    """Whether a word may be the name of a hidden file, or end with it, as an option does."""
    if word.kind == "open":
        return True
    names = {path.rpartition("/")[2] for path in withheld}
    if word.kind == "glob":
        last = word.text.rpartition("/")[2]
        return any(fnmatchcase(name, last) for name in names)
    if word.text.endswith(tuple(names)):
        return True
    return any(_real(top, path) == _real(top, cwd, word.text) for path in withheld)


def _goes_deep(command: Simple, top: Path, cwd: str, withheld: Iterable[str]) -> bool:
    """Whether it reads a folder recursively that has a hidden file."""
    words = command.words[1:]
    options = [word.text for word in words if word.text.startswith("-")]
    if command.name != "rg" and not any(_DEEP.match(option) for option in options):
        return False
    if command.name == "rg" and not any(_HIDDEN_TOO.match(option) for option in options):
        withheld = [path for path in withheld if not any(part.startswith(".") for part in path.split("/"))]
    folders = list(_folders(command, words, options))
    for path in withheld:
        real = _real(top, path)
        if any(f"{real}/".startswith(_real(top, cwd, folder).rstrip("/") + "/") for folder in folders):
            return True
    return any(word.kind == "glob" for word in words) and bool(withheld)


def _folders(command: Simple, words: Iterable[Word], options: list[str]) -> Iterator[str]:
    """The words that may be folders; the current one if there may be none."""
    plain = [word.text for word in words if not word.text.startswith("-")]
    if command.name in _GREPS and not any(_PATTERN_APART.match(option) for option in options):
        plain = plain[1:]
    elif command.name in _GREPS:
        yield "."
    yield from plain or ["."]


def _real(*parts: str | Path) -> str:
    try:
        return os.path.realpath(Path(*parts))
    except ValueError:  # not a file name
        return "/"
