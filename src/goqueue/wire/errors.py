"""What goes wrong with bytes from a peer."""


class WireError(Exception):
    """The bytes are not what the protocol says. The only error a decoder raises for bad input."""


class TooManyElements(WireError):
    """The arrays of a request have more elements in all than the reader allows."""

    def __str__(self) -> str:
        return "the request has too many elements"
