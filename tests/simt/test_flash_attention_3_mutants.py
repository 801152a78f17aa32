"""Every mistake of flash_attention_3_mutants.py is found, in every schedule, in words of its own."""

import pytest

from course_lib import cuda
from course_lib.cuda.source import KERNELS_ROOT
from course_lib.ops import flash_attention_3
from tests.simt.flash_attention_3_mutants import MUTANTS, RUNG_7, WRONG_NUMBERS
from tests.simt.test_flash_attention_2 import SCHEDULES, assert_right, tensors


@pytest.fixture(autouse=True)
def on_the_machine(monkeypatch):
    monkeypatch.setenv("COURSE_ENGINE", "cpu")


def launch_of(mutant):
    """(launch of the right rung, the mutant's kernel, q, k, v): six tiles of keys, two of queries.

    07: one tile of keys, six of queries. With more, the waits for K and V let Q alone be late.
    """
    if mutant.rung == RUNG_7:
        q, k, v = tensors(1, 2, 1, 400, 100, 64)
        launch = flash_attention_3.plan(q, k, v, variant=mutant.rung, num_blocks=1)
    else:
        q, k, v = tensors(1, 1, 1, 200, 700, 128)
        launch = flash_attention_3.plan(q, k, v, variant=mutant.rung)
    text = (KERNELS_ROOT / f"flash_attention_3/{mutant.rung}.cu").read_text(encoding="utf-8")
    for find, replace in mutant.edits:
        assert text.count(find) == 1, f"{find!r} is {text.count(find)} times in {mutant.rung}"
        text = text.replace(find, replace)
    defines = {"HEAD_DIM": q.shape[3], "ELEMENT": "__half", "BLOCK_N": launch.function.defines["BLOCK_N"]}
    kernel = cuda.compile(text, "flash_attention_3_kernel", defines=defines, filename="mutant.cu", checked=True)
    return launch, kernel, (q, k, v)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name.replace(" ", "_"))
def test_every_mistake_is_found_in_every_schedule(mutant):
    launch, kernel, inputs = launch_of(mutant)
    options = {"shared_bytes": launch.shared_bytes, "outputs": launch.outputs}
    for schedule in SCHEDULES:
        report = kernel.profile(launch.grid, launch.block, *launch.arguments, schedule=schedule, **options)
        found = [str(finding.message) for finding in report.findings]
        if report.ok and WRONG_NUMBERS in mutant.says:
            with pytest.raises(AssertionError):
                assert_right(*inputs, *launch.outputs, False)
            continue
        kinds = [finding.kind for finding in report.findings]
        assert any(words in text for words in mutant.says for text in found + kinds), (schedule, found)
