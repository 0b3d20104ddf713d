"""Claude on Amazon Bedrock and Google Vertex AI: clients with the credentials of AWS's and Google's own tools, and
their errors. The text of an error is quoted only where it cannot contain credentials."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

from repoagent.errors import ModelError, install_extra
from repoagent.llm.model import Retryable, Usage
from repoagent.llm.providers.errors import brief, unusable_key
from repoagent.llm.registry import PROVIDERS

if TYPE_CHECKING:
    import anthropic
    import httpx2
    from anthropic import AnthropicBedrock, AnthropicBedrockMantle, AnthropicVertex
    from anthropic.types.shared import ErrorType

    CloudClient = AnthropicBedrock | AnthropicBedrockMantle | AnthropicVertex

Api = Literal["anthropic", "bedrock", "mantle", "vertex"]  # Bedrock has two: see `api_of`

_BARE_NAME = re.compile(r"anthropic\.claude(-(?!v\d)\w+)+")
_AWS_ADVICE = (
    "run `aws configure` or `aws sso login`, or set AWS_PROFILE, AWS_ACCESS_KEY_ID with AWS_SECRET_ACCESS_KEY, "
    "or AWS_BEARER_TOKEN_BEDROCK"
)
_GOOGLE_ADVICE = (
    "run `gcloud auth application-default login`, or set GOOGLE_APPLICATION_CREDENTIALS to a file of them"
)
# Errors of AWS in a stream, with Anthropic's names.
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
# Evidence of credentials, without importing a library.
CREDENTIAL_VARIABLES = {
    "bedrock": ("AWS_BEARER_TOKEN_BEDROCK", "AWS_ACCESS_KEY_ID", "AWS_PROFILE"),
    "vertex": ("ANTHROPIC_VERTEX_PROJECT_ID", "GOOGLE_APPLICATION_CREDENTIALS"),
}
_ADDRESS_VARIABLES = {
    "bedrock": "ANTHROPIC_BEDROCK_BASE_URL and AWS_REGION",
    "mantle": "ANTHROPIC_BEDROCK_MANTLE_BASE_URL and AWS_REGION",
    "vertex": "ANTHROPIC_VERTEX_BASE_URL and CLOUD_ML_REGION",
}


def api_of(platform: Literal["anthropic", "bedrock", "vertex"], name: str) -> Api:
    """Bedrock serves inference profiles (`us.anthropic.…`, an ARN) and models with a revision (`…-v1:0`) by its
    InvokeModel API, and models by their bare name (`anthropic.claude-opus-5`) by a Messages API of its own ("mantle").
    An address for the first selects it for all."""
    if platform == "bedrock" and not os.environ.get("ANTHROPIC_BEDROCK_BASE_URL"):
        return "mantle" if _BARE_NAME.fullmatch(name) else platform
    return platform


def missing(platform: str) -> str:
    """The error for a platform whose libraries are not installed, "" when they are."""
    if PROVIDERS[platform].is_installed:
        return ""
    return f"models of {platform}/ need more packages: {install_extra(platform)}"


def new_client(api: Api, http: httpx2.Client) -> CloudClient:
    """The SDK's client for a cloud. Raises ModelError for settings that are missing or wrong."""
    import httpx2

    # Both libraries warn of old Pythons and of quotas, which is irrelevant to an edit.
    warnings.filterwarnings("ignore", module=r"(google|boto3)\.")
    invalid: tuple[type[Exception], ...] = (ValueError, *library_errors(api))  # ValueError: a bad private key
    try:
        client = _vertex(http) if api == "vertex" else _bedrock(api, http)
    except httpx2.InvalidURL as error:
        raise ModelError(f"invalid address ({error}): check {_ADDRESS_VARIABLES[api]}") from error
    except invalid as error:
        raise no_credentials(api, error) from error
    if client.base_url.scheme not in {"http", "https"} or not client.base_url.host:
        raise ModelError(f"{client.base_url} is not a server address: check {_ADDRESS_VARIABLES[api]}")
    if unusable_key(getattr(client, "api_key", None) or ""):
        raise ModelError(
            "AWS_BEARER_TOKEN_BEDROCK contains a line break or another invalid character: set it again"
        )
    return client


def _bedrock(api: Api, http: httpx2.Client) -> AnthropicBedrock | AnthropicBedrockMantle:
    import anthropic
    import boto3

    import_module("botocore.auth")  # not only at the first signature
    region = (
        os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or boto3.Session().region_name
    )
    if not region:
        raise ModelError(
            "no AWS region is set: set AWS_REGION, for example to us-east-1, or one for your profile"
        )
    if api == "mantle":
        return anthropic.AnthropicBedrockMantle(aws_region=region, http_client=http, max_retries=0)
    return anthropic.AnthropicBedrock(aws_region=region, http_client=http, max_retries=0)


def _vertex(http: httpx2.Client) -> AnthropicVertex:
    import anthropic
    import google.auth
    import google.auth.transport.requests  # not only at the first call

    region = os.environ.get("CLOUD_ML_REGION")
    if not region:
        raise ModelError(
            "no region is set for Vertex AI: set CLOUD_ML_REGION, for example to global or us-east5"
        )
    credentials, default = google.auth.default(scopes=["https://www.googleapis.com/auth/cloud-platform"])
    project = os.environ.get("ANTHROPIC_VERTEX_PROJECT_ID") or default
    if not project:
        raise ModelError("no Google Cloud project is set: set ANTHROPIC_VERTEX_PROJECT_ID to its id")
    return anthropic.AnthropicVertex(
        region=region, project_id=project, credentials=credentials, http_client=http, max_retries=0
    )


def library_errors(api: Api) -> tuple[type[Exception], ...]:
    """What the libraries of a cloud raise for missing or wrong credentials."""
    if api == "anthropic":
        return ()
    if api == "vertex":
        from google.auth.exceptions import GoogleAuthError

        return (GoogleAuthError, RuntimeError, OSError)
    from botocore.exceptions import BotoCoreError, ClientError

    return (BotoCoreError, ClientError, RuntimeError, OSError)  # the last for a credential_process


def stream_errors(api: Api) -> tuple[type[Exception], ...]:
    """What a malformed stream raises."""
    if api != "bedrock":
        return (ValueError,)
    from botocore.eventstream import ParserError
    from botocore.parsers import ResponseParserError

    return (ValueError, ParserError, ResponseParserError)


def no_credentials(api: Api, error: Exception) -> ModelError:
    """For `library_errors`, by the names of their classes, which differ from version to version."""
    classes = {base.__name__ for base in type(error).__mro__}
    if api == "vertex":
        message = brief(str(error.args[0] if error.args else ""))
        if classes & {"TransportError", "TimeoutError"} or getattr(error, "retryable", False):
            return Retryable(f"cannot reach Google for credentials ({type(error).__name__})")
        sentence = f"cannot use the Google Cloud credentials ({type(error).__name__})"
        if "RefreshError" in classes:
            sentence = f"Google no longer accepts the credentials ({message})"
        elif "DefaultCredentialsError" in classes and message.startswith("File") and "not found" in message:
            sentence = "GOOGLE_APPLICATION_CREDENTIALS names a missing file"
        elif "DefaultCredentialsError" in classes and "were not found" in message:
            sentence = "no Google Cloud credentials"
        return ModelError(f"{sentence}: {_GOOGLE_ADVICE}")
    values: Mapping[str, object] = getattr(error, "kwargs", {})
    if "ProfileNotFound" in classes:
        return ModelError(f"no AWS profile {values.get('profile')!r}: set AWS_PROFILE to one of yours")
    if "PartialCredentialsError" in classes:
        return ModelError(f"the AWS credentials are incomplete ({error}): {_AWS_ADVICE}")
    if classes & {"ConfigParseError", "ConfigNotFound"}:
        return ModelError(f"cannot read the AWS configuration: fix {values.get('path')}")
    if classes & {"SSOError", "TokenRetrievalError", "LoginError"}:
        return ModelError("the AWS login has expired: run `aws sso login` (or `aws login`) and try again")
    if classes & {"HTTPClientError", "ConnectionError"}:
        return Retryable(f"cannot reach AWS for credentials ({type(error).__name__})")
    if "RuntimeError" in classes:
        return ModelError(f"no AWS credentials: {_AWS_ADVICE}")
    return ModelError(f"cannot load AWS credentials ({type(error).__name__}): {_AWS_ADVICE}")


def cloud_rejected(
    api: Api, error: anthropic.APIStatusError, spec: str, usage: Usage, secrets: list[str]
) -> ModelError | None:
    """The error for a rejection that AWS or Google words in its own way; None for one that is like Anthropic's, to
    which `error` is changed."""
    code = _normalize(error)
    status, message = error.status_code, brief(error.api_message or error.message, secrets)
    if status < 400:
        error.type = _IN_STREAM.get(code, error.type)
    elif api == "vertex":
        if status == 401:
            return ModelError(f"Google Cloud rejected the credentials: {_GOOGLE_ADVICE}")
        if status == 403:
            return ModelError(
                f"these credentials may not use {spec} ({message}): enable the Vertex AI API and the model for the "
                "project, and ask for the role Vertex AI User"
            )
    elif any(mark in code for mark in _EXPIRED):
        return ModelError(f"the AWS credentials have expired: {_AWS_ADVICE}")
    elif status == 401 or any(mark in code for mark in _UNSIGNED):
        # AWS's message about a signature quotes the request, its token too
        return ModelError(
            f"AWS rejected the credentials ({code or status}): check them and the clock, or {_AWS_ADVICE}"
        )
    elif status == 403:
        return ModelError(
            f"these AWS credentials may not use {spec} ({message}): ask for the model in the Bedrock console, and "
            "for the right to invoke it"
        )
    elif status == 424:
        return Retryable(f"the model failed ({message})", usage=usage)
    elif status == 429 and "per day" in message:
        return ModelError(f"the account's tokens for today are used up ({message}): check its quotas")
    if status == 404 or (status == 400 and any(mark in message for mark in _NO_MODEL)):
        example = "vertex/claude-sonnet-5-5" if api == "vertex" else "bedrock/us.anthropic.claude-sonnet-5-5"
        return ModelError(
            f"{error.request.url.host} has no {spec} ({message}): check the name, for example {example}, and the region"
        )
    return None


def _normalize(error: anthropic.APIStatusError) -> str:
    """The error code of AWS or Google; their message is moved to Anthropic's field."""
    body: Any = error.body
    if isinstance(body, list) and body:  # Google's response to a streamed request may be a list
        body = body[0]
    inner = body.get("error") if isinstance(body, dict) else None
    fields = inner if isinstance(inner, dict) else body if isinstance(body, dict) else {}
    message = fields.get("message") or fields.get("Message")
    if isinstance(message, str):
        error.api_message = message
    code = error.response.headers.get("x-amzn-errortype") or fields.get("status") or fields.get("__type")
    return str(code or fields.get("type") or "").partition(":")[0].rpartition("#")[2]
