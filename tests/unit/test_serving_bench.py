"""`course bench-serve`: cells, rows, CSV files, and the same loads over HTTP."""

import asyncio
import csv

import httpx
import pytest
from fake_engine import FakeEngine

from course_lib.cli import main
from course_lib.model import load_tokenizer
from course_lib.model.shipped import folder
from course_lib.serving import ServingConfig, bench, load, traces
from course_lib.serving.http_load import drive_http, metric
from course_lib.serving.server import Served, create_app
from course_lib.serving.service import Service
from course_lib.serving.simulator import Line, SimulatedEngine, StepTimes


def local(**config):
    """A simulated engine as a target."""
    times = StepTimes(Line(1e-3, 0.0, 0.0), Line(1e-3, 1e-5, 0.0))
    engine = SimulatedEngine(ServingConfig(**({"num_pages": 4096} | config)), times)
    return bench.Local(engine, clock=engine.clock, sleep=engine.sleep)


def test_the_grid_has_every_cell_once():
    cells = bench.grid()
    assert len(set(cells)) == 4 * 3 * 2 and {cell.num_requests for cell in cells} == {4, 16, 64, 128}
    assert [cell.num_requests for cell in bench.arrivals((2.0, 0.01), 8, 8)] == [20, 2]


@pytest.mark.parametrize("trace", ["grid", "shared", "turns"])
def test_a_cell_of_every_closed_trace(trace):
    (row,) = bench.rows(local(), bench.grid((2,), (64,), (4,), trace=trace), warm=False)
    assert row["errors"] == 0 and row["requests"] == (2 * bench.TURNS if trace == "turns" else 4)
    assert (row["hit_rate"] > 0.2) == (trace != "grid")


def test_more_arrivals_wait_longer():
    cells = bench.arrivals((10.0, 2000.0), 64, 16, seconds=0.5)
    slow, fast = bench.rows(local(max_num_seqs=4), cells, warm=False)
    assert fast["ttft_p99_ms"] > 5 * slow["ttft_p99_ms"] and slow["rate"] == 10


def test_what_the_model_cannot_take_is_left_out():
    (row,) = bench.rows(local(max_model_len=100), bench.grid((1,), (99,), (2,)))
    assert row["note"] == "left out: 101 tokens, and the model takes 100" and "tokens_per_s" not in row


def test_a_warm_run_leaves_nothing_in_the_prefix_cache():
    (row,) = bench.rows(local(), bench.grid((2,), (64,), (4,)))
    assert row["hit_rate"] == 0


def test_the_command_writes_rows_and_samples(tmp_path, capsys):
    files = tmp_path / "rows.csv", tmp_path / "samples.csv"
    words = ["--batch", "2", "--prompt", "8", "600", "--output", "2", "--num-pages", "16", "--max-num-seqs", "4"]
    assert main(["bench-serve", *words, "--out", str(files[0]), "--samples", str(files[1])]) == 0
    first, second = csv.DictReader(files[0].read_text().splitlines())
    assert first["errors"] == "0" and float(first["tokens_per_s"]) > 0 and "left out" in second["note"]
    samples = list(csv.DictReader(files[1].read_text().splitlines()))
    assert samples and {row["cell"] for row in samples} == {"0"} and max(float(row["kv_use"]) for row in samples) > 0
    assert "batch=2 prompt_len=8" in capsys.readouterr().out


def test_no_server_is_a_sentence(capsys):
    assert main(["bench-serve", "--url", "http://127.0.0.1:9/v1"]) == 2
    assert "no server answers there" in capsys.readouterr().err


# over HTTP, without a port


def over_http(source, **limits):
    """The Run of a load on a server with a fake engine."""
    tokenizer = load_tokenizer(folder("small"))
    word = tokenizer.encode(" the").ids[0]
    engine = FakeEngine(lambda sequence: word, num_pages=256, max_model_len=100)
    service = Service(engine, lambda: engine, **limits)
    app = create_app(service, Served("small", tokenizer, 4096, 100))

    async def drive():
        transport = httpx.ASGITransport(app)
        client = httpx.AsyncClient(transport=transport, base_url="http://course", timeout=20)
        return await drive_http("http://course/v1/", "small", source, client=client)

    service.start()
    try:
        return asyncio.run(drive())
    finally:
        service.stop()


def test_a_load_over_http_counts_as_the_server_does():
    run = over_http(load.ClosedLoop(traces.fixed_trace(5, 6, 7, vocab_size=100), 2))
    row = load.summary(run)
    assert row["errors"] == 0 and row["output_tokens"] == 35 and row["requests"] == 5
    assert all(line.finish_reason == "length" and line.num_prompt == 6 for line in run.timelines.values())
    assert run.samples and run.stats.num_preemptions == 0


def test_refusals_over_http_are_errors_in_words():
    run = over_http(load.OpenLoop(traces.fixed_trace(2, 99, 7, vocab_size=100)))
    assert all("together they may be 100 at most" in line.error for line in run.timelines.values())


def test_conversations_over_http():
    run = over_http(load.Conversing(traces.conversations(1, 3, 4, 2, vocab_size=100)))
    assert [line.num_prompt for line in run.timelines.values()] == [4, 8, 12]  # the answers are not known as tokens


def test_metrics_are_read_by_name():
    text = '# HELP vllm:x y\nvllm:x{model_name="a"} 2.0\nvllm:x{model_name="b"} 1.0\nvllm:x_created{a="b"} 9.0\n'
    assert metric(text, "x") == 3.0 and metric(text, "missing") is None
