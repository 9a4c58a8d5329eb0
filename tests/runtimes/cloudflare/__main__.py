"""`make worker-dev`: the Worker in workerd, offline, with a tenant and a key to try it with."""

import tempfile
import threading
from pathlib import Path

from tests.runtimes.cloudflare.runtime import CloudflareRuntime


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="titen-worker-") as directory:
        runtime = CloudflareRuntime(Path(directory))
        try:
            print(f"{runtime.base_url}  {runtime.new_tenant().admin.api_key}", flush=True)
            threading.Event().wait()
        except KeyboardInterrupt:
            pass
        finally:
            runtime.close()


if __name__ == "__main__":
    main()
