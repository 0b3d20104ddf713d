"""Claude on Amazon Bedrock and Google Vertex AI: clients with the credentials of the tools of AWS and Google, and their
specific errors. Messages of the clouds' libraries are quoted only if they cannot contain credentials."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

from repoagent.errors import ModelError
from repoagent.llm.model import Retryable
from repoagent.llm.providers.errors import STATUS_OF, brief, unusable_key

if TYPE_CHECKING:
    import anthropic
    import httpx2
    from anthropic import AnthropicBedrock, AnthropicBedrockMantle, AnthropicVertex

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
# Error codes of AWS and Google as HTTP statuses, if the server sends another status.
_STATUS_OF_CODE = {
    "throttlingException": 429,
    "validationException": 400,
    "modelTimeoutException": 504,
    "serviceUnavailableException": 529,
}
_BAD_CREDENTIALS = re.compile(
    "ExpiredToken|RequestExpired|UnrecognizedClient|InvalidClientTokenId|Signature|MissingAuthenticationToken"
)
_NO_MODEL = re.compile(
    "model identifier is invalid|on-demand throughput|inference profile|not servable in region"
)
# Messages for missing or wrong credentials, by the names of exception classes, whose modules differ between versions.
_CREDENTIAL_ERRORS = {
    "ProfileNotFound": "no AWS profile {profile!r}: set AWS_PROFILE to one of yours",
    "PartialCredentialsError": f"the AWS credentials are incomplete ({{error}}): {_AWS_ADVICE}",
    "ConfigParseError": "cannot read the AWS configuration: fix {path}",
    "ConfigNotFound": "cannot read the AWS configuration: fix {path}",
    "SSOError": "the AWS login has expired: run `aws sso login` (or `aws login`) and try again",
    "TokenRetrievalError": "the AWS login has expired: run `aws sso login` (or `aws login`) and try again",
    "LoginError": "the AWS login has expired: run `aws sso login` (or `aws login`) and try again",
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
    "mantle": "ANTHROPIC_BEDROCK_MANTLE_BASE_URL and AWS_REGION",
    "vertex": "ANTHROPIC_VERTEX_BASE_URL and CLOUD_ML_REGION",
}


def api_of(platform: str, name: str) -> Api:
    """The API of a model. Bedrock serves inference profiles (`us.anthropic.…`, an ARN) and models with a revision
    (`…-v1:0`) by its InvokeModel API, and bare names (`anthropic.claude-opus-5`) by its Messages API ("mantle"). If an
    address is set for the former, all models use it."""
    if platform == "bedrock":
        own_address = os.environ.get("ANTHROPIC_BEDROCK_BASE_URL")
        return "mantle" if _BARE_NAME.fullmatch(name) and not own_address else "bedrock"
    return "vertex" if platform == "vertex" else "anthropic"


def new_client(api: Api, http: httpx2.Client) -> CloudClient:
    """The SDK's client for a cloud. Raises ModelError for missing or wrong settings."""
    import httpx2

    # Both libraries warn about old versions of Python and about quotas.
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
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if not (region := region or boto3.Session().region_name):
        raise ModelError(
            "no AWS region is set: set AWS_REGION, for example to us-east-1, or one for your profile"
        )
    client = anthropic.AnthropicBedrockMantle if api == "mantle" else anthropic.AnthropicBedrock
    return client(aws_region=region, http_client=http, max_retries=0)


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
    """The exceptions of a cloud's libraries for missing or wrong credentials."""
    if api == "anthropic":
        return ()
    if api == "vertex":
        from google.auth.exceptions import GoogleAuthError

        return (GoogleAuthError, RuntimeError, OSError)
    from botocore.exceptions import BotoCoreError, ClientError

    return (BotoCoreError, ClientError, RuntimeError, OSError)  # OSError: a credential_process


def stream_errors(api: Api) -> tuple[type[Exception], ...]:
    """The exceptions for a malformed stream."""
    if api != "bedrock":
        return (ValueError,)
    from botocore.eventstream import ParserError
    from botocore.parsers import ResponseParserError

    return (ValueError, ParserError, ResponseParserError)


def no_credentials(api: Api, error: Exception) -> ModelError:
    """The ModelError for one of `library_errors`."""
    owner, advice = ("Google", _GOOGLE_ADVICE) if api == "vertex" else ("AWS", _AWS_ADVICE)
    classes = [base.__name__ for base in type(error).__mro__]
    if _UNREACHABLE & {*classes} or getattr(error, "retryable", False):
        return Retryable(f"cannot reach {owner} for credentials ({type(error).__name__})")
    values: dict[str, object] = {"profile": None, "path": None, **getattr(error, "kwargs", {})}
    values["error"] = brief(str(error.args[0] if error.args else ""))
    for name in classes:
        if name in _CREDENTIAL_ERRORS:
            return ModelError(_CREDENTIAL_ERRORS[name].format(**values))
    absent = "RuntimeError" in classes or "were not found" in str(error)
    cloud = "Google Cloud" if api == "vertex" else "AWS"
    sentence = f"no {cloud} credentials" if absent else f"cannot load {cloud} credentials ({classes[0]})"
    return ModelError(f"{sentence}: {advice}")


def status_and_message(
    api: Api, error: anthropic.APIStatusError, secrets: list[str]
) -> tuple[int, str, Mapping[str, str]]:
    """The effective HTTP status of an error, the server's message, and the headers of the response; {} for an error
    event in a stream."""
    body: Any = error.body
    if isinstance(body, list) and body:  # Google's response to a streamed request may be a list
        body = body[0]
    fields: Any = body if isinstance(body, dict) else {}
    fields = fields["error"] if isinstance(fields.get("error"), dict) else fields
    words = fields.get("message") or fields.get("Message")
    message = brief(words if isinstance(words, str) else error.api_message or error.message, secrets)
    headers = error.response.headers
    code = (
        headers.get("x-amzn-errortype") or fields.get("status") or fields.get("__type") or fields.get("type")
    )
    code = str(code or "").partition(":")[0].rpartition("#")[2]
    status = error.status_code
    if status < 400:
        return _STATUS_OF_CODE.get(code) or STATUS_OF.get(error.type or "", 500), message, {}
    if api in {"bedrock", "mantle"} and (status == 401 or _BAD_CREDENTIALS.search(code)):
        return (
            401,
            code or str(status),
            headers,
        )  # the message about a signature quotes the request including its token
    if api == "vertex" and status == 401:
        return 401, code or str(status), headers
    if status == 429 and "per day" in message:
        return 402, message, headers
    if api != "anthropic" and status == 400 and _NO_MODEL.search(message):
        return 404, message, headers
    return status, message, headers
