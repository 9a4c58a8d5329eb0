"""Every wrangler command line that provisioning and purging use, in one place."""

from collections.abc import Iterator, Sequence

from vps.cli.cloudflare.deployment import CONFIG, Deployment

__all__ = [
    "DIMENSIONS",
    "METRIC",
    "apply_migrations",
    "create_database",
    "create_index",
    "create_metadata_index",
    "delete_vectors",
    "deploy",
    "deployment_status",
    "describe_index",
    "list_databases",
    "list_indexes",
    "list_metadata_indexes",
    "view_version",
]

DIMENSIONS = 1024  # @cf/baai/bge-m3
METRIC = "cosine"
IDS_PER_COMMAND = 100

Command = tuple[str, ...]


def list_databases() -> Command:
    return ("d1", "list", "--json")


def create_database(deployment: Deployment) -> Command:
    return ("d1", "create", deployment.name)


def apply_migrations(deployment: Deployment) -> Command:
    return ("d1", "migrations", "apply", deployment.name, "--remote", "--config", CONFIG)


def list_indexes() -> Command:
    return ("vectorize", "list", "--json")


def create_index(deployment: Deployment) -> Command:
    return ("vectorize", "create", deployment.index, "--dimensions", str(DIMENSIONS), "--metric", METRIC)


def describe_index(deployment: Deployment) -> Command:
    return ("vectorize", "info", deployment.index, "--json")


def list_metadata_indexes(deployment: Deployment) -> Command:
    return ("vectorize", "list-metadata-index", deployment.index, "--json")


def create_metadata_index(deployment: Deployment, field: str, kind: str) -> Command:
    return ("vectorize", "create-metadata-index", deployment.index, "--propertyName", field, "--type", kind)


def deployment_status(deployment: Deployment) -> Command:
    return ("deployments", "status", "--name", deployment.name, "--json", "--config", CONFIG)


def view_version(deployment: Deployment, version_id: str) -> Command:
    return ("versions", "view", version_id, "--name", deployment.name, "--json", "--config", CONFIG)


def deploy(tag: str) -> Command:
    return ("deploy", "--config", CONFIG, "--tag", tag)


def delete_vectors(deployment: Deployment, ids: Sequence[str]) -> Iterator[Command]:
    """wrangler sends ids such as 12.10 as the text they are, not as numbers."""
    for start in range(0, len(ids), IDS_PER_COMMAND):
        yield ("vectorize", "delete-vectors", deployment.index, "--ids", *ids[start : start + IDS_PER_COMMAND])
