"""Images and PDFs as they arrive at a server, and the errors for unsupported ones."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable

from repoagent.errors import UsageError
from repoagent.llm.providers.anthropic import AnthropicModel
from repoagent.llm.providers.openai import OpenAIModel
from tests.llm.helpers import call, refused
from tests.llm.media.files import jpeg, media, pdf, png, showing
from tests.llm.providers import openai_server
from tests.llm.providers.messages_server import Server, error_event, status
from tests.llm.providers.streaming_server import Script

Start = Callable[[Script], Server]
Serve = Callable[..., openai_server.Server]
CLAUDE = AnthropicModel("claude-sonnet-5-5")
SHOT, PAPER = media(png(), "shot.png"), media(pdf(), "paper.pdf")


def test_unsupported_media_are_not_sent_to_claude(server_with: Start) -> None:
    server = server_with("ok")
    error = refused(CLAUDE, UsageError, showing(media(png(9000), "big.png")))
    assert "big.png is 9000 x 20 pixels" in str(error) and server.requests == []


def test_the_blocks_that_claude_gets(server_with: Start) -> None:
    server = server_with("a cat")
    assert call(CLAUDE, showing(SHOT, PAPER, words="what is it?", cache=True)).text == "a cat"
    label, image, second, document, words = server.requests[0].body["messages"][0]["content"]
    assert (label["text"], second["text"]) == ("shot.png:\n", "paper.pdf:\n")
    assert words == {"type": "text", "text": "what is it?"}
    assert (image["type"], image["source"]["type"]) == ("image", "base64")
    assert image["source"]["media_type"] == "image/png"
    assert b64decode(image["source"]["data"], validate=True) == SHOT.data
    assert (document["type"], document["title"]) == ("document", "paper.pdf")
    assert document["source"]["media_type"] == "application/pdf"
    assert b64decode(document["source"]["data"]) == PAPER.data
    kept = {"type": "ephemeral"}  # the breakpoint comes after what is attached, not before
    assert image["cache_control"] == document["cache_control"] == kept
    assert "cache_control" not in label and "cache_control" not in words


def test_rejections_of_claude_mention_the_attachment(server_with: Start) -> None:
    big = "messages.0.content.1.image.source.base64: image exceeds 5 MB maximum"
    attached = "The attachment was shot.png (image/png, 30 x 20 pixels, "
    protected = "The PDF is password protected."
    rejections = [
        (status(400, big), f"does not accept the request (400: {big}). {attached}"),
        (status(400, "Could not process image"), ": make it smaller, convert it, or leave it out"),
        (status(413, "Request exceeds the maximum size"), attached),
        (error_event(kind="invalid_request_error", message=protected), "The attachment was"),
    ]
    server_with([answer for answer, _ in rejections])
    for _, words in rejections:
        error = str(refused(CLAUDE, request=showing(SHOT, PAPER)))
        assert words in error and len(error) < 400


def openai(server: openai_server.Server, *traits: str) -> OpenAIModel:
    return OpenAIModel(server.endpoint("testing", *traits), "some-model")


def test_the_parts_that_chat_completions_gets(serve: Serve) -> None:
    photo = media(jpeg(), "photo.jpg")
    server = serve(["a cat", "ok"])
    model = openai(server, "pdf")
    assert call(model, showing(photo, PAPER)).text == "a cat"
    call(model, showing())
    system, user = server.requests[0].body["messages"]
    assert system == {"role": "system", "content": "You look."}
    label, image, second, file, words = user["content"]
    texts = ["photo.jpg:\n", "paper.pdf:\n", "what is it?"]
    assert [label, second, words] == [{"type": "text", "text": said} for said in texts]
    head, _, data = image["image_url"]["url"].partition(",")
    assert (image["type"], head, b64decode(data)) == ("image_url", "data:image/jpeg;base64", photo.data)
    assert (file["type"], file["file"]["filename"]) == ("file", "paper.pdf")
    head, _, data = file["file"]["file_data"].partition(",")
    assert (head, b64decode(data)) == ("data:application/pdf;base64", PAPER.data)
    # without anything attached it stays a plain text, which every server takes
    assert server.requests[1].body["messages"][1]["content"] == "what is it?"


def test_a_pdf_is_not_sent_to_a_server_that_takes_none(serve: Serve) -> None:
    server = serve("ok")
    error = str(refused(openai(server), UsageError, showing(PAPER)))
    assert "does not accept PDFs over this protocol. Send the PDF's text (pdftotext" in error
    assert server.requests == []
