"""Promise 1: two processes on one file wait for each other and lose nothing."""

from pathlib import Path

from tests.promises.service import Api, Service, at_once
from tests.promises.store import damage, half_memories, rows
from tests.runtimes.embedding_server import EmbeddingServer

WRITERS = 8
WRITES = 200


def test_eight_writers_over_two_processes_lose_nothing(tmp_path: Path) -> None:
    with EmbeddingServer() as embedder, Service(tmp_path, embedder) as service:
        apis = [Api(service.start().http, service.admin_key) for _ in range(2)]

        def write(writer: int) -> dict[str, str]:
            acknowledged: dict[str, str] = {}
            for number in range(WRITES):
                content = f"Catatan {writer}x{number}"
                answer = apis[writer % 2].remember(subject_id=f"w{writer}", content=content)
                while answer.status == 503:
                    answer.expect(503, "BUSY")
                    answer = apis[writer % 2].remember(subject_id=f"w{writer}", content=content)
                acknowledged[answer.data["id"]] = content
            return acknowledged

        written = at_once(write, range(WRITERS), WRITERS)
        for api in apis:
            for writer, acknowledged in enumerate(written):
                assert len(acknowledged) == WRITES
                assert {item["id"]: item["content"] for item in api.listed(subject_id=f"w{writer}")} == acknowledged
        apis[0].drain()
        assert damage(service.database) == []
        assert half_memories(service.database, drained=True) == []


def test_both_processes_changing_one_memory_make_one_line_of_versions(tmp_path: Path) -> None:
    with Service(tmp_path) as service:
        apis = [Api(service.start().http, service.admin_key) for _ in range(2)]
        memory = apis[0].stored(subject_id="s", content="0")

        def change(number: int) -> int:
            changed = apis[number % 2].patch(memory["id"], metadata={f"n{number}": number})
            return int(changed.expect(200).data["version"])

        versions = at_once(change, range(40), 8)
        assert sorted(versions) == list(range(2, 42))
        for api in apis:
            assert api.get(memory["id"]).data["metadata"] == {f"n{number}": number for number in range(40)}


def test_the_same_words_through_both_processes_make_one_row(tmp_path: Path) -> None:
    with Service(tmp_path) as service:
        apis = [Api(service.start().http, service.admin_key) for _ in range(2)]
        answers = at_once(lambda n: apis[n % 2].remember(subject_id="s", content="Once only"), range(40), 16)
        assert sorted(answer.status for answer in answers) == [200] * 39 + [201]
        assert len({answer.data["id"] for answer in answers}) == 1
        assert rows(service.database, "SELECT count(*) FROM memories") == [(1,)]


def test_commands_work_beside_a_running_server(tmp_path: Path) -> None:
    with EmbeddingServer() as embedder, Service(tmp_path, embedder) as service:
        service.start()
        api = service.api

        def command(number: int) -> str:
            memory_id: str = service.titen("remember", f"Pesan {number}", "--subject", "cli")["data"]["id"]
            return memory_id

        def write(number: int) -> str:
            memory_id: str = api.stored(subject_id="http", content=f"Pesan {number}")["id"]
            return memory_id

        acts = [(command, n) for n in range(3)] + [(write, n) for n in range(60)]
        ids = set(at_once(lambda act: act[0](act[1]), acts, 4))
        assert {item["id"] for item in api.listed()} == ids
        found = api.search("Pesan 2", subject_id="cli").data
        assert found[0]["content"] == "Pesan 2"
        assert found[0]["score"]["vector_rank"] is not None
        recalled = service.titen("recall", "Pesan 59", "--subject", "http")["data"]
        assert recalled[0]["content"] == "Pesan 59"
