"""`repoagent completion`, and the completion itself: `answer` reads the line that the shell sends, has click find the
parameter at the cursor, and prints the candidates in the form of the shell.

PARAMETERS tells from the word in the help (FILE, REV, SPEC) which function finds the values of a parameter. Such a
function gives (value, description) for what is typed so far; it runs at most one git command or reads one file, and
gives nothing on an error.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import click
from click.shell_completion import CompletionItem, ShellComplete

from repoagent.cli.session import Session, find_layout
from repoagent.errors import RepoagentError

EPILOG = """\b
Examples:
  # bash, with the package bash-completion
  folder=~/.local/share/bash-completion/completions; mkdir -p $folder
  repoagent completion bash | tee $folder/{,git-}repoagent > /dev/null
  # zsh, with fpath+=~/.zfunc before compinit in ~/.zshrc
  mkdir -p ~/.zfunc; repoagent completion zsh > ~/.zfunc/_git-repoagent
  # fish
  set folder ~/.config/fish/completions; mkdir -p $folder
  repoagent completion fish | tee $folder/{,git-}repoagent.fish > /dev/null

Completes commands, options, files, revisions, models, runs and keys of options after `repoagent` and
`git repoagent`. It does not use the network."""


@click.command(epilog=EPILOG)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print the completion script of SHELL: bash, zsh or fish."""
    ctx.ensure_object(Session).terminal().styled(script(shell))


Candidates = Iterator[tuple[str, str]]
INCOMPLETE_ENDS = ("/", ":", "=", "..")  # after which the shell adds no space
MAX_NAMES = 500  # of branches, tags and runs
_HEADS = ("HEAD", "HEAD~", "HEAD^", "ORIG_HEAD", "FETCH_HEAD", "MERGE_HEAD")


def files(incomplete: str, *, folders_only: bool = False) -> Iterator[tuple[str, bool]]:
    """Names of files in a folder, and whether more may follow: after the slash of a folder."""
    folder, slash, begin = incomplete.rpartition("/")
    try:
        names = os.scandir(Path(folder + slash).expanduser() if folder + slash else ".")
        entries = sorted(names, key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        hidden = entry.name.startswith(".") and not begin.startswith(".")
        if hidden or not entry.name.startswith(begin):
            continue
        if entry.is_dir():
            yield f"{folder}{slash}{entry.name}/", True
        elif not folders_only:
            yield f"{folder}{slash}{entry.name}", False


def revisions(incomplete: str) -> Candidates:
    """HEAD, branches, tags and remote branches; also after the dots of a range."""
    from repoagent.git.process import git

    if ":" in incomplete:
        return
    before, dots, begin = incomplete.rpartition("..")
    if dots and begin.startswith("."):
        dots, begin = "...", begin[1:]
    head = f"{before}{dots}"
    if not head and begin.startswith("^"):
        head, begin = "^", begin[1:]
    for name in _HEADS[:3] if not begin else _HEADS:
        if name.startswith(begin):
            yield f"{head}{name}", ""
    escaped = "".join(f"\\{character}" if character in "*?[\\" else character for character in begin)
    kinds = {"refs/heads/": "branch", "refs/tags/": "tag", "refs/remotes/": "remote branch"}
    is_full = begin.startswith("refs/")
    patterns = [f"{kind}{escaped}{end}" for kind in ([""] if is_full else kinds) for end in ("*", "*/**")]
    refs = git(Path.cwd(), "for-each-ref", f"--count={MAX_NAMES}", "--format=%(refname)", *patterns)
    for ref in os.fsdecode(refs).splitlines():
        if is_full:
            yield f"{head}{ref}", ""
        elif not ref.endswith("/HEAD"):
            kind = next(kind for kind in kinds if ref.startswith(kind))
            yield f"{head}{ref.removeprefix(kind)}", kinds[kind]


def models(incomplete: str) -> Candidates:
    """Aliases, configured and known models, and prefixes such as `command:`."""
    from repoagent.config.layers import load
    from repoagent.llm.catalog import names
    from repoagent.llm.registry import PROVIDERS, parse_spec

    provider, name, path = parse_spec(incomplete)
    if provider.argument == "file":
        begin = f"{name}{provider.separator}"
        yield from ((f"{begin}{file}", "") for file, _ in files(path))
        return
    known = names()
    known |= {f"{name}{entry.separator}": entry.summary for name, entry in PROVIDERS.items() if entry.summary}
    try:
        settings = load(None)  # finding the repository's configuration would double the time
        known |= dict.fromkeys(settings.family("models"), "configured")
        known |= settings.names("alias")
    except RepoagentError:  # a broken configuration has no aliases
        pass
    yield from _starting(incomplete, known.items())


def _starting(incomplete: str, candidates: Iterable[tuple[str, str]]) -> Candidates:
    return ((value, line) for value, line in candidates if value.startswith(incomplete))


def keys(incomplete: str) -> Candidates:
    """Keys of options."""
    from repoagent.config.options import OPTIONS

    return _starting(incomplete, ((option.key, option.doc) for option in OPTIONS))


def rules(incomplete: str) -> Candidates:
    """Rules of the review."""
    from repoagent.review.rules import RULES

    return _starting(incomplete, ((name, rule.line) for name, rule in RULES.items()))


def edits(incomplete: str) -> Candidates:
    """The edits of this work tree, newest first, by the id that undo takes."""
    import json

    layout = find_layout()
    try:
        lines = [] if layout is None else layout.edits.read_bytes().splitlines()
        entries = [json.loads(line) for line in reversed(lines)]
    except (OSError, ValueError):
        return
    by_id: dict[str, str] = {}
    for entry in entries:
        if isinstance(entry, dict) and "id" in entry:
            by_id.setdefault(str(entry["id"]), " ".join(map(str, entry.get("paths", ()))))
    yield from _starting(incomplete, by_id.items())


def runs(incomplete: str) -> Candidates:
    """The runs, newest first, by name or by its last part."""
    from repoagent.tasks.runs.list import runs as all_runs

    layout = find_layout()
    recent = [] if layout is None else all_runs(layout, warn=None)
    for run in recent[:MAX_NAMES]:
        if run.name.startswith(incomplete):
            yield run.name, run.record.prompt
        elif run.short.startswith(incomplete):
            yield run.short, run.record.prompt
    if recent and "last".startswith(incomplete):
        yield "last", "the newest"


def languages(incomplete: str) -> Candidates:
    """Languages with a grammar."""
    from repoagent.syntax.languages import LANGUAGES

    return _starting(incomplete, ((name, "") for name in sorted(LANGUAGES)))


def symbol_kinds(incomplete: str) -> Candidates:
    """Kinds of definitions."""
    from repoagent.cli.commands.outline import KINDS

    return _starting(incomplete, ((name, "") for name in KINDS))


Find = Callable[[str], Iterable[tuple[str, str]]]

# by the word in the help, or the name of the parameter in capitals; "file" and "dir" are completed by the shell
PARAMETERS: Mapping[str, Find | str] = {
    **dict.fromkeys(("FILE", "PATH", "INDEX", "ARCHIVE"), "file"),
    **dict.fromkeys(("DIR", "FOLDER"), "dir"),
    **dict.fromkeys(("REV", "REF", "RANGE", "COMMIT"), revisions),
    **dict.fromkeys(("SPEC", "MODEL"), models),
    "RULE": rules,
    "LANGUAGE": languages,
    "KIND": symbol_kinds,
    "KEY": keys,
    "EDIT": edits,
    "RUN": runs,
}
# (command, parameter) where the word would mislead
EXCEPTIONS: Mapping[tuple[str, str], Find | str | None] = {
    ("test", "name"): models,
    ("outline", "language"): languages,
    ("split", "language"): languages,
    ("edit", "sign"): None,
    ("apply", "sign"): None,
}
_WORD = re.compile(r"[A-Z]{2,}")


class Completed(click.types.StringParamType):
    """A parameter that takes any text and is completed by `find`."""

    def __init__(self, find: Find | str) -> None:
        self.find = find

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem[str]]:
        if isinstance(self.find, str):
            return [CompletionItem(incomplete, type=self.find)]
        return [
            CompletionItem(value, "part" if value.endswith(INCOMPLETE_ENDS) else "plain", line)
            for value, line in self.find(incomplete)
        ]


def add_completion(command: click.Command) -> None:
    """Complete the parameters of `command` and of its subcommands."""
    for param in command.params:
        find = finder_of(param, command.name or "")
        if find is not None:
            param.type = Completed(find)
    if isinstance(command, click.Group):
        for inner in command.commands.values():
            add_completion(inner)


def finder_of(param: click.Parameter, command: str = "") -> Find | str | None:
    """What finds the values of `param`; None where its type does (a choice) and for free text."""
    if isinstance(param, click.Option) and (param.is_flag or param.count):
        return None
    if not isinstance(param.type, (click.types.StringParamType, click.Path)):
        return None
    name = param.name or ""
    if (command, name) in EXCEPTIONS:
        return EXCEPTIONS[command, name]
    words = _WORD.findall(param.metavar or "") or [name.upper()]
    for word in (*words, name.upper().rstrip("S")):
        if word in PARAMETERS:
            return PARAMETERS[word]
    return "file" if isinstance(param.type, click.Path) else None


_ESCAPABLE = '$`"\\'  # in double quotes; before another character a backslash is literal
_PLAIN = frozenset("_./@%+,:=^{}~-")  # with letters, digits and what is not ASCII


class Typed(NamedTuple):
    """The `words` before the one at the cursor (`incomplete`), all unquoted; `quote` is the open quotation mark, or "".
    `prefix` is how many characters of `incomplete` the shell keeps: bash replaces only what follows the last of
    COMP_WORDBREAKS.
    """

    words: list[str]
    incomplete: str
    quote: str = ""
    prefix: int = 0


def read(line: str, breaks: str = "") -> Typed:
    """Parse `line` up to the cursor as a shell does; `breaks` are the COMP_WORDBREAKS of bash."""
    words: list[str] = []
    word: list[str] = []
    quote, prefix, inside, escaped = "", 0, False, False
    for character in line:
        if escaped:
            if quote and character not in _ESCAPABLE:
                word.append("\\")
            word.append(character)
            escaped = False
        elif character == "\\" and quote != "'":
            inside = escaped = True
        elif quote:
            if character == quote:
                quote = ""
            else:
                word.append(character)
        elif character in "'\"":
            quote, prefix, inside = character, len(word), True
        elif character in " \t\n":
            if inside:
                words.append("".join(word))
            word, prefix, inside = [], 0, False
        else:
            word.append(character)
            inside = True
            if character in breaks:
                prefix = len(word)
    return Typed(words, "".join(word), quote, prefix)


def quoted(text: str, quote: str = "") -> str:
    """`text` escaped for bash, inside the open `quote` or outside quotes."""
    if quote == "'":
        return text.replace("'", "'\\''")
    if quote:
        return "".join(f"\\{c}" if c in _ESCAPABLE else c for c in text)
    escaped = "".join(c if c.isalnum() or c > "\x7f" or c in _PLAIN else f"\\{c}" for c in text)
    return f"\\{escaped}" if escaped.startswith("~") else escaped


SHELLS = ("bash", "zsh", "fish")
_GIT_OPTIONS = (  # of git itself, with a value in the next word
    "-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path", "--super-prefix", "--config-env",
)  # fmt: skip


class Line(NamedTuple):
    """The arguments of repoagent, and the folders of all -C options, git's included."""

    arguments: list[str]
    folders: tuple[str, ...] = ()


def answer(cli: click.Command, name: str, instruction: str) -> int:
    """Do what the shell asks: `bash_source` prints the script of that shell, `bash_complete` the candidates for the
    line in COMP_WORDS. Returns the exit code, 2 for an unknown instruction. An invalid line, and an error such as a
    missing repository, give no candidates."""
    shell, _, task = instruction.partition("_")
    if shell not in SHELLS or task not in ("source", "complete"):
        return 2
    if task == "source":
        sys.stdout.write(script(shell))
        return 0
    breaks = os.environ.get("COMP_WORDBREAKS", "") if shell == "bash" else ""
    typed = read(os.environ.get("COMP_WORDS", ""), breaks)
    line = after_program(typed.words)
    if line is None:
        return 0
    try:
        for folder in line.folders:
            os.chdir(folder or ".")
        # the shell looks for files in its own folder; and fish does not find names after an open quote
        list_files = shell == "fish" or bool(line.folders)
        items = list(candidates(cli, name, line, typed.incomplete, list_files=list_files))
    except (RepoagentError, OSError, click.ClickException):
        return 0
    sys.stdout.write("".join(f"{output}\n" for output in _FORMATS[shell](items, typed)))
    return 0


def script(shell: str) -> str:
    """The completion script of `shell`."""
    return Path(__file__).parent.joinpath("completions", f"repoagent.{shell}").read_text(encoding="utf-8")


def after_program(words: list[str]) -> Line | None:
    """What follows `repoagent`, or `git [OPTION...] repoagent`; None for another command of git."""
    if not words:
        return None
    folders: list[str] = []
    at = 0
    if words[0].rpartition("/")[2] == "git":
        at = 1
        while at < len(words) and words[at].startswith("-"):
            if words[at] == "-C":
                folders += words[at + 1 : at + 2]
            at += 2 if words[at] in _GIT_OPTIONS else 1
        if at >= len(words) or words[at] != "repoagent":
            return None
    arguments = words[at + 1 :]
    options = arguments[: arguments.index("--")] if "--" in arguments else arguments
    for number, word in enumerate(options):
        if word == "-C":
            folders += options[number + 1 : number + 2]
        elif word.startswith("-C"):
            folders.append(word[2:])
    return Line(arguments, tuple(folders))


def candidates(
    cli: click.Command, name: str, line: Line, incomplete: str, *, list_files: bool
) -> Iterator[CompletionItem[str]]:
    """The candidates for `incomplete`, with what is before a `=` in it. More may follow one of the type "part"; for
    the types "file" and "dir" the shell lists names itself, unless we `list_files`."""
    arguments = ["--" if word == "--end-of-options" else word for word in line.arguments]
    option, equals, _ = incomplete.partition("=")
    head = f"{option}=" if equals and option.startswith("--") and "--" not in arguments else ""
    for item in ShellComplete(cli, {}, name, "").get_completions(arguments, incomplete):
        if item.type not in ("file", "dir"):
            yield CompletionItem(head + item.value, item.type, item.help)
        elif list_files:
            for value, more in files(incomplete[len(head) :], folders_only=item.type == "dir"):
                yield CompletionItem(head + value, "part" if more else "plain")
        else:
            yield item


def _for_bash(items: list[CompletionItem[str]], typed: Typed) -> Iterator[str]:
    for item in items:
        if item.type in ("file", "dir"):
            yield f"{item.type},"
        elif item.value.isprintable():
            yield f"{item.type},{quoted(item.value[typed.prefix :], typed.quote)}"


def _for_zsh(items: list[CompletionItem[str]], typed: Typed) -> Iterator[str]:
    option = typed.incomplete.partition("=")[0]
    cut = len(option) + 1 if typed.incomplete.startswith("--") and "=" in typed.incomplete else 0
    for item in items:
        if item.type in ("file", "dir"):
            yield from (item.type, "", "")
        elif item.value.isprintable():
            yield from (item.type, item.value[cut:], _line(item.help))


def _for_fish(items: list[CompletionItem[str]], typed: Typed) -> Iterator[str]:
    for item in items:
        if item.value.isprintable():
            yield f"{item.value}\t{_line(item.help)}".rstrip("\t")


def _line(text: str | None) -> str:
    return " ".join((text or "").split())


_FORMATS: Mapping[str, Callable[[list[CompletionItem[str]], Typed], Iterator[str]]] = {
    "bash": _for_bash,
    "zsh": _for_zsh,
    "fish": _for_fish,
}
