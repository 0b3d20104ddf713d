"""A Messages API server that answers at once and says when: run as a process of its own, so that it does not disturb.

    with serving([reply]) as server:
        ...                  # a program, with server.url as its base URL
        server.calls()       # what it asked and when

The answers are given in order, the last one for every request after it. Times are of `time.monotonic_ns`, which all
processes of a machine share.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


class Server:
    """A running server, seen from the process that started it."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.url = process.stdout.readline().strip()

    def calls(self) -> list[dict[str, int]]:
        """End the server; of each request, in order: when its last byte had `arrived`, when the last byte of the answer
        was handed to the system (`answered`), and the `prompt_bytes` of text that a model would have read (system and
        messages, without the JSON around them)."""
        out, _ = self._process.communicate()
        return [json.loads(line) for line in out.splitlines()]


@contextmanager
def serving(answers: Sequence[str]) -> Iterator[Server]:
    """A server that listens when the block begins and has ended when it ends."""
    command = [sys.executable, "-m", "bench.server", json.dumps(list(answers))]
    root = Path(__file__).parent.parent
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=root, stdin=pipe, stdout=pipe, text=True) as process:
        yield Server(process)
        process.kill()


def text_of(content: Any) -> str:
    """The text of a message or of a system prompt, which is a text or a list of blocks."""
    if isinstance(content, str):
        return content
    return "".join(block.get("text", "") for block in content or ())


def events(answer: str) -> bytes:
    message = {**_message(""), "content": []}
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": answer}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 100}},
        {"type": "message_stop"},
    ]
    return b"".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in events)


def _message(answer: str) -> dict[str, Any]:
    return {
        "id": "msg_bench",
        "type": "message",
        "role": "assistant",
        "model": "claude-bench",
        "content": [{"type": "text", "text": answer}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 1000, "output_tokens": 100},
    }


class Handler(BaseHTTPRequestHandler):
    """What the servers of the benches have in common."""

    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:  # a connection that is opened early
        self.send("text/plain", b"")

    def body(self) -> bytes:
        return self.rfile.read(int(self.headers["content-length"]))

    def send(self, kind: str, data: bytes) -> None:
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
        self.wfile.flush()

    def log_message(self, format: str, *args: object) -> None:
        pass


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64
    answers: list[str]
    given = 0
    turn = threading.Lock()


class _Handler(Handler, BaseHTTPRequestHandler):
    disable_nagle_algorithm = True
    wbufsize = -1  # head and body leave together
    server: _Http

    def do_POST(self) -> None:
        body = self.body()
        arrived = time.monotonic_ns()
        asked = json.loads(body)
        with self.server.turn:
            answer = self.server.answers[min(self.server.given, len(self.server.answers) - 1)]
            self.server.given += 1
            if asked.get("stream"):
                self.send("text/event-stream", events(answer))
            else:
                self.send("application/json", json.dumps(_message(answer)).encode())
            answered = time.monotonic_ns()
            texts = [asked.get("system"), *(message["content"] for message in asked["messages"])]
            read = sum(len(text_of(text).encode()) for text in texts)
            print(json.dumps({"arrived": arrived, "answered": answered, "prompt_bytes": read}), flush=True)


def main() -> None:
    """Serve the answers of the first argument until standard input ends."""
    server = _Http(("127.0.0.1", 0), _Handler)
    server.answers = json.loads(sys.argv[1])
    print(f"http://127.0.0.1:{server.server_address[1]}", flush=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdin.read()


if __name__ == "__main__":
    main()
