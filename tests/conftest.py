"""What all tests share."""

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def root():
    """The repository's root, a Path."""
    return Path(__file__).resolve().parents[1]
