"""Which source wins, what is refused, and what is never shown."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from vps.faults import Fault
from vps.settings import (
    EmbedMode,
    Settings,
    choose_embed,
    load_settings,
    masked,
    nearest,
    read_settings,
    require_embedder,
    unknown_variables,
)


def read(
    flags: Mapping[str, str | None] | None = None,
    environ: Mapping[str, str] | None = None,
    file: Mapping[str, str] | None = None,
    local: bool = False,
) -> Settings:
    return read_settings(flags or {}, environ or {}, file or {}, lambda: local)


def test_defaults() -> None:
    settings = read()
    assert (settings.db, settings.host, settings.port) == (Path(".titen/titen.db"), "127.0.0.1", 8787)
    assert (settings.embed_write_deadline_ms, settings.embed_read_deadline_ms) == (2_000, 1_000)
    assert settings.cors_origins == ()
    assert set(settings.origins.values()) == {"default"}


def test_a_flag_beats_a_variable_beats_the_file() -> None:
    file, environ, flags = {"port": "1"}, {"TITEN_PORT": "2"}, {"port": "3"}
    assert read(file=file).port == 1
    assert read(file=file, environ=environ).port == 2
    settings = read(flags, environ, file)
    assert (settings.port, settings.origins["port"]) == (3, "--port")


def test_an_empty_variable_counts_as_unset() -> None:
    assert read(environ={"TITEN_EMBED": "", "TITEN_PORT": " "}).port == 8787


@pytest.mark.parametrize(
    ("base_url", "local", "expected"),
    [
        ("http://x/v1", True, EmbedMode.ENDPOINT),
        ("http://x/v1", False, EmbedMode.ENDPOINT),
        (None, True, EmbedMode.LOCAL),
        (None, False, EmbedMode.OFF),
    ],
)
def test_where_vectors_come_from_by_default(base_url: str | None, local: bool, expected: EmbedMode) -> None:
    assert choose_embed(base_url, local_available=lambda: local) is expected
    environ = {} if base_url is None else {"TITEN_EMBED_BASE_URL": base_url}
    assert read(environ=environ, local=local).embed is expected


@pytest.mark.parametrize("mode", list(EmbedMode))
def test_a_named_source_of_vectors_is_taken_whatever_else_is_set(mode: EmbedMode) -> None:
    environ = {"TITEN_EMBED": mode.value, "TITEN_EMBED_BASE_URL": "http://x/v1"}
    assert read(environ=environ, local=True).embed is mode


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("TITEN_PORT", "70000", "0 to 65535"),
        ("TITEN_PORT", "８７", "0 to 65535"),
        ("TITEN_PORT", "-1", "0 to 65535"),
        ("TITEN_EMBED", "remote", "endpoint, local or off"),
        ("TITEN_EMBED_BASE_URL", "ftp://x", "http:// or https://"),
        ("TITEN_EMBED_DIMS", "0", "1 to 16384"),
        ("TITEN_EMBED_READ_DEADLINE_MS", "1s", "milliseconds"),
        ("TITEN_CORS_ORIGINS", "example.com", "https://app.example"),
    ],
)
def test_a_bad_value_names_the_variable_and_what_is_allowed(name: str, value: str, allowed: str) -> None:
    with pytest.raises(Fault) as raised:
        read(environ={name: value})
    assert raised.value.message.startswith(f"{name} must be ")
    assert allowed in raised.value.message
    assert raised.value.exit_code == 2


def test_a_bad_flag_is_named_as_a_flag() -> None:
    with pytest.raises(Fault, match=r"^--port must be"):
        read({"port": "x"})


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        ({"TITEN_EMBED": "endpoint"}, "TITEN_EMBED_BASE_URL"),
        ({"TITEN_EMBED_BASE_URL": "http://x/v1"}, "TITEN_EMBED_MODEL"),
        ({"TITEN_EMBED": "local"}, "titen\\[vps,local\\]"),
    ],
)
def test_an_embedder_that_cannot_be_made(environ: dict[str, str], words: str) -> None:
    with pytest.raises(Fault, match=words):
        require_embedder(read(environ=environ), local_available=lambda: False)


def test_a_bad_value_is_blamed_on_its_source() -> None:
    with pytest.raises(Fault, match=r"^--port must"):
        read(flags={"port": "x"})
    with pytest.raises(Fault, match=r"^TITEN_PORT must"):
        read(environ={"TITEN_PORT": "x"})
    with pytest.raises(Fault, match=r"^port in the settings file must"):
        read(file={"port": "x"})


def test_public_hosts() -> None:
    assert read(environ={"TITEN_PUBLIC_HOSTS": "Memory.example, b.example"}).public_hosts == (
        "memory.example",
        "b.example",
    )


@pytest.mark.parametrize("value", ["https://a.example", "a.example:443", "*", "a b", "a..b"])
def test_a_public_host_is_a_name(value: str) -> None:
    with pytest.raises(Fault, match=r"TITEN_PUBLIC_HOSTS must be names without port"):
        read(environ={"TITEN_PUBLIC_HOSTS": value})


def test_cors_origins() -> None:
    assert read(environ={"TITEN_CORS_ORIGINS": "https://a.example/, https://b.example"}).cors_origins == (
        "https://a.example",
        "https://b.example",
    )


def test_secrets_are_shown_as_a_mask_only() -> None:
    settings = read(
        environ={
            "TITEN_EMBED_API_KEY": "sk-secret",
            "TITEN_API_KEY": "titen_a_secret",
            "TITEN_EMBED_BASE_URL": "https://user:secret@host:9/v1?token=secret",
        }
    )
    shown = {each.name: each.value for each in masked(settings)}
    assert shown["TITEN_EMBED_API_KEY"] == shown["TITEN_API_KEY"] == "***"
    assert shown["TITEN_EMBED_BASE_URL"] == "https://***@host:9/v1"
    assert "secret" not in str(shown)
    assert "sk-secret" not in repr(settings)
    assert "titen_a_secret" not in repr(settings)


def test_unknown_variables_come_with_a_guess() -> None:
    environ = {"TITEN_EMBED_MODLE": "x", "TITEN_ZZZ": "y", "TITEN_CONFIG": "f", "TITEN_PORT": "1", "PATH": "z"}
    assert unknown_variables(environ) == {"TITEN_EMBED_MODLE": "TITEN_EMBED_MODEL", "TITEN_ZZZ": None}


def test_nearest() -> None:
    assert nearest("prot", {"port", "host"}) == "port"
    assert nearest("colour", {"port", "host"}) is None


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Settings]:
    """Load settings from a file with this text, and no variable of the developer's own."""
    for name in [name for name in os.environ if name.startswith("TITEN_")]:
        monkeypatch.delenv(name)

    def from_text(text: str, **flags: Any) -> Settings:
        path = tmp_path / "titen.toml"
        path.write_text(text, encoding="utf-8")
        return load_settings(flags, str(path))

    return from_text


def test_the_file_is_toml_with_lower_case_names(load: Callable[..., Settings]) -> None:
    settings = load('port = 9000\nembed = "off"\ncors_origins = ["https://a.example", "https://b.example"]\n')
    assert (settings.port, settings.embed, settings.origins["port"]) == (9000, EmbedMode.OFF, "file")
    assert settings.cors_origins == ("https://a.example", "https://b.example")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("prot = 1\n", "did you mean port"),
        ("port = \n", "is not TOML"),
        ("port = true\n", "port must be"),
        ("[embed]\nmode = 1\n", "embed must be"),
        ("port = 99999\n", "port in the settings file must be"),
    ],
)
def test_a_bad_file_is_one_sentence(load: Callable[..., Settings], text: str, words: str) -> None:
    with pytest.raises(Fault, match=words):
        load(text)


def test_a_file_that_is_missing() -> None:
    with pytest.raises(Fault, match=r"nowhere\.toml cannot be read"):
        load_settings({}, "nowhere.toml")
