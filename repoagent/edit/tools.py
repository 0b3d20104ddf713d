"""The look-up tools of a model (`read`, `search`, `files`, `outline`, ...) over the session of one edit."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from repoagent.agent.actions import Action, Observation
from repoagent.agent.state import Tool
from repoagent.edit.draft import EditSession
from repoagent.edit.file_search import Matches, left_out_text, list_files, listing_text, search
from repoagent.edit.prompt.blocks import quoted
from repoagent.edit.prompt.large_files import read_part
from repoagent.errors import Refused, RepoagentError, UsageError
from repoagent.git.files import check_path
from repoagent.git.worktree import layout
from repoagent.llm.model import fence
from repoagent.patch.model import decode

if TYPE_CHECKING:
    from repoagent.llm.media import Media
    from repoagent.syntax.symbol import Symbol

USES_SHOWN = 20  # files of a symbol, or symbols of a file


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


def _query(action: Action, name: str) -> str:
    query = (action.args.get(name) or action.body).strip()
    if not query:
        raise UsageError("Specify what to search for.")
    return query


def read_tool(session: EditSession) -> Tool:
    """`read`. The `data` of what it shows has the blob of the file."""

    def read(action: Action) -> str | Observation:
        source = session.source(action.args.get("path", ""))
        present = session.draft.texts().get(source.path)
        if present is not None and (media := media_in(present.data, source.path)) is not None:
            return _attached(session, media)
        text = session.text(source)
        rows: list[str] = []
        ranges, name = [action.args.get("lines", "")], action.args.get("symbol", "").strip()
        if name:
            symbols, remark = _symbols(source.path, text.encode("utf-8", "surrogatepass"), name)
            ranges = [f"{symbol.first_line}-{symbol.last_line}" for symbol in symbols]
            rows += filter(None, [remark])
        for lines in ranges:
            characters = action.args.get("characters", "")
            part = read_part(text, lines, characters, session.read_limit // len(ranges))
            if source.path in session.seen:
                session.seen[source.path].append((part.first, part.last))
            label = f'file path={quoted(source.path)} lines="{part.first}-{part.last}"'
            if part.characters:
                label += f' characters="{part.characters[0]}-{part.characters[1]}"'
            rows += filter(None, [fence(part.text, label), part.rest])
        return Observation("read", "\n".join(rows), data={"shown": {source.path: source.blob}})

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


def _attached(session: EditSession, media: Media) -> Observation:
    from repoagent.llm.attachments import in_words

    attachments = session.attachments
    why = attachments.why_not([media]) if attachments is not None else "images and PDFs cannot be shown here"
    if attachments is None or why:
        return Observation("read", f"{why}; {in_words(media)}.")
    return Observation("read", f"{in_words(media)}; attached below.", attached=attachments.keep(media))


def search_tool(session: EditSession) -> Tool:
    def search_files(action: Action) -> str:
        pattern = action.args.get("pattern") or _query(action, "pattern")
        path = action.args.get("path", "").strip()
        path = session.source(path).path if path else ""
        return matches_text(search(session.worktree.top, pattern, session.why_not, path, at=session.at))

    text = '<search pattern="REGULAR EXPRESSION"/> lists matching lines, of all files or path="FILE".'
    return _look_up("search", text, search_files)


def matches_text(matches: Matches) -> str:
    """The matches as shown to a model."""
    rows = fence("\n".join(matches.rows), "matches") if matches.rows else ""
    return "\n".join(filter(None, [rows, matches.remark]))


def files_tool(session: EditSession) -> Tool:
    def files(action: Action) -> str:
        path, pattern = action.args.get("path", ""), action.args.get("pattern", "")
        listing = list_files(session.worktree.top, session.why_not, path, pattern)
        rows = listing_text(listing)
        text = fence(rows, "listing") if rows else "No file matches." if pattern else "There are no files."
        return "\n".join(filter(None, [text, left_out_text(listing)]))

    text = '<files path="FOLDER" pattern="*.py"/> lists files; without a pattern, of one folder.'
    return _look_up("files", text, files)


def outline_tool(session: EditSession) -> Tool:
    def outline_file(action: Action) -> str:
        from repoagent.syntax.outline import outline
        from repoagent.syntax.symbol import render_outline

        source = session.source(action.args.get("path", ""))
        symbols = outline(source.path, session.text(source).encode("utf-8", "surrogateescape"))
        return fence(render_outline(symbols), "outline") if symbols else "No definitions found."

    return _look_up("outline", '<outline path="FILE"/> lists its definitions with their lines.', outline_file)


def _path_in_history(session: EditSession, action: Action) -> str:
    """The requested path; its file need not exist any more. Raises RepoagentError if it is withheld."""
    path = action.args.get("path", "")
    check_path(path)
    if reason := session.why_not(path):
        raise Refused(reason)
    return path


def history_tool(session: EditSession) -> Tool:
    def history(action: Action) -> str:
        from repoagent.history.file_history import prompt_block

        path = _path_in_history(session, action)
        summaries = layout(session.worktree).summaries
        block = prompt_block(session.worktree, path, 20, summaries=summaries)
        return fence(block, "history") if block else f"No commits of {path}."

    return _look_up("history", '<history path="FILE"/> shows its commits and authors.', history)


def neighbors_tool(session: EditSession) -> Tool:
    def neighbors(action: Action) -> str:
        from repoagent.history.neighbors import neighborhood
        from repoagent.history.render import candidates_block

        path = _path_in_history(session, action)
        block = candidates_block(neighborhood(session.worktree, [path]))
        return fence(f"{block}\n", "neighbors") if block else f"No file has changed together with {path}."

    return _look_up("neighbors", '<neighbors path="FILE"/> shows what changes with it.', neighbors)


def uses_tool(session: EditSession) -> Tool:
    def uses(action: Action) -> str:
        from repoagent.uses.report import answer, answer_text

        named = (action.args.get("path", "").removeprefix("./"), action.args.get("symbol", ""))
        symbol = ":".join(filter(None, map(str.strip, named)))
        if not symbol:
            raise UsageError('Specify symbol="NAME" or path="FILE".')
        text = answer_text(answer(session.worktree, symbol, session.why_not, limit=USES_SHOWN))
        return fence(text, "uses") if text else f"No file has {symbol}."

    text = '<uses symbol="NAME"/> shows where a name is used; path="FILE" all names that it defines.'
    return _look_up("uses", text, uses)


def recall_tool(session: EditSession) -> Tool:
    def recall(action: Action) -> str:
        from repoagent.memory.search.search import Search, hit_line
        from repoagent.memory.search.search import search as search_memories

        query = _query(action, "query")
        hits = search_memories(layout(session.worktree), query, how=Search(without=session.conversation))
        lines = [hit_line(hit) for hit in hits if not (hit.file and session.why_not(hit.file))]
        return fence("\n".join(lines), "memories") if lines else "Nothing fits."

    return _look_up("recall", '<recall query="WORDS"/> searches earlier notes, requests and edits.', recall)
