"""Claude on Google Vertex AI, through the real SDK and Google's own library, against a server on this machine."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from repoagent.errors import ModelError
from repoagent.llm.model import Reply, Retryable, Usage, Wishes
from repoagent.llm.providers.anthropic import AnthropicModel
from repoagent.llm.registry import PROVIDERS
from tests.llm.ask import ask
from tests.llm.providers.cloud_server import (
    SECRETS,
    TOKEN,
    DownVertex,
    ExpiredVertex,
    Vertex,
    google_environment,
    google_status,
    no_google,
)
from tests.llm.providers.messages_server import (
    Handler,
    Script,
    Server,
    cut,
    error_event,
    hang_up,
    messages_server,
    page,
    status,
    text,
)

NAME = "claude-sonnet-5-5@20260901"
MODEL = AnthropicModel(NAME, platform="vertex")
Start = Callable[..., Server]


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """No settings of whoever runs the tests."""
    for name in [name for name in os.environ if name.startswith(("GOOGLE_", "CLOUD", "GCLOUD_"))]:
        monkeypatch.delenv(name)


@pytest.fixture
def vertex(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Start]:
    with ExitStack() as running:

        def start(script: Script, handler: type[Handler] = Vertex, **more: str) -> Server:
            server = running.enter_context(messages_server(script, handler))
            for name, value in google_environment(server, tmp_path, **more).items():
                monkeypatch.setenv(name, value)
            return server

        yield start


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No credentials at all, and an address that nothing answers at."""
    settings = {
        **no_google(tmp_path),
        "ANTHROPIC_VERTEX_BASE_URL": "http://127.0.0.1:9/v1",
        "ANTHROPIC_VERTEX_PROJECT_ID": "a-project",
        "CLOUD_ML_REGION": "europe-north9",
    }
    for name, value in settings.items():
        monkeypatch.setenv(name, value)


def call(model: AnthropicModel = MODEL) -> tuple[Reply, list[str]]:
    pieces: list[str] = []
    return model.complete(ask(), pieces.append), pieces


def refused(kind: type[ModelError] = ModelError, model: AnthropicModel = MODEL) -> ModelError:
    with pytest.raises(kind) as raised:
        call(model)
    assert type(raised.value) is kind
    assert not any(secret in str(raised.value) for secret in SECRETS)
    return raised.value


def test_a_reply_is_streamed_and_counted(vertex: Start) -> None:
    usage = {
        "input_tokens": 7,
        "output_tokens": 20,
        "cache_read_input_tokens": 5,
        "cache_creation_input_tokens": 3,
    }
    vertex(text("hello wörld", usage=usage, model="claude-sonnet-5-5"))
    reply, pieces = call()
    assert reply == Reply("hello wörld", "end", Usage(7, 20, 5, 3), "vertex/claude-sonnet-5-5")
    assert len(pieces) > 1
    assert "".join(pieces) == reply.text


def test_what_is_sent(vertex: Start) -> None:
    server = vertex("ok")
    wishes = Wishes(effort="low", temperature=0.5, stop=("END",))
    model = AnthropicModel(NAME, wishes, platform="vertex")
    call(model)
    sent = server.requests[0]
    place = "/v1/projects/a-project/locations/europe-north9/publishers/anthropic/models"
    assert sent.path == f"{place}/{NAME}:streamRawPredict"
    assert sent.headers["authorization"] == f"Bearer {TOKEN}"
    assert {"anthropic_version", "max_tokens", "messages"} <= sent.body.keys()
    assert {"model", "temperature"}.isdisjoint(sent.body)
    assert sent.body["output_config"] == {"effort": "low"}
    assert sent.body["stop_sequences"] == ["END"]
    assert (model.spec, model.context_tokens) == (f"vertex/{NAME}", 1_000_000)
    assert model.ignored() == ("temperature",)


def test_the_project_of_the_credentials(vertex: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    server = vertex(["ok", "ok"])
    monkeypatch.delenv("ANTHROPIC_VERTEX_PROJECT_ID")
    call()
    assert "/projects/project-of-the-account/" in server.requests[0].path
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "project-of-the-shell")
    call()
    assert "/projects/project-of-the-shell/" in server.requests[1].path


def test_tokens_are_counted_by_the_server(vertex: Start) -> None:
    server = vertex("ok")
    assert MODEL.count_tokens(ask()) is None
    server.count = 42
    assert MODEL.count_tokens(ask()) == 42


def test_missing_usage_is_estimated(vertex: Start) -> None:
    vertex(text("0123456789" * 30, report_usage=False))
    usage = call()[0].usage
    assert usage.estimated
    assert 50 < usage.output < 200


@pytest.mark.parametrize("script", [cut("a partial text"), cut("a partial text", cleanly=True), hang_up()])
def test_a_cut_stream_is_no_reply(vertex: Start, script: Script) -> None:
    vertex(script)
    words = str(refused(Retryable))
    assert "broke off" in words or "cannot reach" in words


@pytest.mark.parametrize(
    ("script", "words"),
    [
        (google_status(429, "RESOURCE_EXHAUSTED", "Quota exceeded"), "the rate limit of the account"),
        (google_status(503, "UNAVAILABLE", "busy"), "503: busy"),
        (google_status(500, "INTERNAL", "oops"), "500: oops"),
        (status(529), "overloaded"),
        (error_event("part"), "overloaded"),
    ],
)
def test_what_may_pass_by_itself(vertex: Start, script: Script, words: str) -> None:
    vertex(script)
    assert words in str(refused(Retryable))


@pytest.mark.soak
@pytest.mark.parametrize(
    ("script", "words"),
    [
        (
            google_status(401, "UNAUTHENTICATED", f"bad {TOKEN}"),
            "rejected the key (UNAUTHENTICATED): run `gcloud",
        ),
        (
            google_status(403, "PERMISSION_DENIED", f"no predict for {TOKEN}"),
            f"the key may not use vertex/{NAME} (no predict for [key]): enable the Vertex AI API",
        ),
        (
            google_status(404, "NOT_FOUND", "Publisher Model was not found"),
            f"has no vertex/{NAME} (Publisher Model was not found): check the name, for example vertex/claude",
        ),
        (
            google_status(400, "FAILED_PRECONDITION", "It is not servable in region us-east9."),
            f"has no vertex/{NAME}",
        ),
        (status(400, "prompt is too long: 9 tokens > 8 maximum"), "too long"),
        (google_status(400, "INVALID_ARGUMENT", "odd field"), "does not accept the request (400: odd field)"),
        (status(413), "too long"),
        (page(), "it answered with text/html"),
    ],
)
def test_what_will_not_pass(vertex: Start, script: Script, words: str) -> None:
    vertex(script)
    said = str(refused())
    assert words in said
    assert "ANTHROPIC_API_KEY" not in said


@pytest.mark.soak
def test_time(vertex: Start) -> None:
    vertex([text("late", first_delay=0.5), text("a long reply", delay=0.5), text("late", first_delay=0.3)])
    quick = AnthropicModel(NAME, read_seconds=0.2, platform="vertex")
    assert "for 0.2 s" in str(refused(Retryable, quick))
    assert "no data for 0.2 s" in str(refused(Retryable, quick))
    assert call()[0].text == "late"


def test_credentials_that_are_taken_no_more(vertex: Start) -> None:
    vertex("ok", ExpiredVertex)
    said = str(refused())
    assert (
        "Google no longer accepts the credentials (invalid_grant: Invalid JWT Signature.): run `gcloud"
        in said
    )


def test_a_login_server_that_is_down(vertex: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    from google.auth import _exponential_backoff

    monkeypatch.setattr(_exponential_backoff.time, "sleep", lambda seconds: None)
    vertex("ok", DownVertex)
    assert "cannot reach Google for credentials" in str(refused(Retryable))


def test_a_login_server_that_is_not_there(vertex: Start) -> None:
    vertex("ok", token_uri="http://127.0.0.1:9/token")
    assert "cannot reach Google for credentials" in str(refused(Retryable))


def test_no_credentials(nowhere: None) -> None:
    assert "no Google Cloud credentials: run `gcloud auth application-default login`" in str(refused())


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "cannot load Google Cloud credentials (DefaultCredentialsError): run `gcloud"),
        ("no json", "cannot load Google Cloud credentials"),
        (json.dumps({"type": "odd"}), "cannot load Google Cloud credentials"),
        (
            json.dumps(
                {
                    "type": "service_account",
                    "client_email": "a@b",
                    "token_uri": "http://x",
                    "private_key": "PRIVATE KEY",
                }
            ),
            "cannot load Google Cloud credentials",
        ),
    ],
)
def test_a_file_that_holds_no_credentials(
    nowhere: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: str | None, words: str
) -> None:
    file = tmp_path / "key.json"
    if content is not None:
        file.write_text(content)
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(file))
    assert words in str(refused())


def test_no_region(vertex: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    vertex("ok")
    monkeypatch.delenv("CLOUD_ML_REGION")
    assert "no region is set for Vertex AI: set CLOUD_ML_REGION" in str(refused())


def test_no_project(vertex: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    vertex("ok", project_id="")
    monkeypatch.delenv("ANTHROPIC_VERTEX_PROJECT_ID")
    assert "no Google Cloud project is set: set ANTHROPIC_VERTEX_PROJECT_ID" in str(refused())


def test_the_login_of_a_person(nowhere: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Its library warns of quotas, which is no word about an edit, and asks Google itself for a token."""
    from google.auth import _cloud_sdk

    file = tmp_path / "user.json"
    user = {"type": "authorized_user", "client_id": _cloud_sdk.CLOUD_SDK_CLIENT_ID, "client_secret": "s"}
    file.write_text(json.dumps({**user, "refresh_token": "r"}))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(file))
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    assert "cannot reach Google for credentials" in str(refused(Retryable))


@pytest.mark.parametrize("address", ["127.0.0.1:9/x", "http://[::1"])
def test_a_wrong_address(vertex: Start, monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    vertex("ok")
    monkeypatch.setenv("ANTHROPIC_VERTEX_BASE_URL", address)
    assert "check ANTHROPIC_VERTEX_BASE_URL and CLOUD_ML_REGION" in str(refused())


def test_without_the_extra(nowhere: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(
        PROVIDERS, "vertex", replace(PROVIDERS["vertex"], requires=("google.no_such_module",))
    )
    assert "pip install 'git-repoagent[vertex]'" in str(refused())
