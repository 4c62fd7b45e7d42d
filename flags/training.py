"""How a run trains, beside its hyper-parameters."""

from absl import flags

from t2t_keras.errors import UserError

FLAGS = flags.FLAGS

flags.DEFINE_float("train_epochs", None, "Passes over the data to train for.", 0)
flags.DEFINE_float("train_tokens", None, "Tokens of both sides to train for.", 0)
flags.DEFINE_float("train_minutes", None, "Minutes to train for.", 0)
flags.DEFINE_integer("checkpoint_steps", None, "Updates between checkpoints.", 1)
flags.DEFINE_integer("keep_checkpoints", 20, "Checkpoints to keep, the newest.", 1)
flags.DEFINE_integer("keep_best", 5, "More to keep, the best on the dev split.", 0)
flags.DEFINE_integer("batch_sentences", None, "Most pairs of a global batch.", 1)
flags.DEFINE_bool(
    "pad_to_boundary", None, "Few shapes of batches, more padding [as --jit]."
)
flags.DEFINE_integer(
    "accumulate",
    0,
    "Parts of a replica's share computed in turn; 0: of 4,096 tokens at most.",
    0,
)
flags.DEFINE_integer("seed", 0, "Seed of weights, dropout and the data's order.")
flags.DEFINE_bool(
    "deterministic",
    False,
    "Equal seeds give equal losses on GPUs too, at some cost; on CPUs they do anyway.",
)
flags.DEFINE_float("ema_decay", None, "Keep an exponential average of the weights.")
flags.DEFINE_integer(
    "max_skipped_steps", 20, "Steps in a row whose gradients may be infinite.", 0
)
flags.DEFINE_string("init_from", None, "Model directory to take first weights from.")
flags.DEFINE_string("init_checkpoint", "auto", "Which of its weights, as --checkpoint.")
flags.DEFINE_bool("read_text", False, "Tokenize the corpus anew while training.")
flags.DEFINE_enum(
    "early_stop_metric",
    "val_nll",
    ["val_nll", "val_loss", "val_perplexity", "val_accuracy", "val_bleu"],
    "Figure of the dev split that early stopping watches and --keep_best goes by.",
)
flags.DEFINE_integer(
    "early_stop_patience",
    None,
    "Validations in a row without a better figure after which training ends [never]. "
    "A larger number, or none, continues a run that ended so.",
    1,
)
flags.DEFINE_float(
    "early_stop_threshold",
    None,
    "Value that --early_stop_metric must have reached for early stopping [any].",
)
flags.DEFINE_integer("bleu_sentences", 200, "Dev sentences decoded for BLEU.", 0)
flags.DEFINE_integer("sample_sentences", 2, "Of which so many are shown.", 0)
flags.DEFINE_float("report_seconds", 10.0, "Seconds between reports.", 0)
flags.DEFINE_enum(
    "log_format",
    "auto",
    ["auto", "text", "json"],
    "Lines of text or of JSON; auto draws a progress bar on a terminal.",
)
flags.DEFINE_list(
    "profile_steps", [], "First and last step to profile, for TensorBoard's profiler."
)


def profile_steps() -> tuple[int, int] | None:
    """Returns the first and the last step to profile, if any.

    Raises:
        UserError: If the flag does not name two steps.
    """
    steps = FLAGS.profile_steps
    if not steps:
        return None
    if len(steps) != 2 or not all(step.isdecimal() for step in steps):
        raise UserError(
            "--profile_steps is the first and the last step to profile, such as 10,12. "
            f"Received: {','.join(steps)}"
        )
    return int(steps[0]), int(steps[1])
