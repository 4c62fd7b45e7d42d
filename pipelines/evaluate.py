"""Scores a model on held-out text, or scores a file of translations.

t2t-evaluate --model_dir=DIR --split=test
t2t-evaluate --model_dir=DIR --source=FILE --reference=FILE
t2t-evaluate --hypothesis=FILE --reference=FILE --baseline=FILE
"""

import json
from pathlib import Path

from absl import flags

from t2t_keras.errors import UserError
from t2t_keras.flags import decoding, languages, paths, speed
from t2t_keras.flags import scores as score_flags
from t2t_keras.pipelines import stage
from t2t_keras.pipelines.command_line import standard_streams
from t2t_keras.pipelines.command_line.decoded import decode
from t2t_keras.pipelines.command_line.outcomes import report_invalid_lines, worst_status
from t2t_keras.plurals import counted

FLAGS = flags.FLAGS

flags.DEFINE_enum(
    "split", "test", ["dev", "test"], "Held-out split to translate and score."
)
flags.DEFINE_string(
    "source",
    None,
    "File of source sentences to translate instead of --split. Default: --split.",
)
flags.DEFINE_string(
    "reference",
    None,
    "File of reference translations for --source or --hypothesis. Default: those of"
    " --split.",
)
flags.DEFINE_string(
    "hypothesis",
    None,
    "File of translations to score instead of running a model. Default: run the model.",
)
flags.DEFINE_string(
    "hypothesis_output",
    None,
    "File to write the translations to. Default: a file in the model directory.",
)
flags.DEFINE_list(
    "scores",
    ["bleu", "chrf"],
    "Scores to compute, comma-separated: bleu (sacreBLEU), bleu_lc, bleu_intl, "
    "bleu_intl_lc, bleu_moses, bleu_moses_split (the paper's for English-German), "
    "bleu_none (for tokenized text), chrf, ter. docs/reproduce.md explains them.",
)
flags.DEFINE_string(
    "baseline",
    None,
    "File of another system's translations for a paired significance test. Default:"
    " no test.",
)
flags.DEFINE_integer(
    "bootstrap_samples",
    1000,
    "Number of bootstrap samples of the significance test.",
    1,
)


def main() -> int:
    """Runs the stage.

    Returns:
        The exit status.
    """
    from t2t_keras.data.prepared_data import text_path
    from t2t_keras.data.text_lines import read_lines, readable
    from t2t_keras.decoding.translation_status import INVALID, MODEL_ERROR
    from t2t_keras.evaluation.bleu import (
        check_score_names,
        compare_translations,
        score_translations,
    )
    from t2t_keras.evaluation.bleu_tokenizers import choose_tokenizer
    from t2t_keras.files import write_atomically
    from t2t_keras.model_dir import ModelDir

    if bool(FLAGS.source or FLAGS.hypothesis) != bool(FLAGS.reference):
        raise UserError("--reference and either --source or --hypothesis go together.")
    model_flags = ["model_dir", "checkpoint", "source", "split", "hypothesis_output"]
    model_flags += [*decoding.search_options(), "decode_precision"]
    given = [name for name in model_flags if FLAGS[name].present]
    if FLAGS.hypothesis and given:
        raise UserError(
            "--hypothesis is scored without running a model. Remove "
            f"--{', --'.join(given)}."
        )
    if not FLAGS.hypothesis and languages.TARGET_LANG.present:
        raise UserError(
            "--target_lang needs --hypothesis: with a model, its own language is used."
        )
    standard_streams.check_output("-")
    score_names = list(dict.fromkeys(FLAGS.scores))
    check_score_names(score_names)
    target_lang = languages.TARGET_LANG.value
    if FLAGS.hypothesis:
        text, reference_path = Path(FLAGS.hypothesis), Path(FLAGS.reference)
    elif FLAGS.model_dir:
        model_dir = ModelDir(FLAGS.model_dir)
        manifest = model_dir.config["data"]
        target_lang = manifest["target_lang"]
        if FLAGS.source:
            text, reference_path = Path(FLAGS.source), Path(FLAGS.reference)
            # The prefix tells a file named like a split from that split.
            name = f"file.{text.name.partition('.')[0]}"
        else:
            name = FLAGS.split
            if name not in manifest["splits"]:
                reason = f"its data was prepared without --{name}_source"
                if model_dir.imported_path.is_file():
                    reason = "it is an imported model"
                raise UserError(
                    f"{FLAGS.model_dir} has no {name} split: {reason}. Use --source "
                    "and --reference instead."
                )
            text, reference_path = (
                text_path(Path(FLAGS.model_dir), name, side)
                for side in ("source", "target")
            )
    else:
        raise UserError("Give either --model_dir or --hypothesis.")
    lines, references = (
        list(read_lines(p, strict=False)) for p in (text, reference_path)
    )
    _check_aligned(text, len(lines), reference_path, len(references))
    compared = {reference_path: references}
    if FLAGS.baseline:
        baseline_path = Path(FLAGS.baseline)
        baseline = list(read_lines(baseline_path, strict=False))
        _check_aligned(baseline_path, len(baseline), reference_path, len(references))
        compared[baseline_path] = baseline
    if FLAGS.hypothesis:
        compared[text] = lines
    exits = {0}
    for file, content in compared.items():
        exits.add(
            report_invalid_lines(
                str(file), content, "scored with its invalid bytes replaced by U+FFFD"
            )
        )
    readable_references = [readable(line) for line in references]
    tokenizer, note = choose_tokenizer(
        target_lang, FLAGS.bleu_tokenizer, readable_references
    )
    if note and {"bleu", "bleu_lc"} & {*score_names}:
        stage.report(note)
    hypotheses, decoded = lines, None
    if not FLAGS.hypothesis:
        path = FLAGS.hypothesis_output or f"{FLAGS.model_dir}/hypotheses.{name}.txt"
        record_path = f"{FLAGS.model_dir}/scores.{name}.json"
        for output_path in (path, record_path):
            standard_streams.check_output(output_path)
        decoded = decode(model_dir, str(text), lines, references)
        hypotheses = decoded.hypotheses
        with standard_streams.open_output(path) as output:
            output.writelines(f"{line}\n".encode() for line in hypotheses)
        stage.report(f"Wrote the translations: {path}")
        exits.add(decoded.translated.report())
        # Invalid lines were reported above, and a broken model is reported once.
        reported = {MODEL_ERROR} & decoded.translated.counts.keys()
        exits.add(decoded.scored.report(reported | {INVALID}))
    hypotheses = [readable(line) for line in hypotheses]
    scores = score_translations(
        hypotheses, readable_references, score_names, target_lang, tokenizer
    )
    for score in scores:
        print(score)
    comparisons = []
    if decoded:
        print(decoded.perplexity)
    if FLAGS.baseline:
        comparisons = compare_translations(
            hypotheses,
            [readable(line) for line in baseline],
            readable_references,
            score_names,
            target_lang,
            FLAGS.bootstrap_samples,
            tokenizer,
        )
        for comparison in comparisons:
            print(comparison)
    if decoded:
        perplexity = decoded.perplexity
        record = {
            "source": str(text),
            **decoded.search,
            "scores": [score._asdict() for score in scores],
            "perplexity": {
                **perplexity._asdict(),
                "per_token": perplexity.per_token,
                "per_word": perplexity.per_word,
            },
            "comparisons": [comparison._asdict() for comparison in comparisons],
            "statuses": {
                "translated": decoded.translated.counts,
                "perplexity": decoded.scored.counts,
            },
        }
        write_atomically(record_path, json.dumps(record, indent=2).encode())
    return worst_status(exits)


def _check_aligned(path: Path, lines: int, reference: Path, references: int) -> None:
    if lines != references:
        raise UserError(
            f"{path} has {counted(lines, 'line')}, but {reference} has {references:,}: "
            f"line {min(lines, references) + 1} has no counterpart."
        )


def run() -> None:
    """Console entry point."""
    shared: list[stage.SharedFlags] = [
        paths.MODEL_DIR,
        languages.TARGET_LANG,
        score_flags,
        decoding,
        speed,
    ]
    stage.run(main, __name__, shared, process="decoding")


if __name__ == "__main__":
    run()
