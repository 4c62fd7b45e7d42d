"""The --preset flag, and the preset with the values of other flags."""

from absl import flags

from t2t_keras.config import PRESETS, Preset, TrainingConfig, TransformerConfig
from t2t_keras.flags.from_config import given

FLAGS = flags.FLAGS

flags.DEFINE_enum(
    "preset",
    "tiny",
    sorted(PRESETS),
    "Named configuration of vocabulary, model and training. Other flags override its "
    "values.",
)


def chosen_preset(default: Preset | None = None) -> Preset:
    """Returns the preset, overridden by the flags that are given.

    If another limit of training is given, the number of steps of the preset is ignored.

    Args:
        default: The preset if --preset is not given. Default: that flag's default.

    Raises:
        UserError: If two values contradict each other.
    """
    values = {**given(TransformerConfig), **given(TrainingConfig)}
    limits = ("train_epochs", "train_tokens", "train_minutes")
    if any(name in values for name in limits):
        values.setdefault("train_steps", None)
    for name in ("subword", "vocab_size"):
        if name in FLAGS and FLAGS[name].value is not None:
            values[name] = FLAGS[name].value
    if default is None or FLAGS["preset"].present:
        default = PRESETS[FLAGS.preset]
    return default.replace(**values)
