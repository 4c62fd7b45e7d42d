"""Tests of single filters, on pairs that each filter should keep or reject."""

# ruff: noqa: RUF001 (text in several scripts)

import sys

import numpy as np
import pytest

from t2t_keras.config.filter_settings import TEXT_FILTERS, FilterSettings
from t2t_keras.data.filters import make_filters

LINE = "A house stands at the end of the road."
SATZ = "Am Ende der Straße steht ein Haus."


def keeps(name, source, target, languages=("en", "de"), **settings):
    (created,) = make_filters([name], FilterSettings(**settings), *languages)
    (alone,) = created.keep([source], [target])
    # The result does not depend on the other pairs of the chunk.
    chunk = ["", LINE, source, "x " * 500, ""], ["", SATZ, target, "", "日本 😀"]
    assert created.keep(*chunk)[2] == alone
    return bool(alone)


@pytest.mark.parametrize(
    ("source", "target", "kept"),
    [
        (LINE, SATZ, True),
        ("", SATZ, False),
        (LINE, "", False),
        (LINE, " \t\u3000\u2028", False),
        ("", "", False),
        (".", ".", True),
    ],
)
def test_empty_rejects_sides_without_visible_characters(source, target, kept):
    assert keeps("empty", source, target) == kept


@pytest.mark.parametrize(
    ("target", "kept"),
    [
        (LINE, False),
        (f"  {LINE.upper()} ", False),
        (LINE.replace(" ", "\u00a0 "), False),
        (SATZ, True),
        (LINE + "!", True),
    ],
)
def test_identical_ignores_case_and_white_space(target, kept):
    assert keeps("identical", LINE, target) == kept


def test_identical_folds_case_beyond_ascii():
    assert not keeps("identical", "STRASSE", "Straße")


@pytest.mark.parametrize(
    ("source", "settings", "kept"),
    [
        ("one two three", {"max_words": 3}, True),
        ("one two three", {"max_words": 2}, False),
        (" one  two ", {"max_words": 2}, True),
        ("one", {"min_words": 2}, False),
        ("one two", {"min_words": 2}, True),
        ("12345", {"max_chars": 5}, True),
        ("123456", {"max_chars": 5}, False),
        ("1234", {"min_chars": 5}, False),
        ("", {"min_words": 0, "min_chars": 0}, True),
        ("", {}, False),
        ("字" * 15, {"max_words": 10}, True),  # 1.5 characters make a word.
        ("字" * 16, {"max_words": 10}, False),
        ("ก" * 50, {"max_words": 10}, True),  # 5 characters make a word.
        ("ก" * 51, {"max_words": 10}, False),
        ("我在2010年用Python。", {"max_words": 5}, True),  # 我在 2010 年用 Python
        ("x" * 100_000, {}, False),
    ],
)
def test_length_limits_words_and_characters_of_both_sides(source, settings, kept):
    other = "x" * settings.get("min_chars", 1) + " x" * settings.get("min_words", 1)
    settings = {"min_words": 0, "min_chars": 0, **settings} if settings else {}
    if "max_words" in settings or "max_chars" in settings:
        other = "x"
    assert keeps("length", source, other, **settings) == kept
    assert keeps("length", other, source, **settings) == kept


@pytest.mark.parametrize(
    ("source", "target", "kept"),
    [
        (LINE, SATZ, True),
        ("Yes.", "Das ist in Ordnung.", True),
        ("x", "one two three four five six seven", True),  # 10 / 4
        ("x", "one two three four five six seven eight nine ten", False),  # 13 / 4
        (LINE, LINE * 4, False),
        ("Supercalifragilisticexpialidocious words", "ab", False),
        # Wide characters count twice in characters; Chinese has fewer of them.
        ("The weather in Beijing is very nice today.", "北京今天天气很好。", True),
        ("The weather in Bangkok is very nice today.", "วันนี้อากาศที่กรุงเทพดีมาก", True),
        ("The weather in Beijing is very nice today.", "天", False),
    ],
)
def test_length_ratio_compares_sides_in_words_and_characters(source, target, kept):
    assert keeps("length_ratio", source, target) == kept
    assert keeps("length_ratio", target, source) == kept


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("x" * 40, True),
        (f"a {'x' * 41} b", False),
        ("字" * 500, True),
        ("カタカナーの" * 50, True),
        ("ภาษาไทย" * 50, True),
        (f"字{'x' * 41}字", False),
        ("", True),
    ],
)
def test_long_word_ignores_scripts_without_spaces(text, kept):
    assert keeps("long_word", text, "x") == kept
    assert keeps("long_word", "x", text) == kept


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("a < b and c > d", True),
        ("I <3 you & me", True),
        ("R&D; AT&T", True),
        ("<b>bold</b>", False),
        ("line<br/>break", False),
        ('<a href="x" class=y>', False),
        ("</div >", False),
        ("<!-- hidden", False),
        ("tile &amp; stone", False),
        ("&#8217;s", False),
        ("&#x27;s", False),
        ("<" * 100_000, True),
        ("<a " * 30_000, True),
    ],
)
def test_html_tag_rejects_tags_and_character_references(text, kept):
    assert keeps("html_tag", text, "x") == kept
    assert keeps("html_tag", "x", text) == kept


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("See https://example.org/a for the whole story of this house.", True),
        ("See https://example.org/a/very/long/path?with=parameters", False),
        ("www.example.org", False),
        ("someone@example.org", False),
        ("Write to someone@example.org if anything is unclear.", True),
        ("@" * 100_000, True),
        ("a@" * 50_000, True),
        ("a." * 50_000 + "@", True),
        ("", True),
    ],
)
def test_url_rejects_text_that_is_mostly_addresses(text, kept):
    assert keeps("url", text, "x") == kept


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        (LINE, True),
        ("हिन्दी में लिखा है", True),
        ("2010", False),
        ("😀😀😀", False),
        ("- - - - a", False),
        ("10 km", True),
        ("12:30 Uhr", False),
        ("", True),
    ],
)
def test_alphabet_ratio_rejects_text_with_few_letters(text, kept):
    assert keeps("alphabet_ratio", text, "x") == kept
    assert keeps("alphabet_ratio", "x", text) == kept


@pytest.mark.parametrize(
    ("language", "text", "kept"),
    [
        ("de", SATZ, True),
        ("de", "Дом стоит в конце дороги.", False),
        ("ru", "Дом стоит в конце дороги.", True),
        ("ru", LINE, False),
        ("ru", "Microsoft Word 2010 открыт.", False),
        ("ru", "Программа Word открыта сейчас.", True),
        ("sr", "Кућа је на крају пута.", True),
        ("sr", "Kuća je na kraju puta.", True),
        ("sr-Latn", "Кућа је на крају пута.", False),
        ("sr_Cyrl_RS", "Kuća je na kraju puta.", False),
        ("ja", "道の終わりにコーヒーハウスがある。", True),
        ("ja", "집이 있다", False),
        ("ko", "집이 있다", True),
        ("zh", "站点 Django 已存在", True),
        ("zh", "Microsoft Windows 操作系统", False),
        ("zh-Hant", "路的盡頭有一棟房子。", True),
        ("zho", "路的尽头有一栋房子。", True),
        ("zh", "コーヒー", False),
        ("hi", "सड़क के अंत में एक घर है।", True),
        ("eng", LINE, True),
        ("de", "2010 😀 ...", True),
        ("de", "", True),
    ],
)
def test_character_score_expects_the_scripts_of_the_language(language, text, kept):
    assert keeps("character_score", text, "x", (language, "en")) == kept
    assert keeps("character_score", "x", text, ("en", language)) == kept


@pytest.mark.parametrize(
    ("source", "target", "kept"),
    [
        ("In 2010 there were 35 of them.", "2010 gab es 35 davon.", True),
        ("In 2010 there were 35 of them.", "Damals gab es welche.", False),
        ("12/31/1999", "31.12.1999", True),
        ("2 cats", "zwei Katzen", True),
        ("12 cats", "zwölf Katzen", True),
        ("312 cats", "viele Katzen", False),
        ("1,000", "1.000,00", True),
        ("سنة ١٩٩٩", "1999", True),
        ("1999", "1833", False),
        ("", "", True),
    ],
)
def test_non_zero_numerals_compares_digits(source, target, kept):
    assert keeps("non_zero_numerals", source, target) == kept
    assert keeps("non_zero_numerals", target, source) == kept


@pytest.mark.parametrize(
    ("source", "target", "kept"),
    [
        (LINE, SATZ, True),
        (LINE, SATZ[:-1], True),
        ("Well...", "Na ja…", True),
        ("Really?!", "本当か？！", True),
        ("Introduction ........ 3", "Einleitung", False),
        ("A. B. C. D. E.", "Etwas", False),
    ],
)
def test_terminal_punctuation_compares_numbers_of_marks(source, target, kept):
    assert keeps("terminal_punctuation", source, target) == kept
    assert keeps("terminal_punctuation", target, source) == kept


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("very very very good", True),
        ("very very very very good", False),
        ("a b " * 3, True),
        ("a b " * 4, False),
        (" x " + "one two three four five six seven eight nine ten " * 4, False),
        ("a b a c a b a c a b a c", True),
        ("哈哈哈", True),
        ("哈哈哈哈", False),
        ("buy now ！ " * 4, False),
        ("ab abab ababab", True),
        ("a" * 100, True),
        ("a", True),
        ("", True),
    ],
)
def test_repetition_rejects_phrases_repeated_in_a_row(text, kept):
    assert keeps("repetition", text, "x") == kept
    assert keeps("repetition", "x", text) == kept


def test_repetition_does_not_continue_in_the_next_sentence():
    (created,) = make_filters(["repetition"], FilterSettings(), "en", "de")
    assert created.keep(["a a", "a a", "a"], ["x"] * 3).all()


@pytest.mark.parametrize("name", [n for n in TEXT_FILTERS if n != "language_id"])
def test_filters_accept_chunks_of_any_text(name):
    (created,) = make_filters([name], FilterSettings(), "en", "ja")
    strange = ["", "\0", "😀👩‍👩‍👧", "١٢٣", "\U0010ffff", "x" * 100_000, " \u2028 "]
    assert created.keep([], []).shape == (0,)
    for chunk in (strange, [""], ["", ""], [" "]):
        keep = created.keep(chunk, chunk[::-1])
        assert (keep.shape, keep.dtype) == ((len(chunk),), bool)
    with pytest.raises(ValueError, match=f"{name}: 2 sources, but 1 targets"):
        created.keep(["a", "b"], ["c"])


def test_language_id_rejects_other_languages():
    pytest.importorskip("py3langid")
    (created,) = make_filters(["language_id"], FilterSettings(), "en", "deu")
    pairs = [
        (LINE, SATZ, True),
        (LINE, "Une maison se trouve au bout de la route.", False),
        (SATZ, LINE, False),
        (LINE.upper(), SATZ.upper(), True),
        ("2010", "😀", True),
        ("", "", True),
    ]
    sources, targets, expected = zip(*pairs, strict=True)
    np.testing.assert_array_equal(created.keep(sources, targets), expected)


def test_language_id_keeps_short_text_that_is_improbable_in_every_language():
    pytest.importorskip("py3langid")
    assert keeps("language_id", LINE, "Danke", min_language_confidence=0.5)


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("nb", "Huset står i enden av veien, og det er rødt."),
        ("zh-TW", "路的盡頭有一棟紅色的房子。"),
        ("hr", "Na kraju ceste stoji crvena kuća."),
        ("pt_BR", "No fim da rua há uma casa vermelha."),
    ],
)
def test_language_id_knows_codes_of_locales_and_variants(language, text):
    pytest.importorskip("py3langid")
    assert keeps("language_id", LINE, text, ("en", language))
    assert not keeps("language_id", LINE, LINE, ("en", language))


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
