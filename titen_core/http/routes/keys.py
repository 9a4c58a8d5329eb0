"""`/v1/keys` and `/v1/principal`: who may call."""

from titen_core import keys
from titen_core.content import clean_label, clean_name
from titen_core.http.routing import Answer, Call, Route
from titen_core.http.schemas.answers import KeyOut, NewKeyOut, PrincipalOut
from titen_core.http.schemas.requests import KeyBody
from titen_core.http.views import key_view, principal_view
from titen_core.models import Action, Principal

__all__ = ["ROUTES"]


async def create_key(call: Call) -> Answer:
    body = call.body
    request = keys.KeyRequest(
        principal=clean_name("principal", body.principal),
        kind=body.kind,
        role=body.role,
        subject_id=None if body.subject_id is None else clean_name("subject_id", body.subject_id),
        label=clean_label("label", body.label),
        expires_at_ms=body.expires_at,
    )
    minted = await keys.create_key(call.kernel, _principal(call), call.granted(), request)
    return Answer({**key_view(minted.key), "api_key": minted.api_key}, 201)


async def list_keys(call: Call) -> Answer:
    return Answer([key_view(key) for key in await keys.list_keys(call.kernel, call.granted())])


async def revoke_key(call: Call) -> Answer:
    return Answer(key_view(await keys.revoke_key(call.kernel, call.granted(), call.params["id"])))


async def show_principal(call: Call) -> Answer:
    return Answer(principal_view(_principal(call)))


def _principal(call: Call) -> Principal:
    if call.principal is None:
        raise AssertionError("This route's action needs a key.")
    return call.principal


ROUTES = (
    Route(
        "POST",
        "/v1/keys",
        Action.KEYS,
        create_key,
        "Make an API key, never stronger than your own. Its secret is shown this once.",
        answer=NewKeyOut,
        body=KeyBody,
        statuses=(201,),
        errors=(429,),
    ),
    Route("GET", "/v1/keys", Action.KEYS, list_keys, "List API keys, without secrets.", answer=KeyOut, many=True),
    Route(
        "DELETE",
        "/v1/keys/{id}",
        Action.KEYS,
        revoke_key,
        "Revoke an API key at once.",
        answer=KeyOut,
        errors=(404,),
    ),
    Route("GET", "/v1/principal", Action.READ, show_principal, "Who this key is.", answer=PrincipalOut),
)
