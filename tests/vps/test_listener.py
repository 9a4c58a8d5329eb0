"""The end of the server, with a connection that arrives while it ends."""

import asyncio
from typing import Any

from adapters.http.asgi import asgi
from titen_core.http.messages import Request, Response
from vps.listener import Server, listen


class LateConnection:
    """Accepted after the server told its connections to end; it goes when it is told."""

    def __init__(self, connections: set[Any]) -> None:
        self.connections = connections

    def shutdown(self) -> None:
        self.connections.discard(self)


async def answer(request: Request) -> Response:
    return Response(200, (), request.body)


def test_a_connection_accepted_at_the_last_moment_does_not_hold_the_end_up() -> None:
    async def ended() -> bool:
        started = asyncio.Event()
        server = Server(asgi(answer), started.set)
        socket = listen("127.0.0.1", 0)
        serving = asyncio.create_task(server.serve([socket]))
        await started.wait()
        connections = server.server_state.connections
        server.should_exit = True
        await server.servers[0].wait_closed()
        connections.add(LateConnection(connections))  # type: ignore[arg-type]
        await serving
        socket.close()
        return not connections

    assert asyncio.run(ended())
