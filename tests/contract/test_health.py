"""Health: liveness tells nothing, readiness tells codes, and details only to an admin."""

import pytest

from tests.contract.client import Api
from tests.contract.conftest import MakeCaller
from tests.runtimes.base import Embedder


def test_liveness_needs_no_key_and_tells_nothing(api: Api, anyone: Api) -> None:
    answer = anyone.request("GET", "/healthz").expect(200)
    assert api.principal().data["tenant_id"] not in answer.content.decode()


def test_readiness_without_a_key_tells_codes_only(api: Api, anyone: Api) -> None:
    open_, full = anyone.readyz().expect(200), api.readyz().expect(200)
    assert len(open_.content) < len(full.content)
    for private in ("cosine", "openai", "outbox", "test-embedder", ".db", api.principal().data["tenant_id"]):
        assert private not in open_.content.decode()


def test_readiness_for_a_reader_tells_no_more_than_without_a_key(reader: Api, anyone: Api) -> None:
    assert set(reader.readyz().expect(200).data) == set(anyone.readyz().expect(200).data)


def test_readiness_for_an_admin_tells_every_dependency(api: Api) -> None:
    text = api.readyz().expect(200).content.decode()
    for part in ("database", "migration", "fingerprint", "dimensions", "metric", "cosine", "outbox"):
        assert part in text


@pytest.mark.needs_control
def test_readiness_counts_the_own_outbox_only(api: Api, foreign: Api, embedder: Embedder, subject: str) -> None:
    api.drain()
    embedder.fail("status", status=503)
    foreign.stored(subject_id=subject, content="Counted elsewhere")
    own, theirs = ({c["name"]: c["detail"] for c in a.readyz().body["data"]["checks"]} for a in (api, foreign))
    assert own["outbox"]["pending"] == 0
    assert theirs["outbox"]["pending"] > 0


def test_a_wrong_key_is_no_reason_to_tell_more(anyone: Api, caller: MakeCaller) -> None:
    answer = anyone.sending(Authorization="Bearer titen_x_y").readyz()
    assert "cosine" not in answer.content.decode()
