"""Repetitions that Triton's interpreter can be spared; together more than half of its time.

May import: nothing of the course.
"""

import dataclasses


def improve(interpreter):
    """Apply all, once. `interpreter` is the module triton.runtime.interpreter."""
    _remember_dtypes(interpreter)
    _patch_once(interpreter)
    _remember_shapes(interpreter.tl.core)
    _compute_once(interpreter.interpreter_builder)


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


def _compute_once(builder):
    """Each sum, difference and product of integers is made again in 64 bits for an assertion against overflow, and that
    assertion is then left out, since the interpreter's `debug` is off. A compiler drops what nobody reads.
    """
    if not builder.options.debug:
        builder.options = dataclasses.replace(builder.options, sanitize_overflow=False)


def _remember_shapes(core):
    """Every operation makes types and tensors anew, and each checks and wraps the same few shapes again."""
    _remember_block_types(core)
    _remember_tensor_shapes(core)


def _remember_block_types(core):
    make, known = core.block_type.__init__, {}

    def init(self, element_ty, shape):
        sizes = tuple(shape)
        if any(type(size) is not int for size in sizes):  # 16.0 == 16, and must be refused
            return make(self, element_ty, shape)
        key = element_ty.name, sizes
        if key not in known:
            make(self, element_ty, shape)
            known[key] = {name: value for name, value in vars(self).items() if name != "element_ty"}
        self.element_ty = element_ty
        self.__dict__.update(known[key])

    core.block_type.__init__ = init


def _remember_tensor_shapes(core):
    make, known = core.tensor.__init__, {}
    parts = {"handle", "shape", "numel", "type", "dtype"}

    def init(self, handle, type):  # noqa: A002  (the names of the original)
        sizes = tuple(type.shape) if isinstance(type, core.block_type) else ()
        if sizes not in known:
            make(self, handle, type)
            if vars(self).keys() == parts:
                known[sizes] = self.numel, self.shape.values, self.shape.type
            return
        self.handle, self.type, self.dtype = handle, type, type.scalar
        self.numel, values, kind = known[sizes]
        self.shape = core.tuple(values, kind)

    core.tensor.__init__ = init
