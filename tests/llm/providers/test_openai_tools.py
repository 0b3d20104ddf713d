"""Native tools and media through Chat Completions; tools, media and reasoning through OpenAI's Responses API."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from repoagent.errors import ModelError, UsageError
from repoagent.llm.complete import complete
from repoagent.llm.model import Message, Part, ReplyBlocks, Request, Retryable, Usage, Wishes
from repoagent.llm.providers.openai import OpenAIModel
from repoagent.llm.usage import Meter
from tests.llm.conftest import Start
from tests.llm.helpers import call, refused
from tests.llm.media.files import jpeg, media, pdf, png, showing
from tests.llm.providers.openai_server import USAGE, Server, chunk, chunks, status, text
from tests.llm.providers.streaming_server import Behaviour
from tests.llm.providers.test_anthropic_blocks import OFFERED, TOOLS

TAGS = 'I look.\n<read path="a b.py"/>\n<run>make | tail</run>\n'
SUMMARY = [{"type": "summary_text", "text": "hm"}]
THOUGHT = {"type": "reasoning", "id": "rs_1", "summary": SUMMARY, "encrypted_content": "b3BhcXVl"}
CONTENT = [{"type": "output_text", "text": "I look.", "annotations": []}]
SAID = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": CONTENT}


def thinker(server: Server, **wishes: Any) -> OpenAIModel:
    """A model at this server, which has the Responses API, too."""
    server.responds = True
    return OpenAIModel(server.endpoint("testing", "responses"), "gpt-6-test", Wishes(**wishes))


def piece(at: int, **function: str) -> dict[str, Any]:
    beginning = {"id": f"call_{at}", "type": "function"} if "name" in function else {}
    return {"index": at, **beginning, "function": function}


def called(*pieces: Mapping[str, Any], finish: str = "tool_calls") -> Behaviour:
    """A chat completion that calls tools, in pieces."""
    deltas: list[dict[str, Any]] = [{"content": "I look."}, *({"tool_calls": [each]} for each in pieces)]
    events = [chunk({"delta": delta, "finish_reason": None}) for delta in deltas]
    last = {**chunk({"delta": {}, "finish_reason": finish}), "usage": USAGE}
    return chunks(*events, last, "data: [DONE]\n\n")


CALLED = called(
    piece(0, name="read", arguments=""), piece(0, arguments='{"path": "a'), piece(1, name="run", arguments='{"body":'),
    piece(0, arguments=' b.py"}'), piece(1, arguments=' "make | tail"}'),
)  # fmt: skip


def response(*items: Mapping[str, Any], reason: str = "", failed: bool = False) -> Behaviour:
    """A response with these items, in events."""
    begun = {"model": "gpt-6-test-0101", "status": "in_progress"}
    events: list[dict[str, Any]] = [{"type": "response.created", "response": begun}]
    for at, item in enumerate(items):
        of = {"output_index": at}
        events.append({"type": "response.output_item.added", **of, "item": {"type": item["type"]}})
        for part in item.get("content", ()):
            for delta in (part["text"][:3], part["text"][3:]):
                events.append({"type": "response.output_text.delta", **of, "delta": delta})
        if "arguments" in item:
            events.append({"type": "response.function_call_arguments.delta", "delta": item["arguments"]})
        events.append({"type": "response.output_item.done", **of, "item": item})
    used = {"input_tokens": 100, "input_tokens_details": {"cached_tokens": 40}, "output_tokens": 20}
    kind = "failed" if failed else "incomplete" if reason else "completed"
    last: dict[str, Any] = {"status": kind, "usage": used, "model": "gpt-6-test-0101"}
    last |= {"incomplete_details": {"reason": reason}} if reason else {}
    last |= {"error": {"code": "server_error", "message": "it fell over"}} if failed else {}
    return chunks(*events, {"type": f"response.{kind}", "response": last})


def function(name: str, number: int, arguments: str) -> dict[str, Any]:
    ids = {"id": f"fc_{number}", "call_id": f"call_{number}"}
    return {"type": "function_call", **ids, "name": name, "arguments": arguments, "status": "completed"}


CALLS = (function("read", 0, '{"path": "a b.py"}'), function("run", 1, '{"body": "make | tail"}'))


def back(blocks: ReplyBlocks, *answers: str) -> Request:
    parts = [
        Part(f'<observation-ab kind="x">\nresult {answer}\n</observation-ab>', "observation", answers=answer)
        for answer in answers
    ]
    said = Message("assistant", (Part(TAGS),), blocks)
    return replace(OFFERED, messages=(*OFFERED.messages, said, Message("user", (*parts, Part("\n\nnews")))))


def test_calls_of_chat_completions(serve: Start) -> None:
    server = serve([CALLED, "ok", "ok"])
    model = OpenAIModel(server.endpoint(), "m")
    reply = call(model, OFFERED)
    assert (reply.text, reply.stop) == (TAGS, "end")
    assert reply.blocks is not None
    words = 'read(path="FILE") shows a file.'
    described = {"name": "read", "description": words, "parameters": TOOLS[0].parameters}
    assert server.requests[0].body["tools"][0] == {"type": "function", "function": described}
    call(model, back(reply.blocks, "call_0", "call_1"))
    _, _, said, *after = server.requests[1].body["messages"]
    assert said["content"] == "I look."
    made = [(one["id"], json.loads(one["function"]["arguments"])) for one in said["tool_calls"]]
    assert made == [("call_0", {"path": "a b.py"}), ("call_1", {"body": "make | tail"})]
    assert after == [
        {"role": "tool", "tool_call_id": "call_0", "content": "result call_0"},
        {"role": "tool", "tool_call_id": "call_1", "content": "result call_1"},
        {"role": "user", "content": "\n\nnews"},
    ]
    call(model, back(reply.blocks, "call_0"))  # one has no result
    _, _, said, after = server.requests[2].body["messages"]
    assert said == {"role": "assistant", "content": TAGS}
    assert after["role"] == "user" and "<observation-ab" in after["content"]


@pytest.mark.parametrize("responds", [False, True])
def test_an_image_of_a_result_follows_the_results(serve: Start, responds: bool) -> None:
    server = serve([response(*CALLS), response(SAID)] if responds else [CALLED, "ok"])
    model = thinker(server) if responds else OpenAIModel(server.endpoint(), "m")
    blocks = call(model, OFFERED).blocks
    assert blocks is not None
    request = back(blocks, "call_0", "call_1")
    *before, last = request.messages
    shown = replace(last.parts[0], media=media(png()))
    call(model, replace(request, messages=(*before, replace(last, parts=(shown, *last.parts[1:])))))
    body = server.requests[1].body
    last_said = body["input" if responds else "messages"][-1]
    assert last_said["role"] == "user"
    kinds = [part["type"] for part in last_said["content"]]
    assert kinds == (["input_image", "input_text"] if responds else ["image_url", "text"])


def test_calls_that_are_cut_or_broken(serve: Start) -> None:
    half = piece(0, name="run", arguments='{"body": "ma')
    model = OpenAIModel(serve([called(half, finish="length"), " More.", called(half)]).endpoint(), "m")
    assert complete(model, OFFERED, Meter()).text == "I look. More."
    assert "not valid JSON" in str(refused(model, Retryable, OFFERED))


def test_a_server_without_tools_says_so(serve: Start) -> None:
    """Without native tools, the prompt would name none: the user must change the setting."""
    rejections = {
        "m does not support tools": 400,
        "No endpoints found that support tool use. Learn more": 404,
    }
    for message, code in rejections.items():
        model = OpenAIModel(serve(status(code, message, param="tools")).endpoint(), "m")
        error = str(refused(model, request=OFFERED))
        assert message in error and 'protocol = "tags"' in error


def test_reasoning_goes_back(serve: Start) -> None:
    server = serve([response(THOUGHT, SAID, *CALLS), response(SAID)])
    model = thinker(server, effort="high")
    reply = call(model, OFFERED)
    assert (reply.text, reply.stop, reply.model) == (TAGS, "end", "testing/gpt-6-test-0101")
    assert reply.usage == Usage(60, 20, 40, 0)
    body = server.requests[0].body
    assert body["store"] is False and body["include"] == ["reasoning.encrypted_content"]
    assert body["reasoning"] == {"effort": "high"} and body["instructions"] == "You edit."
    assert body["tools"][1]["name"] == "run"
    assert body["input"] == [{"role": "user", "content": [{"type": "input_text", "text": "make it faster"}]}]
    assert reply.blocks is not None and reply.blocks.items == (THOUGHT, SAID, *CALLS)
    call(model, back(reply.blocks, "call_0", "call_1"))
    assert server.requests[1].body["input"][1:] == [
        THOUGHT, SAID, *CALLS,
        {"type": "function_call_output", "call_id": "call_0", "output": "result call_0"},
        {"type": "function_call_output", "call_id": "call_1", "output": "result call_1"},
        {"role": "user", "content": [{"type": "input_text", "text": "\n\nnews"}]},
    ]  # fmt: skip


@pytest.mark.parametrize("case", ["another model", "edited", "nothing encrypted"])
def test_reasoning_that_is_not_sent_back(serve: Start, case: str) -> None:
    thought = {**THOUGHT, "encrypted_content": None} if case == "nothing encrypted" else THOUGHT
    server = serve([response(thought, SAID, *CALLS), response(SAID)])
    found = call(thinker(server), OFFERED).blocks
    assert (found is None) == (case == "nothing encrypted")
    found = replace(found, spec="testing/other") if found and case == "another model" else found
    request = back(found or ReplyBlocks("", ()), "call_0", "call_1")
    if case == "edited":
        bare = tuple(replace(message, blocks=None) for message in request.messages)
        request = replace(request, messages=bare)
    call(thinker(server), request)
    _, said, after = server.requests[1].body["input"]
    assert said == {"role": "assistant", "content": TAGS}
    assert "<observation-ab" in after["content"][0]["text"]


def test_how_a_response_ends(serve: Start) -> None:
    stops = {"max_output_tokens": "length", "content_filter": "refusal", "": "end"}
    model = thinker(serve([response(SAID, reason=reason) for reason in stops]))
    for stop in stops.values():
        reply = call(model, OFFERED)
        assert (reply.stop, reply.text, reply.blocks) == (stop, "I look.", None)


def test_failed_responses_are_retryable(serve: Start) -> None:
    failures = [
        (response(SAID, failed=True), "it fell over"),
        (chunks(*response(SAID).events[:-1]), "was cut off"),
        (chunks({"type": "error", "code": "rate_limit_exceeded", "message": "slow down"}), "rate"),
        (status(529, "too many"), "overloaded"),
    ]
    model = thinker(serve([behaviour for behaviour, _ in failures]))
    for _, words in failures:
        assert words in str(refused(model, Retryable, OFFERED))


def test_a_server_without_responses_gets_chat_completions(serve: Start) -> None:
    server = serve(text("from chat"))
    model = thinker(server)
    server.responds = False
    reply = complete(model, OFFERED, Meter(), sleep=lambda seconds: None)
    assert reply.text == "from chat"
    assert server.paths == ["/v1/responses"]
    server = serve([status(404, "The model `gpt-6-test` does not exist", error="model_not_found")])
    assert "has no testing/gpt-6-test (The model" in str(refused(thinker(server), ModelError, OFFERED))
    assert len(server.requests) == 1


# Images and PDFs.


def test_the_parts_that_chat_completions_gets(serve: Start) -> None:
    photo, paper = media(jpeg(), "photo.jpg"), media(pdf(), "paper.pdf")
    server = serve(["a cat", "ok"])
    model = OpenAIModel(server.endpoint("testing", "pdf"), "m")
    assert call(model, showing(photo, paper)).text == "a cat"
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
    assert (head, b64decode(data)) == ("data:application/pdf;base64", paper.data)
    # without anything attached it stays a plain text, which every server takes
    assert server.requests[1].body["messages"][1]["content"] == "what is it?"


def test_a_pdf_is_not_sent_to_a_server_that_takes_none(serve: Start) -> None:
    server = serve("ok")
    error = str(refused(OpenAIModel(server.endpoint(), "m"), UsageError, showing(media(pdf(), "a.pdf"))))
    assert "does not accept PDFs over this protocol. Send the PDF's text (pdftotext" in error
    assert server.requests == []
