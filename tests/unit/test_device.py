"""device.py: the table of GPUs is plausible, the engine follows COURSE_ENGINE, importing it stays light."""

import subprocess
import sys

import pytest

from course_lib import device
from course_lib.errors import CourseError


def test_course_engine_cpu_wins(monkeypatch):
    monkeypatch.setattr(device, "_gpu_count", lambda: 1)
    monkeypatch.delenv("COURSE_ENGINE", raising=False)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert device.has_gpu() and device.engine() == "gpu"
    monkeypatch.setenv("COURSE_ENGINE", "cpu")
    assert not device.has_gpu() and device.engine() == "cpu"


@pytest.mark.parametrize("hidden", ["", "-1"])
def test_hidden_cards_do_not_count(monkeypatch, hidden):
    monkeypatch.setattr(device, "_gpu_count", lambda: 1)
    monkeypatch.delenv("COURSE_ENGINE", raising=False)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", hidden)
    assert not device.has_gpu()


def test_unknown_engine_is_an_error(monkeypatch):
    monkeypatch.setenv("COURSE_ENGINE", "tpu")
    with pytest.raises(CourseError, match='"tpu"'):
        device.has_gpu()


def test_asking_for_a_gpu_that_is_not_there_is_an_error(monkeypatch):
    monkeypatch.setattr(device, "_gpu_count", lambda: 0)
    monkeypatch.setenv("COURSE_ENGINE", "gpu")
    with pytest.raises(CourseError, match="COURSE_ENGINE=gpu"):
        device.has_gpu()


def test_current_cpu_knows_the_limits_of_a_block(monkeypatch):
    monkeypatch.setenv("COURSE_ENGINE", "cpu")
    machine = device.current()
    assert machine.kind == "cpu" and machine.num_sms >= 1 and machine.shared_bytes_per_block == 227 * 1024
    assert machine.arch is None and machine.memory_gbps is None


@pytest.mark.parametrize("name", device.KNOWN_GPUS)
def test_the_table_is_plausible(name):
    row = device.KNOWN_GPUS[name]
    assert row.source and row.capability >= (7, 5)
    assert row.shared_bytes_per_block <= row.shared_bytes_per_sm
    # a wrong unit would be off by a thousand: every card needs 20 to 800 FLOP for each byte it reads
    assert 20 < row.fp16_tflops * 1e12 / (row.memory_gbps * 1e9) < 800
    assert row.bf16_tflops is None or row.capability >= (8, 0)
    assert row.l2_bytes < row.memory_bytes


@pytest.mark.parametrize(
    ("driver_name", "key"),
    [
        ("NVIDIA A100-SXM4-80GB", "A100"),
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA H200", "H200"),
        ("NVIDIA GeForce RTX 4090", "RTX 4090"),
        ("Tesla T4", "T4"),
        ("NVIDIA L4", "L4"),
        ("NVIDIA L40S", None),
    ],
)
def test_known_finds_the_card_by_the_drivers_name(driver_name, key):
    assert device.known(driver_name) is (device.KNOWN_GPUS[key] if key else None)


def test_hopper_compiles_for_its_own_instructions():
    assert device.KNOWN_GPUS["H200"].arch == "sm_90a" and device.KNOWN_GPUS["L4"].arch == "sm_89"


def test_importing_device_is_light():
    # loaded by its path: the package around it may load more
    code = (
        "import importlib.util, sys; sys.modules['course_lib'] = type(sys)('course_lib');"
        "sys.modules['course_lib'].__path__ = ['course_lib'];"
        "import course_lib.device as d; d.has_gpu();"
        "print([m for m in ('torch', 'cupy', 'triton', 'numpy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
