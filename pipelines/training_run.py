"""What the training stage begins with: data, weights, and a word on both."""

import contextlib
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import tensorflow as tf

from t2t_keras.analysis.flops import training_flops
from t2t_keras.data.batching import Batching
from t2t_keras.data.catalog import open_corpus
from t2t_keras.data.examples import Examples, TextExamples
from t2t_keras.data.filters import LengthFilter
from t2t_keras.data.preparation import PreparedData
from t2t_keras.data.tokenizer_pair import TokenizerPair
from t2t_keras.files import write_atomically
from t2t_keras.model_dir import ModelDir
from t2t_keras.pipelines import stage
from t2t_keras.training.checkpoints import load_arrays
from t2t_keras.training.trainer import Trainer
from t2t_keras.training.warm_start import warm_start
from t2t_keras.transformer import Transformer


def open_examples(data: PreparedData, split: str, from_text: bool = False) -> Examples:
    """Opens a split of prepared data.

    Args:
        data: The prepared directory.
        split: "train", "dev" or "test".
        from_text: Read the corpus that the directory was made of, rather than its
            records, with the same vocabulary and filter.

    Raises:
        ValueError: If the corpus no longer is what it was.
    """
    if not from_text:
        return data.examples(split)
    length_filter = LengthFilter(**data.manifest["length_filter"])
    corpus = open_corpus(**data.manifest["corpus_arguments"])
    examples = TextExamples(corpus, split, data.tokenizers, length_filter)
    prepared = data.manifest["splits"][split]
    # The lengths count the end token of each sentence.
    tokens = [int(side) - len(examples) for side in examples.lengths.sum(axis=0)]
    found = dict(
        zip(
            ("pairs", "source_tokens", "target_tokens"),
            (len(examples), *tokens),
            strict=True,
        )
    )
    if found != {name: prepared[name] for name in found}:
        raise ValueError(
            f"The text that {data.data_dir} was prepared from has changed: it has "
            f"{found} now. Run t2t-prepare again."
        )
    return examples


def dump_batch(
    examples: Examples,
    batching: Batching,
    data: PreparedData,
    path: Path,
    is_chief: bool,
) -> Callable[[int, int], Path]:
    """Returns a function that writes the text of a batch, a pair a line.

    Args:
        examples: The training data.
        batching: How batches are formed.
        data: Has the tokenizers.
        path: Where to write; the batch's place is added to the name.
        is_chief: Whether this worker writes; the others only know where it is.
    """

    def dump(epoch: int, number: int) -> Path:
        file = path.with_name(f"{path.name}-epoch-{epoch}-batch-{number}.tsv")
        if not is_chief:
            return file
        indices = batching.global_batches(examples.lengths, epoch)[number]
        fetched = (tf.constant(x) for x in examples.fetch(indices))
        source, target = examples.parse(*fetched)
        texts = (
            # Without the end token, which no detokenizer knows.
            tokenizer.detokenize(ids[:, :-1]).numpy().tolist()
            for tokenizer, ids in (
                (data.tokenizers.source, source),
                (data.tokenizers.target, target),
            )
        )
        lines = [b"\t".join(pair) + b"\n" for pair in zip(*texts, strict=True)]
        write_atomically(file, b"".join(lines))
        return file

    return dump


def start_from(
    model: Transformer, tokenizers: TokenizerPair, init_from: str, checkpoint: str
) -> list[str]:
    """Gives a new model the weights of a trained one, as far as they fit.

    Args:
        model: The new model.
        tokenizers: Its vocabularies.
        init_from: The model directory of the other.
        checkpoint: Which of its weights, as of `ModelDir.weights_path`.

    Returns:
        The paths of the variables that found nothing that fits.

    Raises:
        ValueError: If there are no such weights, or none of them fit.
    """
    other = ModelDir(init_from)
    theirs = other.tokenizers
    source = tokenizers.source.pieces(), theirs.source.pieces()
    target = tokenizers.target.pieces(), theirs.target.pieces()
    pieces = {
        model.source_embedding.embeddings.path: source,
        model.target_embedding.embeddings.path: target,
    }
    arrays = load_arrays(other.weights_path(checkpoint))
    return warm_start(model.trainable_variables, arrays, pieces)


def describe_start(
    trainer: Trainer,
    model_arguments: dict[str, Any],
    examples: Examples,
    batching: Batching,
    steps: int | None,
    preset: str,
) -> str:
    """Tells what is going to be trained, on what, and what it costs.

    Args:
        trainer: Has the model and the strategy.
        model_arguments: Those of the model.
        examples: The training data.
        batching: How batches are formed.
        steps: Updates to train for, or None if something else decides.
        preset: The name of the preset.
    """
    parts = trainer.replicas * trainer.accumulate
    statistics = batching.statistics(examples.lengths, parts)
    source_length, target_length = examples.lengths.mean(axis=0)
    epoch = training_flops(model_arguments, source_length, target_length, len(examples))
    step = epoch / statistics.batches
    model = stage.describe(
        preset=preset,
        parameters=sum(math.prod(v.shape) for v in trainer.model.trainable_variables),
        strategy=type(trainer.strategy).__name__.lstrip("_"),
        replicas=trainer.replicas,
        global_batch=f"{batching.batch_tokens:,} tokens a side",
        parts_of_a_batch=parts,
        precision=trainer.model.dtype_policy.name,
    )
    data = stage.describe(
        training_pairs=len(examples),
        batches_an_epoch=statistics.batches,
        shapes=statistics.shapes,
        non_padding=f"{statistics.non_padding:.3f}",
        FLOPs_a_step=f"{step:.2g}",
        **({"FLOPs_in_all": f"{step * steps:.2g}"} if steps else {}),
    )
    return f"{model}\n{data}"


@contextlib.contextmanager
def lost_workers_named(model_dir: Path) -> Iterator[None]:
    """Turns what TensorFlow raises when a worker is lost into a message.

    Args:
        model_dir: Where the last checkpoint lies.

    Raises:
        ConnectionError: If a worker is lost.
    """
    try:
        yield
    except (
        tf.errors.AbortedError,
        tf.errors.CancelledError,
        tf.errors.DeadlineExceededError,
        tf.errors.UnavailableError,
    ) as error:
        raise ConnectionError(
            "Another worker is gone, and this one cannot go on alone. Start all "
            "workers again with the same command lines: they go on from the last "
            f"checkpoint in {model_dir}."
        ) from error
