"""Scores a model on held-back text, or a file of translations.

t2t-evaluate --model_dir=DIR --split=test
t2t-evaluate --model_dir=DIR --source=FILE --reference=FILE
t2t-evaluate --hypothesis=FILE --reference=FILE --baseline=FILE
"""

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from absl import flags

from t2t_keras.flags import decoding, languages, paths, speed
from t2t_keras.flags import scores as score_flags
from t2t_keras.pipelines import input_output, stage
from t2t_keras.pipelines.hypotheses import describe_run, open_translator

if TYPE_CHECKING:
    from t2t_keras.evaluation.perplexity import Perplexity
    from t2t_keras.model_dir import ModelDir

FLAGS = flags.FLAGS

flags.DEFINE_enum("split", "test", ["dev", "test"], "Held-back text of the model.")
flags.DEFINE_string("source", None, "Sentences to translate rather than a split.")
flags.DEFINE_string("reference", None, "Their reference translations.")
flags.DEFINE_string("hypothesis", None, "Translations to score rather than a model.")
flags.DEFINE_string(
    "hypothesis_output", None, "File for the translations [in the model's directory]."
)
flags.DEFINE_list(
    "scores",
    ["bleu", "chrf"],
    "Any of bleu (sacreBLEU), bleu_lc, bleu_intl, bleu_intl_lc, bleu_moses, "
    "bleu_moses_split (the paper's for English-German), bleu_none (for text tokenized "
    "already), chrf, ter; docs/reproduce.md tells them apart.",
)
flags.DEFINE_string(
    "baseline", None, "Another system's translations, to test the difference from."
)
flags.DEFINE_integer(
    "bootstrap_samples", 1000, "How often that test draws the sentences anew.", 1
)


def main() -> None:
    """Runs the stage."""
    from t2t_keras.data.lines import read_lines
    from t2t_keras.data.preparation import text_path
    from t2t_keras.evaluation.bleu import (
        check_flavours,
        compare_translations,
        score_translations,
    )
    from t2t_keras.evaluation.bleu_tokenizers import choose_tokenizer
    from t2t_keras.files import write_atomically
    from t2t_keras.model_dir import ModelDir

    if bool(FLAGS.source or FLAGS.hypothesis) != bool(FLAGS.reference):
        raise ValueError("--reference goes with --source or --hypothesis.")
    of_model = ["model_dir", "checkpoint", "source", "split", "hypothesis_output"]
    of_model += [*decoding.search_options(), "decode_precision"]
    given = [name for name in of_model if FLAGS[name].present]
    if FLAGS.hypothesis and given:
        raise ValueError(
            "--hypothesis is scored as it is, without a model: it goes without "
            f"--{', --'.join(given)}."
        )
    if not FLAGS.hypothesis and languages.TARGET_LANG.present:
        raise ValueError("--target_lang goes with --hypothesis: a model knows its own.")
    flavours = list(dict.fromkeys(FLAGS.scores))
    check_flavours(flavours)
    target_lang = languages.TARGET_LANG.value
    if FLAGS.hypothesis:
        text, reference_path = Path(FLAGS.hypothesis), Path(FLAGS.reference)
    elif FLAGS.model_dir:
        model_dir = ModelDir(FLAGS.model_dir)
        manifest = model_dir.config["data"]
        target_lang = manifest["target_lang"]
        if FLAGS.source:
            text, reference_path = Path(FLAGS.source), Path(FLAGS.reference)
            # A file named like a split is not that split.
            name = f"file.{text.name.partition('.')[0]}"
        else:
            name = FLAGS.split
            if name not in manifest["splits"]:
                raise ValueError(
                    f"{FLAGS.model_dir} has no {name} split: its data were prepared "
                    f"without --{name}_source. Give --source and --reference."
                )
            text, reference_path = (
                text_path(Path(FLAGS.model_dir), name, side)
                for side in ("source", "target")
            )
    else:
        raise ValueError("Either --model_dir or --hypothesis must be given.")
    lines = list(read_lines(text))
    references = list(read_lines(reference_path))
    _check_aligned(text, len(lines), reference_path, len(references))
    baseline = list(read_lines(FLAGS.baseline)) if FLAGS.baseline else []
    if FLAGS.baseline:
        _check_aligned(
            Path(FLAGS.baseline), len(baseline), reference_path, len(references)
        )
    tokenizer, note = choose_tokenizer(target_lang, FLAGS.bleu_tokenizer, references)
    if note and {"bleu", "bleu_lc"} & {*flavours}:
        stage.report(note)
    hypotheses, perplexity = lines, None
    if not FLAGS.hypothesis:
        path = FLAGS.hypothesis_output or f"{FLAGS.model_dir}/hypotheses.{name}.txt"
        record_path = f"{FLAGS.model_dir}/scores.{name}.json"
        for output_path in (path, record_path):
            input_output.check_output(output_path)
        hypotheses, perplexity, search = _translate(model_dir, lines, references)
        with input_output.open_output(path) as output:
            output.writelines(f"{line}\n".encode() for line in hypotheses)
        stage.report(f"Wrote the translations: {path}")
    scores = score_translations(
        hypotheses, references, flavours, target_lang, tokenizer
    )
    for score in scores:
        print(score)
    comparisons = []
    if perplexity:
        print(perplexity)
    if baseline:
        comparisons = compare_translations(
            hypotheses,
            baseline,
            references,
            flavours,
            target_lang,
            FLAGS.bootstrap_samples,
            tokenizer,
        )
        for comparison in comparisons:
            print(comparison)
    if perplexity:
        record = {
            "source": str(text),
            **search,
            "scores": [score._asdict() for score in scores],
            "perplexity": {
                **perplexity._asdict(),
                "per_token": perplexity.per_token,
                "per_word": perplexity.per_word,
            },
            "comparisons": [comparison._asdict() for comparison in comparisons],
        }
        write_atomically(record_path, json.dumps(record, indent=2).encode())


def _check_aligned(path: Path, lines: int, reference: Path, references: int) -> None:
    if lines != references:
        raise ValueError(
            f"{path} has {lines} lines, but {reference} has {references}: line "
            f"{min(lines, references) + 1} has no counterpart."
        )


def _translate(
    model_dir: "ModelDir", sources: list[str], references: list[str]
) -> tuple[list[str], "Perplexity", dict[str, Any]]:
    """Returns translations, perplexity of the references, and what to record."""
    from t2t_keras.evaluation.perplexity import Perplexity

    translator, loaded = open_translator(model_dir)
    names = ", ".join(each.weights for each in loaded)
    stage.report(f"Decoding {len(sources):,} sentences with {names} ...")
    translator.translate(sources[:1])  # Compiles, which is not decoding.
    started = time.perf_counter()
    hypotheses: list[str] = []
    for start in range(0, len(sources), _REPORT_SENTENCES):
        found = translator.translate(sources[start : start + _REPORT_SENTENCES])
        hypotheses += [best[0].text for best in found]
        seconds = time.perf_counter() - started
        stage.report(
            f"{len(hypotheses):,} of {len(sources):,} sentences, "
            f"{len(hypotheses) / seconds:.1f} sentences/s"
        )
    details = translator.details(sources, references)
    perplexity = Perplexity.of(references, [d.token_scores for d in details])
    return hypotheses, perplexity, describe_run(translator, loaded)


_REPORT_SENTENCES = 2000


def run() -> None:
    """Is the console script."""
    shared: list[stage.SharedFlags] = [
        paths.MODEL_DIR,
        languages.TARGET_LANG,
        score_flags,
        decoding,
        speed,
    ]
    stage.run(main, __name__, shared)


if __name__ == "__main__":
    run()
