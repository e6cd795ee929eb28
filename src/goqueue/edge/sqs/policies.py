"""The two policies of dead letters (who sends them where, who may), and the labels of shared access."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from goqueue.base.commands import Caller
from goqueue.base.decoders import from_json
from goqueue.drive.topic_table import Topic
from goqueue.edge.sqs.attributes import invalid_attribute, is_fifo, kept_of
from goqueue.edge.sqs.errors import SqsError, invalid, invalid_value
from goqueue.edge.sqs.names import FIFO, Arns
from goqueue.service.front import Front
from goqueue.service.topics import Topics

RECEIVES_MAX: Final = 1_000
SOURCES_MAX: Final = 10
_ACTIONS_MAX: Final = 7
_SHAREABLE: Final = frozenset(
    {
        "*",
        "ChangeMessageVisibility",
        "DeleteMessage",
        "GetQueueAttributes",
        "GetQueueUrl",
        "ListDeadLetterSourceQueues",
        "PurgeQueue",
        "ReceiveMessage",
        "SendMessage",
    }
)


class RedrivePolicy(msgspec.Struct, frozen=True):
    """A RedrivePolicy: after so many receives to that topic."""

    topic: str
    receives_max: int

    def config(self) -> dict[str, object]:
        return {
            "queue.dead.letter.topic": self.topic,
            "queue.max.deliveries": self.receives_max,
            "queue.max.failures": 0,
        }


NO_REDRIVE: Final[dict[str, object | None]] = {"queue.dead.letter.topic": None, "queue.max.deliveries": 0}


class Policies:
    """Reads and checks them."""

    def __init__(self, topics: Front[Topics], arns: Arns) -> None:
        self._topics = topics
        self._arns = arns

    # --- redrive -----------------------------------------------------------------------------------------

    def redrive(self, caller: Caller, text: str, source: str) -> RedrivePolicy:
        """A RedrivePolicy as the owner of `source` gives it."""
        policy = _object(text, "RedrivePolicy")
        for name in ("deadLetterTargetArn", "maxReceiveCount"):
            if policy.get(name) in (None, ""):
                reason = f"Redrive policy does not contain mandatory attribute: {name}."
                raise invalid_value(text, "RedrivePolicy", reason)
        if extra := sorted(set(policy) - {"deadLetterTargetArn", "maxReceiveCount"}):
            reason = f"Only following attributes are supported: [deadLetterTargetArn, maxReceiveCount], not {extra[0]}."
            raise invalid_value(text, "RedrivePolicy", reason)
        return RedrivePolicy(self._target(caller, text, policy["deadLetterTargetArn"], source), _receives(text, policy))

    def _target(self, caller: Caller, text: str, arn: object, source: str) -> str:
        name = self._arns.name(str(arn))
        if name is None:
            raise invalid_value(text, "RedrivePolicy", "Invalid value for deadLetterTargetArn.")
        target = self._topics.by(caller).find(name)
        if target is None or target.is_internal:
            raise invalid_value(text, "RedrivePolicy", "Dead letter target does not exist.")
        if is_fifo(target) != source.endswith(FIFO):
            raise invalid_value(text, "RedrivePolicy", "Dead-letter queue must be same type of queue as the source.")
        if not self._allows(target, source):
            reason = "Dead-letter queue does not allow this queue to be its source (RedriveAllowPolicy)."
            raise invalid_value(text, "RedrivePolicy", reason)
        return name

    def _allows(self, target: Topic, source: str) -> bool:
        text = kept_of(target).attributes.get("RedriveAllowPolicy")
        if not text:
            return True
        policy = _object(text, "RedriveAllowPolicy")
        if policy.get("redrivePermission") == "byQueue":
            return source in [self._arns.name(arn) for arn in policy.get("sourceQueueArns", [])]
        return policy.get("redrivePermission") != "denyAll"

    def redrive_of(self, topic: Topic) -> RedrivePolicy | None:
        """The RedrivePolicy that holds; None if messages may be received for ever."""
        config = topic.config
        if config.queue_max_deliveries <= 0:
            return None
        return RedrivePolicy(config.queue_dead_letter_topic or f"{topic.name}.dlq", config.queue_max_deliveries)

    def redrive_text(self, topic: Topic) -> str | None:
        redrive = self.redrive_of(topic)
        if redrive is None:
            return None
        policy = {"deadLetterTargetArn": self._arns.of(redrive.topic), "maxReceiveCount": redrive.receives_max}
        return msgspec.json.encode(policy).decode()

    def sources(self, caller: Caller, target: str) -> list[str]:
        """The queues whose dead letters go there."""
        held = ((topic.name, self.redrive_of(topic)) for topic in self._topics.by(caller).all())
        return [name for name, redrive in held if redrive is not None and redrive.topic == target]

    # --- redrive allow -----------------------------------------------------------------------------------

    def check_allow(self, text: str) -> str:
        policy = _object(text, "RedriveAllowPolicy")
        permission, arns = policy.get("redrivePermission"), policy.get("sourceQueueArns")
        if permission not in ("allowAll", "denyAll", "byQueue"):
            raise invalid_attribute("RedriveAllowPolicy", "redrivePermission is allowAll, denyAll or byQueue.")
        if (permission == "byQueue") != (arns is not None):
            raise invalid_attribute("RedriveAllowPolicy", "sourceQueueArns goes with byQueue, and only with it.")
        if arns is not None and not _are_arns(arns):
            raise invalid_attribute("RedriveAllowPolicy", f"sourceQueueArns is a list of 1 to {SOURCES_MAX} ARNs.")
        return text

    # --- permissions -------------------------------------------------------------------------------------

    def with_label(self, topic: Topic, label: str, accounts: list[str], actions: list[str]) -> str:
        """The queue's policy with one more statement. It is kept and shown; nothing is enforced by it."""
        if len(actions) > _ACTIONS_MAX:
            raise SqsError("OverLimit", f"{len(actions)} Actions were found, maximum allowed is {_ACTIONS_MAX}.")
        for action in actions:
            if action not in _SHAREABLE:
                reason = "Please refer to the appropriate WSDL for a list of valid actions. "
                raise invalid_value(f"SQS:{action}", "ActionName", reason)
        policy = self._policy(topic)
        if any(one.get("Sid") == label for one in policy["Statement"]):
            raise invalid_value(label, "Label", "Already exists.")
        principals = [f"arn:aws:iam::{account}:root" for account in accounts]
        named = [f"SQS:{action}" for action in actions]
        policy["Statement"].append(
            {
                "Sid": label,
                "Effect": "Allow",
                "Principal": {"AWS": principals[0] if len(principals) == 1 else principals},
                "Action": named[0] if len(named) == 1 else named,
                "Resource": self._arns.of(topic.name),
            }
        )
        return msgspec.json.encode(policy).decode()

    def without_label(self, topic: Topic, label: str) -> str:
        """The policy without that statement; empty if none is left."""
        policy = self._policy(topic)
        left = [one for one in policy["Statement"] if one.get("Sid") != label]
        if len(left) == len(policy["Statement"]):
            raise invalid_value(label, "Label", "can't find label.")
        return msgspec.json.encode(policy | {"Statement": left}).decode() if left else ""

    def _policy(self, topic: Topic) -> dict[str, Any]:
        text = kept_of(topic).attributes.get("Policy")
        if text:
            policy = _object(text, "Policy")
            statements = policy.get("Statement")
            if isinstance(statements, list) and all(isinstance(one, dict) for one in statements):
                return policy
            raise invalid("The queue's policy has no list of statements; set it anew with SetQueueAttributes.")
        return {"Version": "2008-10-17", "Id": f"{self._arns.of(topic.name)}/SQSDefaultPolicy", "Statement": []}


def _object(text: str, name: str) -> dict[str, Any]:
    try:
        return from_json(text, dict[str, Any])
    except (msgspec.DecodeError, RecursionError):
        if name == "RedrivePolicy":
            raise invalid_value(text, name, "Redrive policy is not a valid JSON map.") from None
        raise invalid_attribute(name) from None


def _receives(text: str, policy: dict[str, Any]) -> int:
    given = policy["maxReceiveCount"]
    number = int(given) if not isinstance(given, bool) and str(given).isdecimal() and len(str(given)) < 6 else 0
    if not 1 <= number <= RECEIVES_MAX:
        reason = (
            f"Invalid value for maxReceiveCount: {given}, valid values are from 1 to {RECEIVES_MAX} both inclusive."
        )
        raise invalid_value(text, "RedrivePolicy", reason)
    return number


def _are_arns(arns: object) -> bool:
    if not isinstance(arns, list) or not 1 <= len(arns) <= SOURCES_MAX:
        return False
    return all(isinstance(arn, str) and Arns.name(arn) is not None for arn in arns)
