"""Every command of the tutorial on memories runs in order, in one shell, and prints what the page shows."""

import re
import subprocess
from pathlib import Path

from tests.docs.test_readme import ROOT, Service, environment
from tests.vps.process import running, titen

PAGE = (ROOT / "docs/tutorials/memories-an-assistant-can-live-with.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
CUT = "\n-- next block --\n"


def test_the_commands_print_what_the_page_shows(tmp_path: Path) -> None:
    made = titen("init", "--db", tmp_path / "titen.db", "--json")
    (tmp_path / "titen.db.admin-key").write_text(made.document["api_key"])
    with running("serve", "--db", tmp_path / "titen.db", "--port", "0") as started:
        service = Service(tmp_path, started.port)
        printed = run(service)
    commands = [position for position, (language, _) in enumerate(BLOCKS) if language == "sh"]
    assert len(printed) == len(commands)
    for position, output in zip(commands, printed, strict=True):
        shown = BLOCKS[position + 1 : position + 2]
        if shown and shown[0][0] == "text":
            assert output.rstrip("\n") == shown[0][1].rstrip("\n")
    assert printed[1].count('"id":"') == 2
    assert len(set(re.findall(r'"id":"([^"]+)"', printed[1]))) == 1
    assert '"error"' not in "".join(printed)


def run(service: Service) -> list[str]:
    """What each command block printed."""
    scripts = [service.adapted(code) for language, code in BLOCKS if language == "sh"]
    done = subprocess.run(
        ["sh", "-euc", f"\nprintf '{CUT}'\n".join(scripts)],
        cwd=service.directory,
        env=environment(service.directory),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split(CUT)
