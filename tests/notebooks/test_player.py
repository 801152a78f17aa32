"""The player and the pictures in a real browser, without JupyterLab: keys, buttons, motion, and both themes."""

import re

import pytest
from playwright.sync_api import expect

from course_lib import viz


@pytest.fixture(scope="module")
def html():
    return viz.ring_player(1, num_consumers=1).html() + viz.mask_picture(2, 5).html()


@pytest.fixture
def show(browser, html):
    """A function: attributes of the page's root and options of the browser -> page with a player and a picture."""
    contexts = []

    def show(root='data-theme="light"', **options):
        contexts.append(browser.new_context(**options))
        page = contexts[-1].new_page()
        page.on("pageerror", lambda error: pytest.fail(str(error)))
        body = root if root.startswith("data-jp") else ""
        page.set_content(f"<!doctype html><html {root}><body {body}>{html}</body></html>")
        return page

    yield show
    for context in contexts:
        context.close()


def test_keys_and_buttons_step_through_the_frames(show):
    page = show()
    slider, stop, image = page.get_by_role("slider", name="event"), page.locator("output"), page.locator("img").first
    last = int(slider.get_attribute("max"))
    expect(stop).to_have_text(f"1 of {last}")
    first, alt = image.get_attribute("src"), image.get_attribute("alt")
    slider.focus()
    page.keyboard.press("ArrowRight")
    expect(stop).to_have_text(f"2 of {last}")
    assert slider.get_attribute("aria-valuetext") == f"2 of {last}"
    assert image.get_attribute("src") != first and image.get_attribute("alt") != alt
    assert image.evaluate("image => image.decode().then(() => image.naturalWidth)") > 600
    page.get_by_role("button", name="previous").click()
    expect(image).to_have_attribute("src", first)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.dataset.part") == "play"
    page.get_by_role("combobox", name="first parities").select_option("producer begins with 0")
    expect(stop).to_have_text(re.compile("^1 of "))
    assert int(slider.get_attribute("max")) < last
    page.keyboard.press("Tab")
    slider.focus()
    page.keyboard.press("End")
    expect(page.locator("[data-part=sentence]")).to_contain_text("deadlock")


def test_it_plays_to_the_end_and_stops(show):
    page = show()
    page.locator(".course-player").evaluate("player => { player.dataset.interval = 5; }")
    play = page.get_by_role("button", name="play or pause")
    play.click()
    last = page.get_by_role("slider").get_attribute("max")
    expect(page.locator("output")).to_have_text(f"{last} of {last}")
    expect(play).to_have_text("Play")


def test_who_asked_for_less_motion_steps_by_hand(show):
    page = show(reduced_motion="reduce")
    expect(page.get_by_role("button", name="next")).to_be_visible()
    expect(page.get_by_role("button", name="play or pause")).to_be_hidden()


def test_without_scripts_the_still_picture_is_there(show):
    page = show(java_script_enabled=False)
    expect(page.locator("img").first).to_have_attribute("alt", re.compile("events"))
    expect(page.get_by_role("slider")).to_have_count(0)


@pytest.mark.parametrize(
    ("root", "dark"),
    [
        ('data-theme="light"', False),
        ('data-theme="dark"', True),
        ('data-jp-theme-light="true"', False),
        ('data-jp-theme-light="false"', True),
    ],
)
def test_pictures_follow_the_theme(show, root, dark):
    """The ground of a picture is dark where the page is, and its blue stays blue."""
    from io import BytesIO

    from PIL import Image

    page = show(root)
    image = Image.open(BytesIO(page.locator("img").last.screenshot())).convert("RGB")
    ground = image.getpixel((2, 2))
    assert max(ground) < 30 if dark else min(ground) > 250
    colours = {colour for _, colour in image.getcolors(1 << 20)}
    assert any(blue > red + 40 and blue >= green for red, green, blue in colours)
