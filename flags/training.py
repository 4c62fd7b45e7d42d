"""Flags of a training run other than hyper-parameters."""

from absl import flags

from t2t_keras.config import TrainingConfig, TransformerConfig
from t2t_keras.flags import hyperparameters
from t2t_keras.flags.from_config import define

FLAGS = flags.FLAGS

define(TransformerConfig, ["seed"], __name__)
define(
    TrainingConfig,
    [n for n in TrainingConfig.flag_names() if n not in hyperparameters.TRAINING],
    __name__,
)
flags.DEFINE_string(
    "init_from",
    None,
    "Model directory whose weights a new training starts from. Its configuration "
    "replaces the default of --preset. Default: random weights.",
)
flags.DEFINE_string(
    "init_checkpoint",
    "auto",
    "Weights of --init_from to start from, named as for --checkpoint of t2t-translate.",
)
flags.DEFINE_bool(
    "read_text",
    False,
    "Tokenize the corpus again in every epoch instead of reading the prepared records.",
)
