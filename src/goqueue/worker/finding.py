"""Finds an app by the name that a command line has for it: `module:app`."""

from __future__ import annotations

from importlib import import_module

from goqueue.worker.app import App
from goqueue.worker.errors import InvalidOption


def find_app(path: str) -> App:
    """`module:name`, or `module` if its app is called `app`. What the module itself raises is not hidden."""
    module_name, _, name = path.partition(":")
    try:
        module = import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not (module_name == error.name or module_name.startswith(f"{error.name}.")):
            raise
        raise InvalidOption(f"There is no module {module_name!r} here; write module:app.") from None
    found = getattr(module, name or "app", None)
    if not isinstance(found, App):
        raise InvalidOption(f"{path!r} names no goqueue.App; write module:name.")
    return found
