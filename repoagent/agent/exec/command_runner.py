"""Start commands with the settings of a run, and recognize commands that cannot work here."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from types import MappingProxyType

from repoagent.agent.approvals.policy import Gate, May
from repoagent.agent.approvals.shell_words import Reading
from repoagent.agent.exec.process import Command, Job, environment
from repoagent.agent.exec.render_output import SHOWN_BYTES
from repoagent.dataclass import dataclass
from repoagent.errors import UsageError


@dataclass
class CommandRunner:
    """The settings for commands, and the commands in the background.

    top: the work tree. folder: for output files. env: the environment. wrap: the command line in the sandbox, which
    writes to a report file why it ended a command; why_ended: reads that file. unshown: further variables of a command
    that may not see hidden files. seconds_left: of the run, None without a limit. watch: called before a command in the
    foreground, with whether one in the background may have written since the last call; the result is called after it,
    and returns which files changed. audit: records events. shown_as: the name of an output file for the model. explain:
    which limit of the sandbox an output is about. running: called with each command in the foreground and its output
    file. timeout, longest: the default and maximum of seconds. budget: bytes of output that are shown. keep: bytes of
    an output that are saved; keep_total: bytes of all outputs of the run, without the end of each.
    """

    top: Path
    folder: Path
    env: Mapping[str, str]
    gate: Gate
    wrap: Callable[[Sequence[str], Path, May], list[str]] = lambda argv, report, may: list(argv)
    unshown: Callable[[], Mapping[str, str]] = dict
    why_ended: Callable[[Path], str | None] = lambda report: None
    seconds_left: Callable[[], float | None] = lambda: None
    watch: Callable[[bool], Callable[[], str]] = lambda background: lambda: ""
    audit: Callable[[Mapping[str, object]], None] = lambda event: None
    shown_as: Callable[[Path], str] = str
    explain: Callable[[str], str] = lambda output: ""
    running: Callable[[str, Path], None] = lambda command, output: None
    timeout: float = 120.0
    longest: float = 3600.0
    budget: int = SHOWN_BYTES
    keep: int = 64 * 1024 * 1024
    keep_total: int = 1024 * 1024 * 1024
    background: dict[str, Command] = field(default_factory=dict)
    reported: set[str] = field(default_factory=set)  # background commands whose end is known to the model
    settled: set[str] = field(default_factory=set)  # commands whose changes were seen after their end

    def time_limit(self, text: str) -> float:
        """The seconds for timeout="TEXT", or what is left of the run if that is less. Raises UsageError."""
        text = text.strip().removesuffix("s").strip()
        if text and (not re.fullmatch(r"\d{1,6}(\.\d+)?", text) or not 0 < float(text) <= self.longest):
            raise UsageError(f'timeout="{text}": use a number of seconds, at most {self.longest:g}.')
        return self.within_run(float(text) if text else self.timeout)

    def within_run(self, seconds: float) -> float:
        """`seconds`, or what is left of the run if that is less."""
        remaining = self.seconds_left()
        return seconds if remaining is None else max(0.1, min(seconds, remaining))

    def start(
        self,
        job: Job,
        argv: Sequence[str],
        file: Path,
        keep: int,
        variables: Mapping[str, str] = MappingProxyType({}),
    ) -> Command:
        """Start `argv` for `job` in its sandbox, with `variables` added to its environment. At most `keep` bytes of its
        output, and the end, go to `file`. Raises OSError."""
        report = file.with_name(f".{file.stem.removeprefix('.')}.why")
        env = {**environment(self.env), **variables, **(self.unshown() if job.may != "all" else {})}
        command = Command(job, self.wrap(argv, report, job.may), file, env, keep)

        def why() -> str | None:
            reason = self.why_ended(report)
            report.unlink(missing_ok=True)
            return reason

        command.why = why
        return command

    def look_before(self, job: Job) -> Callable[[], str]:
        """As `look`, but does nothing if neither the command nor one in the background can write."""
        if job.may == "read" and all(command.has_ended() for command in self.background.values()):
            return lambda: ""
        return self.look()

    def look(self) -> Callable[[], str]:
        """Take a snapshot of the files. The result takes another one, and returns which files changed in between, or
        before while a command ran in the background."""
        since = [name for name in self.background if name not in self.settled]
        self.settled.update([name for name in since if self.background[name].has_ended()])
        return self.watch(any(self.background[name].job.may != "read" for name in since))

    def notices(self) -> list[str]:
        """A sentence for each background command that has ended since the last call, and the changed files."""
        sentences = []
        for name, command in self.background.items():
            if command.has_ended() and self.report(name):
                sentences.append(
                    f"The background command {name} ({command.label}) has ended: {command.how()}."
                )
        if sentences and (changed := self.look()()):
            sentences.append(changed)
        return sentences

    def report(self, name: str) -> bool:
        """Record the end of a background command; False if it is recorded already."""
        if name in self.reported:
            return False
        self.reported.add(name)
        self.audit({**self.background[name].record(), "background": name})
        return True

    def close(self) -> None:
        """End all background commands."""
        for name, command in self.background.items():
            if not command.has_ended():
                command.end()
            self.report(name)

    def next_name(self) -> str:
        """The id of the next background command, also unused by earlier processes of this run."""
        earlier = [
            int(match[1]) for file in self._outputs() if (match := re.match(r"\d+-b(\d+)-", file.name))
        ]
        return f"b{max([*earlier, *(int(name[1:]) for name in self.background)], default=0) + 1}"

    def earlier(self, name: str) -> Path | None:
        """The output file of a background command of an earlier process of this run."""
        pattern = re.compile(rf"\d+-{re.escape(name)}-")
        return next((file for file in self._outputs() if pattern.match(file.name)), None)

    def next_file(self, label: str) -> Path:
        """Create an empty output file. Raises OSError."""
        self.folder.mkdir(parents=True, exist_ok=True)
        slug = re.sub(r"[^A-Za-z0-9]+", "-", label).strip("-").lower()[:32].rstrip("-") or "command"
        numbers = [int(file.name.split("-")[0]) for file in self._outputs()]
        number = max(numbers, default=0) + 1
        while True:
            path = self.folder / f"{number:03}-{slug}.txt"
            try:
                path.open("xb").close()
            except FileExistsError:
                number += 1
            else:
                path.chmod(0o600)
                return path

    def remaining_bytes(self) -> int:
        """The number of bytes of the next output to save."""
        return max(0, min(self.keep, self.keep_total - sum(file.stat().st_size for file in self._outputs())))

    def _outputs(self) -> list[Path]:
        try:
            return sorted(file for file in self.folder.iterdir() if re.match(r"\d+-", file.name))
        except FileNotFoundError:
            return []


_EDITORS = {
    "vi", "vim", "nvim", "nano", "pico", "joe", "micro", "helix", "hx", "kak", "gedit", "code",
    "mcedit", "view",
}  # fmt: skip
_PAGERS = {"less", "more", "most"}
_SCREENS = {
    "top", "htop", "btop", "watch", "tmux", "screen", "mc", "tig", "lazygit", "ranger", "nmtui",
    "whiptail", "dialog",
}  # fmt: skip
_LOGINS = {"ssh", "sftp", "ftp", "telnet", "su", "passwd", "login", "mosh"}
# Programs that read commands from standard input by default.
_REPLS = {
    "python", "python3", "ipython", "node", "irb", "ghci", "lua", "bc", "psql", "mysql", "mariadb",
    "sqlite3", "php", "perl", "ruby", "R", "julia", "erl", "iex", "scala", "jshell", "redis-cli",
    "mongosh", "bash", "sh", "zsh", "dash", "deno",
}  # fmt: skip
_CLIENTS = {"psql", "mysql", "mariadb", "redis-cli", "mongosh"}
_HISTORY = {
    "commit", "push", "checkout", "switch", "merge", "rebase", "cherry-pick", "revert", "am", "pull",
    "add", "rm", "mv", "update-ref", "filter-branch", "gc", "prune", "fetch", "restore", "reset",
    "stash", "notes", "replace",
}  # fmt: skip


def unfit(reading: Reading, *, git_is_read_only: bool) -> str:
    """Why a command of `reading` cannot work here, and what to do instead; else "". git_is_read_only: the sandbox
    protects `.git`."""
    for command in reading.commands:  # git may write in another folder
        if command.name in {"cd", "pushd"}:
            git_is_read_only = False
        if command.name == "git" and _verb(command.texts)[0] in {"init", "clone", "-C"}:
            git_is_read_only = False
    for command in reading.commands:
        name, words = command.name.rpartition("/")[2], command.texts
        if {"--version", "--help", "-V", "-h"}.intersection(words):
            continue
        reason = (
            _git(words, git_is_read_only=git_is_read_only)
            if name == "git"
            else _waits(name, words, fed=command.fed)
        )
        if reason:
            return f"`{command.raw}` was not run: {reason}"
    return ""


def _waits(name: str, words: list[str], *, fed: bool) -> str:
    options = [word for word in words if word != "-"]
    if name in _EDITORS or (name == "emacs" and not {"--batch", "-batch"} & set(words)):
        return "an editor needs a user. Change files with a patch."
    if name in _PAGERS:
        return "a pager needs a user. Leave it out: long output is shortened for you and saved in a file."
    if name in _SCREENS and not (name == "top" and _any(words, r"-[a-z]*b[a-z]*\d*")):
        return "it needs a full-screen terminal. Use a command that prints and exits (`ps`, a loop with `sleep`)."
    if name in _LOGINS:
        return "it needs a user at a terminal."
    if name in {"sudo", "doas"} and not _any(words, r"-[a-zA-Z]*n[a-zA-Z]*|--non-interactive"):
        return "it would ask for a password. Do without, or use `sudo -n`."
    if name not in _REPLS or fed:
        return ""
    if name in _CLIENTS:
        one_shot = _any(words, r"(-(c|f|e|l)|--(command|file|execute|eval|list)).*")
        asks = not one_shot and (name != "redis-cli" or not options)
    elif name == "sqlite3":
        asks = len([word for word in options if not word.startswith("-")]) < 2
    else:
        asks = all(re.fullmatch(r"-[iqs]", word) for word in options)
    if asks:
        return "it waits for input. Give it a script, or pass its input as a here-document (<<'EOF')."
    return ""


def _git(words: list[str], *, git_is_read_only: bool) -> str:
    verb, rest = _verb(words)
    opens = _any(rest, r"-i|--interactive|-p|--patch|-e|--edit")
    if verb in {"rebase", "add", "checkout", "reset", "stash", "restore", "commit", "clean"} and opens:
        return "it opens an editor or asks questions, and there is no user to answer."
    if git_is_read_only and verb in _HISTORY and not (verb == "stash" and rest[:1] in (["list"], ["show"])):
        return (
            "commands cannot change what git stores. Edit the files: repoagent commits at the end. To see "
            "an older version, use `git show COMMIT:FILE`."
        )
    message = r"-[a-zA-Z]*[mFC].*|--(message|file|reuse-message|no-edit|fixup|squash|template).*"
    if verb == "commit" and not _any(rest, message):
        return "it opens an editor for the message; use `git commit -m`."
    return ""


def _verb(words: list[str]) -> tuple[str, list[str]]:
    """The subcommand of git and the words after it; the first option if it is not known, such as -C."""
    while words and words[0] in {"--no-pager", "-P", "--no-optional-locks", "--literal-pathspecs"}:
        words = words[1:]
    while len(words) > 2 and words[0] == "-c":
        words = words[2:]
    return (words[0], words[1:]) if words else ("", [])


def _any(words: list[str], pattern: str) -> bool:
    return any(re.fullmatch(pattern, word) for word in words)
