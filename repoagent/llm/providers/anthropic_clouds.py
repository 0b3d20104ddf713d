"""Claude on Amazon Bedrock and Google Vertex AI: clients with the credentials of the tools of AWS and Google, and their
errors. Messages of the clouds' libraries are quoted only if they cannot contain credentials."""

from __future__ import annotations

import os
import warnings
from importlib import import_module
from typing import TYPE_CHECKING

from repoagent.errors import ModelError
from repoagent.llm.model import Retryable
from repoagent.llm.providers.errors import brief, unusable_key

if TYPE_CHECKING:
    import httpx2
    from anthropic import AnthropicBedrock, AnthropicVertex

    CloudClient = AnthropicBedrock | AnthropicVertex

_AWS_ADVICE = (
    "run `aws configure` or `aws sso login`, or set AWS_PROFILE, AWS_ACCESS_KEY_ID with AWS_SECRET_ACCESS_KEY, "
    "or AWS_BEARER_TOKEN_BEDROCK"
)
_GOOGLE_ADVICE = (
    "run `gcloud auth application-default login`, or set GOOGLE_APPLICATION_CREDENTIALS to a file of them"
)
# The remedies for a rejection, by HTTP status; see `errors.rejection`.
ADVICE = {
    "bedrock": {
        401: f"check the AWS credentials and the clock, or {_AWS_ADVICE}",
        403: "ask for the model in the Bedrock console, and for the right to invoke it",
        404: "check the name, for example bedrock/us.anthropic.claude-sonnet-5-5, and the region",
    },
    "vertex": {
        401: _GOOGLE_ADVICE,
        403: "enable the Vertex AI API and the model for the project, and ask for the role Vertex AI User",
        404: "check the name, for example vertex/claude-sonnet-5-5, and the region",
    },
}
_EXPIRED = "the AWS login has expired: run `aws sso login` (or `aws login`) and try again"
# By the names of exception classes, whose modules differ between versions.
_CREDENTIAL_ERRORS = {
    "ProfileNotFound": "no AWS profile {profile!r}: set AWS_PROFILE to one of yours",
    "PartialCredentialsError": f"the AWS credentials are incomplete ({{error}}): {_AWS_ADVICE}",
    "ConfigParseError": "cannot read the AWS configuration: fix {path}",
    "ConfigNotFound": "cannot read the AWS configuration: fix {path}",
    "SSOError": _EXPIRED,
    "TokenRetrievalError": _EXPIRED,
    "LoginError": _EXPIRED,
    "RefreshError": f"Google no longer accepts the credentials ({{error}}): {_GOOGLE_ADVICE}",
}
_UNREACHABLE = {"HTTPClientError", "ConnectionError", "TransportError", "TimeoutError"}
# Evidence of credentials, without importing a library.
CREDENTIAL_VARIABLES = {
    "bedrock": ("AWS_BEARER_TOKEN_BEDROCK", "AWS_ACCESS_KEY_ID", "AWS_PROFILE"),
    "vertex": ("ANTHROPIC_VERTEX_PROJECT_ID", "GOOGLE_APPLICATION_CREDENTIALS"),
}
_ADDRESS_VARIABLES = {
    "bedrock": "ANTHROPIC_BEDROCK_BASE_URL and AWS_REGION",
    "vertex": "ANTHROPIC_VERTEX_BASE_URL and CLOUD_ML_REGION",
}


def new_client(platform: str, http: httpx2.Client) -> CloudClient:
    """The SDK's client for a cloud. Raises ModelError for missing or wrong settings."""
    import httpx2

    # Both libraries warn about old versions of Python and about quotas.
    warnings.filterwarnings("ignore", module=r"(google|boto3)\.")
    invalid: tuple[type[Exception], ...] = (
        ValueError,
        *library_errors(platform),
    )  # ValueError: a bad private key
    try:
        client = _vertex(http) if platform == "vertex" else _bedrock(http)
    except httpx2.InvalidURL as error:
        raise ModelError(f"invalid address ({error}): check {_ADDRESS_VARIABLES[platform]}") from error
    except invalid as error:
        raise no_credentials(platform, error) from error
    if client.base_url.scheme not in {"http", "https"} or not client.base_url.host:
        raise ModelError(f"{client.base_url} is not a server address: check {_ADDRESS_VARIABLES[platform]}")
    if unusable_key(getattr(client, "api_key", None) or ""):
        raise ModelError(
            "AWS_BEARER_TOKEN_BEDROCK contains a line break or another invalid character: set it again"
        )
    return client


def _bedrock(http: httpx2.Client) -> AnthropicBedrock:
    import anthropic
    import boto3

    import_module("botocore.auth")  # not only at the first signature
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if not (region := region or boto3.Session().region_name):
        raise ModelError(
            "no AWS region is set: set AWS_REGION, for example to us-east-1, or one for your profile"
        )
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


def library_errors(platform: str) -> tuple[type[Exception], ...]:
    """The exceptions of a cloud's libraries for missing or wrong credentials."""
    if platform == "anthropic":
        return ()
    if platform == "vertex":
        from google.auth.exceptions import GoogleAuthError

        return (GoogleAuthError, RuntimeError, OSError)
    from botocore.exceptions import BotoCoreError, ClientError

    return (BotoCoreError, ClientError, RuntimeError, OSError)  # OSError: a credential_process


def stream_errors(platform: str) -> tuple[type[Exception], ...]:
    """The exceptions for a malformed stream."""
    if platform != "bedrock":
        return (ValueError,)
    from botocore.eventstream import ParserError
    from botocore.parsers import ResponseParserError

    return (ValueError, ParserError, ResponseParserError)


def no_credentials(platform: str, error: Exception) -> ModelError:
    """The ModelError for one of `library_errors`."""
    cloud, advice = ("Google", _GOOGLE_ADVICE) if platform == "vertex" else ("AWS", _AWS_ADVICE)
    classes = [base.__name__ for base in type(error).__mro__]
    if _UNREACHABLE & {*classes} or getattr(error, "retryable", False):
        return Retryable(f"cannot reach {cloud} for credentials ({type(error).__name__})")
    values: dict[str, object] = {"profile": None, "path": None, **getattr(error, "kwargs", {})}
    values["error"] = brief(str(error.args[0] if error.args else ""))
    for name in classes:
        if name in _CREDENTIAL_ERRORS:
            return ModelError(_CREDENTIAL_ERRORS[name].format(**values))
    cloud = "Google Cloud" if platform == "vertex" else cloud
    absent = "RuntimeError" in classes or "were not found" in str(error)
    sentence = f"no {cloud} credentials" if absent else f"cannot load {cloud} credentials ({classes[0]})"
    return ModelError(f"{sentence}: {advice}")
