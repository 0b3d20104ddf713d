"""Run `git commit` through a temporary index, and look at what came of it."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from repoagent.errors import Refused
from repoagent.repo.index import Entry, entry, put_entries, reset_to, write_tree
from repoagent.repo.run import git, git_output, uninterrupted
from repoagent.repo.worktree import WorkTree

Listen = Callable[[bytes], None]
_SCISSORS = b" ------------------------ >8 ------------------------"
_COMMENT_SIGNS = (
    b"#",
    b";",
    b"@",
    b"!",
    b"$",
    b"%",
    b"^",
    b"&",
    b"|",
    b":",
)  # as core.commentChar=auto tries


@dataclass(frozen=True)
class Options:
    """How an edit is committed; the names are those of `git commit` where it has them.

    `sign` is a key, "" for the default one, None for what the configuration says. `fixup` is a commit.
    `branch` is a new branch that the commit lands on. `include_dirty` commits the files whole, with the
    user's other work in them. `no_commit` only writes the files.
    """

    no_commit: bool = False
    no_verify: bool = False
    include_dirty: bool = False
    branch: str | None = None
    signoff: bool = False
    fixup: str | None = None
    edit_message: bool = False
    sign: str | None = None


@dataclass(frozen=True)
class Made:
    """A commit as git shows it: `changed` is what it has other than its first parent (None: removed), `was`
    what that one has there."""

    commit: str
    parents: tuple[str, ...]
    changed: Mapping[str, Entry | None]
    was: Mapping[str, Entry | None]

    @property
    def parent(self) -> str | None:
        return self.parents[0] if self.parents else None


def read_commit(worktree: WorkTree, commit: str = "HEAD") -> Made:
    """The commit (one call of git). Raises GitError when there is none."""
    out = git(
        worktree.top, "diff-tree", "--root", "--always", "-r", "-z", "--raw", "--no-abbrev", "--no-renames",
        "--format=%H %P", "--end-of-options", commit, "--",
    )  # fmt: skip
    header, _, raw = os.fsdecode(out).partition("\0")
    made, *parents = header.split()
    fields = raw.lstrip("\n").split("\0")
    changed: dict[str, Entry | None] = {}
    was: dict[str, Entry | None] = {}
    for description, path in zip(fields[::2], fields[1::2], strict=False):
        old_mode, mode, old, new, _ = description.removeprefix(":").split(" ")
        was[path], changed[path] = entry(old_mode, old), entry(mode, new)
    return Made(made, tuple(parents), changed, was)


def head(worktree: WorkTree) -> str | None:
    """The commit of HEAD; None when unborn."""
    out = git(worktree.top, "rev-parse", "--quiet", "--verify", "HEAD^{commit}", ok=(0, 1))
    return out.decode().strip() or None


def encode(worktree: WorkTree, message: str | bytes, errors: str = "strict") -> bytes:
    """A message in i18n.commitEncoding, in which `git commit` expects it. Raises Refused if it can't be, and
    `errors` (as for `str.encode`) does not say what to do then."""
    if isinstance(message, bytes) or message.isascii():
        return message if isinstance(message, bytes) else message.encode()
    name = git(worktree.top, "config", "--get", "i18n.commitEncoding", ok=(0, 1)).decode().strip() or "UTF-8"
    try:
        return message.encode(name, errors)
    except (LookupError, UnicodeEncodeError) as error:
        raise Refused(
            f"the commit message can't be written in {name}, as i18n.commitEncoding asks ({error}): "
            "change that setting"
        ) from error


def withdraw(worktree: WorkTree, made: Made) -> None:
    """Take HEAD back from the commit `made` to its parent."""
    where = ("HEAD", made.parent) if made.parent else ("-d", "HEAD")
    reason = "repoagent: withdraw a commit that is not the planned one"
    git(worktree.top, "update-ref", "-m", reason, *where, made.commit, read_only=False)


def run_commit(
    worktree: WorkTree,
    index: Path,
    message: Path,
    options: Options,
    *,
    listen: Listen | None = None,
    inherit: int | None = None,
) -> tuple[int, bytes]:
    """`git commit` of the index file `index` with the message in `message`: its exit code and all it printed.

    It runs as if the user ran it: same environment, hooks, signing, identity. `listen` is given the output as
    it comes. The descriptor `inherit` is left open for it. On ^C git is waited for; HEAD says what it did.
    """
    process = subprocess.Popen(
        ["git", *_settings(worktree, message, options), "commit", *_arguments(message, options)],
        cwd=worktree.top,
        env=dict(os.environ, GIT_INDEX_FILE=str(index)),
        stdin=None if options.edit_message else subprocess.DEVNULL,
        stdout=None if options.edit_message else subprocess.PIPE,
        stderr=None if options.edit_message else subprocess.STDOUT,
        pass_fds=() if inherit is None else (inherit,),
    )
    try:
        output = _listen(process, listen)
        return process.wait(), output
    except BaseException:
        with uninterrupted():
            _end(process)
        raise
    finally:
        if process.stdout is not None:
            process.stdout.close()


def tidy(worktree: WorkTree) -> None:
    """What `git commit` does at its end, with the user's own index in place: collect garbage if it is time to.
    It is not needed, so it may fail or be interrupted."""
    with suppress(KeyboardInterrupt):
        git_output(
            worktree.top, "maintenance", "run", "--auto", "--quiet", read_only=False, ok=range(-64, 256)
        )


def _settings(worktree: WorkTree, message: Path, options: Options) -> tuple[str, ...]:
    """As few as can be, for hooks see them.

    A collection of garbage would look at our index in the place of the user's, and could drop what is only
    staged there: `tidy` does it afterwards. Git, and what hooks stage, writes our index: where the user's is a
    split one, its shared part must not expire with that. And what follows git's scissors in an editor is cut
    off: where the message has such a line of its own, other scissors are needed.
    """
    split = any(worktree.git_dir.glob("sharedindex.*"))
    settings: tuple[str, ...] = ("-c", "gc.auto=0", "-c", "maintenance.auto=false")
    settings += ("-c", "splitIndex.sharedIndexExpire=never") if split else ()
    lines = message.read_bytes().splitlines()
    if options.edit_message and any(_SCISSORS in line for line in lines):
        unused = next(
            (sign for sign in _COMMENT_SIGNS if not any(line[:1] == sign for line in lines)), b"\x01"
        )
        return (*settings, "-c", f"core.commentChar={unused.decode()}")
    return settings


def _arguments(message: Path, options: Options) -> list[str]:
    found = ["--quiet"]
    if options.fixup is not None:
        found += [f"--fixup={options.fixup}"]  # it takes no -F
        text = os.fsdecode(message.read_bytes())
        found += ["-m", text] if text.strip() else []
    else:
        found += ["-F", str(message)]
    # with commit.verbose git would cut at scissors without an editor too
    found += (
        ["--edit", "--cleanup=scissors"] if options.edit_message else ["--cleanup=whitespace", "--no-verbose"]
    )
    found += ["--signoff"] if options.signoff else []
    found += ["--no-verify"] if options.no_verify else []
    found += [f"--gpg-sign{options.sign and '='}{options.sign}"] if options.sign is not None else []
    return found


def _listen(process: subprocess.Popen[bytes], listen: Listen | None) -> bytes:
    """All output to its end, or to that of the process: what a hook left running may hold the pipe."""
    if process.stdout is None:
        return b""
    output = bytearray()
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while True:
            if selector.select(0.1):
                data = os.read(process.stdout.fileno(), 65536)
                if not data:
                    return bytes(output)
                output += data
                if listen is not None:
                    listen(data)
            elif process.poll() is not None:
                return bytes(output)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Wait for git to end; it has had the ^C of the terminal, and gets ours where there is none."""
    for number, seconds in ((signal.SIGINT, 5.0), (signal.SIGTERM, 5.0), (signal.SIGKILL, None)):
        if process.poll() is None:
            process.send_signal(number)
            with suppress(subprocess.TimeoutExpired):
                process.wait(seconds)


def with_other_tree(
    worktree: WorkTree, index: Path, made: Made, entries: Mapping[str, Entry | None], key: str | None = None
) -> str:
    """Replace the commit `made`, which HEAD is on, by the same one with `entries` as they are given.

    Message, author, committer and times stay; a signed commit is signed again, with `key` if one is given.
    Hooks do not run again.
    """
    reset_to(worktree, index, made.commit)
    put_entries(worktree, index, entries)
    tree = write_tree(worktree, index)
    raw = git(worktree.top, "cat-file", "commit", made.commit)
    if b"\ngpgsig" in raw.partition(b"\n\n")[0]:
        new = _sign(worktree, tree, made, raw, key or "")
    else:
        new = git(
            worktree.top, "hash-object", "-t", "commit", "-w", "--stdin", read_only=False,
            stdin=b"tree " + tree.encode() + raw[raw.index(b"\n") :],
        ).decode().strip()  # fmt: skip
    reason = "repoagent: commit again without what a hook had added of other work"
    git(worktree.top, "update-ref", "-m", reason, "HEAD", new, made.commit, read_only=False)
    return new


def _sign(worktree: WorkTree, tree: str, made: Made, raw: bytes, key: str) -> str:
    """The commit by way of `commit-tree -S`, which takes from the environment who and when."""
    header, _, message = raw.partition(b"\n\n")
    fields = dict(line.split(b" ", 1) for line in header.split(b"\n") if not line.startswith(b" "))
    env = {}
    for role in ("author", "committer"):
        name, _, rest = fields[role.encode()].partition(b" <")
        email, _, date = rest.partition(b"> ")
        values = {"NAME": os.fsdecode(name), "EMAIL": os.fsdecode(email), "DATE": "@" + date.decode()}
        env.update({f"GIT_{role.upper()}_{what}": value for what, value in values.items()})
    encoding = fields.get(b"encoding", b"UTF-8").decode()
    parents = [argument for parent in made.parents for argument in ("-p", parent)]
    out = git(
        worktree.top, "-c", f"i18n.commitEncoding={encoding}", "commit-tree", f"-S{key}", *parents, tree,
        stdin=message, env=env, read_only=False,
    )  # fmt: skip
    return out.decode().strip()
