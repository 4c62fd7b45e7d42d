"""Workloads measured at several sizes: lengths, batches, beams, clients, commands."""

from collections.abc import Callable
from typing import NamedTuple

from workloads import (
    BASE,
    OURS,
    READING,
    READING_OPENNMT_TF,
    Contestant,
    decoding_flops,
)

from t2t_keras.analysis.flops import training_flops

STAGES = (
    *("prepare", "train", "launch", "average", "evaluate", "score", "translate"),
    *("export", "serve", "request", "parse", "visualize", "variations"),
    *("complexity", "cost", "import_model"),
)


class Figure(NamedTuple):
    """A column of a table.

    Attributes:
        key: Name of the figure in the output of a program.
        title: Title of the column.
        digits: Number of digits after the decimal point.
    """

    key: str
    title: str
    digits: int = 0


class Growth(NamedTuple):
    """A workload at several sizes.

    Attributes:
        axis: The quantity that grows.
        flags: Flags to add to the command of a contestant, by value.
        contestants: The programs that run the workload.
        figures: The reported figures. The first one is plotted.
        flops: Returns the operations at a value, if they limit the speed.
        needs_text: Whether the workload reads Multi30k.
    """

    axis: str
    flags: dict[int | str, list[str]]
    contestants: list[Contestant]
    figures: list[Figure]
    flops: Callable[[int], float] | None = None
    needs_text: bool = False

    def runs(self) -> list[Contestant]:
        """Returns every contestant at every value, named by `run_name`."""
        return [
            Contestant(run_name(c, value), c.peer, [*c.command, *flags], c.setup)
            for value, flags in self.flags.items()
            for c in self.contestants
        ]


def run_name(contestant: Contestant, value: int | str) -> str:
    """Returns the name of a contestant's run at a value."""
    return f"{contestant.name}, {value}"


_MEMORY = Figure("peak_memory_mb", "MB")
_STEP = [Figure("step_seconds", "s a step", 2), _MEMORY]
_STEPS = ["--warmup=2", "--steps=3"]
_TRAINERS = [
    Contestant(OURS, OURS, ["train_t2t_keras.py", *_STEPS]),
    Contestant("tf-models", "tf-models", ["train_tf_models.py", *_STEPS]),
]
_DECODE = [Figure("seconds", "s for 32 sentences", 2), _MEMORY]
_FEW = ["--sentences=32", "--batch=16", "--streams=2", "--threads=1"]
_DECODERS = [
    Contestant(OURS, OURS, ["decode_t2t_keras.py", *_FEW]),
    Contestant("CTranslate2", "ctranslate2", ["decode_ctranslate2.py", *_FEW]),
]
_TOKENS = 2048
_SERVING = ["serve_t2t_keras.py"]

GROWTHS: dict[str, Growth] = {
    "growth, sentence length": Growth(
        f"tokens per sentence, {_TOKENS:,} tokens per side per batch",
        {
            length: [f"--length={length}", f"--batch={_TOKENS // length}"]
            for length in (16, 64, 256, 1024)
        },
        _TRAINERS,
        _STEP,
        lambda length: training_flops(BASE, length, length, _TOKENS / length),
    ),
    "growth, batch": Growth(
        "sentences per batch, 32 tokens per side",
        {batch: [f"--batch={batch}"] for batch in (8, 32, 128)},
        _TRAINERS,
        _STEP,
        lambda batch: training_flops(BASE, 32, 32, batch),
    ),
    "growth, vocabulary": Growth(
        "vocabulary size",
        {
            size: [f"--vocab_size={size}", "--batch=32"]
            for size in (8_000, 32_000, 64_000)
        },
        _TRAINERS,
        _STEP,
        lambda size: training_flops(BASE.replace(source_vocab_size=size), 32, 32, 32),
    ),
    "growth, output length": Growth(
        "output tokens, beam 4",
        {length: [f"--output_length={length}"] for length in (10, 40, 160)},
        _DECODERS,
        _DECODE,
        lambda length: 32 * decoding_flops(4, length),
    ),
    "growth, beam": Growth(
        "beam size, 20 output tokens",
        {size: [f"--beam_size={size}"] for size in (1, 4, 16)},
        _DECODERS,
        _DECODE,
        lambda size: 32 * decoding_flops(size, 20),
    ),
    "input pipeline, threads": Growth(
        "threads that prepare batches of Multi30k's text",
        {threads: [f"--threads={threads}"] for threads in (1, 2)},
        [
            Contestant(f"{OURS}, records", OURS, [*READING, "--source=records"]),
            Contestant(f"{OURS}, text", OURS, READING),
            Contestant("OpenNMT-tf, text", "opennmt-tf", READING_OPENNMT_TF),
        ],
        [Figure("rate", "useful tokens per second")],
        needs_text=True,
    ),
    "start-up": Growth(
        "command",
        {
            "first line": ["--command=first line"],
            **{stage: [f"--command={stage}"] for stage in STAGES},
        },
        [Contestant(OURS, OURS, ["start_up.py"])],
        [Figure("seconds", "s", 2), _MEMORY],
        needs_text=True,
    ),
    "serving": Growth(
        "clients",
        {clients: [f"--clients={clients}"] for clients in (1, 8, 64)},
        [
            Contestant(name, OURS, [*_SERVING, *flags], [*_SERVING, "--make"])
            for name, flags in {
                OURS: [],
                "two threads": ["--intra_op=2"],
                "one by one": ["--nobatching"],
            }.items()
        ],
        [
            Figure("rate", "requests per second", 1),
            Figure("p50_ms", "p50, ms"),
            Figure("p99_ms", "p99, ms"),
            _MEMORY,
        ],
        needs_text=True,
    ),
}
"""The base model with a vocabulary of 8,000, except for the quantity that grows.

Start-up measures --help, and `t2t-translate` until its first line. Serving requests one
sentence of Multi30k at a time; "two threads" is the same server with two intra-op
threads, "one by one" without batching.
"""
