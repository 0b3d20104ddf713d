"""Find changes that need a second confirmation, and changes that a diff does not show.

A confirmation is needed for mass deletions and for changes to secrets or to files that git, a server, an editor or an
agent runs. Build files and tests are not listed, because they run only when a user runs them; a listed file takes
effect on a commit, a push or a checkout, or when a folder is opened.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from repoagent.dataclass import dataclass
from repoagent.display_text import list_some
from repoagent.edit.guards.off_limits import IgnoreFile
from repoagent.git.files import EXECUTABLE, FileChange
from repoagent.git.process import git_output
from repoagent.git.worktree import WorkTree
from repoagent.patch.model import decode_text
from repoagent.storage.secrets import secrets_of

BY_HOOKS = "is run by git's hooks"
BY_EDITORS = "is run or read by an editor or a shell that opens the folder"
BY_AGENTS = "is run or read by coding agents"
ON_OPENING = (BY_EDITORS, BY_AGENTS)
RUN_BY_GIT = "is run by git ("  # the beginning of the reason for a file in the command line of a git setting

LEFTHOOK = tuple(  # lefthook reads any of them, and the -local one in addition
    f"{name}{local}.{end}"
    for name in ("lefthook", ".lefthook")
    for local in ("", "-local")
    for end in ("yml", "yaml", "toml", "json")
)

# Reasons and files. A name matches in every folder, a path from the top; a name with a final / everything below.
LIST: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("decides which filters, diff and merge programs git runs", (".gitattributes", ".lfsconfig")),
    ("decides what git fetches and checks out", (".gitmodules",)),
    ("can set any git option", (".gitconfig",)),
    (
        BY_HOOKS,
        (
            ".husky/", ".githooks/", ".lefthook/", ".pre-commit-config.yaml", ".overcommit.yml",
            *LEFTHOOK,
        ),
    ),
    (
        "is run by a server after a push",
        (
            ".github/workflows/", ".github/actions/", ".gitea/workflows/", ".forgejo/workflows/", ".gitlab-ci.yml",
            ".gitlab/ci/", ".circleci/", ".buildkite/", ".woodpecker/", ".woodpecker.y*ml", ".drone.yml", ".cirrus.yml",
            ".travis.yml", "appveyor.yml", ".appveyor.yml", "Jenkinsfile", "azure-pipelines*.y*ml", ".azure-pipelines/",
            "bitbucket-pipelines.yml", "netlify.toml", "cloudbuild.y*ml", "buildspec.y*ml", ".tekton/",
            "dependabot.y*ml",
        ),
    ),
    (
        "decides who must approve a change",
        ("CODEOWNERS", ".github/CODEOWNERS", ".gitlab/CODEOWNERS", "docs/CODEOWNERS"),
    ),
    (
        BY_EDITORS,
        (
            ".envrc", ".vscode/tasks.json", ".vscode/settings.json", ".vscode/launch.json", ".vscode/mcp.json",
            "*.code-workspace", ".idea/", ".zed/", ".devcontainer/", ".devcontainer.json",
            ".mise.toml", ".mise/", "mise.toml", ".dir-locals.el", ".exrc", ".nvimrc", ".nvim.lua", ".vimrc", ".gvimrc",
            ".gdbinit", ".lldbinit", ".Rprofile",
        ),
    ),
    (
        BY_AGENTS,
        (
            "AGENTS.md", "AGENTS.override.md", "CLAUDE.md", "CLAUDE.local.md", "GEMINI.md", ".mcp.json", ".claude/",
            ".codex/", ".cursor*", ".cursor/", ".aider.conf.yml", ".gemini/", ".kiro/", ".windsurf/", ".windsurfrules",
            ".clinerules", ".clinerules/", ".github/copilot-instructions.md", "opencode.json", "opencode.jsonc",
            ".opencode/",
        ),
    ),
    ("decides which program a package manager runs", (".yarnrc.yml", ".yarnrc", ".pnpmfile.cjs")),
    ("decides which files repoagent reads and edits", (".repoagentignore",)),
)  # fmt: skip
_INVISIBLE = re.compile("[\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff]")
_RUNS = re.compile(
    r"(filter|diff|merge|mergetool|difftool|credential|gpg|alias|hook|interactive)\."
    r"|core\.(fsmonitor|sshcommand|editor|pager|askpass|gitproxy)$|sequence\.editor$"
)
_INCLUDES = re.compile(r"include(if\..*)?\.path$")
_OPTIONS = "can set any git option"
_WORD = re.compile(r"[^\s'\";|&()<>$`]+")
NAMED = 3
MASS, FEW = 10, 3  # deleted files: ask if there are more than MASS, never if less than FEW
# Characters that change the direction of text ("Trojan Source"), have no width or look blank (some are valid in names),
# or control a terminal; except the two joiners and two selectors that scripts and emoji need, and a byte-order mark at
# the beginning.
_UNSEEN = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f"
    "\u2800\u3164\ufe00-\ufe0d\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e007f\U000e0100-\U000e01ef]"
)
_CODES = 4  # invisible characters to list


@dataclass(frozen=True)
class Concern:
    """A reason to ask for a second confirmation of a change to `path`. `why` is the reason as a predicate, which
    follows the path in a sentence."""

    path: str
    why: str
    asked: bool = False  # the user named the file
    deletes: int = 0  # the deleted files that it stands for

    @property
    def sentence(self) -> str:
        return f"{self.path} {self.why}"


def find_concerns(
    changes: Sequence[FileChange], named: Collection[str], worktree: WorkTree, further: Sequence[str] = ()
) -> tuple[Concern, ...]:
    """The concerns about `changes`: sensitive files, values of secrets from the environment, and mass deletions.

    `named` are the files that the user named; concerns about them are marked as `asked`, except concerns about secret
    values. `further` has the user's own patterns, as in .gitignore.
    """
    paths = dict.fromkeys(path for change in changes for path in (change.old_path, change.path) if path)
    if not paths:
        return ()
    is_listed = IgnoreFile("\n".join(further).encode(), worktree.top).match_file if further else None
    folder, obeyed = obeyed_by_git(worktree)
    sensitive = []
    for path in paths:
        why = listed_reason(path)
        if why is None and is_listed is not None and is_listed(path):
            why = "is listed in edit.sensitive"
        if why is None and folder is not None and path.startswith(f"{folder}/"):
            why = BY_HOOKS
        if why := why or obeyed.get(path):
            sensitive.append(Concern(path, why, path in named))
    secrets = {name: value.encode("utf-8", "surrogateescape") for name, value in secrets_of().items()}
    for change in changes:
        for name, value in secrets.items():
            if value in (change.after or b"") and value not in (change.before or b""):
                why = f"would contain the value of the environment variable {name}"
                sensitive.append(Concern(change.name, why))
                break
    new = {change.after for change in changes if change.before is None}  # moved files are not deleted
    gone = [
        change.name
        for change in changes
        if change.path is None and change.before not in new and change.name not in named
    ]
    if len(gone) >= FEW and is_mass(len(gone), count_tracked(worktree)):
        why = f"is one of {len(gone)} files that this change deletes"
        sensitive.append(Concern(gone[0], why, deletes=len(gone)))
    return tuple(sensitive)


def is_mass(deleted: int, tracked: int) -> bool:
    """Whether deleting `deleted` of the `tracked` files needs a confirmation: more than ten files, or at least three if
    they are at least a tenth of all tracked files."""
    return deleted > MASS or (deleted >= FEW and deleted * 10 >= tracked)


def count_tracked(worktree: WorkTree) -> int:
    return git_output(worktree.top, "ls-files", "-z", "--cached", ok=(0, 128)).stdout.count(b"\0")


def concerns_text(sensitive: Sequence[Concern]) -> str:
    """The concerns as one sentence without a full stop."""
    return list_some([concern.sentence for concern in sensitive], NAMED, " and {} more like these")


def listed_reason(path: str) -> str | None:
    """The reason that LIST gives for a path; None if it is not listed. Names are compared as on the most permissive
    file system."""
    plain = "/".join(_INVISIBLE.sub("", part).split(":")[0].rstrip(". ").lower() for part in path.split("/"))
    name = plain.rsplit("/", 1)[-1]
    for why, patterns in LIST:
        for pattern in map(str.lower, patterns):
            if pattern.endswith("/"):
                if plain.startswith(pattern) or f"/{pattern}" in plain:
                    return why
            elif fnmatchcase(plain if "/" in pattern else name, pattern):
                return why
    return None


def obeyed_by_git(worktree: WorkTree, options: Sequence[str] = ()) -> tuple[str | None, dict[str, str]]:
    """The hooks folder and the other paths in the work tree that git, called with `options`, would run or read.

    The folder is None if it is outside the work tree. The other paths are mapped to the reason for each, whether or not
    they exist.
    """
    arguments = ("config", "-z", "--list", "--show-origin", "--includes")
    fields = os.fsdecode(git_output(worktree.top, *options, *arguments).stdout).split("\0")[:-1]
    obeyed: dict[str, str] = {}
    hooks = worktree.common_dir / "hooks"
    for origin, entry in zip(fields[::2], fields[1::2], strict=True):
        key, _, value = entry.partition("\n")
        if origin.startswith("file:"):
            file = origin.removeprefix("file:")
            target = os.path.expanduser(value)  # noqa: PTH111  (a Path raises for an unknown user)
            included = [str(Path(file).parent / target)] if _INCLUDES.match(key) else []
            obeyed |= {path: _OPTIONS for name in (file, *included) if (path := _inside(worktree, name))}
        if key == "core.hookspath":
            hooks = worktree.top / os.path.expanduser(value)  # noqa: PTH111  (a Path raises for an unknown user)
        elif key == "core.attributesfile" and (path := _inside(worktree, value)):
            obeyed[path] = "decides which filters, diff and merge programs git runs"
        elif _RUNS.match(key):
            words = (_inside(worktree, word) for word in _WORD.findall(value))
            obeyed |= {path: f"{RUN_BY_GIT}{key})" for path in words if path}
    try:
        entries = list(os.scandir(hooks))
    except OSError:  # no hooks folder, or git cannot read it either
        entries = []
    linked = (_inside(worktree, entry.path) for entry in entries if entry.is_symlink())
    obeyed |= {path: BY_HOOKS for path in linked if path}
    return _inside(worktree, str(hooks)), obeyed


def _inside(worktree: WorkTree, name: str) -> str | None:
    """The path in the work tree that `name` resolves to; None if it is outside, or in a git directory."""
    try:
        real = Path(os.path.realpath(worktree.top / os.path.expanduser(name)))  # noqa: PTH111
    except ValueError:  # not a file name
        return None
    if not real.is_relative_to(worktree.top) or real == worktree.top:
        return None
    if real.is_relative_to(worktree.git_dir) or real.is_relative_to(worktree.common_dir):
        return None
    return real.relative_to(worktree.top).as_posix()


def hidden_changes(changes: Iterable[FileChange]) -> Iterator[str]:
    """A sentence for each file to which invisible characters are added, or that becomes executable."""
    for change in changes:
        if change.path is None:
            continue
        after, before = decode_text(change.after or b""), decode_text(change.before or b"")
        if after is not None and after.encoding != "latin-1" and _UNSEEN.search("".join(after.lines)):
            added = Counter(after.lines) - Counter(before.lines if before is not None else ())
            if unseen := sorted({char for line in added for char in _UNSEEN.findall(line)}):
                codes = ", ".join(f"U+{ord(char):04X}" for char in unseen[:_CODES])
                more = " and others" if len(unseen) > _CODES else ""
                yield f"lines added to {change.path} contain invisible characters: {codes}{more}"
        if change.mode == EXECUTABLE and change.old_mode != EXECUTABLE:
            yield f"{change.path} becomes executable"
