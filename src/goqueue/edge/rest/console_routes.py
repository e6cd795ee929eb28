"""Routes that a page for people needs beyond the others: who asks, what settings mean, history, the audit log."""

from __future__ import annotations

from typing import Final
from urllib.parse import unquote

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from goqueue.api.console import AuditLineOut, AuditOut, SettingListOut, SettingOut, WhoOut
from goqueue.base.decoders import converted
from goqueue.base.errors import InvalidField
from goqueue.base.limits import AUDIT_LINES_READ_MAX, HISTORY_NAMES_MAX
from goqueue.base.topic_config import CONFIG_KEYS, TopicConfig
from goqueue.edge.rest.callers import caller_of
from goqueue.edge.rest.operations import Param, RestOperation, json
from goqueue.edge.rest.requests import Query
from goqueue.service.audit_trail import AuditTrail
from goqueue.service.front import Front
from goqueue.service.history import MINUTES_MAX, HistoryPage, NodeHistory

_POINTS_MAX: Final = 1_000
_HISTORY: Final = (
    Param("series", "Names with commas between, at most 64; a comma in a name is written `%2C`, a percent `%25`."),
    Param("prefix", "Also every series whose name begins with this."),
    Param("minutes", f"How far back, 1 to {MINUTES_MAX}; default 60.", "integer"),
    Param("points", f"At most so many points a series, 1 to {_POINTS_MAX}; default 360.", "integer"),
)
_AUDIT: Final = (
    Param("limit", f"At most this many lines, 1 to {AUDIT_LINES_READ_MAX:,}; default 100.", "integer"),
    Param("user", "Only this user's."),
    Param("event", "Only `change`, `read`, `refused` or `login`."),
    Param("text", "Only those with this in the verb, a resource or the outcome."),
)


class LoginRules(msgspec.Struct, frozen=True):
    """Whether the node wants to know who asks, and whether it asks rules. `node` is its number, if it is one of
    several."""

    authentication: bool
    authorization: bool
    node: int | None = None


class ConsoleRoutes:
    def __init__(self, history: Front[NodeHistory], audit: Front[AuditTrail], asking: LoginRules) -> None:
        self._history = history
        self._audit = audit
        self._asking = asking

    def operations(self) -> list[RestOperation]:
        return [
            RestOperation("GET", "/whoami", self.who, "Who asks, as the node sees it", "node", WhoOut),
            RestOperation(
                "GET", "/history", self.history, "The node's last hours", "node", HistoryPage, params=_HISTORY
            ),
            RestOperation(
                "GET", "/settings/topics", self.settings, "What settings of topics mean", "topics", SettingListOut
            ),
            RestOperation("GET", "/admin/audit", self.audit, "Read the audit log", "security", AuditOut, params=_AUDIT),
        ]

    async def who(self, request: Request) -> Response:
        Query(request)
        caller = caller_of(request)
        return json(WhoOut(caller.principal, caller.tenant, self._asking.authentication, self._asking.authorization))

    async def settings(self, request: Request) -> Response:
        Query(request)
        usual = msgspec.to_builtins(TopicConfig())
        return json(SettingListOut([SettingOut(name, str(usual[name]), key.doc) for name, key in CONFIG_KEYS.items()]))

    async def history(self, request: Request) -> Response:
        query = Query(request, *(one.name for one in _HISTORY))
        names = [unquote(one) for one in query.text("series", "").split(",") if one]
        if len(names) > HISTORY_NAMES_MAX:
            raise InvalidField(f"At most {HISTORY_NAMES_MAX} series at once.", field="series")
        minutes, points = query.number("minutes", 60, 1, MINUTES_MAX), query.number("points", 360, 1, _POINTS_MAX)
        history = self._history.by(caller_of(request))
        page = await history.read(names, query.text("prefix", ""), minutes, points)
        return json(msgspec.structs.replace(page, node=self._asking.node))

    async def audit(self, request: Request) -> Response:
        query = Query(request, *(one.name for one in _AUDIT))
        trail, limit = self._audit.by(caller_of(request)), query.number("limit", 100, 1, AUDIT_LINES_READ_MAX)
        found = await trail.page(limit, *(query.text(name, "") for name in ("user", "event", "text")))
        lines = [converted(msgspec.to_builtins(one), AuditLineOut) for one in found.lines]
        return json(AuditOut(lines, found.is_kept, found.silent))
