"""Every text in arguments and answers of verbs is known to be a name, or not to be one."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any, get_args, get_type_hints

import msgspec
import pytest

from goqueue.base.commands import PublishMessages
from goqueue.base.errors import UnknownTopic
from goqueue.base.leases import parse_receipt
from goqueue.core.schemas.table import SchemaVersion
from goqueue.service.acls import Acls
from goqueue.service.admission import ADMISSION
from goqueue.service.asking import Attribute, Viewed
from goqueue.service.audit_trail import AuditTrail
from goqueue.service.backups import Backups
from goqueue.service.cluster_view import ClusterView
from goqueue.service.credentials import Credentials
from goqueue.service.history import NodeHistory
from goqueue.service.metrics_page import MetricsPage
from goqueue.service.node_config import NodeConfig
from goqueue.service.quotas import Quotas
from goqueue.service.reassignment import Reassignments
from goqueue.service.share_offsets import ShareOffsets
from goqueue.service.sharing import Sharing
from goqueue.service.storage import Storage
from goqueue.service.tenant_names import NAME_ANSWERS, PLAIN, TenantNames, changed_by, holds_text
from goqueue.service.tenants import Tenants
from goqueue.service.traces import TraceStats
from goqueue.service.visible_schemas import VisibleSchemas

# Operators' alone, Kafka's alone (which translates its messages), and shown by views of their own.
OTHERS = {Acls, ClusterView, Credentials, NodeConfig, Quotas, Reassignments, Storage, Tenants, MetricsPage}
OTHERS |= {AuditTrail, Backups, NodeHistory}
KAFKAS = {Sharing, ShareOffsets}
KAFKAS_VERBS = {"join", "sync", "heartbeat", "leave", "consumer_heartbeat", "share_heartbeat", "commit", "offsets"}
# Verbs whose answer is text that is no name.
PLAIN_ANSWERS = {"new_member_id", "config", "config_defaults", "text", "id_of_guid", "check_config"}


def verbs() -> Iterator[tuple[type, str]]:
    for service, rules in ADMISSION.items():
        for name, rule in rules.items():
            is_kafkas = service in KAFKAS or (service.__name__ == "Groups" and name in KAFKAS_VERBS)
            is_verb = inspect.isfunction(inspect.getattr_static(service, name, None))
            if is_verb and service not in OTHERS and not is_kafkas and not isinstance(rule, Attribute | Viewed):
                yield service, name
    for name, one in vars(VisibleSchemas).items():
        if inspect.isfunction(one) and not name.startswith("_"):
            yield VisibleSchemas, name


def unknown_in(owner: str, field: str, hint: Any, seen: tuple[type, ...] = ()) -> Iterator[str]:
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        if hint not in seen and hint is not TraceStats:
            for name, inner in get_type_hints(hint).items():
                yield from unknown_in(hint.__name__, name, inner, (*seen, hint))
        return
    has_struct = any(isinstance(one, type) and issubclass(one, msgspec.Struct) for one in get_args(hint))
    is_known = field in PLAIN or changed_by(owner, field, hint) not in ("", "anything")
    if holds_text(hint) and not is_known and not has_struct:
        yield f"{owner}.{field}"
    for one in get_args(hint):
        if one is not str:
            yield from unknown_in(owner, field, one, seen)


@pytest.mark.parametrize(("service", "name"), [*verbs()])
def test_every_text_is_translated_or_known_to_be_no_name(service: type, name: str) -> None:
    hints = get_type_hints(getattr(service, name))
    answer = hints.pop("return")
    unknown = {text for field, hint in hints.items() for text in unknown_in(service.__name__, field, hint)}
    if name not in NAME_ANSWERS | PLAIN_ANSWERS:
        unknown |= set(unknown_in(service.__name__, "", answer))
    unknown = {one for one in unknown if not one.startswith(("Reference.name", "Take.owner", "Span.", "Check."))}
    assert not unknown, "a text that may be a name: service/tenant_names.py has to know it"


def test_names_go_in_and_come_out_again() -> None:
    inward, outward = TenantNames("a", is_inward=True), TenantNames("a", is_inward=False)
    command = inward.anything(PublishMessages("orders", []))
    assert command.topic == "a~orders" and outward.anything(command).topic == "orders"
    (receipt,) = inward.receipts(["orders:0:7:1:n"])
    assert parse_receipt(receipt).topic == "a~orders" and outward.receipts(receipt) == "orders:0:7:1:n"
    assert outward.names([("a~orders", [0, 1])]) == [("orders", [0, 1])]
    assert outward.name("b~orders") == "" and outward.name("orders") == ""
    assert inward.name("b~orders") == "a~b~orders"
    assert inward.config({"queue.dead.letter.topic": "b~x", "retention.ms": "1"}) == {
        "queue.dead.letter.topic": "a~b~x",
        "retention.ms": "1",
    }
    assert inward.required("") == "a~" and outward.required("a~") == ""
    held = SchemaVersion("a~s", 1, 1, False)
    assert outward.anything([held])[0].subject == "s"


def test_errors_are_told_without_the_prefix_and_keep_their_kind() -> None:
    told = TenantNames("a", is_inward=False).error(
        UnknownTopic("No topic 'a~orders'.", field="topic", topic="a~orders")
    )
    assert isinstance(told, UnknownTopic)
    assert (told.message, told.field, told.detail, str(told)) == (
        "No topic 'orders'.",
        "topic",
        {"topic": "orders"},
        "No topic 'orders'.",
    )
