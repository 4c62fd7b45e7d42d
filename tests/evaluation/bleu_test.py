"""Tests of translation scores against the sacreBLEU command."""

import json
import re
import subprocess
import sys

import pytest

from t2t_keras.evaluation.bleu import (
    SCORES,
    compare_translations,
    corpus_bleu,
    score_translations,
)

HYPOTHESES = ["the Cat sat on the mat .", "there is a dog", "we go home now"]
REFERENCES = ["the cat sat on a mat .", "there is a big dog", "we are going home now"]


def sacrebleu(tmp_path, *arguments):
    """Returns the output of the sacreBLEU command for a metric."""
    (tmp_path / "hypotheses").write_text("\n".join(HYPOTHESES) + "\n")
    (tmp_path / "references").write_text("\n".join(REFERENCES) + "\n")
    command = [sys.executable, "-m", "sacrebleu", str(tmp_path / "references")]
    command += ["-i", str(tmp_path / "hypotheses"), "-w", "6", *arguments]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return json.loads(printed)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("bleu", []),
        ("bleu_lc", ["-lc"]),
        ("bleu_intl", ["-tok", "intl"]),
        ("bleu_intl_lc", ["-tok", "intl", "-lc"]),
        ("bleu_none", ["-tok", "none", "--force"]),
        ("chrf", ["-m", "chrf"]),
        ("ter", ["-m", "ter"]),
    ],
)
def test_scores_match_the_sacrebleu_command(tmp_path, name, arguments):
    expected = sacrebleu(tmp_path, *arguments)
    [score] = score_translations(HYPOTHESES, REFERENCES, [name])
    assert score.value == pytest.approx(expected["score"], abs=1e-5)
    assert score.signature == expected["signature"]
    shown = f"{name} {score.value:.2f}  ({score.signature})"
    if name.startswith("bleu"):
        lengths = re.search(
            r"BP = (.*?) .*hyp_len = (\d+) ref_len = (\d+)", expected["verbose_score"]
        )
        shown += "  {1} tokens for {2}, brevity {0}".format(*lengths.groups())
    assert str(score) == shown


def test_tokenized_bleu_matches_text_tokenized_by_moses():
    hypotheses = ["Der Rot-Kreuz-Helfer (Ulm) kam, z.B. heute."]
    references = ["Der Rot-Kreuz-Mann (Ulm) kam, z.B. gestern."]
    split = [
        "Der Rot-Kreuz-{} ( Ulm ) kam , z.B. {} .".format(*words)
        for words in (("Helfer", "heute"), ("Mann", "gestern"))
    ]
    compounds = [text.replace("-", " ##AT##-##AT## ") for text in split]
    for name, (hypothesis, reference) in (
        ("bleu_moses", split),
        ("bleu_moses_split", compounds),
    ):
        [score] = score_translations(hypotheses, references, [name], "de")
        [expected] = score_translations([hypothesis], [reference], ["bleu_none"])
        assert score.value == pytest.approx(expected.value)
        assert "tok:unicode-punct+moses" in score.signature
        assert "-de-" in score.signature


def test_p_value_separates_real_from_random_differences():
    texts = [f"a line with the number {n} and {n + 1} in it" for n in range(60)]

    def worse(share, first):
        changed = range(first, len(texts), share)
        return [
            t.replace("line", "row") if n in changed else t for n, t in enumerate(texts)
        ]

    for found in compare_translations(texts, worse(2, 0), texts, SCORES, samples=100):
        assert found.value != found.baseline
        assert found.p_value < 0.05
    alike = compare_translations(worse(3, 1), worse(3, 2), texts, ["bleu"], samples=100)
    assert alike[0].p_value > 0.3
    assert "bs:100" in alike[0].signature
    for found in compare_translations(texts, texts, texts, SCORES, samples=100):
        assert found.p_value == 1


def test_equal_texts_score_100():
    assert corpus_bleu(REFERENCES, REFERENCES) == pytest.approx(100)


def test_unequal_lengths_and_unknown_scores_are_rejected():
    with pytest.raises(ValueError, match="2 hypotheses and 3 references"):
        corpus_bleu(HYPOTHESES[:2], REFERENCES)
    with pytest.raises(ValueError, match="at least one"):
        corpus_bleu([], [])
    with pytest.raises(ValueError, match="Received: blue"):
        score_translations(HYPOTHESES, REFERENCES, ["bleu", "blue"])


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
