"""The built site (`make test-site`): links, pictures, narrow screens, light and dark, search, in a real browser.

Screenshots go to artifacts/.
"""

import functools
import re
import threading
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

import pytest
from playwright.sync_api import expect

from course_lib.book.chapters import read_chapter
from course_lib.book.outline import ROOT, chapter_files

HTML = ROOT / "build" / "site" / "html"
NARROW, WIDE = 400, 1280  # px
PAGES = sorted(name for path in HTML.rglob("*.html") if not (name := str(path.relative_to(HTML))).startswith("_"))
CHAPTERS = [read_chapter(path) for path in chapter_files()]
LECTURES = [f"notebooks/{lecture.stem}" for chapter in CHAPTERS for lecture in chapter.lectures]
EXERCISES = [f"exercises/{chapter.number}_exercises" for chapter in CHAPTERS]
SHOWN = ("index", "notebooks/03_online_softmax", "exercises/03_exercises", "docs/results", "api/course_lib.ops")
_WIDGET = re.compile(r"viz\.(stepper|tile_loops|\w+_slider|\w+_player|\w+_explorer)\(")
_LOADED = ("img", "script", "source", "iframe", "video")


class Page(HTMLParser):
    """What a page defines and points to.

    Attributes
    ----------
    ids : set of str, the anchors
    links : list of str, targets of <a>
    loaded : list of str, what the browser fetches to show the page
    images : list of dict, the attributes of each <img>
    """

    def __init__(self, text):
        super().__init__()
        self.ids, self.links, self.loaded, self.images = set(), [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.ids.update(filter(None, (attributes.get("id"), attributes.get("name"))))
        if tag == "a" and attributes.get("href"):
            self.links.append(attributes["href"])
        if tag == "link" and {"stylesheet", "preload", "icon", "modulepreload"} & set(attributes["rel"].split()):
            self.loaded.append(attributes["href"])
        if tag in _LOADED and attributes.get("src"):
            self.loaded.append(attributes["src"])
        if tag == "img":
            self.images.append(attributes)


@pytest.fixture(scope="module")
def pages():
    """name -> Page"""
    assert PAGES, "there is no site; run: make site"
    return {name: Page((HTML / name).read_text(encoding="utf-8")) for name in PAGES}


def broken(name, target, pages):
    """Why an internal link of page `name` leads nowhere; empty when it does."""
    parts = urlsplit(target)
    path = HTML / name if not parts.path else (HTML / name).parent / unquote(parts.path)
    path = path / "index.html" if path.is_dir() else path
    if not path.is_file():
        return f"{name}: {target}: no such file"
    other = pages.get(str(path.resolve().relative_to(HTML.resolve())))
    fragment = unquote(parts.fragment)
    if other and fragment and fragment not in other.ids:
        return f"{name}: {target}: no such anchor"
    return ""


def test_no_link_is_broken(pages):
    internal, external, found = 0, set(), []
    for name, page in pages.items():
        for target in [*page.links, *page.loaded]:
            if urlsplit(target).scheme in ("http", "https", "mailto"):
                external.add(target)
            elif not target.startswith("data:"):
                internal += 1
                found.append(broken(name, target, pages))
    pictures = sum(len(page.images) for page in pages.values())
    found = [sentence for sentence in found if sentence]
    print(
        f"\n{len(pages)} pages, {pictures} pictures, {internal} internal links, {len(found)} of them broken; ", end=""
    )
    print(f"{len(external)} addresses outside, not followed")
    assert not found, "\n".join(found)
    assert internal > 1000 and pictures > 50


def test_a_broken_link_is_found(pages):
    assert "no such file" in broken("index.html", "notebooks/nothing.html", pages)
    assert "no such anchor" in broken("index.html", "docs/results.html#nothing", pages)
    assert not broken("index.html", "docs/results.html#softmax", pages)


def test_nothing_is_loaded_from_outside(pages):
    loaded = {target for page in pages.values() for target in page.loaded}
    assert loaded and not [target for target in loaded if urlsplit(target).scheme.startswith("http")]


def test_every_picture_has_a_text_alternative(pages):
    missing = [(name, image["src"]) for name, page in pages.items() for image in page.images if not image.get("alt")]
    assert not missing


def test_lectures_and_exercises_are_there_and_say_how_to_run_them(pages):
    for name in (*LECTURES, *EXERCISES):
        text = (HTML / f"{name}.html").read_text()
        assert "Open in JupyterLab" in text and f"{name}.ipynb" in text


def test_solutions_are_not_on_the_site(pages):
    assert not [name for name in pages if "solution" in name]
    for name in EXERCISES:
        assert "BEGIN SOLUTION" not in (HTML / f"{name}.html").read_text()


def test_widgets_are_players(pages):
    cells = [
        cell
        for name in LECTURES
        for cell in (HTML / f"{name}.html").read_text().split('<div class="cell ')[1:]
        if _WIDGET.search(re.sub(r"<[^>]+>", "", cell.partition('class="cell_output')[0]))
    ]
    assert len(cells) >= 5
    assert all('class="course-player"' in cell.partition('class="cell_output')[2] for cell in cells)
    assert not any("widget-view+json" in cell for cell in cells)


@pytest.fixture(scope="module")
def address():
    """The site, served on this machine."""
    handler = functools.partial(_Quiet, directory=HTML)
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *words):
        pass


@pytest.fixture
def open_page(browser, address):
    """A function: name, width, scheme -> (page, complaints); a request to another machine is a complaint, and fails."""
    contexts = []

    def open_page(name, width=WIDE, scheme="light"):
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        contexts.append(context)
        page, complaints = context.new_page(), []
        page.on("console", lambda message: message.type == "error" and complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("requestfailed", lambda request: complaints.append(f"not loaded: {request.url}"))
        page.route(lambda url: not url.startswith((address, "data:")), lambda route: route.abort())
        page.goto(f"{address}/{name}", wait_until="load")
        return page, complaints

    yield open_page
    for context in contexts:
        context.close()


_PICTURES = """async () => {
    const images = [...document.images];
    images.forEach(image => { image.loading = 'eager'; });
    await Promise.all(images.map(image => image.decode().catch(() => null)));
    return images.filter(image => !image.complete || !image.naturalWidth).map(image => image.src);
}"""


@pytest.mark.parametrize("name", PAGES)
def test_a_page_loads_and_fits_a_narrow_and_a_wide_screen(name, open_page):
    page, complaints = open_page(name, NARROW)
    assert page.evaluate(_PICTURES) == []
    for width in (NARROW, WIDE):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert complaints == []


_BROKEN_WORDS = """() => [...document.querySelectorAll('.bd-article .table :is(td, th) :is(p, .pre)')].flatMap(text => {
    const range = document.createRange(), node = text.firstChild;
    if (node?.nodeType !== Node.TEXT_NODE) return [];
    return [...node.data.matchAll(/[^\\s/-]+/g)].filter(word => {
        range.setStart(node, word.index);
        range.setEnd(node, word.index + word[0].length);
        return new Set([...range.getClientRects()].map(line => Math.round(line.top))).size > 1;
    }).map(word => word[0]);
})"""


@pytest.mark.parametrize("name", ["index", "docs/support", "docs/results", "exercises/13_exercises"])
def test_a_table_breaks_no_word_on_a_narrow_screen(name, open_page):
    page, _ = open_page(f"{name}.html", NARROW)
    assert page.locator(".bd-article td p").count() > 20
    assert page.evaluate(_BROKEN_WORDS) == []


def brightness(page):
    """Mean of red, green and blue of the page's ground, 0 to 255."""
    colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
    return sum(map(float, re.findall(r"[\d.]+", colour)[:3])) / 3


def test_the_theme_follows_the_system_and_its_menu_switches_it(open_page):
    assert brightness(open_page("index.html", scheme="dark")[0]) < 60
    page, _ = open_page("index.html")
    assert brightness(page) > 195
    for mode, dark in (("dark", True), ("light", False)):
        page.locator(".theme-switch-button").click()
        page.locator(f'.theme-change-button[data-mode="{mode}"]').click()
        assert (brightness(page) < 60) == dark


def test_search_finds_a_word_of_a_lecture_and_of_the_glossary(open_page):
    page, _ = open_page("search.html?q=rescale")
    results = page.locator("#search-results a")
    expect(results.first).to_be_visible(timeout=20_000)
    expect(page.locator("#search-results")).to_contain_text("Online softmax", timeout=20_000)


def test_next_leads_from_the_front_page_through_every_lecture_and_its_exercises(pages):
    expected = []
    for chapter in CHAPTERS:
        expected += [f"notebooks/{lecture.stem}.html" for lecture in chapter.lectures]
        expected += [f"exercises/{chapter.number}_exercises.html"]
    seen, name = [], "index.html"
    for _ in expected:
        text = (HTML / name).read_text()
        target = re.search(r'class="right-next"\s+href="([^"]+)"', text)
        name = str(((HTML / name).parent / target[1]).resolve().relative_to(HTML.resolve()))
        seen.append(name)
    assert seen == expected


def test_a_player_plays_on_the_site_and_pictures_follow_its_theme(open_page):
    page, complaints = open_page("notebooks/03_online_softmax.html", scheme="dark")
    slider, stop = page.get_by_role("slider", name="tile"), page.locator("output").first
    expect(stop).to_have_text("1 of 4")
    slider.focus()
    page.keyboard.press("ArrowRight")
    expect(stop).to_have_text("2 of 4")
    looks = page.locator("img.course-picture").evaluate_all("all => all.map(one => getComputedStyle(one).filter)")
    assert looks and all(look.startswith("invert(0.93)") for look in looks)
    assert complaints == []


@pytest.mark.parametrize("name", SHOWN)
def test_screenshots(name, open_page):
    folder = ROOT / "artifacts"
    folder.mkdir(exist_ok=True)
    for scheme in ("light", "dark"):
        for width in (NARROW, WIDE):
            page, _ = open_page(f"{name}.html", width, scheme)
            target = folder / f"site-{name.replace('/', '-')}-{scheme}-{width}.png"
            page.screenshot(path=target)
            assert target.stat().st_size > 10_000
