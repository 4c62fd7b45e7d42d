"""Tests of the embedded CLDR corpus."""

import hashlib
import inspect
import itertools
import os
import re
import subprocess
import sys

import pytest

from t2t_keras.data import cldr, cldr_sentences
from t2t_keras.data.corpus_catalog import open_cldr, open_corpus

TRAIN_PAIRS = 2_000


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    return str(tmp_path_factory.mktemp("tfds"))


@pytest.fixture(scope="module", params=["de", "fr"])
def splits(request, data_dir):
    corpus = open_corpus(
        "cldr", "en", request.param, tfds_data_dir=data_dir, cldr_pairs=TRAIN_PAIRS
    )
    assert (corpus.name, corpus.source_lang) == ("cldr", "en")
    assert corpus.target_lang == request.param
    return request.param, {split: list(corpus.read(split)) for split in corpus.splits()}


def first_pairs(source_lang, target_lang, number, seed=0):
    pairs = cldr_sentences.generate_pairs(source_lang, target_lang, seed)
    return list(itertools.islice(pairs, number))


def test_split_sizes(splits):
    sizes = {split: len(pairs) for split, pairs in splits[1].items()}
    assert sizes == {"train": TRAIN_PAIRS, "dev": 1_000, "test": 1_000}


def test_source_sentences_are_unique_across_splits(splits):
    sources = [source for pairs in splits[1].values() for source, _ in pairs]
    assert len(set(sources)) == len(sources) == TRAIN_PAIRS + 2_000


def test_sentences_are_single_lines_with_single_spaces(splits):
    for pairs in splits[1].values():
        for pair in pairs:
            for text in pair:
                # No line ends, no leading, trailing or repeated spaces, and no other
                # kinds of space.
                assert text
                assert " ".join(text.split()) == text


DOMAINS = {
    "dates": r"\b(January|Jan|Mar|March|Oct|October)\b|^\d+/\d+/\d+",
    "durations": r"^\d+ (years?|months?|weeks?|days?|hours?), \d+ [a-z]+$",
    "relative times": r"^in \d+ | ago$",
    "quantities": r"^[\d,.]+ (kilometers|kilograms|liters|miles|hectares|watts|pounds)",
    "money": r"^(€|\$|£)[\d,.]+$|(euros|Swiss francs|British pounds|Swedish kronor)$",
    "countries": r"\b(Italy|Austria|Hungary|Brazil|Greece|Sweden|Japan|Egypt)\b",
    "languages": r"\b(Italian|German|Hungarian|Danish|Greek|Swedish|Chinese)\b",
    "spelled-out numbers": r"^[a-z, -]+ (thousand|hundred)\b[a-z, -]*$",
}


@pytest.mark.parametrize("domain", DOMAINS)
def test_every_domain_occurs_in_train(splits, domain):
    assert set(DOMAINS) == set(cldr_sentences.DOMAINS)
    _, pairs = splits
    assert sum(bool(re.search(DOMAINS[domain], s)) for s, _ in pairs["train"]) >= 10


NAMES = {
    "de": {
        "Netherlands": "Niederlande",
        "Italy": "Italien",
        "Austria": "Österreich",
        "Hungary": "Ungarn",
        "Poland": "Polen",
        "Sweden": "Schweden",
        "Finland": "Finnland",
        "Greece": "Griechenland",
        "Brazil": "Brasilien",
        "Norwegian": "Norwegisch",
        "Danish": "Dänisch",
        "Swedish": "Schwedisch",
        "English": "Englisch",
        "Chinese": "Chinesisch",
        "Hungarian": "Ungarisch",
        "German": "Deutsch",
    },
    "fr": {
        "Netherlands": "Pays-Bas",
        "Italy": "Italie",
        "Austria": "Autriche",
        "Hungary": "Hongrie",
        "Poland": "Pologne",
        "Sweden": "Suède",
        "Finland": "Finlande",
        "Greece": "Grèce",
        "Brazil": "Brésil",
        "Norwegian": "norvégien",
        "Danish": "danois",
        "Swedish": "suédois",
        "English": "anglais",
        "Chinese": "chinois",
        "Hungarian": "hongrois",
        "German": "allemand",
    },
}


def test_targets_translate_their_sources(splits):
    lang, pairs = splits
    everything = [pair for split in pairs.values() for pair in split]
    known = [(s, t) for s, t in everything if s in NAMES[lang]]
    assert len(known) >= 3
    assert known == [(s, NAMES[lang][s]) for s, _ in known]
    # "in 5 years", "5 miles", "5 hours": the target has the same integers.
    counted = [(s, t) for s, t in everything if re.fullmatch(r"(in )?\d{1,3} \D+", s)]
    assert len(counted) >= 100
    for source, target in counted:
        assert re.findall(r"\d+", source) == re.findall(r"\d+", target)


def test_corpus_depends_only_on_the_seed(tmp_path, data_dir):
    def train(directory, seed):
        corpus = open_corpus(
            "cldr", "en", "de", tfds_data_dir=directory, cldr_pairs=50, cldr_seed=seed
        )
        return list(corpus.read("train"))

    here, elsewhere = train(data_dir, 3), train(str(tmp_path), 3)
    assert here == elsewhere
    assert not set(here) & set(train(data_dir, 4))


def test_equal_seeds_give_equal_pairs_in_another_process():
    digest = hashlib.sha256(repr(first_pairs("en", "de", 300, 5)).encode()).hexdigest()
    program = (
        "import hashlib, itertools;"
        "from t2t_keras.data.cldr_sentences import generate_pairs;"
        "pairs = list(itertools.islice(generate_pairs('en', 'de', 5), 300));"
        "print(hashlib.sha256(repr(pairs).encode()).hexdigest())"
    )
    other = subprocess.run(
        [sys.executable, "-c", program],
        env={
            **os.environ,
            "PYTHONHASHSEED": "12345",
            "LC_ALL": "C",
            "TZ": "Asia/Tokyo",
        },
        capture_output=True,
        text=True,
        check=True,
    )
    assert other.stdout.strip() == digest


def test_default_is_100000_training_pairs():
    from t2t_keras.flags import corpus as corpus_flags

    assert cldr.CldrConfig(
        name="x", source_lang="en", target_lang="de"
    ).train_pairs == (100_000)
    defaults = [
        inspect.signature(open_cldr).parameters["train_pairs"].default,
        inspect.signature(open_corpus).parameters["cldr_pairs"].default,
        corpus_flags.FLAGS["cldr_pairs"].default,
    ]
    assert defaults == [100_000] * 3


@pytest.mark.parametrize(
    ("source_lang", "target_lang", "message"),
    [
        ("en", "xx", "CLDR has no locale 'xx'"),
        ("klingon", "de", "CLDR has no locale 'klingon'"),
        ("en", "", "CLDR has no locale ''"),
        ("en", "en", "must differ. Received: 'en'"),
    ],
)
def test_invalid_locales_are_rejected(tmp_path, source_lang, target_lang, message):
    with pytest.raises(ValueError, match=message):
        open_corpus("cldr", source_lang, target_lang, tfds_data_dir=str(tmp_path))
    with pytest.raises(ValueError, match=message):
        first_pairs(source_lang, target_lang, 1)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("source_lang", "target_lang"),
    [("fr", "en"), ("pt_BR", "ja"), ("en", "uk"), ("en", "pl"), ("am", "en")],
)
def test_other_locales_yield_unique_sources(source_lang, target_lang):
    pairs = first_pairs(source_lang, target_lang, 1_000)
    assert len({source for source, _ in pairs}) == 1_000


def test_exhausted_sentences_raise_an_error(monkeypatch):
    def one_of_three(rng):
        number = rng.randrange(3)
        return lambda locale: f"{locale} {number}"

    monkeypatch.setattr(cldr_sentences, "DOMAINS", {"three": one_of_three})
    pairs = cldr_sentences.generate_pairs("en", "de")
    assert len({next(pairs) for _ in range(3)}) == 3
    with pytest.raises(ValueError, match="Only about 3 different sentences"):
        next(pairs)


def test_locales_without_a_common_domain_are_rejected(monkeypatch):
    def english_only(rng):
        return {"en": "x"}.__getitem__

    monkeypatch.setattr(cldr_sentences, "DOMAINS", {"english": english_only})
    with pytest.raises(ValueError, match=r"have too little .* 'en' and 'de'"):
        first_pairs("en", "de", 1)


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
