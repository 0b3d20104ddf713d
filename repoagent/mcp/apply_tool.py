"""The tool `apply`: it checks a patch and, where the server may write, commits it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict

from repoagent.api.results import EditResult
from repoagent.errors import NothingDone, Refused, UsageError
from repoagent.mcp import tool
from repoagent.mcp.tool import Call, Service, Tool, ToolResult
from repoagent.mcp.tools import clip

_POLL = 0.1  # seconds between two checks whether a waiting call was cancelled
_CANCELLED = "the call was cancelled; nothing was changed"


def apply(call: Call) -> ToolResult:
    """Always a dry run first, to see which files the patch changes: each of them must be in `sources`."""
    if not call.service.write or call.arguments["check_only"]:
        return _tool_result(_dry_run(call))
    with _write_lock(call):
        from repoagent.edit.unfinished import settle
        from repoagent.storage.layout import to_stderr

        settle(call.worktree, lambda sentence: to_stderr(f"recovered: {sentence}"), to_stderr)
        _dry_run(call)
        return _tool_result(_apply(call, dry_run=False))


@contextmanager
def _write_lock(call: Call) -> Iterator[None]:
    """One call writes at a time. Raises NothingDone for a call that was cancelled before its turn."""
    while not call.service.writing.acquire(timeout=_POLL):
        if call.cancelled.is_set():
            raise NothingDone(_CANCELLED)
    try:
        if call.cancelled.is_set():
            raise NothingDone(_CANCELLED)
        yield
    finally:
        call.service.writing.release()


def _dry_run(call: Call) -> EditResult:
    """What the patch would do. Raises UsageError for a file that it changes and that is missing in `sources`."""
    result = _apply(call, dry_run=True)
    sources = {path.removeprefix("./") for path in call.arguments["sources"]}
    for file in result.files:
        if file.old_path is not None and file.old_path not in sources:
            raise UsageError(
                f"the patch changes {file.old_path}, which is missing in sources: read the file, and pass the blob id "
                "that `read` returns"
            )
    return result


def _apply(call: Call, *, dry_run: bool) -> EditResult:
    from repoagent.api.results import Patch, patched
    from repoagent.edit.commit import without_claims, without_controls
    from repoagent.edit.ui import NonInteractive
    from repoagent.git.transaction.results import Options

    arguments = call.arguments
    sources = {call.path(path): blob for path, blob in arguments["sources"].items()}
    message = without_claims(without_controls(arguments["message"]))
    patch = Patch(_unmasked(call, list(sources)), sources=sources, message=message)
    ui = NonInteractive(agree=lambda proposal: not call.cancelled.is_set(), hear=call.progress)
    try:
        return patched(
            call.worktree, patch, call.settings(), ui,
            options=Options(no_commit=not arguments["commit"]), dry_run=dry_run,
        )  # fmt: skip
    except NothingDone as error:
        raise (NothingDone(_CANCELLED) if call.cancelled.is_set() else error) from error


def _unmasked(call: Call, paths: list[str]) -> bytes:
    """The patch with secrets in place of their placeholders. Raises Refused for a placeholder that this server did not
    make, unless a file has it as its text."""
    from repoagent.git.files import read_source
    from repoagent.storage.secrets import unknown_in, unmask

    patch = call.arguments["patch"]
    if unknown := unknown_in(patch):
        texts = [read_source(call.worktree, path).data or b"" for path in paths]
        for name in unknown:
            if not any(name.encode() in text for text in texts):
                raise Refused(
                    f"unknown placeholder {name}: read the file again, and use the placeholder that it shows"
                )
    return unmask(patch).encode("utf-8", "surrogatepass")


def _tool_result(result: EditResult) -> ToolResult:
    from repoagent.edit.ui import summary

    outcome = {
        "committed": f"Committed {(result.commit or '')[:12]} on {result.branch or 'a detached HEAD'}",
        "written": "Written, not committed",
    }.get(result.kind, "The patch fits; nothing was written")
    places = summary(result.placements)
    data = {
        "outcome": "fits" if result.kind == "proposed" else result.kind,
        "edit": result.edit_id if result.kind != "proposed" else None,
        "commit": result.commit,
        "branch": result.branch,
        "files": [asdict(file) for file in result.files],
        "placements": [asdict(placement) for placement in result.placements],
        "diff": clip(result.diff),
        "message": result.message,
        "remarks": list(result.remarks),
    }
    subject = result.message.split("\n", 1)[0]
    lines = [f"{outcome}: {subject}", f"Placed at {places}." if places else "", *result.remarks]
    return ToolResult("\n".join(filter(None, lines)), data)


def apply_tool(service: Service) -> Tool:
    """`apply`; it only checks unless the server may write."""
    effect = (
        "Applies it and commits exactly this change; other changes in the work tree stay, hooks run. The user undoes "
        "it with `repoagent undo`. With check_only, writes nothing."
        if service.write
        else "This server was started without --write: it reports whether and where the patch would apply, and "
        "writes nothing."
    )
    return Tool(
        "apply",
        "Apply a patch" if service.write else "Check a patch",
        "Checks a patch (a unified diff, or SEARCH/REPLACE blocks) against the files: it places each hunk by its "
        "lines; the result must have no new syntax errors and remove nothing that the patch does not name; it refuses "
        "paths outside the work tree or in .git, and ignored, secret or generated files. The patch applies as a whole "
        "or not at all. " + effect,
        tool.arguments(
            ["patch", "sources"],
            patch=tool.text("The patch, with paths from the top of the repository.", maximum=tool.PATCH_LENGTH),
            sources={
                "type": "object",
                "description": "For each existing file that the patch changes: the blob id that `read` returned with "
                "the text that the patch was made for. {} for a patch that only adds files. If the file has changed "
                "since, the patch is merged into it, or refused.",
                "additionalProperties": {"type": "string", "pattern": "^[0-9a-fA-F]{7,64}$"},
                "propertyNames": {"minLength": 1, "maxLength": tool.PATH_LENGTH},
                "maxProperties": 1000,
            },
            message=tool.optional_text(
                "The commit message: a subject, an empty line, a body. By default, the message in the patch.",
                maximum=20_000,
            ),
            commit=tool.boolean("Commit the change; false only writes the files.", default=True),
            check_only=tool.boolean("Only report whether and where it applies.", default=not service.write),
        ),
        tool.result({
            "outcome": ("fits", "written", "committed"), "edit": "string?", "commit": "string?", "branch": "string?",
            "files": [{"path": "string?", "old_path": "string?", "mode": "string?"}],
            "placements": [
                {"path": "string", "hunk": "integer", "line": "integer", "level": "string", "tolerances": ["string"]}
            ],
            "diff": "string", "message": "string", "remarks": ["string"],
        }),
        apply,
        writes=service.write,
    )  # fmt: skip
