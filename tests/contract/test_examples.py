"""The examples, as processes of their own against a running service."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.contract.client import Api
from tests.contract.conftest import MakeCaller
from tests.runtimes.base import Runtime
from tests.runtimes.chat_server import ChatServer
from tests.vps.process import environment

pytestmark = pytest.mark.needs_control

ROOT = Path(__file__).parents[2]
LINES_MAX = 80


@pytest.fixture(scope="module")
def assistant() -> Iterator[ChatServer]:
    """The model that the user talks to; the one behind the service is another."""
    server = ChatServer()
    yield server
    server.close()


def run(example: str, *arguments: str, api: Api, runtime: Runtime, said: str = "", **settings: str) -> str:
    """What it printed."""
    assert api.api_key is not None
    done = subprocess.run(
        [sys.executable, "-W", "error", str(ROOT / "examples" / example), *arguments],
        input=said,
        capture_output=True,
        text=True,
        timeout=60,
        env=environment({"TITEN_URL": runtime.base_url, "TITEN_API_KEY": api.api_key, **settings}),
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_chat_remembers_what_an_earlier_one_was_told(
    runtime: Runtime, agent: Api, assistant: ChatServer, subject: str
) -> None:
    model = {"CHAT_BASE_URL": assistant.base_url, "CHAT_MODEL": "scripted"}
    runtime.chat.say(json.dumps({"memories": [{"action": "add", "content": "Prefers night trains to Surabaya"}]}))
    assistant.say("Good to know.")
    try:
        printed = run(
            "chat_loop.py", subject, api=agent, runtime=runtime, said="I prefer night trains to Surabaya\n\n", **model
        )
    finally:
        runtime.chat.clear()
    assert printed == "Good to know.\n"
    assert "nothing yet" in assistant.requests[-1]["messages"][0]["content"]
    kept = agent.all_listed(subject_id=subject)
    assert [(memory["content"], memory["source"]["type"]) for memory in kept] == [
        ("Prefers night trains to Surabaya", "chat")
    ]
    assistant.say("By night train.")
    run("chat_loop.py", subject, api=agent, runtime=runtime, said="Which trains to Surabaya?\n", **model)
    rules, question = assistant.requests[-1]["messages"]
    assert "- Prefers night trains to Surabaya" in rules["content"]
    assert question == {"role": "user", "content": "Which trains to Surabaya?"}


def test_a_chat_keeps_the_users_own_words_where_nothing_can_pick_the_facts(
    runtime: Runtime, agent: Api, assistant: ChatServer, subject: str
) -> None:
    model = {"CHAT_BASE_URL": assistant.base_url, "CHAT_MODEL": "scripted"}
    assistant.say("I see.")
    runtime.chat.fail(500)
    try:
        run("chat_loop.py", subject, api=agent, runtime=runtime, said="I have a cat\n", **model)
    finally:
        runtime.chat.clear()
    assert [(memory["content"], memory["kind"]) for memory in agent.all_listed(subject_id=subject)] == [
        ("I have a cat", "episodic")
    ]


def test_an_agent_takes_over_where_another_left_and_only_one_does(
    runtime: Runtime, caller: MakeCaller, new_name: Callable[[str], str]
) -> None:
    ticket, first, *others = new_name("TICKET"), caller(), caller(), caller()
    name, *names = (api.principal().data["principal"] for api in (first, *others))

    def take(api: Api) -> str:
        return run("hand_over.py", "take", ticket, api=api, runtime=runtime)

    assert take(others[0]) == f"{ticket} is not free.\n"
    assert run("hand_over.py", "leave", ticket, api=first, runtime=runtime) == f"{name} left {ticket}.\n"
    with ThreadPoolExecutor() as pool:
        printed = dict(zip(names, pool.map(take, others), strict=True))
    (winner,) = (who for who in names if printed[who].startswith(f"{who} took {ticket} from {name}.\n"))
    assert "Ask the customer which year row 4,211 belongs to." in printed[winner]
    assert "Row 4,211 has a date without a year." in printed[winner]
    (loser,) = set(names) - {winner}
    assert printed[loser] in {f"{ticket} is not free.\n", f"{ticket} was taken meanwhile.\n"}


@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.name)
def test_an_example_fits_on_a_screen_or_two(example: Path) -> None:
    assert len(example.read_text(encoding="utf-8").splitlines()) < LINES_MAX
