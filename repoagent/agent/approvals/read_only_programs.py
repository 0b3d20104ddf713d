"""Programs that only read unless certain options are used, and which those are."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence

from repoagent.agent.approvals.shell_ast import Word

Words = tuple[Word, ...]

_GIT_READS = """
status log diff show blame ls-files ls-tree rev-parse rev-list shortlog describe grep merge-base name-rev diff-tree
whatchanged cherry count-objects show-ref
"""
GIT_READS = frozenset(_GIT_READS.split())  # what of git only reads, whatever revisions and paths it is given
# What makes git run another program or write any file; also abbreviated.
_GIT_RUNS: tuple[str, ...] = ("--output", "--ext-diff", "--textconv", "--open-files-in-pager", "--exec")
_GIT_RUNS += ("--show-signature", "--upload-pack", "--receive-pack", "--unsafe-paths", "--no-index")
# And what else makes it do more than read, or look at files that are not of the repository.
_GIT_NEVER: tuple[str, ...] = (*_GIT_RUNS, "--paginate", "--filters", "--batch", "--contents")
# What shows the content of files that git was told to take for binary, or names objects where nobody reads them.
_GIT_NEVER += ("--text", "--binary", "--submodule", "--stdin")
_OPENS = re.compile(r"-[A-Za-z]*O")
_RG_RUNS = re.compile(r"--pre|--hostname-bin|--search-zip|-[A-Za-z0-9]*z")
_AS_TEXT = re.compile(r"-[bcdhilmprtuwzRW0-9]*a")
_PATCHES = {"show", "log", "diff", "grep", "whatchanged", "diff-tree", "stash", "reflog"}
_FIND_NEVER = re.compile(r"-(delete|fprint.*|fls|ok(dir)?|exec(dir)?|files0-from)")
_RG_NEVER = re.compile(r"--(pre|hostname|search-zip|no-config).*|-[A-Za-z0-9]*z.*")
_SORT = re.compile(
    r"-[bdfghikMnrRuVcCsz0-9.,t:]+|-k\S+|--(numeric|reverse|unique|ignore|human|version)[a-z-]*"
)


def obeys(words: Sequence[Word], meant: Collection[str]) -> bool:
    """Whether a word of a command, but those that are `meant`, makes or may make a program that otherwise does one
    thing run another one, or write any file: no pattern that leaves its words open says that."""
    left = [word for word in words[1:] if not word.literal or word.text not in meant]
    if words[0].text == "git":
        verb = next((word.text for word in words[1:] if not word.text.startswith("-")), "")
        return any(word.kind == "open" or _runs_or_writes(word.text, verb) for word in left)
    return words[0].text == "rg" and any(word.kind == "open" or _RG_RUNS.match(word.text) for word in left)


def _runs_or_writes(text: str, verb: str) -> bool:
    name = text.partition("=")[0]
    if name.startswith("--"):
        return len(name) > 2 and any(name.startswith(one) or one.startswith(name) for one in _GIT_RUNS)
    return verb == "grep" and _OPENS.match(text) is not None


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
    return verb in _PATCHES and _AS_TEXT.match(text) is not None


def _find(words: Words) -> bool:
    return not any(_FIND_NEVER.fullmatch(word.text) for word in words)


def _rg(words: Words) -> bool:
    return not any(_RG_NEVER.fullmatch(word.text) for word in words)


def _sort(words: Words) -> bool:
    return all(_SORT.fullmatch(word.text) if word.text.startswith("-") else word.literal for word in words)


def _one_file(words: Words) -> bool:
    """`uniq`, whose second file is written to."""
    options = [word for word in words if word.text.startswith("-")]
    return len(words) - len(options) <= 1 and all(re.fullmatch(r"-[cdDuiz]+", word.text) for word in options)


def _tree(words: Words) -> bool:
    return not any(re.match(r"-[A-Za-z]*[oR]|--output", word.text) for word in words)


def _date(words: Words) -> bool:
    return all(re.match(r"\+|-[uRI]", word.text) for word in words)


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


def _du(words: Words) -> bool:
    return not any(word.text.startswith("--files0") for word in words)


JUDGED: dict[str, Callable[[Words], bool]] = {
    "cd": _cd,
    "git": _git,
    "find": _find,
    "rg": _rg,
    "sort": _sort,
    "uniq": _one_file,
    "tree": _tree,
    "date": _date,
    "file": _file,
    "printf": _printf,
    "sed": _sed,
    "du": _du,
}
