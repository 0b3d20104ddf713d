"""What an edit has on the table, and the tools to look around. They close over it; the loop only sees values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING

from repoagent.agent import Action, Observation, Tool, fence
from repoagent.dataclass import dataclass
from repoagent.edit.briefing.context import quoted, shown
from repoagent.edit.briefing.files import left_out_text, list_files, listing_text
from repoagent.edit.briefing.forms import LOOSE, Form, form_after, form_text, reminder
from repoagent.edit.briefing.search import Matches, search
from repoagent.edit.draft import Draft
from repoagent.edit.large.reading import read_part
from repoagent.edit.request import EditRequest
from repoagent.edit.small.windows import Window
from repoagent.edit.verify.scope import WhyNot, why_content_is_off_limits
from repoagent.errors import Refused, RepoagentError, UsageError
from repoagent.patch import decode
from repoagent.repo import Source, WorkTree, layout, read_source
from repoagent.repo.paths import check_path, is_ignored

if TYPE_CHECKING:
    from repoagent.llm.media import Attachments, Media
    from repoagent.patch import Outcome, PatchRefused, Placement
    from repoagent.split import Symbol

READ_LIMIT = 24 * 1024  # characters of one `read`, so that a look around can't fill the window
USES_SHOWN = 20  # files of a symbol, or symbols of a file
GOES_ON = "The model's answer is kept: the same command goes on from it, and nothing is asked twice."


def read_limit(window: int | None) -> int:
    """The most characters of one `read`, for a model that takes so many tokens."""
    return READ_LIMIT if window is None else max(1_000, min(READ_LIMIT, window * 3 // 8))


@dataclass
class Workbench:
    """What one edit has on the table while the loop runs: the draft is what the tools change."""

    worktree: WorkTree
    request: EditRequest
    draft: Draft
    editable: set[str]
    why_not: WhyNot
    placements: list[Placement] = field(default_factory=list)
    form: Form = "diff"
    short: bool = False  # the model is asked without the protocol: what it is told must be short too
    windows: Mapping[str, tuple[Window, ...]] = field(default_factory=dict)
    fits: bool = False  # the files are short enough to be asked for as a whole
    read_limit: int = READ_LIMIT
    seen: dict[str, list[tuple[int, int]]] = field(default_factory=dict)  # of files that are not shown whole
    reminder: str = ""
    refusals: int = 0  # in a row
    goes_on: str = GOES_ON
    read: Callable[[str], Source] | None = None  # another version of the files than that of the work tree
    not_ignored: frozenset[str] = frozenset()  # of which git was asked already
    conversation: Path | None = None  # of the run, which `recall` leaves out: the model has it
    attachments: Attachments | None = None  # None: images and PDFs can't be shown
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
        """Whether a fence may be what it holds, though it does not say so."""
        return self.short or self.form in LOOSE

    @property
    def still_missing(self) -> str:
        """What of an edit in several parts is kept as a draft, and what is missing."""
        names = [result.change.name for result in self.kept]
        kept = ", ".join(f"{name}{' (in part)' * (name in self.missing)}" for name in names)
        missing = "; ".join(self.missing.values())
        text = (
            f"Kept as a draft: {kept}. Still missing: {missing}. Send only what is missing. {self.withdraw}"
        )
        return text.rstrip()

    @property
    def waiting(self) -> str:
        """The same for the user, in a line."""
        hunks = {(place.path, place.line) for result in self.kept for place in result.placements}
        fit = "1 hunk fits and is" if len(hunks) == 1 else f"{len(hunks)} hunks fit and are"
        return f"{fit} kept; waiting for {', '.join(self.missing.values())}"

    def drop_kept(self) -> None:
        """Forget what is kept of a refused edit."""
        self.kept, self.missing, self.said, self.refusal = (), {}, [], None

    def sent_back(self, text: str) -> str:
        """What a model is told of an edit that was refused: why, what of it is missing, and after some of these to try
        another form."""
        if self.missing:
            text = f"{text}\n\n{self.still_missing}"
        before = form_after(self.form, self.refusals, fits=self.fits)
        self.refusals += 1
        now = form_after(self.form, self.refusals, fits=self.fits)
        paths = self.request.paths
        if now != before:
            self.reminder = reminder(now, paths) if self.short else ""
            return (
                f"{text}\n\nWrite the edit in another form now.\n\n{form_text(now)}{self.reminder}".rstrip()
            )
        return f"{text}\n{self.reminder}".rstrip()


def read_tool(bench: Workbench) -> Tool:
    """`read`. The `data` of what it shows has the blob of the file."""

    def perform(action: Action) -> Observation:
        path = action.args.get("path", "")
        source = known_or_read(bench, path)
        present = bench.draft.texts().get(source.path)
        if present is not None and (media := media_in(present.data, source.path)) is not None:
            return _attached(bench, media)
        text = current_text(bench, source)
        said: list[str] = []
        ranges, name = [action.args.get("lines", "")], action.args.get("symbol", "").strip()
        if name:
            symbols, remark = _symbols(source.path, text.encode("utf-8", "surrogatepass"), name)
            ranges = [f"{symbol.first_line}-{symbol.last_line}" for symbol in symbols]
            said += filter(None, [remark])
        for lines in ranges:
            part = read_part(text, lines, action.args.get("characters", ""), bench.read_limit // len(ranges))
            if source.path in bench.seen:
                bench.seen[source.path].append((part.first, part.last))
            label = f'file path={quoted(source.path)} lines="{part.first}-{part.last}"'
            if part.characters:
                label += f' characters="{part.characters[0]}-{part.characters[1]}"'
            said += filter(None, [fence(part.text, label), part.rest])
        return Observation("read", "\n".join(said), data={"shown": {source.path: source.blob}})

    text = '<read path="FILE" lines="10-80"/> shows a file, lines of it or symbol="NAME".'
    return Tool("read", text, _reporting("read", perform), replay=True, needs="nothing")


def _symbols(path: str, data: bytes, name: str) -> tuple[tuple[Symbol, ...], str]:
    """The symbols that a model means by `name`, and a sentence where it has written another name. Raises UsageError."""
    from repoagent.split import find_symbols, nearly_named

    try:
        return find_symbols(path, data, name), ""
    except UsageError:
        near = nearly_named(path, data, name)
        if not near:
            raise
        return find_symbols(path, data, near), f"{path} has no symbol {name!r}; this is {near}."


def media_in(data: bytes, path: str) -> Media | None:
    """The image or PDF that a file is; None for text. Raises UsageError for one that is broken or of another kind."""
    from repoagent.llm.media import media_of
    from repoagent.llm.media.kinds import type_of

    if type_of(data) is None and decode(data) is not None:
        return None
    try:
        return media_of(data, path)
    except UsageError:
        if data.isascii():  # a text that begins as a GIF or a PDF does
            return None
        raise


def _attached(bench: Workbench, media: Media) -> Observation:
    from repoagent.llm.media import in_words

    shelf = bench.attachments
    why = shelf.why_not([media]) if shelf is not None else "images and PDFs can't be shown here"
    if shelf is None or why:
        return Observation("read", f"{why}; {in_words(media)}.")
    return Observation("read", f"{in_words(media)}; it follows.", attached=shelf.keep(media))


def search_tool(bench: Workbench) -> Tool:
    def perform(action: Action) -> Observation:
        pattern = action.args.get("pattern") or action.body.strip()
        if not pattern.strip():
            return Observation("search", "Say what to search for.", ok=False)
        path = action.args.get("path", "").strip()
        path = known_or_read(bench, path).path if path else ""
        found = search(bench.worktree.top, pattern, bench.why_not, path, at=bench.at)
        return Observation("search", matches_text(found))

    text = '<search pattern="REGULAR EXPRESSION"/> lists matching lines, of all files or path="FILE".'
    return Tool("search", text, _reporting("search", perform), needs="nothing")


def matches_text(found: Matches) -> str:
    """The matches as a model reads them."""
    rows = fence("\n".join(found.rows), "matches") if found.rows else ""
    return "\n".join(filter(None, [rows, found.remark]))


def files_tool(bench: Workbench) -> Tool:
    def perform(action: Action) -> Observation:
        path, pattern = action.args.get("path", ""), action.args.get("pattern", "")
        found = list_files(bench.worktree.top, bench.why_not, path, pattern)
        rows = listing_text(found)
        text = fence(rows, "listing") if rows else "No file matches." if pattern else "There are no files."
        return Observation("files", "\n".join(filter(None, [text, left_out_text(found)])))

    text = '<files path="FOLDER" pattern="*.py"/> lists files; without a pattern, of one folder.'
    return Tool("files", text, _reporting("files", perform), needs="nothing")


def outline_tool(bench: Workbench) -> Tool:
    def perform(action: Action) -> Observation:
        from repoagent.split import outline, render_outline

        source = known_or_read(bench, action.args.get("path", ""))
        symbols = outline(source.path, current_text(bench, source).encode("utf-8", "surrogateescape"))
        return Observation(
            "outline", fence(render_outline(symbols), "outline") if symbols else "No definitions found."
        )

    text = '<outline path="FILE"/> lists its definitions with their lines.'
    return Tool("outline", text, _reporting("outline", perform), needs="nothing")


def history_tool(bench: Workbench) -> Tool:
    def perform(action: Action) -> Observation:
        from repoagent.history import Look

        path = action.args.get("path", "")
        check_path(path)
        if reason := bench.why_not(path):
            return Observation("history", reason, ok=False)
        with Look(bench.worktree, path, 20, summaries=layout(bench.worktree).summaries) as look:
            block = look.block()
        return Observation("history", fence(block, "history") if block else f"git has no commit of {path}.")

    return Tool(
        "history",
        '<history path="FILE"/> shows its commits and authors.',
        _reporting("history", perform),
        needs="nothing",
    )


def neighbors_tool(bench: Workbench) -> Tool:
    def perform(action: Action) -> Observation:
        from repoagent.history import candidates_block, neighborhood

        path = action.args.get("path", "")
        check_path(path)
        if reason := bench.why_not(path):
            return Observation("neighbors", reason, ok=False)
        block = candidates_block(neighborhood(bench.worktree, [path]))
        text = fence(f"{block}\n", "neighbors") if block else f"nothing has changed with {path}."
        return Observation("neighbors", text)

    return Tool(
        "neighbors",
        '<neighbors path="FILE"/> shows what changes with it.',
        _reporting("neighbors", perform),
        needs="nothing",
    )


def uses_tool(bench: Workbench) -> Tool:
    def perform(action: Action) -> Observation:
        from repoagent.uses import answer, told

        named = (action.args.get("path", "").removeprefix("./"), action.args.get("symbol", ""))
        wanted = ":".join(filter(None, map(str.strip, named)))
        if not wanted:
            return Observation("uses", 'Say which: symbol="NAME", or path="FILE".', ok=False)
        text = told(answer(bench.worktree, wanted, bench.why_not, limit=USES_SHOWN))
        return Observation("uses", fence(text, "uses") if text else f"No file has {wanted}.")

    text = '<uses symbol="NAME"/> shows where a name is used; path="FILE" all names that it defines.'
    return Tool("uses", text, _reporting("uses", perform), needs="nothing")


def recall_tool(bench: Workbench) -> Tool:
    def perform(action: Action) -> Observation:
        from repoagent.memory.recall import Search, told
        from repoagent.memory.recall import search as search_memories

        query = (action.args.get("query") or action.body).strip()
        if not query:
            return Observation("recall", "Say what to search for.", ok=False)
        found = search_memories(layout(bench.worktree), query, how=Search(without=bench.conversation))
        lines = [told(hit) for hit in found if not (hit.file and bench.why_not(hit.file))]
        return Observation("recall", fence("\n".join(lines), "memories") if lines else "Nothing fits.")

    return Tool(
        "recall",
        '<recall query="WORDS"/> searches earlier notes, requests and edits.',
        _reporting("recall", perform),
        needs="nothing",
    )


def known_or_read(bench: Workbench, path: str) -> Source:
    """The source of `path`, bound on first sight. Raises Refused or UsageError when it may not be read."""
    path = path.strip().removeprefix("./")
    if not path:
        raise UsageError('say which file: path="FILE"')
    if reason := bench.why_not(path):
        raise Refused(reason)
    if path not in bench.draft.sources:
        source = bench.read(path) if bench.read else read_source(bench.worktree, path)
        bench.draft = bench.draft.with_source(source)
        if _may_edit(bench, source):
            bench.editable.add(path)
    return bench.draft.sources[path]


def _may_edit(bench: Workbench, source: Source) -> bool:
    """Whether a file that the model found by itself may be changed."""
    if bench.request.scope != "repo" or source.data is None or source.path in bench.request.read:
        return False
    return not why_content_is_off_limits(source.data) and not is_ignored_here(bench, source.path)


def current_text(bench: Workbench, source: Source) -> str:
    """The text of a file as the draft has it now. Raises UsageError when there is none."""
    present = bench.draft.texts().get(source.path)
    if present is None:
        raise UsageError(f"there is no file {source.path}")
    return shown(present.data)


def is_ignored_here(bench: Workbench, path: str) -> bool:
    """Whether git ignores the file. What a person names is edited all the same; a model does not reach it."""
    if path in bench.request.paths or path in bench.not_ignored:
        return False
    return path in is_ignored(bench.worktree, [path])


def _reporting(kind: str, perform: Callable[[Action], Observation]) -> Callable[[Action], Observation]:
    """A tool whose expected failures are observations: the model can act on them."""

    def safely(action: Action) -> Observation:
        try:
            return perform(action)
        except RepoagentError as error:
            return Observation(kind, str(error), ok=False)

    return safely
