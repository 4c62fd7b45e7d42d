"""Trains the model variations of the paper's Table 3 and prints the table.

t2t-variations --data_dir=DIR --output_dir=DIR --preset=base --rows=base,A,B
t2t-variations --data_dir=DIR --output_dir=DIR --preset=tiny -- --train_minutes=5

Arguments after -- are flags of t2t-train that apply to every row. Hyper-parameters that
this stage has flags for are not allowed there. Rows are relative to the preset:
"num_heads_16" has twice as many heads as the preset. If interrupted, the same command
line resumes.
"""

import json
import shlex
import sys
from pathlib import Path
from typing import Any

from absl import flags

from t2t_keras.config import PRESETS, Preset, TransformerConfig
from t2t_keras.config.paper_variations import VARIATIONS
from t2t_keras.config.presets import vary
from t2t_keras.errors import UserError
from t2t_keras.flags import hyperparameters, paths, preset_flag
from t2t_keras.flags import scores as score_flags
from t2t_keras.json_file import read_object
from t2t_keras.pipelines import stage
from t2t_keras.pipelines.command_line import child_process, standard_streams
from t2t_keras.pipelines.command_line.exit_status import EXIT_USAGE

FLAGS = flags.FLAGS

flags.DEFINE_list(
    "rows",
    ["base", "A", "B", "C", "D", "E", "big"],
    "Rows of Table 3 to train, comma-separated: letters of the paper, or names of "
    "single rows such as num_heads_1.",
)
flags.DEFINE_string(
    "row_score",
    "bleu",
    "BLEU variant for the table, one of --scores of t2t-evaluate. The paper reports"
    " bleu_moses_split.",
)
_RESULTS = "variations.json"
_VOCABULARY = ("subword", "vocab_size")
"""Values of a preset that are flags of t2t-prepare, not of t2t-train."""
_LOGGING_FLAGS = ("log_format", "report_seconds", "verbosity")
"""Flags of t2t-train that affect only its messages, not the trained model."""


def main(arguments: list[str]) -> int:
    """Runs the stage.

    Args:
        arguments: Flags of t2t-train for all rows.

    Returns:
        The exit status.
    """
    from t2t_keras.data.prepared_data import PreparedData
    from t2t_keras.evaluation.bleu import check_score_names
    from t2t_keras.evaluation.bleu_tokenizers import choose_tokenizer
    from t2t_keras.files import directory_at, locked, write_atomically

    standard_streams.check_output("-")
    rows, base = _rows(), preset_flag.chosen_preset()
    _check_arguments(arguments)
    check_score_names([FLAGS.row_score])
    _check_rows(rows, base)
    manifest = PreparedData(FLAGS.data_dir).manifest
    tokenizer, note = choose_tokenizer(manifest["target_lang"], FLAGS.bleu_tokenizer)
    if note:
        stage.report(note)
    directory = directory_at(FLAGS.output_dir)
    path = directory / _RESULTS
    record = _record(path, manifest)
    results = record["rows"]
    wanted: dict[str, dict[str, Any]] = {
        row: {
            "values": _recorded(vary(base, row)),
            "arguments": [a for a in arguments if _name(a) not in _LOGGING_FLAGS],
            # Records written before --bleu_tokenizer existed used 13a.
            "score": FLAGS.row_score + ("" if tokenizer == "13a" else f" {tokenizer}"),
        }
        for row in VARIATIONS
    }
    for number, row in enumerate(rows, 1):
        if results.get(row, {}).get("wanted") == wanted[row]:
            stage.report(f"Row {row} is already trained.")
            continue
        stage.report(f"\nRow {number} of {len(rows)}: {row}")
        values = wanted[row]["values"]
        if status := _train(directory / row, values, arguments, tokenizer):
            stage.report(f"t2t-variations stopped at row {row}.")
            if status != EXIT_USAGE:
                stage.report(f"The same command line resumes at row {row}.")
            elif (directory / row).exists():
                stage.report(
                    f"{directory} keeps the rows that are trained. For other flags, "
                    "choose another --output_dir."
                )
            return status
        result = {"wanted": wanted[row], **_result(directory / row)}
        taken = f"Another t2t-variations is writing {path}. Run the same command again."
        with locked(directory / "lock", taken):
            # Other processes may have added rows since.
            record = _record(path, manifest)
            results = record["rows"]
            results[row] = result
            write_atomically(path, json.dumps(record, indent=2).encode())
            _write_table(directory, results, wanted)
    others = [r for r in wanted if r in results and results[r]["wanted"] != wanted[r]]
    if others:
        stage.report(
            f"Rows trained with other flags are not in the table: {', '.join(others)}"
        )
    sys.stdout.write(_write_table(directory, results, wanted))
    return 0


def _write_table(
    directory: Path, results: dict[str, Any], wanted: dict[str, dict[str, Any]]
) -> str:
    from t2t_keras.analysis.variations_table import variations_table
    from t2t_keras.files import write_atomically

    current = [r for r in VARIATIONS if results.get(r, {}).get("wanted") == wanted[r]]
    table = variations_table({row: results[row] for row in current}, FLAGS.row_score)
    write_atomically(directory / "variations.md", table.encode())
    return table


def _recorded(row: Preset) -> dict[str, Any]:
    """Returns the values that define a row, for its record."""
    names = (*_VOCABULARY, *hyperparameters.MODEL, *hyperparameters.TRAINING)
    values = row.values()
    return {name: values[name] for name in names}


def _name(argument: str) -> str:
    """Returns the name of the flag in an argument such as --name=value."""
    return argument.lstrip("-").split("=")[0]


def _check_rows(rows: list[str], base: Preset) -> None:
    """Raises an error for invalid rows before any row is trained."""
    for row in rows:
        try:
            vary(base, row)
        except UserError as error:
            raise UserError(f"Row {row} cannot be trained. {error}") from error


def _check_arguments(arguments: list[str]) -> None:
    """Checks that no flag of t2t-train overrides the values of the rows."""
    names = {_name(a) for a in arguments if a.startswith("-")}
    reserved = {*TransformerConfig.flag_names()} - {"seed"}
    reserved |= {
        name
        for name in hyperparameters.TRAINING
        if hyperparameters.set_by_presets(name) or FLAGS[name].present
    }
    reserved |= {"data_dir", "model_dir", "preset", "bleu_tokenizer"}
    reserved |= {"subword", "vocab_size"}
    for name in sorted(names):
        if name in reserved or name.removeprefix("no") in reserved:
            raise UserError(
                f"--{name} is not allowed after --, where it would override the values "
                "of the rows. If t2t-variations has this flag, give it before --."
            )


def _record(path: Path, manifest: dict[str, Any]) -> dict[str, Any]:
    """Returns the results so far, all of them for the same data."""
    if "dev" not in manifest["splits"]:
        raise UserError(
            f"{FLAGS.data_dir} has no dev split, which Table 3 needs. Prepare the data "
            "with one."
        )
    data = {name: manifest[name] for name in ("vocabulary_fingerprint", "splits")}
    if not path.is_file():
        return {"data": data, "rows": {}}
    record = read_object(path, ["data", "rows"], "Choose another --output_dir.")
    if record["data"] != data:
        raise UserError(
            f"{path.parent} holds rows trained on other data than {FLAGS.data_dir}. "
            "Choose another --output_dir."
        )
    for row in record["rows"].values():
        # Hyper-parameters added after the record was written had their defaults.
        row["wanted"]["values"] = {
            **_recorded(PRESETS["base"]),
            **row["wanted"]["values"],
        }
    return record


def _rows() -> list[str]:
    """Returns the names of the rows to train, in the paper's order."""
    groups = {variation.group for variation in VARIATIONS.values()}
    for name in FLAGS.rows:
        if name not in groups and name not in VARIATIONS:
            raise UserError(
                f"--rows must be {', '.join(sorted(groups))} or names of rows "
                f"({', '.join(VARIATIONS)}). Received: {name!r}"
            )
    return [
        row
        for row, variation in VARIATIONS.items()
        if row in FLAGS.rows or variation.group in FLAGS.rows
    ]


def _train(
    model_dir: Path, values: dict[str, Any], arguments: list[str], tokenizer: str
) -> int:
    """Trains and scores a row. Returns the exit status."""
    of_preset = _recorded(PRESETS[FLAGS.preset])
    given = {
        name: value
        for name, value in values.items()
        if name not in _VOCABULARY
        and (value != of_preset[name] or FLAGS[name].value is not None)
    }
    limits = ("train_minutes", "train_epochs", "train_tokens")
    if FLAGS.train_steps is None and any(
        a.lstrip("-").startswith(limits) for a in arguments
    ):
        # Another limit replaces the number of steps of the preset.
        given.pop("train_steps", None)
    train = [f"--data_dir={FLAGS.data_dir}", f"--preset={FLAGS.preset}"]
    train += [f"--{name}={value}" for name, value in given.items()]
    # The checkpoints of Table 3 are not averaged (section 6.2).
    evaluate = ["--split=dev", "--checkpoint=latest", f"--scores={FLAGS.row_score}"]
    both = [f"--model_dir={model_dir}", f"--bleu_tokenizer={tokenizer}"]
    for name, command in (
        ("train", [*both, *train, *arguments]),
        ("evaluate", [*both, *evaluate]),
    ):
        print(f"$ t2t-{name} {shlex.join(command)}", file=sys.stderr)
        if status := child_process.run(name, *command):
            return status
    return 0


def _result(model_dir: Path) -> dict[str, Any]:
    from t2t_keras.analysis.flops import count_parameters
    from t2t_keras.model_dir import ModelDir

    found = ModelDir(model_dir)
    scores = json.loads((model_dir / "scores.dev.json").read_text())
    return {
        "parameters": count_parameters(found.transformer_config),
        "steps": found.checkpoints.steps()[-1],
        "perplexity": scores["perplexity"]["per_token"],
        "bleu": scores["scores"][0]["value"],
        "signature": scores["scores"][0]["signature"],
    }


def run() -> None:
    """Console entry point."""
    shared: list[stage.SharedFlags] = [
        paths.DATA_DIR,
        paths.OUTPUT_DIR,
        preset_flag,
        hyperparameters,
        score_flags,
    ]
    required = ["data_dir", "output_dir"]
    stage.run(main, __name__, shared, required, takes_arguments=True)


if __name__ == "__main__":
    run()
