"""Tests of the training step and loop: gradients, callbacks, resuming."""

import functools
import gc
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorflow.python.framework.func_graph import FuncGraph
from toy import RandomExamples, batches, run, trainer_of

from t2t_keras.data.batch_order import START, BatchOrder, DataPosition
from t2t_keras.data.batching import Batching
from t2t_keras.data.dataset import training_dataset
from t2t_keras.training import loop
from t2t_keras.training.callbacks import (
    ProgressReport,
    SaveCheckpoint,
)
from t2t_keras.training.checkpoints import CheckpointStore
from t2t_keras.training.early_stopping import EarlyStopping
from t2t_keras.training.loss_scale import LossScale
from t2t_keras.training.metrics import token_metrics
from t2t_keras.training.objective import Objective
from t2t_keras.training.skipped_steps import NonFiniteGradientsError, SkippedSteps
from t2t_keras.training.tensorboard import TensorBoard, model_graph
from t2t_keras.training.worker_agreement import Actions

ORDER = BatchOrder(Batching(64), RandomExamples().lengths)


@pytest.mark.parametrize("parts", [2, 5])
def test_gradient_accumulation_does_not_change_steps(parts):
    whole, divided = trainer_of("float64"), trainer_of("float64", accumulate=parts)
    one, other = run(whole, 12), run(divided, 12)
    for a, b in zip(one, other, strict=True):
        assert a["loss"] == pytest.approx(b["loss"], rel=1e-6)
        assert a["gradient_norm"] == pytest.approx(b["gradient_norm"], rel=1e-9)
        assert a["tokens"] == b["tokens"]
    for a, b in zip(whole.model.variables, divided.model.variables, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-9)


def test_same_seed_gives_same_losses_with_dropout():
    first, second = (
        [logs["loss"] for logs in run(trainer_of(dropout=0.3), 15)] for _ in range(2)
    )
    assert first == second


def test_gradient_is_of_mean_loss_over_non_padding_tokens():
    trainer = trainer_of("float64", objective=Objective(label_smoothing=0.0))
    batch = next(iter(training_dataset(RandomExamples(), ORDER)))
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


def test_r_drop_loss_is_half_of_equation_4():
    batch = next(iter(training_dataset(RandomExamples(), ORDER)))
    trainer, reference = (
        trainer_of("float64", 0.3, objective=Objective(0.0, r_drop=5.0)).model
        for _ in range(2)
    )
    total, sums = Objective(0.0, r_drop=5.0)(trainer, batch, training=True)
    source, target = batch["source"].numpy(), batch["target"].numpy()
    shifted = np.pad(target[:, :-1], [[0, 0], [1, 0]], constant_values=1)
    twice = {"source": source, "target": shifted}
    twice = {name: np.concatenate([ids, ids]) for name, ids in twice.items()}
    # Masks depend on the number of the call, so these are the same ones.
    p, q = np.split(tf.nn.softmax(reference(twice, training=True)).numpy(), 2)
    assert not np.allclose(p, q)
    rows, columns = np.nonzero(target)
    gold = rows, columns, target[rows, columns]
    nll = -np.log(p[gold]) - np.log(q[gold])
    apart = (p * np.log(p / q)).sum(-1) + (q * np.log(q / p)).sum(-1)
    expected = (nll + 5.0 * apart[rows, columns] / 2).sum() / 2
    assert float(total) == pytest.approx(expected, rel=1e-9)
    assert token_metrics(sums.numpy())["nll"] == pytest.approx(nll.mean() / 2)
    assert token_metrics(sums.numpy())["tokens"] == np.count_nonzero([source, target])


def test_without_dropout_r_drop_changes_nothing():
    plain, doubled = (
        run(trainer_of("float64", objective=Objective(0.1, r_drop)), 3)
        for r_drop in (None, 5.0)
    )
    for a, b in zip(plain, doubled, strict=True):
        for name in ("loss", "nll", "accuracy", "tokens", "gradient_norm"):
            assert a[name] == pytest.approx(b[name], rel=1e-6)


def test_clipping_bounds_global_gradient_norm():
    trainer = trainer_of(clip_norm=0.01)
    (logs,) = run(trainer, 1)
    assert logs["gradient_norm"] > 0.01
    # After one step, the first moment is 0.1 times the gradient.
    moments = [m.numpy() for m in trainer.optimizer._momentums]
    length = np.sqrt(sum((m**2).sum() for m in moments)) / 0.1
    assert length == pytest.approx(0.01, rel=1e-3)


def test_evaluation_counts_tokens_and_changes_no_weights():
    trainer = trainer_of(dropout=0.5)
    before = [v.numpy() for v in trainer.model.variables]

    def evaluate(batching):
        number = len(batching.global_batches(RandomExamples().lengths, 0, False))
        return trainer.evaluate(batches(trainer, batching), number)

    one, other = evaluate(Batching(64)), evaluate(Batching(999))
    assert one["nll"] == pytest.approx(other["nll"], rel=1e-5)
    assert one["tokens"] == RandomExamples().lengths.sum() == other["tokens"]
    for a, b in zip(before, trainer.model.variables, strict=True):
        np.testing.assert_array_equal(a, b)


def test_xla_gives_same_results():
    plain, compiled = trainer_of(), trainer_of(jit=True)
    for a, b in zip(run(plain, 2), run(compiled, 2), strict=True):
        assert a["loss"] == pytest.approx(b["loss"], rel=1e-4)


def poison(trainer):
    """Makes the next gradients infinite without changing the weights."""
    table = trainer.model.target_embedding.embeddings
    before = table.numpy()
    table.assign(np.full(before.shape, np.inf))
    return lambda: table.assign(before)


def test_step_with_non_finite_gradients_is_skipped():
    trainer = trainer_of(clip_norm=1.0)
    iterator = batches(trainer)
    trainer.train_step(iterator)
    cure = poison(trainer)
    before = [v.numpy() for v in trainer.state_variables]
    weights = [v.numpy() for v in trainer.model.trainable_variables]
    logs, _ = trainer.train_step(iterator)
    assert logs["skipped"] == 1
    for old, new in zip(before, trainer.state_variables, strict=True):
        np.testing.assert_array_equal(old, new)
    for old, new in zip(weights, trainer.model.trainable_variables, strict=True):
        np.testing.assert_array_equal(old, new)
    cure()
    logs, _ = trainer.train_step(iterator)
    assert logs["skipped"] == 0
    assert trainer.step == 2


def test_float16_halves_its_scale_on_overflow_and_trains():
    trainer = trainer_of("mixed_float16")
    scale = trainer.state_variables[-2]
    iterator = batches(trainer)
    first = trainer.train_step(iterator)[0]
    assert scale.numpy() == 2**15
    cure = poison(trainer)
    trainer.train_step(iterator)
    assert scale.numpy() == 2**14
    cure()
    last = [trainer.train_step(iterator)[0] for _ in range(25)][-1]
    assert np.isfinite(last["gradient_norm"])
    assert last["loss"] < first["loss"]
    # The reported norm is that of the unscaled gradient.
    exact = run(trainer_of(), 1)[0]
    assert first["gradient_norm"] == pytest.approx(exact["gradient_norm"], rel=0.05)


def test_loss_scale_grows_after_many_finite_steps():
    scale = LossScale(4.0, growth_steps=2)
    seen = []
    for is_finite in (True, True, False, True, True):
        scale.update(tf.constant(is_finite))
        seen.append(float(scale.scale.numpy()))
    assert seen == [4, 8, 4, 4, 8]


def test_exponential_average_follows_weights():
    trainer = trainer_of(ema_decay=0.5)
    iterator = batches(trainer)
    variable = trainer.model.target_embedding.embeddings
    expected = variable.numpy()
    for step in range(1, 6):
        trainer.train_step(iterator)
        decay = min(0.5, (1 + step) / (10 + step))
        expected = decay * expected + (1 - decay) * variable.numpy()
    np.testing.assert_allclose(trainer.ema.arrays()[variable.path], expected, rtol=1e-5)
    with pytest.raises(ValueError, match=r"ema_decay .* Received: 1"):
        trainer_of(ema_decay=1.0)


def test_rate_factor_scales_update():
    rates, changes = [], []
    for factor in (1.0, 0.5, 0.0):
        trainer = trainer_of()
        variable = trainer.model.trainable_variables[0]
        before = variable.numpy()
        logs, _ = trainer.train_step(batches(trainer), rate_factor=factor)
        rates.append(logs["learning_rate"])
        changes.append(variable.numpy() - before)
    assert rates == pytest.approx([rates[0], rates[0] / 2, 0])
    assert np.abs(changes[0]).max() > 0
    np.testing.assert_allclose(changes[1], changes[0] / 2, rtol=1e-3, atol=1e-7)
    assert not changes[2].any()


def fit(
    trainer,
    callbacks,
    steps,
    start=START,
    every=4,
    stop=None,
    initial_epoch=0,
):
    dataset = functools.partial(training_dataset, RandomExamples(), ORDER, start)
    return loop.fit(
        trainer,
        trainer.distribute(dataset),
        callbacks,
        validate=lambda: {"val_nll": 2.5, "val_bleu": 30.0},
        requested_actions=lambda: Actions(
            validate=(trainer.step + 1) % every == 0,
            interrupt=trainer.step + 1 == stop,
        ),
        is_over=lambda: trainer.step >= steps,
        initial_epoch=initial_epoch,
    )


class Recorder(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.losses = []
        self.epochs = []

    def on_train_batch_end(self, batch, logs=None):
        self.losses.append(logs["loss"])

    def on_epoch_end(self, epoch, logs=None):
        self.epochs.append((epoch, logs["val_nll"]))


def test_callbacks_receive_every_step_and_validation():
    recorder = Recorder()
    assert fit(trainer_of(), [recorder], 10)
    assert len(recorder.losses) == 10
    assert recorder.epochs == [(0, 2.5), (1, 2.5), (2, 2.5)]


def test_interrupt_ends_after_current_step_without_validation():
    recorder, trainer = Recorder(), trainer_of()
    assert not fit(trainer, [recorder], 10, stop=6)
    assert trainer.step == 6
    assert recorder.epochs == [(0, 2.5)]
    # A validation that is due still takes place.
    recorder, trainer = Recorder(), trainer_of()
    assert not fit(trainer, [recorder], 10, stop=8)
    assert trainer.step == 8
    assert recorder.epochs == [(0, 2.5), (1, 2.5)]


def test_early_stopping_resumes_its_count():
    first, second = (EarlyStopping("val_nll", 1) for _ in range(2))
    trainer = trainer_of()
    fit(trainer, [first], 4)
    assert first.state() == {"best": 2.5, "wait": 0, "metric": "val_nll"}
    second.restore(first.state())
    # One validation per process suffices.
    fit(trainer, [second], 1000)
    assert trainer.step == 8


def test_resumed_run_has_same_losses_as_uninterrupted_run(tmp_path):
    whole = Recorder()
    fit(trainer_of(dropout=0.2, ema_decay=0.9), [whole], 14)

    store = CheckpointStore(tmp_path)
    first, trainer = Recorder(), trainer_of(dropout=0.2, ema_decay=0.9)

    def place():
        position = START
        for _ in first.losses:
            position = ORDER.after(position)
        return {"next": position}

    # ModelCheckpoint names its files by the epoch.
    keras_own = keras.callbacks.ModelCheckpoint(tmp_path / "{epoch}.weights.h5")
    fit(trainer, [first, keras_own, SaveCheckpoint(store, trainer, place)], 8)

    second, trainer = Recorder(), trainer_of(dropout=0.2, ema_decay=0.9)
    progress = store.restore(8, trainer.model.variables, trainer.state_variables)
    start = DataPosition(*progress["next"])
    fit(trainer, [second, keras_own], 14, start, initial_epoch=2)
    assert first.losses + second.losses == whole.losses
    assert first.epochs + second.epochs == whole.epochs
    files = sorted(path.name for path in tmp_path.glob("*.h5"))
    assert files == [f"{epoch}.weights.h5" for epoch in (1, 2, 3, 4)]
    # Metrics are saved with the weights that were validated.
    assert store.metrics(8) == {"val_nll": 2.5, "val_bleu": 30.0}


def test_checkpoint_keeps_metrics_when_its_step_is_saved_again(tmp_path):
    store, recorder, trainer = CheckpointStore(tmp_path), Recorder(), trainer_of()
    saving = SaveCheckpoint(store, trainer, dict)
    figures = {"val_nll": 2.5, "val_bleu": 30.0}
    # The run is interrupted at the step of a validation.
    assert not fit(trainer, [recorder, saving], 100, stop=4)
    saving.save()
    assert store.metrics(4) == figures
    # The resumed run is interrupted while updates are skipped: same step.
    cure = poison(trainer)
    assert not fit(trainer, [recorder, saving], 100, stop=5)
    saving.save()
    assert store.metrics(4) == figures
    # A skipped step does not cause another validation.
    assert not fit(trainer, [recorder, saving], 100, every=5, stop=5)
    assert (trainer.step, len(recorder.epochs)) == (4, 1)
    cure()
    assert not fit(trainer, [recorder, saving], 100, stop=5)
    saving.save()
    assert store.metrics(5) == {}
    assert store.steps() == [4, 5]


def test_too_many_consecutive_non_finite_steps_end_training():
    lines, dumped = [], []
    trainer = trainer_of()
    places = iter([(4, 6), (4, 7), (5, 0)])
    watcher = SkippedSteps(
        2, lines.append, lambda: next(places), lambda *place: dumped.append(place)
    )
    poison(trainer)
    with pytest.raises(
        NonFiniteGradientsError, match=r"3 consecutive steps .* step 1 "
    ):
        fit(trainer, [watcher], 10)
    assert len(lines) == 3
    assert "step 1 (epoch 4, batch 7)" in lines[1]
    assert dumped == [(5, 0)]


def test_tensorboard_writes_scalars_texts_and_images(tmp_path):
    trainer = trainer_of()
    values = {"d_model": 16, "clip_norm": None}
    graph = functools.partial(model_graph, trainer.model)
    board = TensorBoard(tmp_path, lambda: trainer.step, values, graph, 2, (2, 3))
    pictures = {"encoder": [np.eye(3)[np.newaxis].repeat(5, axis=0)]}

    class Shows(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            board.write_samples([("a | b", "c", "d")])
            board.write_attention(pictures)

    fit(trainer, [Shows(), board], 8)
    train = EventAccumulator(str(tmp_path / "train")).Reload()
    steps = [event.step for event in train.Tensors("loss")]
    assert steps == [2, 4, 6, 8]
    assert {
        "learning_rate",
        "gradient_norm",
        "tokens_per_second",
        "non_padding",
    } <= set(train.Tags()["tensors"])
    assert any("self_attention" in node.name for node in train.Graph().node)
    assert "_hparams_/session_start_info" in str(train.summary_metadata)
    dev = EventAccumulator(str(tmp_path / "dev")).Reload()
    (event, _) = dev.Tensors("bleu")
    assert tf.make_ndarray(event.tensor_proto) == 30
    assert event.step == 4
    (event, _) = dev.Tensors("translations")
    assert b"| a \\| b | c | d |" in tf.make_ndarray(event.tensor_proto).item()
    (event, _) = dev.Tensors("attention/encoder_0")
    width, height, png = tf.make_ndarray(event.tensor_proto)
    assert (width, height) == (b"192", b"96")
    picture = tf.io.decode_png(png).numpy()[..., 0]
    # Two rows of heads. The diagonal is dark, and weights of 0 are light.
    assert picture[0, 0] == picture[30, 30] == picture[48, 0] == 0
    assert picture[0, 30] == 255
    assert list(tmp_path.glob("plugins/profile/*/*.xplane.pb"))


def test_tensorboard_writes_metrics_of_diverged_run(tmp_path):
    board = TensorBoard(tmp_path, lambda: 10)
    board.on_train_begin()
    figures = {"val_nll": 700.0, "val_perplexity": 1e304, "val_loss": np.nan}
    board.on_train_batch_end(9, figures)
    board.on_epoch_end(0, figures)
    board.on_train_end()
    for part, prefix in (("train", "val_"), ("dev", "")):
        events = EventAccumulator(str(tmp_path / part)).Reload()
        values = [
            tf.make_ndarray(events.Tensors(prefix + name)[0].tensor_proto).item()
            for name in ("nll", "perplexity", "loss")
        ]
        np.testing.assert_array_equal(values, [700.0, np.inf, np.nan])


def test_progress_report_shows_metrics_and_remaining_time():
    shown = []
    trainer = trainer_of()
    fraction = lambda: trainer.step / 8  # noqa: E731
    report = ProgressReport(
        lambda *event: shown.append(event), fraction, lambda: 1.5, 0
    )
    fit(trainer, [report], 8)
    name, figures = shown[0]
    assert (name, figures["step"], figures["done"]) == ("step", 1, 1 / 8)
    assert figures["epoch"] == 1.5
    assert figures["learning_rate"] == pytest.approx(0.01)
    assert figures["tokens_per_second"] > 0 <= figures["seconds_left"]
    assert shown[-1] == ("dev", {"bleu": 30.0, "nll": 2.5})


def test_graphs_of_a_training_are_freed_with_its_trainer():
    def graphs():
        gc.collect()
        return {id(each) for each in gc.get_objects() if isinstance(each, FuncGraph)}

    before = graphs()
    trainer = trainer_of(accumulate=2)
    run(trainer, 1)
    assert graphs() - before
    del trainer
    assert not graphs() - before


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
