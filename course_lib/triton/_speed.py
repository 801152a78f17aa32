"""Caches for repeated work of Triton's interpreter, together more than half of its time.

May import: nothing of the course.
"""

import dataclasses


def improve(interpreter):
    """Apply all of them, once. `interpreter` is the module triton.runtime.interpreter."""
    _cache_dtypes(interpreter)
    _patch_once(interpreter)
    _cache_shapes(interpreter.tl.core)
    _compute_once(interpreter.interpreter_builder)


def _cache_dtypes(module):
    """Cache numpy dtypes: the interpreter looks one up at every operation and builds its table each time."""
    look_up, cache = module._get_np_dtype, {}

    def get_np_dtype(triton_type):
        name = triton_type.name
        if name not in cache:
            cache[name] = look_up(triton_type)
        return cache[name]

    module._get_np_dtype = get_np_dtype


def _patch_once(module):
    """Patch triton.language once a launch instead of at every call of a device function such as tl.max.

    A launch patches the language and restores it at its end; each device function patches it again, a walk over some
    hundred names that changes nothing. Two modules can hold the language under different names, so the walk is
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


def _compute_once(builder):
    """Skip the overflow checks of integer arithmetic while the interpreter's `debug` is off.

    Each sum, difference and product is otherwise computed again in 64 bits for an assertion that is then omitted. A
    compiler removes such dead code; the interpreter does not.
    """
    if not builder.options.debug:
        builder.options = dataclasses.replace(builder.options, sanitize_overflow=False)


def _cache_shapes(core):
    """Cache shapes: every operation creates types and tensors, each of which checks and wraps the same few shapes."""
    _cache_block_types(core)
    _cache_tensor_shapes(core)


def _cache_block_types(core):
    make, cache = core.block_type.__init__, {}

    def init(self, element_ty, shape):
        sizes = tuple(shape)
        if any(type(size) is not int for size in sizes):  # 16.0 == 16 as a key, and must be rejected
            return make(self, element_ty, shape)
        key = element_ty.name, sizes
        if key not in cache:
            make(self, element_ty, shape)
            cache[key] = {name: value for name, value in vars(self).items() if name != "element_ty"}
        self.element_ty = element_ty
        self.__dict__.update(cache[key])

    core.block_type.__init__ = init


def _cache_tensor_shapes(core):
    make, cache = core.tensor.__init__, {}
    parts = {"handle", "shape", "numel", "type", "dtype"}

    def init(self, handle, type):  # noqa: A002  (the names of the original)
        sizes = tuple(type.shape) if isinstance(type, core.block_type) else ()
        if sizes not in cache:
            make(self, handle, type)
            if vars(self).keys() == parts:
                cache[sizes] = self.numel, self.shape.values, self.shape.type
            return
        self.handle, self.type, self.dtype = handle, type, type.scalar
        self.numel, values, kind = cache[sizes]
        self.shape = core.tuple(values, kind)

    core.tensor.__init__ = init
