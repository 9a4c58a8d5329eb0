"""Workers AI as a ModelGateway: one good vector a text, or one of three named errors."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from adapters.cloudflare.bindings import BindingError
from adapters.cloudflare.workers_ai import BGE_M3, WorkersAIGateway
from titen_core.errors import ModelAnswerInvalid, ModelError, ModelRejected, ModelUnavailable
from titen_core.limits import EMBED_BATCH_TEXTS
from titen_core.protocols import Vector


class Models:
    """Answers what it was made with, raises it, or never answers."""

    def __init__(self, answer: Any = None, *, hangs: bool = False) -> None:
        self.answer = answer
        self.hangs = hangs
        self.asked: list[tuple[str, Mapping[str, Any]]] = []

    async def run(self, model: str, inputs: Mapping[str, Any]) -> Any:
        self.asked.append((model, inputs))
        if self.hangs:
            await asyncio.Event().wait()
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def embed(models: Models, *texts: str, deadline_ms: int = 1_000) -> list[Vector]:
    gateway = WorkersAIGateway(models, dimensions=2)
    return asyncio.run(gateway.embed(texts, purpose="memory", deadline_ms=deadline_ms))


def test_vectors_come_in_order_and_normalised() -> None:
    models = Models({"shape": [2, 2], "data": [[3, 4], [0.0, 2.0]]})
    assert [vector.tolist() for vector in embed(models, "a", "b")] == [pytest.approx([0.6, 0.8]), [0.0, 1.0]]
    assert models.asked == [(BGE_M3, {"text": ["a", "b"]})]


def test_the_fingerprint_needs_no_probe() -> None:
    models = Models()
    found = asyncio.run(WorkersAIGateway(models).fingerprint())
    assert str(found) == "workers-ai:@cf/baai/bge-m3:1024:cosine:l2"
    assert models.asked == []


def test_no_texts_need_no_call_and_too_many_are_refused() -> None:
    models = Models()
    assert embed(models) == []
    with pytest.raises(ModelRejected):
        embed(models, *["x"] * (EMBED_BATCH_TEXTS + 1))
    assert models.asked == []


@pytest.mark.parametrize(
    "answer",
    [
        None,
        "text",
        {},
        {"data": None},
        {"data": []},
        {"data": [[1, 0], [0, 1]]},
        {"data": ["AAAA"]},
        {"data": [[1, None]]},
        {"data": [[1, "2"]]},
        {"data": [[True, 1]]},
        {"data": [[1, 2, 3]]},
        {"data": [[]]},
        {"data": [[0, 0]]},
        {"data": [[1e308, 1e308]]},
    ],
)
def test_anything_else_is_an_invalid_answer(answer: Any) -> None:
    with pytest.raises(ModelAnswerInvalid):
        embed(Models(answer), "a")


def test_a_model_that_hangs_is_left_at_the_deadline() -> None:
    with pytest.raises(ModelUnavailable, match="30 ms"):
        embed(Models(hangs=True), "a", deadline_ms=30)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("InferenceUpstreamError: 3040: AiError: Capacity temporarily exceeded, please try again.", ModelUnavailable),
        ("InferenceUpstreamError: 3036: you have used up your daily free allocation", ModelUnavailable),
        ("InferenceUpstreamError: 5006: AiError: Error: oneOf at '/' not met", ModelRejected),
        ("InferenceUpstreamError: 3030: AiError: input is too long", ModelRejected),
        ("Error: internal error; reference = abc", ModelUnavailable),
    ],
)
def test_what_blames_the_text_is_told_from_what_blames_the_time(text: str, kind: type[ModelError]) -> None:
    with pytest.raises(kind) as raised:
        embed(Models(BindingError(text)), "a")
    assert text not in str(raised.value)


def test_a_model_of_other_dimensions_is_refused_and_named_until_it_is_itself_again() -> None:
    models = Models({"data": [[1, 2, 3]]})
    gateway = WorkersAIGateway(models, dimensions=2)
    for _ in range(2):
        with pytest.raises(ModelAnswerInvalid, match="other dimensions than 2"):
            asyncio.run(gateway.embed(["a"], purpose="memory", deadline_ms=1_000))
    assert asyncio.run(gateway.fingerprint()).dimensions == 3
    models.answer = {"data": [[1, 2]]}
    assert asyncio.run(gateway.fingerprint()).dimensions == 2
    asked = len(models.asked)
    assert asyncio.run(gateway.fingerprint()).dimensions == 2
    assert len(models.asked) == asked
    assert len(asyncio.run(gateway.embed(["a"], purpose="memory", deadline_ms=1_000))) == 1
