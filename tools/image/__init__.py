"""The container image: Debian's Python and libraries, the locked packages and this tree, without a shell."""
