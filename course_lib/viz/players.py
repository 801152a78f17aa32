"""Pictures with a slider, rendered ahead: each function returns a player.Player.

May import: player and the pictures that it plays.
"""

from .actors import actors_panels, actors_picture
from .footprint import growth_picture, growth_sentence, growth_step
from .loops import both_sentences, loop_orders_picture, loop_orders_still, loop_picture, loop_step_picture, loop_steps
from .mbarrier import ring_steps
from .pages import pages_frames, pool_sentence
from .player import Frame, Player, counted
from .ring import ring_picture, ring_step_picture
from .timeline import waves_picture
from .work_lists import work_lists_picture

GROWTH_SEQ_LENS = (512, 1024, 2048, 4096, 8192, 16384)
PARITIES = {  # of the ring: name -> (producer's first parity, consumers' first parity)
    "right: producer 1, consumers 0": (1, 0),
    "producer begins with 0": (0, 0),
    "consumers begin with 1": (1, 1),
}
_WINDOWS = 4  # parts of the time axis that overlap by half, after the whole axis


def growth_slider(seq_lens=GROWTH_SEQ_LENS, *, start=4096, head_dim=64):
    """The growing matrix of scores with a slider over N.

    Parameters
    ----------
    seq_lens : sequence of int, the stops of the slider, smallest first
    start : int, its first value; one of `seq_lens`
    head_dim : int
    """
    frames = [
        Frame(
            growth_step(seq_len, max(seq_lens), head_dim=head_dim),
            f"{growth_sentence(seq_len, head_dim=head_dim)}.",
            f"{seq_len:,}",
        )
        for seq_len in seq_lens
    ]
    still = growth_picture(head_dim=head_dim)
    return Player({"": frames}, still, name="N", start=list(seq_lens).index(start))


def tile_loops(seq_len_q=8, seq_len_kv=8, head_dim=4, block_m=2, block_n=2, *, loop_order="kv_outside"):
    """Play the two loops of FlashAttention tile by tile.

    Parameters
    ----------
    seq_len_q, seq_len_kv, head_dim, block_m, block_n : as in `loop_steps`
    loop_order : "kv_outside", "q_outside" or "both", which plays them side by side
    """
    if loop_order not in ("kv_outside", "q_outside", "both"):
        raise ValueError(f'loop_order={loop_order!r} is unknown; choose "kv_outside", "q_outside" or "both".')
    pair = [
        loop_steps(seq_len_q, seq_len_kv, head_dim, block_m, block_n, q_outside=outside) for outside in (False, True)
    ]
    numbers = range(len(pair[0]))
    if loop_order == "both":
        frames = counted(
            [loop_orders_picture(pair, number) for number in numbers],
            [both_sentences(pair, number) for number in numbers],
        )
        still = loop_orders_still(pair)
    else:
        steps = pair[loop_order == "q_outside"]
        frames = counted([loop_step_picture(steps, number) for number in numbers], [step.sentence() for step in steps])
        still = loop_picture(steps)
    return Player({"": frames}, still, name="step", interval_ms=700)


def pages_player(frames, page_size, num_pages, *, still=()):
    """Play the states of a pool one after the other.

    Parameters
    ----------
    frames : sequence of (title, sequences), as in `pages_frames`
    page_size, num_pages : int, as in `pages_picture`
    still : sequence of int, the frames that a page without JavaScript shows; default: the last
    """
    states = list(frames)

    def picture(shown):
        return pages_frames(shown, page_size, num_pages, among=states)

    drawn = counted(
        [picture([state]) for state in states],
        [f"{title}: {pool_sentence(sequences, num_pages)}" for title, sequences in states],
    )
    shown = picture([states[number] for number in still or (-1,)])
    return Player({"": drawn}, shown, name="step", interval_ms=1200)


def waves_slider(num_pairs=48, num_slots=132, *, most_splits=24, still=(1, 2, 3, 11)):
    """Waves of blocks with a slider over the number of splits, each beside one split.

    Parameters
    ----------
    num_pairs, num_slots : as in `waves_picture`
    most_splits : int, the end of the slider
    still : sequence of int, the splits of the still picture
    """
    splits = range(2, most_splits + 1)
    pictures = [waves_picture(num_pairs, (1, count), num_slots) for count in splits]
    frames = [Frame(picture, picture.alt_text, str(count)) for count, picture in zip(splits, pictures, strict=True)]
    return Player({"": frames}, waves_picture(num_pairs, still, num_slots), name="splits", start=1)


def work_lists_slider(stops, *, start=0, name="keys of the long request", unit="keys"):
    """Items of a batch on blocks, with a slider over one of its lengths.

    Parameters
    ----------
    stops : dict, what the slider says -> launches of `work_lists_picture`; all with the same titles
    start : int, the stop shown first, also on a page without JavaScript
    name, unit : str, of the slider and of the costs
    """
    pictures = {stop: work_lists_picture(launches, unit) for stop, launches in stops.items()}
    frames = [Frame(picture, picture.alt_text, stop) for stop, picture in pictures.items()]
    return Player({"": frames}, frames[start].picture, name=name, start=start)


def ring_player(num_tiles=3, *, num_stages=2, num_consumers=2):
    """Play the events of a ring of stages one by one, with the right first parities or with wrong ones.

    Parameters
    ----------
    num_tiles, num_stages, num_consumers : as in `ring_steps`
    """
    runs = {
        name: ring_steps(num_tiles, num_stages=num_stages, num_consumers=num_consumers, parities=pair)
        for name, pair in PARITIES.items()
    }
    tracks = {
        name: counted(
            [ring_step_picture(steps, number) for number in range(len(steps))], [step.sentence() for step in steps]
        )
        for name, steps in runs.items()
    }
    return Player(tracks, ring_picture(next(iter(runs.values()))), name="event", choice="first parities")


def actors_explorer(runs, *, unit=""):
    """Timelines of several runs: the whole time, then one part of it after the other.

    Parameters
    ----------
    runs : dict, name -> sequence of schedule.Span; all of them are in the still picture, on one time axis
    unit : str, of the times
    """
    spans = [span for spans in runs.values() for span in spans]
    begin, end = min(span.start for span in spans), max(span.end for span in spans)
    half = (end - begin) / (_WINDOWS + 1)
    windows = [(begin, end), *((begin + part * half, begin + (part + 2) * half) for part in range(_WINDOWS))]
    tracks = {}
    for name, run in runs.items():
        pictures = [actors_picture(run, unit=unit, title=name, between=window) for window in windows]
        tracks[name] = [
            Frame(picture, picture.alt_text, f"{left:.4g} to {right:.4g}{f' {unit}' * bool(unit)}")
            for picture, (left, right) in zip(pictures, windows, strict=True)
        ]
    return Player(tracks, actors_panels(runs, unit=unit), name="time", choice="run")
