"""Who may do what: the only place that makes an `Access` from a `Principal`."""

import dataclasses

from titen_core.errors import Forbidden, HumanRequired
from titen_core.models import Access, Action, Actor, Principal, PrincipalKind, Role

__all__ = ["confine", "grant", "may_mint", "narrow"]

_RANK = {Role.READER: 0, Role.WRITER: 1, Role.ADMIN: 2}

_NEEDS = {
    Action.READ: Role.READER,
    Action.WRITE: Role.WRITER,
    Action.VERIFY: Role.WRITER,
    Action.EXPORT: Role.ADMIN,
    Action.IMPORT: Role.ADMIN,
    Action.KEYS: Role.ADMIN,
    Action.REPAIR: Role.ADMIN,
    Action.READINESS: Role.ADMIN,
}


def grant(principal: Principal, action: Action) -> Access:
    """What this principal may touch for this action. Raises Forbidden or HumanRequired."""
    needed = _NEEDS[action]
    if _RANK[principal.role] < _RANK[needed]:
        raise Forbidden(f"This needs a key with the role {needed}; yours is {principal.role}.")
    if action is Action.VERIFY and principal.kind is not PrincipalKind.HUMAN:
        raise HumanRequired("Only a human may verify a memory; use a key of a human principal.")
    return Access(
        tenant_id=principal.tenant_id,
        tenant_num=principal.tenant_num,
        subject_id=principal.subject_id,
        actor=Actor(principal.name, principal.kind),
        key_id=principal.key_id,
    )


def narrow(access: Access, subject_id: str | None) -> str | None:
    """The subject a request means: the one it names, or the key's own. Raises Forbidden for another's."""
    if access.subject_id is None or subject_id is None or subject_id == access.subject_id:
        return access.subject_id if subject_id is None else subject_id
    raise Forbidden("This key is locked to another subject; leave subject_id out to use the key's own.")


def confine(access: Access, subject_id: str | None) -> Access:
    """The access narrowed to the subject a request means, if it means one. Raises Forbidden as `narrow` does."""
    return dataclasses.replace(access, subject_id=narrow(access, subject_id))


def may_mint(
    principal: Principal, kind: PrincipalKind, role: Role, subject_id: str | None, expires_at_ms: int | None
) -> None:
    """Refuse a key stronger than its maker, or one that outlives it. Raises Forbidden or HumanRequired."""
    if kind is PrincipalKind.HUMAN and principal.kind is not PrincipalKind.HUMAN:
        raise HumanRequired("Only a human admin may make a key for a human principal.")
    if _RANK[role] > _RANK[principal.role]:
        raise Forbidden(f"A key of the role {principal.role} cannot make one of the role {role}.")
    if principal.subject_id is not None and subject_id != principal.subject_id:
        raise Forbidden("A key locked to a subject can only make keys locked to the same subject.")
    ends_at_ms = principal.expires_at_ms
    if ends_at_ms is not None and (expires_at_ms is None or expires_at_ms > ends_at_ms):
        raise Forbidden(f"Your own key or token ends at {ends_at_ms}; send an expires_at no later than that.")
