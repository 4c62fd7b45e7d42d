"""From a model directory to a version that TensorFlow Serving loads.

<base>/<version>/saved_model.pb, variables/    the model
<base>/<version>/assets.extra/
    tf_serving_warmup_requests                 what a server warms up with
    model_card.json, model_card.md             what the model is
    model.keras                                its weights for Keras
"""

import contextlib
import json
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from t2t_keras.model_dir import ModelDir
from t2t_keras.transformer import Transformer

EXTRA = "assets.extra"

_PACKAGES = ("t2t-keras", "tensorflow", "tensorflow-text", "keras")


def versions_of(base: str | Path) -> dict[int, Path]:
    """Finds the versions in a base directory, as TensorFlow Serving does.

    Returns:
        The directory of each, ascending; directories of other names are none.
    """
    base = Path(base)
    found = {
        int(path.name): path
        for path in (base.iterdir() if base.is_dir() else ())
        if path.name.isascii() and path.name.isdecimal() and path.is_dir()
        # A version is an int64.
        if int(path.name) < 1 << 63
    }
    return dict(sorted(found.items()))


@contextlib.contextmanager
def new_version(base: str | Path, version: int = 0) -> Iterator[Path]:
    """Makes a version's directory that takes its name only when it is complete.

    Args:
        base: Directory of the versions; it is made.
        version: The number; 0 for the one after the greatest there is.

    Yields:
        The directory to write to. If the block raises, nothing is left behind.

    Raises:
        ValueError: If there is that version already, or the base is no directory.
    """
    base = Path(base)
    try:
        base.mkdir(parents=True, exist_ok=True)
        temporary = tempfile.mkdtemp(dir=base, prefix=".exporting-")
    except OSError as error:
        raise ValueError(f"{base} cannot be written to: {error}") from error
    try:
        _check_free(base, version)
        yield Path(temporary)
        version = version or max(versions_of(base), default=0) + 1
        _check_free(base, version)
        Path(temporary).chmod(0o755)
        Path(temporary).rename(base / str(version))
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def _check_free(base: Path, version: int) -> None:
    if version in versions_of(base):
        raise ValueError(
            f"{base} has a version {version} already. Versions are not replaced; "
            "leave --version out for the next one."
        )


def model_card(
    model_dir: ModelDir,
    checkpoints: Sequence[str],
    models: Sequence[Transformer],
    serving: dict[str, Any],
) -> dict[str, Any]:
    """Says what a model is, of what, and how good.

    Args:
        model_dir: Where it was trained.
        checkpoints: The weights that were taken, as of `ModelDir.weights_path`.
        models: The models that they were loaded into.
        serving: How the export searches and what its weights are stored as.
    """
    config = model_dir.config
    scores = {
        path.name.split(".")[1]: json.loads(path.read_text())
        for path in sorted(model_dir.path.glob("scores.*.json"))
    }
    return {
        "name": model_dir.path.resolve().name,
        "data": config["data"],
        "weights": [model_dir.weights_path(c).name for c in checkpoints],
        "parameters": [int(model.count_params()) for model in models],
        "model": config["model"],
        "training": config["training"],
        "scores": scores,
        "serving": serving,
        "versions": {name: metadata.version(name) for name in _PACKAGES},
    }


def write_card(version_dir: Path, card: dict[str, Any]) -> None:
    """Writes a model card for machines and for people."""
    extra = version_dir / EXTRA
    extra.mkdir(exist_ok=True)
    text = json.dumps(card, indent=2, ensure_ascii=False)
    (extra / "model_card.json").write_text(f"{text}\n", encoding="utf-8")
    (extra / "model_card.md").write_text(_markdown(card), encoding="utf-8")


def _markdown(card: dict[str, Any]) -> str:
    data = card["data"]
    lines = [
        f"# {card['name']}",
        "",
        f"A Transformer from {data['source_lang']} to {data['target_lang']}, trained "
        f"with t2t-keras on {data['corpus']}.",
    ]
    sections = {
        "Data": {
            f"pairs of {split}": facts["pairs"]
            for split, facts in data["splits"].items()
        }
        | {"vocabulary": data["vocabulary_fingerprint"]},
        "Scores": {
            f"{name}, {score['name']}": f"{score['value']:.2f}  ({score['signature']})"
            for name, record in card["scores"].items()
            for score in record["scores"]
        },
        "Model": {"parameters": sum(card["parameters"]), **card["model"]},
        "Training": card["training"],
        "Serving": {"weights": ", ".join(card["weights"]), **card["serving"]},
        "Versions": card["versions"],
    }
    for title, facts in sections.items():
        lines += ["", f"## {title}", ""]
        lines += [f"- {name}: {_shown(value)}" for name, value in facts.items()]
        if not facts:
            lines.append("None yet: `t2t-evaluate` had not been run.")
    return "\n".join(lines) + "\n"


def _shown(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) and value > 9999 else str(value)
