"""Parses English sentences into constituency trees, and scores parses (section 6.3).

t2t-parse --model_dir=DIR --input=SENTENCES --output=TREES
t2t-parse --model_dir=DIR --trees=FILE
t2t-parse --parsed=FILE --trees=FILE

The model must have been trained on --corpus=treebank. By default the search options are
the paper's: 21 beams, length penalty 0.3, 300 extra tokens. The result is the most
probable hypothesis that is a valid tree over the sentence. If there is none, the most
probable hypothesis is repaired.

Part-of-speech tags in the output are XX, or those that the model predicts if its data
was prepared with --tree_tags. With --trees, they are copied from the gold trees, and
the output is MODEL_DIR/parsed.NAME.trees unless --output is given.
"""

import itertools
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from absl import flags

from t2t_keras.errors import UserError
from t2t_keras.flags import decoding, paths, speed, text_files
from t2t_keras.pipelines import stage
from t2t_keras.pipelines.command_line import standard_streams
from t2t_keras.pipelines.command_line.outcomes import Outcomes
from t2t_keras.pipelines.command_line.translator_setup import (
    describe_run,
    open_with_flags,
)
from t2t_keras.plurals import counted

if TYPE_CHECKING:
    from t2t_keras.data.trees import Tree
    from t2t_keras.decoding.translator import Translator
    from t2t_keras.model_dir import OpenTranslator

FLAGS = flags.FLAGS

flags.DEFINE_list(
    "trees",
    [],
    "Files or folders of gold trees, comma-separated. Their sentences are parsed, "
    "and the parses are scored.",
)
flags.DEFINE_string(
    "parsed",
    None,
    "File of parsed trees to score instead of running a model. Default: run the model.",
)

_SEARCH = {"beam_size": 21, "length_penalty": 0.3, "max_extra_length": 300}
_ESCAPES = str.maketrans({"(": "-LRB-", ")": "-RRB-"})
_WINDOW = 256


def main() -> int:
    """Runs the stage.

    Returns:
        The exit status.
    """
    from t2t_keras.data.linearized_trees import build_tree
    from t2t_keras.data.trees import read_trees, retag, simplify, tree_files
    from t2t_keras.evaluation.parseval import score_brackets
    from t2t_keras.files import write_atomically

    if not (FLAGS.trees if FLAGS.parsed else FLAGS.model_dir):
        raise UserError("Give either --model_dir, or --parsed and --trees.")
    if FLAGS.trees and FLAGS["input"].present:
        raise UserError(
            "Give either --input or --trees: with --trees, the sentences of the gold "
            "trees are parsed."
        )

    def trees_of(paths: Sequence[str]) -> list["Tree"]:
        files = tree_files(paths)
        trees = map(simplify, itertools.chain.from_iterable(map(read_trees, files)))
        found = [tree for tree in trees if tree is not None]
        if not found:
            raise UserError(f"No tree with words found in {', '.join(paths)}.")
        return found

    if not FLAGS.trees:
        is_interactive = standard_streams.is_interactive(FLAGS.input)
        with standard_streams.open_output(FLAGS.output) as output:
            translator = _open_parser().translator
            outcomes = _outcomes(translator)
            lines = standard_streams.input_lines(FLAGS.input)
            for tree in _parse(translator, lines, outcomes, not is_interactive):
                output.write(f"(TOP {tree})\n".encode() if tree else b"\n")
                output.flush()
        return outcomes.report()
    standard_streams.check_output("-")
    gold = trees_of(FLAGS.trees)
    if FLAGS.parsed:
        print(score_brackets(gold, trees_of([FLAGS.parsed])))
        return 0
    name = Path(FLAGS.trees[0]).resolve().name.partition(".")[0]
    directory = Path(FLAGS.model_dir)
    path = f"{directory}/parsed.{name}.trees" if FLAGS.output == "-" else FLAGS.output
    record_path = f"{directory}/scores.parsed.{name}.json"
    for output_path in (path, record_path):
        standard_streams.check_output(output_path)
    opened = _open_parser()
    translator = opened.translator
    sentences = (" ".join(tree.words()) for tree in gold)
    outcomes = _outcomes(translator)
    parsed: list[Tree] = []
    for tree, of_gold in zip(
        _parse(translator, sentences, outcomes), gold, strict=True
    ):
        # A sentence that was not parsed gets a tree without brackets.
        tree = tree or build_tree(of_gold.words(), "")[0]
        # evalb recognizes punctuation by the gold tags.
        parsed.append(retag(tree, of_gold))
        if not len(parsed) % _WINDOW:
            stage.report(f"{len(parsed):,} of {len(gold):,} sentences")
    with standard_streams.open_output(path) as output:
        output.writelines(f"(TOP {tree})\n".encode() for tree in parsed)
    stage.report(f"Wrote the trees: {path}")
    score = score_brackets(gold, parsed)
    print(score)
    record = {
        **describe_run(opened),
        "score": {
            **score._asdict(),
            "precision": score.precision,
            "recall": score.recall,
            "f1": score.f1,
        },
        "statuses": outcomes.counts,
    }
    write_atomically(record_path, json.dumps(record, indent=2).encode())
    return outcomes.report()


def _open_parser() -> "OpenTranslator":
    """Opens a model trained on a treebank, as set by flags."""
    from t2t_keras.model_dir import ModelDir

    model_dir = ModelDir(FLAGS.model_dir)
    corpus = model_dir.config["data"]["corpus"]
    if corpus != "treebank":
        raise UserError(
            f"{FLAGS.model_dir} is not a parser: it was trained on --corpus={corpus}, "
            "not on --corpus=treebank. Use t2t-translate."
        )
    return open_with_flags(model_dir, FLAGS.beam_size, _SEARCH)


def _outcomes(translator: "Translator") -> Outcomes:
    max_length = f"{translator.max_input_tokens:,} tokens"
    return Outcomes(standard_streams.input_name(FLAGS.input), "parsed", max_length)


def _parse(
    translator: "Translator",
    lines: Iterable[str],
    outcomes: Outcomes,
    wait: bool = True,
) -> Iterator["Tree | None"]:
    """Yields the tree of each line, or None if it is empty or cannot be parsed."""
    from t2t_keras.data.linearized_trees import choose_tree
    from t2t_keras.decoding.input_windows import windows
    from t2t_keras.decoding.translation_status import OK, TOO_LONG

    repaired = 0
    for window in windows(iter(lines), _WINDOW, wait):
        sentences = [line.translate(_ESCAPES).split() for line in window]
        for words, found in zip(
            sentences, translator.translate(map(" ".join, sentences)), strict=True
        ):
            status = found[0].status
            outcomes.add([status])
            if status not in (OK, TOO_LONG):
                yield None
                continue
            tree, is_whole = choose_tree(words, [one.text for one in found])
            repaired += not is_whole
            yield tree
    if repaired:
        trees = counted(repaired, "tree was", "trees were")
        stage.report(f"{trees} malformed and had to be repaired.")


def run() -> None:
    """Console entry point."""
    for name, value in _SEARCH.items():
        FLAGS.set_default(name, value)
    shared: list[stage.SharedFlags] = [paths.MODEL_DIR, text_files, decoding, speed]
    stage.run(main, __name__, shared, process="decoding")


if __name__ == "__main__":
    run()
