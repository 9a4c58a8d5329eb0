"""The Worker in workerd, with real D1, over an emulated Vectorize and an emulated Workers AI."""

from tests.runtimes.cloudflare.runtime import CloudflareRuntime

__all__ = ["CloudflareRuntime"]
