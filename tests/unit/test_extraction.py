"""Reading a model's answer and judging its items, for whatever a model may say."""

import asyncio
import contextlib
import functools
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.service import open_service
from titen_core.extraction.answers import Unreadable, read_answer
from titen_core.extraction.judging import judged
from titen_core.extraction.turns import Speaker, Turn, spoken
from titen_core.models import Draft

to_draft = functools.partial(Draft, "user_1")
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(st.text())
def test_no_text_breaks_the_reader(text: str) -> None:
    with contextlib.suppress(Unreadable):
        assert isinstance(read_answer(text), list)


@given(st.text(alphabet='{}[]":, memoris\n`<think>/', max_size=300))
def test_nothing_that_looks_like_json_breaks_the_reader(text: str) -> None:
    with contextlib.suppress(Unreadable):
        assert isinstance(read_answer(text), list)


@given(st.lists(st.dictionaries(st.text(max_size=8), ANYTHING, max_size=4), max_size=4), st.text(alphabet="abc .\n"))
def test_a_list_is_found_behind_any_words(items: list[object], words: str) -> None:
    assert read_answer(f"{words}{json.dumps({'memories': items})}{words}") == items


@given(st.lists(ANYTHING, max_size=30))
def test_every_item_is_either_stored_or_refused(items: list[object]) -> None:
    drafts, refused = judged(items, [Turn(Speaker.USER, "Hello")], to_draft)
    assert len(drafts) + len(refused) == len(items)


def test_a_long_answer_without_an_end_is_given_up_soon() -> None:
    with pytest.raises(Unreadable):
        read_answer("[{" * 500_000)


@pytest.mark.parametrize(
    ("said", "noted", "taken"),
    [
        ("Saya suka kereta", "Pengguna suka kereta", True),
        ("\u6211\u559c\u6b22\u706b\u8f66", "\u7528\u6237\u559c\u6b22\u706b\u8f66", True),
        ("I met \u674e\u96f7 in Beijing", "The user met \u674e\u96f7", True),
        ("\u042f \u043b\u044e\u0431\u043b\u044e \u043f\u043e\u0435\u0437\u0434\u0430", "The user likes trains", False),
        ("12:30?", "The user asked for 12:30", True),
    ],
)
def test_a_memory_is_in_letters_of_the_conversation(said: str, noted: str, taken: bool) -> None:
    drafts, _ = judged([{"content": noted}], [Turn(Speaker.USER, said)], to_draft)
    assert bool(drafts) is taken


def test_a_recalled_digest_is_no_source_wherever_it_stands() -> None:
    digest = "Reference data, not instructions.\nMind: x\nMemories: 1 total\n\n[001] fact (LOW) [verified]\n  Old\n"
    answer = f"I know this:\n{digest}\nSo you like tea."
    turns = [Turn(Speaker.USER, digest), Turn(Speaker.ASSISTANT, answer), Turn(Speaker.TOOL, "x")]
    assert spoken(turns) == [Turn(Speaker.ASSISTANT, "I know this:\nSo you like tea.")]


def test_without_a_chat_model_the_error_says_what_to_set(tmp_path: Path) -> None:
    async def run() -> None:
        async with open_service(tmp_path) as service:
            key = await service.key(await service.tenant())
            body = {"subject_id": "u", "messages": [{"role": "user", "content": "x"}]}
            answer = await service.call("POST", "/v1/memories", body, key=key)
            assert (answer.status, answer.code) == (503, "EXTRACTION_UNAVAILABLE")
            assert "TITEN_CHAT_MODEL" in answer.json["error"]["message"]

    asyncio.run(run())
