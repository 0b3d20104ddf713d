"""Claude on Amazon Bedrock, through the real SDK and AWS's own libraries, against a server on this machine."""

from __future__ import annotations

import os
import time
import urllib.parse
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from repoagent.errors import ModelError
from repoagent.llm.model import Reply, Retryable, Usage, Wishes
from repoagent.llm.providers import anthropic_clouds
from repoagent.llm.providers.anthropic import AnthropicBackend, AnthropicModel, api_of
from repoagent.llm.registry import PROVIDERS
from tests.llm.ask import ask
from tests.llm.providers.cloud_server import (
    ACCESS_KEY,
    SECRET,
    SECRETS,
    SESSION,
    Bedrock,
    BrokenBedrock,
    Mantle,
    aws_environment,
    aws_exception,
    aws_status,
    no_aws,
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

NAME = "us.anthropic.claude-sonnet-5-5-v1:0"
MODEL = AnthropicModel(NAME, platform="bedrock")
BARE = AnthropicModel("anthropic.claude-sonnet-5-5", platform="bedrock")
Start = Callable[..., Server]


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """No settings of whoever runs the tests; and the SDK would keep the credentials as long as the process runs."""
    from anthropic.lib.aws._auth import _get_session

    _get_session.cache_clear()
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def bedrock(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Start]:
    with ExitStack() as running:

        def start(script: Script, handler: type[Handler] = Bedrock) -> Server:
            server = running.enter_context(messages_server(script, handler))
            for name, value in aws_environment(server, tmp_path).items():
                monkeypatch.setenv(name, value)
            return server

        yield start


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No credentials at all, and an address that nothing answers at."""
    settings = {
        **no_aws(tmp_path),
        "ANTHROPIC_BEDROCK_BASE_URL": "http://127.0.0.1:9",
        "AWS_REGION": "eu-north-9",
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


def test_a_reply_is_streamed_and_counted(bedrock: Start) -> None:
    usage = {
        "input_tokens": 7,
        "output_tokens": 20,
        "cache_read_input_tokens": 5,
        "cache_creation_input_tokens": 3,
    }
    bedrock(text("hello wörld", thinking="hm", usage=usage, model="claude-sonnet-5-5"))
    reply, pieces = call()
    assert reply == Reply("hello wörld", "end", Usage(7, 20, 5, 3), "bedrock/claude-sonnet-5-5")
    assert len(pieces) > 1
    assert "".join(pieces) == reply.text


def test_what_is_sent(bedrock: Start) -> None:
    server = bedrock("ok")
    wishes = Wishes(effort="low", temperature=0.5, stop=("END",), cache="1h")
    model = AnthropicModel(NAME, wishes, platform="bedrock")
    call(model)
    sent = server.requests[0]
    assert sent.path == f"/model/{NAME}/invoke-with-response-stream"
    assert sent.headers["authorization"].startswith(f"AWS4-HMAC-SHA256 Credential={ACCESS_KEY}/")
    assert "/eu-north-9/bedrock/aws4_request" in sent.headers["authorization"]
    assert sent.headers["x-amz-security-token"] == SESSION
    assert "x-amz-date" in sent.headers
    assert {"anthropic_version", "max_tokens", "messages"} <= sent.body.keys()
    assert {"model", "stream", "temperature"}.isdisjoint(sent.body)
    assert sent.body["thinking"] == {"type": "adaptive"}
    assert sent.body["output_config"] == {"effort": "low"}
    assert sent.body["stop_sequences"] == ["END"]
    assert (model.spec, model.context_tokens) == (f"bedrock/{NAME}", 1_000_000)
    assert model.ignored() == ("temperature",)


def test_an_arn_is_one_part_of_the_path(bedrock: Start) -> None:
    server = bedrock("ok")
    arn = f"arn:aws:bedrock:us-east-1:123456789012:inference-profile/{NAME}"
    call(AnthropicModel(arn, platform="bedrock"))
    part = server.requests[0].path.split("/")[2]
    assert urllib.parse.unquote(part) == arn
    assert server.requests[0].body["thinking"] == {"type": "adaptive"}


def test_a_key_of_bedrock(bedrock: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    server = bedrock(["ok", status(403, "no model for secret-bearer")])
    monkeypatch.setenv("AWS_BEARER_TOKEN_BEDROCK", "secret-bearer")
    assert call()[0].text == "ok"
    assert server.requests[0].headers["authorization"] == "Bearer secret-bearer"
    assert "no model for [key]" in str(refused())


@pytest.mark.parametrize(
    ("name", "door"),
    [
        ("anthropic.claude-opus-5", "mantle"),
        ("anthropic.claude-sonnet-5-5", "mantle"),
        ("anthropic.claude-opus-4-6-v1", "bedrock"),
        ("anthropic.claude-haiku-4-5-20251001-v1:0", "bedrock"),
        ("us.anthropic.claude-opus-5", "bedrock"),
        ("arn:aws:bedrock:us-east-1:1:inference-profile/us.anthropic.claude-opus-5", "bedrock"),
    ],
)
def test_which_of_the_two_doors(name: str, door: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_BEDROCK_BASE_URL", raising=False)
    assert api_of("bedrock", name) == door
    monkeypatch.setenv("ANTHROPIC_BEDROCK_BASE_URL", "http://127.0.0.1:9")
    assert api_of("bedrock", name) == "bedrock"


def test_a_bare_name_goes_to_the_messages_api(bedrock: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    server = bedrock(["ok", aws_status(403, "AccessDeniedException", "not yours")], Mantle)
    monkeypatch.delenv("ANTHROPIC_BEDROCK_BASE_URL")
    monkeypatch.setenv("ANTHROPIC_BEDROCK_MANTLE_BASE_URL", f"{server.url}/anthropic")
    assert call(BARE)[0].text == "ok"
    assert server.requests[0].body["model"] == "anthropic.claude-sonnet-5-5"
    assert "/eu-north-9/bedrock-mantle/aws4_request" in server.requests[0].headers["authorization"]
    assert "may not use bedrock/anthropic.claude-sonnet-5-5 (not yours)" in str(refused(model=BARE))
    server.count = 5
    assert BARE.count_tokens(ask()) == 5


def test_tokens_are_not_counted_by_the_other_door(nowhere: None) -> None:
    assert MODEL.count_tokens(ask()) is None


def test_missing_usage_is_estimated(bedrock: Start) -> None:
    bedrock(text("0123456789" * 30, report_usage=False))
    usage = call()[0].usage
    assert usage.estimated
    assert 50 < usage.output < 200


@pytest.mark.parametrize(
    ("script", "handler"),
    [
        (cut("a partial text"), Bedrock),
        (cut("a partial text", cleanly=True), Bedrock),
        (text("a text"), BrokenBedrock),
        (hang_up(), Bedrock),
    ],
)
def test_a_cut_stream_is_no_reply(bedrock: Start, script: Script, handler: type[Handler]) -> None:
    bedrock(script, handler)
    words = str(refused(Retryable))
    assert "broke off" in words or "cannot reach" in words


@pytest.mark.soak
@pytest.mark.parametrize(
    ("script", "words"),
    [
        (
            aws_exception("throttlingException", "Too many tokens", after="part"),
            "the rate limit of the account",
        ),
        (aws_exception("serviceUnavailableException"), "overloaded"),
        (aws_exception("internalServerException", "oops"), "500: oops"),
        (aws_exception("modelStreamErrorException", "odd"), "500: odd"),
        (aws_exception("modelTimeoutException", "slow"), "504: slow"),
        (error_event("part"), "overloaded"),
        (aws_status(429, "ThrottlingException", "Too many requests"), "the rate limit of the account"),
        (aws_status(424, "ModelErrorException", "it broke"), "the server failed (424: it broke)"),
        (aws_status(500, "InternalServerException", "oops"), "500: oops"),
        (aws_status(503, "ServiceUnavailableException", "busy"), "503: busy"),
        (status(529), "overloaded"),
    ],
)
def test_what_may_pass_by_itself(bedrock: Start, script: Script, words: str) -> None:
    bedrock(script)
    assert words in str(refused(Retryable))


def test_what_a_throttled_stream_has_cost(bedrock: Start) -> None:
    bedrock(aws_exception("throttlingException", after="a long text " * 20))
    error = refused(Retryable)
    assert isinstance(error, Retryable)
    assert error.usage.input == 100
    assert error.usage.output > 10


@pytest.mark.soak
@pytest.mark.parametrize(
    ("script", "words"),
    [
        (aws_exception("validationException", "bad", after="part"), "does not accept the request (400: bad)"),
        (aws_status(400, "ValidationException", "prompt is too long: 9 > 8"), "too long"),
        (aws_status(400, "ValidationException", "odd field"), "(400: odd field)"),
        (
            aws_status(400, "ValidationException", "The provided model identifier is invalid."),
            f"has no bedrock/{NAME}",
        ),
        (
            aws_status(400, "ValidationException", "x with on-demand throughput isn't supported"),
            "for example bedrock/us.anthropic.claude-sonnet-5-5, and the region",
        ),
        (aws_status(404, "ResourceNotFoundException", "gone"), f"has no bedrock/{NAME} (gone)"),
        (aws_status(401, "Other", "who are you"), "rejected the key (Other): check the AWS credentials"),
        (aws_status(403, "AccessDeniedException", f"no {SESSION}"), "(no [key])"),
        (aws_status(403, "AccessDeniedException", "no access"), f"may not use bedrock/{NAME} (no access)"),
        (
            aws_status(403, "UnrecognizedClientException", "The security token is invalid"),
            "rejected the key (UnrecognizedClientException)",
        ),
        (
            aws_status(403, "InvalidSignatureException", f"Canonical String: {SESSION}"),
            "rejected the key (InvalidSignatureException): check the AWS credentials and the clock",
        ),
        (aws_status(403, "ExpiredTokenException", "expired"), "rejected the key (ExpiredTokenException)"),
        (
            aws_status(429, "ThrottlingException", "Too many tokens per day, please wait"),
            "cannot pay for this call (Too many tokens per day, please wait)",
        ),
        (page(), "it answered with text/html"),
    ],
)
def test_what_will_not_pass(bedrock: Start, script: Script, words: str) -> None:
    bedrock(script)
    said = str(refused())
    assert words in said
    assert "ANTHROPIC_API_KEY" not in said


@pytest.mark.soak
def test_time(bedrock: Start) -> None:
    bedrock([text("late", first_delay=0.5), text("a long reply", delay=0.5), text("late", first_delay=0.3)])
    quick = AnthropicModel(NAME, read_seconds=0.2, platform="bedrock")
    assert "for 0.2 s" in str(refused(Retryable, quick))
    assert "no data for 0.2 s" in str(refused(Retryable, quick))
    assert call()[0].text == "late"


def test_no_credentials(nowhere: None) -> None:
    assert "no AWS credentials: run `aws configure`" in str(refused())


def test_half_of_the_credentials(nowhere: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    assert "AWS_SECRET_ACCESS_KEY" in str(refused())


@pytest.mark.parametrize("region", ["eu-north-9", ""])
def test_a_profile_that_is_not_there(nowhere: None, monkeypatch: pytest.MonkeyPatch, region: str) -> None:
    monkeypatch.setenv("AWS_PROFILE", "wrok")
    monkeypatch.setenv("AWS_REGION", region)
    assert "no AWS profile 'wrok'" in str(refused())


def test_no_region(nowhere: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_REGION")
    assert "no AWS region is set: set AWS_REGION" in str(refused())


def test_the_region_and_the_keys_of_a_profile(
    bedrock: Start, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    server = bedrock("ok")
    for name in ("AWS_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_PROFILE", "work")
    (tmp_path / "aws-config").write_text("[profile work]\nregion = ap-south-9\n")
    keys = f"[work]\naws_access_key_id = {ACCESS_KEY}\naws_secret_access_key = {SECRET}\n"
    (tmp_path / "aws-credentials").write_text(keys)
    assert call()[0].text == "ok"
    assert "/ap-south-9/bedrock/" in server.requests[0].headers["authorization"]


def test_a_login_that_has_expired(nowhere: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("AWS_PROFILE", "sso")
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "aws-config").write_text(
        "[profile sso]\nsso_session = s\nsso_account_id = 1\nsso_role_name = r\n"
        "[sso-session s]\nsso_region = us-east-1\nsso_start_url = https://example.invalid/start\n"
    )
    assert "the AWS login has expired: run `aws sso login`" in str(refused())


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ("no section\n", "cannot read the AWS configuration"),
        ("[default]\ncredential_process = /no/such/program\n", "cannot load AWS credentials"),
    ],
)
def test_a_configuration_that_does_not_work(nowhere: None, tmp_path: Path, config: str, words: str) -> None:
    (tmp_path / "aws-config").write_text(config)
    assert words in str(refused())


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("ANTHROPIC_BEDROCK_BASE_URL", "127.0.0.1:9/x", "ANTHROPIC_BEDROCK_BASE_URL"),
        ("ANTHROPIC_BEDROCK_BASE_URL", "http://[::1", "ANTHROPIC_BEDROCK_BASE_URL"),
        ("AWS_BEARER_TOKEN_BEDROCK", "key\n", "AWS_BEARER_TOKEN_BEDROCK contains a line break"),
    ],
)
def test_wrong_settings(
    nowhere: None, monkeypatch: pytest.MonkeyPatch, name: str, value: str, words: str
) -> None:
    monkeypatch.setenv(name, value)
    assert words in str(refused())


def test_a_token_with_a_line_end_is_not_shown(bedrock: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    bedrock("ok")
    monkeypatch.setenv("AWS_SESSION_TOKEN", SESSION + "\n")
    refused()


def test_a_name_that_makes_no_address(nowhere: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_BEARER_TOKEN_BEDROCK", "key")
    assert "cannot build a request for bedrock/.." in str(
        refused(model=AnthropicModel("..", platform="bedrock"))
    )


def test_no_server(nowhere: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_BEARER_TOKEN_BEDROCK", "key")
    assert "cannot reach 127.0.0.1" in str(refused(Retryable))


def test_the_connection_is_opened_early(bedrock: Start) -> None:
    server = bedrock("ok")
    AnthropicBackend("bedrock").preload(NAME)
    deadline = time.monotonic() + 20
    while not server.warmed and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.05)  # the answer has to arrive, too
    assert call()[0].text == "ok"
    assert (server.warmed, server.connections) == (1, 1)


def test_without_the_extra(nowhere: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PROVIDERS, "bedrock", replace(PROVIDERS["bedrock"], requires=("no_such_module",)))
    monkeypatch.setenv("AWS_REGION", "eu-north-8")  # a client is made once for one environment
    assert "pip install 'git-repoagent[bedrock]'" in str(refused())
    monkeypatch.setitem(
        PROVIDERS, "bedrock", replace(PROVIDERS["bedrock"], requires=("no_such_package.module",))
    )
    assert anthropic_clouds.missing("bedrock") != ""
    monkeypatch.undo()
    assert anthropic_clouds.missing("bedrock") == ""
