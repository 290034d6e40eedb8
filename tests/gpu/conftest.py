"""What the tests of a card share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gemmgen.run.gpu import why_no_gpu
from gemmgen.run.gpu.executor import GpuExecutor
from gemmgen.support.files import Store


@pytest.fixture(scope="module")
def gpu(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GpuExecutor]:
    """The card that is here, with an empty store."""
    reason = why_no_gpu()
    if reason is not None:
        pytest.skip(reason)
    with GpuExecutor(Store(tmp_path_factory.mktemp("store")), timeout=10.0) as executor:
        yield executor
