"""Why a node, or a command beside it, does not start."""

from __future__ import annotations

from goqueue.base.errors import Startup


class TooFewDescriptors(Startup):
    """The system lets the node open fewer files and connections than it needs."""


class SettingsInvalid(Startup):
    """One or more settings are unreadable; `detail["mistakes"]` lists them all."""


class WrongSecret(Startup):
    """The other nodes of the cluster do not let this one in: it has another secret, or certificates that do not fit."""


class DataDirUnusable(Startup):
    """The data directory cannot be created, read or written."""


class DataDirInUse(Startup):
    """Another node holds the data directory."""


class DataTooNew(Startup):
    """The data was written by a later version, in a format that this one does not know."""


class WrongNodeId(Startup):
    """The data belongs to a node with another id."""


class ForeignData(Startup):
    """The data directory belongs to another node, or to another cluster."""


class ClusterTooNew(Startup):
    """The cluster uses something that this version does not know; all its nodes were of a later one once."""


class StoreUnreachable(Startup):
    """The metadata store of the cluster does not answer, or refuses this node."""


class NeedsExtra(Startup):
    """A package is missing that this needs and a plain install leaves out."""


class FewerShards(Startup):
    """The node has more shards than it is asked to have; they can be added to, not taken away."""


class Unprotected(Startup):
    """A listener could be reached from other machines, and would let everybody in."""


class TlsUnusable(Startup):
    """A certificate, its key or the authority's file cannot be read, or they do not belong together."""


class ProcessFailed(Startup):
    """One of several processes of a node does not start."""


class AddressUnusable(Startup):
    """A listener's address is taken or cannot be bound."""
