"""Every command of the guide is run against the stand-in, or stands here with its reason."""

import re
import shlex

import pytest

from tests.vps.cloudflare.conftest import Bench, bench, real_bench
from tests.vps.process import ROOT, running, titen
from vps.cost import PRICES_AS_OF

__all__ = ["bench", "real_bench"]  # fixtures

GUIDE = (ROOT / "docs/how-to/deploy-cloudflare.md").read_text(encoding="utf-8")
NOT_RUN_HERE = {
    "make setup worker-vendor": "fetches packages",
    "npx wrangler login": "opens a browser",
    "git pull": "needs the repository's server",
    "make worker-vendor": "fetches packages",
    "npx wrangler rollback --name titen": "wrangler's own; its parser was asked",
    "npx wrangler d1 time-travel info titen --timestamp 2026-12-01T08:00:00Z": "wrangler's own",
    "npx wrangler d1 time-travel restore titen --timestamp 2026-12-01T08:00:00Z": "wrangler's own",
    "npx wrangler tail titen": "never ends",
}


def commands() -> list[str]:
    blocks = re.findall(r"^```sh\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)
    return [line for block in blocks for line in block.splitlines()]


def test_each_exception_is_in_the_guide() -> None:
    assert set(NOT_RUN_HERE) <= set(commands())


def test_the_commands_run_in_their_order(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.provision()
    values = {"$KEY": bench.api_key}
    with running("serve", "--db", bench.d1, "--port", "0") as service:
        values["$URL"] = service.url
        for command in commands():
            if command in NOT_RUN_HERE:
                continue
            program, *words = [values.get(word, word) for word in shlex.split(command)]
            assert program == "titen", command
            if words[0] == "cloudflare":
                extra = ["--url", service.url] if words[1:] == ["provision"] else []
                ran = bench.titen(*words[1:], *extra)
                values["$TENANT"], values["$KEY_ID"] = newest(bench)
                if words[1] == "purge":
                    assert "clean" in ran.out
            else:
                ran = titen(*words, cwd=bench.checkout)
            assert ran.code == 0, (command, ran.err)


def newest(bench: Bench) -> tuple[str, str]:
    ((tenant,),) = bench.rows("SELECT id FROM tenants ORDER BY num DESC LIMIT 1")
    keys = bench.rows("SELECT id FROM api_keys ORDER BY created_at DESC LIMIT 1")
    return tenant, keys[0][0]


def test_the_date_of_the_prices_is_told_by_the_command() -> None:
    assert "date of its prices" in GUIDE
    assert PRICES_AS_OF in titen("cost").out
