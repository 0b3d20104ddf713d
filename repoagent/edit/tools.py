"""The look-up tools of a model (`read`, `search`, `files`, `outline`, ...) over the context of one edit.

`search` is bounded in time, memory and output."""

from __future__ import annotations

import os
import re
import select
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING

from repoagent.agent.actions import Action, Observation
from repoagent.agent.state import Tool
from repoagent.dataclass import dataclass
from repoagent.edit.files_tool import left_out_text, list_files, listing_text
from repoagent.edit.guards.off_limits import WhyNot, why_content_is_off_limits
from repoagent.edit.prompt.blocks import quoted, shown
from repoagent.edit.prompt.formats import LOOSE, Form, form_after, form_text, reminder
from repoagent.edit.prompt.large_files import read_part
from repoagent.edit.request import Draft, EditRequest
from repoagent.edit.small_models.excerpts import Window
from repoagent.errors import Refused, RepoagentError, UsageError
from repoagent.git.files import Source, check_path, is_ignored, read_source
from repoagent.git.process import GitError, git_stream
from repoagent.git.worktree import WorkTree, layout
from repoagent.llm.model import fence
from repoagent.patch.model import decode

if TYPE_CHECKING:
    from repoagent.llm.attachments import Attachments
    from repoagent.llm.media import Media
    from repoagent.patch.errors import PatchRefused
    from repoagent.patch.locate.exact import Placement
    from repoagent.patch.targets import Outcome
    from repoagent.syntax.symbol import Symbol

MATCH_LIMIT = 60
FILE_LIMIT = 20  # of one file among several
LINE_LIMIT = 200
SECONDS = 5.0
LARGEST = 4 * 1024 * 1024  # bytes of matching lines that are looked at
LONGEST = 300  # characters of a pattern
# As Python reads a pattern: \w and (?i) know all letters, and $ matches before the CR of a CRLF file.
_AS_PYTHON = "(*UCP)(*ANYCRLF)"
_UTF8 = {"LC_ALL": "C.UTF-8", "LANGUAGE": ""}  # git takes . for a byte otherwise
# What git reads in another way than Python does: anchors of the whole text, and counts without a minimum.
_DIFFERS = re.compile(r"\\.|\{(?=,\d+\})")
_INSTEAD = {r"\A": "^", r"\Z": "$", r"\z": "$", "{": "{0"}
# Without PCRE: what the C library does not know, and what it takes ages or all memory for.
_PERL = re.compile(r"(?<!\\)\(\?.{0,2}|\\[dDAzZ]|(?<!\\)[*+?}][?+]")
_COSTLY = re.compile(r"\\[1-9]|\)\{|\{\d{3}|\{\d*,\d{3}")
_SPECIAL = re.compile(r"[\\^$.|?*+()\[\]{}]")
_NO_PCRE = "USE_LIBPCRE"  # in what git says when it was built without


@dataclass(frozen=True)
class Matches:
    """Matching lines as `path:line:text`, and a remark: what was omitted, or how else the pattern would match."""

    rows: tuple[str, ...] = ()
    remark: str = ""


def search(
    top: Path, pattern: str, why_not: WhyNot, path: str = "", *, at: str | None = None, output: bool = False
) -> Matches:
    """Lines that match a Perl regular expression in tracked and untracked files that may be shown, at most MATCH_LIMIT;
    or in the one file `path`, ignored or not. Long lines are cut around the match. `at` is a commit to search in, or
    "" for the index. `output`: `path` is a file in the folder `top`, unrelated to git, and case is ignored.

    If no line matches, lines that contain the pattern as plain text. Raises UsageError for an invalid pattern, or one
    that takes too long.
    """
    if len(pattern) > LONGEST or re.search("[\0\n\ud800-\udfff]", pattern):
        raise UsageError(f"a pattern is one line of at most {LONGEST} characters: search for a part of it")
    files = _Grep(top, why_not, path, at, output)
    translated = _DIFFERS.sub(lambda match: _INSTEAD.get(match[0], match[0]), pattern)
    how: tuple[str, ...] = ("-P", "-e", _AS_PYTHON + translated)
    plain = ("-F", "-e", pattern)
    try:
        try:
            matches = files.matches(*how)
        except GitError as error:
            if _NO_PCRE not in error.stderr:
                raise
            how = _extended(pattern)
            matches = files.matches(*how)
    except GitError as error:
        matches = files.matches(*plain) if (reason := _invalid(error)) else Matches()
        if not matches.rows:
            raise UsageError(reason or "the pattern takes too long: use a simpler one") from None
        return Matches(matches.rows, f"Searched as plain text: {reason}. {matches.remark}".rstrip())
    if not matches.rows and re.search(r"\\[<>]", pattern):  # the ends of a word, as grep has them
        matches = files.matches(*how[:-1], re.sub(r"\\[<>]", r"\\b", how[-1]))
    if not matches.rows and _SPECIAL.search(pattern):
        matches = files.matches(*plain)
        if matches.rows:
            remark = "No line matches it as a regular expression; these lines contain it as plain text."
            return Matches(matches.rows, f"{remark} {matches.remark}".rstrip())
    if matches.rows:
        return matches
    if count := files.count("-i", *how):
        lines = "1 line matches" if count == 1 else f"{count:,} lines match"
        return Matches((), f"No line matches; {lines} if case is ignored: begin the pattern with (?i).")
    remark = r": each line is searched separately, without its \n" if r"\n" in pattern else ""
    return Matches((), f"No line matches{remark}.")


def _extended(pattern: str) -> tuple[str, ...]:
    """The arguments for a git that was built without PCRE. Raises UsageError for what it would misread."""
    case = ("-i",) if pattern.startswith("(?i)") else ()
    pattern = pattern.removeprefix("(?i)")
    if found := _PERL.search(pattern) or _COSTLY.search(pattern):
        raise UsageError(f"not supported by this git, which was built without PCRE: {found[0]}")
    return (*case, "-E", "-e", pattern)


def _invalid(error: GitError) -> str:
    """What git says is wrong with the pattern; "" when it failed at a match. Raises the error when it is another."""
    if error.returncode == 128 and "-e option, '" in error.stderr:
        why = error.stderr.rpartition("': ")[2]
        return f"not a valid regular expression: {why}"
    if error.returncode == 128 and "pcre2" in error.stderr:
        return ""
    raise error


@dataclass(frozen=True)
class _Grep:
    """What is searched, see `search`."""

    top: Path
    why_not: WhyNot
    path: str
    at: str | None
    output: bool

    def _run(self, *how: str) -> tuple[bytes, bool]:
        """What git grep prints, and whether it was cut off."""
        args = ["grep", "-z", "--no-color", "--full-name", *how]
        if self.output:
            args += ["-a", "-i", "--no-index", "--", self.path]
        else:
            args += ["-I", *([self.at] if self.at else ["--cached"] if self.at == "" else ["--untracked"])]
            if self.path:
                args[1:1] = ["--no-exclude-standard"] if self.at is None else []
                args += ["--", self.path]
        data = bytearray()
        deadline = time.monotonic() + SECONDS
        try:
            with git_stream(self.top, *(os.fsencode(arg) for arg in args), env=_UTF8) as stream:
                poll = select.poll()
                poll.register(stream, select.POLLIN | select.POLLHUP)
                while len(data) < LARGEST and poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
                    chunk = os.read(stream.fileno(), 1 << 16)
                    if not chunk:
                        break
                    data += chunk
                else:
                    raise _Enough
        except _Enough:
            return bytes(data[: data.rfind(b"\n") + 1]), True
        except GitError as error:
            if error.returncode != 1:  # 1: no match
                raise
        return bytes(data), False

    def matches(self, *how: str) -> Matches:
        most = MATCH_LIMIT if self.path else FILE_LIMIT
        data, late = self._run("-n", "--column", "-m", f"{most + 1}", *how)
        rows: list[str] = []
        seen: Counter[str] = Counter()
        for line in data.split(b"\n"):
            fields = line.split(b"\0", 3)
            if len(fields) < 4 or self.why_not(name := self._name(fields[0])):
                continue
            seen[name] += 1
            if seen[name] > most or len(rows) == MATCH_LIMIT:
                late = True
                continue
            row = f"{fields[1].decode()}:{_around(fields[3], int(fields[2]) - 1)}"
            rows.append(row if self.output else f"{name}:{row}")
        if late and not rows:
            raise UsageError("the search takes too long: use a simpler pattern")
        if not late:
            return Matches(tuple(rows))
        full = [name for name, count in seen.items() if count > most and not self.path][:3]
        where = f" (in {', '.join(full)})" if full else ""
        return Matches(tuple(rows), f"More matches were omitted{where}: use a narrower search.")

    def count(self, *how: str) -> int:
        data, _ = self._run("-c", *how)
        rows = [line.rpartition(b"\0") for line in data.splitlines()]
        return sum(int(count) for name, _, count in rows if not self.why_not(self._name(name)))

    def _name(self, name: bytes) -> str:
        return os.fsdecode(name).removeprefix(f"{self.at}:" if self.at else "")


def _around(text: bytes, at: int) -> str:
    """A line, or what surrounds the match that begins at byte `at`, with the number of that character."""
    if len(text) <= LINE_LIMIT:
        return text.decode(errors="replace")
    start = max(0, at - LINE_LIMIT // 4)
    piece = text[start : start + LINE_LIMIT].decode(errors="ignore")
    place = f"(character {len(text[:at].decode(errors='replace')) + 1}) " if at > LINE_LIMIT else ""
    return f"{place}{'…' if start else ''}{piece}"


class _Enough(Exception):
    """Thrown into `git_stream`, which then ends git."""


READ_LIMIT = 24 * 1024  # characters of one `read`, so that a look around cannot fill the window
USES_SHOWN = 20  # files of a symbol, or symbols of a file
RESUME_HINT = "The model's answer is kept: run the same command again to resume from it."


def read_limit(window: int | None) -> int:
    """The most characters of one `read` for a model with this context window."""
    return READ_LIMIT if window is None else max(1_000, min(READ_LIMIT, window * 3 // 8))


@dataclass
class ToolContext:
    """The state of one edit while the loop runs; the tools change its draft."""

    worktree: WorkTree
    request: EditRequest
    draft: Draft
    editable: set[str]
    why_not: WhyNot
    placements: list[Placement] = field(default_factory=list)
    form: Form = "diff"
    short: bool = False  # the model is asked without the protocol: what it is answer_text must be short too
    windows: Mapping[str, tuple[Window, ...]] = field(default_factory=dict)
    fits: bool = False  # the files are short enough to be asked for as a whole
    read_limit: int = READ_LIMIT
    seen: dict[str, list[tuple[int, int]]] = field(default_factory=dict)  # of files that are not shown whole
    reminder: str = ""
    refusals: int = 0  # in a row
    resume_hint: str = RESUME_HINT
    read: Callable[[str], Source] | None = None  # another version of the files than that of the work tree
    not_ignored: frozenset[str] = frozenset()  # of which git was asked already
    conversation: Path | None = None  # of the run, which `recall` leaves out: the model has it
    attachments: Attachments | None = None  # None: images and PDFs cannot be shown
    drafts: bool = False  # what fits of a refused edit is kept, until the rest comes
    kept: tuple[Outcome, ...] = ()  # that, on top of the draft
    missing: dict[str, str] = field(default_factory=dict)  # by path: the part of its edit that is to come
    said: list[str] = field(default_factory=list)  # the answers that it is from
    refusal: PatchRefused | None = None
    withdraw: str = ""  # how the model drops what is kept, where it can
    allow: Callable[[Sequence[str]], bool | None] | None = None  # ask whether other files may be changed too
    at: str | None = None  # where `search` looks: a commit, "" for the index, None for the work tree

    @property
    def loose(self) -> bool:
        """Whether a fence without a name may be whole text."""
        return self.short or self.form in LOOSE

    @property
    def still_missing(self) -> str:
        """For the model: what is kept as a draft, and what is missing."""
        names = [result.change.name for result in self.kept]
        kept = ", ".join(f"{name}{' (in part)' * (name in self.missing)}" for name in names)
        missing = "; ".join(self.missing.values())
        text = (
            f"Kept as a draft: {kept}. Still missing: {missing}. Send only what is missing. {self.withdraw}"
        )
        return text.rstrip()

    @property
    def waiting(self) -> str:
        """The same for the user, in one line."""
        hunks = {(place.path, place.line) for result in self.kept for place in result.placements}
        fit = "1 hunk fits and is" if len(hunks) == 1 else f"{len(hunks)} hunks fit and are"
        return f"{fit} kept; waiting for {', '.join(self.missing.values())}"

    def drop_kept(self) -> None:
        """Drop what is kept of a refused edit."""
        self.kept, self.missing, self.said, self.refusal = (), {}, [], None

    def sent_back(self, text: str) -> str:
        """The answer to a refused edit: why, what is missing, and after some refusals another form to use."""
        if self.missing:
            text = f"{text}\n\n{self.still_missing}"
        before = form_after(self.form, self.refusals, fits=self.fits)
        self.refusals += 1
        now = form_after(self.form, self.refusals, fits=self.fits)
        paths = self.request.paths
        if now != before:
            self.reminder = reminder(now, paths) if self.short else ""
            return (
                f"{text}\n\nNow write the edit in another form.\n\n{form_text(now)}{self.reminder}".rstrip()
            )
        return f"{text}\n{self.reminder}".rstrip()


def _look_up(
    name: str, text: str, answer: Callable[[Action], str | Observation], *, replay: bool = False
) -> Tool:
    """A tool that only reads; an error that the model can act on is an observation too."""

    def perform(action: Action) -> Observation:
        try:
            result = answer(action)
        except RepoagentError as error:
            return Observation(name, str(error), ok=False)
        return Observation(name, result) if isinstance(result, str) else result

    return Tool(name, text, perform, replay=replay, needs="nothing")


def read_tool(tool_context: ToolContext) -> Tool:
    """`read`. The `data` of what it shows has the blob of the file."""

    def read(action: Action) -> str | Observation:
        source = known_or_read(tool_context, action.args.get("path", ""))
        present = tool_context.draft.texts().get(source.path)
        if present is not None and (media := media_in(present.data, source.path)) is not None:
            return _attached(tool_context, media)
        text = current_text(tool_context, source)
        shown: list[str] = []
        ranges, name = [action.args.get("lines", "")], action.args.get("symbol", "").strip()
        if name:
            symbols, remark = _symbols(source.path, text.encode("utf-8", "surrogatepass"), name)
            ranges = [f"{symbol.first_line}-{symbol.last_line}" for symbol in symbols]
            shown += filter(None, [remark])
        for lines in ranges:
            characters = action.args.get("characters", "")
            part = read_part(text, lines, characters, tool_context.read_limit // len(ranges))
            if source.path in tool_context.seen:
                tool_context.seen[source.path].append((part.first, part.last))
            label = f'file path={quoted(source.path)} lines="{part.first}-{part.last}"'
            if part.characters:
                label += f' characters="{part.characters[0]}-{part.characters[1]}"'
            shown += filter(None, [fence(part.text, label), part.rest])
        return Observation("read", "\n".join(shown), data={"shown": {source.path: source.blob}})

    text = '<read path="FILE" lines="10-80"/> shows a file, lines of it or symbol="NAME".'
    return _look_up("read", text, read, replay=True)


def _symbols(path: str, data: bytes, name: str) -> tuple[tuple[Symbol, ...], str]:
    """The symbols that a model means by `name`, and a sentence where it has written another name. Raises UsageError."""
    from repoagent.syntax.outline import find_symbols, nearly_named

    try:
        return find_symbols(path, data, name), ""
    except UsageError:
        near = nearly_named(path, data, name)
        if not near:
            raise
        return find_symbols(path, data, near), f"{path} has no symbol {name!r}; this is {near}."


def media_in(data: bytes, path: str) -> Media | None:
    """The image or PDF that a file is; None for text. Raises UsageError for a broken or unsupported one."""
    from repoagent.llm.attachments import media_of
    from repoagent.llm.media import type_of

    if type_of(data) is None and decode(data) is not None:
        return None
    try:
        return media_of(data, path)
    except UsageError:
        if data.isascii():  # a text that begins as a GIF or a PDF does
            return None
        raise


def _attached(tool_context: ToolContext, media: Media) -> Observation:
    from repoagent.llm.attachments import in_words

    attachments = tool_context.attachments
    why = attachments.why_not([media]) if attachments is not None else "images and PDFs cannot be shown here"
    if attachments is None or why:
        return Observation("read", f"{why}; {in_words(media)}.")
    return Observation("read", f"{in_words(media)}; attached below.", attached=attachments.keep(media))


def search_tool(tool_context: ToolContext) -> Tool:
    def search_files(action: Action) -> str:
        pattern = action.args.get("pattern") or action.body.strip()
        if not pattern.strip():
            raise UsageError("Specify what to search for.")
        path = action.args.get("path", "").strip()
        path = known_or_read(tool_context, path).path if path else ""
        return matches_text(
            search(tool_context.worktree.top, pattern, tool_context.why_not, path, at=tool_context.at)
        )

    text = '<search pattern="REGULAR EXPRESSION"/> lists matching lines, of all files or path="FILE".'
    return _look_up("search", text, search_files)


def matches_text(matches: Matches) -> str:
    """The matches as shown to a model."""
    rows = fence("\n".join(matches.rows), "matches") if matches.rows else ""
    return "\n".join(filter(None, [rows, matches.remark]))


def files_tool(tool_context: ToolContext) -> Tool:
    def files(action: Action) -> str:
        path, pattern = action.args.get("path", ""), action.args.get("pattern", "")
        listing = list_files(tool_context.worktree.top, tool_context.why_not, path, pattern)
        rows = listing_text(listing)
        text = fence(rows, "listing") if rows else "No file matches." if pattern else "There are no files."
        return "\n".join(filter(None, [text, left_out_text(listing)]))

    text = '<files path="FOLDER" pattern="*.py"/> lists files; without a pattern, of one folder.'
    return _look_up("files", text, files)


def outline_tool(tool_context: ToolContext) -> Tool:
    def outline_file(action: Action) -> str:
        from repoagent.syntax.outline import outline
        from repoagent.syntax.symbol import render_outline

        source = known_or_read(tool_context, action.args.get("path", ""))
        symbols = outline(source.path, current_text(tool_context, source).encode("utf-8", "surrogateescape"))
        return fence(render_outline(symbols), "outline") if symbols else "No definitions found."

    return _look_up("outline", '<outline path="FILE"/> lists its definitions with their lines.', outline_file)


def _path_in_history(tool_context: ToolContext, action: Action) -> str:
    """The path that is asked about, of a file that need not exist any more. Raises RepoagentError if it is withheld."""
    path = action.args.get("path", "")
    check_path(path)
    if reason := tool_context.why_not(path):
        raise Refused(reason)
    return path


def history_tool(tool_context: ToolContext) -> Tool:
    def history(action: Action) -> str:
        from repoagent.history.file_history import prompt_block

        path = _path_in_history(tool_context, action)
        summaries = layout(tool_context.worktree).summaries
        block = prompt_block(tool_context.worktree, path, 20, summaries=summaries)
        return fence(block, "history") if block else f"No commits of {path}."

    return _look_up("history", '<history path="FILE"/> shows its commits and authors.', history)


def neighbors_tool(tool_context: ToolContext) -> Tool:
    def neighbors(action: Action) -> str:
        from repoagent.history.neighbors import neighborhood
        from repoagent.history.render import candidates_block

        path = _path_in_history(tool_context, action)
        block = candidates_block(neighborhood(tool_context.worktree, [path]))
        return fence(f"{block}\n", "neighbors") if block else f"No file has changed together with {path}."

    return _look_up("neighbors", '<neighbors path="FILE"/> shows what changes with it.', neighbors)


def uses_tool(tool_context: ToolContext) -> Tool:
    def uses(action: Action) -> str:
        from repoagent.uses.report import answer, answer_text

        named = (action.args.get("path", "").removeprefix("./"), action.args.get("symbol", ""))
        symbol = ":".join(filter(None, map(str.strip, named)))
        if not symbol:
            raise UsageError('Specify symbol="NAME" or path="FILE".')
        text = answer_text(answer(tool_context.worktree, symbol, tool_context.why_not, limit=USES_SHOWN))
        return fence(text, "uses") if text else f"No file has {symbol}."

    text = '<uses symbol="NAME"/> shows where a name is used; path="FILE" all names that it defines.'
    return _look_up("uses", text, uses)


def recall_tool(tool_context: ToolContext) -> Tool:
    def recall(action: Action) -> str:
        from repoagent.memory.search.search import Search, hit_line
        from repoagent.memory.search.search import search as search_memories

        query = (action.args.get("query") or action.body).strip()
        if not query:
            raise UsageError("Specify what to search for.")
        options = Search(without=tool_context.conversation)
        hits = search_memories(layout(tool_context.worktree), query, how=options)
        lines = [hit_line(hit) for hit in hits if not (hit.file and tool_context.why_not(hit.file))]
        return fence("\n".join(lines), "memories") if lines else "Nothing fits."

    return _look_up("recall", '<recall query="WORDS"/> searches earlier notes, requests and edits.', recall)


def known_or_read(tool_context: ToolContext, path: str) -> Source:
    """The source of `path`, bound on first use. Raises Refused or UsageError if it may not be read."""
    path = path.strip().removeprefix("./")
    if not path:
        raise UsageError('specify the file: path="FILE"')
    if reason := tool_context.why_not(path):
        raise Refused(reason)
    if path not in tool_context.draft.sources:
        source = tool_context.read(path) if tool_context.read else read_source(tool_context.worktree, path)
        tool_context.draft = tool_context.draft.with_source(source)
        if _may_edit(tool_context, source):
            tool_context.editable.add(path)
    return tool_context.draft.sources[path]


def _may_edit(tool_context: ToolContext, source: Source) -> bool:
    """Whether a file that the model found by itself may be changed."""
    if (
        tool_context.request.scope != "repo"
        or source.data is None
        or source.path in tool_context.request.read
    ):
        return False
    return not why_content_is_off_limits(source.data) and not is_ignored_here(tool_context, source.path)


def current_text(tool_context: ToolContext, source: Source) -> str:
    """The text of a file in the draft. Raises UsageError if there is none."""
    present = tool_context.draft.texts().get(source.path)
    if present is None:
        raise UsageError(f"there is no file {source.path}")
    return shown(present.data)


def is_ignored_here(tool_context: ToolContext, path: str) -> bool:
    """Whether git ignores the file, which keeps a model from it unless the user named it."""
    if path in tool_context.request.paths or path in tool_context.not_ignored:
        return False
    return path in is_ignored(tool_context.worktree, [path])
