"""What goes wrong with bytes from a peer."""


class WireError(Exception):
    """The bytes are not what the protocol says. The only error a decoder raises for bad input."""
