"""The training loop: normalization, accumulation, determinism, callbacks, resume."""

import sys

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from t2t_keras import Transformer
from t2t_keras.data.batching import Batching
from t2t_keras.data.examples import Examples, append_eos
from t2t_keras.data.translation import Position, training_dataset
from t2t_keras.training.callbacks import (
    ProgressReport,
    SaveCheckpoint,
    TensorBoardScalars,
    early_stopping,
)
from t2t_keras.training.checkpoints import CheckpointStore
from t2t_keras.training.optimizer import Adam
from t2t_keras.training.trainer import Trainer


class RandomExamples(Examples):
    """Pairs of random ids, ragged on both sides."""

    def __init__(self, number=60, vocab=20, seed=0):
        rng = np.random.default_rng(seed)
        self.pairs = [
            [rng.integers(4, vocab, rng.integers(1, 9)).tolist() for _ in range(2)]
            for _ in range(number)
        ]
        super().__init__(np.array([[len(s), len(t)] for s, t in self.pairs]))

    @property
    def signature(self):
        spec = tf.RaggedTensorSpec([None, None], tf.int32)
        return spec, spec

    def fetch(self, indices):
        return tuple(
            tf.ragged.constant(
                [self.pairs[i][side] for i in indices], tf.int32, ragged_rank=1
            )
            for side in range(2)
        )

    def parse(self, *fetched):
        return tuple(append_eos(side) for side in fetched)


def trainer_of(dtype="float32", dropout=0.0, **arguments):
    model = Transformer(
        20, num_layers=1, d_model=16, d_ff=32, num_heads=2, dropout=dropout, dtype=dtype
    )
    return Trainer(model, Adam(0.01), **arguments)


def run(trainer, steps, start=Position(), parts=1):  # noqa: B008
    dataset = training_dataset(RandomExamples(), Batching(64), start, parts)
    iterator = iter(dataset)
    return [trainer.train_step(iterator) for _ in range(steps)]


@pytest.mark.parametrize("parts", [2, 5])
def test_accumulation_takes_the_same_steps(parts):
    whole, divided = trainer_of("float64"), trainer_of("float64", accumulate=parts)
    one, other = run(whole, 12), run(divided, 12, parts=parts)
    for a, b in zip(one, other, strict=True):
        assert a["loss"] == pytest.approx(b["loss"], rel=1e-6)
        assert a["gradient_norm"] == pytest.approx(b["gradient_norm"], rel=1e-9)
        assert a["tokens"] == b["tokens"]
    for a, b in zip(whole.model.variables, divided.model.variables, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-9)


def test_equal_seeds_give_equal_losses_with_dropout():
    first, second = (
        [logs["loss"] for logs in run(trainer_of(dropout=0.3), 15)] for _ in range(2)
    )
    assert first == second


def test_the_gradient_is_that_of_the_mean_over_real_tokens():
    trainer = trainer_of("float64", label_smoothing=0.0)
    batch = next(iter(training_dataset(RandomExamples(), Batching(64))))
    target = batch["target"]
    inputs = {
        "source": batch["source"],
        "target": np.pad(target.numpy()[:, :-1], [[0, 0], [1, 0]], constant_values=1),
    }
    variables = [v.value for v in trainer.model.trainable_variables]
    with tf.GradientTape() as tape:
        log_p = tf.nn.log_softmax(trainer.model(inputs))
        gold = tf.gather(log_p, target, batch_dims=2)
        loss = -tf.reduce_mean(gold[target != 0])
    expected = tf.linalg.global_norm(tape.gradient(loss, variables))
    (logs,) = run(trainer, 1)
    assert logs["gradient_norm"] == pytest.approx(float(expected), rel=1e-9)
    assert logs["loss"] == pytest.approx(float(loss), rel=1e-6) == logs["nll"]


def test_clipping_bounds_the_whole_gradient():
    # With plain descent the step's length is the gradient's.
    trainer = trainer_of(clip_norm=0.01)
    trainer.optimizer = keras.optimizers.SGD(1.0)
    trainer.optimizer.build(trainer.model.trainable_variables)
    before = [v.numpy() for v in trainer.model.trainable_variables]
    (logs,) = run(trainer, 1)
    after = [v.numpy() for v in trainer.model.trainable_variables]
    length = np.sqrt(
        sum(((a - b) ** 2).sum() for a, b in zip(before, after, strict=True))
    )
    assert logs["gradient_norm"] > 0.01
    assert length == pytest.approx(0.01, rel=1e-3)


def test_evaluation_counts_tokens_and_changes_nothing():
    trainer = trainer_of(dropout=0.5)
    before = [v.numpy() for v in trainer.model.variables]
    dataset = training_dataset(RandomExamples(), Batching(64), epochs=1, shuffle=False)
    wide = training_dataset(RandomExamples(), Batching(999), epochs=1, shuffle=False)
    one, other = trainer.evaluate(dataset), trainer.evaluate(wide)
    assert one["nll"] == pytest.approx(other["nll"], rel=1e-5)
    assert one["tokens"] == RandomExamples().lengths.sum() == other["tokens"]
    for a, b in zip(before, trainer.model.variables, strict=True):
        np.testing.assert_array_equal(a, b)


def test_xla_computes_the_same():
    plain, compiled = trainer_of(), trainer_of(jit=True)
    for a, b in zip(run(plain, 2), run(compiled, 2), strict=True):
        assert a["loss"] == pytest.approx(b["loss"], rel=1e-4)


def fit(trainer, callbacks, steps, start=Position(), every=4):  # noqa: B008
    trainer.fit(
        training_dataset(RandomExamples(), Batching(64), start),
        callbacks,
        validate=lambda: {"val_nll": 2.5, "val_bleu": 30.0},
        is_interval_over=lambda: trainer.step % every == 0,
        is_over=lambda logs: trainer.step >= steps,
    )


class Recorder(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.losses = []
        self.places = []
        self.epochs = []

    def on_train_batch_end(self, batch, logs=None):
        self.losses.append(logs["loss"])
        self.places.append((int(logs["epoch"]), int(logs["batch"])))

    def on_epoch_end(self, epoch, logs=None):
        self.epochs.append((epoch, logs["val_nll"]))


def test_callbacks_see_every_step_and_every_validation():
    recorder = Recorder()
    fit(trainer_of(), [recorder], 10)
    assert len(recorder.losses) == 10
    assert recorder.epochs == [(0, 2.5), (1, 2.5), (2, 2.5)]


def test_keras_early_stopping_stops():
    trainer = trainer_of()
    fit(trainer, [early_stopping("val_nll", 2)], 1000)
    assert trainer.step == 12


def test_a_stopped_run_goes_on_with_the_same_losses(tmp_path):
    whole = Recorder()
    fit(trainer_of(dropout=0.2), [whole], 14)

    store = CheckpointStore(tmp_path)
    first, trainer = Recorder(), trainer_of(dropout=0.2)
    place = lambda: {"next": [first.places[-1][0], first.places[-1][1] + 1]}  # noqa: E731
    fit(trainer, [first, SaveCheckpoint(store, trainer.optimizer, place)], 8)

    second, trainer = Recorder(), trainer_of(dropout=0.2)
    progress = store.restore(trainer.model, trainer.optimizer)
    fit(trainer, [second], 14, Position(*progress["next"]))
    assert first.losses + second.losses == whole.losses


def test_tensorboard_holds_the_figures(tmp_path):
    trainer = trainer_of()
    fit(trainer, [TensorBoardScalars(tmp_path, lambda: trainer.step, 2)], 8)
    train = EventAccumulator(str(tmp_path / "train")).Reload()
    steps = [event.step for event in train.Tensors("loss")]
    assert steps == [2, 4, 6, 8]
    assert {
        "learning_rate",
        "gradient_norm",
        "tokens_per_second",
        "non_padding",
    } <= set(train.Tags()["tensors"])
    dev = EventAccumulator(str(tmp_path / "dev")).Reload()
    (event, _) = dev.Tensors("bleu")
    assert tf.make_ndarray(event.tensor_proto) == 30
    assert event.step == 4


def test_the_report_shows_what_a_user_waits_for():
    lines = []
    trainer = trainer_of()
    fraction = lambda: trainer.step / 8  # noqa: E731
    fit(trainer, [ProgressReport(lines.append, fraction, every_seconds=0)], 8)
    assert lines[0].startswith("step 1 (12%)  epoch ")
    for item in ("loss", "perplexity", "learning rate 1.00e-02", "tokens/s", "left"):
        assert item in lines[0]
    assert lines[-1] == "dev: bleu 30.000  nll 2.500"


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
