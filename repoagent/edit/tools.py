"""The look-up tools of a model (`read`, `search_files`, `files`, ...), and the functions that search and list files."""

from __future__ import annotations

import os
import re
import select
import stat
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from repoagent.agent.actions import Action, Observation
from repoagent.agent.state import Tool
from repoagent.dataclass import dataclass
from repoagent.edit.draft import EditSession
from repoagent.edit.guards.off_limits import WhyNot
from repoagent.edit.prompt.blocks import quote_path
from repoagent.edit.prompt.large_files import read_part
from repoagent.errors import Refused, RepoagentError, UsageError
from repoagent.git.files import check_path
from repoagent.git.process import GitError, git, git_stream
from repoagent.git.worktree import layout_of
from repoagent.llm.model import fence
from repoagent.patch.model import decode_text

if TYPE_CHECKING:
    from repoagent.llm.media import Media

USES_SHOWN = 20  # files of a symbol, or symbols of a file


def look_up(session: EditSession, name: str) -> Tool:
    """The look-up tool `name`, one of LOOK_UPS. The tool reports a RepoagentError to the model as an observation."""
    answer, text = LOOK_UPS[name]

    def perform(action: Action) -> Observation:
        try:
            result = answer(session, action)
        except RepoagentError as error:
            return Observation(name, str(error), ok=False)
        return Observation(name, result) if isinstance(result, str) else result

    return Tool(name, text, perform, replay=name == "read", needs="nothing")


def _query(action: Action, name: str) -> str:
    query = (action.args.get(name) or action.body).strip()
    if not query:
        raise UsageError("Specify what to search for.")
    return query


def _read(session: EditSession, action: Action) -> Observation:
    source = session.source(action.args.get("path", ""))
    present = session.draft.texts().get(source.path)
    if present is not None and (media := media_in(present.data, source.path)) is not None:
        description = f"{media.name}: {media.described()}"
        attachments = session.attachments() if session.attachments is not None else None
        why = "images and PDFs cannot be shown here" if attachments is None else attachments.why_not([media])
        if attachments is None or why:
            return Observation("read", f"{why}; {description}.")
        return Observation("read", f"{description}; attached below.", attached=attachments.keep(media))
    text = session.text(source)
    rows: list[str] = []
    ranges, name = [action.args.get("lines", "")], action.args.get("symbol", "").strip()
    if name:
        from repoagent.syntax.outline import find_symbols

        symbols = find_symbols(source.path, text.encode("utf-8", "surrogatepass"), name)
        ranges = [f"{symbol.first_line}-{symbol.last_line}" for symbol in symbols]
    for lines in ranges:
        characters = action.args.get("characters", "")
        part = read_part(text, lines, characters, session.read_limit // len(ranges))
        if source.path in session.seen:
            session.seen[source.path].append((part.first, part.last))
        label = f'file path={quote_path(source.path)} lines="{part.first}-{part.last}"'
        if part.characters:
            label += f' characters="{part.characters[0]}-{part.characters[1]}"'
        rows += filter(None, [fence(part.text, label), part.rest])
    return Observation("read", "\n".join(rows), data={"shown": {source.path: source.blob}})


def media_in(data: bytes, path: str) -> Media | None:
    """The content of a file as an image or PDF; None for text. Raises UsageError if it is broken or unsupported."""
    from repoagent.llm.media import media_of, type_of

    if type_of(data) is None and decode_text(data) is not None:
        return None
    try:
        return media_of(data, path)
    except UsageError:
        if data.isascii():  # a text that begins like a GIF or a PDF
            return None
        raise


def _search(session: EditSession, action: Action) -> str:
    pattern = action.args.get("pattern") or _query(action, "pattern")
    path = action.args.get("path", "").strip()
    path = session.source(path).path if path else ""
    return matches_text(search_files(session.worktree.top, pattern, session.why_not, path, at=session.at))


def matches_text(matches: Matches) -> str:
    rows = fence("\n".join(matches.rows), "matches") if matches.rows else ""
    return "\n".join(filter(None, [rows, matches.remark]))


def _files(session: EditSession, action: Action) -> str:
    path, pattern = action.args.get("path", ""), action.args.get("pattern", "")
    listing = list_files(session.worktree.top, session.why_not, path, pattern)
    rows = listing_text(listing)
    text = fence(rows, "listing") if rows else "No file matches." if pattern else "There are no files."
    return "\n".join(filter(None, [text, left_out_text(listing)]))


def _outline(session: EditSession, action: Action) -> str:
    from repoagent.syntax.outline import outline
    from repoagent.syntax.symbol import render_outline

    source = session.source(action.args.get("path", ""))
    symbols = outline(source.path, session.text(source).encode("utf-8", "surrogateescape"))
    return fence(render_outline(symbols), "outline") if symbols else "No definitions found."


def _history(session: EditSession, action: Action) -> str:
    path = action.args.get("path", "")
    check_path(path)
    if reason := session.why_not(path):
        raise Refused(reason)
    if action.kind == "neighbors":
        from repoagent.history.neighbors import neighborhood
        from repoagent.history.render import candidates_block

        block = candidates_block(neighborhood(session.worktree, [path]), session.why_not)
        return fence(f"{block}\n", "neighbors") if block else f"No file has changed together with {path}."
    from repoagent.history.file_history import prompt_block

    summaries = layout_of(session.worktree).summaries
    block = prompt_block(session.worktree, path, 20, session.why_not, summaries=summaries)
    return fence(block, "history") if block else f"No commits touch {path}."


def _uses(session: EditSession, action: Action) -> str:
    from repoagent.uses.report import answer_text, answer_uses

    named = (action.args.get("path", "").removeprefix("./"), action.args.get("symbol", ""))
    symbol = ":".join(filter(None, map(str.strip, named)))
    if not symbol:
        raise UsageError('Specify symbol="NAME" or path="FILE".')
    text = answer_text(answer_uses(session.worktree, symbol, session.why_not, limit=USES_SHOWN))
    return fence(text, "uses") if text else f"No file contains {symbol}."


def _recall(session: EditSession, action: Action) -> str:
    from repoagent.memory.search.search import SearchOptions, hit_line, search_memories

    hits = search_memories(
        layout_of(session.worktree), _query(action, "query"), how=SearchOptions(without=session.conversation)
    )
    lines = [hit_line(hit) for hit in hits if not (hit.file and session.why_not(hit.file))]
    return fence("\n".join(lines), "memories") if lines else "Nothing matches."


# The function of each look-up, and its text in the prompt.
LOOK_UPS: dict[str, tuple[Callable[[EditSession, Action], str | Observation], str]] = {
    "read": (_read, '<read path="FILE" lines="10-80"/> shows a file, lines of it or symbol="NAME".'),
    "files": (_files, '<files path="FOLDER" pattern="*.py"/> lists files; without a pattern, of one folder.'),
    "search": (
        _search,
        '<search pattern="REGULAR EXPRESSION"/> lists matching lines, of all files or path="FILE".',
    ),
    "outline": (_outline, '<outline path="FILE"/> lists its definitions with their lines.'),
    "history": (_history, '<history path="FILE"/> shows its commits and authors.'),
    "neighbors": (_history, '<neighbors path="FILE"/> shows what changes with it.'),
    "uses": (
        _uses,
        '<uses symbol="NAME"/> shows where a name is used; path="FILE" all names that it defines.',
    ),
    "recall": (_recall, '<recall query="WORDS"/> searches earlier notes, requests and edits.'),
}


MATCH_LIMIT = 60
FILE_LIMIT = 20  # of one file among several
LINE_LIMIT = 200
SECONDS = 5.0
LARGEST = 4 * 1024 * 1024  # bytes of matching lines to read from git
LONGEST = 300  # characters of a pattern
# Match like Python: \w and (?i) work for all letters, and $ matches before the CR of a CRLF file.
_AS_PYTHON = "(*UCP)(*ANYCRLF)"
_UTF8 = {"LC_ALL": "C.UTF-8", "LANGUAGE": ""}  # otherwise . matches a byte
_SPECIAL = re.compile(r"[\\^$.|?*+()\[\]{}]")


@dataclass(frozen=True)
class Matches:
    """Matching lines as `path:line:text`, and a remark on omitted lines or on how the lines were found."""

    rows: tuple[str, ...] = ()
    remark: str = ""


def search_files(
    top: Path, pattern: str, why_not: WhyNot, path: str = "", *, at: str | None = None, output: bool = False
) -> Matches:
    """Find at most MATCH_LIMIT lines that match a Perl regular expression or, if none do, contain it as plain text.

    Searches tracked and untracked files, or only the file `path`, even if it is ignored. `at` is a commit to search in,
    or "" for the index. With `output`, `path` is a file of command output in the folder `top`, and case is ignored.
    Raises UsageError for an invalid pattern, or one that takes too long.
    """
    if len(pattern) > LONGEST or re.search("[\0\n\ud800-\udfff]", pattern):
        raise UsageError(f"the pattern must be one line of at most {LONGEST} characters: shorten it")
    grep = partial(_grep, top, why_not, path=path, at=at, output=output)
    reason = ""
    try:
        if (matches := grep("-P", _AS_PYTHON + pattern)).rows:
            return matches
    except GitError as error:
        if error.returncode == 128 and "-e option, '" in error.stderr:
            reason = "not a valid regular expression: " + error.stderr.rpartition("': ")[2]
        elif error.returncode == 128 and "pcre2" in error.stderr:  # a resource limit of PCRE
            raise UsageError("matching the pattern took too long: use a simpler one") from None
        else:
            raise
    if (plain := grep("-F", pattern) if _SPECIAL.search(pattern) else Matches()).rows:
        remark = f"Searched as plain text: {reason or 'no line matches it as a regular expression'}."
        return Matches(plain.rows, f"{remark} {plain.remark}".rstrip())
    if reason:
        raise UsageError(reason)
    return Matches(
        (), "No line matches. Each line is searched separately; (?i) at the beginning ignores case."
    )


class _TooMuch(Exception):
    """Raised within `git_stream`, so that it ends git."""


def _grep(
    top: Path, why_not: WhyNot, syntax: str, pattern: str, *, path: str, at: str | None, output: bool
) -> Matches:
    most = MATCH_LIMIT if path else FILE_LIMIT
    args = [*f"grep -z --no-color --full-name -n --column -m {most + 1} {syntax} -e".split(), pattern]
    if output:
        args += ["-a", "-i", "--no-index", "--", path]
    else:
        args += ["-I", *([at] if at else ["--cached"] if at == "" else ["--untracked"])]
        if path:
            args[1:1] = ["--no-exclude-standard"] if at is None else []
            args += ["--", path]
    data, is_cut = bytearray(), False
    deadline = time.monotonic() + SECONDS
    try:
        with git_stream(top, *(os.fsencode(arg) for arg in args), env=_UTF8) as stream:
            poll = select.poll()
            poll.register(stream, select.POLLIN | select.POLLHUP)
            while len(data) < LARGEST and poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
                chunk = os.read(stream.fileno(), 1 << 16)
                if not chunk:
                    break
                data += chunk
            else:
                raise _TooMuch
    except _TooMuch:
        data, is_cut = data[: data.rfind(b"\n") + 1], True
    except GitError as error:
        if error.returncode != 1:  # 1: no match
            raise
    rows: list[str] = []
    seen: Counter[str] = Counter()
    for line in bytes(data).split(b"\n"):
        fields = line.split(b"\0", 3)
        if len(fields) < 4 or why_not(name := os.fsdecode(fields[0]).removeprefix(f"{at}:" if at else "")):
            continue
        seen[name] += 1
        if seen[name] > most or len(rows) == MATCH_LIMIT:
            is_cut = True
            continue
        text, at_byte = fields[3], int(fields[2]) - 1
        shown = text.decode(errors="replace")
        if len(text) > LINE_LIMIT:  # show the part around the match
            start = max(0, at_byte - LINE_LIMIT // 4)
            shown = ("…" if start else "") + text[start : start + LINE_LIMIT].decode(errors="ignore")
            if at_byte > LINE_LIMIT:
                shown = f"(character {len(text[:at_byte].decode(errors='replace')) + 1}) {shown}"
        row = f"{fields[1].decode()}:{shown}"
        rows.append(row if output else f"{name}:{row}")
    if not is_cut:
        return Matches(tuple(rows))
    if not rows:
        raise UsageError("the search took too long: use a simpler pattern")
    full = [name for name, count in seen.items() if count > most and not path][:3]
    where = f" (in {', '.join(full)})" if full else ""
    return Matches(tuple(rows), f"More matches were omitted{where}: use a narrower search.")


LISTED = 100  # files and folders of one listing


@dataclass(frozen=True)
class File:
    path: str
    size: int
    modified: float  # seconds since the epoch
    tracked: bool
    kind: str = ""  # "link" or "submodule"; "" for a file


@dataclass(frozen=True)
class Listing:
    """The content of a folder, or the files below it that match a pattern."""

    files: Sequence[File]
    folders: Mapping[str, int]  # with the number of files below each
    more: int  # omitted files
    withheld: int  # files that may not be shown


def list_files(
    top: Path, why_not: WhyNot, path: str = "", pattern: str = "", *, most: int = LISTED
) -> Listing:
    """List the content of the folder `path` ("" is the top), or all files below it that match `pattern`.

    `pattern` is a glob; without a slash it matches names at any depth. Raises UsageError for an unknown path or a
    pattern that is too long, Refused for a path outside the repository.
    """
    path = path.strip().removeprefix("./").rstrip("/")
    path = "" if path == "." else path
    pattern = pattern.strip().removeprefix("./")
    if path:
        check_path(path)
        if (reason := why_not(path)) is not None:
            raise UsageError(reason)
    if len(pattern) > LONGEST or "\0" in pattern:
        raise UsageError(f"the pattern is longer than {LONGEST} characters: use a shorter one")
    pathspecs = [f":(top,literal){path}"] if path else []
    if pattern:
        if re.search(r"\{[^{}]*,[^{}]*\}", pattern):
            raise UsageError("a pattern has no {a,b}: list the files of one pattern after the other")
        base = re.sub(r"([\\*?\[])", r"\\\1", path) + "/" if path else ""
        pattern = pattern.lstrip("/")
        pathspecs = [f":(top,glob){base}{pattern if '/' in pattern else f'**/{pattern}'}"]
    kinds = ("--cached", "--others", "--deleted", "--exclude-standard")
    data = git(top, "--no-literal-pathspecs", "ls-files", "-z", "-t", *kinds, "--", *pathspecs)
    known: dict[str, bool] = {}  # files that may be shown, and whether git tracks them
    refused, gone = set(), set()
    for row in data.split(b"\0"):
        name = os.fsdecode(row[2:]).rstrip("/")  # git lists a nested repository with a slash
        if row[:1] in {b"R", b"S"}:  # deleted, or not in the sparse checkout
            gone.add(name)
        elif name and name not in known:
            if why_not(name) is None:
                known[name] = row[:1] != b"?"
            else:
                refused.add(name)
    tracked = {name: known[name] for name in sorted(known) if name not in gone}
    withheld = len(refused - gone)
    if path and not tracked and not withheld and not (top / path).is_dir():
        raise UsageError(f"no such folder: {path}")
    names, folders = list(tracked), Counter[str]()
    if not pattern and path not in tracked:  # the folders directly below `path`, and the files in it
        prefix, names = f"{path}/" if path else "", []
        for name in tracked:
            head, slash, _ = name[len(prefix) :].partition("/")
            if slash:
                folders[prefix + head] += 1
            else:
                names.append(name)
    listed = dict(list(folders.items())[:most])
    left = most - len(listed)
    more = len(names[left:]) + folders.total() - sum(listed.values())
    files = []
    for name in names[:left]:
        try:
            status = os.lstat(top / name)
        except (FileNotFoundError, NotADirectoryError):  # just deleted
            continue
        kind = {stat.S_IFDIR: "submodule", stat.S_IFLNK: "link"}.get(stat.S_IFMT(status.st_mode), "")
        size = 0 if kind == "submodule" else status.st_size
        files.append(File(name, size, status.st_mtime, tracked[name], kind))
    return Listing(tuple(files), listed, more, withheld)


def listing_text(listing: Listing) -> str:
    rows = [f"{_row(folder)}/  {_count(count)}" for folder, count in listing.folders.items()]
    for file in listing.files:
        size = f"{file.size} B"
        if file.size >= 1024:
            kilobytes = file.size / 1024
            size = f"{kilobytes:.0f} KB" if kilobytes < 1024 else f"{kilobytes / 1024:.1f} MB"
        day = datetime.fromtimestamp(file.modified, timezone.utc).strftime("%Y-%m-%d")
        marks = filter(None, [file.kind, "" if file.tracked else "untracked"])
        rows.append("  ".join([_row(file.path), size, day, *marks]))
    return "\n".join(rows)


def left_out_text(listing: Listing) -> str:
    more = f"{_count(listing.more)} omitted: name a folder or a narrower pattern." if listing.more else ""
    withheld = f"{_count(listing.withheld)} withheld." if listing.withheld else ""
    return "\n".join(filter(None, [more, withheld]))


def _row(path: str) -> str:
    """A path on one line, escaped so that a file name cannot look like another row."""
    return path if path.isprintable() else ascii(path)[1:-1]


def _count(count: int) -> str:
    return f"{count:,} file{'s' * (count != 1)}"
