"""Scores agree with sacreBLEU's own command and refuse unequal files."""

import subprocess
import sys

import pytest

from t2t_keras.evaluation.bleu import corpus_bleu, score_translations

HYPOTHESES = ["the cat sat on the mat .", "there is a dog", "we go home now"]
REFERENCES = ["the cat sat on a mat .", "there is a big dog", "we are going home now"]


def test_scores_are_those_of_the_sacrebleu_command(tmp_path):
    (tmp_path / "hypotheses").write_text("\n".join(HYPOTHESES) + "\n")
    (tmp_path / "references").write_text("\n".join(REFERENCES) + "\n")
    command = [sys.executable, "-m", "sacrebleu", str(tmp_path / "references")]
    command += [
        "-i",
        str(tmp_path / "hypotheses"),
        "-m",
        "bleu",
        "chrf",
        "-b",
        "-w",
        "6",
    ]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    expected = [
        float(x)
        for x in printed.replace("[", "").replace("]", "").replace(",", " ").split()
    ]
    bleu, chrf = score_translations(HYPOTHESES, REFERENCES)
    assert [bleu.value, chrf.value] == pytest.approx(expected, abs=1e-5)
    assert "tok:13a" in bleu.signature
    assert "nc:6" in chrf.signature
    assert str(bleu).startswith(f"BLEU {bleu.value:.2f}  (nrefs:1|case:mixed")


def test_equal_texts_score_100():
    assert corpus_bleu(REFERENCES, REFERENCES) == pytest.approx(100)


def test_unequal_numbers_are_refused():
    with pytest.raises(ValueError, match="2 hypotheses and 3 references"):
        corpus_bleu(HYPOTHESES[:2], REFERENCES)
    with pytest.raises(ValueError, match="at least one"):
        corpus_bleu([], [])


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
