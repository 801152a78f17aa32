"""Types, tensors and handles of Triton's interpreter at little cost: every operation of a kernel makes several.

May import: nothing of the course.
"""

_MANY = 4096  # entries, after which a cache is emptied


def improve(interpreter):
    """Apply it, once. `interpreter` is the module triton.runtime.interpreter."""
    core = interpreter.tl.core
    _cache_block_types(core)
    _share_block_types(interpreter)
    _defer_shapes(core)
    _check_sizes_at_once(interpreter)


def values(shape):
    """A shape of the language as a list."""
    return getattr(shape, "values", shape)


def maker(core):
    """A function (element type, sizes) -> block type that returns the same object for the same arguments."""
    blocks = {}

    def block_of(element_ty, sizes):
        key = id(element_ty), sizes  # the block keeps its element type alive, and so its id
        if key not in blocks:
            if len(blocks) == _MANY:
                blocks.clear()
            blocks[key] = core.block_type(element_ty, list(sizes))
        return blocks[key]

    return block_of


def _cache_block_types(core):
    make, cache = core.block_type.__init__, {}

    def init(self, element_ty, shape):
        sizes = tuple(shape)
        key = element_ty.name, sizes, tuple(map(type, sizes))  # 16.0 == 16 as a key, and must be rejected
        if key not in cache:
            make(self, element_ty, shape)
            if set(key[2]) == {int}:
                cache[key] = {name: value for name, value in vars(self).items() if name != "element_ty"}
            return
        self.element_ty = element_ty
        self.__dict__.update(cache[key])

    core.block_type.__init__ = init


def _share_block_types(interpreter):
    """A type that is made of another one's sizes was checked when the other one was made."""
    core, block_of = interpreter.tl.core, maker(interpreter.tl.core)
    core.block_type.with_element_ty = lambda self, scalar_ty: block_of(scalar_ty, tuple(values(self.shape)))


def _defer_shapes(core):
    """Compute a tensor's `shape` and `numel` when they are read; most tensors are only operated on."""
    make, block_type = core.tensor.__init__, core.block_type
    own_scalar, cache = {core.dtype, core.pointer_type}, {}
    probe = core.tensor(None, block_type(core.float32, [2]))
    if vars(probe).keys() != {"handle", "shape", "numel", "type", "dtype"}:
        return

    def init(self, handle, type):  # noqa: A002  (the names of the original)
        self.handle, self.type = handle, type
        kind = type.__class__
        self.dtype = type.element_ty if kind is block_type else type if kind in own_scalar else type.scalar

    def measured(tensor):
        sizes = tuple(values(tensor.type.shape)) if isinstance(tensor.type, block_type) else ()
        if sizes not in cache:
            whole = core.tensor.__new__(core.tensor)
            make(whole, None, tensor.type)
            cache[sizes] = whole.numel, whole.shape.values, whole.shape.type
        return cache[sizes]

    def shape(tensor):
        _, sizes, kind = measured(tensor)
        made = core.tuple.__new__(core.tuple)  # what its __init__ does, without looking at `kind`
        made.values, made.type = sizes.copy(), kind
        return made

    core.tensor.__init__ = init
    core.tensor.shape = _Late("shape", shape)
    core.tensor.numel = _Late("numel", lambda tensor: measured(tensor)[0])


class _Late:
    """An attribute that is computed at the first access of an instance and kept there."""

    def __init__(self, name, compute):
        self.name, self.compute = name, compute

    def __get__(self, instance, owner=None):
        if instance is None:
            raise AttributeError(self.name)
        value = vars(instance)[self.name] = self.compute(instance)
        return value


def _check_sizes_at_once(interpreter):
    """Whether numpy's elements are too wide for a type is one comparison; what is too wide goes the original way."""
    handle, core, own = interpreter.TensorHandle, interpreter.tl.core, interpreter._validate_np_data_size
    refuse, kinds = handle.__post_init__, [kind for kind in vars(core).values() if type(kind) is core.dtype]
    widest = {kind.name: max(kind.primitive_bitwidth, 8) // 8 for kind in kinds if hasattr(kind, "primitive_bitwidth")}

    def init(self, data, dtype, attr=None):
        self.data, self.dtype, self.attr = data, dtype, {} if attr is None else attr
        if data.itemsize > widest.get(dtype.name, 0) and dtype.__class__ is not core.pointer_type:
            refuse(self)

    def fits(array, dtype):
        return array.itemsize <= widest.get(dtype.name, 0) or own(array, dtype)

    handle.__init__, interpreter._validate_np_data_size = init, fits
