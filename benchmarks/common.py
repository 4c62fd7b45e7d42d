"""Flags, timing and output shared by all measured programs.

Other software runs these programs with its own Python, so this module uses only the
standard library.
"""

import argparse
import json
import math
import os
import random
import resource
import statistics
import time
from collections.abc import Callable
from typing import Any

LEARNING_RATE = 1e-4
"""Learning rate of Adam in all programs. It does not affect the time of a step."""


def sizes(description: str | None) -> argparse.ArgumentParser:
    """Returns a parser for the flags of all programs."""
    parser = argparse.ArgumentParser(description=description)
    for name, value in {
        "num_layers": 6,
        "d_model": 512,
        "d_ff": 2048,
        "num_heads": 8,
        "vocab_size": 8000,
    }.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument(
        "--precision", choices=["float32", "bfloat16", "int8"], default="float32"
    )
    return parser


def model_arguments(sizes: argparse.Namespace) -> dict[str, int]:
    """Returns the sizes that are arguments of this project's Transformer."""
    return {
        name: getattr(sizes, name)
        for name in ("num_layers", "d_model", "d_ff", "num_heads")
    }


def training_parser(description: str | None) -> argparse.ArgumentParser:
    """Returns a parser for the flags of a training program."""
    parser = sizes(description)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--length", type=int, default=32)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--label_smoothing", type=float, default=0.1)
    parser.add_argument("--warmup", type=int, default=3, help="untimed steps")
    parser.add_argument("--steps", type=int, default=8, help="timed steps")
    return parser


def training_sizes(description: str | None) -> argparse.Namespace:
    """Parses the flags of a training program."""
    return training_parser(description).parse_args()


def decoding_sizes(description: str | None) -> argparse.Namespace:
    """Parses the flags of a decoding program."""
    parser = sizes(description)
    parser.add_argument("--streams", type=int, default=1, help="concurrent batches")
    parser.add_argument("--threads", type=int, default=0, help="threads per stream")
    parser.add_argument("--sentences", type=int, default=256)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--length", type=int, default=24, help="source tokens")
    parser.add_argument("--output_length", type=int, default=20)
    parser.add_argument("--beam_size", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=2, help="timed runs")
    return parser.parse_args()


def text_sizes(description: str | None) -> argparse.Namespace:
    """Parses the flags of a program that reads real text."""
    parser = sizes(description)
    parser.add_argument("--task", choices=["train", "read"], default="train")
    parser.add_argument("--source", choices=["text", "records"], default="text")
    parser.add_argument(
        "--batch_tokens", type=int, default=2048, help="tokens per side"
    )
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--threads", type=int, default=0, help="reader threads; 0: any")
    parser.add_argument("--warmup", type=int, default=2, help="untimed steps")
    parser.add_argument("--steps", type=int, default=8, help="timed steps")
    parser.add_argument(
        "--tokens",
        type=int,
        default=1_700_000,
        help="tokens to read; the default is two epochs of Multi30k",
    )
    return parser.parse_args()


def random_ids(rows: int, length: int, vocab_size: int, seed: int = 0) -> list[Any]:
    """Returns rows of random ids without special tokens (the first four ids)."""
    draw = random.Random(seed)
    return [[draw.randrange(4, vocab_size) for _ in range(length)] for _ in range(rows)]


def process_started() -> float:
    """Returns the start time of the process, in seconds since the epoch."""
    return float(os.environ.get("BENCH_STARTED", "nan"))


def report(**figures: Any) -> None:
    """Prints the figures and the peak memory of the process as a line of JSON."""
    kibibytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps({"peak_memory_mb": kibibytes / 1024, **figures}), flush=True)


def report_training(
    step: Callable[[], float], sizes: argparse.Namespace, **more: Any
) -> None:
    """Runs training steps and reports the tokens per second of the median step.

    Args:
        step: Runs one step, waits for its end and returns the loss.
        sizes: Flags of `training_parser`.
        **more: Further figures to report.
    """
    losses = [step()]
    first = time.time() - process_started()
    for _ in range(sizes.warmup - 1):
        losses.append(step())
    spent = []
    for _ in range(sizes.steps):
        started = _clocks()
        losses.append(step())
        spent.append(_since(started))
    assert all(map(math.isfinite, losses)), losses
    tokens = 2 * sizes.batch * sizes.length
    seconds, processor_seconds = map(statistics.median, zip(*spent, strict=True))
    report(
        rate=tokens / seconds,
        processor_rate=tokens / processor_seconds,
        step_seconds=seconds,
        first_step_seconds=first,
        first_loss=losses[0],
        last_loss=losses[-1],
        **more,
    )


def report_decoding(
    decode: Callable[[], list[list[int]]], sizes: argparse.Namespace, **more: Any
) -> None:
    """Decodes all sentences and reports the sentences per second.

    Args:
        decode: Decodes all sentences and returns the output ids.
        sizes: Flags of `decoding_sizes`.
        **more: Further figures to report.
    """
    decode()
    spent = []
    for _ in range(sizes.repeats):
        started = _clocks()
        outputs = decode()
        spent.append(_since(started))
    lengths = {len(ids) for ids in outputs}
    assert len(outputs) == sizes.sentences, len(outputs)
    assert lengths == {sizes.output_length}, lengths
    seconds, processor_seconds = map(statistics.median, zip(*spent, strict=True))
    report(
        rate=sizes.sentences / seconds,
        processor_rate=sizes.sentences / processor_seconds,
        seconds=seconds,
        **more,
    )


def _clocks() -> tuple[float, float]:
    """Returns wall-clock time and processor time of this process, in seconds."""
    return time.perf_counter(), time.process_time()


def _since(started: tuple[float, float]) -> tuple[float, float]:
    now = _clocks()
    return now[0] - started[0], now[1] - started[1]


Step = Callable[[], tuple[float, float]]
"""Processes a batch and returns its tokens and its positions including padding."""


def report_text(
    open_steps: Callable[[], Step], sizes: argparse.Namespace, **more: Any
) -> None:
    """Processes batches and reports useful tokens per second and the share of padding.

    The time of reading includes opening the text. Otherwise, batches that a pipeline
    buffers in the meantime would take no time.

    Args:
        open_steps: Opens the text and returns a function that processes a batch.
        sizes: Flags of `text_sizes`.
        **more: Further figures to report.
    """
    started = _clocks()
    step = open_steps()
    counted = []
    if sizes.task == "read":
        left = float(sizes.tokens)
        while left > 0:
            counted.append(step())
            left -= counted[-1][0]
    else:
        for _ in range(sizes.warmup):
            step()
        started = _clocks()
        counted = [step() for _ in range(sizes.steps)]
    seconds, processor_seconds = _since(started)
    tokens, positions = map(sum, zip(*counted, strict=True))
    report(
        rate=tokens / seconds,
        processor_rate=tokens / processor_seconds,
        padding_percent=100 * (1 - tokens / positions),
        **more,
    )
