"""Metrics of a service under the names of vLLM, so that a dashboard made for it reads this server too.

Gauges and counters of the engine are read when somebody asks; histograms are filled as tokens come.

May import: prometheus_client.

Source: vLLM documentation, Metrics and Production Metrics, https://docs.vllm.ai/en/stable/usage/metrics (names and
borders of buckets)
"""

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

# seconds
FIRST_TOKEN = (
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0, 160.0,
    640.0, 2560.0,
)  # fmt: skip
BETWEEN_TOKENS = (
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
)  # fmt: skip
WHOLE_REQUEST = (
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0,
    1920.0, 7680.0,
)  # fmt: skip

# name, attribute of Stats, text
GAUGES = (
    ("num_requests_running", "num_running", "Requests that run."),
    ("num_requests_waiting", "num_waiting", "Requests that wait, preempted ones among them."),
    ("kv_cache_usage_perc", "kv_usage", "Share of the KV pages that requests hold, 0 to 1."),
)
COUNTERS = (
    ("prefix_cache_queries", "prefix_queries", "Prompt tokens that were looked up in the prefix cache."),
    ("prefix_cache_hits", "prefix_hits", "Prompt tokens that the prefix cache had."),
    ("num_preemptions", "num_preemptions", "Preemptions of requests."),
)


class Metrics:
    """A registry of one server's metrics, and the listener of its service.

    Parameters
    ----------
    model_name : str, the label of every metric
    stats : function() that gives the engine's Stats, or None before its first step
    """

    def __init__(self, model_name, stats):
        self.model_name, self.stats, self.registry = model_name, stats, CollectorRegistry()
        self.registry.register(self)
        self.prompt_tokens = self._make(Counter, "prompt_tokens", "Prompt tokens of requests that got a first token.")
        self.generation_tokens = self._make(Counter, "generation_tokens", "Tokens that were generated.")
        self.success = self._counter_by_reason("request_success", "Requests that ended, by the reason.")
        text = "Seconds from a request's arrival to its first token."
        self.first_token = self._make(Histogram, "time_to_first_token_seconds", text, buckets=FIRST_TOKEN)
        text = "Seconds between two successive outputs of a request."
        self.between = self._make(Histogram, "inter_token_latency_seconds", text, buckets=BETWEEN_TOKENS)
        text = "Seconds per token after the first, the mean of each request."
        self.per_token = self._make(Histogram, "request_time_per_output_token_seconds", text, buckets=BETWEEN_TOKENS)
        text = "Seconds from a request's arrival to its end."
        self.whole = self._make(Histogram, "e2e_request_latency_seconds", text, buckets=WHOLE_REQUEST)

    def text(self):
        """What /metrics answers, bytes."""
        return generate_latest(self.registry)

    def tokens(self, stream, output, now):
        """An output of a request, before the stream takes it."""
        count = len(output.tokens)
        if count == 0:
            return
        self.generation_tokens.inc(count)
        if stream.first_token is None:
            self.prompt_tokens.inc(output.num_prompt_tokens)
            self.first_token.observe(now - stream.submitted)
        else:
            self.between.observe(now - stream.last_token)

    def finished(self, stream, reason, now):
        """The end of a request, for whatever reason."""
        self.success.labels(self.model_name, reason).inc()
        self.whole.observe(now - stream.submitted)
        if stream.first_token is not None and stream.num_tokens > 1:
            self.per_token.observe((stream.last_token - stream.first_token) / (stream.num_tokens - 1))

    def collect(self):
        """Metrics of the engine's Stats; prometheus_client calls this at each scrape."""
        stats = self.stats()
        if stats is None:
            return
        for kind, rows in ((GaugeMetricFamily, GAUGES), (CounterMetricFamily, COUNTERS)):
            for name, attribute, text in rows:
                family = kind(f"vllm:{name}", text, labels=["model_name"])
                family.add_metric([self.model_name], getattr(stats, attribute))
                yield family

    def _make(self, kind, name, text, **options):
        metric = kind(f"vllm:{name}", text, ["model_name"], registry=self.registry, **options)
        return metric.labels(self.model_name)

    def _counter_by_reason(self, name, text):
        return Counter(f"vllm:{name}", text, ["model_name", "finished_reason"], registry=self.registry)
