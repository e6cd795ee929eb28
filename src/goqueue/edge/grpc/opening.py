"""The door's life, also where the packages that it needs are not installed: then it stays shut, and says so."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from goqueue.base.settings import Settings, parse_address
from goqueue.edge.doors import Address
from goqueue.service.cluster_view import ClusterView

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from goqueue.base.access import Access
    from goqueue.edge.grpc.door import GrpcVerbs
    from goqueue.edge.grpc.server import GrpcServer
    from goqueue.edge.grpc.serving import Serving
    from goqueue.edge.security.http_login import HttpLogin
    from goqueue.edge.security.tls import TlsContext

logger = logging.getLogger(__name__)

MISSING: Final = "off (needs pip install 'goqueue[grpc]')"


class GrpcDoor:
    """`bind` before the other nodes are told of this one, `start` when the broker runs."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._server: GrpcServer | None = None
        self._serving: Serving | None = None
        self.shown = "off"

    def bind(self, tls: TlsContext | None, is_shared: bool = False) -> Address | None:
        """`AddressUnusable` if the address is taken; None if the door stays shut. With `is_shared` other processes
        listen there too."""
        address = parse_address(self._settings.grpc.listen)
        if address is None:
            return None
        try:
            from goqueue.edge.grpc import door as _  # noqa: F401
            from goqueue.edge.grpc.server import GrpcServer
        except ModuleNotFoundError as error:
            self.shown = MISSING
            logger.info("gRPC's door stays shut: the package %s is missing", error.name)
            return None
        self._server = GrpcServer(self._settings.grpc, address, tls, is_shared)
        self.shown = str(self._server)
        return self._server.address

    async def start(
        self, verbs: GrpcVerbs, access: Access | None, cluster: ClusterView, login: HttpLogin | None, app: ASGIApp
    ) -> None:
        """`app` answers what comes as a request of the REST API."""
        if self._server is None:
            return
        from goqueue.edge.grpc.door import grpc_methods
        from goqueue.edge.grpc.serving import Serving

        settings, by_subject = self._settings, self._settings.security.certificate_name == "subject"
        self._serving = Serving(
            settings.grpc, settings.rest.poll_ms_max, verbs.metrics, login, by_subject, verbs.client_quotas
        )
        methods = grpc_methods(verbs, access, cluster, self._settings.transactions, app)
        await self._server.start(self._serving.handlers(methods))

    async def stop(self) -> None:
        if self._serving is not None:
            self._serving.stop()
        if self._server is not None:
            await self._server.stop(self._settings.rest.drain_ms)
