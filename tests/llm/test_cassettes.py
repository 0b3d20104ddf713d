"""Cassettes: exactly the recorded replies are replayed."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path

import pytest

from repoagent.errors import ModelError
from repoagent.llm.cassettes import Recorder, Replay
from repoagent.llm.complete import complete
from repoagent.llm.model import Reply, Retryable, Usage, render_request
from repoagent.llm.usage import Meter
from tests.llm.helpers import Scripted, ask, call


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.jsonl"


def key(request: str = "faster", turn: int = 1, **files: str) -> str:
    return json.dumps({"request": request, "turn": turn, "files": files})


def record(path: Path, *replies: tuple[str, Reply]) -> None:
    model = Recorder(Scripted([reply for _, reply in replies]), path)
    for one, _ in replies:
        call(model, ask(key=one))


def test_round_trip(path: Path) -> None:
    first = Reply(
        "line one\nline\u2028two\r\nthree \ud800", "end", Usage(3, 4, 5, 6, True), "anthropic/claude-x"
    )
    second = Reply("another", "refusal", Usage(), "anthropic/claude-x")
    record(path, (key(), first), (key(), second), (key(turn=2), first))
    line = json.loads(path.read_text().split("\n")[0])
    assert line["request"] == render_request(ask(key=key()))
    assert line["sha256"] == sha256(line["request"].encode()).hexdigest()
    replay = Replay(path)
    pieces: list[str] = []
    assert replay.complete(ask("reworded", key=key()), pieces.append) == first
    assert "".join(pieces) == first.text and len(pieces) > 1
    assert call(replay, ask(key=key(turn=2))) == first
    assert call(replay, ask(key=key())) == second
    assert replay.spec == f"replay:{path}"


def test_failed_attempts_are_not_recorded(path: Path) -> None:
    live = Scripted([Retryable("overloaded"), Reply("fine", "end")])
    complete(Recorder(live, path), ask(key=key()), Meter(), sleep=lambda seconds: None)
    assert path.read_bytes().count(b"\n") == 1


def test_a_request_that_was_not_recorded_is_an_error(path: Path) -> None:
    recorded, changed = (ask(key=key(**{"a.py": content})) for content in ("111", "222"))
    record(path, (recorded.key, Reply("y", "end")))
    replay = Replay(path)
    with pytest.raises(ModelError, match=r"has no reply left for this request: record one with --record"):
        call(replay, changed)
    call(replay, recorded)
    with pytest.raises(ModelError, match="has no reply left"):
        call(replay, recorded)


@pytest.mark.parametrize(("content", "words"), [
    (b'{"version": 2, "key": "k"}\n', "version 2"),
    (b'{"version": 1, "key": "k"}\n', "line 1"),
    (b'\n{"version": 1, "key": "k", "reply": "x", "stop": "later", "usage": {}, "model": "m"}\n', "line 2"),
    (b'{"version": 1, "key": "k", "reply": 5, "stop": "end", "usage": {}, "model": "m"}\n', "line 1"),
    (b"torn {", "line 1"),
    (b"[]", "line 1"),
    (None, "cannot read the cassette"),
])  # fmt: skip
def test_an_unusable_cassette(path: Path, content: bytes | None, words: str) -> None:
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ModelError, match=words):
        Replay(path)
