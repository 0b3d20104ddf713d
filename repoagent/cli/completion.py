"""`repoagent completion`, and the completion itself: `answer` reads the line that the shell sends, has click find the
parameter at the cursor, and prints the candidates in the format of the shell.

PARAMETERS maps the word in the help (FILE, REV, SPEC) to the function that finds the values of a parameter. Such a
function yields (value, description) for the text typed so far; it runs at most one git command or reads one file, and
yields nothing on an error.
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

SHELLS = ("bash", "zsh", "fish")
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
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print the completion script of SHELL: bash, zsh or fish."""
    ctx.ensure_object(Session).terminal().styled(script(shell))


def script(shell: str) -> str:
    """The completion script of `shell`."""
    return Path(__file__).parent.joinpath("completions", f"repoagent.{shell}").read_text(encoding="utf-8")


# The values of parameters

Candidates = Iterable[tuple[str, str]]
Find = Callable[[str], Candidates]
INCOMPLETE_ENDS = ("/", ":", "=", "..")  # after which the shell adds no space
MAX_NAMES = 500  # of branches, tags and runs
_HEADS = ("HEAD", "HEAD~", "HEAD^", "ORIG_HEAD", "FETCH_HEAD", "MERGE_HEAD")
_REFS = {"refs/heads/": "branch", "refs/tags/": "tag", "refs/remotes/": "remote branch"}


def files(incomplete: str, *, folders_only: bool = False) -> Candidates:
    """Names of files in a folder; names of folders end with a slash."""
    folder, slash, begin = incomplete.rpartition("/")
    try:
        names = os.scandir(Path(folder + slash).expanduser() if folder + slash else ".")
        entries = sorted(names, key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        hidden = entry.name.startswith(".") and not begin.startswith(".")
        if entry.name.startswith(begin) and not hidden and (entry.is_dir() or not folders_only):
            yield f"{folder}{slash}{entry.name}{'/' * entry.is_dir()}", ""


def revisions(incomplete: str) -> Candidates:
    """HEAD, branches, tags and remote branches, also after the dots of a range."""
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
    escaped = re.sub(r"[*?[\\]", r"\\\g<0>", begin)
    is_full = begin.startswith("refs/")
    patterns = [f"{kind}{escaped}{end}" for kind in ([""] if is_full else _REFS) for end in ("*", "*/**")]
    refs = git(Path.cwd(), "for-each-ref", f"--count={MAX_NAMES}", "--format=%(refname)", *patterns)
    for ref in os.fsdecode(refs).splitlines():
        if is_full:
            yield f"{head}{ref}", ""
        elif not ref.endswith("/HEAD"):
            kind = next(kind for kind in _REFS if ref.startswith(kind))
            yield f"{head}{ref.removeprefix(kind)}", _REFS[kind]


def models(incomplete: str) -> Candidates:
    """Aliases, configured and known models, and prefixes such as `command:`."""
    from repoagent.config.layers import load
    from repoagent.llm.catalog import names
    from repoagent.llm.registry import PROVIDERS, parse_spec

    provider, name, path = parse_spec(incomplete)
    if provider.argument == "file":
        return [(f"{name}{provider.separator}{file}", "") for file, _ in files(path)]
    candidates = names()
    candidates |= {
        f"{name}{entry.separator}": entry.summary for name, entry in PROVIDERS.items() if entry.summary
    }
    try:
        settings = load(None)  # also finding the repository's configuration would take twice as long
        candidates |= dict.fromkeys(settings.family("models"), "configured")
        candidates |= settings.names("alias")
    except RepoagentError:  # a broken configuration has no aliases
        pass
    return candidates.items()


def keys(incomplete: str) -> Candidates:
    """Keys of options."""
    from repoagent.config.options import OPTIONS

    return ((option.key, option.doc) for option in OPTIONS)


def _rules(incomplete: str) -> Candidates:
    from repoagent.review.rules import RULES

    return ((name, rule.line) for name, rule in RULES.items())


def _edits(incomplete: str) -> Candidates:
    """The edits of this work tree, newest first, by the id that undo takes."""
    from repoagent.storage.json_files import read_records

    layout = find_layout()
    entries = [] if layout is None else list(read_records(layout.edits, warn=lambda sentence: None))
    by_id: dict[str, str] = {}
    for entry in reversed(entries):
        if "id" in entry:
            by_id.setdefault(str(entry["id"]), " ".join(map(str, entry.get("paths", ()))))
    return by_id.items()


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


def _languages(incomplete: str) -> Candidates:
    from repoagent.syntax.languages import LANGUAGES

    return ((name, "") for name in sorted(LANGUAGES))


def _symbol_kinds(incomplete: str) -> Candidates:
    from repoagent.cli.commands.outline import KINDS

    return ((name, "") for name in KINDS)


# by the word in the help, or the name of the parameter in capitals; "file" and "dir" are completed by the shell
PARAMETERS: Mapping[str, Find | str] = {
    **dict.fromkeys(("FILE", "PATH", "INDEX", "ARCHIVE"), "file"),
    **dict.fromkeys(("DIR", "FOLDER"), "dir"),
    **dict.fromkeys(("REV", "REF", "RANGE", "COMMIT"), revisions),
    **dict.fromkeys(("SPEC", "MODEL"), models),
    "RULE": _rules,
    "LANGUAGE": _languages,
    "KIND": _symbol_kinds,
    "KEY": keys,
    "EDIT": _edits,
    "RUN": runs,
}
# (command, parameter) for which the word is misleading
EXCEPTIONS: Mapping[tuple[str, str], Find | str | None] = {
    ("test", "name"): models,
    ("outline", "language"): _languages,
    ("split", "language"): _languages,
    ("edit", "sign"): None,
    ("apply", "sign"): None,
}


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
            if value.startswith(incomplete)
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
    """The function that finds the values of `param`; None if its type does (a choice), and for free text."""
    if isinstance(param, click.Option) and (param.is_flag or param.count):
        return None
    if not isinstance(param.type, (click.types.StringParamType, click.Path)):
        return None
    name = param.name or ""
    if (command, name) in EXCEPTIONS:
        return EXCEPTIONS[command, name]
    words = re.findall(r"[A-Z]{2,}", param.metavar or "") or [name.upper()]
    default = "file" if isinstance(param.type, click.Path) else None
    return next(
        (PARAMETERS[word] for word in (*words, name.upper().rstrip("S")) if word in PARAMETERS), default
    )


# The line, as the shell sends it

_ESCAPABLE = '$`"\\'  # in double quotes; before another character a backslash is literal
_PLAIN = frozenset("_./@%+,:=^{}~-")  # with letters, digits and non-ASCII characters
_GIT_OPTIONS = (  # of git itself, with a value in the next word
    "-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path", "--super-prefix", "--config-env",
)  # fmt: skip


class Typed(NamedTuple):
    """The `words` before the one at the cursor (`incomplete`), all unquoted; `quote` is the open quotation mark, or "".
    `prefix` is the number of characters of `incomplete` that the shell does not replace: bash replaces only what
    follows the last of COMP_WORDBREAKS.
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


def after_program(words: list[str]) -> tuple[list[str], tuple[str, ...]] | None:
    """The words after `repoagent`, or `git [OPTION...] repoagent`, and the folders of all -C options, including git's;
    None for another command of git."""
    if not words:
        return None
    at, git_words = 0, []
    if words[0].rpartition("/")[2] == "git":
        at = 1
        while at < len(words) and words[at].startswith("-"):
            at += 2 if words[at] in _GIT_OPTIONS else 1
        if at >= len(words) or words[at] != "repoagent":
            return None
        git_words = words[1:at]
    arguments = words[at + 1 :]
    options = git_words + (arguments[: arguments.index("--")] if "--" in arguments else arguments)
    folders: list[str] = []
    for number, word in enumerate(options):
        if word.startswith("-C"):
            folders += options[number + 1 : number + 2] if word == "-C" else [word[2:]]
    return arguments, tuple(filter(None, folders))


# The answer


def answer(cli: click.Command, name: str, instruction: str) -> int:
    """Do what the shell asks: `bash_source` prints the script of that shell, `bash_complete` the candidates for the
    line in COMP_WORDS. Returns the exit code, 2 for an unknown instruction. There are no candidates for an invalid
    line or on an error, such as a missing repository."""
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
    arguments, folders = line
    try:
        for folder in folders:
            os.chdir(folder)
        # the shell completes files in its own folder only, and fish does not complete after an open quote
        list_files = shell == "fish" or bool(folders)
        items = list(_candidates(cli, name, arguments, typed.incomplete, list_files=list_files))
    except (RepoagentError, OSError, click.ClickException):
        return 0
    for item in items:
        if item.type in ("file", "dir") or item.value.isprintable():
            sys.stdout.write(f"{_output(shell, item, typed)}\n")
    return 0


def _candidates(
    cli: click.Command, name: str, arguments: list[str], incomplete: str, *, list_files: bool
) -> Iterator[CompletionItem[str]]:
    """The candidates for `incomplete`, with the text before a `=`. The user goes on typing after a candidate of type
    "part"; for the types "file" and "dir" the shell lists names itself, unless `list_files`."""
    option, equals, _ = incomplete.partition("=")
    head = f"{option}=" if equals and option.startswith("--") and "--" not in arguments else ""
    for item in ShellComplete(cli, {}, name, "").get_completions(arguments, incomplete):
        if item.type not in ("file", "dir"):
            yield CompletionItem(head + item.value, item.type, item.help)
        elif list_files:
            for value, _ in files(incomplete[len(head) :], folders_only=item.type == "dir"):
                yield CompletionItem(head + value, "part" if value.endswith("/") else "plain")
        else:
            yield item


def _output(shell: str, item: CompletionItem[str], typed: Typed) -> str:
    """A candidate in the format of the shell's script: a line, or three for zsh."""
    by_shell = item.type in ("file", "dir")
    line = " ".join((item.help or "").split())
    if shell == "bash":
        return f"{item.type},{'' if by_shell else quoted(item.value[typed.prefix :], typed.quote)}"
    if shell == "fish":
        return f"{item.value}\t{line}".rstrip("\t")
    option, equals, _ = typed.incomplete.partition("=")
    cut = len(option + equals) if typed.incomplete.startswith("--") and equals else 0
    return f"{item.type}\n" + ("\n" if by_shell else f"{item.value[cut:]}\n{line}")
