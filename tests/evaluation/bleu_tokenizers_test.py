"""Tests of the choice of BLEU's tokenizer by target language."""

import sys

import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.tokenizers import tokenizer_ja_mecab, tokenizer_ko_mecab

from t2t_keras.evaluation import bleu_tokenizers
from t2t_keras.evaluation.bleu import compare_translations, score_translations
from t2t_keras.evaluation.bleu_tokenizers import choose_tokenizer

# Hypotheses and references that differ by one or two characters.
NEARLY_EQUAL = {
    "zh": (
        ["我今天去学校了。", "他喜欢吃苹果和香蕉。"],
        ["我今天去学校了。", "他喜欢吃苹果与香蕉。"],
    ),
    "ja": (
        ["私は今日学校へ行きます。", "それはとてもいい本です。"],
        ["私は今日学校に行きます。", "それはとてもいい本です。"],
    ),
    "ko": (
        ["나는 오늘 학교에 간다.", "그는 사과를 좋아한다."],
        ["나는 오늘 학교로 간다.", "그는 사과를 좋아한다."],
    ),
    "th": (
        ["ฉันไปโรงเรียนวันนี้แล้ว", "เขาชอบกินกล้วยมาก"],
        ["ฉันไปโรงเรียนวันนี้แล้ว", "เขาชอบกินกล้วย"],
    ),
}


@pytest.fixture
def all_installed(monkeypatch):
    monkeypatch.setattr(bleu_tokenizers, "_load_error", lambda tokenizer: "")
    monkeypatch.setattr(bleu_tokenizers, "_is_downloaded", lambda tokenizer: True)


@pytest.fixture
def none_installed(monkeypatch, tmp_path):
    monkeypatch.setattr(tokenizer_ja_mecab, "MeCab", None)
    monkeypatch.setattr(tokenizer_ko_mecab, "MeCab", None)
    monkeypatch.setattr(bleu_tokenizers, "SACREBLEU_DIR", str(tmp_path))


@pytest.mark.usefixtures("all_installed")
@pytest.mark.parametrize(
    ("tokenizer", "codes"),
    [
        ("zh", "zh zh-CN zh_TW ZH zh_cn.UTF-8 zho zho_Hans chi cmn yue_Hant und-Hant"),
        ("ja-mecab", "ja jpn ja_JP jpn_Jpan JA"),
        ("ko-mecab", "ko kor ko-KR kor_Hang"),
        ("flores200", "th tha th_TH lo khm_Khmr my mya_Mymr bo dz"),
        ("13a", "en de fr trees vi zh_Latn sr-Latn ru_Cyrl ace_Arab kr"),
    ],
)
def test_language_codes_map_to_their_tokenizers(tokenizer, codes):
    chosen = {code: choose_tokenizer(code) for code in codes.split()}
    assert chosen == dict.fromkeys(chosen, (tokenizer, ""))


def test_chinese_score_matches_sacrebleu():
    hypotheses, references = NEARLY_EQUAL["zh"]
    scores = score_translations(hypotheses, references, ["bleu", "bleu_lc"], "zho_Hans")
    for score, lowercase in zip(scores, (False, True), strict=True):
        theirs = BLEU(trg_lang="zh", lowercase=lowercase)
        expected = theirs.corpus_score(hypotheses, [references])
        assert score.value == pytest.approx(expected.score)
        assert score.signature == theirs.get_signature().format()
        assert "|tok:zh|" in score.signature
    [compared] = compare_translations(
        hypotheses, references, references, ["bleu"], "zh", samples=10
    )
    assert compared.value == pytest.approx(scores[0].value)
    assert "|tok:zh|" in compared.signature


@pytest.mark.usefixtures("none_installed")
@pytest.mark.parametrize("lang", NEARLY_EQUAL)
def test_nearly_equal_lines_score_high_without_optional_packages(lang):
    hypotheses, references = NEARLY_EQUAL[lang]
    [score] = score_translations(hypotheses, references, ["bleu"], lang)
    assert score.value > 60
    assert f"|tok:{'zh' if lang == 'zh' else 'char'}|" in score.signature


@pytest.mark.usefixtures("none_installed")
@pytest.mark.parametrize(
    ("lang", "best", "remedy"),
    [
        ("ja", "ja-mecab", 'pip install "sacrebleu[ja]"'),
        ("ko", "ko-mecab", 'pip install "sacrebleu[ko]"'),
        ("th", "flores200", "--bleu_tokenizer=flores200 downloads it."),
    ],
)
def test_fallback_note_names_the_package_to_install(lang, best, remedy):
    chosen = choose_tokenizer(lang)
    assert chosen.name == "char"
    assert f"not over the words of {best}: " in chosen.note
    assert chosen.note.endswith(remedy)
    assert "\n" not in chosen.note


@pytest.mark.usefixtures("none_installed")
def test_tokenizer_given_by_name_is_used_or_rejected():
    assert choose_tokenizer("zh", "char") == ("char", "")
    assert choose_tokenizer("de", "zh") == ("zh", "")
    with pytest.raises(ValueError, match=r"ja-mecab cannot be used: .*sacrebleu\[ja\]"):
        choose_tokenizer("ja", "ja-mecab")
    with pytest.raises(ValueError, match=r"auto, none, zh, 13a.* Received: 'mecab'"):
        choose_tokenizer("ja", "mecab")


def test_text_without_spaces_causes_a_warning_for_13a():
    chinese = NEARLY_EQUAL["zh"][1]
    assert "meaningless" in choose_tokenizer("de", references=chinese).note
    assert "meaningless" in choose_tokenizer("zh", "13a", chinese).note
    assert not choose_tokenizer("zh", references=chinese).note
    quoted = ["The sign 学校 says school.", "12 %", ""]
    assert not choose_tokenizer("de", references=quoted).note
    assert not choose_tokenizer("de", references=NEARLY_EQUAL["ko"][1]).note


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
