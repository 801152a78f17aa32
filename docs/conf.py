"""Sphinx's configuration of the course's site; `make site` copies it beside the collected pages."""

import os

os.environ["COURSE_ENGINE"] = "cpu"  # the API reference imports the course, which chooses an engine at import

from course_lib.book.site.docstrings import to_rst  # noqa: E402

REPOSITORY = os.environ.get("COURSE_REPOSITORY", "")  # its address, where the site has one to point to

project = "Attention, kernel by kernel"
author = "its contributors"
copyright = "its contributors, MIT licence"  # noqa: A001 - Sphinx's name
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx_copybutton"]
exclude_patterns = ["LICENSE"]
default_role = "code"

nb_execution_mode = "off"
nb_merge_streams = True
nb_render_markdown_format = "myst"
myst_enable_extensions = ["deflist", "colon_fence", "dollarmath"]
myst_heading_anchors = 3
suppress_warnings = ["misc.highlighting_failure", "myst.header", "ref.python"]

smartquotes = False

autodoc_typehints = "none"
autodoc_preserve_defaults = True
autodoc_member_order = "bysource"
autodoc_mock_imports = ["cupy"]
add_module_names = False

html_math_renderer = "mathml"
html_theme = "sphinx_book_theme"
html_title = project
html_context = {"default_mode": "auto"}
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "show_navbar_depth": 1,
    "use_download_button": False,
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
    **({"repository_url": REPOSITORY, "use_repository_button": True} if REPOSITORY else {}),
}


def highlight_cuda(app, doctree):
    """Colour the cells that begin with %%cuda as CUDA C++."""
    from docutils import nodes

    for block in doctree.findall(nodes.literal_block):
        if block.astext().startswith("%%cuda"):
            block["language"] = "cuda"


def translate_docstring(app, what, name, obj, options, lines):
    imports = next((n for n, line in enumerate(lines) if line.startswith("May import:")), len(lines))
    lines[:] = to_rst(lines[:imports] if what == "module" else lines)


def skip_borrowed(app, what, name, obj, skip, options):
    """Leave out what a class has from outside the course."""
    return True if not (getattr(obj, "__module__", None) or "course_lib").startswith("course_lib") else None


def visit_math(self, node):
    """Formulas as MathML, which browsers draw themselves: nothing is loaded from outside."""
    from docutils import nodes
    from docutils.utils.math.latex2mathml import tex2mathml

    block = isinstance(node, nodes.math_block)
    tag, name = ("div", "formula") if block else ("span", "formula-inline")
    formula = tex2mathml(node.astext(), as_block=block).replace(r"\_", "_")
    self.body.append(f'<{tag} class="{name}">{formula}</{tag}>')
    raise nodes.SkipNode


def setup(app):
    app.add_html_math_renderer("mathml", (visit_math, None), (visit_math, None))
    app.connect("autodoc-process-docstring", translate_docstring)
    app.connect("autodoc-skip-member", skip_borrowed)
    app.connect("doctree-read", highlight_cuda)
