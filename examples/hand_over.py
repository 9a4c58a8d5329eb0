"""Two agents, two keys, one ticket: the first leaves what it found, the second takes over.

The agents share nothing but the memory. Each fact tells who left it, and only one agent gets the ticket, however
many try at once.

    export TITEN_URL=http://127.0.0.1:8787
    TITEN_API_KEY=titen_… python examples/hand_over.py leave TICKET-7    # with the key of the first agent
    TITEN_API_KEY=titen_… python examples/hand_over.py take TICKET-7     # with the key of the second
"""

import sys

from titen_client import Memory, Titen, VersionConflict

FOUND = ("The import stops at row 4,211.", "Row 4,211 has a date without a year.")
NEXT_STEP = "Ask the customer which year row 4,211 belongs to."


def leave(titen: Titen, ticket: str) -> None:
    """Facts first, then the one memory that says the ticket is free: whoever sees it sees all."""
    for fact in FOUND:
        titen.remember(fact, subject_id=ticket, category="fact", source={"type": "ticket", "ref": ticket})
    titen.remember(
        NEXT_STEP, subject_id=ticket, category="project", key="next_step", priority="high", metadata={"taken_by": None}
    )
    print(f"{me(titen)} left {ticket}.")


def take(titen: Titen, ticket: str) -> None:
    """Claim the ticket with the version that was read: of two agents, one is told that it was too late."""
    step = next_step(titen, ticket)
    if step is None or step["metadata"].get("taken_by"):
        print(f"{ticket} is not free.")
        return
    try:
        titen.update(step["id"], expected_version=step["version"], metadata={"taken_by": me(titen)})
    except VersionConflict:
        print(f"{ticket} was taken meanwhile.")
        return
    first = next(iter(titen.history(step["id"])))
    print(f"{me(titen)} took {ticket} from {first['actor']}.")
    print(titen.digest(ticket))


def next_step(titen: Titen, ticket: str) -> Memory | None:
    steps = titen.memories(subject_id=ticket, filters={"category": ["project"]})
    return next((memory for memory in steps if memory["key"] == "next_step"), None)


def me(titen: Titen) -> str:
    return titen.principal()["principal"]


if __name__ == "__main__":
    _, action, ticket = sys.argv
    with Titen.from_env() as titen:
        {"leave": leave, "take": take}[action](titen, ticket)
