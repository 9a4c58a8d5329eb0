"""The page on conversations shows a request that is one."""

import json
from pathlib import Path

from titen_core.extraction.turns import Speaker
from titen_core.http.schemas.requests import RememberBody

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "remember-from-conversations.md"


def test_the_request_on_the_page_is_taken() -> None:
    (block,) = [part for part in PAGE.read_text().split("```")[1::2] if part.startswith("http\n")]
    body = RememberBody.model_validate(json.loads(block.split("\n\n", 1)[1]))
    turns, to_draft = body.conversation("user_1")
    assert [turn.speaker for turn in turns] == [Speaker.USER, Speaker.ASSISTANT]
    assert to_draft(content="x").subject_id == body.subject_id
