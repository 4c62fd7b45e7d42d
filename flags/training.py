"""How a training runs, beside its hyper-parameters."""

from absl import flags

from t2t_keras.config import TrainingConfig, TransformerConfig
from t2t_keras.flags import hyperparameters
from t2t_keras.flags.config_flags import define

FLAGS = flags.FLAGS

define(TransformerConfig, ["seed"], __name__)
define(
    TrainingConfig,
    [n for n in TrainingConfig.flag_names() if n not in hyperparameters.TRAINING],
    __name__,
)
flags.DEFINE_string(
    "init_from", None, "Model directory whose weights a new training starts from."
)
flags.DEFINE_string(
    "init_checkpoint", "auto", "Which weights of --init_from to use, as --checkpoint."
)
flags.DEFINE_bool(
    "read_text",
    False,
    "Tokenize the corpus anew in every epoch rather than read the prepared records.",
)
