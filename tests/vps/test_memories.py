"""`remember` and `recall`, on a file and against a service."""

from tests.vps.conftest import Store
from tests.vps.process import Service, titen

TRAIN = "Pengguna lebih suka naik kereta"


def test_on_a_file(store: Store) -> None:
    made = titen("remember", TRAIN, "--subject", "user_123", "--tag", "Travel", "--db", store.db, "--json")
    assert made.code == 0
    memory = made.document["data"]
    assert (memory["status"], memory["content"], memory["tags"], memory["author"]) == (
        *("stored", TRAIN, ["Travel"]),
        "human",
    )
    again = titen("remember", TRAIN, "--subject", "user_123", "--db", store.db, "--json").document["data"]
    assert (again["status"], again["id"], again["version"]) == ("unchanged", memory["id"], 1)

    answer = titen("recall", "kereta", "--db", store.db, "--json").document
    assert [item["id"] for item in answer["data"]] == [memory["id"]]
    assert answer["meta"]["channels"]["vector"] == "off"
    assert titen("recall", "kereta", "--subject", "nobody", "--db", store.db, "--json").document["data"] == []


def test_what_a_person_reads(store: Store) -> None:
    assert titen("remember", TRAIN, "--subject", "u", "--db", store.db).out.startswith("Stored: ")
    found = titen("recall", "kereta", "--db", store.db)
    assert found.out.startswith(f"1. {TRAIN}\n   u · found by words · ")
    assert "by words only" in found.err
    assert titen("recall", "zebra", "--db", store.db).out == "Nothing found.\n"


def test_text_from_stdin_and_every_field(store: Store) -> None:
    made = titen(
        *("remember", "-", "--subject", "team", "--agent", "a", "--run", "r", "--kind", "procedural"),
        *("--category", "fact", "--key", "ship_day", "--priority", "high", "--confidence", "0"),
        *("--source", "ticket_1#2", "--metadata", '{"n": 1}', "--expires", "30d", "--db", store.db, "--json"),
        stdin="Ships on Fridays\n",
    )
    assert made.code == 0, made.err
    memory = made.document["data"]
    given = {
        "content": "Ships on Fridays",
        "agent_id": "a",
        "run_id": "r",
        "kind": "procedural",
        "category": "fact",
        "key": "ship_day",
        "priority": "high",
        "confidence": 0.0,
        "source": {"type": None, "ref": "ticket_1#2"},
        "metadata": {"n": 1},
    }
    assert {name: memory[name] for name in given} == given
    assert memory["expires_at"] is not None


def test_bad_fields_are_one_sentence(store: Store) -> None:
    cases = {
        ("x",): "subject_id",
        ("x", "--subject", "u", "--key", "k"): "category",
        ("  ", "--subject", "u"): "content",
        ("x" * 9000, "--subject", "u"): "content",
        ("x", "--subject", "u", "--metadata", "{"): "--metadata",
        ("x", "--subject", "u", "--metadata", "[1]"): "metadata",
        ("x", "--subject", "u", "--confidence", "2"): "--confidence",
    }
    for arguments, name in cases.items():
        ran = titen("remember", *arguments, "--db", store.db)
        assert ran.code in {1, 2}, arguments
        assert name in ran.err
        assert "Traceback" not in ran.err


def test_against_a_service(service: Service, store: Store) -> None:
    remote = ("--url", f"{service.url}/", "--api-key", store.api_key)
    assert titen("remember", TRAIN, "--subject", "u", *remote, "--json").document["data"]["status"] == "stored"
    assert titen("recall", "kereta", *remote, "--json").document["data"][0]["content"] == TRAIN
    by_variable = titen("recall", "kereta", "--url", service.url, env={"TITEN_API_KEY": store.api_key})
    assert by_variable.code == 0
    missing = titen("remember", "x", *remote)
    assert missing.code == 1
    assert "subject_id" in missing.err


def test_faults_of_a_remote_are_one_sentence(service: Service, store: Store) -> None:
    cases = {
        ("--url", service.url, "--api-key", "titen_a_b"): "refused the API key",
        ("--url", "http://127.0.0.1:9", "--api-key", "titen_a_b"): "Nothing answers",
        ("--url", "127.0.0.1", "--api-key", "titen_a_b"): "must start with http",
        ("--url", f"{service.url}/elsewhere", "--api-key", store.api_key): "404",
        ("--url", service.url): "--api-key",
        ("--url", service.url, "--api-key", "k", "--db", str(store.db)): "either --url or --db",
    }
    for arguments, words in cases.items():
        ran = titen("recall", "x", *arguments)
        assert ran.code in {1, 2}, arguments
        assert words in ran.err
        assert "Traceback" not in ran.err
        assert store.api_key not in ran.err


def test_a_service_and_a_command_share_the_file(service: Service, store: Store) -> None:
    assert titen("remember", TRAIN, "--subject", "u", "--db", store.db).code == 0
    found = titen("recall", "kereta", "--url", service.url, "--api-key", store.api_key, "--json").document
    assert found["data"][0]["content"] == TRAIN
