"""What can go wrong with Claude on Amazon Bedrock and Google Vertex AI, as sentences; and what may pass by itself.

The text of an error is quoted only where it can hold no credentials, and never those that a request was sent with.

The clients of Claude on Amazon Bedrock and Google Vertex AI, with the credentials that AWS's and Google's own
tools use.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from repoagent.errors import ModelError, install_extra
from repoagent.llm.model import Retryable, Usage
from repoagent.llm.provider import PROVIDERS
from repoagent.llm.providers.anthropic_stream import rejected
from repoagent.llm.providers.errors import brief, unusable_key

if TYPE_CHECKING:
    import anthropic
    import httpx2
    from anthropic.types.shared import ErrorType

    from repoagent.llm.providers.anthropic import Api, Client

_AWS_ADVICE = (
    "run `aws configure` or `aws sso login`, or set AWS_PROFILE, AWS_ACCESS_KEY_ID with AWS_SECRET_ACCESS_KEY, "
    "or AWS_BEARER_TOKEN_BEDROCK"
)
_GOOGLE_ADVICE = (
    "run `gcloud auth application-default login`, or set GOOGLE_APPLICATION_CREDENTIALS to a file of them"
)

# Errors that AWS sends inside a stream, as Anthropic's own API names them.
_IN_STREAM: Mapping[str, ErrorType] = {
    "throttlingException": "rate_limit_error",
    "validationException": "invalid_request_error",
    "modelTimeoutException": "timeout_error",
    "serviceUnavailableException": "overloaded_error",
}
_EXPIRED = ("ExpiredToken", "RequestExpired")
_UNSIGNED = ("UnrecognizedClient", "InvalidClientTokenId", "Signature", "MissingAuthenticationToken")
_NO_MODEL = (
    "model identifier is invalid",
    "on-demand throughput",
    "inference profile",
    "not servable in region",
)


def library_errors(door: Api) -> tuple[type[Exception], ...]:
    """What the libraries of a cloud raise when they find no credentials, or wrong ones."""
    if door == "anthropic":
        return ()
    if door == "vertex":
        from google.auth.exceptions import GoogleAuthError

        return (GoogleAuthError, RuntimeError, OSError)
    from botocore.exceptions import BotoCoreError, ClientError

    return (BotoCoreError, ClientError, RuntimeError, OSError)  # the last for a credential_process


def stream_errors(door: Api) -> tuple[type[Exception], ...]:
    """What a stream can raise that is not as it should be."""
    if door != "bedrock":
        return (ValueError,)
    from botocore.eventstream import ParserError
    from botocore.parsers import ResponseParserError

    return (ValueError, ParserError, ResponseParserError)


def no_credentials(door: Api, error: Exception) -> ModelError:
    """For what `library_errors` names. Their classes differ from version to version, so they go by name."""
    kinds = {kind.__name__ for kind in type(error).__mro__}
    return _no_google(error, kinds) if door == "vertex" else _no_aws(error, kinds)


def _no_aws(error: Exception, kinds: set[str]) -> ModelError:
    told: Mapping[str, object] = getattr(error, "kwargs", {})
    if "ProfileNotFound" in kinds:
        return ModelError(f"no AWS profile {told.get('profile')!r}: set AWS_PROFILE to one of yours")
    if "PartialCredentialsError" in kinds:
        return ModelError(f"the AWS credentials are incomplete ({error}): {_AWS_ADVICE}")
    if kinds & {"ConfigParseError", "ConfigNotFound"}:
        return ModelError(f"cannot read the AWS configuration: fix {told.get('path')}")
    if kinds & {"SSOError", "TokenRetrievalError", "LoginError"}:
        return ModelError("the AWS login has expired: run `aws sso login` (or `aws login`) and try again")
    if kinds & {"HTTPClientError", "ConnectionError"}:
        return Retryable(f"cannot reach AWS for credentials ({type(error).__name__})")
    if "RuntimeError" in kinds:
        return ModelError(f"no AWS credentials: {_AWS_ADVICE}")
    return ModelError(f"cannot load AWS credentials ({type(error).__name__}): {_AWS_ADVICE}")


def _no_google(error: Exception, kinds: set[str]) -> ModelError:
    said = brief(str(error.args[0] if error.args else ""))
    if kinds & {"TransportError", "TimeoutError"} or getattr(error, "retryable", False):
        return Retryable(f"cannot reach Google for credentials ({type(error).__name__})")
    if "RefreshError" in kinds:
        return ModelError(f"Google no longer accepts the credentials ({said}): {_GOOGLE_ADVICE}")
    if "DefaultCredentialsError" in kinds and said.startswith("File") and "not found" in said:
        return ModelError(f"GOOGLE_APPLICATION_CREDENTIALS names a missing file: {_GOOGLE_ADVICE}")
    if "DefaultCredentialsError" in kinds and "were not found" in said:
        return ModelError(f"no Google Cloud credentials: {_GOOGLE_ADVICE}")
    return ModelError(f"cannot use the Google Cloud credentials ({type(error).__name__}): {_GOOGLE_ADVICE}")


def cloud_rejected(
    door: Api, error: anthropic.APIStatusError, spec: str, usage: Usage, secrets: list[str]
) -> ModelError:
    """As `anthropic_errors.rejected`, for the errors of AWS and of Google."""
    code = _normalised(error)
    status, said = error.status_code, brief(error.api_message or error.message, secrets)
    if status < 400:
        error.type = _IN_STREAM.get(code, error.type)
    elif door == "vertex":
        if status == 401:
            return ModelError(f"Google Cloud rejected the credentials: {_GOOGLE_ADVICE}")
        if status == 403:
            return ModelError(
                f"these credentials may not use {spec} ({said}): enable the Vertex AI API and the model for the "
                "project, and ask for the role Vertex AI User"
            )
    elif any(mark in code for mark in _EXPIRED):
        return ModelError(f"the AWS credentials have expired: {_AWS_ADVICE}")
    elif status == 401 or any(mark in code for mark in _UNSIGNED):
        # what AWS says of a signature quotes the request, its token too
        return ModelError(
            f"AWS rejected the credentials ({code or status}): check them and the clock, or {_AWS_ADVICE}"
        )
    elif status == 403:
        return ModelError(
            f"these AWS credentials may not use {spec} ({said}): ask for the model in the Bedrock console, and "
            "for the right to invoke it"
        )
    elif status == 424:
        return Retryable(f"the model failed ({said})", usage=usage)
    elif status == 429 and "per day" in said:
        return ModelError(f"the account's tokens for today are used up ({said}): check its quotas")
    if status == 404 or (status == 400 and any(mark in said for mark in _NO_MODEL)):
        example = "vertex/claude-sonnet-5-5" if door == "vertex" else "bedrock/us.anthropic.claude-sonnet-5-5"
        return ModelError(
            f"{error.request.url.host} has no {spec} ({said}): check the name, for example {example}, and the region"
        )
    return rejected(error, spec, usage, secrets)


def _normalised(error: anthropic.APIStatusError) -> str:
    """The code of an error as AWS or Google names it; its message goes to where Anthropic's stands."""
    body: Any = error.body
    if isinstance(body, list) and body:  # Google's answer to a streamed request may be a list
        body = body[0]
    inner = body.get("error") if isinstance(body, dict) else None
    fields = inner if isinstance(inner, dict) else body if isinstance(body, dict) else {}
    message = fields.get("message") or fields.get("Message")
    if isinstance(message, str):
        error.api_message = message
    code = error.response.headers.get("x-amzn-errortype") or fields.get("status") or fields.get("__type")
    return str(code or fields.get("type") or "").partition(":")[0].rpartition("#")[2]


# What tells that somebody uses the platform, without asking its libraries.
CREDENTIAL_VARIABLES = {
    "bedrock": ("AWS_BEARER_TOKEN_BEDROCK", "AWS_ACCESS_KEY_ID", "AWS_PROFILE"),
    "vertex": ("ANTHROPIC_VERTEX_PROJECT_ID", "GOOGLE_APPLICATION_CREDENTIALS"),
}
_BASE_URLS = {
    "bedrock": "ANTHROPIC_BEDROCK_BASE_URL and AWS_REGION",
    "mantle": "ANTHROPIC_BEDROCK_MANTLE_BASE_URL and AWS_REGION",
    "vertex": "ANTHROPIC_VERTEX_BASE_URL and CLOUD_ML_REGION",
}


def missing(platform: str) -> str:
    """The error for a platform whose libraries are not installed, "" when they are."""
    if PROVIDERS[platform].is_installed:
        return ""
    return f"models of {platform}/ need more packages: {install_extra(platform)}"


def refuse_missing(door: Api) -> None:
    if sentence := missing(_platform(door)):
        raise ModelError(sentence)


def new_client(door: Api, http: httpx2.Client) -> Client:
    """The SDK's client for a cloud. Raises ModelError for settings that are missing or wrong."""
    import httpx2

    # Both libraries speak of old Pythons and of quotas, which says nothing about an edit.
    warnings.filterwarnings("ignore", module=r"(google|boto3)\.")
    # a ValueError is a private key that is none
    wrong: tuple[type[Exception], ...] = (ValueError, *library_errors(door))
    try:
        client = _vertex(http) if door == "vertex" else _bedrock(door, http)
    except httpx2.InvalidURL as error:
        raise ModelError(f"invalid address ({error}): check {_BASE_URLS[door]}") from error
    except wrong as error:
        raise no_credentials(door, error) from error
    if client.base_url.scheme not in {"http", "https"} or not client.base_url.host:
        raise ModelError(f"{client.base_url} is not a server address: check {_BASE_URLS[door]}")
    if unusable_key(getattr(client, "api_key", None) or ""):
        raise ModelError(
            "AWS_BEARER_TOKEN_BEDROCK contains a line break or another invalid character: set it again"
        )
    return client


def _bedrock(door: Api, http: httpx2.Client) -> Client:
    import anthropic
    import boto3

    import_module("botocore.auth")  # here, so that the first signature need not

    region = (
        os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or boto3.Session().region_name
    )
    if not region:
        raise ModelError(
            "no AWS region is set: set AWS_REGION, for example to us-east-1, or one for your profile"
        )
    if door == "mantle":
        return anthropic.AnthropicBedrockMantle(aws_region=region, http_client=http, max_retries=0)
    return anthropic.AnthropicBedrock(aws_region=region, http_client=http, max_retries=0)


def _vertex(http: httpx2.Client) -> Client:
    import anthropic
    import google.auth
    import google.auth.transport.requests  # here, so that the first call need not

    region = os.environ.get("CLOUD_ML_REGION")
    if not region:
        raise ModelError(
            "no region is set for Vertex AI: set CLOUD_ML_REGION, for example to global or us-east5"
        )
    credentials, found = google.auth.default(scopes=["https://www.googleapis.com/auth/cloud-platform"])
    project = os.environ.get("ANTHROPIC_VERTEX_PROJECT_ID") or found
    if not project:
        raise ModelError("no Google Cloud project is set: set ANTHROPIC_VERTEX_PROJECT_ID to its id")
    return anthropic.AnthropicVertex(
        region=region, project_id=project, credentials=credentials, http_client=http, max_retries=0
    )


def _platform(door: Api) -> str:
    return "bedrock" if door == "mantle" else door
