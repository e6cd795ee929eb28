"""What an administrator can set for one group, under Kafka's names. What is not set follows the node's settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from goqueue.base.errors import InvalidConfig, InvalidGroup, Overloaded
from goqueue.base.limits import GROUP_CONFIG_NAME_CHARS_MAX, GROUP_CONFIGS_MAX
from goqueue.core.groups import share_config as share
from goqueue.core.groups.settings import GroupSettings

SESSION: Final = "consumer.session.timeout.ms"
HEARTBEAT: Final = "consumer.heartbeat.interval.ms"
GROUP_KEYS: Final[Mapping[str, str]] = {
    SESSION: "How long a member of the server-side protocol may be silent before it is removed.",
    HEARTBEAT: "How often a member of the server-side protocol reports.",
    **share.SHARE_KEYS,
}


def group_defaults(settings: GroupSettings) -> dict[str, str]:
    """What holds for groups that nobody configured."""
    session, heartbeat = str(settings.session_ms), str(settings.heartbeat_ms)
    return {
        SESSION: session,
        HEARTBEAT: heartbeat,
        share.SESSION: session,
        share.HEARTBEAT: heartbeat,
        **share.SHARE_DEFAULTS,
    }


def with_config(settings: GroupSettings, config: Mapping[str, str]) -> GroupSettings:
    """The settings of one group."""
    chosen = {**group_defaults(settings), **config}
    return replace(
        settings,
        session_ms=int(chosen[SESSION]),
        heartbeat_ms=int(chosen[HEARTBEAT]),
        share_session_ms=int(chosen[share.SESSION]),
        share_heartbeat_ms=int(chosen[share.HEARTBEAT]),
    )


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
            after[key] = share.checked_word(key, text) if key in share.WORDS else str(_number(key, text))
    chosen = {key: int(text) for key, text in {**group_defaults(settings), **after}.items() if key not in share.WORDS}
    for session, heartbeat in ((SESSION, HEARTBEAT), (share.SESSION, share.HEARTBEAT)):
        if not settings.session_ms_min <= chosen[session] <= settings.session_ms_max:
            limits = f"from {settings.session_ms_min} to {settings.session_ms_max}"
            raise InvalidConfig(f"{session} must be {limits}, not {chosen[session]}.", field=session)
        if not 1 <= chosen[heartbeat] < chosen[session]:
            raise InvalidConfig(f"{heartbeat} must be at least 1 and less than {session}.", field=heartbeat)
    share.check_ranges(after)
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
