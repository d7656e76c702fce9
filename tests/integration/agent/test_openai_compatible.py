"""The chat client against a real HTTP server."""

from __future__ import annotations

import asyncio
import base64
import io
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from PIL import Image

from agent.errors import PolicyError, ReplyTimeout
from agent.models import OpenAICompatiblePolicy, chat_client
from agent.policy import ContextTurn
from sandbox.frame import Frame
from tests.support.requests import make_request
from tests.support.screen import make_frame

KEY = "sk-secret-0123"
Answer = Callable[[], web.StreamResponse]


class Endpoint:
    """A chat endpoint that gives scripted answers and keeps what it was sent; None never answers."""

    def __init__(self) -> None:
        self.answers: list[Answer | None] = []
        self.bodies: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.url = ""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.bodies.append(await request.json())
        self.keys.append(request.headers.get("Authorization"))
        answer = self.answers.pop(0)
        if answer is None:
            await asyncio.sleep(30)
            raise AssertionError("the client waited")
        return answer()


def said(text: str | None, finish_reason: str = "stop") -> Answer:
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": finish_reason}
    return lambda: web.json_response({"choices": [choice]})


def failed(status: int, message: str = "no", **headers: str) -> Answer:
    return lambda: web.json_response({"error": {"message": message}}, status=status, headers=headers)


@pytest.fixture
async def endpoint(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Endpoint]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("TEST_KEY", KEY)
    monkeypatch.setattr(chat_client, "FIRST_WAIT_S", 0.01)
    endpoint = Endpoint()
    app = web.Application()
    app.router.add_post("/v1/chat/completions", endpoint.handle)
    async with TestServer(app, handler_cancellation=True) as server:
        endpoint.url = str(server.make_url("/v1"))
        yield endpoint


@pytest.fixture
async def policy(endpoint: Endpoint) -> AsyncIterator[OpenAICompatiblePolicy]:
    policy = OpenAICompatiblePolicy(endpoint.url, "model-1", api_key_env="TEST_KEY", attempt_timeout_s=0.2)
    yield policy
    await policy.close()
    await policy.close()


async def test_a_reply_and_what_was_sent(endpoint: Endpoint, policy: OpenAICompatiblePolicy) -> None:
    endpoint.answers = [said("click 3 4")]
    frame = make_frame(0xFF0000, width=4, height=3)
    turns = (
        ContextTurn(index=0, frame=None, reply="first reply", feedback=""),
        ContextTurn(index=1, frame=frame, reply=None, feedback="That was outside the screen."),
    )
    reply = await policy.reply(make_request(turns=turns, seed=77))
    assert (reply.text, reply.truncated, reply.overflow, reply.tokens) == ("click 3 4", False, False, None)
    (body,) = endpoint.bodies
    assert endpoint.keys == [f"Bearer {KEY}"]
    assert {key: body[key] for key in ("model", "temperature", "max_tokens", "seed")} == {
        "model": "model-1",
        "temperature": 0.5,
        "max_tokens": 64,
        "seed": 77,
    }
    system, first, answer, second = body["messages"]
    assert system == {"role": "system", "content": "You operate a computer."}
    assert [part["text"] for part in first["content"]] == ["Task: Press Save.", "[dropped]"]
    assert answer == {"role": "assistant", "content": "first reply"}
    feedback, image = second["content"]
    assert feedback["text"] == "That was outside the screen."
    scheme, _, data = image["image_url"]["url"].partition(",")
    assert scheme == "data:image/png;base64"
    with Image.open(io.BytesIO(base64.b64decode(data))) as decoded:
        assert decoded.size == (4, 3)
        assert decoded.getpixel((0, 0)) == (255, 0, 0)


@pytest.mark.parametrize("status", [408, 429, 500, 503])
async def test_passing_trouble_is_tried_again(endpoint: Endpoint, policy: OpenAICompatiblePolicy, status: int) -> None:
    endpoint.answers = [failed(status), failed(status), said("done")]
    assert (await policy.reply(make_request())).text == "done"
    assert len(endpoint.bodies) == 3
    assert endpoint.bodies[0] == endpoint.bodies[2]


async def test_retry_after_is_honoured(
    endpoint: Endpoint, policy: OpenAICompatiblePolicy, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    real_sleep = asyncio.sleep

    async def sleep(seconds: float) -> None:
        waits.append(seconds)
        await real_sleep(0)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    endpoint.answers = [failed(429, **{"Retry-After": "3"}), failed(429, **{"Retry-After": "soon"}), said("done")]
    assert (await policy.reply(make_request(deadline_s=60))).text == "done"
    assert waits[0] == 3.0
    assert waits[1] < 1.0


async def test_a_stuck_attempt_is_made_again(endpoint: Endpoint, policy: OpenAICompatiblePolicy) -> None:
    endpoint.answers = [None, said("done")]
    assert (await policy.reply(make_request())).text == "done"


async def test_no_answer_within_the_deadline(endpoint: Endpoint, policy: OpenAICompatiblePolicy) -> None:
    endpoint.answers = [failed(429, "slow down")] * 100
    with pytest.raises(PolicyError, match=r"no answer within 0\.3 s.*429: slow down") as caught:
        await policy.reply(make_request(deadline_s=0.3))
    assert not isinstance(caught.value, ReplyTimeout), "a refusal is the endpoint's failure, not slowness"
    assert 1 < len(endpoint.bodies) < 100


async def test_a_slow_reply_is_told_apart(endpoint: Endpoint) -> None:
    policy = OpenAICompatiblePolicy(endpoint.url, "model-1")
    endpoint.answers = [None]
    with pytest.raises(ReplyTimeout, match="still answering"):
        await policy.reply(make_request(deadline_s=0.2))
    assert endpoint.keys == [None]
    await policy.close()


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (failed(401, f"bad key {KEY}"), r"refused the credentials \(HTTP 401: bad key \[key\]\): check the key"),
        (failed(404, "The model `model-1` does not exist"), "does not serve the model 'model-1'"),
        (lambda: web.Response(status=404, text="Not Found"), "base_url usually ends in /v1"),
        (failed(400, "temperature must be positive"), "refused the request .*temperature must be positive"),
        (lambda: web.Response(text="<html>hello</html>"), r"not with a chat completion.*<html>hello"),
        (lambda: web.json_response({"choices": []}), "not with a chat completion"),
        (lambda: web.json_response({"choices": [{"message": {"content": 3}}]}), "message.content is not text"),
    ],
)
async def test_what_no_retry_would_change_fails_at_once(
    endpoint: Endpoint, policy: OpenAICompatiblePolicy, answer: Answer, message: str
) -> None:
    endpoint.answers = [answer]
    with pytest.raises(PolicyError, match=message):
        await policy.reply(make_request())
    assert len(endpoint.bodies) == 1


async def test_nobody_listens() -> None:
    policy = OpenAICompatiblePolicy("http://127.0.0.1:9/v1", "model-1")
    with pytest.raises(PolicyError, match="no connection"):
        await policy.reply(make_request(deadline_s=0.2))
    await policy.close()


@pytest.mark.parametrize(
    "message",
    [
        "This model's maximum context length is 4096 tokens.",
        "The decoder prompt (length 900) is longer than the maximum model length of 512.",
        "context_length_exceeded",
    ],
)
async def test_overflow_is_an_answer(endpoint: Endpoint, policy: OpenAICompatiblePolicy, message: str) -> None:
    endpoint.answers = [failed(400, message)]
    assert (await policy.reply(make_request())).overflow


async def test_truncated_empty_and_split_texts(endpoint: Endpoint, policy: OpenAICompatiblePolicy) -> None:
    parts = [{"type": "text", "text": "cli"}, {"type": "text", "text": "ck"}]
    split = {"choices": [{"message": {"content": parts}}]}
    endpoint.answers = [said("clic", "length"), said(None), lambda: web.json_response(split)]
    assert (await policy.reply(make_request())).truncated
    assert (await policy.reply(make_request())).text == ""
    assert (await policy.reply(make_request())).text == "click"


async def test_fields_can_be_replaced_and_left_out(endpoint: Endpoint) -> None:
    endpoint.answers = [said("done")]
    policy = OpenAICompatiblePolicy(
        endpoint.url, "model-1", extra_body={"max_tokens": None, "max_completion_tokens": 5, "seed": None}
    )
    await policy.reply(make_request())
    assert endpoint.bodies[0]["max_completion_tokens"] == 5
    assert not {"max_tokens", "seed"} & set(endpoint.bodies[0])
    await policy.close()


async def test_the_key_is_in_no_log_and_no_message(
    endpoint: Endpoint, policy: OpenAICompatiblePolicy, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    endpoint.answers = [failed(500, f"key {KEY} broke us"), failed(403, f"key {KEY} is bad")]
    with pytest.raises(PolicyError) as caught:
        await policy.reply(make_request())
    assert "broke us" in caplog.text
    assert KEY not in caplog.text
    assert KEY not in str(caught.value)


async def test_each_image_is_encoded_once(
    endpoint: Endpoint, policy: OpenAICompatiblePolicy, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoded: list[str] = []
    real_png = Frame.png

    def png(frame: Frame) -> bytes:
        encoded.append(frame.sha256)
        return real_png(frame)

    monkeypatch.setattr(Frame, "png", png)
    endpoint.answers = [said("done"), said("done")]
    await policy.reply(make_request())
    await policy.reply(make_request())
    assert len(encoded) == 1


def test_bad_settings_are_refused_before_any_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TEST_KEY", raising=False)
    with pytest.raises(ValueError, match="TEST_KEY holds no key"):
        OpenAICompatiblePolicy("http://localhost/v1", "m", api_key_env="TEST_KEY")
    with pytest.raises(ValueError, match="http://"):
        OpenAICompatiblePolicy("localhost:8000/v1", "m")
