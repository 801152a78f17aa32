"""Plans that are kept for a GPU, on a fake one: what reaches the driver, what is checked again, what a launch costs."""

import ctypes
import sys
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch

pytest.importorskip("cupy")

from course_lib import cuda, device  # noqa: E402
from course_lib.cuda import arguments, cupy_engine, kernel, packed  # noqa: E402
from course_lib.errors import KernelFault, ShapeError, UnsupportedError  # noqa: E402
from course_lib.ops import activation, embedding, moe, norm, rope, sampling  # noqa: E402
from course_lib.ops._foundation import launch, plans  # noqa: E402
from course_lib.ops._paged_writes import plan_reshape_and_cache  # noqa: E402
from course_lib.ops.flash_attention_3 import plan as plan_flash_attention_3  # noqa: E402

HALF = torch.bfloat16
MAKE_CURRENT = packed._make_current  # the fixture puts another in its place


class FakeGpu:
    """A driver that keeps the bytes of each launch's arguments, in `launched`: (function, numbers, stream, bytes)."""

    def __init__(self):
        self.launched, self.sizes, self.error, self.warm = [], {}, None, 0
        driver = SimpleNamespace(launchKernel=self.launch_packed)
        self.cupy = SimpleNamespace(cuda=SimpleNamespace(driver=driver))

    def module(self, made):
        """What compiles for the real one: the engine's own class, without a compiler."""
        module = object.__new__(cupy_engine.CupyModule)
        module.name, module.parameters, module._seen = made.name, made.parameters, set()
        module._types, module._fitting, module._dependent = packed.scalar_types(made.parameters), set(), False
        module._check_resources = lambda *_: None

        def launch(grid, block, values, shared_bytes):  # as CupyModule.launch, up to CuPy
            if module._wants_wait(grid, block, values, shared_bytes):
                module._seen.add(cupy_engine._configuration(grid, block, values, shared_bytes))
            given = [packed.pack(*pair).tobytes() for pair in zip(module._types, values, strict=True)]
            self.sizes[made.name] = [len(each) for each in given]
            self.launched.append((made.name, (*grid, *block, shared_bytes), 7, given))

        module.function = SimpleNamespace(kernel=SimpleNamespace(ptr=made.name))
        module.launch = launch
        return module

    def launch_packed(self, function, *rest):
        if self.error:
            raise self.error
        *numbers, stream, array, _ = rest
        addresses = (ctypes.c_void_p * len(self.sizes[function])).from_address(array)
        given = [ctypes.string_at(*pair) for pair in zip(addresses, self.sizes[function], strict=True)]
        self.launched.append((function, tuple(numbers), stream, given))
        self.warm += 1


@pytest.fixture
def gpu(monkeypatch):
    """Tensors on the CPU count as tensors on a GPU, and nothing runs."""
    fake, modules = FakeGpu(), {}
    monkeypatch.setattr(plans, "_on_gpu", lambda tensor: True)
    monkeypatch.setattr(device, "engine", lambda: "gpu")
    monkeypatch.setattr(device, "current", lambda: device.KNOWN_GPUS["H200"])
    for place in (plans, packed):
        monkeypatch.setattr(place, "current_stream", lambda index: 7)
    monkeypatch.setattr(packed, "_make_current", lambda index: index)
    monkeypatch.setattr(cupy_engine, "_cupy", lambda: fake.cupy)
    monkeypatch.setattr(cupy_engine, "_driver_errors", lambda: RuntimeError)
    monkeypatch.setattr(cupy_engine, "_several_gpus", lambda: False)
    check = arguments.check
    monkeypatch.setattr(kernel.arguments, "check", lambda *args, device=None: check(*args))
    maps = sys.modules["course_lib.cuda.tensor_map"]
    monkeypatch.setattr(maps, "_encode", lambda address, *rest: address.to_bytes(8, "little").ljust(128, b"m"))

    def module(made, engine):
        if made not in modules:
            modules[made] = fake.module(made)
        return modules[made]

    monkeypatch.setattr(kernel.Kernel, "_engine_module", module)
    for plan, _ in CALLS.values():
        plan.kept.clear()
    monkeypatch.setattr(cuda, "_kernels", {})
    monkeypatch.setattr(cuda, "_loaded", {})
    return fake


def rows(*shape):
    return torch.randn(*shape).to(HALF)


def tokens(count, vocab_size=50):
    return torch.randint(vocab_size, (count,))


CALLS = {  # name -> (plan, function that makes its arguments)
    "rms_norm": (norm.plan_rms_norm, lambda: ((rows(5, 64), rows(64)), {"eps": 1e-5})),
    "layer_norm": (norm.plan_layer_norm, lambda: ((rows(5, 64), rows(64), rows(64)), {})),
    "layer_norm without bias": (norm.plan_layer_norm, lambda: ((rows(5, 64), rows(64)), {})),
    "add_rms_norm": (norm.plan_add_rms_norm, lambda: ((rows(5, 64), rows(5, 64), rows(64)), {})),
    "gelu in place": (activation.plan_gelu_tanh, lambda: ((x := rows(5, 64),), {"out": x})),
    "swiglu of halves": (activation.plan_swiglu, lambda: ((rows(5, 128),), {})),
    "rope in place": (
        rope.plan,
        lambda: ((*rows(5, 6, 64).split((4, 2), dim=1), tokens(5), rope.cos_sin_cache(50, 64)), {}),
    ),
    "embedding": (
        embedding.plan,
        lambda: ((tokens(5), rows(50, 64)), {"positions": tokens(5), "position_table": rows(50, 64)}),
    ),
    "append": (
        plan_reshape_and_cache,
        lambda: ((rows(3, 2, 64), rows(3, 2, 64), rows(1, 8, 2, 64), rows(1, 8, 2, 64), torch.arange(3)), {}),
    ),
    "sample": (sampling.plan, lambda: ((rows(4, 64), torch.zeros(4), torch.zeros(4)), {})),
    "route": (moe.plan_route, lambda: ((rows(5, 16), 2), {"renormalise": False})),
    "sort": (moe.plan_sort, lambda: ((tokens(10, 16).int().view(5, 2), 16), {"block_m": 16})),
    "combine": (moe.plan_combine, lambda: ((rows(10, 64), tokens(10, 10).int().view(5, 2), torch.rand(5, 2)), {})),
    "flash_attention_3": (
        plan_flash_attention_3,
        lambda: (tuple(rows(1, 70, 2, 64).transpose(1, 2) for _ in range(3)), {"causal": True, "variant": "06_tuned"}),
    ),
}


def warmed(call):
    """The plan of a call and its arguments, after the two launches that it takes to keep it."""
    plan, made = CALLS[call]
    for _ in range(2):
        args, options = made()
        plan(*args, **options).run()
    return plan, *made()


@pytest.mark.parametrize("call", CALLS)
def test_a_kept_plan_gives_the_driver_the_bytes_of_a_new_one(gpu, call):
    plan, args, options = warmed(call)
    bound = plan(*args, **options)
    assert isinstance(bound, plans.Bound)
    bound.run()
    bound._whole().run()
    warm, cold = gpu.launched[-2:]
    assert gpu.warm == 1 and warm == cold
    assert [x.shape for x in bound.outputs] == [x.shape for x in plan.__wrapped__(*args, **options).outputs]


def test_new_outputs_are_new_and_given_ones_are_the_callers(gpu):
    plan, (x, weight), options = warmed("rms_norm")
    first, second = (plan(x, weight, **options).outputs[0] for _ in range(2))
    assert first.data_ptr() != second.data_ptr() and first.shape == x.shape and first.dtype == x.dtype
    plan, args, _ = warmed("add_rms_norm")
    out, residual = plan(*args).outputs
    assert out is args[0] and residual is args[1]


def test_another_layout_is_planned_again_with_its_checks(gpu):
    plan, (x, weight), options = warmed("rms_norm")
    for other in (x[:4], rows(5, 128)[:, :64], rows(5, 65)[:, 1:], x.float().to(torch.float16)):
        assert isinstance(plan(other, weight.to(other.dtype), **options), launch.Launch)
    with pytest.raises(ShapeError, match="weight is torch.bfloat16 .63,.* expected contiguous torch.bfloat16 .64,."):
        plan(x, weight[:63], **options)
    with pytest.raises(UnsupportedError, match="eps=True; expected a finite number|eps=-1"):
        plan(x, weight, eps=-1)
    with pytest.raises(ShapeError, match="x is a list; expected a torch tensor"):
        plan([1.0], weight, **options)


def test_tensors_that_share_memory_are_another_layout(gpu):
    plan, (x, _, weight), _ = warmed("add_rms_norm")
    with pytest.raises(UnsupportedError, match="residual begins where x or out does"):
        plan(x, x, weight)


def test_numbers_of_other_types_are_another_key(gpu):
    plan, (x, weight), _ = warmed("rms_norm")
    for _ in range(3):
        plan(x, weight, eps=1).run()
    assert isinstance(plan(x, weight, eps=1), plans.Bound) and isinstance(plan(x, weight, eps=1.0), launch.Launch)


def test_what_is_made_on_the_way_is_never_kept(gpu):
    """A copy has the values of the call before; scratch memory belongs to one launch."""

    @plans.planned
    def plan(x, weight):
        return norm.plan_rms_norm.__wrapped__(x.clone(), weight)

    for _ in range(3):
        assert isinstance(plan(rows(5, 64), rows(64)), launch.Launch)


def test_values_that_are_to_be_looked_at_are(gpu):
    plan, args, _ = warmed("append")
    for _ in range(3):
        plan(*args, validate=True)
    with pytest.raises(ShapeError, match="slot_mapping holds 99; the pool has the slots 0 to 7"):
        plan(*args[:4], torch.tensor([0, 1, 99]), validate=True)


def test_on_the_simt_machine_nothing_is_kept(monkeypatch):
    """Launchers look at values there, so each call is planned."""
    x, weight = torch.randn(2, 8), torch.ones(8)
    for _ in range(3):
        assert isinstance(norm.plan_rms_norm(x, weight), launch.Launch)


def test_a_change_of_the_kernels_file_is_seen(gpu, monkeypatch):
    plan, args, options = warmed("rms_norm")
    monkeypatch.setattr(plans.time, "monotonic", lambda: 1e9)
    monkeypatch.setattr(cuda, "is_newest", lambda made: True)
    assert isinstance(plan(*args, **options), plans.Bound)
    monkeypatch.setattr(plans.time, "monotonic", lambda: 1e9 + cuda.LOOK_EVERY)
    monkeypatch.setattr(cuda, "is_newest", lambda made: False)
    assert isinstance(plan(*args, **options), launch.Launch)


def test_a_fault_of_a_warm_launch_names_it(gpu):
    plan, args, options = warmed("rms_norm")
    gpu.error = RuntimeError("CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access")
    with pytest.raises(KernelFault, match=r"rms_norm_kernel<<<\(.*>>> read or wrote an address outside its tensors"):
        plan(*args, **options).run()


def test_plans_are_kept_where_there_are_several_gpus(gpu, monkeypatch):
    monkeypatch.setattr(cupy_engine, "_several_gpus", lambda: True)
    gpu.cupy.cuda.Device = lambda index: nullcontext()
    plan, args, options = warmed("rms_norm")
    assert isinstance(plan(*args, **options), plans.Bound)


@pytest.mark.parametrize("current, switched", [(1, []), (0, [1, 0])])
def test_a_warm_launch_is_made_on_the_gpu_of_its_tensors(gpu, monkeypatch, current, switched):
    """And leaves the thread's current GPU as it was, also when the launch fails."""
    plan, args, options = warmed("rms_norm")
    bound, found = plan(*args, **options), []
    bound._plan.packed._index = 1
    monkeypatch.setattr(packed, "_make_current", MAKE_CURRENT)
    monkeypatch.setattr(packed._thread, "has_context", True, raising=False)
    monkeypatch.setattr(torch._C, "_cuda_getDevice", lambda: current, raising=False)
    monkeypatch.setattr(torch.cuda, "set_device", found.append)
    bound.run()
    assert found == switched
    gpu.error = RuntimeError("CUDA_ERROR_ASSERT")
    with pytest.raises(KernelFault):
        bound.run()
    assert found == 2 * switched


def test_a_kept_plan_keeps_no_memory_alive(gpu):
    plan, *_ = warmed("rms_norm")
    [one] = plan.kept.values()
    assert {x.device.type for x in one.launch.arguments if isinstance(x, torch.Tensor)} == {"meta"}
    assert one.launch.outputs == ()


def test_a_warm_launch_is_a_few_calls_and_no_look_at_a_file(gpu, monkeypatch):
    """Counted in place of timed: functions of the course, where planning and checking again takes some eighty."""
    plan, args, options = warmed("add_rms_norm")
    monkeypatch.setattr(cuda, "stamp", lambda file: pytest.fail("a file was looked at"))
    counts = []
    for call in (lambda: plan(*args, **options).run(), lambda: plan.__wrapped__(*args, **options).run()):
        names = []

        def count(frame, event, _, names=names):
            if event == "call" and "course_lib" in frame.f_code.co_filename:
                names.append(frame.f_code.co_name)

        sys.setprofile(count)
        try:
            call()
        finally:
            sys.setprofile(None)
        counts.append(len(names))
    assert counts[0] <= 12 < 60 < counts[1], counts


@pytest.mark.parametrize(("name", "value"), [("COURSE_SYNC", "1"), ("COURSE_ENGINE", "cpu")])
def test_variables_of_the_environment_are_obeyed(gpu, monkeypatch, name, value):
    """COURSE_SYNC=1 waits for each launch, and on the other engine a tensor of the GPU is refused: never kept there."""
    plan, args, options = warmed("rms_norm")
    monkeypatch.setattr(plans.time, "monotonic", lambda: 1e9)
    monkeypatch.setenv(name, value)
    if name == "COURSE_ENGINE":
        monkeypatch.setattr(device, "engine", lambda: value)
    for _ in range(plans.MOST_TRIES + 1):
        made = plan(*args, **options)
        assert isinstance(made, launch.Launch)
        made.run()
