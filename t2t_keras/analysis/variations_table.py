"""Table 3 of the paper, with the figures of trained variations beside the paper's."""

from collections.abc import Mapping
from typing import Any

from t2t_keras.config.paper_variations import VARIATIONS

_SHOWN = (
    "num_layers",
    "d_model",
    "d_ff",
    "num_heads",
    "d_k",
    "d_v",
    "dropout",
    "label_smoothing",
)


def variations_table(results: Mapping[str, Mapping[str, Any]], score_name: str) -> str:
    """Returns Table 3 in Markdown, with the paper's figures beside the new ones.

    Args:
        results: Result by name of the row, in the order of the table: "parameters",
            "steps", "perplexity" (per token), "bleu", its "signature", and "wanted",
            whose "values" are the hyper-parameters of the row.
        score_name: Name of the BLEU variant, for the heading.
    """
    figures = ("perplexity", score_name, "parameters x 10^6")
    head = ["row", "", *_SHOWN, "steps"]
    head += [heading for name in figures for heading in (name, "the paper's")]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for row, result in results.items():
        paper = VARIATIONS[row]
        values = dict(result["wanted"]["values"])
        values["d_k"] = values["d_k"] or values["d_model"] // values["num_heads"]
        values["d_v"] = values["d_v"] or values["d_k"]
        cells = [
            f"({paper.group})" if len(paper.group) == 1 else paper.group,
            row,
            *(str(values[name]) for name in _SHOWN),
            f"{result['steps']:,}",
            f"{result['perplexity']:.2f}",
            f"{paper.perplexity:.2f}",
            f"{result['bleu']:.2f}",
            f"{paper.bleu:.1f}",
            f"{result['parameters'] / 1e6:.3g}",
            f"{paper.parameters}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    signatures = {result["signature"] for result in results.values()}
    note = (
        "Perplexity per token and BLEU of the last checkpoint on the dev split "
        f"({'; '.join(sorted(signatures))}). The paper's figures are for newstest2013, "
        "English to German, with tokenized BLEU and split compounds."
    )
    return "\n".join([*lines, "", note, ""])
