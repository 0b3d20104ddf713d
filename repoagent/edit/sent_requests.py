"""Store sent requests and the blocks of replies for some days, in `.repoagent/sent/` by hash."""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Sequence
from hashlib import sha256

from repoagent.llm.complete import holds_secret, masked
from repoagent.llm.conversation import Turn
from repoagent.llm.model import Blocks, Reply, Request, public, render
from repoagent.llm.registry import provider_of
from repoagent.llm.usage import estimate_tokens
from repoagent.storage.atomic import read_regular, write_whole
from repoagent.storage.layout import Layout

DAY_SECONDS = 86_400
PLAIN = 65_536  # bytes; larger requests are compressed
VERSION = 1


def keep_sent(dirs: Layout, request: Request) -> str:
    """Store the text of a request in `sent/` and return its name there, a hash of the text.

    Long requests are gzipped: in a long run each repeats the one before.
    """
    text = render(masked(request)).encode("utf-8", "surrogateescape")
    name = sha256(text).hexdigest()[:24]
    path = dirs.sent / (f"{name}.txt" if len(text) <= PLAIN else f"{name}.txt.gz")
    if not path.exists():
        write_whole(path, text if len(text) <= PLAIN else gzip.compress(text, mtime=0))
    return name


def keep_blocks(dirs: Layout, reply: Reply) -> dict[str, str]:
    """Store the thinking and the tool calls of a reply, to be sent back with its turn.

    Returns metadata for the turn: `blocks`, the file name, and `thought`, the estimated tokens that the thinking adds
    to a request. Stores nothing if the thinking contains a secret.
    """
    blocks = reply.blocks
    if blocks is None or holds_secret(blocks.items):
        return {}
    record = {
        "version": VERSION, "text": _hash(reply.text), "spec": blocks.spec, "prefix": blocks.prefix,
        "calls": blocks.calls, "items": blocks.items,
    }  # fmt: skip
    data = json.dumps(record).encode()
    name = sha256(data).hexdigest()[:24]
    write_whole(dirs.sent / f"{name}.json", data)
    thought = estimate_tokens(blocks.unseen)
    return {"blocks": name, **({"thought": str(thought)} if thought else {})}


def blocks_of(dirs: Layout, turn: Turn) -> Blocks | None:
    """The blocks that `keep_blocks` stored for a turn; None if the file is gone or the turn was edited."""
    name = turn.meta.get("blocks", "")
    if not name.isalnum():
        return None
    try:
        record = json.loads(read_regular(dirs.sent / f"{name}.json") or b"null")
    except ValueError:  # truncated by a crash, or edited: the text of the turn is enough
        return None
    if not isinstance(record, dict) or record.get("version") != VERSION or record["text"] != _hash(turn.text):
        return None
    calls = tuple((call, tag) for call, tag in record["calls"])
    return Blocks(record["spec"], tuple(record["items"]), record["prefix"], calls)


def forget_sent(dirs: Layout, days: int) -> None:
    """Remove requests older than `days` days. Runs at most once a day, because there may be many files."""
    present = time.time()
    looked = dirs.sent / "looked-through"
    checked = looked.exists() and 0 <= present - looked.stat().st_mtime < DAY_SECONDS
    if checked or not dirs.sent.is_dir():
        return
    write_whole(looked, b"")
    for path in dirs.sent.glob("*.*"):  # requests, blocks of replies, images and PDFs
        try:
            if path.stat().st_mtime < present - days * DAY_SECONDS:
                path.unlink()
        except FileNotFoundError:  # another process removed it
            continue


def _hash(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def model_of_record(spec: str, turns: Sequence[Turn]) -> str:
    """The model to record: for a replay the recorded model, for a command the model that it reports."""
    if provider_of(spec).reports_model:
        spec = next((turn.meta.get("model", spec) for turn in turns[::-1] if turn.role == "assistant"), spec)
    return public(spec)
