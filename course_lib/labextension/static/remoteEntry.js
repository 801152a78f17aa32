// A prebuilt extension of JupyterLab 4, written by hand, so that nobody needs node. It has four plugins:
//
// cuda-cells   cells that begin with %%cuda are edited as C++: colours, indentation on Enter and Ctrl+/ are those of
//              JupyterLab's own C++ mode
// guess-first  what answers a prediction is folded until the guess is made, or waived with "Show me anyway"
// next-hint    the words "Next hint" of a verdict card become a button that asks the kernel for the next hint
// short-lines  text of the course's notebooks has lines of at most about 100 characters, however wide the window
//
// JupyterLab loads this file, calls init() with the modules that it shares, then get("./extension"), and activates
// the plugins.
(() => {
  "use strict";
  const NAME = "attention-kernel-by-kernel";
  let shared = {};

  async function sharedModule(name) {
    const [version] = Object.values(shared[name] ?? {});
    if (!version) throw new Error(`${NAME}: JupyterLab shares no ${name}, so the course's extension does nothing.`);
    return (await version.get())();
  }

  function element(tag, properties, ...children) {
    const made = Object.assign(document.createElement(tag), properties);
    made.append(...children);
    return made;
  }

  // cuda-cells. A cell's language is its model's MIME type; the notebook sets it to Python's, again whenever a kernel
  // says what it speaks, and setLanguage() puts it right each time.

  const CUDA = "text/x-c++src";
  const IS_CUDA = /^\s*%%cuda\b/;
  const watched = new WeakSet();

  function setLanguage(notebook, model) {
    const wanted = IS_CUDA.test(model.sharedModel.getSource()) ? CUDA : notebook.codeMimetype;
    if (model.mimeType !== wanted) model.mimeType = wanted;
  }

  function watchLanguage(notebook) {
    for (const { model } of notebook.widgets) {
      if (model.type !== "code" || watched.has(model)) continue;
      watched.add(model);
      model.sharedModel.changed.connect(() => setLanguage(notebook, model));
      model.mimeTypeChanged.connect(() => setLanguage(notebook, model));
      setLanguage(notebook, model);
    }
  }

  function cudaCells(panel) {
    const notebook = panel.content;
    notebook.modelContentChanged.connect(() => watchLanguage(notebook));
    panel.context.ready.then(() => watchLanguage(notebook));
  }

  // guess-first. The output of predict() says whether the guess is made, the notebook's metadata which guesses were
  // waived, and a cell's metadata which guesses it waits for. The builder has folded these cells (book/guesses.py).

  const WAIVED = "waived_guesses";
  const GUESS_STYLE = `
    .course-notice { display: none; align-items: baseline; flex-wrap: wrap; gap: .3rem .8rem; margin: .3rem 0 .3rem
      calc(var(--jp-cell-prompt-width) + var(--jp-cell-collapser-width)); padding: .35rem .8rem; border: 1px dashed var(--jp-border-color1); border-radius: 5px;
      color: var(--jp-content-font-color1); font-family: var(--jp-content-font-family);
      font-size: var(--jp-content-font-size1); }
    .course-notice button { font: inherit; font-weight: 600; color: inherit; background: var(--jp-layout-color1);
      border: 1px solid var(--jp-ui-font-color2); border-radius: 5px; padding: .1rem .7rem; cursor: pointer; }
    .course-notice button:hover { border-color: currentColor; }
    .course-notice button:focus-visible { outline: 2px solid var(--jp-brand-color1); outline-offset: 2px; }
    .course-folded > .course-notice { display: flex; }
    .course-folded > .jp-Cell-outputWrapper { display: none; }
    .course-guessed details.after-guess > summary { display: none; }`;

  const settled = notebook => {
    const keys = new Set(notebook.model?.getMetadata(WAIVED) ?? []);
    for (const { model } of notebook.widgets) {
      if (!model.getMetadata("tags")?.includes("predict")) continue;
      for (const { metadata } of model.outputs?.toJSON() ?? []) if (metadata?.guess?.made) keys.add(metadata.guess.key);
    }
    return keys;
  };

  function openGuesses(cell, keys) {
    return (cell.model.getMetadata("after_guess") ?? "").split(" ").filter(key => key && !keys.has(key));
  }

  function waive(notebook, cell) {
    const keys = settled(notebook);
    const waived = new Set(notebook.model.getMetadata(WAIVED) ?? []);
    openGuesses(cell, keys).forEach(key => waived.add(key));
    notebook.model.setMetadata(WAIVED, [...waived]);
    cell.node.focus();
    refresh(notebook);
  }

  function notice(notebook, cell) {
    const text = element("span");
    const button = element("button", { type: "button", textContent: "Show me anyway" });
    button.addEventListener("click", () => waive(notebook, cell));
    const made = element("div", { className: "course-notice" }, text, button);
    made.setAttribute("role", "note");
    made.dataset.lmSuppressShortcuts = "true";
    cell.node.append(made);
    return made;
  }

  const released = new WeakSet(); // unfolded once, so a reader who folds an output again is left alone

  function refreshCode(notebook, cell, open) {
    if (open.length) released.delete(cell);
    else if (!released.has(cell)) {
      released.add(cell);
      cell.outputHidden = false;
    }
    const folded = open.length > 0 && cell.outputHidden;
    cell.node.classList.toggle("course-folded", folded);
    if (!folded) return;
    const shown = cell.node.querySelector(":scope > .course-notice") ?? notice(notebook, cell);
    const text = `Make your guess first: ${open.join(", ")}.`;
    if (shown.firstChild.textContent !== text) shown.firstChild.textContent = text;
  }

  function refreshText(cell, open) {
    cell.node.classList.toggle("course-guessed", !open.length);
    if (open.length) return;
    for (const details of cell.node.querySelectorAll("details.after-guess:not([open])")) details.open = true;
  }

  function refresh(notebook) {
    if (notebook.isDisposed || !notebook.model) return;
    const keys = settled(notebook);
    for (const cell of notebook.widgets) {
      if (!cell.model.getMetadata("after_guess")) continue;
      const open = openGuesses(cell, keys);
      if (cell.model.type === "code") refreshCode(notebook, cell, open);
      else refreshText(cell, open);
    }
  }

  // JupyterLab shows the outputs of a cell that runs; those of a cell that waits for a guess stay folded, unless it fails.
  function foldAgain(notebook, cell, success = true) {
    if (cell.model.type !== "code" || !openGuesses(cell, settled(notebook)).length) return;
    cell.outputHidden = success;
    refresh(notebook);
  }

  function guessFirst(panel) {
    const notebook = panel.content;
    let asked = false;
    const later = () => {
      if (asked) return;
      asked = true;
      requestAnimationFrame(() => {
        asked = false;
        refresh(notebook);
      });
    };
    notebook.modelContentChanged.connect(later);
    panel.context.ready.then(later);
    new MutationObserver(later).observe(notebook.node, { childList: true, subtree: true }); // cells render when needed
  }

  // next-hint

  async function askForHint(panel, { exercise, shown }) {
    const kernel = panel.sessionContext.session?.kernel;
    if (!kernel || ["dead", "unknown", "terminating"].includes(kernel.status)) return null;
    const code = `__import__("course_lib").hint("${exercise}", seen=${Number(shown)})`;
    const request = { code: "", silent: true, store_history: false, user_expressions: { hint: code } };
    const { content } = await kernel.requestExecute(request).done;
    const html = content.user_expressions?.hint?.data?.["text/html"];
    return html && new DOMParser().parseFromString(html, "text/html").querySelector(".hints");
  }

  async function nextHint(panel, button) {
    const hints = button.closest(".hints");
    const { dataset } = button;
    button.disabled = true;
    hints.setAttribute("aria-live", "polite");
    const answer = await askForHint(panel, dataset).catch(() => null);
    if (answer) hints.replaceChildren(...answer.childNodes);
    else button.replaceWith(`The notebook's kernel did not answer. Next hint`);
    makeButtons(panel);
    const focus = hints.querySelector("button") ?? hints;
    focus.tabIndex = focus === hints ? -1 : 0;
    focus.focus();
  }

  function makeButtons(panel) {
    for (const words of panel.content.node.querySelectorAll(".course-card b.next-hint[data-exercise]")) {
      const button = element("button", { type: "button", textContent: words.textContent });
      Object.assign(button.dataset, words.dataset, { lmSuppressShortcuts: "true" });
      button.setAttribute("aria-label", `${words.textContent} for exercise ${words.dataset.exercise}`);
      button.addEventListener("click", () => nextHint(panel, button));
      words.replaceWith(button);
    }
  }

  function hintButtons(panel) {
    new MutationObserver(() => makeButtons(panel)).observe(panel.content.node, { childList: true, subtree: true });
  }

  // short-lines. Tables, code and pictures keep the room that they need; a line of code is never broken.

  const TEXT = "p, ul, ol, dl, blockquote, summary";
  const LINES_STYLE = `
    .course-notebook .jp-MarkdownCell .jp-RenderedMarkdown > :is(${TEXT}),
    .course-notebook .jp-MarkdownCell .jp-RenderedMarkdown details > :is(${TEXT}),
    .course-notebook .jp-RenderedHTML > p { max-width: 46em; }
    .course-notebook .jp-MarkdownCell .jp-RenderedMarkdown > table { margin-left: 0; }
    .course-notebook .jp-MarkdownCell .jp-RenderedMarkdown pre { margin: 1em 0 1em 1.5em; overflow-x: auto; }
    .course-notebook .jp-MarkdownCell .jp-RenderedMarkdown :is(pre, pre code) { white-space: pre;
      font-size: var(--jp-code-font-size); }
    .course-notebook .jp-RenderedText[data-mime-type^="application/vnd.jupyter.std"] pre { max-width: 110ch;
      word-break: normal; overflow-wrap: anywhere; }
    [data-jp-theme-light="false"] .course-notebook { --jp-mirror-editor-comment-color: #6fb3b3; }`;

  function shortLines(panel) {
    panel.context.ready.then(() => panel.toggleClass("course-notebook", panel.model.getMetadata("course") === NAME));
  }

  async function plugins() {
    const { INotebookTracker, NotebookActions } = await sharedModule("@jupyterlab/notebook");
    const plugin = (id, description, open, start = () => {}) => ({
      id: `${NAME}:${id}`,
      description,
      autoStart: true,
      requires: [INotebookTracker],
      activate: (_app, tracker) => {
        start();
        tracker.forEach(open);
        tracker.widgetAdded.connect((_, panel) => open(panel));
      },
    });
    const addStyle = textContent => document.head.append(element("style", { textContent }));
    const startGuesses = () => {
      addStyle(GUESS_STYLE);
      NotebookActions.executed.connect((_, { notebook, cell, success }) => foldAgain(notebook, cell, success));
    };
    return [
      plugin("cuda-cells", "Edits cells that begin with %%cuda as C++.", cudaCells),
      plugin("guess-first", "Folds what answers a prediction until the guess is made.", guessFirst, startGuesses),
      plugin("next-hint", "Adds a button for the next hint to verdict cards.", hintButtons),
      plugin("short-lines", "Keeps the course's text narrow enough to read.", shortLines, () => addStyle(LINES_STYLE)),
    ];
  }

  (window._JUPYTERLAB ??= {})[NAME] = {
    init: modules => {
      shared = modules;
    },
    get: async module => {
      if (module !== "./extension") throw new Error(`${NAME} has no module ${module}.`);
      const made = await plugins();
      return () => ({ __esModule: true, default: made });
    },
  };
})();
