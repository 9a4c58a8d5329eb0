"""The test embedder: near means near, and it fails in every way it claims to."""

import base64
import json
import math
import threading
from array import array
from collections.abc import Iterator
from email.utils import parsedate_to_datetime
from typing import Any

import httpx
import pytest

from tests.runtimes.embedding_server import MODES, EmbeddingServer

COFFEE, TRAIN = "kopi", "kereta"


@pytest.fixture
def server() -> Iterator[EmbeddingServer]:
    with EmbeddingServer() as running:
        yield running


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    with httpx.Client(trust_env=False, timeout=10) as open_client:
        yield open_client


@pytest.fixture
def ask(server: EmbeddingServer, client: httpx.Client) -> "Ask":
    return Ask(server, client)


class Ask:
    def __init__(self, server: EmbeddingServer, client: httpx.Client) -> None:
        self.server = server
        self.client = client

    def __call__(self, *texts: str, timeout_s: float = 10) -> httpx.Response:
        payload = {"model": "m", "input": list(texts or (COFFEE, TRAIN))}
        return self.client.post(f"{self.server.base_url}/embeddings", json=payload, timeout=timeout_s)

    def items(self, *texts: str) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = json.loads(self(*texts).content)["data"]
        return items

    def control(self, **order: Any) -> httpx.Response:
        return self.client.post(self.server.control_url, json=order)


def similarity(server: EmbeddingServer, left: str, right: str) -> float:
    return math.fsum(a * b for a, b in zip(server.vector(left), server.vector(right), strict=True))


# What its vectors mean.


def test_it_answers_its_own_vectors_every_time(ask: Ask) -> None:
    first, again = ask.items(COFFEE, TRAIN), ask.items(COFFEE, TRAIN)
    assert first == again
    assert [array("f", item["embedding"]) for item in first] == [
        ask.server.vector(COFFEE),
        ask.server.vector(TRAIN),
    ]
    assert len(first[0]["embedding"]) == ask.server.dimensions == 64


def test_another_server_of_another_size(client: httpx.Client) -> None:
    with EmbeddingServer(dimensions=1024) as big:
        assert len(Ask(big, client).items("kopi")[0]["embedding"]) == 1024


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("train travel", "bepergian naik kereta"),
        ("lelungan numpak sepur", "he travels by train"),
        ("coffee in the morning", "kopi pagi"),
        ("ngombe kopi esuk", "drink coffee in the morning"),
    ],
)
def test_synonyms_are_near_without_a_shared_word(server: EmbeddingServer, query: str, text: str) -> None:
    assert not set(query.split()) & set(text.split()) - {"kopi"}
    assert similarity(server, query, text) > 0.5


@pytest.mark.parametrize("text", ["the quarterly budget", "rapat anggaran", "PostgreSQL 16 at port 5433"])
def test_unrelated_texts_are_far(server: EmbeddingServer, text: str) -> None:
    assert abs(similarity(server, "kopi pagi", text)) < 0.4


def test_an_alias_makes_words_near(server: EmbeddingServer) -> None:
    before = similarity(server, "zebu", "quokka")
    server.alias("zebu", "animal")
    server.alias("quokka", "animal")
    assert before < 0.5
    assert similarity(server, "zebu", "quokka") > 0.99


def test_forms_of_one_word_are_near(server: EmbeddingServer) -> None:
    assert similarity(server, "database migrations", "database migration") > 0.8


@pytest.mark.parametrize("text", ["", "the", "!?", "🙂", "漢字"])
def test_every_text_has_a_vector(server: EmbeddingServer, text: str) -> None:
    assert similarity(server, text, text) == pytest.approx(1.0)


# What it records.


def test_requests_are_recorded(ask: Ask) -> None:
    ask(COFFEE)
    ask(COFFEE, TRAIN)
    assert ask.server.request_count == 2
    assert ask.server.requests[-1].inputs == (COFFEE, TRAIN)
    assert ask.server.requests[-1].keys == {"model", "input"}
    state = ask.client.get(ask.server.control_url).json()
    assert state == {"requests": 2, "texts": 3, "faults": [], "last_keys": ["input", "model"]}


def test_many_threads_at_once(ask: Ask) -> None:
    answers: list[int] = []
    threads = [threading.Thread(target=lambda: answers.append(ask(COFFEE).status_code)) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [200] * 16
    assert ask.server.request_count == 16


# How it fails.


def test_a_fault_lasts_so_many_requests_or_until_cleared(ask: Ask) -> None:
    ask.server.fail("status", status=503, times=2)
    assert [ask().status_code for _ in range(3)] == [503, 503, 200]
    ask.server.fail("status", status=500)
    assert [ask().status_code for _ in range(3)] == [500, 500, 500]
    ask.server.clear()
    assert ask().status_code == 200


def test_faults_follow_one_another(ask: Ask) -> None:
    ask.server.fail("status", status=429, times=1)
    ask.server.fail("status", status=503, times=1)
    assert [ask().status_code for _ in range(3)] == [429, 503, 200]


def test_control_over_http(ask: Ask) -> None:
    assert ask.control(mode="status", status=418, times=1).status_code == 200
    assert ask().status_code == 418
    ask.control(mode="status", status=503)
    ask.control(clear=True, alias={"zebu": "animal", "quokka": "animal"})
    assert ask().status_code == 200
    assert similarity(ask.server, "zebu", "quokka") > 0.99


@pytest.mark.parametrize("order", [{"mode": "no such"}, {"mode": "status", "color": 1}, {"status": 500}])
def test_control_refuses_what_it_does_not_know(ask: Ask, order: dict[str, Any]) -> None:
    assert ask.control(**order).status_code == 400
    assert ask().status_code == 200


def test_an_unknown_path_is_404(ask: Ask) -> None:
    assert ask.client.post(ask.server.base_url, json={}).status_code == 404
    assert ask.client.get(ask.server.base_url).status_code == 404


def test_retry_after_as_it_is_and_as_a_date(ask: Ask) -> None:
    ask.server.fail("status", status=429, retry_after="soon", times=1)
    ask.server.fail("status", status=429, retry_after_date_s=60, times=1)
    assert ask().headers["retry-after"] == "soon"
    assert parsedate_to_datetime(ask().headers["retry-after"]).tzinfo is not None


@pytest.mark.parametrize(("count", "answered"), [(1, 3), (2, 4), (-1, 1)])
def test_wrong_count(ask: Ask, count: int, answered: int) -> None:
    ask.server.fail("wrong_count", count=count)
    assert len(ask.items()) == answered


@pytest.mark.parametrize(
    ("mode", "indexes"),
    [
        ("shuffled", [1, 0]),
        ("no_index", [None, None]),
        ("partial_index", [None, 1]),
        ("duplicate_index", [0, 0]),
    ],
)
def test_indexes(ask: Ask, mode: str, indexes: list[int | None]) -> None:
    ask.server.fail(mode)
    assert [item.get("index") for item in ask.items()] == indexes


@pytest.mark.parametrize(
    ("mode", "text"), [("nan", "NaN"), ("infinity", "Infinity"), ("null", "null"), ("text", '"0.5"')]
)
def test_a_number_that_is_none(ask: Ask, mode: str, text: str) -> None:
    ask.server.fail(mode)
    assert text in ask().text


def test_zero_and_integers(ask: Ask) -> None:
    ask.server.fail("zero", times=1)
    ask.server.fail("integers", times=1)
    assert set(ask.items()[-1]["embedding"]) == {0.0}
    assert ask.items()[0]["embedding"][0] == 1


def test_base64(ask: Ask) -> None:
    ask.server.fail("base64")
    decoded = array("f", base64.b64decode(ask.items(COFFEE)[0]["embedding"]))
    assert decoded == ask.server.vector(COFFEE)


def test_other_dimensions(ask: Ask) -> None:
    ask.server.fail("dimensions", count=7)
    assert [len(item["embedding"]) for item in ask.items()] == [64, 7]


@pytest.mark.parametrize("mode", ["not_json", "cut_off"])
def test_bodies_that_are_no_json(ask: Ask, mode: str) -> None:
    ask.server.fail(mode)
    with pytest.raises(ValueError, match=r"Expecting|Unterminated|delimiter"):
        ask().json()


def test_without_data(ask: Ask) -> None:
    ask.server.fail("without_data")
    assert "data" not in ask().json()


@pytest.mark.parametrize("mode", ["truncated", "drop"])
def test_connections_that_break(ask: Ask, mode: str) -> None:
    ask.server.fail(mode, times=1)
    with pytest.raises(httpx.RemoteProtocolError):
        ask()
    assert ask().status_code == 200


def test_oversize(ask: Ask) -> None:
    ask.server.fail("oversize", count=10_000)
    assert len(ask().content) > 10_000


def test_redirect(ask: Ask) -> None:
    ask.server.fail("redirect", location="http://127.0.0.1:9/")
    assert ask().headers["location"] == "http://127.0.0.1:9/"


def test_delay_answers_in_the_end(ask: Ask) -> None:
    ask.server.fail("delay", ms=1)
    assert len(ask.items()) == 2


@pytest.mark.parametrize("mode", ["delay", "hang"])
def test_delay_and_hang_outlast_a_reader(ask: Ask, mode: str) -> None:
    ask.server.fail(mode, ms=60_000)
    with pytest.raises(httpx.ReadTimeout):
        ask(timeout_s=0.05)


def test_dribble_satisfies_each_read_but_takes_long(ask: Ask) -> None:
    ask.server.fail("dribble", ms=1)
    threading.Timer(0.05, ask.server.clear).start()
    assert len(ask(timeout_s=5).json()["data"]) == 2


def test_max_inputs_only_hits_larger_calls(ask: Ask) -> None:
    ask.server.fail("max_inputs", count=1)
    assert [ask(COFFEE).status_code, ask(COFFEE, TRAIN).status_code] == [200, 400]


def test_a_marker_only_hits_its_calls(ask: Ask) -> None:
    ask.server.fail("fail_on_marker", marker="#poison")
    assert [ask(COFFEE).status_code, ask(COFFEE, "a #poison b").status_code] == [200, 500]


def test_close_lets_hanging_clients_go(client: httpx.Client) -> None:
    server = EmbeddingServer().start()
    server.fail("hang")
    failures: list[type[Exception]] = []

    def hang() -> None:
        try:
            Ask(server, client)()
        except httpx.TransportError as error:
            failures.append(type(error))

    waiting = threading.Thread(target=hang)
    waiting.start()
    server.wait_for_requests(1)
    server.close()
    waiting.join(10)
    assert len(failures) == 1


def test_every_mode_answers_or_breaks_in_some_way(ask: Ask) -> None:
    """No mode is a name without a behaviour: none answers as the healthy server does."""
    healthy = ask().content
    for mode in sorted(MODES - {"delay", "dribble", "hang", "max_inputs", "fail_on_marker"}):
        ask.server.fail(mode, times=1)
        try:
            assert ask().content != healthy
        except httpx.RemoteProtocolError:
            assert mode in {"drop", "truncated"}
