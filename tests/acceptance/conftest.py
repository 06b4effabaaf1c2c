"""Captures anew: what another version of Undertow left in the cache is not read."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session", autouse=True)
def cache_of_this_run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("UNDERTOW_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield
