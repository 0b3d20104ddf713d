"""`repoagent completion`, which prints click's completion script for a shell, and the completion of parameter values.

PARAMETERS maps a word in a parameter's metavar (FILE, REV, SPEC) to the function that finds the parameter's values.
Such a function yields (value, description) for the text typed so far; it runs at most one git command or reads one
file, and yields nothing on an error.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import click
from click.shell_completion import CompletionItem, shell_complete

from repoagent.cli.run_program import COMPLETE
from repoagent.cli.session import find_layout
from repoagent.errors import RepoagentError

SHELLS = ("bash", "zsh", "fish")
EPILOG = """\b
Examples:
  cd ~/.local/share/bash-completion/completions
  repoagent completion bash > repoagent
  repoagent completion zsh > ~/.zfunc/_repoagent
  repoagent completion fish > ~/.config/fish/completions/repoagent.fish

For zsh, put fpath+=~/.zfunc before compinit in ~/.zshrc."""


@click.command(epilog=EPILOG)
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print the completion script for a shell.

    It completes commands, options, files, revisions, models, runs and configuration keys, and does not use the network.
    """
    program = ctx.find_root()
    answer_shell(program.command, "repoagent", f"{shell}_source")


# The values of parameters

Candidates = Iterable[tuple[str, str]]
Find = Callable[[str], Candidates]
MAX_NAMES = 500  # of branches, tags and runs


def revisions(incomplete: str) -> Candidates:
    """HEAD, branches, tags and remote branches, also after the dots in a range."""
    from repoagent.git.process import git

    before, dots, begin = incomplete.rpartition("..")
    if dots and begin.startswith("."):
        dots, begin = "...", begin[1:]
    escaped = re.sub(r"[*?[\\]", r"\\\g<0>", begin)
    patterns = [f"{kind}{escaped}{end}" for kind in _REFS for end in ("*", "*/**")]
    refs = git(Path.cwd(), "for-each-ref", f"--count={MAX_NAMES}", "--format=%(refname)", *patterns)
    for name in ("HEAD", "HEAD~", "HEAD^"):
        yield f"{before}{dots}{name}", ""
    for ref in os.fsdecode(refs).splitlines():
        kind = next(kind for kind in _REFS if ref.startswith(kind))
        yield f"{before}{dots}{ref.removeprefix(kind)}", _REFS[kind]


_REFS = {"refs/heads/": "branch", "refs/tags/": "tag", "refs/remotes/": "remote branch"}


def models(incomplete: str) -> Candidates:
    """Aliases, configured and known models, and prefixes such as `command:`."""
    from repoagent.config.layers import load_settings
    from repoagent.llm.catalog import model_names
    from repoagent.llm.registry import PROVIDERS

    candidates = model_names()
    candidates |= {
        f"{name}{entry.separator}": entry.summary for name, entry in PROVIDERS.items() if entry.summary
    }
    try:
        settings = load_settings(None)  # also finding the repository's configuration would take twice as long
        candidates |= dict.fromkeys(settings.family("models"), "configured")
        candidates |= settings.names("alias")
    except RepoagentError:  # a broken configuration has no aliases
        pass
    return candidates.items()


def keys(incomplete: str) -> Candidates:
    """The keys of all options, with their descriptions."""
    from repoagent.config.options import OPTIONS

    return ((option.key, option.doc) for option in OPTIONS)


def runs(incomplete: str) -> Candidates:
    """The runs, newest first, by their names or the last parts of their names."""
    from repoagent.tasks.runs.list import list_runs as all_runs

    layout = find_layout()
    recent = [] if layout is None else all_runs(layout, warn=None)
    for run in recent[:MAX_NAMES]:
        if run.name.startswith(incomplete):
            yield run.name, run.record.prompt
        elif run.short.startswith(incomplete):
            yield run.short, run.record.prompt
    if recent and "last".startswith(incomplete):
        yield "last", "the newest"


# by the word in the help, or the name of the parameter in capitals; "file" and "dir" are completed by the shell
PARAMETERS: Mapping[str, Find | str] = {
    **dict.fromkeys(("FILE", "PATH", "INDEX", "ARCHIVE"), "file"),
    **dict.fromkeys(("DIR", "FOLDER"), "dir"),
    **dict.fromkeys(("REV", "REF", "RANGE", "COMMIT"), revisions),
    **dict.fromkeys(("SPEC", "MODEL"), models),
    "KEY": keys,
    "RUN": runs,
}


class Completed(click.types.StringParamType):
    """The type of a parameter that takes any text and is completed by `find`."""

    def __init__(self, find: Find | str) -> None:
        self.find = find

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem[str]]:
        if isinstance(self.find, str):
            return [CompletionItem(incomplete, type=self.find)]
        return [
            CompletionItem(value, help=line)
            for value, line in self.find(incomplete)
            if value.startswith(incomplete)
        ]


def add_completion(command: click.Command) -> None:
    """Add completion to the parameters of `command` and of its subcommands."""
    for param in command.params:
        if (find := finder_of(param)) is not None:
            param.type = Completed(find)
    for inner in getattr(command, "commands", {}).values():
        add_completion(inner)


def finder_of(param: click.Parameter) -> Find | str | None:
    """The function that completes the values of `param`, or "file" or "dir" if the shell completes them; None if there
    is nothing to complete."""
    if isinstance(param, click.Option) and (param.is_flag or param.count or param.flag_value == ""):
        return None
    if not isinstance(param.type, (click.types.StringParamType, click.Path)):
        return None
    name = (param.name or "").upper()
    words = re.findall(r"[A-Z]{2,}", param.metavar or "") or [name]
    default = "file" if isinstance(param.type, click.Path) else None
    return next((PARAMETERS[word] for word in (*words, name.rstrip("S")) if word in PARAMETERS), default)


def answer_shell(cli: click.Command, name: str, instruction: str) -> int:
    """Do what the shell asks, and return the exit code, which is 1 for an unknown instruction.

    `bash_source` prints the script for bash, `bash_complete` the candidates for the line in COMP_WORDS. If an error
    occurs, such as a missing repository, there are no candidates.
    """
    try:
        return shell_complete(cli, {}, name, COMPLETE, instruction)
    except (RepoagentError, OSError, click.ClickException):
        return 0
