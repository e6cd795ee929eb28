"""Settings of who may come in and do what, and of TLS."""

from __future__ import annotations

import ipaddress
from typing import Annotated, Final, Literal

import msgspec

from goqueue.base.limits import MIB

Doc = msgspec.Meta
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")


class DoorTls(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Base of a door's section. What is empty is as `[security]` says."""

    tls_cert_file: Annotated[
        str, Doc(description="Certificate of this door; empty means `security.tls_cert_file`, `off` no TLS here.")
    ] = ""
    tls_key_file: Annotated[str, Doc(description="Its key; empty means `security.tls_key_file`.")] = ""
    tls_client_ca_file: Annotated[
        str, Doc(description="Who signs clients' certificates; empty means `security.tls_client_ca_file`.")
    ] = ""
    tls_client_auth: Annotated[
        Literal["inherit", "none", "optional", "required"],
        Doc(description="Whether clients show certificates; `inherit` means `security.tls_client_auth`."),
    ] = "inherit"


class SecuritySettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    authentication: Annotated[
        Literal["none", "required"],
        Doc(description="Whether clients have to show who they are. Without, only this machine can be listened to."),
    ] = "none"
    insecure: Annotated[
        Literal["off", "on"],
        Doc(description="`on` lets the node listen to other machines without authentication."),
    ] = "off"
    mechanisms: Annotated[
        str,
        Doc(description="What Kafka's clients may show, with commas between; OAUTHBEARER needs `security.oauth_keys`."),
    ] = "plain,scram-sha-256,scram-sha-512,oauthbearer"
    authorization: Annotated[
        Literal["off", "acl"],
        Doc(
            description="`acl` asks the rules of access control for everything that a caller does; `off` asks nothing."
        ),
    ] = "off"
    super_users: Annotated[
        str, Doc(description="Users that may do everything, whatever the rules say; names with commas between them.")
    ] = ""
    bootstrap_file: Annotated[
        str,
        Doc(description="A file of lines `user:password`: at a start, those that do not exist yet are made."),
    ] = ""
    key_file: Annotated[
        str,
        Doc(
            description="A file of at least 32 bytes, the same at all nodes, that secrets of keys that sign (for SQS) "
            "are made from; empty means a seed in the metadata."
        ),
    ] = ""
    session_ms: Annotated[
        int,
        Doc(ge=0, description="Kafka's clients have to show who they are again after this long; 0 means never."),
    ] = 0
    clock_skew_ms: Annotated[
        int, Doc(ge=1_000, description="How far the time in a signed request may be from the node's.")
    ] = 300_000
    certificate_name: Annotated[
        Literal["cn", "subject", "san"],
        Doc(
            description="Which part of a client's certificate is its name: the common name, the whole subject, or the "
            "first alternative name."
        ),
    ] = "cn"
    certificate_pattern: Annotated[
        str,
        Doc(description="A regular expression that this part has to match whole; its first group is the name."),
    ] = ""
    oauth_keys: Annotated[str, Doc(description="Keys of the issuer of signed tokens (JWKS): a file, or a URL.")] = ""
    oauth_issuer: Annotated[str, Doc(description="What `iss` of a token has to be.")] = ""
    oauth_audience: Annotated[str, Doc(description="What `aud` of a token has to be, or hold.")] = ""
    oauth_claim: Annotated[str, Doc(description="The claim of a token that names its bearer.")] = "sub"
    tls_cert_file: Annotated[
        str,
        Doc(
            description="Certificate of all doors, with those between it and its authority, PEM; read again when it "
            "changes. Empty means no TLS."
        ),
    ] = ""
    tls_key_file: Annotated[str, Doc(description="Its key, PEM.")] = ""
    tls_client_ca_file: Annotated[str, Doc(description="Certificates of who signs clients' certificates, PEM.")] = ""
    tls_client_auth: Annotated[
        Literal["none", "optional", "required"],
        Doc(description="Whether clients show certificates; one that is shown names the client."),
    ] = "none"

    audit_log: Annotated[
        str,
        Doc(
            description="File that gets a line for each refusal, each change and each look of an administrator at "
            "messages; empty means none."
        ),
    ] = ""
    audit_log_bytes: Annotated[
        int, Doc(ge=4096, description="Size at which that file is moved aside and a new one begins; five are kept.")
    ] = 64 * MIB

    @property
    def super_user_names(self) -> frozenset[str]:
        return frozenset(name for part in self.super_users.split(",") if (name := part.strip().removeprefix("User:")))

    @property
    def is_on(self) -> bool:
        return self.authentication == "required"

    def mistakes(self) -> list[str]:
        """What is wrong with them, for people."""
        wrong = [one for one in self.mechanism_names if one not in MECHANISMS]
        return [f"security.mechanisms: there is no {one}; use {', '.join(MECHANISMS)}" for one in wrong]

    @property
    def mechanism_names(self) -> list[str]:
        """Those that are offered, as Kafka writes them."""
        named = [one.strip().upper() for one in self.mechanisms.split(",") if one.strip()]
        return [one for one in named if one != "OAUTHBEARER" or self.oauth_keys]


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach it."""
    if host.lower() == "localhost" or host.lower().endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
