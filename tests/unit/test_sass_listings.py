"""The listings of exercise 08.7 are the machine code of the rungs that it names."""

import pytest

nvrtc = pytest.importorskip("cuda.bindings.nvrtc")

from scripts import sass_listings  # noqa: E402


@pytest.mark.parametrize("name", sass_listings.LISTINGS)
def test_a_listing_is_what_the_script_writes(name):
    """After a change of 03_producer_consumer or 04_overlap: run the script, and read 08.7's twelve numbers again."""
    if nvrtc.nvrtcVersion()[1:] != (13, 0):
        pytest.skip("The listings are those of NVRTC 13.0; other compilers number instructions otherwise.")
    stored = (sass_listings.FOLDER / f"{name}.sass").read_text(encoding="utf-8")
    assert stored == sass_listings.listing(*sass_listings.LISTINGS[name])
