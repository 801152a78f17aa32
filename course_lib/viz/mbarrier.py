"""A model of an mbarrier, and a ring of stages that a producer and its consumers share, event by event.

Source: PTX ISA, "Phase of the mbarrier object", "Tracking asynchronous operations by the mbarrier object".

May import: nothing of the course.
"""

from dataclasses import dataclass, field


class MbarrierModel:
    """What an mbarrier does, one call an instruction of common/mbarrier.cuh.

    Attributes
    ----------
    num_arrivals : int, of a phase
    phase : int, phases completed so far; the current phase has parity phase % 2
    pending : int, arrivals that the current phase still needs
    tx_bytes : int, bytes expected minus bytes landed in the current phase; negative when bytes land early
    """

    def __init__(self, num_arrivals):
        if num_arrivals < 1:
            raise ValueError(f"mbarrier_init needs at least one arrival a phase, got {num_arrivals}.")
        self.num_arrivals = self.pending = num_arrivals
        self.phase = self.tx_bytes = 0

    def arrive(self):
        """One arrival; True when it completes the phase."""
        if self.pending == 0:
            raise ValueError(
                f"Phase {self.phase} has its {self.num_arrivals} arrivals already and waits for {self.tx_bytes:,} "
                "bytes; init with as many arrivals as there are, or arrive less often."
            )
        self.pending -= 1
        return self._complete()

    def arrive_expect_tx(self, num_bytes):
        """The phase also waits for `num_bytes`; then one arrival."""
        self.tx_bytes += num_bytes
        return self.arrive()

    def complete_tx(self, num_bytes):
        """Bytes land; True when they complete the phase."""
        self.tx_bytes -= num_bytes
        return self._complete()

    def test_parity(self, parity):
        """Whether a wait for `parity` returns: the phase before the current one has that parity.

        Before the first phase completes, that is true of parity 1.
        """
        if parity not in (0, 1):
            raise ValueError(f"A parity is 0 or 1, got {parity}; pass the number of the phase modulo 2.")
        return (self.phase - 1) % 2 == parity

    def _complete(self):
        if self.pending or self.tx_bytes:
            return False
        self.phase, self.pending = self.phase + 1, self.num_arrivals
        return True

    def state(self):
        """A MbarrierState, a copy that later calls do not change."""
        return MbarrierState(self.phase, self.pending, self.num_arrivals, self.tx_bytes)


@dataclass(frozen=True)
class MbarrierState:
    """The attributes of a MbarrierModel at one time."""

    phase: int
    pending: int
    num_arrivals: int
    tx_bytes: int

    def sentence(self):
        return (
            f"phase {self.phase} (parity {self.phase % 2}), {self.pending} of {self.num_arrivals} arrivals pending, "
            f"{self.tx_bytes:,} bytes missing"
        )


@dataclass(frozen=True)
class RingStep:
    """One event, and the state after it.

    Attributes
    ----------
    actor, text : str, who did what
    barrier : str, the barrier concerned, "" for init
    barriers : dict, name -> MbarrierState
    waiting : dict, actor -> (barrier, parity), of the actors that are blocked
    slots : tuple of str, what each stage holds: "empty", "tile 2 on its way", "tile 2"
    """

    actor: str
    text: str
    barrier: str
    barriers: dict
    waiting: dict
    slots: tuple

    def sentence(self):
        waits = "; ".join(
            f"{actor} waits for {name}, parity {parity}" for actor, (name, parity) in self.waiting.items()
        )
        return f"{self.actor}: {self.text}. Blocked: {waits or 'none'}."


@dataclass
class _Ring:
    """The barriers, the slots and the copies under way."""

    barriers: dict
    slots: list
    latency: int
    clock: int = 0  # rounds so far
    copies: list = field(default_factory=list)  # (tile, stage, round of the landing), first issued first
    stale: bool = False


def ring_steps(num_tiles=3, *, num_stages=2, num_consumers=2, tile_bytes=16_384, parities=(1, 0), latency=2):
    """Every event of a producer that fills a ring of stages and of consumers that read them.

    A stage has two barriers: full (one arrival, and the bytes of the tile) and empty (one arrival a consumer). The
    actors take turns; a copy lands after `latency` rounds.

    Parameters
    ----------
    num_tiles, num_stages, num_consumers : int, at least 1
    tile_bytes : int
    parities : (producer's first parity, consumers' first parity); both flip when the ring wraps. (1, 0) is right; with
        (0, 0) the producer never starts, with (1, 1) the consumers read what has not landed
    latency : int, rounds from the issue of a copy to its landing

    Returns
    -------
    list of RingStep; the last one says whether all actors have finished or there is a deadlock
    """
    ring = _Ring(
        {f"{name}[{s}]": MbarrierModel(c) for s in range(num_stages) for name, c in _counts(num_consumers)},
        ["empty"] * num_stages,
        latency,
    )
    actors = {"producer": _produce(ring, num_tiles, num_stages, tile_bytes, parities[0])}
    for number in range(num_consumers):
        actors[f"consumer {number}"] = _consume(ring, num_tiles, num_stages, parities[1])
    waiting, steps = {}, []

    def record(actor, text, barrier=""):
        states = {name: model.state() for name, model in ring.barriers.items()}
        steps.append(RingStep(actor, text, barrier, states, dict(waiting), tuple(ring.slots)))

    record("thread 0", f"initialises the barriers: 1 arrival for full, {num_consumers} for empty")
    _play(ring, actors, waiting, tile_bytes, record)
    record(*_end(ring, waiting))
    return steps


def _play(ring, running, waiting, tile_bytes, record):
    """Rounds in which each actor has one turn, until all have ended or nothing can happen any more."""
    while running:
        acted = [_advance(ring, running, waiting, name, record) for name in [*running]]
        if not any(acted):
            if not ring.copies:
                return
            ring.clock = ring.copies[0][2]  # nothing else happens until the next landing
        while ring.copies and ring.copies[0][2] <= ring.clock:
            _land(ring, ring.copies.pop(0), tile_bytes, record)
        ring.clock += 1


def _counts(num_consumers):
    return ("full", 1), ("empty", num_consumers)


def _produce(ring, num_tiles, num_stages, tile_bytes, parity):
    for tile in range(num_tiles):
        stage, wrapped = tile % num_stages, tile // num_stages
        yield "wait", f"empty[{stage}]", (parity + wrapped) % 2
        full = ring.barriers[f"full[{stage}]"]
        full.arrive_expect_tx(tile_bytes)
        ring.slots[stage] = f"tile {tile} on its way"
        ring.copies.append((tile, stage, ring.clock + ring.latency))
        yield "did", f"full[{stage}]", f"expects {tile_bytes:,} bytes, arrives, starts the copy of tile {tile}"


def _consume(ring, num_tiles, num_stages, parity):
    for tile in range(num_tiles):
        stage, wrapped = tile % num_stages, tile // num_stages
        yield "wait", f"full[{stage}]", (parity + wrapped) % 2
        held = ring.slots[stage]
        ring.stale |= held != f"tile {tile}"
        wrong = "" if held == f"tile {tile}" else f", but the stage is: {held}"
        yield "did", "", f"reads stage {stage} for tile {tile}{wrong}"
        empty = ring.barriers[f"empty[{stage}]"]
        completed = empty.arrive()
        if completed:
            ring.slots[stage] = "empty"
        yield "did", f"empty[{stage}]", f"arrives at empty[{stage}]{', which completes the phase' * completed}"


def _advance(ring, running, waiting, name, record):
    """One event of an actor: its wait begins, its wait returns, or it does something; False when it is blocked."""
    if name in waiting:
        barrier, parity = waiting[name]
        if not ring.barriers[barrier].test_parity(parity):
            return False
        del waiting[name]
        record(name, f"the wait for {barrier}, parity {parity}, returns", barrier)
        return True
    kind, *rest = next(running[name], ("end",))
    if kind == "end":
        del running[name]
    elif kind == "did":
        record(name, rest[1], rest[0])
    else:
        barrier, parity = rest
        if ring.barriers[barrier].test_parity(parity):
            record(name, f"waits for {barrier}, parity {parity}: returns at once", barrier)
        else:
            waiting[name] = (barrier, parity)
            record(name, f"waits for {barrier}, parity {parity}: blocked", barrier)
    return True


def _land(ring, copy, tile_bytes, record):
    """The bytes of one copy complete on the full barrier of its stage."""
    tile, stage, _ = copy
    completed = ring.barriers[f"full[{stage}]"].complete_tx(tile_bytes)
    ring.slots[stage] = f"tile {tile}"
    words = f"tile {tile} lands in stage {stage}{', which completes the phase' * completed}"
    record("TMA", words, f"full[{stage}]")


def _end(ring, waiting):
    stale = "; a stage was read that did not hold its tile" * ring.stale
    words = "deadlock, no event can come any more" if waiting else "finished"
    return "all", words + stale, ""
