"""What an administrator can set for one group, under Kafka's names. What is not set follows the node's settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from goqueue.base.errors import InvalidConfig, InvalidGroup, Overloaded
from goqueue.base.limits import GROUP_CONFIG_NAME_CHARS_MAX, GROUP_CONFIGS_MAX
from goqueue.core.groups.settings import GroupSettings

SESSION: Final = "consumer.session.timeout.ms"
HEARTBEAT: Final = "consumer.heartbeat.interval.ms"
GROUP_KEYS: Final[Mapping[str, str]] = {
    SESSION: "How long a member of the server-side protocol may be silent before it is removed.",
    HEARTBEAT: "How often a member of the server-side protocol reports.",
}


def group_defaults(settings: GroupSettings) -> dict[str, str]:
    """What holds for groups that nobody configured."""
    return {SESSION: str(settings.session_ms), HEARTBEAT: str(settings.heartbeat_ms)}


def with_config(settings: GroupSettings, config: Mapping[str, str]) -> GroupSettings:
    """The settings of one group."""
    chosen = {**group_defaults(settings), **config}
    return replace(settings, session_ms=int(chosen[SESSION]), heartbeat_ms=int(chosen[HEARTBEAT]))


def changed_config(
    group: str, before: Mapping[str, str], changes: Mapping[str, str | None], settings: GroupSettings
) -> dict[str, str]:
    """What is set after the changes (None takes a value back), or an error that says what is wrong with them."""
    if not group:
        raise InvalidGroup("The group has no name; give it one.", field="group")
    if len(group) > GROUP_CONFIG_NAME_CHARS_MAX:
        raise InvalidGroup(f"Groups with names over {GROUP_CONFIG_NAME_CHARS_MAX} characters have no settings.")
    after = {key: text for key, text in before.items() if key not in changes}
    for key, text in changes.items():
        if text is not None:
            after[key] = str(_number(key, text))
    chosen = with_config(settings, after)
    if not settings.session_ms_min <= chosen.session_ms <= settings.session_ms_max:
        limits = f"from {settings.session_ms_min} to {settings.session_ms_max}"
        raise InvalidConfig(f"{SESSION} must be {limits}, not {chosen.session_ms}.", field=SESSION)
    if not 1 <= chosen.heartbeat_ms < chosen.session_ms:
        raise InvalidConfig(f"{HEARTBEAT} must be at least 1 and less than {SESSION}.", field=HEARTBEAT)
    return after


def check_room(configured: int) -> None:
    if configured >= GROUP_CONFIGS_MAX:
        raise Overloaded(f"{GROUP_CONFIGS_MAX} groups have settings of their own; delete some first.")


def _number(key: str, text: str) -> int:
    if key not in GROUP_KEYS:
        raise InvalidConfig(f"Unknown group config name: {key}. Known are {', '.join(GROUP_KEYS)}.", field=key)
    if not text.strip().isascii() or not text.strip().isdecimal() or len(text) > 10:
        raise InvalidConfig(f"Invalid value {text[:40]} for configuration {key}: Not a number of type INT.", field=key)
    return int(text)
