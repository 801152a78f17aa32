// A prebuilt extension of JupyterLab 4, written by hand, so that nobody needs node: cells that begin with %%cuda are
// edited as C++. Colours, indentation on Enter and Ctrl+/ then are those of JupyterLab's own C++ mode.
//
// JupyterLab loads this file, calls init() with the modules that it shares, then get("./extension"), and activates
// the plugin. A cell's language is its model's MIME type; the notebook sets it to Python's, again whenever a kernel
// says what it speaks, and update() puts it right each time.
(() => {
  "use strict";
  const NAME = "attention-kernel-by-kernel";
  const CUDA = "text/x-c++src";
  const IS_CUDA = /^\s*%%cuda\b/;
  let shared = {};

  async function sharedModule(name) {
    const [version] = Object.values(shared[name] ?? {});
    if (!version) throw new Error(`${NAME}: JupyterLab shares no ${name}; %%cuda cells stay Python to the editor.`);
    return (await version.get())();
  }

  function update(notebook, model) {
    const wanted = IS_CUDA.test(model.sharedModel.getSource()) ? CUDA : notebook.codeMimetype;
    if (model.mimeType !== wanted) model.mimeType = wanted;
  }

  const watched = new WeakSet();

  function watch(notebook) {
    for (const { model } of notebook.widgets) {
      if (model.type !== "code" || watched.has(model)) continue;
      watched.add(model);
      model.sharedModel.changed.connect(() => update(notebook, model));
      model.mimeTypeChanged.connect(() => update(notebook, model));
      update(notebook, model);
    }
  }

  async function extension() {
    const { INotebookTracker } = await sharedModule("@jupyterlab/notebook");
    const open = panel => {
      const notebook = panel.content;
      notebook.modelContentChanged.connect(() => watch(notebook));
      panel.context.ready.then(() => watch(notebook));
    };
    const activate = (_app, tracker) => {
      tracker.forEach(open);
      tracker.widgetAdded.connect((_, panel) => open(panel));
    };
    const description = "Edits cells that begin with %%cuda as C++.";
    return { id: `${NAME}:cuda-cells`, description, autoStart: true, requires: [INotebookTracker], activate };
  }

  (window._JUPYTERLAB ??= {})[NAME] = {
    init: modules => {
      shared = modules;
    },
    get: async module => {
      if (module !== "./extension") throw new Error(`${NAME} has no module ${module}.`);
      const plugin = await extension();
      return () => ({ __esModule: true, default: plugin });
    },
  };
})();
