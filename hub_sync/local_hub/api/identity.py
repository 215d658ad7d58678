"""Who asks, and what they may do."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from .. import web
from ..errors import HubError


def whoami(request: Request) -> Response:
    """`GET /api/whoami-v2`."""
    who = web.caller(request)
    if who.user is None:
        raise HubError(401, "Invalid username or password.")
    with web.store(request).database.read() as db:
        user = db.execute("SELECT * FROM users WHERE name = ?", (who.user,)).fetchone()
        orgs = [db.execute("SELECT * FROM users WHERE name = ?", (name,)).fetchone() for name in sorted(who.orgs)]
    return web.answer(
        {
            "type": "user",
            "id": user["name"],
            "name": user["name"],
            "fullname": user["fullname"],
            "email": user["email"] or None,
            "emailVerified": True,
            "canPay": False,
            "isPro": False,
            "orgs": [
                {
                    "type": "org",
                    "id": org["name"],
                    "name": org["name"],
                    "fullname": org["fullname"],
                    "roleInOrg": "admin",
                }
                for org in orgs
            ],
            "auth": {"type": "access_token", "accessToken": {"displayName": "token", "role": who.role}},
        }
    )


def auth_check(request: Request) -> Response:
    """`GET auth-check[/write]`: an error where the caller may not read (or change) the repository's files."""
    web.repo(request, files=True, write=request.url.path.endswith("/auth-check/write"))
    return web.answer({})


routes = [
    Route("/api/whoami-v2", whoami),
    Route("/api/{kind}/{namespace}/{name}/auth-check", auth_check),
    Route("/api/{kind}/{namespace}/{name}/auth-check/write", auth_check),
]
