"""The server: writes each request to a file, and streams the answer as soon as its file is there.

A run is a folder DIR/NAME, NAME the first part of the request's path. Request 7 of it is `007.request.txt` (to read)
and `007.request.json` (as it came). Its answer is `007.answer.txt`, text, or `007.answer.json`: a list of blocks of
content, or an object with `content` and, if wanted, `stop_reason`. `log.jsonl` has a line for each answered request.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from bench.server import Handler

MODEL = "anthropic/claude-sonnet-5-5"
ANSWERS = {".json": ".answer.json", ".txt": ".answer.txt"}
PING = 5.0  # seconds; without a byte a client gives up
_BYTES_PER_TOKEN = 4  # as `make bench` counts
_IDS = [MODEL.partition("/")[2], "claude-opus-5-5", "claude-haiku-5-5"]

Block = dict[str, Any]


def listening(folder: Path, port: int) -> ThreadingHTTPServer:
    """A server that listens on `port` (0: one that is free) and keeps its runs in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    server = _Http(("127.0.0.1", port), _Handler)
    server.folder = folder
    return server


def waiting(folder: Path, run: str = "") -> list[Path]:
    """The texts of the requests that wait for an answer, the oldest first."""
    found = [path for path in folder.glob(f"{run or '*'}/*.request.txt") if not _is_over(path)]
    return sorted(found, key=lambda path: (path.stat().st_mtime_ns, path))


def blocks_of(body: dict[str, Any]) -> list[tuple[str, Block]]:
    """What a model reads of a request, in the order of the prompt cache: (who says it, block)."""
    found: list[tuple[str, Block]] = [("tool", tool) for tool in body.get("tools") or ()]
    said = [("system", body.get("system")), *((one["role"], one["content"]) for one in body["messages"])]
    for role, content in said:
        content = [{"type": "text", "text": content}] if isinstance(content, str) else content or ()
        found += [(role, block) for block in content]
    return found


def text_of(block: Block) -> str:
    """The text of a block; of what is no text, its JSON, with images and documents by their size."""
    if block.get("type") == "text":
        return str(block["text"])
    source = block.get("source")
    if isinstance(source, dict) and "data" in source:
        block = {**block, "source": {**source, "data": f"({len(source['data']):,} characters)"}}
    return json.dumps({name: value for name, value in block.items() if name != "cache_control"}, indent=1)


def tokens(text: str) -> int:
    return -(-len(text.encode("utf-8", "replace")) // _BYTES_PER_TOKEN)


def _is_over(request: Path) -> bool:
    stem = request.name.partition(".")[0]
    return any(request.with_name(stem + suffix).exists() for suffix in (*ANSWERS.values(), ".gone"))


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    folder: Path

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.turn = threading.Lock()
        self.cached: dict[str, set[str]] = {}  # of each run: what ended at a breakpoint so far

    def take_in(self, run: str, body: dict[str, Any]) -> tuple[Path, dict[str, int]]:
        """Write a request down: the path of its text, and its tokens, fresh and cached."""
        folder = self.folder / run
        with self.turn:
            folder.mkdir(exist_ok=True)
            number = 1 + sum(1 for _ in folder.glob("*.request.json"))
            (folder / f"{number:03}.request.json").write_text(json.dumps(body, indent=1, ensure_ascii=False))
            counts = self._counted(run, blocks_of(body))
        whole = folder / f"{number:03}.request.txt"
        new = whole.with_suffix(".new")
        new.write_text(_readable(number, body, counts), encoding="utf-8", errors="replace")
        new.rename(whole)  # who waits for it sees all of it
        return whole, counts

    def _counted(self, run: str, blocks: list[tuple[str, Block]]) -> dict[str, int]:
        """A prefix is cached when it ended at a breakpoint of an earlier request of the run."""
        known, digest, size, cached = self.cached.setdefault(run, set()), hashlib.sha256(), 0, 0
        marked = set()
        for role, block in blocks:
            digest.update(f"{role}\0{text_of(block)}\0".encode("utf-8", "replace"))
            size += tokens(text_of(block))
            if digest.hexdigest() in known:
                cached = size
            if "cache_control" in block:
                marked.add(digest.hexdigest())
        known |= marked
        return {"fresh": size - cached, "cached": cached}


def _readable(number: int, body: dict[str, Any], counts: dict[str, int]) -> str:
    settings = {name: value for name, value in body.items() if name not in {"tools", "system", "messages"}}
    head = f"request {number}: {counts['fresh']:,} tokens fresh, {counts['cached']:,} cached"
    lines = [head, json.dumps(settings)]
    before = ""
    for role, block in blocks_of(body):
        if role != before or role == "tool":
            lines.append(f"\n=================== {role} ===================")
        before = role
        lines.append(text_of(block))
        if "cache_control" in block:
            lines.append(f"------------------- cache breakpoint {json.dumps(block['cache_control'])}")
    return "\n".join(lines) + "\n"


def _answer_of(request: Path, gone: Any) -> dict[str, Any] | None:
    """Wait for the answer and read it. None when `gone()` says that nobody waits for it any more."""
    stem = request.name.partition(".")[0]
    text, blocks = (request.with_name(stem + ANSWERS[suffix]) for suffix in (".txt", ".json"))
    pinged, sizes = time.monotonic(), (-1, -1)
    while True:
        path = next((path for path in (text, blocks) if path.exists()), None)
        if path is not None:
            seen = (path.stat().st_size, path.stat().st_mtime_ns)
            if seen == sizes:  # an editor may still be writing it
                said = path.read_text(encoding="utf-8")
                answer = json.loads(said) if path == blocks else {"content": [{"type": "text", "text": said}]}
                return {"content": answer} if isinstance(answer, list) else dict(answer)
            sizes = seen
        time.sleep(0.1)
        if time.monotonic() > pinged + PING:
            pinged = time.monotonic()
            if gone():
                return None


def _stopped(answer: dict[str, Any], sequences: list[str]) -> tuple[list[Block], str, str | None]:
    """The blocks up to the first of the `sequences`, why they stop, and at which."""
    blocks: list[Block] = []
    for block in answer["content"]:
        found = [(block["text"].index(one), one) for one in sequences if one in block.get("text", "")]
        if found:
            at, sequence = min(found)
            return [*blocks, {**block, "text": block["text"][:at]}], "stop_sequence", sequence
        blocks.append(block)
    calls = any(block["type"] == "tool_use" for block in blocks)
    return blocks, answer.get("stop_reason") or ("tool_use" if calls else "end_turn"), None


def _events(blocks: list[Block], stop: str, sequence: str | None, out: int) -> Iterator[dict[str, Any]]:
    """What follows `message_start` in a stream."""
    for index, block in enumerate(blocks):
        kind = block["type"]
        empty = {
            "text": {"text": ""},
            "thinking": {"thinking": "", "signature": ""},
            "tool_use": {"input": {}},
        }
        begun = {**block, **empty.get(kind, {})}
        yield {"type": "content_block_start", "index": index, "content_block": begun}
        deltas: list[Block] = []
        if kind == "text":
            pieces = re.findall(r"(?s).{1,200}", block["text"])
            deltas = [{"type": "text_delta", "text": piece} for piece in pieces]
        elif kind == "thinking":
            deltas = [
                {"type": "thinking_delta", "thinking": block["thinking"]},
                {"type": "signature_delta", "signature": block.get("signature", "relay")},
            ]
        elif kind == "tool_use":
            deltas = [{"type": "input_json_delta", "partial_json": json.dumps(block["input"])}]
        yield from ({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas)
        yield {"type": "content_block_stop", "index": index}
    why = {"stop_reason": stop, "stop_sequence": sequence}
    yield {"type": "message_delta", "delta": why, "usage": {"output_tokens": out}}
    yield {"type": "message_stop"}


class _Handler(Handler, BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.0"  # an answer ends with its connection
    server: _Http

    def do_GET(self) -> None:
        models = [
            {"type": "model", "id": name, "display_name": name, "created_at": "2026-01-01T00:00:00Z"}
            for name in _IDS
        ]
        self._json({"data": models, "has_more": False, "first_id": _IDS[0], "last_id": _IDS[-1]})

    def do_POST(self) -> None:
        body = json.loads(self.body())
        path = self.path.partition("?")[0].rstrip("/")
        if path.endswith("/count_tokens"):
            return self._json({"input_tokens": sum(tokens(text_of(block)) for _, block in blocks_of(body))})
        run = re.sub(r"[^\w.-]", "", path.removesuffix("/v1/messages").strip("/").replace("/", "-")) or "run"
        began = time.monotonic()
        request, counts = self.server.take_in(run, body)
        used = {"input_tokens": counts["fresh"], "cache_read_input_tokens": counts["cached"]}
        used |= {"output_tokens": 1}
        message = {"id": f"msg_{run}_{request.name[:3]}", "type": "message", "role": "assistant"}
        message |= {
            "content": [],
            "model": body.get("model", ""),
            "stop_reason": None,
            "stop_sequence": None,
            "usage": used,
        }
        streamed = bool(body.get("stream"))
        if streamed:
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.end_headers()
            self._event({"type": "message_start", "message": message})
        try:
            answer = _answer_of(request, self._is_gone if streamed else lambda: False)
        except (ValueError, TypeError) as error:
            print(f"{request}: cannot read the answer: {error}", flush=True)
            answer = {"content": [{"type": "text", "text": f"(cannot read the answer: {error})"}]}
        if answer is None:
            request.with_name(f"{request.name[:3]}.gone").touch()
            return None
        blocks, stop, sequence = _stopped(answer, body.get("stop_sequences") or [])
        out = sum(tokens(text_of(block)) for block in blocks)
        took = round(time.monotonic() - began, 1)
        with self.server.turn, (request.parent / "log.jsonl").open("a") as log:
            line = {"call": int(request.name[:3]), **counts, "out": out, "seconds": took}
            log.write(json.dumps(line) + "\n")
        if streamed:
            for event in _events(blocks, stop, sequence, out):
                self._event(event)
        else:
            used |= {"output_tokens": out}
            stopped = {"stop_reason": stop, "stop_sequence": sequence, "usage": used}
            self._json({**message, "content": blocks, **stopped})
        return None

    def _is_gone(self) -> bool:
        try:
            self._event({"type": "ping"})
        except OSError:
            return True
        return False

    def _event(self, event: dict[str, Any]) -> None:
        self.wfile.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())

    def _json(self, answer: dict[str, Any]) -> None:
        self.send("application/json", json.dumps(answer).encode())
