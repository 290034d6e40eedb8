"""Templates as Python runs them: compiled once for the environments of all types in a process.

To compile them takes ten times as long as to render a kernel.
"""

from __future__ import annotations

from types import CodeType

import jinja2
from jinja2.bccache import Bucket

COMPILED: dict[tuple[str, str], CodeType] = {}  # by template and a digest of its text


class CompiledTemplates(jinja2.BytecodeCache):
    """Of one environment."""

    def load_bytecode(self, bucket: Bucket) -> None:
        """Jinja asks for the code of a template."""
        bucket.code = COMPILED.get((bucket.key, bucket.checksum))

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Jinja has compiled a template."""
        assert bucket.code is not None
        COMPILED[bucket.key, bucket.checksum] = bucket.code
