"""The look-up tools of a model (`read`, `search`, `files`, `outline`, ...) in one edit."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from repoagent.agent.actions import Action, Observation
from repoagent.agent.state import Tool
from repoagent.edit.draft import EditSession
from repoagent.edit.prompt.blocks import quoted
from repoagent.edit.prompt.large_files import read_part
from repoagent.errors import Refused, RepoagentError, UsageError
from repoagent.git.files import check_path
from repoagent.git.worktree import layout
from repoagent.llm.model import fence
from repoagent.patch.model import decode

if TYPE_CHECKING:
    from repoagent.edit.file_search import Matches
    from repoagent.llm.media import Media

USES_SHOWN = 20  # files of a symbol, or symbols of a file


def look_up(session: EditSession, name: str) -> Tool:
    """The tool `name` of LOOK_UPS. It only reads; a RepoagentError becomes an observation for the model."""
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
        return _attached(session, media)
    text = session.text(source)
    rows: list[str] = []
    ranges, name = [action.args.get("lines", "")], action.args.get("symbol", "").strip()
    if name:
        from repoagent.syntax.outline import find_symbols, nearly_named

        data = text.encode("utf-8", "surrogatepass")
        try:
            symbols = find_symbols(source.path, data, name)
        except UsageError:
            near = nearly_named(source.path, data, name)
            if not near:
                raise
            symbols = find_symbols(source.path, data, near)
            rows.append(f"{source.path} has no symbol {name!r}; this is {near}.")
        ranges = [f"{symbol.first_line}-{symbol.last_line}" for symbol in symbols]
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


def media_in(data: bytes, path: str) -> Media | None:
    """The content of a file as an image or PDF; None for text. Raises UsageError if it is broken or unsupported."""
    from repoagent.llm.media import media_of, type_of

    if type_of(data) is None and decode(data) is not None:
        return None
    try:
        return media_of(data, path)
    except UsageError:
        if data.isascii():  # a text that begins like a GIF or a PDF
            return None
        raise


def _attached(session: EditSession, media: Media) -> Observation:
    attachments = session.attachments() if session.attachments is not None else None
    why = attachments.why_not([media]) if attachments is not None else "images and PDFs cannot be shown here"
    if attachments is None or why:
        return Observation("read", f"{why}; {media.name}: {media.described()}.")
    content = f"{media.name}: {media.described()}; attached below."
    return Observation("read", content, attached=attachments.keep(media))


def _search(session: EditSession, action: Action) -> str:
    from repoagent.edit.file_search import search

    pattern = action.args.get("pattern") or _query(action, "pattern")
    path = action.args.get("path", "").strip()
    path = session.source(path).path if path else ""
    return matches_text(search(session.worktree.top, pattern, session.why_not, path, at=session.at))


def matches_text(matches: Matches) -> str:
    """The matches as text for a model."""
    rows = fence("\n".join(matches.rows), "matches") if matches.rows else ""
    return "\n".join(filter(None, [rows, matches.remark]))


def _files(session: EditSession, action: Action) -> str:
    from repoagent.edit.file_search import left_out_text, list_files, listing_text

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
    """The commits of a file, which may be deleted, or (`neighbors`) the files that change with it."""
    path = action.args.get("path", "")
    check_path(path)
    if reason := session.why_not(path):
        raise Refused(reason)
    if action.kind == "neighbors":
        from repoagent.history.neighbors import neighborhood
        from repoagent.history.render import candidates_block

        block = candidates_block(neighborhood(session.worktree, [path]))
        return fence(f"{block}\n", "neighbors") if block else f"No file has changed together with {path}."
    from repoagent.history.file_history import prompt_block

    block = prompt_block(session.worktree, path, 20, summaries=layout(session.worktree).summaries)
    return fence(block, "history") if block else f"No commits of {path}."


def _uses(session: EditSession, action: Action) -> str:
    from repoagent.uses.report import answer, answer_text

    named = (action.args.get("path", "").removeprefix("./"), action.args.get("symbol", ""))
    symbol = ":".join(filter(None, map(str.strip, named)))
    if not symbol:
        raise UsageError('Specify symbol="NAME" or path="FILE".')
    text = answer_text(answer(session.worktree, symbol, session.why_not, limit=USES_SHOWN))
    return fence(text, "uses") if text else f"No file has {symbol}."


def _recall(session: EditSession, action: Action) -> str:
    from repoagent.memory.search.search import Search, hit_line, search

    hits = search(layout(session.worktree), _query(action, "query"), how=Search(without=session.conversation))
    lines = [hit_line(hit) for hit in hits if not (hit.file and session.why_not(hit.file))]
    return fence("\n".join(lines), "memories") if lines else "Nothing fits."


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
