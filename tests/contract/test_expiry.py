"""Expiry: hidden the moment it passes, with no sweep, and never moved by a read."""

import pytest

from tests.contract.client import Api
from tests.contract.expired import expired, now_ms

MINUTE_MS = 60_000
DAY_MS = 24 * 60 * MINUTE_MS


def test_an_expired_memory_is_hidden_from_list_search_and_tags(api: Api, subject: str) -> None:
    expired(api, subject_id=subject, content="Parking spot B7", tags=["parking"])
    assert api.all_listed(subject_id=subject) == []
    assert api.found("parking spot B7", subject_id=subject) == []
    assert api.tags(subject_id=subject).expect(200).data == []


def test_an_expired_memory_can_be_read_by_id(api: Api, subject: str) -> None:
    memory = expired(api, subject_id=subject, content="Parking spot B7")
    assert api.read(memory["id"])["content"] == "Parking spot B7"


def test_include_expired_shows_it(api: Api, subject: str) -> None:
    memory = expired(api, subject_id=subject, content="Parking spot B7")
    assert api.listed(subject_id=subject, include_expired=True).expect(200).ids == [memory["id"]]
    assert [m["id"] for m in api.found("parking B7", subject_id=subject, include_expired=True)] == [memory["id"]]


def test_include_expired_false_hides_it(api: Api, subject: str) -> None:
    expired(api, subject_id=subject, content="Parking spot B7")
    assert api.listed(subject_id=subject, include_expired=False).expect(200).ids == []


def test_a_memory_that_will_expire_is_still_found(api: Api, subject: str) -> None:
    """Field case 64: recall tells when a memory lapses."""
    memory = api.stored(subject_id=subject, content="Sale ends soon", expires_at=now_ms() + DAY_MS)
    (item,) = api.found("sale ends", subject_id=subject)
    assert item["expires_at"] == memory["expires_at"]


def test_reading_never_moves_the_expiry(api: Api, subject: str) -> None:
    """Field case 62: reading a row moved its expiry from seven days to one."""
    memory = api.stored(subject_id=subject, content="Read me often", expires_at=now_ms() + 7 * DAY_MS)
    api.wait_until_indexed(memory["id"])
    before = api.read(memory["id"])
    for _ in range(3):
        api.found("read me often", subject_id=subject)
        api.listed(subject_id=subject).expect(200)
        api.history(memory["id"]).expect(200)
        api.expiring(within="30d").expect(200)
    assert api.read(memory["id"]) == before


def test_a_patch_extends_an_expired_memory(api: Api, subject: str) -> None:
    """Field case 64: memories lapsed with no way to renew them."""
    memory = expired(api, subject_id=subject, content="Renewable pass")
    later = now_ms() + DAY_MS
    assert api.patch(memory["id"], expires_at=later).expect(200).data["expires_at"] == later
    assert [m["id"] for m in api.found("renewable pass", subject_id=subject)] == [memory["id"]]


def test_the_expiring_list_comes_soonest_first(api: Api, subject: str) -> None:
    """Field case 64: memories lapsed with no warning."""
    ids = {
        hours: api.stored(
            subject_id=subject, content=f"Ends in {hours} h", expires_at=now_ms() + hours * 60 * MINUTE_MS
        )["id"]
        for hours in (30, 2, 400, 100)
    }
    api.stored(subject_id=subject, content="Never ends")
    expired(api, subject_id=subject, content="Ended already")
    gone = api.stored(subject_id=subject, content="Deleted before its end", expires_at=now_ms() + DAY_MS)
    api.delete(gone["id"]).expect(200)
    answer = api.expiring(subject_id=subject, within="7d").expect(200)
    assert answer.ids == [ids[2], ids[30], ids[100]]
    assert all(type(m["expires_at"]) is int for m in answer.data)


def test_a_wider_window_shows_more(api: Api, subject: str) -> None:
    memory = api.stored(subject_id=subject, content="In 20 days", expires_at=now_ms() + 20 * DAY_MS)
    assert api.expiring(subject_id=subject, within="7d").ids == []
    assert api.expiring(subject_id=subject, within="30d").ids == [memory["id"]]


@pytest.mark.parametrize("within", ["soon", "-1d", "", "7", "7 days", "99999999d", "1e3d", "NaNd", "٧d"])
def test_a_window_that_is_none_is_refused(api: Api, within: str) -> None:
    api.expiring(within=within).refused("within")
