"""Model card of an exported version.

An exported version has this layout:

<base>/<version>/saved_model.pb, variables/    the model
<base>/<version>/assets.extra/
    tf_serving_warmup_requests                 warm-up requests
    model_card.json, model_card.md             model card
    model.keras                                weights in Keras format
"""

import json
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from t2t_keras.json_file import read_object
from t2t_keras.model_dir import LoadedModel, ModelDir

EXTRA = "assets.extra"

_PACKAGES = ("t2t-keras", "tensorflow", "tensorflow-text", "keras")


def model_card(
    model_dir: ModelDir,
    loaded: Sequence[LoadedModel],
    serving: dict[str, Any],
) -> dict[str, Any]:
    """Describes a model: its data, weights, configuration and scores.

    Args:
        model_dir: Model directory that was exported.
        loaded: Exported models; several form an ensemble.
        serving: Search options of the export and dtype of the stored weights.

    Returns:
        The model card as a JSON object.
    """
    training: dict[str, Any] = {}
    if not model_dir.imported_path.is_file():
        training, _ = model_dir.training_config.sections()
    scores = {
        path.name.removeprefix("scores.").removesuffix(".json"): read_object(path)
        for path in sorted(model_dir.path.glob("scores.*.json"))
    }
    return {
        "name": model_dir.path.resolve().name,
        "data": model_dir.config["data"],
        "weights": [each.weights for each in loaded],
        "steps": [each.step for each in loaded],
        "parameters": [int(each.model.count_params()) for each in loaded],
        "model": model_dir.transformer_config.to_dict(),
        "training": training,
        "scores": scores,
        "serving": serving,
        "versions": {name: metadata.version(name) for name in _PACKAGES},
    }


def write_card(version_dir: Path, card: dict[str, Any]) -> None:
    """Writes a model card to a version's directory, as JSON and as Markdown."""
    extra = version_dir / EXTRA
    extra.mkdir(exist_ok=True)
    text = json.dumps(card, indent=2, ensure_ascii=False)
    (extra / "model_card.json").write_text(f"{text}\n", encoding="utf-8")
    (extra / "model_card.md").write_text(markdown(card), encoding="utf-8")


def markdown(card: dict[str, Any]) -> str:
    """Returns a model card as Markdown."""
    data = card["data"]
    lines = [
        f"# {card['name']}",
        "",
        f"A Transformer from {data['source_lang']} to {data['target_lang']}, "
        + (
            f"trained with t2t-keras on {data['corpus']}."
            if card["training"]
            else f"imported with t2t-keras from {data['corpus']}."
        ),
    ]
    sections = {
        "Data": {
            f"{split} pairs": facts["pairs"] for split, facts in data["splits"].items()
        }
        | {"vocabulary": data["vocabulary_fingerprint"]}
        | {
            f"BPE dropout, {name}": value
            for name, value in (data.get("bpe_dropout") or {}).items()
        },
        "Scores": dict(_scores(card)),
        "Model": {"parameters": sum(card["parameters"]), **card["model"]},
        **({"Training": card["training"]} if card["training"] else {}),
        "Serving": {"weights": ", ".join(card["weights"]), **card["serving"]},
        "Versions": card["versions"],
    }
    for title, facts in sections.items():
        lines += ["", f"## {title}", ""]
        lines += [f"- {name}: {_format(value)}" for name, value in facts.items()]
        if not facts:
            lines.append("None: `t2t-evaluate` was not run before the export.")
    return "\n".join(lines) + "\n"


def _scores(card: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yields name and value of each score.

    Names the scored weights if they differ from the exported ones.
    """
    for name, record in card["scores"].items():
        scored, exported = (
            (part["weights"], part.get("steps", card["steps"]))
            for part in (record, card)
        )
        note = "" if scored == exported else f"  of {', '.join(record['weights'])}"
        for score in record.get("scores", ()):
            figure = f"{score['value']:.2f}  ({score['signature']})"
            yield f"{name}, {score['name']}", figure + note
        if "score" in record:  # A parser.
            yield f"{name}, F1", f"{record['score']['f1']:.2f}{note}"


def _format(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) and value > 9999 else str(value)
