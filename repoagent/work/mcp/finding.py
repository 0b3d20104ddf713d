"""The tools that read a file, search what is remembered, and find what is wrong with a change."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from repoagent.agent import fence
from repoagent.errors import UsageError
from repoagent.work.mcp import shape
from repoagent.work.mcp.bench import MOST, bench, clipped
from repoagent.work.mcp.offer import Call, Offer, Service, Told

if TYPE_CHECKING:
    from repoagent.llm.media import Media
    from repoagent.repo import Source

FINDINGS = 30
IMAGE_BYTES = 5 * 1024 * 1024  # as it is sent, base64
_NO_PDF = (
    "this tool gives text and images. Make text of it (pdftotext), or images of its pages (pdftoppm -png)"
)
KINDS = ("note", "edit", "conversation", "commit", "summary")


def read(call: Call) -> Told:
    from repoagent.edit.briefing.context import quoted, shown
    from repoagent.edit.briefing.tools import media_in
    from repoagent.edit.large.reading import read_part
    from repoagent.work.answers.outlined import present

    here = bench(call)
    path = here.path(call.arguments["path"])
    source, data = present(here.worktree, path)
    if (media := media_in(data, path)) is not None:
        return _image(source, media)
    text = shown(data)
    first, last = call.arguments["first_line"], call.arguments.get("last_line")
    lines = "" if first == 1 and last is None else f"{first}-{last or 1_000_000_000}"
    characters = call.arguments.get("characters", "")
    part = read_part(text, lines, characters, MOST) if text else read_part("", "", "", MOST)
    label = f'file path={quoted(path)} blob="{source.blob}" lines="{part.first}-{part.last}"'
    if part.characters:
        label += f' characters="{part.characters[0]}-{part.characters[1]}"'
    content = {
        "path": path,
        "blob": source.blob,
        "first_line": part.first,
        "last_line": part.last,
        "lines": text.count("\n") + (not text.endswith("\n") and bool(text)),
        "text": part.text,
        "rest": part.rest,
    }
    return Told("\n".join(filter(None, [fence(part.text, label), part.rest])), content)


def _image(source: Source, media: Media) -> Told:
    """An image as the protocol has it; what else there is of it, and of a PDF, in words."""
    from repoagent.llm import Message, Part, Request
    from repoagent.llm.media import MediaLimits, in_words, refuse_over

    request = Request((), (Message("user", (Part("", media=media),)),))
    refuse_over(request, MediaLimits(image_bytes=IMAGE_BYTES, no_pdf=_NO_PDF), "an assistant")
    lines = {"first_line": 1, "last_line": 1, "lines": 0}
    content = {"path": source.path, "blob": source.blob, **lines, "text": "", "rest": ""}
    return Told(f"{in_words(media)}; it follows.", content, media)


def recall(call: Call) -> Told:
    from repoagent.memory.recall.ask import Search, answer, told
    from repoagent.memory.recall.query import parse
    from repoagent.repo import layout
    from repoagent.store import to_stderr

    here = bench(call)
    query = call.arguments["query"]
    if not parse(query).words:
        raise UsageError(f"there is no word in the query {query[:80]!r}: say at least one to search for")
    paths = [here.path(path, folder=True) for path in call.arguments["paths"]]
    how = Search(
        limit=call.arguments["limit"],
        kinds=call.arguments["kinds"],
        files=[] if "." in paths else paths,
        width=400,
    )

    def done(count: int, total: int) -> None:
        call.progress("reading what is remembered", count, total)

    found = answer(layout(here.worktree), query, how, warn=to_stderr, progress=done)
    hits = [hit for hit in found.hits if not (hit.file and here.why_not(hit.file))]
    data = {
        "query": query,
        "hits": [
            {
                "file": hit.file or None,
                "name": hit.name or None,
                "kind": hit.kind,
                "date": hit.date or None,
                "snippet": hit.snippet,
                "stale": hit.stale,
                "also": [other for other in hit.also if not here.why_not(other)],
                "path": _from(here.worktree.top, hit.path),
                "line": hit.line,
            }
            for hit in hits
        ],
    }
    text = fence("\n".join(map(told, hits)), "memories") if hits else "Nothing that is remembered here fits."
    return Told(text, data)


def _from(top: Path, path: Path) -> str:
    return path.relative_to(top).as_posix() if path.is_relative_to(top) else str(path)


def review(call: Call) -> Told:
    from dataclasses import replace

    from repoagent.review.output.data import content
    from repoagent.work.answers.review import reviewed, wanted

    here = bench(call)
    given = call.arguments
    service = call.service
    what = wanted(
        here.worktree,
        range=given["range"], base=given["base"], commit=given["commit"], tracked=given["tracked"],
        files=[here.path(path, folder=True) for path in given["paths"]],
    )  # fmt: skip
    asks = bool(given.get("ask"))
    flags = {"model": service.model, "max_cost": service.max_cost} if asks else None
    found = reviewed(here.worktree, what, here.settings(flags), asks=asks, hear=call.progress)
    kept = [finding for finding in found.findings if not here.why_not(finding.place.path)]
    data = content(replace(found, findings=kept[:FINDINGS], dismissed=()))
    del data["version"], data["dismissed"]
    data["left_out"] = len(kept) - len(kept[:FINDINGS])
    lines = [
        f"{finding.level.word}: {finding.title} [{finding.rule}]\n  {finding.place.path}"
        + (f":{finding.place.start}" if finding.place.start else "")
        + "".join(f"\n  {line}" for line in finding.body.splitlines())
        for finding in kept[:FINDINGS]
    ]
    findings, files = (
        f"{n} {word}{'s' * (n != 1)}" for n, word in ((len(kept), "finding"), (found.files, "file"))
    )
    head = f"{found.title}: {findings} in {files}."
    body = fence(clipped("\n".join(lines)), "findings") if lines else ""
    return Told("\n".join(filter(None, [head, body, *found.unseen, *found.notes])), data)


def review_offer(service: Service) -> Offer:
    """`review`, with the question whether to ask a model where the person who started the server has named one."""
    more: dict[str, shape.Schema] = {}
    if service.model:
        more["ask"] = shape.yes_no(
            "Ask the model that the server was started with, too; this costs money.", default=False
        )
    text = (
        "Finds what is wrong or missing in a change from what the repository's history says: a usual partner file was "
        "left out, a file that often needed fixes, an unusual shape, a changed interface whose callers are "
        "untouched, a generated file edited by hand. Looks at what is staged, unless one of the other changes "
        "is named. Use it before a commit."
    )
    return Offer(
        "review",
        "Review a change",
        text,
        shape.takes(
            [],
            range=shape.text("A range A..B: what B has and A has not.", default="", least=0),
            base=shape.text("What HEAD has added since it parted from this revision.", default="", least=0),
            commit=shape.text("One commit.", default="", least=0),
            tracked=shape.yes_no("All that tracked files hold other than HEAD, staged or not.", default=False),
            paths={**shape.some(shape.text("A file or folder."), "Only these, from the top."), "default": []},
            **more,
        ),
        shape.gives(
            title="text", base="text?", head="text?", files="whole", worst="text?",
            findings=shape.listed({"type": "object", "required": ["id", "rule", "level", "title", "path"]}),
            dropped="whole", unseen="text*", notes="text*", model="text?", tokens="whole", cost="number?",
            left_out="whole",
        ),
        review,
        open_world=bool(service.model),
    )  # fmt: skip


OFFERS = (
    Offer(
        "read",
        "Read a file, with its blob id",
        "Gives the text of a file, or lines of it, and the blob id that `apply` needs to bind a patch to exactly this "
        "text. Keys and tokens in it are shown as placeholders <<secret ...>>; write them so in a patch. Long files "
        "come in parts: `rest` says how to go on. Of a PNG, JPEG, GIF or WebP it gives the image.",
        shape.takes(
            ["path"],
            path=shape.text("Path of a file, from the top of the repository."),
            first_line=shape.whole("From this line on, counted from 1.", 1, 1_000_000_000, 1),
            last_line=shape.whole("To this line, included.", 1, 1_000_000_000),
            characters=shape.text("Of one line (first_line = last_line) these characters: 1-2000.", most=40),
        ),
        shape.gives(
            path="text", blob="text", first_line="whole", last_line="whole", lines="whole", text="text", rest="text"
        ),
        read,
    ),
    Offer(
        "recall",
        "Search what is remembered",
        "Searches what repoagent has remembered of this repository: notes on files, what was asked and done before, "
        "conversations, summaries of commits and files. Use it to learn of earlier decisions before changing "
        "something. It finds words and names of code, not meanings.",
        shape.takes(
            ["query"],
            query=shape.text("Words, names of code, or words in quotation marks for just that order.", most=2000),
            paths={**shape.some(shape.text("A file or folder."), "Only what is about these."), "default": []},
            kinds={
                **shape.some({"enum": list(KINDS)}, "Only what is of these kinds.", most=len(KINDS)),
                "default": [],
            },
            limit=shape.whole("At most so many finds.", 1, 50, 10),
        ),
        shape.gives(
            query="text", instead={"type": "object"},
            hits=shape.listed(
                shape.gives(
                    file="text?", name="text?", kind="text", date="text?", snippet="text", stale="yes", also="text*",
                    path="text", line="whole",
                )
            ),
        ),
        recall,
    ),
)  # fmt: skip
