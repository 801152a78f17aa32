"""The four plots of a serving benchmark, from its rows: throughput over latency, TTFT over the rate, TPOT over the
batch, use of the KV cache over time.

Rows are dicts as `course bench-serve`, benchmarks.serving and benchmarks.serving_grid write them; numbers may be text.
A row without the numbers that a plot needs is left out.

May import: style, drawing, line_charts, matplotlib.
"""

from itertools import accumulate

from .drawing import clean, empty_picture, grid_lines, name_axes
from .line_charts import curves, line_look
from .style import BLUE, GREEN, INK, ORANGE, SERIES, VERMILION, Picture

_TIME_POINTS = 400  # of a line over time: more cannot be told apart


def _numbers(rows, *names):
    """The rows that have all of these columns, each a dict with these columns as numbers."""
    complete = [row for row in rows if all(row.get(name) not in (None, "") for name in names)]
    return [(row, {name: float(row[name]) for name in names}) for row in complete]


def _lines(rows, key, names):
    """dict, value of `key` in words -> list of numbers."""
    found = {}
    for row, numbers in _numbers(rows, *names):
        found.setdefault(key(row), []).append(numbers)
    return found


def _closed(rows):
    """The rows of closed loops: those with clients."""
    return [row for row in rows if float(row.get("batch") or 0) > 0]


def _lengths(row):
    return f"{int(row['prompt_len']):,} in, {int(row['output_len']):,} out"


def throughput_picture(rows, *, title="throughput over latency"):
    """Tokens a second of all requests over the median time per token of one, a line for each pair of lengths.

    rows : with prompt_len, output_len, batch, tokens_per_s, tpot_p50_ms; a point is a number of clients
    """
    lines = _lines(_closed(rows), _lengths, ("batch", "tokens_per_s", "tpot_p50_ms"))
    if not lines:
        return empty_picture(title)
    lines = {name: sorted(points, key=lambda point: point["batch"]) for name, points in lines.items()}
    alt_text = "; ".join(f"{name}: {', '.join(map(_point_text, points))}" for name, points in lines.items())
    figure = Picture(7.8, 3.8, f"{title}: tokens a second at ms per token. {alt_text}.")
    axes = figure.subplots()
    for number, (name, points) in enumerate(lines.items()):
        x, y = ([point[column] for point in points] for column in ("tpot_p50_ms", "tokens_per_s"))
        look = line_look(number) | {"markerfacecolor": "white" if number >= len(SERIES) else None}  # a sixth line
        axes.plot(x, y, **look, label=name, linewidth=1.8, markersize=5.5, markeredgecolor=INK)
        place = {"textcoords": "offset points", "fontsize": 8, "color": INK}
        axes.annotate(f"{points[-1]['batch']:.0f}", (x[-1], y[-1]), (4, 4), **place)
    axes.set(xscale="log", yscale="log")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(_plain)
        axis.set_minor_formatter(_first_digits)
    axes.tick_params(which="minor", labelsize=8, labelcolor=INK)
    axes.legend(fontsize=8.5, frameon=False, labelcolor=INK)
    name_axes(
        axes, "median time per output token of a request, ms (at the end of a line: its clients)", "tokens/s", title
    )
    clean(axes)
    grid_lines(axes, "both")
    return figure


def _plain(value, _position):
    return f"{value:,.10g}"


def _first_digits(value, _position):
    """Numbers at 2 and 5 between the powers of ten."""
    return f"{value:,.10g}" if f"{value:e}"[0] in "25" else ""


def _point_text(point):
    return f"{point['tokens_per_s']:,.0f} at {point['tpot_p50_ms']:.3g} ms with {point['batch']:.0f} clients"


def ttft_picture(rows, *, title="time to the first token over the rate"):
    """TTFT at p50 and p99 over the rate of Poisson arrivals, two lines for each engine.

    rows : with rate, ttft_p50_ms, ttft_p99_ms, and variant where there are several
    """
    names = ("rate", "ttft_p50_ms", "ttft_p99_ms")
    found = _numbers([row for row in rows if float(row.get("rate") or 0) > 0], *names)
    series = {}
    for row, numbers in found:
        for percent in ("p50", "p99"):
            name = " ".join(filter(None, (row.get("variant", ""), percent)))
            series.setdefault(name, []).append((numbers["rate"], numbers[f"ttft_{percent}_ms"]))
    if not series:
        return empty_picture(title)
    figure = curves(series, x="requests a second", y="time to the first token, ms", title=title, log=True)
    figure.axes[0].yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    return figure


def tpot_picture(rows, *, title="time per output token over the batch"):
    """Median time per output token over the number of clients, a line for each pair of lengths.

    rows : with prompt_len, output_len, batch, tpot_p50_ms
    """
    lines = _lines(_closed(rows), _lengths, ("batch", "tpot_p50_ms"))
    series = {name: [(point["batch"], point["tpot_p50_ms"]) for point in points] for name, points in lines.items()}
    return curves(series, x="clients (closed loop)", y="time per output token, ms", title=title)


def kv_picture(samples, *, preemptions=(), title="use of the KV cache over time"):
    """Share of the pages in use, and requests that run and wait, over time.

    Parameters
    ----------
    samples : list of dict with time (s), kv_use (0 to 1), running, waiting; see `samples_of_steps`
    preemptions : times at which somebody was preempted, marked
    """
    found = [numbers for _, numbers in _numbers(samples, "time", "kv_use", "running", "waiting")]
    if not found:
        return empty_picture(title)
    found = found[:: 1 + len(found) // _TIME_POINTS]
    columns = {name: [numbers[name] for numbers in found] for name in found[0]}
    figure = Picture(7.8, 4.2, f"{title}: {_kv_text(columns, preemptions)}.")
    upper, lower = figure.subplots(2, sharex=True)
    upper.fill_between(columns["time"], [100 * use for use in columns["kv_use"]], color=BLUE, alpha=0.35)
    upper.plot(columns["time"], [100 * use for use in columns["kv_use"]], color=BLUE, linewidth=1.6)
    for moment in preemptions:
        upper.axvline(moment, color=VERMILION, linewidth=0.9, linestyle=":")
    upper.set_ylim(0, 105)
    lower.plot(columns["time"], columns["running"], color=GREEN, linewidth=1.8, label="running")
    lower.plot(columns["time"], columns["waiting"], color=ORANGE, linewidth=1.8, linestyle="--", label="waiting")
    lower.legend(fontsize=8.5, frameon=False, labelcolor=INK)
    lower.set_ylim(0, None)
    marks = "; dotted: a preemption" if len(preemptions) else ""
    name_axes(upper, "", "% of the pages", f"{title}{marks}")
    name_axes(lower, "s", "requests")
    for axes in (upper, lower):
        clean(axes)
        grid_lines(axes, "y")
    return figure


def _kv_text(columns, preemptions):
    peak = max(columns["kv_use"])
    at = columns["time"][columns["kv_use"].index(peak)]
    pages = f"at most {100 * peak:.0f} % of the pages, at {at:.3g} of {columns['time'][-1]:.3g} s"
    requests = f"at most {max(columns['running']):.0f} requests run and {max(columns['waiting']):.0f} wait"
    return f"{pages}; {requests}; {len(preemptions)} preemptions"


def samples_of_steps(steps, num_pages, page_size, num_requests=0):
    """Samples for `kv_picture` from the rows of measured steps, in order.

    A sequence's last page is half full on average. Requests that wait are those of num_requests that have not run yet,
    if all of them came at once; for steps of which some were left out, times are too short.
    """
    found, most = [], 0
    ends = accumulate(float(step["ms"]) / 1e3 for step in steps)
    for step, moment in zip(steps, ends, strict=True):
        running = int(step["num_seqs"])
        most = max(most, running)
        pages = float(step["kv_tokens"]) / page_size + running / 2
        waiting = max(0, num_requests - running) if running == most and most < num_requests else 0
        found.append({"time": moment, "kv_use": pages / num_pages, "running": running, "waiting": waiting})
    return found
