"""The scripts in which languages are written, from CLDR's likely subtags."""

import functools
import re

_LANGUAGES = {
    "Arab": (
        "acm acq aeb apc ar ars ary arz azb bal bgn ckb fa ks ku lrc mzn pa pbt ps sd "
        "sdh skr trw ug ur"
    ),
    "Armn": "hy",
    "Beng": "as bn mni",
    "Cans": "cr csw iu oj",
    "Cher": "chr",
    "Copt": "cop",
    "Cyrl": (
        "ab av az ba be bg bs ce cnr crh cu cv kaa kk kv ky mdf mk mn myv os ru sah sh "
        "sr tg tk tt tyv uk uz"
    ),
    "Deva": "awa bgc bho brx doi hi hne kok ks mag mai mr ne raj sa sat sd xnr",
    "Ethi": "am byn gez ti tig wal",
    "Adlm": "ff",
    "Geor": "ka",
    "Grek": "el",
    "Gujr": "gu",
    "Guru": "pa",
    "Hang": "ko",
    "Hani": "gan hak ja ko lzh nan wuu yue zh",
    "Bopo": "nan yue zh",
    "Hebr": "he lad yi",
    "Hira": "ja",
    "Kana": "ja",
    "Khmr": "km",
    "Knda": "kn",
    "Laoo": "lo",
    "Latn": (
        "aa ace af agq ak an ann arn asa ast ay az ban bas bem bew bez bi bjn blo bm "
        "br brh bs bss bug ca cad cch ceb cgg ch cho cic cnr co crh cs cy da dav de "
        "din dje dsb dua dyo dyu ebu ee en eo es et eu ewo ff fi fil fj fo fon fr frr "
        "fur fuv fy ga gaa gd gl gn gsw guz gv ha haw ho hr hsb ht hu hz ia id ie ig "
        "ik ilo io is it iu jbo jgo jmc jv kaa kab kac kaj kam kbp kcg kde kea ken kg "
        "kgp khq ki kj kkj kl kln kmb kpe kr ksb ksf ksh ku kw kxv la lad lag lb lg li "
        "lij lkt lld lmo ln lt ltg lu lua luo lus luy lv mas mer mfe mg mgh mgo mh mhn "
        "mi mic min mo moh mos ms mt mua mus na nan naq nb nd nds ng nl nmg nn nnh no "
        "nr nso nus nv ny nyn oc om pag pap pcm pis pl prg pt qu quc quy rif rm rn ro "
        "rof rw rwk saq sbp sc scn se seh ses sg sh shi sid sk sl sm sma smj smn sms "
        "sn so sq sr ss ssy st su sv sw szl taq teo tk tl tn to tok tpi tr trv ts tt "
        "tum twq ty tzm umb uz ve vec vi vmw vo vun wa wae war wbp wo xh xog yav yo "
        "yrl za zgh zu"
    ),
    "Mlym": "ml",
    "Mong": "mn",
    "Mtei": "mni",
    "Mymr": "my shn",
    "Nkoo": "nqo",
    "Olck": "sat",
    "Orya": "or",
    "Osge": "osa",
    "Rohg": "rhg",
    "Sinh": "pi si",
    "Syrc": "syr",
    "Taml": "ta",
    "Telu": "te",
    "Tfng": "kab shi taq tzm zgh",
    "Thaa": "dv",
    "Thai": "pi th",
    "Tibt": "bo dz",
    "Vaii": "vai",
    "Yiii": "ii",
}
"""Languages by script. Serbian and some others are written in several."""

_ALIASES = (
    "aar:aa abk:ab afr:af aka:ak alb:sq als:sq amh:am ara:ar arb:ar arg:an arm:hy "
    "asm:as ava:av aym:ay ayr:ay aze:az azj:az bak:ba bam:bm baq:eu bel:be ben:bn "
    "bis:bi bod:bo bos:bs bre:br bul:bg bur:my cat:ca ces:cs cha:ch che:ce chi:zh "
    "chu:cu chv:cv cmn:zh cor:kw cos:co cre:cr cym:cy cze:cs dan:da deu:de div:dv "
    "dut:nl dzo:dz ekk:et ell:el eng:en epo:eo est:et eus:eu ewe:ee fao:fo fas:fa "
    "fij:fj fin:fi fra:fr fre:fr fry:fy ful:ff gaz:om geo:ka ger:de gla:gd gle:ga "
    "glg:gl glv:gv gre:el grn:gn guj:gu hat:ht hau:ha heb:he her:hz hin:hi hmo:ho "
    "hrv:hr hun:hu hye:hy ibo:ig ice:is ido:io iii:ii iku:iu ile:ie ina:ia ind:id "
    "ipk:ik isl:is ita:it iw:he ji:yi jav:jv jw:jv jpn:ja kal:kl kan:kn kas:ks kat:ka "
    "kau:kr kaz:kk khk:mn khm:km kik:ki kin:rw kir:ky kmr:ku knc:kr kom:kv kon:kg "
    "kor:ko kua:kj kur:ku lao:lo lat:la lav:lv lim:li lin:ln lit:lt ltz:lb lub:lu "
    "lug:lg lvs:lv mac:mk mah:mh mal:ml mao:mi mar:mr may:ms mkd:mk mlg:mg mlt:mt "
    "mol:ro mon:mn mri:mi msa:ms mya:my nau:na nav:nv nbl:nr nde:nd ndo:ng nep:ne "
    "nld:nl nno:nn nob:nb nor:no npi:ne nya:ny oci:oc oji:oj ori:or orm:om ory:or "
    "oss:os pan:pa per:fa pes:fa pli:pi plt:mg pol:pl por:pt prs:fa pus:ps que:qu "
    "roh:rm ron:ro rum:ro run:rn rus:ru sag:sg san:sa sin:si slk:sk slo:sk slv:sl "
    "sme:se smo:sm sna:sn snd:sd som:so sot:st spa:es sqi:sq srd:sc srp:sr ssw:ss "
    "sun:su swa:sw swe:sv swh:sw tah:ty tam:ta tat:tt tel:te tgk:tg tgl:tl tha:th "
    "tib:bo tir:ti ton:to tsn:tn tso:ts tuk:tk tur:tr twi:ak tw:ak uig:ug ukr:uk "
    "urd:ur uzb:uz uzn:uz ven:ve vie:vi vol:vo wel:cy wln:wa wol:wo xho:xh yid:yi "
    "ydd:yi yor:yo zha:za zho:zh zsm:ms zul:zu in:id"
)
"""ISO 639-2 and 639-3 codes, and withdrawn ones, of languages with a code of CLDR."""

_SUBTAGS = {
    "hans": ("Hani", "Bopo"),
    "hant": ("Hani", "Bopo"),
    "jpan": ("Hani", "Hira", "Kana"),
    "kore": ("Hang", "Hani"),
}
"""Script subtags that stand for other scripts of Unicode."""


def base_language(code: str) -> str:
    """Returns the language of a code without script and region.

    Args:
        code: A code of ISO 639-1, 639-2 or 639-3, or a locale: "de", "deu", "pt_BR".

    Returns:
        The code as in CLDR, in lower case: of two letters if there is one.
    """
    language = re.split("[-_@.]", code.strip().lower())[0]
    return _aliases().get(language, language)


def expected_scripts(code: str) -> frozenset[str] | None:
    """Returns the scripts in which a language is written.

    Args:
        code: A language code, with a script if the language has several and one of
            them is expected: "sr", "srp", "sr-Latn", "zh_Hant_TW".

    Returns:
        Codes of ISO 15924, such as {"Latn"}, or None for an unknown language.
    """
    language = base_language(code)
    for subtag in re.split("[-_@.]", code.strip().lower())[1:]:
        if subtag in _SUBTAGS:
            return frozenset(_SUBTAGS[subtag])
        if subtag.capitalize() in _LANGUAGES:
            return frozenset({subtag.capitalize()})
    scripts = frozenset(
        script for script, languages in _by_script() if language in languages
    )
    return scripts or None


@functools.cache
def _by_script() -> tuple[tuple[str, frozenset[str]], ...]:
    return tuple(
        (script, frozenset(languages.split()))
        for script, languages in _LANGUAGES.items()
    )


@functools.cache
def _aliases() -> dict[str, str]:
    return dict(alias.split(":") for alias in _ALIASES.split())
