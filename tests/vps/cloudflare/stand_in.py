"""A stand-in for wrangler: keeps an account in a directory, records every call, and fails where it is told.

    python stand_in.py d1 list --json        STAND_IN names the directory

D1 is a real SQLite file. `fail.json` may hold {"at": "d1 create", "after": true, "times": 1}: the call
that starts so fails, before its effect or after it.
"""

import json
import os
import re
import sys
import uuid
from pathlib import Path
from typing import Any

import apsw

HERE = Path(os.environ.get("STAND_IN", "."))
WORKER_URL = "https://titen.example.workers.dev"


def main(arguments: list[str]) -> int:
    global HERE  # noqa: PLW0603 - tests that run it in their own process change the account
    HERE = Path(os.environ["STAND_IN"])
    with (HERE / "calls.jsonl").open("a") as calls:
        calls.write(json.dumps(arguments) + "\n")
    order = _order(arguments)
    if order and not order.get("after"):
        return _failed(arguments)
    state = _read("state.json", {"databases": {}, "indexes": {}, "versions": []})
    try:
        print(_answered(state, arguments))
    except Refused as refusal:
        print(f"\x1b[31m✘ [ERROR]\x1b[0m {refusal}\n\n🪵  Logs were written to somewhere", file=sys.stderr)
        return 1
    except apsw.Error as failure:
        print(json.dumps({"error": {"text": f"{failure}: {type(failure).__name__} SQLITE_ERROR"}}))
        return 1
    (HERE / "state.json").write_text(json.dumps(state))
    return _failed(arguments) if order else 0


class Refused(Exception):
    """What wrangler refuses."""


def _answered(state: dict[str, Any], arguments: list[str]) -> str:
    match arguments:
        case ["d1", "list", "--json"]:
            return json.dumps([{"uuid": found, "name": name} for name, found in state["databases"].items()])
        case ["d1", "create", name]:
            state["databases"][name] = _new(state["databases"], name, str(uuid.uuid4()))
            return f'Successfully created DB {name}\n[[d1_databases]]\ndatabase_id = "…"'
        case ["d1", "migrations", "apply", name, "--remote", "--config", config]:
            return _migrated(_database(state, name, config))
        case ["d1", "execute", name, "--remote", "--json", "--config", config, "--command", sql]:
            return json.dumps([{"results": rows, "success": True} for rows in _executed(state, name, config, sql)])
        case ["vectorize", *rest]:
            return _vectorize(state, rest)
        case ["deployments", "status", "--name", _, "--json", "--config", _]:
            if not state["versions"]:
                raise Refused("A request to the Cloudflare API failed.\n\n  This Worker does not exist [code: 10007]")
            return json.dumps({"versions": [{"version_id": str(len(state["versions"])), "percentage": 100}]})
        case ["versions", "view", number, "--name", _, "--json", "--config", _]:
            return json.dumps({"id": number, "annotations": {"workers/tag": state["versions"][int(number) - 1]}})
        case ["deploy", "--config", config, "--tag", tag]:
            assert (Path.cwd() / config).exists()
            state["versions"].append(tag)
            return f"Uploaded titen (1.00 sec)\nDeployed titen triggers\n  {WORKER_URL}\n  schedule: */5 * * * *"
    raise Refused(f"Unknown argument: {arguments}")


def _vectorize(state: dict[str, Any], arguments: list[str]) -> str:
    indexes = state["indexes"]
    match arguments:
        case ["list", "--json"]:
            return json.dumps([{"name": name, "config": each["config"]} for name, each in indexes.items()])
        case ["create", name, "--dimensions", dimensions, "--metric", metric]:
            shape = {"dimensions": int(dimensions), "metric": metric}
            indexes[name] = _new(indexes, name, {"config": shape, "fields": {}, "vectors": 0, "deleted": []})
            return f"Successfully created a new Vectorize index: '{name}'"
        case ["info", name, "--json"]:
            return json.dumps({"dimensions": 1024, "vectorCount": indexes[name]["vectors"]})
        case ["list-metadata-index", name, "--json"]:
            fields = indexes[name]["fields"].items()
            return json.dumps([{"propertyName": field, "indexType": kind.title()} for field, kind in fields])
        case ["create-metadata-index", name, "--propertyName", field, "--type", kind]:
            indexes[name]["fields"][field] = _new(indexes[name]["fields"], field, kind)
            return "Successfully enqueued metadata index creation request."
        case ["delete-vectors", name, "--ids", *ids]:
            indexes[name]["deleted"] += ids
            return "Successfully enqueued"
    raise Refused(f"Unknown argument: {arguments}")


def _database(state: dict[str, Any], name: str, config: str) -> apsw.Connection:
    """As wrangler finds it: by the id that the config file gives the name."""
    ids = re.findall(r'^database_id = "(.+)"$', (Path.cwd() / config).read_text(), re.MULTILINE)
    assert ids == [state["databases"][name]]
    return apsw.Connection(str(HERE / "d1.sqlite"))


def _migrated(database: apsw.Connection) -> str:
    with database:
        database.execute(
            "CREATE TABLE IF NOT EXISTS d1_migrations (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT UNIQUE,"
            " applied_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP NOT NULL)"
        )
        noted = {name for (name,) in database.execute("SELECT name FROM d1_migrations").fetchall()}
        for file in sorted((Path.cwd() / "migrations").glob("*.sql")):
            if file.name not in noted:
                database.execute(file.read_text())
                database.execute("INSERT INTO d1_migrations (name) VALUES (?)", (file.name,))
    return "Migrations applied"


def _executed(state: dict[str, Any], name: str, config: str, sql: str) -> list[list[dict[str, Any]]]:
    """Each statement's rows, all in one transaction."""
    results: list[list[dict[str, Any]]] = []
    columns: list[list[str]] = []

    def each(cursor: apsw.Cursor, statement: str, bindings: object) -> bool:
        columns.append([column[0] for column in cursor.get_description()])
        results.append([])
        return True

    database = _database(state, name, config)
    with database:
        cursor = database.cursor()
        cursor.exec_trace = each
        for row in cursor.execute(sql):
            results[-1].append(dict(zip(columns[-1], row, strict=True)))
    return results


def _new(existing: dict[str, Any], name: str, value: Any) -> Any:
    if name in existing:
        raise Refused(f"{name} already exists")
    return value


def _order(arguments: list[str]) -> dict[str, Any] | None:
    """What was ordered to fail, if it is this call's turn."""
    order: dict[str, Any] = _read("fail.json", {})
    if not order or not " ".join(arguments).startswith(order["at"]):
        return None
    if order.get("holding", "") not in " ".join(arguments):
        return None
    order["times"] = order.get("times", 1) - 1
    (HERE / "fail.json").write_text(json.dumps(order if order["times"] else {}))
    return order


def _failed(arguments: list[str]) -> int:
    words = " ".join(each for each in arguments[:2] if not each.startswith("-"))
    print(f"\x1b[31m✘ [ERROR]\x1b[0m The stand-in failed at {words}.", file=sys.stderr)
    print("🪵  Logs were written to somewhere", file=sys.stderr)
    return 1


def _read(name: str, otherwise: Any) -> Any:
    file = HERE / name
    return json.loads(file.read_text()) if file.exists() else otherwise


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
