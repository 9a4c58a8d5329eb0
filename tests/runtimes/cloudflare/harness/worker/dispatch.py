"""One call from JavaScript to the entry's class, converted both ways by the SDK as when deployed."""

import inspect
import random

import entry
from workers import python_from_rpc, python_to_rpc

_seeded = []


async def call(method, ctx, env, args):
    if not _seeded:
        random.seed()  # what was seeded before the first request is the same in every isolate
        _seeded.append(True)
    instance = entry.Default(ctx, env)
    result = getattr(instance, method)(*[python_from_rpc(arg) for arg in args])
    if inspect.isawaitable(result):
        result = await result
    return python_to_rpc(result)
