"""Templates as Python runs them: compiled once for the environments of all types, and kept in the user's cache.

To compile them takes ten times as long as to render a kernel.
"""

from __future__ import annotations

import sys
from functools import cached_property
from types import CodeType

import jinja2
from jinja2.bccache import Bucket

from gemmgen.support.files import Store, code_digest, content_key, user_cache

KIND = "template"  # of the store's entries

COMPILED: dict[tuple[str, str], CodeType] = {}  # by template and a digest of its text


class CompiledTemplates(jinja2.BytecodeCache):
    """Of one environment. A cache that cannot be read or written costs time, and is not mentioned."""

    @cached_property
    def _store(self) -> Store | None:
        """None where there is no cache: rendering alone makes none."""
        return Store(user_cache(), quiet=True) if user_cache().is_dir() else None

    @cached_property
    def _compiler(self) -> str:
        """A digest of what else than the template decides."""
        return content_key(sys.version, jinja2.__version__, code_digest("kernel/render.py"))

    def _key(self, bucket: Bucket) -> str:
        return content_key(self._compiler, bucket.key, bucket.checksum)

    def load_bytecode(self, bucket: Bucket) -> None:
        """Jinja asks for the code of a template."""
        name = bucket.key, bucket.checksum
        if name not in COMPILED and self._store is not None:
            kept = self._store.get(KIND, self._key(bucket))
            if kept is not None:
                bucket.bytecode_from_string(kept)
            if bucket.code is not None:  # else another Python's
                COMPILED[name] = bucket.code
        bucket.code = COMPILED.get(name)

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Jinja has compiled a template."""
        assert bucket.code is not None
        COMPILED[bucket.key, bucket.checksum] = bucket.code
        if self._store is not None:
            self._store.put(KIND, self._key(bucket), bucket.bytecode_to_string())
