"""Which commands are known to only read, whether a command may show a hidden file, and the user's rules.

`only_reads` is for a sandbox, which hides keys and prevents writes. `can_do_no_harm` is for running without one: it
excludes git, which may run programs from its configuration (a file system monitor, a filter, a text conversion), and
paths outside the work tree. A word whose value is unknown may name any file. Git commands are checked even if no hidden
file exists now, because a commit may contain one.

A rule is a pattern such as `git log *`, which matches one simple command, word by word. A word of the pattern matches
the same word of the command, however it is quoted; `*` inside a word matches any characters, `*` as the last word any
further words, or none. In quotes, `*` is literal. `KIND:PATTERN` is a rule for another kind of action, such as
`browse:https://docs.python.org/*`. Deny rules ignore case, except of options: on some systems `GIT push` is `git push`.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import Literal

from repoagent.agent.approvals.shell_words import ParsedCommand, SimpleCommand, Word
from repoagent.dataclass import dataclass
from repoagent.errors import UsageError

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
# Options with which git does more than read, or reads files outside the repository.
_GIT_NEVER: tuple[str, ...] = (*_GIT_RUNS, "--paginate", "--filters", "--batch", "--contents")
# Options that show files marked as binary, or read the names of objects from elsewhere.
_GIT_NEVER += ("--text", "--binary", "--submodule", "--stdin")
_OPENS = re.compile(r"-[A-Za-z]*O")
_RG_RUNS = re.compile(r"--pre|--hostname-bin|--search-zip|-[A-Za-z0-9.]*z")
_SHOWS_BINARY = re.compile(r"-[bcdhilmprtuwzRW0-9]*a")
_PATCHES = {"show", "log", "diff", "grep", "whatchanged", "diff-tree", "stash", "reflog"}


def obeys(words: Sequence[Word], intended: Collection[str]) -> bool:
    """Whether a word of a command, other than the `intended` ones, may make a harmless program run another program or
    write to any file. A rule whose pattern ends with `*` does not allow such a word."""
    rest = [word for word in words[1:] if not word.literal or word.text not in intended]
    if words[0].text == "git":
        verb = next((word.text for word in words[1:] if not word.text.startswith("-")), "")
        return any(
            word.kind == "open"
            or _abbreviates(word.text, _GIT_RUNS)
            or (verb == "grep" and not word.text.startswith("--") and _OPENS.match(word.text))
            for word in rest
        )
    return words[0].text == "rg" and any(word.kind == "open" or _RG_RUNS.match(word.text) for word in rest)


def _abbreviates(text: str, options: Iterable[str]) -> bool:
    """Whether git may read `text` as one of these long options."""
    name = text.partition("=")[0]
    return re.match(r"--.", name) is not None and any(
        name.startswith(option) or option.startswith(name) for option in options
    )


def _git_reads(words: Words) -> bool:
    while words and words[0].text in {"--no-pager", "-P", "--no-optional-locks"}:
        words = words[1:]
    if not words or not words[0].literal:
        return False
    verb, rest = words[0].text, [word.text for word in words[1:]]
    short = [text for text in rest if not text.startswith("--")]
    if (
        any(_abbreviates(text, _GIT_NEVER) for text in rest)
        or (verb == "grep" and any(map(_OPENS.match, short)))
        or (verb in _PATCHES and any(map(_SHOWS_BINARY.match, short)))
        or any(word.kind == "glob" for word in words)
    ):
        return False
    if verb in GIT_READS:
        return True
    if verb in _GIT_LISTS:
        return all(re.fullmatch(_GIT_LISTS[verb], text) for text in rest)
    if verb in {"stash", "worktree"}:
        return rest[:1] == ["list"] or (verb == "stash" and rest[:1] == ["show"])
    return (verb == "remote" and rest in ([], ["-v"])) or (verb == "reflog" and rest[:1] in ([], ["show"]))


_GIT_LISTS = {"branch": r"--(list|show-current|all|remotes|verbose)|-[arv]+", "tag": r"--list|-l|-n\d*"}


# Options with which these programs do more than read; for the second table: all options with which they only read.
_REFUSED = {
    "find": r"-(delete|fprint.*|fls|ok(dir)?|exec(dir)?|files0-from)",
    "rg": r"--(pre|hostname|search-zip|no-config).*|-[A-Za-z0-9.]*z.*",
    "tree": r"(-[A-Za-z]*[oR]|--output).*",
    "du": r"--f.*",  # --files0-from, also abbreviated
    "date": r"(?!\+|-[uR]+\Z|-[uR]*I[a-z]*\Z).*",
}
_ACCEPTED = {
    "sort": r"-[bdfghikMnrRuVcCsz0-9.,t:]+|-k\S+|--(numeric|reverse|unique|ignore|human|version)[a-z-]*",
    "uniq": r"-[cdDuiz]+",
    "file": r"-[biLk]+|--brief|--mime(-type)?",
}

_LEAVES = re.compile(r"[/~-]|.*(^|/)\.\.(/|$)")  # a path that may leave the current folder
_SED_PRINTS = r"\d+(,(\d+|\$))?p"
_PRINTF_SETS = re.compile(r"-|.*%[-+ #0'*.\d]*[hjlLtz]*n", re.DOTALL)  # `%n` sets a variable, such as PATH
_FREE = {
    "pwd", "true", "false", "echo", "cat", "head", "tail", "wc", "nl", "cut", "tr", "comm", "cmp",
    "diff", "stat", "seq", "basename", "dirname", "realpath", "readlink", "ls", "grep", "egrep",
    "fgrep", "md5sum", "sha1sum", "sha256sum", "cksum", "uname", "nproc", "id", "whoami", "which",
    "type", "sleep", "column", "rev", "tac", "paste", "expr", "test", "[",
}  # fmt: skip


def only_reads(command: SimpleCommand) -> bool:
    """Whether `command` only reads, without redirecting output to a file or setting a variable that affects
    programs."""
    if command.writes or any(
        name not in HARMLESS or not value.literal for name, value in command.assignments
    ):
        return False
    if any(word.text.startswith(("/dev/tcp", "/dev/udp")) or not word.literal for word in command.reads):
        return False
    words, name = command.words[1:], command.name
    if name in _FREE:
        return name not in {"test", "["} or all(word.text != "-v" for word in words)
    if any(word.kind == "open" for word in words):
        return False
    if name in _REFUSED:
        return not any(re.fullmatch(_REFUSED[name], word.text, re.DOTALL) for word in words)
    if name in _ACCEPTED:
        plain = [word for word in words if not word.text.startswith("-")]
        if name == "uniq" and len(plain) > 1:  # it writes to the second file
            return False
        known = all(re.fullmatch(_ACCEPTED[name], word.text) for word in words if word not in plain)
        return known and (name != "sort" or all(word.literal for word in plain))
    if name == "cd":
        return len(words) == 1 and words[0].literal and not _LEAVES.match(words[0].text)
    if name == "printf":
        return bool(words) and words[0].literal and not _PRINTF_SETS.match(words[0].text)
    if name == "sed":  # `sed -n 10,20p FILE`: its other commands can write and run
        is_print = len(words) >= 2 and words[0].text == "-n" and re.fullmatch(_SED_PRINTS, words[1].text)
        return bool(is_print) and all(word.literal and word.text[:1] != "-" for word in words[2:])
    return name == "git" and _git_reads(words)


def can_do_no_harm(command: SimpleCommand, hidden: HiddenFiles, path: str | None) -> bool:
    """Whether `command` is harmless without a sandbox: it only reads files of the work tree that are not hidden. `path`
    is the command's PATH; a program inside the work tree is not trusted."""
    if not only_reads(command) or command.name in {"git", "rg"}:
        return False
    base = hidden.top.resolve()
    if command.name not in {"cd", "echo", "pwd", "true", "false", "test", "[", "type"}:
        program = shutil.which(command.name, path=path)
        if program is None or Path(program).resolve().is_relative_to(base):
            return False
    for word in (*command.words[1:], *command.reads):
        text = word.text
        if not word.literal or text.startswith("~") or "\0" in text:
            return False
        if command.name in _UNNAMED and re.match(_UNNAMED[command.name], text):
            return False
        names = [text]
        if text.startswith("-"):  # it may end with the name of a file: `-uf.env`, `--fil=.env`
            if "/" in text:
                return False
            names = [text[at:] for at in range(max(0, len(text) - 255), len(text))]
        for name in names:
            target = (base / name).resolve()
            if name.startswith("/") or ".." in name.split("/") or not target.is_relative_to(base):
                return False
            if not os.path.lexists(target):  # also if the name is too long
                continue
            if target != base and hidden.off_limits(str(target.relative_to(base))) is not None:
                return False
            if command.name == "diff" and target.is_dir():  # it shows files whose names are not given
                return False
    return True


# Whether git tracks a hidden file: "" if not, "excluded" if it does and the user excluded the file by name.
Known = Literal["", "tracked", "excluded"]

# Programs that show names and sizes of files, but not their content.
_OUTSIDE = {
    "cd", "echo", "pwd", "true", "false", "test", "[", "type", "ls", "basename", "dirname", "which",
    "id", "whoami", "uname", "nproc", "sleep", "seq", "date", "stat", "du", "tree", "realpath",
    "readlink", "expr", "find", "printf", "file",
}  # fmt: skip
_GREPS = {"grep", "egrep", "fgrep", "rg"}
# Options with which these programs read files that no word names: behind links, or listed in a file.
_UNNAMED = {
    **dict.fromkeys(("grep", "egrep", "fgrep", "find", "du"), r"-[A-Za-z0-9]*[RLS]|--der|-follow"),
    **dict.fromkeys(("md5sum", "sha1sum", "sha256sum", "cksum"), r"-[A-Za-z]*c|--c"),
    "tree": r"-[A-Za-z0-9]*[lR]|--fromf",
    "wc": r"--f",
}
_INSIDE_OF_GIT = {"show", "log", "diff", "grep", "blame", "whatchanged", "diff-tree", "stash", "reflog"}
_WHOLE_OF_GIT = {"show", "diff", "cat-file"}  # these take the name of an object
_CONTENT_OF_GIT = _INSIDE_OF_GIT | _WHOLE_OF_GIT | {"archive", "checkout", "restore", "checkout-index"}
_PATCH = re.compile(r"-[A-Za-z0-9]*[puULcmW]|--(pa|cc|word|color-w|uni|func|bin|dd|rem)|-G")
_DEEP = re.compile(r"-[A-Za-z0-9]*[rRd]|--(rec|der|di)")
_PATTERN_APART = re.compile(r"-[A-Za-z0-9]*[ef]|--(reg|fil)")
_HIDDEN_TOO = re.compile(r"-[A-Za-z0-9]*[.uUg]|--(hidden|unrestricted|no-ignore|glob|iglob)")


@dataclass(frozen=True)
class HiddenFiles:
    """The files of the work tree that models may not see.

    top: the top folder of the work tree.
    off_limits: returns the reason why a path is hidden, or None if it is not.
    withheld: returns the existing hidden files, relative to `top`.
    blobs: returns whether any of the named git objects has the content of a hidden file.
    """

    top: Path = Path()
    off_limits: Callable[[str], str | None] = lambda _: None
    withheld: Callable[[], Mapping[str, Known]] = dict
    blobs: Callable[[Sequence[str]], bool] = lambda _: False

    def named_by(self, command: SimpleCommand) -> bool:
        """Whether a word of `command` is the path of a hidden file (`.env`, a key)."""
        base = self.top.resolve()
        for word in (*command.words[1:], *command.reads):
            if "\0" in word.text or len(word.text) > 4096:
                return True
            target = Path(os.path.normpath(base / word.text))
            inside = target.is_relative_to(base) and target != base and os.path.lexists(target)
            if inside and target.is_file() and self.off_limits(str(target.relative_to(base))) is not None:
                return True
        return False

    def may_be_shown_by(self, command: SimpleCommand) -> bool:
        """Whether `command`, which only reads, may show a hidden file."""
        if command.name == "git":
            unsure = any(word.kind == "open" for word in command.words)
            return unsure or self.named_by_git(command) or self._shown_by_git(command.texts)
        if not self.withheld():
            return False
        outside = command.name in _OUTSIDE
        words = command.reads if outside else (*command.words[1:], *command.reads)
        return any(map(self._is_named, words)) or (not outside and self._is_below(command))

    def named_by_git(self, command: SimpleCommand) -> bool:
        """Whether a git `command` names a hidden file: as a path, as a path in any commit, or as an object. The sandbox
        hides it on disk but not in the object database."""
        texts = command.texts
        if command.name != "git" or not _CONTENT_OF_GIT.intersection(texts[:3]):
            return False
        withheld = self.withheld()
        if withheld and not {"--text", "-a"}.isdisjoint(texts):  # git is told that these files are binary
            return True
        if _ends_with_name_of(withheld, texts):
            return True
        for text in texts:
            path = os.path.normpath(text.rpartition(":")[2].lstrip("/"))
            known = path in {".", ""} or path.startswith("..") or "\0" in path
            if not known and self.off_limits(path):
                return True
        revisions = texts[: texts.index("--")] if "--" in texts else texts
        objects = [
            part for text in revisions if text[:1] != "-" and ":" not in text for part in text.split("..")
        ]
        return bool(_WHOLE_OF_GIT.intersection(texts[:3])) and self.blobs([name for name in objects if name])

    def _shown_by_git(self, texts: Sequence[str]) -> bool:
        """Whether git may show a hidden file. A tracked file that is hidden only by its name, such as the certificate
        of a test, counts only if it is named."""
        withheld = self.withheld()
        verb = next((text for text in texts[:3] if text in _INSIDE_OF_GIT), "")
        if not verb or (verb in {"log", "reflog"} and not any(map(_PATCH.match, texts))):
            return False
        if verb == "grep":
            return any(withheld.values()) or (
                bool(withheld) and any(text.startswith("--unt") for text in texts)
            )
        tracked = [path for path, known in withheld.items() if known]
        return "excluded" in withheld.values() or _ends_with_name_of(tracked, texts)

    def _is_named(self, word: Word) -> bool:
        """Whether a word may be the name of a hidden file, or end with it, as an option does."""
        withheld = self.withheld()
        if word.kind == "glob":
            pattern = word.text.rpartition("/")[2]
            return any(fnmatchcase(path.rpartition("/")[2], pattern) for path in withheld)
        if word.kind == "open" or _ends_with_name_of(withheld, [word.text]):
            return True
        target = _real(self.top, word.text)
        return any(_real(self.top, path) == target for path in withheld)

    def _is_below(self, command: SimpleCommand) -> bool:
        """Whether the command recursively reads a folder with a hidden file."""
        options = [text for text in command.texts if text.startswith("-")]
        hidden: Iterable[str] = self.withheld()
        if command.name != "rg" and not any(map(_DEEP.match, options)):
            return False
        if command.name == "rg" and not any(map(_HIDDEN_TOO.match, options)):
            hidden = [path for path in hidden if not any(part.startswith(".") for part in path.split("/"))]
        # the words that may be folders; by default the current folder
        folders = [text for text in command.texts if not text.startswith("-")]
        if command.name in _GREPS:
            apart = any(map(_PATTERN_APART.match, options))
            folders = [".", *folders] if apart else folders[1:]
        roots = [_real(self.top, folder).rstrip("/") + "/" for folder in folders or ["."]]
        any_glob = any(word.kind == "glob" for word in command.words[1:])
        return any(any_glob or f"{_real(self.top, path)}/".startswith(tuple(roots)) for path in hidden)


def _ends_with_name_of(paths: Iterable[str], texts: Iterable[str]) -> bool:
    """Whether one of `texts` ends with the name of one of the files `paths`, in upper or lower case."""
    names = tuple(path.rpartition("/")[2].lower() for path in paths)
    return any(text.lower().endswith(names) for text in texts)


def _real(*parts: str | Path) -> str:
    """The real path in lower case, because the file system may ignore case."""
    try:
        return os.path.realpath(Path(*parts)).lower()
    except ValueError:  # not a file name
        return "/"


_LOCAL = re.compile(r"[a-z][a-z0-9]{0,15}")
_PLAIN_WORD = re.compile(r"[\w.,:*@/+-]*")  # `make` runs the $(...) in the value of a variable that it uses
_KIND = re.compile(r"(edit|write|browse|python|tool|delegate):")
_TOKEN = re.compile(
    r"(?P<blank>[ \t\n]+)|'(?P<single>[^']*)'|\"(?P<double>(?:[^\"\\]|\\.)*)\"|\\(?P<escaped>.)|(?P<char>.)",
    re.DOTALL,
)
# Options before the subcommand of `git` that take a value in the next word.
_GIT_VALUED = {
    "-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path", "--super-prefix",
    "--config-env",
}  # fmt: skip


@dataclass(frozen=True)
class Rule:
    """A rule, given as one pattern. Its first use raises UsageError if the pattern has an unclosed quote."""

    pattern: str

    @cached_property
    def kind(self) -> str:
        """The kind before the colon, "command" by default."""
        match = _KIND.match(self.pattern)
        return match[1] if match else "command"

    @cached_property
    def _parsed(self) -> tuple[tuple[re.Pattern[str], ...], bool, set[str]]:
        """The patterns of its words, whether further words may follow, and its words without wildcards."""
        words = _split(self.pattern)
        further = words[-1:] == [".*"]
        written = {re.sub(r"\\(.)", r"\1", word) for word in words if ".*" not in word}
        return (
            tuple(re.compile(word, re.DOTALL) for word in words[: -1 if further else None]),
            further,
            written,
        )

    def names(self, kind: str, text: str) -> bool:
        """Whether the rule is for `kind` and matches `text`. Always False for commands; see `allows`."""
        if kind != self.kind or kind == "command":
            return False
        parts = self.pattern.partition(":")[2].split("*")
        return re.fullmatch(".*".join(map(re.escape, parts)), text, re.DOTALL) is not None

    def allows(self, command: SimpleCommand) -> bool:
        """Whether the rule allows `command`. Only the words that a final `*` matches need not be literal."""
        if self.kind != "command":
            return False
        fixed, further, written = self._parsed
        assignments, words = command.assignments, command.words
        values = [f"{name}={value.text}" for name, value in assignments if value.literal]
        if (
            values
            and len(values) == len(assignments) <= len(fixed)
            and all(pattern.fullmatch(text) for pattern, text in zip(fixed, values, strict=False))
        ):
            fixed = fixed[len(values) :]
        elif any(name not in HARMLESS or not _PLAIN_WORD.fullmatch(value.raw) for name, value in assignments):
            return False
        if not words or len(words) < len(fixed) or (len(words) > len(fixed) and not further):
            return False
        pairs = zip(fixed, words, strict=False)
        if not all(word.literal and pattern.fullmatch(word.text) for pattern, word in pairs):
            return False
        return not fixed or not obeys(words, written)  # options that the user wrote out are intended

    def may_deny(self, command: SimpleCommand) -> bool:
        """Whether the rule denies `command`, or could deny it for some value of its unknown words.

        Leading variable assignments, the folder of the program and git's global options are ignored, and the letter
        case of all words except options.
        """
        if self.kind != "command" or not command.words:
            return False
        patterns, further, _ = self._parsed
        patterns = tuple(
            re.compile(word.pattern, re.DOTALL | (0 if word.pattern.startswith(r"\-") else re.IGNORECASE))
            for word in patterns
        )

        def may_be(words: tuple[Word, ...]) -> bool:
            for pattern, word in zip(patterns, words, strict=False):
                if not word.literal:
                    return True
                if not pattern.fullmatch(word.text):
                    return False
            return len(words) == len(patterns) or (further and len(words) > len(patterns))

        words = command.words
        first = words[0]._replace(text=words[0].text.rpartition("/")[2])
        if may_be(words) or may_be((first, *words[1:])):
            return True
        at = 1
        while at < len(words) and words[at].text.startswith("-"):
            at += 2 if words[at].text in _GIT_VALUED else 1
        return first.text.lower() == "git" and may_be((first, *words[at:]))


def parse_rules(patterns: Iterable[str]) -> tuple[Rule, ...]:
    """Parse rules. Raises UsageError for an invalid one."""
    parsed = tuple(map(Rule, patterns))
    for rule in parsed:
        if rule.kind == "command" and not _split(rule.pattern):
            problem = f"{rule.pattern!r} is not a command pattern; write one such as 'git log *'"
            raise UsageError(f"run.allow or run.deny: {problem}")
    return parsed


def sets_harmlessly(command: SimpleCommand) -> bool:
    """Whether a command does nothing but set shell variables that programs do not read."""
    if command.words or not command.assignments or command.writes:
        return False
    return all(_LOCAL.fullmatch(name) for name, _ in command.assignments)


def _split(pattern: str) -> list[str]:
    """The words of a pattern, each as a regular expression."""
    words: list[str] = []
    after_blank = True
    for token in _TOKEN.finditer(pattern):
        kind, text = token.lastgroup, token[token.lastgroup or 0]
        if kind != "blank":
            if kind == "char" and text in "'\"":
                raise UsageError(f"run.allow or run.deny: unclosed quote in {pattern!r}")
            if kind == "double":
                text = re.sub(r'\\(["\\$`])', r"\1", text)
            part = ".*" if kind == "char" and text == "*" else re.escape(text)
            if after_blank:
                words.append("")
            words[-1] += part
        after_blank = kind == "blank"
    return words


# Programs that never run another one or load code of the repository, so no test runner, build tool, linter with plugins
# or package manager. Not `printf`: `-v` of bash evaluates its argument.
_PLAIN_PROGRAMS = {
    "ls", "cat", "head", "tail", "wc", "grep", "egrep", "fgrep", "rg", "diff", "cmp", "stat", "file",
    "jq", "mkdir", "touch", "echo", "sleep", "cd", "ruff", "black", "gofmt", "clang-format",
    "shellcheck", "hadolint", "yamllint",
}  # fmt: skip
# The same of git: not `fetch`, which runs transports, `tag`, which signs, or `apply`, which writes any file.
_GIT = GIT_READS | {"add", "mv", "branch", "restore", "stash"}


def propose_patterns(reading: ParsedCommand) -> tuple[str, ...]:
    """The patterns that together allow the commands in `reading` and similar ones; empty if this is not possible.

    Some programs get a pattern that matches only this command: those that can run another program (a shell, a build
    tool, a test runner, `sudo`), delete data or use the network, and all unknown programs.
    """
    if reading.doubt:
        return ()
    patterns: dict[str, None] = {}
    for command in reading.commands:
        words = command.words
        if command.role != "runs" or sets_harmlessly(command):
            continue
        # a rule is saved and shown as one line
        if not words or any(word.text.splitlines() not in ([], [word.text]) for word in words):
            return ()
        variables = [(name, value) for name, value in command.assignments if name not in HARMLESS]
        if not variables and command.name in _PLAIN_PROGRAMS:
            patterns[f"{command.name} *"] = None
        elif (
            not variables
            and command.name == "git"
            and words[1:]
            and words[1].literal
            and words[1].text in _GIT
        ):
            patterns[f"git {words[1].text} *"] = None
        elif all(word.literal for word in (*words, *(value for _, value in command.assignments))):
            written = [f"{name}={shlex.quote(value.text)}" for name, value in variables]
            patterns[" ".join([*written, *(shlex.quote(word.text) for word in words)])] = None
        else:
            return ()
    return tuple(patterns)
