"""Claude on Amazon Bedrock and Google Vertex AI: clients that use the credentials of the AWS and Google tools, and
their errors. Messages from their libraries are not quoted, because they may contain credentials."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from repoagent.errors import ModelError
from repoagent.llm.model import Retryable

if TYPE_CHECKING:
    import httpx2
    from anthropic import AnthropicBedrock, AnthropicVertex

    CloudClient = AnthropicBedrock | AnthropicVertex


class Cloud(NamedTuple):
    """What messages say about a cloud platform.

    login: how to log in.
    address: the variables that set the platform's address.
    remedies: advice by HTTP status.
    evidence: the variables that show that there are credentials.
    """

    name: str
    login: str
    address: str
    remedies: Mapping[int, str]
    evidence: tuple[str, ...]


_AWS_LOGIN = (
    "run `aws configure` or `aws sso login`, or set AWS_PROFILE, AWS_ACCESS_KEY_ID with AWS_SECRET_ACCESS_KEY, "
    "or AWS_BEARER_TOKEN_BEDROCK"
)
_GOOGLE_LOGIN = (
    "run `gcloud auth application-default login`, or set GOOGLE_APPLICATION_CREDENTIALS to a credentials file"
)
CLOUDS = {
    "bedrock": Cloud(
        "AWS",
        _AWS_LOGIN,
        "ANTHROPIC_BEDROCK_BASE_URL and AWS_REGION",
        {
            401: f"check the AWS credentials and the clock, or {_AWS_LOGIN}",
            403: "request access to the model in the Bedrock console, and permission to invoke it",
            404: "check the name, for example bedrock/us.anthropic.claude-sonnet-5-5, and the region",
        },
        ("AWS_BEARER_TOKEN_BEDROCK", "AWS_ACCESS_KEY_ID", "AWS_PROFILE"),
    ),
    "vertex": Cloud(
        "Google Cloud",
        _GOOGLE_LOGIN,
        "ANTHROPIC_VERTEX_BASE_URL and CLOUD_ML_REGION",
        {
            401: _GOOGLE_LOGIN,
            403: "enable the Vertex AI API and the model for the project, and ask for the Vertex AI User role",
            404: "check the name, for example vertex/claude-sonnet-5-5, and the region",
        },
        ("ANTHROPIC_VERTEX_PROJECT_ID", "GOOGLE_APPLICATION_CREDENTIALS"),
    ),
}
# By the names of exception classes, whose modules differ between versions.
_UNREACHABLE = {"HTTPClientError", "ConnectionError", "TransportError", "TimeoutError"}


def new_client(platform: str, http: httpx2.Client) -> CloudClient:
    """The SDK's client for a cloud. Raises ModelError for missing or wrong settings."""
    import anthropic
    import httpx2

    # Both libraries warn about old versions of Python and about quotas.
    warnings.filterwarnings("ignore", module=r"(google|boto3)\.")
    client: CloudClient
    # ValueError: a bad private key
    wrong: tuple[type[Exception], ...] = (ValueError, *library_errors(platform))
    try:
        if platform == "bedrock":
            import boto3

            region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
            if not (region := region or boto3.Session().region_name):
                raise ModelError(
                    "no AWS region is set: set AWS_REGION, for example to us-east-1, or set one in your "
                    "profile"
                )
            client = anthropic.AnthropicBedrock(aws_region=region, http_client=http, max_retries=0)
        else:
            import google.auth

            if not (region := os.environ.get("CLOUD_ML_REGION")):
                raise ModelError(
                    "no region is set for Vertex AI: set CLOUD_ML_REGION, for example to global or us-east5"
                )
            credentials, default = google.auth.default(["https://www.googleapis.com/auth/cloud-platform"])
            project = os.environ.get("ANTHROPIC_VERTEX_PROJECT_ID") or default
            if not project:
                raise ModelError(
                    "no Google Cloud project is set: set ANTHROPIC_VERTEX_PROJECT_ID to your project ID"
                )
            client = anthropic.AnthropicVertex(
                region=region, project_id=project, credentials=credentials, http_client=http, max_retries=0
            )
    except httpx2.InvalidURL as error:
        raise ModelError(f"invalid address ({error}): check {CLOUDS[platform].address}") from error
    except wrong as error:
        raise no_credentials(platform, error) from error
    return client


def library_errors(platform: str) -> tuple[type[Exception], ...]:
    """The exceptions that a cloud's libraries raise for missing or wrong credentials."""
    if platform == "anthropic":
        return ()
    if platform == "vertex":
        from google.auth.exceptions import GoogleAuthError

        return (GoogleAuthError, RuntimeError, OSError)
    from botocore.exceptions import BotoCoreError, ClientError

    return (BotoCoreError, ClientError, RuntimeError, OSError)  # OSError: a credential_process


def stream_errors(platform: str) -> tuple[type[Exception], ...]:
    """The exceptions that a malformed stream can raise."""
    if platform != "bedrock":
        return (ValueError,)
    from botocore.eventstream import ParserError
    from botocore.parsers import ResponseParserError

    return (ValueError, ParserError, ResponseParserError)


def no_credentials(platform: str, error: Exception) -> ModelError:
    """The ModelError for one of `library_errors`."""
    cloud, name = CLOUDS[platform], type(error).__name__
    classes = {base.__name__ for base in type(error).__mro__}
    if _UNREACHABLE & classes or getattr(error, "retryable", False):
        return Retryable(f"cannot reach {cloud.name} to get credentials ({name})")
    return ModelError(f"no usable {cloud.name} credentials ({name}): {cloud.login}")
