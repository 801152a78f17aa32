"""What was compiled before is compiled again when anything that decides its outcome has changed."""

import types

import compiled_before as compiled
import pytest
import triton
import triton.language as tl

SHIFT = tl.constexpr(1)


@triton.jit
def twice_kernel(x, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i) * 2 + SHIFT)


def test_the_digest_is_of_the_parts_the_test_and_the_tools(tmp_path, monkeypatch):
    file = tmp_path / "test_it.py"
    file.write_text("assert registers < 64  # a limit\n")
    before = compiled.digest_of(file, ("text", {"N": 8}))
    assert compiled.digest_of(file, ("text", {"N": 8})) == before
    assert compiled.digest_of(file, ("text", {"N": 16})) != before
    assert compiled.digest_of(file, ("other text", {"N": 8})) != before
    stricter = tmp_path / "test_stricter.py"
    stricter.write_text("assert registers < 32\n")
    assert compiled.digest_of(stricter, ("text", {"N": 8})) != before
    for number, tool in enumerate(compiled.tools()):
        assert tool
        other = list(compiled.tools())
        other[number] = "another version"
        with monkeypatch.context() as patch:
            patch.setattr(compiled, "tools", lambda other=other: tuple(other))
            assert compiled.digest_of(file, ("text", {"N": 8})) != before


def test_the_part_of_a_triton_kernel_holds_its_text_and_what_names_mean():
    texts, names, arch = compiled.of_triton(twice_kernel, "sm_90")
    assert "tl.load(x + i) * 2 + SHIFT" in texts[0] and arch == "sm_90"
    assert any("SHIFT" in str(key) and "1" in str(meaning) for key, meaning in names)


def run_of(monkeypatch, tmp_path, made, **options):
    """A run of pytest that asked for the digests `made`, {test: digest}, with these options; its configuration."""
    monkeypatch.setattr(compiled, "STORED", tmp_path / "compiled.csv")
    compiled.stored.cache_clear()
    return types.SimpleNamespace(stash={compiled._passed: dict(made)}, getoption=lambda name: options.get(name, False))


@pytest.fixture(autouse=True)
def forget():
    yield
    compiled.stored.cache_clear()


def test_only_what_passed_is_stored_and_only_when_asked_for(monkeypatch, tmp_path):
    config = run_of(monkeypatch, tmp_path, {"a.py::one": "1", "a.py::two": "2", "b.py::one": "3"})
    compiled.store(config)
    assert not compiled.STORED.exists()
    compiled.forget_failed(config, types.SimpleNamespace(passed=False, nodeid="a.py::two"))
    compiled.forget_failed(config, types.SimpleNamespace(passed=True, nodeid="a.py::one"))
    config.getoption = lambda name: name == "--store-compiled"
    compiled.store(config)
    compiled.stored.cache_clear()
    assert compiled.stored() == {"a.py::one": "1", "b.py::one": "3"}
    config = run_of(monkeypatch, tmp_path, {"a.py::three": "4"}, **{"--store-compiled": True})
    compiled.store(config)  # the file's other tests are gone
    compiled.stored.cache_clear()
    assert compiled.stored() == {"a.py::three": "4", "b.py::one": "3"}


def test_a_test_of_another_digest_compiles(compiled_before, request, monkeypatch):
    monkeypatch.setattr(compiled, "stored", lambda: {})
    assert not compiled_before("anything")
    del request.config.stash[compiled._passed][request.node.nodeid]  # nothing to keep


def test_every_stored_test_is_there(root):
    for test in compiled.stored():
        file, _, name = test.partition("::")
        assert f"def {name.partition('[')[0]}(" in (root / file).read_text(encoding="utf-8"), test
