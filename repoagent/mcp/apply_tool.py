"""The tool that checks a patch and, where the server may write, makes it a commit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from repoagent.api.results import EditResult
from repoagent.errors import NothingDone, Refused, UsageError
from repoagent.mcp import schema
from repoagent.mcp.schema import Call, Offer, Service, Told
from repoagent.mcp.tools import ServerContext, bench, clipped

_LOOK = 0.1  # seconds between two looks whether a call that waits was cancelled
_GONE = "the call was cancelled; nothing was changed"


def apply(call: Call) -> Told:
    """First without writing, whatever is asked: where it goes, and that each text it changes is one that was read."""
    here = bench(call)
    if not call.service.write or call.arguments["check_only"]:
        return _told(_bound(call, here))
    with _alone(call):
        _settle(here)
        _bound(call, here)
        return _told(_patched(call, here, dry_run=False))


def _bound(call: Call, here: ServerContext) -> EditResult:
    """What the patch would do. Raises UsageError for a file that it changes and `sources` does not have."""
    found = _patched(call, here, dry_run=True)
    sources = {path.removeprefix("./") for path in call.arguments["sources"]}
    for file in found.files:
        if file.old_path is not None and file.old_path not in sources:
            raise UsageError(
                f"the patch changes {file.old_path}, which is missing in sources: read the file, and pass the blob id "
                "that `read` returns"
            )
    return found


def _patched(call: Call, here: ServerContext, *, dry_run: bool) -> EditResult:
    from repoagent.api.results import Patch, patched
    from repoagent.edit.commit import without_claims, without_controls
    from repoagent.edit.ui import NonInteractive
    from repoagent.git.transaction.results import Options

    given = call.arguments
    sources = {here.path(path): blob for path, blob in given["sources"].items()}
    message = without_claims(without_controls(given["message"]))
    patch = Patch(_real(given["patch"], here, list(sources)), sources=sources, message=message)
    ui = NonInteractive(agree=lambda proposal: not call.cancelled.is_set(), hear=call.progress)
    try:
        return patched(
            here.worktree, patch, here.settings(), ui,
            options=Options(no_commit=not given["commit"]), dry_run=dry_run,
        )  # fmt: skip
    except NothingDone as error:
        raise (NothingDone(_GONE) if call.cancelled.is_set() else error) from error


def _real(patch: str, here: ServerContext, paths: list[str]) -> bytes:
    """The patch with the texts that stand behind the placeholders of what was read. Raises Refused for one of which
    this server knows nothing, unless a file has it as its text."""
    from repoagent.git.files import read_source
    from repoagent.storage.secrets import unknown_in, unmask

    if unknown := unknown_in(patch):
        texts = [read_source(here.worktree, path).data or b"" for path in paths]
        for name in unknown:
            if not any(name.encode() in text for text in texts):
                raise Refused(
                    f"unknown placeholder {name}: read the file again, and use the placeholder that it shows"
                )
    return unmask(patch).encode("utf-8", "surrogatepass")


@contextmanager
def _alone(call: Call) -> Iterator[None]:
    """One call writes at a time. Raises NothingDone where the client has given up before it was its turn."""
    while not call.service.writing.acquire(timeout=_LOOK):
        if call.cancelled.is_set():
            raise NothingDone(_GONE)
    try:
        if call.cancelled.is_set():
            raise NothingDone(_GONE)
        yield
    finally:
        call.service.writing.release()


def _settle(here: ServerContext) -> None:
    from repoagent.edit.unfinished import settle
    from repoagent.storage.layout import to_stderr

    settle(here.worktree, lambda sentence: to_stderr(f"recovered: {sentence}"), to_stderr)


def _told(found: EditResult) -> Told:
    from repoagent.edit.ui import summary

    did = {
        "committed": f"Committed {(found.commit or '')[:12]} on {found.branch or 'a detached HEAD'}",
        "written": "Written, not committed",
    }.get(found.kind, "The patch fits; nothing was written")
    places = summary(found.placements)
    diff = clipped(found.diff)
    data: dict[str, Any] = {
        "outcome": "fits" if found.kind == "proposed" else found.kind,
        "edit": found.edit_id if found.kind != "proposed" else None,
        "commit": found.commit,
        "branch": found.branch,
        "files": [{"path": file.path, "old_path": file.old_path, "mode": file.mode} for file in found.files],
        "placements": [
            {
                "path": place.path,
                "hunk": place.hunk,
                "line": place.line,
                "level": place.level,
                "tolerances": list(place.tolerances),
            }
            for place in found.placements
        ],
        "diff": diff,
        "message": found.message,
        "remarks": list(found.remarks),
    }
    lines = [
        f"{did}: {found.message.split(chr(10), 1)[0]}",
        f"Placed at {places}." if places else "",
        *found.remarks,
    ]
    return Told("\n".join(filter(None, lines)), data)


def apply_offer(service: Service) -> Offer:
    """`apply`, as a check alone unless the server may write."""
    how = (
        "Applies it and commits exactly this change; other changes in the work tree stay, hooks run. The user undoes "
        "it with `repoagent undo`. With check_only, writes nothing."
        if service.write
        else "This server was started without --write: it reports whether and where the patch would apply, and "
        "writes nothing."
    )
    text = (
        "Checks a patch (a unified diff, or SEARCH/REPLACE blocks) against the files: it places each hunk by its "
        "lines; the result must have no new syntax errors and remove nothing that the patch does not name; it refuses "
        "paths outside the work tree or in .git, and ignored, secret or generated files. The patch applies as a whole "
        "or not at all. "
    )
    return Offer(
        "apply",
        "Apply a patch" if service.write else "Check a patch",
        text + how,
        schema.takes(
            ["patch", "sources"],
            patch=schema.text("The patch, with paths from the top of the repository.", most=schema.TEXT_LENGTH),
            sources={
                "type": "object",
                "description": "For each existing file that the patch changes: the blob id that `read` returned with "
                "the text that the patch was made for. {} for a patch that only adds files. If the file has changed "
                "since, the patch is merged into it, or refused.",
                "additionalProperties": {"type": "string", "pattern": "^[0-9a-fA-F]{7,64}$"},
                "propertyNames": {"minLength": 1, "maxLength": schema.PATH_LENGTH},
                "maxProperties": 1000,
            },
            message=schema.text(
                "The commit message: a subject, an empty line, a body. By default, the message in the patch.",
                most=20_000, default="", least=0,
            ),
            commit=schema.yes_no("Commit the change; false only writes the files.", default=True),
            check_only=schema.yes_no("Only report whether and where it applies.", default=not service.write),
        ),
        schema.gives(
            outcome={"enum": ["fits", "written", "committed"]}, edit="text?", commit="text?", branch="text?",
            files=schema.listed(schema.gives(path="text?", old_path="text?", mode="text?")),
            placements=schema.listed(
                schema.gives(path="text", hunk="whole", line="whole", level="text", tolerances="text*")
            ),
            diff="text", message="text", remarks="text*",
        ),
        apply,
        writes=service.write,
    )  # fmt: skip
