"""Caches compiled templates: each is compiled once per process, for the environments of all types.

Compiling the templates takes ten times as long as rendering a kernel.
"""

from __future__ import annotations

from types import CodeType

import jinja2
from jinja2.bccache import Bucket

COMPILED: dict[tuple[str, str], CodeType] = {}  # by template and a digest of its text


class CompiledTemplates(jinja2.BytecodeCache):
    """The cache, as one jinja environment sees it."""

    def load_bytecode(self, bucket: Bucket) -> None:
        """Return cached code of a template to Jinja, if there is any."""
        bucket.code = COMPILED.get((bucket.key, bucket.checksum))

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Keep the code of a template that Jinja has compiled."""
        assert bucket.code is not None
        COMPILED[bucket.key, bucket.checksum] = bucket.code
