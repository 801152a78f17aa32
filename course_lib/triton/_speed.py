"""Two repetitions that Triton's interpreter can be spared; together about a third of its time.

May import: nothing of the course.
"""


def improve(interpreter):
    """Apply both, once. `interpreter` is the module triton.runtime.interpreter."""
    _remember_dtypes(interpreter)
    _patch_once(interpreter)


def _remember_dtypes(module):
    """The interpreter asks for the numpy dtype of a Triton type at every operation and builds a table each time."""
    look_up, known = module._get_np_dtype, {}

    def get_np_dtype(triton_type):
        name = triton_type.name
        if name not in known:
            known[name] = look_up(triton_type)
        return known[name]

    module._get_np_dtype = get_np_dtype


def _patch_once(module):
    """Patch triton.language once a launch instead of at every call of a device function such as tl.max.

    A launch patches the language and restores it at its end; each device function patches it again, a walk over some
    hundred names that finds nothing left to do. Two modules can hold the language under different names, so the walk is
    skipped only for functions whose globals were seen during this launch.
    """
    patch, call = module._patch_lang, module.GridExecutor.__call__
    seen = set()

    def patch_lang(fn):
        key = id(fn.__globals__)
        if key in seen:
            return module._LangPatchScope() if hasattr(module, "_LangPatchScope") else None
        seen.add(key)
        return patch(fn)

    def launch(self, *args, **kwargs):
        seen.clear()
        try:
            return call(self, *args, **kwargs)
        finally:
            seen.clear()

    module._patch_lang, module.GridExecutor.__call__ = patch_lang, launch
