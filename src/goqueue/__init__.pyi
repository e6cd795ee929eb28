from goqueue.client import AsyncClient as AsyncClient
from goqueue.client import Client as Client
from goqueue.worker import App as App
from goqueue.worker import Middleware as Middleware
from goqueue.worker import Reject as Reject
from goqueue.worker import Retry as Retry
from goqueue.worker import chain as chain
from goqueue.worker import chord as chord
from goqueue.worker import group as group

__version__: str
