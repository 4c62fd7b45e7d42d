"""--preset, whose values single flags override."""

from typing import Any

from absl import flags

from t2t_keras.flags.presets import PRESETS

FLAGS = flags.FLAGS

flags.DEFINE_enum(
    "preset", "tiny", sorted(PRESETS), "Named values that single flags override."
)


def preset_values() -> dict[str, Any]:
    """Returns the preset's values with the explicitly given flags over them."""
    return {
        name: value
        if name not in FLAGS or FLAGS[name].value is None
        else FLAGS[name].value
        for name, value in PRESETS[FLAGS.preset].items()
    }
