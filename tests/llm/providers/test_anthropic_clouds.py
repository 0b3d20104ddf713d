"""Claude on Amazon Bedrock and Google Vertex AI, through the real SDK and the clouds' own libraries, against a server
on this machine."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from repoagent.errors import ModelError
from repoagent.llm.model import Retryable, Wishes
from repoagent.llm.providers.anthropic import AnthropicModel
from repoagent.llm.registry import PROVIDERS, missing_extra
from tests.llm import helpers
from tests.llm.conftest import Put, Start
from tests.llm.helpers import call
from tests.llm.providers import cloud_server as cloud
from tests.llm.providers.cloud_server import SESSION, aws_exception, aws_status, google_status
from tests.llm.providers.messages_server import PORTAL, error_event, status
from tests.llm.providers.streaming_server import Behaviour

NAMES = {"bedrock": "us.anthropic.claude-sonnet-5-5-v1:0", "vertex": "claude-sonnet-5-5@20260901"}
AWS, GOOGLE = (AnthropicModel(name, platform=platform) for platform, name in NAMES.items())
EACH = pytest.mark.parametrize("model", [AWS, GOOGLE], ids=["bedrock", "vertex"])


@pytest.fixture(autouse=True)
def no_other_account(monkeypatch: pytest.MonkeyPatch) -> None:
    """The SDK would keep credentials as long as the process runs."""
    from anthropic.lib.aws._auth import _get_session

    _get_session.cache_clear()
    for name in [*os.environ]:
        if name.startswith(("CLOUD", "GCLOUD_")):
            monkeypatch.delenv(name)


@pytest.fixture
def nowhere(put: Put, tmp_path: Path) -> None:
    """No credentials, and an address where no server answers."""
    put(**cloud.no_aws(tmp_path), ANTHROPIC_BEDROCK_BASE_URL="http://127.0.0.1:9", AWS_REGION="eu-north-9")
    put(**cloud.no_google(tmp_path), ANTHROPIC_VERTEX_BASE_URL="http://127.0.0.1:9/v1")
    put(ANTHROPIC_VERTEX_PROJECT_ID="a-project", CLOUD_ML_REGION="europe-north9")


def refused(model: AnthropicModel, kind: type[ModelError] = ModelError) -> str:
    error = str(helpers.refused(model, kind))
    assert "ANTHROPIC_API_KEY" not in error
    return error


@EACH
def test_the_content_of_a_request(server_with: Start, model: AnthropicModel) -> None:
    server = server_with("ok", model.platform)
    wishing = replace(model, wishes=Wishes(effort="low", temperature=0.5, cache="1h"))
    call(wishing)
    sent = server.requests[0]
    assert {"anthropic_version", "max_tokens", "messages"} <= sent.body.keys()
    assert {"model", "temperature"}.isdisjoint(sent.body)
    assert sent.body["thinking"] == {"type": "adaptive"}
    assert sent.body["output_config"] == {"effort": "low"}
    assert (model.spec, model.context_tokens) == (f"{model.platform}/{model.name}", 1_000_000)
    assert "temperature" not in wishing.takes
    if model is GOOGLE:
        folder = "/v1/projects/a-project/locations/europe-north9/publishers/anthropic/models"
        assert sent.path == f"{folder}/{model.name}:streamRawPredict"
        assert sent.headers["authorization"] == f"Bearer {cloud.TOKEN}"
    else:
        assert sent.path == f"/model/{model.name}/invoke-with-response-stream"
        signed = sent.headers["authorization"]
        assert signed.startswith(f"AWS4-HMAC-SHA256 Credential={cloud.ACCESS_KEY}/")
        assert "/eu-north-9/bedrock/aws4_request" in signed
        assert sent.headers["x-amz-security-token"] == SESSION and "x-amz-date" in sent.headers


def test_a_broken_event_is_not_a_reply(server_with: Start) -> None:
    class Broken(cloud.Bedrock):
        def frame(self, event: Any) -> bytes:
            data = super().frame(event)
            return data[:-3] + b"\xff" + data[-2:]  # in the last CRC

    server_with("a text", "bedrock", Broken)
    assert "was cut off" in refused(AWS, Retryable)


INVALID, DENIED = "ValidationException", "AccessDeniedException"
REJECTIONS = {
    AWS: [
        (aws_exception("throttlingException", "Too many tokens", after="part"), "hit its rate limit", Retryable),
        (aws_exception("internalServerException", "oops"), "500: oops", Retryable),
        (aws_exception("modelTimeoutException", "slow"), "504: slow", Retryable),
        (aws_status(424, "ModelErrorException", "it broke"), "the server failed (424: it broke)", Retryable),
        (aws_exception("validationException", "bad", after="part"), "accept the request (400: bad)", ModelError),
        (aws_status(400, INVALID, "prompt is too long: 9 > 8"), "too long", ModelError),
        (aws_status(400, INVALID, "with on-demand throughput"), "sonnet-5-5, and the region", ModelError),
        (aws_status(404, "ResourceNotFoundException", "gone"), f"has no {AWS.spec} (gone)", ModelError),
        (aws_status(403, DENIED, f"no {SESSION}"), f"is not allowed to use {AWS.spec} (no [key])", ModelError),
        (aws_status(403, "InvalidSignatureException", SESSION), "the key (InvalidSignatureException): check", ModelError),
        (aws_status(429, "ThrottlingException", "Too many tokens per day"), "cannot pay for this call (Too", ModelError),
        (PORTAL, "it answered with text/html", ModelError),
    ],
    GOOGLE: [
        (google_status(429, "RESOURCE_EXHAUSTED", "Quota exceeded"), "has hit its rate limit", Retryable),
        (error_event("part"), "overloaded", Retryable),
        (google_status(401, "UNAUTHENTICATED", cloud.TOKEN), "the key (UNAUTHENTICATED): run `gcloud", ModelError),
        (google_status(403, "PERMISSION_DENIED", cloud.TOKEN), f"{GOOGLE.spec} ([key]): enable the Vertex AI", ModelError),
        (google_status(400, "FAILED_PRECONDITION", "not servable in region x"), f"has no {GOOGLE.spec}", ModelError),
    ],
}  # fmt: skip


@EACH
def test_rejections(server_with: Start, model: AnthropicModel) -> None:
    server_with([script for script, _, _ in REJECTIONS[model]], model.platform)
    for _, words, kind in REJECTIONS[model]:
        assert words in refused(model, kind)


def test_a_key_of_bedrock(server_with: Start, put: Put) -> None:
    server = server_with(["ok", status(403, "no model for secret-bearer")], "bedrock")
    put(AWS_BEARER_TOKEN_BEDROCK="secret-bearer")
    assert call(AWS).text == "ok"
    assert server.requests[0].headers["authorization"] == "Bearer secret-bearer"
    assert "no model for [key]" in refused(AWS)


@pytest.mark.parametrize(("variables", "config", "words"), [
    ({}, "", "no usable AWS credentials (RuntimeError): run `aws configure` or `aws sso login`"),
    ({"AWS_PROFILE": "wrok", "AWS_REGION": ""}, "", "no usable AWS credentials (ProfileNotFound)"),
    ({"AWS_REGION": ""}, "", "no AWS region is set: set AWS_REGION"),
    ({}, "no section\n", "no usable AWS credentials (ConfigParseError)"),
    ({}, "[default]\ncredential_process = /no/such/program\n", "no usable AWS credentials"),
    ({"ANTHROPIC_BEDROCK_BASE_URL": "http://[::1"}, "", "ANTHROPIC_BEDROCK_BASE_URL"),
    ({"AWS_BEARER_TOKEN_BEDROCK": "key\n"}, "", "AWS_BEARER_TOKEN_BEDROCK contains a line break"),
])  # fmt: skip
@pytest.mark.usefixtures("nowhere")
def test_wrong_settings_of_aws(
    put: Put, tmp_path: Path, variables: dict[str, str], config: str, words: str
) -> None:
    put(HOME=str(tmp_path), **variables)
    if config:
        (tmp_path / "aws-config").write_text(config)
    assert words in refused(AWS)


def test_no_address_and_no_server(nowhere: None, put: Put) -> None:
    put(AWS_BEARER_TOKEN_BEDROCK="key")
    assert "cannot build a request for bedrock/.." in refused(AnthropicModel("..", platform="bedrock"))
    assert "cannot reach 127.0.0.1" in refused(AWS, Retryable)
    put(ANTHROPIC_BEDROCK_BASE_URL="ftp://127.0.0.1")
    assert ": check ANTHROPIC_BEDROCK_BASE_URL and AWS_REGION" in refused(AWS)


@EACH
@pytest.mark.parametrize("module", ["no_such_module", "no_such_package.module"])
def test_without_the_extra(
    nowhere: None, put: Put, monkeypatch: pytest.MonkeyPatch, model: AnthropicModel, module: str
) -> None:
    name = model.platform
    put(AWS_REGION="eu-north-8", CLOUD_ML_REGION=module)  # a client is made once for one environment
    monkeypatch.setitem(PROVIDERS, name, replace(PROVIDERS[name], requires=(module,)))
    assert f"pip install 'git-repoagent[{name}]'" in refused(model)
    monkeypatch.undo()
    assert missing_extra(name) == ""


@pytest.mark.parametrize(("variables", "account", "words"), [
    ({"CLOUD_ML_REGION": ""}, {}, "no region is set for Vertex AI: set CLOUD_ML_REGION"),
    ({"ANTHROPIC_VERTEX_PROJECT_ID": ""}, {"project_id": ""}, "no Google Cloud project is set: set ANTHROPIC_"),
    ({"ANTHROPIC_VERTEX_BASE_URL": "127.0.0.1:9/x"}, {}, "check ANTHROPIC_VERTEX_BASE_URL and CLOUD_ML_REGION"),
    ({"ANTHROPIC_VERTEX_BASE_URL": "http://[::1"}, {}, "check ANTHROPIC_VERTEX_BASE_URL and CLOUD_ML_REGION"),
])  # fmt: skip
def test_wrong_settings_of_google(
    server_with: Start, put: Put, variables: dict[str, str], account: dict[str, str], words: str
) -> None:
    server_with("ok", "vertex", **account)
    put(**variables)
    assert words in refused(GOOGLE)


def test_a_token_that_google_refuses(server_with: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    from google.auth import _exponential_backoff

    monkeypatch.setattr(_exponential_backoff.time, "sleep", lambda seconds: None)
    for grant, words, kind in (
        (Behaviour(400, body={"error": "invalid_grant"}), "no usable Google Cloud credentials (RefreshError): run `gcloud", ModelError),
        (Behaviour(503, body={"error": "internal_failure"}), "cannot reach Google Cloud to get credentials", Retryable),
    ):  # fmt: skip
        server_with("ok", "vertex", type("Refusing", (cloud.Vertex,), {"grant": grant}))
        assert words in refused(GOOGLE, kind)
    server_with("ok", "vertex", token_uri="http://127.0.0.1:9/token")
    assert "cannot reach Google Cloud to get credentials" in refused(GOOGLE, Retryable)
