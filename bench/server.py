"""A Messages API server, in a process of its own, that answers at once and records when.

    with serving([reply]) as server:
        ...                  # run a program with server.url as its base URL
        server.calls()       # sizes and times of its requests

Answers are sent in order; the last one is repeated. Times are of `time.monotonic_ns`, which all processes on a machine
share.
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
        """End the server and return its requests in order. `arrived` is when the last byte of a request was read,
        `answered` when the last byte of its answer was handed to the system, and `prompt_bytes` the size of the text
        for the model (system prompt and messages, without the JSON around them)."""
        out, _ = self._process.communicate()
        return [json.loads(line) for line in out.splitlines()]


@contextmanager
def serving(answers: Sequence[str]) -> Iterator[Server]:
    """Start a server that sends `answers`; it listens when the block begins and is killed when the block ends."""
    command = [sys.executable, "-m", "bench.server", json.dumps(list(answers))]
    root = Path(__file__).parent.parent
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=root, stdin=pipe, stdout=pipe, text=True) as process:
        yield Server(process)
        process.kill()


def text_of(content: Any) -> str:
    """Return the text of a message or system prompt, which is a string or a list of blocks."""
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
    """The common part of the benches' servers."""

    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:  # sent to open a connection early
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
    answered = 0  # requests
    turn = threading.Lock()


class _Handler(Handler, BaseHTTPRequestHandler):
    disable_nagle_algorithm = True
    wbufsize = -1  # head and body leave together
    server: _Http

    def do_POST(self) -> None:
        body = self.body()
        arrived = time.monotonic_ns()
        request = json.loads(body)
        with self.server.turn:
            answer = self.server.answers[min(self.server.answered, len(self.server.answers) - 1)]
            self.server.answered += 1
            if request.get("stream"):
                self.send("text/event-stream", events(answer))
            else:
                self.send("application/json", json.dumps(_message(answer)).encode())
            answered = time.monotonic_ns()
            texts = [request.get("system"), *(message["content"] for message in request["messages"])]
            size = sum(len(text_of(text).encode()) for text in texts)
            print(json.dumps({"arrived": arrived, "answered": answered, "prompt_bytes": size}), flush=True)


def main() -> None:
    """Serve the answers in the first argument (a JSON list) until standard input ends."""
    server = _Http(("127.0.0.1", 0), _Handler)
    server.answers = json.loads(sys.argv[1])
    print(f"http://127.0.0.1:{server.server_address[1]}", flush=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdin.read()


if __name__ == "__main__":
    main()
