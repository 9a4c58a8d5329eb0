"""The chat adapters: what is sent, what a refusal means, and that a deadline holds."""

import asyncio
import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from adapters.cloudflare.bindings import BindingError
from adapters.cloudflare.workers_ai_chat import WorkersAIChat
from adapters.openai.chat import OpenAIChat
from tests.runtimes.chat_server import USAGE, ChatServer
from titen_core.errors import ModelAnswerInvalid, ModelError, ModelRejected, ModelUnavailable
from titen_core.protocols import ChatAnswer, ChatModel, ChatUsage

SCHEMA = {"type": "object"}
TOLD = ChatUsage(USAGE["prompt_tokens"], USAGE["completion_tokens"])


@pytest.fixture
def server() -> Iterator[ChatServer]:
    started = ChatServer()
    yield started
    started.close()


def ask(model: ChatModel, times: int = 1, deadline_ms: int = 5_000) -> ChatAnswer:
    async def run() -> ChatAnswer:
        try:
            for _ in range(times):
                answer = await model.complete(
                    instructions="Rules", question="What?", schema=SCHEMA, deadline_ms=deadline_ms
                )
            return answer
        finally:
            await model.close()

    return asyncio.run(run())


def test_rules_question_and_schema_are_sent(server: ChatServer) -> None:
    server.say("Hello")
    assert ask(OpenAIChat(server.base_url, "small", "key")) == ChatAnswer("Hello", TOLD)
    (request,) = server.requests
    assert request["model"] == "small"
    assert [message["content"] for message in request["messages"]] == ["Rules", "What?"]
    assert request["response_format"]["json_schema"]["schema"] == SCHEMA


def test_a_server_without_structured_output_is_asked_for_it_once(server: ChatServer) -> None:
    server.without_structure("Hello")
    assert ask(OpenAIChat(server.base_url, "small"), times=2).text == "Hello"
    assert ["response_format" in request for request in server.requests] == [True, False, False]


@pytest.mark.parametrize(
    ("status", "kind"), [(400, ModelRejected), (401, ModelUnavailable), (404, ModelRejected), (500, ModelUnavailable)]
)
def test_a_status_has_a_meaning(server: ChatServer, status: int, kind: type[ModelError]) -> None:
    server.fail(status)
    with pytest.raises(kind):
        ask(OpenAIChat(server.base_url, "small"))


def test_a_busy_server_says_when_to_come_back(server: ChatServer) -> None:
    server.fail(429, Retry_After="7")
    with pytest.raises(ModelUnavailable) as refused:
        ask(OpenAIChat(server.base_url, "small"))
    assert refused.value.retry_after_ms == 7_000


def test_a_slow_server_is_not_waited_for(server: ChatServer) -> None:
    server.stall(1)
    with pytest.raises(ModelUnavailable, match="50 ms"):
        ask(OpenAIChat(server.base_url, "small"), deadline_ms=50)


def test_nobody_there_is_unavailable_and_names_the_setting() -> None:
    with pytest.raises(ModelUnavailable, match="TITEN_CHAT_BASE_URL"):
        ask(OpenAIChat("http://127.0.0.1:9/v1", "small"))


def test_a_usage_that_is_none_is_left_out(server: ChatServer) -> None:
    server.send(json.dumps({"choices": [{"message": {"content": "x"}}], "usage": {"prompt_tokens": "many"}}).encode())
    assert ask(OpenAIChat(server.base_url, "small")) == ChatAnswer("x", None)


@pytest.mark.parametrize("url", ["", "ftp://x", "http://", "not a url"])
def test_a_url_that_cannot_be_right_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="TITEN_CHAT_BASE_URL"):
        OpenAIChat(url, "small")


class Models:
    """The binding, saying what it is told to; errors are raised, and `structured` only with a schema."""

    def __init__(self, answer: Any, structured: Any = None) -> None:
        self.answer, self.structured = answer, structured
        self.inputs: list[Mapping[str, Any]] = []

    async def run(self, model: str, inputs: Mapping[str, Any]) -> Any:
        self.inputs.append(inputs)
        answer = self.structured if self.structured is not None and "response_format" in inputs else self.answer
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ({"response": "Hello"}, "Hello"),
        ({"response": {"memories": []}}, '{"memories": []}'),
        ({"choices": [{"message": {"content": "Hello"}}]}, "Hello"),
    ],
)
def test_workers_ai_answers_in_several_forms(answer: Any, text: str) -> None:
    assert ask(WorkersAIChat(Models(answer), "@cf/x")) == ChatAnswer(text)


def test_workers_ai_without_json_mode_is_asked_for_it_once() -> None:
    models = Models({"response": "Hello"}, BindingError("5025: This model doesn't support JSON Schema."))
    assert ask(WorkersAIChat(models, "@cf/x"), times=2).text == "Hello"
    assert ["response_format" in inputs for inputs in models.inputs] == [True, False, False]


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (BindingError("3040: Capacity temporarily exceeded"), ModelUnavailable),
        (BindingError("5007: No such model"), ModelRejected),
        ({"response": None}, ModelAnswerInvalid),
        ({}, ModelAnswerInvalid),
        (None, ModelAnswerInvalid),
    ],
)
def test_workers_ai_failures_are_named(answer: Any, kind: type[ModelError]) -> None:
    with pytest.raises(kind):
        ask(WorkersAIChat(Models(answer), "@cf/x"))
