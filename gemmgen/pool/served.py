"""The side of a worker's child: it unpacks what the worker passes on unread."""

from __future__ import annotations

import os
import pickle
from functools import partial
from importlib import import_module

from gemmgen.pool.connection import compilers
from gemmgen.pool.remote import FARM
from gemmgen.run import compile as compiling


class Unpacking:
    """The side of a worker's child: requests and answers are pickles, which the worker passes on unread."""

    def __init__(self, factory: str, *arguments: str) -> None:
        if FARM in os.environ:
            compiling.farm = partial(compilers, *os.environ[FARM].split())
        module, _, name = factory.partition(":")
        self._handle = getattr(import_module(module), name)(*arguments)

    def __call__(self, message: bytes) -> bytes:
        return pickle.dumps(self._handle(pickle.loads(message)), 5)
