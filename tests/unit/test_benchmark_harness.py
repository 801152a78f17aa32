"""The harness of the benchmarks: its command line, its checks, the rows it writes, and new rows beside stored ones."""

import csv
import importlib
import re
import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch
from benchmark_dry_runs import DRY, dry_rows

from benchmarks import acceptance, flash_attention, flash_attention_1, loop_order, simt_speed, softmax
from benchmarks import all as everything
from benchmarks.counters import flash_attention_2_rungs
from benchmarks.harness import Benchmark, Variants, compare, largest_error, launched, main
from course_lib.errors import UnsupportedError
from course_lib.ops import flash_attention_2


@pytest.fixture(autouse=True)
def on_the_cpu(monkeypatch):
    monkeypatch.setenv("COURSE_ENGINE", "cpu")


def rows_of(load, options):
    """A case file with one right and one wrong variant."""
    variants = Variants(options)
    variants.add({"variant": "right"}, lambda: lambda: load["n"], lambda out: 0.0, 1.0)
    if load["n"] == 2:
        variants.add({"variant": "wrong"}, lambda: lambda: load["n"], lambda out: 3.0, 1.0)
    yield from variants.timed(load)


def toy(**changed):
    declared = {
        "keys": ("variant", "n"), "values": ("median_us", "max_error", "note"), "rows": rows_of,
        "loads": lambda dry: [{"n": 1}, {"n": 2}, {"n": 3}],
    }  # fmt: skip
    return Benchmark("Time nothing.", everything.__file__, "no method", **declared | changed)


def read(path):
    lines = path.read_text().splitlines()
    return lines[0], list(csv.DictReader(line for line in lines if not line.startswith("#")))


def test_a_wrong_variant_has_its_note_and_makes_the_run_fail(tmp_path):
    out = tmp_path / "a" / "rows.csv"
    assert main(toy(), ["--dry", "--out", str(out), "--commit", "abc"]) == 1
    head, rows = read(out)
    assert head == "# no method; python3 -m benchmarks.all"
    notes = {(row["variant"], row["n"]): row["note"] for row in rows}
    assert notes.pop(("wrong", "2")) == "wrong by 3.0e+00: not timed" and list(notes.values()) == [""] * 3
    assert {(row["commit"], row["device"]) for row in rows} == {("abc", "CPU, dry run")}
    assert main(toy(), ["--dry", "--only", "n=1,3"]) == 0


def test_only_and_the_time_budget_choose_the_loads(tmp_path, capsys):
    main(toy(), ["--dry", "--out", str(tmp_path / "rows.csv"), "--only", "n=1,3"])
    assert [row["n"] for row in read(tmp_path / "rows.csv")[1]] == ["1", "3"]
    with pytest.raises(SystemExit, match="no such column; a load has n"):
        main(toy(), ["--dry", "--only", "m=1"])
    assert main(toy(), ["--dry", "--seconds", "-1"]) == 0
    assert capsys.readouterr().out.count("not begun, -1 s are over") == 3


def test_only_leaves_the_rows_of_other_loads(tmp_path):
    out = ["--dry", "--out", str(tmp_path / "rows.csv")]
    main(toy(), [*out, "--commit", "abc"])
    main(toy(), [*out, "--commit", "def", "--only", "n=1,2"])
    found = [(row["variant"], row["n"], row["commit"]) for row in read(tmp_path / "rows.csv")[1]]
    assert found == [("right", "3", "abc"), ("right", "1", "def"), ("right", "2", "def"), ("wrong", "2", "def")]
    with pytest.raises(SystemExit, match="rows of other loads with other columns"):
        main(toy(values=("median_us", "note")), [*out, "--only", "n=3"])
    assert len(read(tmp_path / "rows.csv")[1]) == 4
    main(toy(), [*out, "--commit", "ghi"])
    assert {row["commit"] for row in read(tmp_path / "rows.csv")[1]} == {"ghi"}


def test_a_load_that_is_not_begun_keeps_its_rows(tmp_path):
    out = ["--dry", "--out", str(tmp_path / "rows.csv")]
    main(toy(), [*out, "--commit", "abc"])
    before = read(tmp_path / "rows.csv")[1]
    main(toy(), [*out, "--commit", "def", "--seconds", "-1"])
    assert read(tmp_path / "rows.csv")[1] == before
    main(toy(values=("median_us", "note")), [*out, "--seconds", "-1"])  # other columns: nothing can stay
    assert not read(tmp_path / "rows.csv")[1]


def test_a_dry_run_does_not_write_among_the_stored_rows(root, capsys):
    with pytest.raises(SystemExit):
        main(toy(), ["--dry", "--out", str(root / "benchmarks" / "results" / "h200" / "x.csv")])
    assert "outside benchmarks/" in capsys.readouterr().err
    if not torch.cuda.is_available():
        with pytest.raises(SystemExit):
            main(toy(), ["--out", "x.csv"])
        assert "no NVIDIA GPU is visible" in capsys.readouterr().err


def test_a_missing_peer_says_so_and_a_broken_kernel_stops_the_run():
    def fails(error):
        def prepare():
            raise error

        return prepare

    variants = Variants(DRY)
    variants.add({"variant": "peer"}, fails(ImportError("No module named 'flashinfer'")), optional=True)
    variants.add({"variant": "old card"}, fails(UnsupportedError("needs 8.0\nand more")))
    assert [row["note"] for row in variants.rows.values()] == [
        "not run: No module named 'flashinfer'", "not run: needs 8.0",
    ]  # fmt: skip
    assert not variants.calls
    with pytest.raises(RuntimeError):
        variants.add({"variant": "ours"}, fails(RuntimeError("broken")))


def test_only_right_variants_are_timed(monkeypatch):
    """What is timed, and how often, is what the check let through."""
    calls = {}
    monkeypatch.setattr("benchmarks.harness.variants.graphed", lambda call, on_gpu: call)
    monkeypatch.setattr("benchmarks.harness.variants.timed_in_turns", lambda given, *_, **__: calls.update(given) or {})
    list(rows_of({"n": 2}, SimpleNamespace(dry=False, runs=2)))
    assert list(calls) == [("right",)]


def test_errors_are_largest_and_nothing_that_is_not_finite_passes():
    right = torch.zeros(3, dtype=torch.float64)
    assert largest_error((), [(torch.tensor([0.0, -2.0, 1.0]), right)]) == 2.0
    assert largest_error((), [(torch.ones(3), right)], scale=lambda _: 4.0) == 0.25
    for value in (float("nan"), float("inf")):
        unchecked = torch.tensor([0.0, value])
        assert largest_error((unchecked,), [(right, right)]) == float("inf")


def test_what_a_launch_does_not_write_is_noticed():
    launch = SimpleNamespace(run=lambda: None, outputs=(torch.zeros(2), torch.zeros(2)))
    assert launched(launch)()[0].isnan().all() and not launch.outputs[1].isnan().any()


@pytest.mark.parametrize("case", [softmax, loop_order, flash_attention], ids=lambda case: case.__name__)
def test_a_dry_run_has_a_right_row_for_every_variant(case, tmp_path):
    assert len(dry_rows(case, tmp_path, "--runs", "2")) >= 4


def test_float32_attention_is_tried_dry(tmp_path):
    rows = dry_rows(flash_attention_1, tmp_path, "--runs", "2", "--only", "seq_len=32")
    assert {(row["variant"], row["language"]) for row in rows} >= {("torch", "torch"), ("06_flash_attention_1", "cuda")}


def test_the_cpu_engines_are_timed_dry(tmp_path):
    assert main(simt_speed.BENCHMARK, ["--dry", "--out", str(tmp_path / "rows.csv")]) == 0
    rows = read(tmp_path / "rows.csv")[1]
    assert {"simt fast, 02_online", "triton interpreter, 02_online"} <= {row["engine"] for row in rows}
    assert all(float(row["median_ms"]) > 0 and row["cores"] and not row["note"] for row in rows)


def test_the_drafts_are_counted_dry(tmp_path):
    assert main(acceptance.BENCHMARK, ["--dry", "--out", str(tmp_path / "rows.csv")]) == 0
    rows = read(tmp_path / "rows.csv")[1]
    assert [row["draft"] for row in rows] == ["model", "n-gram"]
    for row in rows:
        rounds, proposed, accepted = (int(row[name]) for name in ("rounds", "proposed", "accepted"))
        assert row["new_tokens"] == "16" and accepted <= proposed <= 2 * rounds
        assert rounds + accepted == 16  # a round gives what it accepts and one token


def test_every_case_file_is_run_by_all(root):
    """Listed there: each file that declares a benchmark or counters."""
    declaration = re.compile(r"^(BENCHMARK = (Benchmark|benchmark_of_(?:layers|engines))|COUNTERS = Counters)\(", re.M)
    declared = set()
    for path in [*(root / "benchmarks").glob("*.py"), *(root / "benchmarks" / "counters").glob("*.py")]:
        if declaration.search(path.read_text(encoding="utf-8")):
            declared.add(path.stem)
    assert declared - {"simt_speed", "acceptance", "serving_soak"} == {*everything.CASES, *everything.COUNTERS} - {
        "read_counters"
    }


# case files without stored rows; one that gets rows leaves this set
UNMEASURED = set()
UNREACHED = {"model": 1}  # case file -> its loads for which no run had the time yet


def test_a_case_file_has_stored_rows_or_is_known_to_have_none(root):
    folder = root / "benchmarks" / "results" / "h200"
    assert {name for name in everything.CASES if not (folder / f"{name}.csv").is_file()} == UNMEASURED


@pytest.mark.parametrize(
    "name",
    [
        *(name for name in everything.CASES if name not in UNMEASURED),
        *("matmul_counters", "flash_attention_2_rungs", "flash_attention_3_rungs"),
    ],
)
def test_stored_rows_have_the_columns_of_their_case_file(root, name):
    module = importlib.import_module(everything.module_name(name))
    stored = read(root / "benchmarks" / "results" / "h200" / f"{name}.csv")[1]
    if name in everything.COUNTERS:
        declared = module.COUNTERS
        columns, loads = [*declared.keys, *declared.metrics], []
    else:
        declared = module.BENCHMARK
        columns, loads = [*declared.keys, *declared.values], declared.loads(False)
    assert [column for column in stored[0] if column in columns] == [c for c in columns if c in stored[0]]
    assert set(columns) - set(stored[0]) <= {"note"}
    assert set(declared.compared) <= set(columns)
    names = [tuple(row[key] for key in declared.keys) for row in stored]
    assert len(set(names)) == len(names), "a row is identified by its keys"
    found = [
        any(all(row.get(key, str(value)) == str(value) for key, value in load.items()) for row in stored)
        for load in loads
    ]
    assert found.count(False) == UNREACHED.get(name, 0), [
        load for load, there in zip(loads, found, strict=True) if not there
    ]
    if loads and declared.quick:
        assert any(all(load.get(key) in values for key, values in declared.quick.items()) for load in loads)


def test_the_ladder_is_measured_as_the_launcher_lists_it():
    steps = [variant for variant in flash_attention_2.VARIANTS if variant != "01_loop_order"]
    assert [variant for variant, language in flash_attention.ours(dry=False) if language == "cuda"] == steps
    rungs = [case["variant"] for case in flash_attention_2_rungs.cases() if case["head_dim"] == 64]
    assert rungs == [*(f"flash_attention_2/{variant}" for variant in steps), "sdpa_flash"]


def change(old, new, column="median_us"):
    return compare.Change("variant=a", column, old, new)


@pytest.mark.parametrize(
    ("old", "new", "column", "verdict"),
    [
        (100.0, 102.9, "median_us", "same"), (100.0, 103.1, "median_us", "slower"), (50.0, 48.0, "median_us", "faster"),
        (100.0, 104.0, "instructions", "more"), (100.0, 96.0, "instructions", "less"), (None, 1.0, "median_us", "new"),
        (0.0, 0.0, "conflicts", "same"), (0.0, 5.0, "conflicts", "more"), (100.0, 0.0, "conflicts", "less"),
    ],
)  # fmt: skip
def test_a_change_beyond_the_noise_has_a_word(old, new, column, verdict):
    assert change(old, new, column).verdict() == verdict


def test_rows_are_compared_by_their_keys():
    stored = [{"variant": "a", "n": "1", "median_us": "10.0"}, {"variant": "a", "n": "2", "median_us": "20.0"}]
    new = [
        {"variant": "a", "n": "2", "median_us": "22.0"}, {"variant": "b", "n": "2", "median_us": "5.0"},
        {"variant": "a", "n": "1", "median_us": ""},
    ]  # fmt: skip
    found = compare.changes(("variant", "n"), ("median_us",), new, stored)
    assert [(c.row, c.old, c.new) for c in found] == [("variant=a n=2", 20.0, 22.0), ("variant=b n=2", None, 5.0)]
    text = compare.report(found)
    assert text.splitlines()[0].startswith("slower   1.100") and text.endswith("1 slower, 1 new (same: within 3 %)")


def test_all_measures_and_compares(root, tmp_path, monkeypatch, capsys):
    """A dry run of one case file; the stored row is one of an earlier run."""
    stored, out = tmp_path / "stored", tmp_path / "out"
    stored.mkdir()
    main(softmax.BENCHMARK, ["--dry", "--out", str(stored / "softmax.csv"), "--only", "num_cols=128"])
    arguments = ["softmax", "--dry", "--out-dir", str(out), "--stored", str(stored), "--commit", "abc"]
    assert everything.main(arguments) == 0
    assert {row["commit"] for row in read(out / "softmax.csv")[1]} == {"abc"}
    assert "=== softmax: new rows beside the stored ones\nnothing to compare" in capsys.readouterr().out
    assert everything.written(out / "softmax.csv", started=2e12) == []  # an older file is not this run's
    with pytest.raises(SystemExit):
        everything.main(["--dry"])
    assert "would replace the stored rows" in capsys.readouterr().err
    if not torch.cuda.is_available():
        assert everything.main([]) == 2 and everything.main(["--quick", "--out-dir", str(out)]) == 2


def test_the_command_line_of_a_case_file():
    options = SimpleNamespace(out_dir=everything.RESULTS, commit="abc", quick=True, dry=False, runs=5, also=None)
    words = everything.command("decode", options, 90.0)
    assert words[1:3] == ["-m", "benchmarks.decode"] and words[-5:] == ["--quick", "--runs", "5", "--seconds", "90"]
    assert "--quick" not in everything.command("flash_attention_2_rungs", options, 90.0)


def test_course_bench_runs_a_case_file(root):
    command = [sys.executable, "-m", "course_lib.cli", "bench"]
    done = subprocess.run([*command, "access", "--dry"], cwd=root, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and done.stdout.count("right; not timed") == 11, done.stdout + done.stderr
    done = subprocess.run([*command, "nothing"], cwd=root, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2 and "lists the case files" in done.stderr
