"""What of a page of metrics somebody of a tenant is shown."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from goqueue.base.commands import Caller
from goqueue.base.tenants import is_within
from goqueue.service.metrics_page import MetricsPage, MetricsText
from goqueue.service.tenant_views import TenantMetrics

PAGE = (
    "# HELP lag How far.\n# TYPE lag gauge\n"
    'lag{group="b~g",topic="b~t"} 1\nlag{group="a~g\u2028\r lag",topic="a~t"} 2\nlag{group="a~g",topic="b~t"} 3\n'
    "# HELP up Of the node.\n# TYPE up gauge\nup 1\n# EOF\n"
)


class Page:
    async def text(self, accept: str = "") -> MetricsText:
        return MetricsText(PAGE.encode(), "text/plain")


class Rules:
    def allows(self, caller: Caller, operation: object, resource: Any) -> bool:
        return is_within(caller.tenant, resource.name)


def test_series_of_others_are_left_out_and_names_are_the_tenants() -> None:
    caller = Caller("anna", "rest", "", "a")
    shown = asyncio.run(TenantMetrics(cast(MetricsPage, Page()), cast(Any, Rules()), caller).text())
    assert shown.text.decode() == (
        '# HELP lag How far.\n# TYPE lag gauge\nlag{group="g\u2028\r lag",topic="t"} 2\n# EOF\n'
    )
