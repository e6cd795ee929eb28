"""A verb's arguments and its answer as bytes: by the types that the verb declares, so that nothing else is decoded."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, get_args, get_origin, get_type_hints

import msgspec

from goqueue.base.commands import OnceResult, PublishResult
from goqueue.base.encoding import decode, decode_once_results, decode_results, encode
from goqueue.base.metadata import Revision

_NOTHING: Final = encode(None)
# What cannot be told apart by its declared type has a decoder of its own.
_ANSWERS: Final[Mapping[Any, Callable[[bytes], Any]]] = {
    list[PublishResult]: decode_results,
    list[OnceResult]: decode_once_results,
}


class PeerCall(msgspec.Struct, frozen=True, array_like=True):
    """A verb of a service, for another node. `args` are decoded by whoever knows the verb."""

    revision: Revision  # the last write of the metadata that the caller has heard of
    service: str
    verb: str
    args: msgspec.Raw


class VerbCodec:
    """Of one verb. What is passed beside a command (an interrupt) stays behind: it has no bytes."""

    def __init__(self, verb: Callable[..., Any]) -> None:
        hints = get_type_hints(verb)
        parameters = list(inspect.signature(verb).parameters.values())[1:]
        self._signature = inspect.Signature(parameters)
        self._sent = [one.name for one in parameters if not _is_beside(hints[one.name])]
        self._args: Any = tuple.__class_getitem__(tuple(hints[name] for name in self._sent))
        self._answer: Any = hints["return"]

    def encode_args(self, args: Sequence[Any], named: Mapping[str, Any]) -> bytes:
        bound = self._signature.bind(*args, **named)
        bound.apply_defaults()
        return encode([bound.arguments[name] for name in self._sent])

    def decode_args(self, data: bytes) -> dict[str, Any]:
        """By name; `msgspec.DecodeError` if they are none of this verb."""
        values: Sequence[Any] = decode(data, self._args) if self._sent else ()
        return dict(zip(self._sent, values, strict=True))

    def decode_answer(self, data: bytes) -> Any:
        if self._answer is type(None):
            return None
        known = _ANSWERS.get(self._answer)
        return decode(data, self._answer) if known is None else known(data)


_codecs: Final[dict[tuple[type, str], VerbCodec]] = {}


def _is_beside(hint: Any) -> bool:
    kinds = get_args(hint) if get_origin(hint) is not None and type(None) in get_args(hint) else (hint,)
    return any(get_origin(kind) is asyncio.Future or kind is asyncio.Future for kind in kinds)


def codec_of(service: type, verb: str) -> VerbCodec:
    found = _codecs.get((service, verb))
    if found is None:
        found = _codecs[service, verb] = VerbCodec(getattr(service, verb))
    return found


def encode_call(revision: Revision, service: type, verb: str, args: Sequence[Any], named: Mapping[str, Any]) -> bytes:
    encoded = msgspec.Raw(codec_of(service, verb).encode_args(args, named))
    return encode(PeerCall(revision, service.__name__, verb, encoded))


def encode_answer(answer: Any) -> bytes:
    return _NOTHING if answer is None else encode(answer)
