"""A real JupyterLab with a real browser, for the browser test: start it, open notebooks, run cells, read outputs."""

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import nbformat
from nbformat.sign import NotebookNotary

EXTENSION = Path(__file__).resolve().parents[2] / "course_lib" / "labextension"
TOKEN = "browser-test"


class Server:
    """JupyterLab in `folder`, with its settings and its runtime files in a folder of their own."""

    def __init__(self, folder, state, seconds=60):
        environment = {key: value for key, value in os.environ.items() if not key.startswith("COURSE_STRICT")}
        environment |= {f"JUPYTER_{name}_DIR": str(state / name.lower()) for name in ("CONFIG", "DATA", "RUNTIME")}
        environment |= {"COURSE_ENGINE": "cpu", "JUPYTERLAB_SETTINGS_DIR": str(state / "settings")}
        command = [
            *(sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--port=0", "--ip=127.0.0.1"),
            *(f"--IdentityProvider.token={TOKEN}", f"--ServerApp.root_dir={folder}"),
            *("--LabApp.expose_app_in_browser=True", "--LabApp.news_url="),
            f"--LabApp.extra_labextensions_path={_extension(state)}",
        ]
        self.folder, self.state = folder, state
        self.log = open(state / "jupyterlab.log", "w")
        self.process = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=self.log, stderr=self.log, start_new_session=True
        )
        self.url = self._wait(state / "runtime", time.monotonic() + seconds)

    def _wait(self, runtime, deadline):
        """The address, once it answers."""
        while time.monotonic() < deadline and self.process.poll() is None:
            for path in runtime.glob("jpserver-*.json"):
                try:
                    url = json.loads(path.read_text())["url"]
                    urllib.request.urlopen(f"{url}api?token={TOKEN}", timeout=5).close()
                    return url
                except (ValueError, urllib.error.URLError, ConnectionError):
                    pass  # half written, or not listening yet
            time.sleep(0.1)
        raise AssertionError(f"JupyterLab did not start; see {self.log.name}")

    def trust(self, path):
        """Sign a notebook, as `make lab` does with all of the course, so that its cards are shown at the first open."""
        NotebookNotary(data_dir=str(self.state / "data")).sign(nbformat.read(path, as_version=4))

    def close(self):
        self.process.terminate()
        try:
            self.process.wait(timeout=15)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()


def _extension(state):
    """A folder that holds the course's extension as it is in this tree, whatever is installed."""
    folder = state / "labextensions"
    folder.mkdir()
    (folder / "attention-kernel-by-kernel").symlink_to(EXTENSION)
    return folder


class Page:
    """One notebook, open in the browser. Cells are addressed by their number from the top.

    A browser compiles JupyterLab for seconds at each load: where `page` shows it already, the notebook takes the place
    of what is open there.
    """

    def __init__(self, page, server, name, artifacts):
        self.page, self.name, self.artifacts = page, name, artifacts
        self.address = f"{server.url}lab/tree/{name}?token={TOKEN}&reset"
        page.set_viewport_size({"width": 1280, "height": 1000})
        if page.evaluate(_IN_LAB):
            page.evaluate(_OPEN_ALONE, name)
            self._wait()
        else:
            self.reload()

    def reload(self):
        """Load JupyterLab and the notebook afresh, as it is on disk, and wait for its kernel."""
        self.page.goto(self.address, wait_until="domcontentloaded")
        self._wait()

    def _wait(self):
        page = self.page
        page.wait_for_selector(".jp-Notebook .jp-Cell", timeout=60_000)
        page.wait_for_function("window.jupyterapp && jupyterapp.shell.currentWidget?.content?.widgets?.length > 0")
        page.wait_for_function(_IDLE, timeout=60_000)

    def command(self, name):
        self.page.evaluate("name => jupyterapp.commands.execute(name)", name)

    def run_all(self, seconds=180):
        """Run every cell and wait for the last one."""
        self.command("notebook:run-all-cells")
        self.page.wait_for_function(_ALL_RAN, timeout=seconds * 1000)

    def cells(self):
        """[{type, source, tags, exercise, outputs}, …] as the page's own model holds them."""
        return self.page.evaluate(_CELLS)

    def find(self, **wanted):
        """The number of the only cell whose source or tags hold what is wanted, and whose exercise id agrees."""
        found = [
            number
            for number, cell in enumerate(self.cells())
            if all(wanted[key] in cell[key] if key != "exercise" else cell[key] == wanted[key] for key in wanted)
        ]
        assert len(found) == 1, (wanted, found)
        return found[0]

    def locator(self, number):
        """The cell on the page, scrolled into view."""
        self.page.evaluate("number => jupyterapp.shell.currentWidget.content.scrollToItem(number, 'center')", number)
        cell = self.page.locator(f'.jp-Notebook .jp-Cell[data-windowed-list-index="{number}"]').first
        cell.scroll_into_view_if_needed()
        return cell

    def write(self, number, text):
        """Replace a cell's text the way a person does: click, select all, type."""
        editor = self.locator(number).locator(".cm-content")
        editor.click()
        self.page.keyboard.press("Control+A")
        self.page.keyboard.insert_text(text)
        assert self.cells()[number]["source"] == text

    def run(self, number, seconds=60):
        """Run one cell with Shift+Enter and wait until it is done; returns its outputs as text."""
        self.page.evaluate(_WATCH_RUN, number)
        self.locator(number).locator(".cm-content").click()
        self.page.keyboard.press("Shift+Enter")
        self.page.wait_for_function(_RAN, timeout=seconds * 1000)
        return self.text(number)

    def text(self, number):
        """What a cell put out, as text."""
        return "\n".join(self.cells()[number]["outputs"])

    def restart(self):
        """Restart the kernel from the menu and wait until it is idle."""
        self.page.evaluate("() => { jupyterapp.commands.execute('kernelmenu:restart'); }")  # it waits for the answer
        self.page.locator(".jp-Dialog .jp-mod-accept").click()
        self.page.wait_for_selector(".jp-Dialog", state="detached")
        self.page.wait_for_function(_IDLE, timeout=60_000)

    def theme(self, name):
        """Switch to JupyterLab's own theme, "Light" or "Dark"."""
        name = f"JupyterLab {name}"
        self.page.evaluate("theme => jupyterapp.commands.execute('apputils:change-theme', { theme })", name)
        self.page.wait_for_function("name => document.body.dataset.jpThemeName === name", arg=name)
        self.page.wait_for_selector("#jupyterlab-splash", state="detached")

    def screenshots(self, label):
        """The page in both themes, on a screen of 1920 and of 1280 pixels."""
        for theme in ("Dark", "Light"):
            self.theme(theme)
            for width in (1920, 1280):
                self.page.set_viewport_size({"width": width, "height": 1000})
                self.screenshot(f"{label}-{theme.lower()}-{width}")

    def screenshot(self, label):
        self.page.screenshot(path=self.artifacts / f"{Path(self.name).stem}-{label}.png")


_IN_LAB = "!!window.jupyterapp && !document.querySelector('.jp-Dialog')"

_OPEN_ALONE = """async path => {
    for (const widget of [...jupyterapp.shell.widgets('main')]) {
        await widget.sessionContext?.shutdown();
        widget.dispose();
    }
    await jupyterapp.commands.execute('docmanager:open', { path });
}"""

_CELLS = """() => jupyterapp.shell.currentWidget.content.widgets.map(cell => ({
    type: cell.model.type,
    source: cell.model.sharedModel.getSource(),
    tags: cell.model.getMetadata('tags') || [],
    exercise: cell.model.getMetadata('exercise') || null,
    errors: (cell.model.outputs?.toJSON() || []).filter(o => o.output_type === 'error').map(o => o.evalue),
    outputs: (cell.model.outputs?.toJSON() || []).map(o =>
        [o.text, o.data?.['text/plain'], o.evalue].flat().filter(Boolean).join('')),
}))"""

_ALL_RAN = """() => {
    const panel = jupyterapp.shell.currentWidget;
    const code = panel.content.widgets.filter(c => c.model.type === 'code' && c.model.sharedModel.getSource().trim());
    const failed = code.some(c => c.model.outputs.toJSON().some(o => o.output_type === 'error'));
    const idle = panel.sessionContext.session.kernel.status === 'idle';
    return idle && (failed || code.every(c => c.model.executionCount));
}"""

_IDLE = "jupyterapp.shell.currentWidget.sessionContext.session?.kernel?.status === 'idle'"

_WATCH_RUN = """number => {
    const { model } = jupyterapp.shell.currentWidget.content.widgets[number];
    window.ran = false;
    const seen = (_, { name, newValue }) => {
        if (name !== 'executionCount' || !newValue) return;
        window.ran = true;
        model.stateChanged.disconnect(seen);
    };
    model.stateChanged.connect(seen);
}"""

_RAN = f"window.ran && {_IDLE}"
