"""The listed tools are what the models make."""

from titen_core.mcp.tools import ARTIFACT, build_tools, listed_tools, render


def test_the_artifact_is_what_the_models_make() -> None:
    made = build_tools()
    assert ARTIFACT.read_text(encoding="utf-8") == render(made), "run: python -m titen_core.mcp.tools"
    assert listed_tools() == made
