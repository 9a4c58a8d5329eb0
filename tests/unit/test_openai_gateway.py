"""`OpenAIGateway` against a real server over real HTTP, one wire variation a test."""

import asyncio
import json
import math
import socket
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from email.utils import formatdate
from typing import Any, Literal, TypeVar

import pytest

from adapters.openai.answers import RETRY_AFTER_MAX_MS, retry_after_ms, vectors_of
from adapters.openai.gateway import OpenAIGateway
from adapters.vectors import normalised
from tests.runtimes.embedding_server import EmbeddingServer
from titen_core import __version__
from titen_core.errors import ModelAnswerInvalid, ModelError, ModelRejected, ModelUnavailable
from titen_core.models import Fingerprint
from titen_core.protocols import ModelGateway, Vector

T = TypeVar("T")

TEXTS = ("kopi pagi", "kereta ke Yogyakarta", "the quarterly budget")
KEY = "sk-very-secret-key"


@pytest.fixture(scope="module")
def running() -> Iterator[EmbeddingServer]:
    with EmbeddingServer() as server:
        yield server


@pytest.fixture
def server(running: EmbeddingServer) -> Iterator[EmbeddingServer]:
    running.clear()
    running.forget_requests()
    yield running
    running.clear()


def with_gateway(
    use: Callable[[OpenAIGateway], Awaitable[T]],
    base_url: str,
    model: str = EmbeddingServer.model,
    **how: Any,
) -> T:
    async def run() -> T:
        gateway = OpenAIGateway(base_url, model, **how)
        try:
            return await use(gateway)
        finally:
            await gateway.close()

    return asyncio.run(run())


def embed(
    server: EmbeddingServer,
    texts: Sequence[str] = TEXTS,
    *,
    purpose: Literal["memory", "query"] = "memory",
    deadline_ms: int = 5_000,
    **how: Any,
) -> list[Vector]:
    return with_gateway(
        lambda gateway: gateway.embed(texts, purpose=purpose, deadline_ms=deadline_ms), server.base_url, **how
    )


def expected(server: EmbeddingServer, texts: Sequence[str] = TEXTS) -> list[Vector]:
    return [normalised(server.vector(text)) for text in texts]


def invalid(server: EmbeddingServer, mode: str, **how: Any) -> ModelAnswerInvalid:
    server.fail(mode, **how)
    with pytest.raises(ModelAnswerInvalid) as caught:
        embed(server)
    return caught.value


def refused(server: EmbeddingServer, kind: type[ModelError], **how: Any) -> ModelError:
    """The error a status raises; its message never holds the key or a text."""
    server.fail("status", **how)
    with pytest.raises(kind) as caught:
        embed(server, api_key=KEY)
    assert type(caught.value) is kind
    assert KEY not in str(caught.value)
    assert not any(text in str(caught.value) for text in TEXTS)
    return caught.value


# What is sent.


def test_it_is_a_model_gateway() -> None:
    gateway: ModelGateway = OpenAIGateway("http://127.0.0.1:1/v1", "m")
    assert isinstance(gateway, OpenAIGateway)


def test_one_normalised_float32_vector_per_text(server: EmbeddingServer) -> None:
    vectors = embed(server)
    assert vectors == expected(server)
    assert {vector.typecode for vector in vectors} == {"f"}
    assert all(math.isclose(math.fsum(x * x for x in vector), 1.0, rel_tol=1e-6) for vector in vectors)


def test_the_request_says_no_stream_and_float_and_never_dimensions(server: EmbeddingServer) -> None:
    embed(server, expected_dimensions=server.dimensions)
    payload = server.requests[-1].payload
    assert payload == {
        "model": server.model,
        "input": list(TEXTS),
        "stream": False,
        "encoding_format": "float",
    }


def test_the_key_and_the_user_agent_are_headers(server: EmbeddingServer) -> None:
    embed(server, api_key=f" {KEY}\n")
    headers = server.requests[-1].headers
    assert headers["authorization"] == f"Bearer {KEY}"
    assert headers["user-agent"] == f"titen/{__version__}"


def test_without_a_key_no_authorization_is_sent(server: EmbeddingServer) -> None:
    embed(server)
    assert "authorization" not in server.requests[-1].headers


def test_queries_and_memories_are_sent_alike(server: EmbeddingServer) -> None:
    assert embed(server, ["kopi"], purpose="query") == embed(server, ["kopi"], purpose="memory")


def test_no_texts_need_no_call(server: EmbeddingServer) -> None:
    assert embed(server, []) == []
    assert server.request_count == 0


def test_more_texts_than_a_call_takes_are_rejected_unsent(server: EmbeddingServer) -> None:
    with pytest.raises(ModelRejected):
        embed(server, ["x"] * 33)
    assert server.request_count == 0


def test_a_lone_surrogate_does_not_break_the_call(server: EmbeddingServer) -> None:
    assert len(embed(server, ["kopi \ud800 pagi"])) == 1


@pytest.mark.parametrize("ending", ["", "/", "/embeddings"])
def test_the_base_url_with_and_without_its_last_slash(server: EmbeddingServer, ending: str) -> None:
    vectors = with_gateway(
        lambda gateway: gateway.embed(["a"], purpose="memory", deadline_ms=5_000), server.base_url + ending
    )
    assert len(vectors) == 1


@pytest.mark.parametrize("ending", ["", "/"])
def test_a_base_url_without_a_path_gets_v1(server: EmbeddingServer, ending: str) -> None:
    root = server.base_url.removesuffix("/v1") + ending
    with_gateway(lambda gateway: gateway.embed(["a"], purpose="memory", deadline_ms=5_000), root)
    assert server.requests[-1].path == "/v1/embeddings"


@pytest.mark.parametrize("base_url", ["", "localhost:11434", "ftp://host/v1", "http://", "http://host:port/v1"])
def test_a_base_url_that_cannot_be_right(base_url: str) -> None:
    with pytest.raises(ValueError, match="TITEN_EMBED_BASE_URL"):
        OpenAIGateway(base_url, "m")


@pytest.mark.parametrize("key", ["two\nlines", "kün"])
def test_a_key_that_no_header_can_carry_is_refused_unquoted(key: str) -> None:
    with pytest.raises(ValueError, match="TITEN_EMBED_API_KEY") as caught:
        OpenAIGateway("http://127.0.0.1/v1", "m", key)
    assert key not in str(caught.value)


def test_a_model_without_a_name_is_refused() -> None:
    with pytest.raises(ValueError, match="TITEN_EMBED_MODEL"):
        OpenAIGateway("http://127.0.0.1/v1", " ")


def test_a_proxy_of_the_environment_is_not_used(server: EmbeddingServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    assert len(embed(server)) == 3


# Answers that differ but are right.


def test_shuffled_items_are_put_in_order(server: EmbeddingServer) -> None:
    server.fail("shuffled")
    assert embed(server) == expected(server)


def test_without_any_index_the_given_order_holds(server: EmbeddingServer) -> None:
    server.fail("no_index")
    assert embed(server) == expected(server)


def test_base64_is_decoded(server: EmbeddingServer) -> None:
    server.fail("base64")
    assert embed(server) == expected(server)


def test_integers_are_numbers(server: EmbeddingServer) -> None:
    server.fail("integers")
    assert list(embed(server)[0]) == [1.0] + [0.0] * (server.dimensions - 1)


# Answers that cannot be used.


@pytest.mark.parametrize("count", [1, -1])
def test_a_wrong_count_is_invalid(server: EmbeddingServer, count: int) -> None:
    assert "for 3 texts" in str(invalid(server, "wrong_count", count=count))


@pytest.mark.parametrize(
    "mode",
    [
        "duplicate_index",
        "partial_index",
        "nan",
        "infinity",
        "null",
        "text",
        "zero",
        "not_json",
        "without_data",
    ],
)
def test_an_unusable_answer_is_invalid(server: EmbeddingServer, mode: str) -> None:
    invalid(server, mode)


def test_differing_dimensions_in_one_answer_are_invalid(server: EmbeddingServer) -> None:
    invalid(server, "dimensions", count=32)


def test_other_dimensions_than_expected_are_invalid(server: EmbeddingServer) -> None:
    with pytest.raises(ModelAnswerInvalid, match="expects 1024"):
        embed(server, expected_dimensions=1024)


def test_an_oversize_answer_is_invalid(server: EmbeddingServer) -> None:
    server.fail("oversize", count=100_000)
    with pytest.raises(ModelAnswerInvalid, match="over 50000 bytes"):
        embed(server, answer_bytes_max=50_000)


@pytest.mark.parametrize(
    "embedding",
    [
        "[]",
        "{}",
        "[true]",
        "[[1.0]]",
        "[1e400]",
        f"[{10**400}]",
        "[1e200, 1e200]",
        "[1.3e154, 1.3e154]",
        "[1e-200]",
        '""',
        '"AAAA"',
        '"*"',
        '"é"',
        '"AADAfw=="',
    ],
)
def test_an_embedding_that_is_no_vector_is_invalid(embedding: str) -> None:
    body = f'{{"data": [{{"index": 0, "embedding": {embedding}}}]}}'.encode()
    with pytest.raises(ModelAnswerInvalid):
        vectors_of(body, 1)


@pytest.mark.parametrize("index", ["1", "-1", '"0"', "0.0", "true", "99999999999999999999"])
def test_an_index_that_names_no_text_is_invalid(index: str) -> None:
    with pytest.raises(ModelAnswerInvalid):
        vectors_of(f'{{"data": [{{"index": {index}, "embedding": [1.0]}}]}}'.encode(), 1)


@pytest.mark.parametrize("body", [b"[]", b'"x"', b"null", b'{"data": {}}', b'{"data": [1]}', b"\xff", b"[" * 99_999])
def test_a_body_of_another_shape_is_invalid(body: bytes) -> None:
    with pytest.raises(ModelAnswerInvalid):
        vectors_of(body, 1)


# Refusals.


@pytest.mark.parametrize("status", [400, 413, 422, 500])
def test_a_refusal_that_may_be_one_text_is_rejected(server: EmbeddingServer, status: int) -> None:
    refused(server, ModelRejected, status=status)


@pytest.mark.parametrize("status", [401, 403, 404, 405, 410])
def test_a_wrong_setting_says_what_to_check(server: EmbeddingServer, status: int) -> None:
    message = str(refused(server, ModelUnavailable, status=status))
    assert "check the base URL, the model name and the API key" in message


@pytest.mark.parametrize("status", [408, 429, 502, 503, 504, 529])
def test_busy_or_down_is_unavailable(server: EmbeddingServer, status: int) -> None:
    error = refused(server, ModelUnavailable, status=status)
    assert isinstance(error, ModelUnavailable)
    assert error.retry_after_ms is None


def test_retry_after_in_seconds(server: EmbeddingServer) -> None:
    error = refused(server, ModelUnavailable, status=429, retry_after="7")
    assert isinstance(error, ModelUnavailable)
    assert error.retry_after_ms == 7_000


def test_retry_after_as_a_date(server: EmbeddingServer) -> None:
    error = refused(server, ModelUnavailable, status=503, retry_after_date_s=90)
    assert isinstance(error, ModelUnavailable)
    assert error.retry_after_ms is not None
    assert 0 < error.retry_after_ms <= 90_000


@pytest.mark.parametrize(
    ("value", "wait_ms"),
    [
        (None, None),
        ("0", 0),
        ("1.5", 1_500),
        ("-3", None),
        ("soon", None),
        ("", None),
        ("nan", None),
        ("inf", None),
        ("99999999999", RETRY_AFTER_MAX_MS),
        (formatdate(1_000_030, usegmt=True), 30_000),
        (formatdate(999_000, usegmt=True), None),
        ("Mon, 99 Foo 2026 00:00:00 GMT", None),
        (formatdate(9_000_000, usegmt=True), RETRY_AFTER_MAX_MS),
    ],
)
def test_retry_after_is_bounded_and_garbage_is_ignored(value: str | None, wait_ms: int | None) -> None:
    assert retry_after_ms(value, now_s=1_000_000) == wait_ms


def test_one_bad_text_is_a_rejection_and_the_others_pass(server: EmbeddingServer) -> None:
    server.fail("fail_on_marker", marker="kereta")
    with pytest.raises(ModelRejected):
        embed(server)
    assert len(embed(server, [TEXTS[0], TEXTS[2]])) == 2


def test_too_many_inputs_are_a_rejection(server: EmbeddingServer) -> None:
    server.fail("max_inputs", count=2)
    with pytest.raises(ModelRejected):
        embed(server)
    assert len(embed(server, TEXTS[:2])) == 2


def test_a_redirect_is_not_followed(server: EmbeddingServer) -> None:
    server.fail("redirect", times=1)
    with pytest.raises(ModelUnavailable, match="redirects"):
        embed(server)
    assert server.request_count == 1


# Connections and time.


def test_nobody_listens() -> None:
    with socket.socket() as unheard:
        unheard.bind(("127.0.0.1", 0))
        with pytest.raises(ModelUnavailable, match="TITEN_EMBED_BASE_URL"):
            with_gateway(
                lambda gateway: gateway.embed(["a"], purpose="memory", deadline_ms=5_000),
                f"http://127.0.0.1:{unheard.getsockname()[1]}/v1",
            )


@pytest.mark.parametrize("mode", ["drop", "truncated", "cut_off"])
def test_a_broken_off_answer_is_unavailable(server: EmbeddingServer, mode: str) -> None:
    server.fail(mode)
    with pytest.raises(ModelUnavailable):
        embed(server)


@pytest.mark.parametrize("mode", ["hang", "dribble", "delay"])
def test_the_deadline_covers_headers_and_body(server: EmbeddingServer, mode: str) -> None:
    server.fail(mode, ms=20 if mode == "dribble" else 60_000)
    with pytest.raises(ModelUnavailable, match="within 150 ms"):
        embed(server, deadline_ms=150)


def test_a_server_that_never_accepts_meets_the_deadline() -> None:
    """The system completes the connection, nobody ever takes it."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(1)
        with pytest.raises(ModelUnavailable, match="within 150 ms"):
            with_gateway(
                lambda gateway: gateway.embed(["a"], purpose="memory", deadline_ms=150),
                f"http://127.0.0.1:{silent.getsockname()[1]}/v1",
            )


def test_a_gateway_recovers_with_the_endpoint(server: EmbeddingServer) -> None:
    async def use(gateway: OpenAIGateway) -> list[Vector]:
        server.fail("truncated", times=1)
        server.fail("hang", times=1)
        for _ in range(2):
            with pytest.raises(ModelUnavailable):
                await gateway.embed(TEXTS, purpose="memory", deadline_ms=2_000)
        return await gateway.embed(TEXTS, purpose="memory", deadline_ms=60_000)

    assert with_gateway(use, server.base_url) == expected(server)


def test_a_cancelled_call_is_cancelled_and_others_go_on(server: EmbeddingServer) -> None:
    async def use(gateway: OpenAIGateway) -> list[Vector]:
        server.fail("hang", times=1)
        hanging = asyncio.create_task(gateway.embed(TEXTS, purpose="memory", deadline_ms=60_000))
        await asyncio.to_thread(server.wait_for_requests, 1)
        hanging.cancel()
        with pytest.raises(asyncio.CancelledError):
            await hanging
        return await gateway.embed(TEXTS, purpose="memory", deadline_ms=5_000)

    assert with_gateway(use, server.base_url) == expected(server)


def test_thirty_two_calls_at_once(server: EmbeddingServer) -> None:
    async def use(gateway: OpenAIGateway) -> list[list[Vector]]:
        return await asyncio.gather(
            *(gateway.embed([f"text {n}"], purpose="query", deadline_ms=20_000) for n in range(32))
        )

    answers = with_gateway(use, server.base_url)
    assert answers == [expected(server, [f"text {n}"]) for n in range(32)]


def test_close_is_idempotent_and_final(server: EmbeddingServer) -> None:
    async def use(gateway: OpenAIGateway) -> None:
        await gateway.embed(TEXTS, purpose="memory", deadline_ms=5_000)
        await gateway.close()
        await gateway.close()
        with pytest.raises(ModelUnavailable, match="closed"):
            await gateway.embed(TEXTS, purpose="memory", deadline_ms=5_000)

    with_gateway(use, server.base_url)


# Fingerprint.


def test_the_fingerprint_is_probed_once_even_when_asked_at_once(server: EmbeddingServer) -> None:
    async def use(gateway: OpenAIGateway) -> list[Fingerprint]:
        return await asyncio.gather(*(gateway.fingerprint() for _ in range(4)))

    found = with_gateway(use, server.base_url, model="bge-m3")
    assert {str(fingerprint) for fingerprint in found} == {"openai-compatible:bge-m3:64:cosine:l2"}
    assert server.request_count == 1


def test_a_failed_probe_is_not_remembered(server: EmbeddingServer) -> None:
    async def use(gateway: OpenAIGateway) -> Fingerprint:
        server.fail("status", status=503, times=1)
        with pytest.raises(ModelUnavailable):
            await gateway.fingerprint()
        return await gateway.fingerprint()

    assert with_gateway(use, server.base_url).dimensions == server.dimensions


def test_the_probe_has_a_deadline(server: EmbeddingServer) -> None:
    server.fail("hang")
    with pytest.raises(ModelUnavailable, match="within 100 ms"):
        with_gateway(lambda gateway: gateway.fingerprint(), server.base_url, probe_deadline_ms=100)


def test_the_fingerprint_tells_the_truth_whatever_is_expected(server: EmbeddingServer) -> None:
    found = with_gateway(lambda gateway: gateway.fingerprint(), server.base_url, expected_dimensions=1024)
    assert found.dimensions == server.dimensions


def test_another_model_behind_the_name_is_invalid_and_then_probed_again(server: EmbeddingServer) -> None:
    async def use(gateway: OpenAIGateway) -> tuple[int, int]:
        before = await gateway.fingerprint()
        server.fail("dimensions", count=32)
        with pytest.raises(ModelAnswerInvalid, match="another model"):
            await gateway.embed(["kopi"], purpose="memory", deadline_ms=5_000)
        after = await gateway.fingerprint()
        return before.dimensions, after.dimensions

    assert with_gateway(use, server.base_url) == (64, 32)


def test_no_error_chain_holds_the_key_or_the_text(server: EmbeddingServer) -> None:
    """What a traceback prints is the message of each error that is not suppressed."""
    server.fail("truncated")
    with pytest.raises(ModelUnavailable) as caught:
        embed(server, api_key=KEY)
    assert caught.value.__suppress_context__
    assert caught.value.__cause__ is None
    assert json.dumps(TEXTS[0]) not in str(caught.value)


def test_the_clock_is_only_read_for_dates(server: EmbeddingServer) -> None:
    in_a_minute = formatdate(time.time() + 60, usegmt=True)
    server.fail("status", status=429, retry_after=in_a_minute)
    with pytest.raises(ModelUnavailable) as caught:
        embed(server, now_s=lambda: time.time() + 120)
    assert caught.value.retry_after_ms is None
