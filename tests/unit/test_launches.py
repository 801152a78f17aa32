"""benchmarks/launches.py has a launch of every step, so that what the sanitizer watches is the whole course."""

from benchmarks import ROOT
from benchmarks.launches import launches
from course_lib.cuda.steps import steps


def test_every_cuda_file_is_launched():
    stems = {
        str(path.relative_to(ROOT / "kernels_cu").with_suffix("")) for path in (ROOT / "kernels_cu").glob("*/*.cu")
    }
    launched = {stem for stem, language in launches("cpu") if language == "cuda"}
    assert launched == stems, f"missing: {sorted(stems - launched)}; unknown: {sorted(launched - stems)}"


def test_every_triton_twin_is_launched():
    twins = {step.stem for step in steps() if step.twins}
    launched = {stem for stem, language in launches("cpu") if language == "triton"}
    assert launched == twins, f"missing: {sorted(twins - launched)}; unknown: {sorted(launched - twins)}"
