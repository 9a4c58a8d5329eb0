"""What is found by what, as sets of terms: `index_terms` of a memory against `query_terms` of a query."""

import os
import shutil
import subprocess
import sys
import unicodedata
from pathlib import Path

import apsw
import pytest
import snowballstemmer
from hypothesis import example, given
from hypothesis import strategies as st
from snowballstemmer.english_stemmer import EnglishStemmer

import titen_core
from titen_core.limits import CONTENT_BYTES, QUERY_TERMS_COUNT
from titen_core.text import QueryTerm, index_terms, query_terms
from titen_core.text.reading import JOINT
from titen_core.text.stems import roots
from titen_core.text.stopwords import STOP_WORDS
from titen_core.text.terms import TERM_CHARS_MAX


def shared(content: str, query: str) -> set[str]:
    """The terms of the query that the content holds."""
    return {asked.term for asked in query_terms(query)} & set(index_terms(content))


def exact_shared(content: str, query: str) -> set[str]:
    return {asked.term for asked in query_terms(query) if asked.exact} & set(index_terms(content))


@pytest.mark.parametrize(
    ("content", "query"),
    [
        pytest.param("Ticket POL-358 is closed", "POL-358", id="report 1: hyphenated ticket"),
        pytest.param("You should not, I said dont use agents", "don't", id="report 2: apostrophe left out"),
        pytest.param("We don't use agents", "dont use agents", id="report 2: apostrophe written"),
        pytest.param("We don’t", "don't", id="report 2: typographic apostrophe"),
        pytest.param("see grammar::fa for more", "grammar::fa", id="report 4: double colon"),
        pytest.param("content:secret", "content:secret", id="report 4: column name"),
        pytest.param("the value is secret", "content:secret", id="report 4: a part of it"),
        pytest.param("3GPP TS 38.101 lists bands", "38.101", id="report 5: dotted number"),
        pytest.param("the n77 band", "-band", id="report 5: leading minus"),
        pytest.param("Released v1.5.0.", "v1.5.0", id="report 5: version"),
        pytest.param("Released v1.5.0", "1.5.0", id="report 5: version without its v"),
        pytest.param("We migrated the users database", "database migration steps", id="report 7: inflected"),
        pytest.param("用户服务器部署在腾讯云国内节点", "腾讯云", id="report 8: words in Chinese"),
        pytest.param("这台设备坏了", "设备", id="report 8: one word"),
        pytest.param("我喝茶", "茶", id="report 8: one character"),
        pytest.param("重跑gen-itgc后", "itgc", id="report 10: Latin glued to Chinese"),
        pytest.param("重跑gen-itgc后", "gen-itgc", id="report 10: whole"),
        pytest.param("сервер стоит в Москве", "где стоит наш сервер", id="report 11: Cyrillic"),
        pytest.param("الخادم في جاكرتا", "أين الخادم الجديد", id="report 11: Arabic"),
        pytest.param("東京タワーに行った", "東京タワー", id="Japanese"),
        pytest.param("서버는 서울에 있다", "서버", id="Korean with a particle"),
        pytest.param("ฉันชอบกินข้าวผัด", "ข้าวผัด", id="Thai"),
        pytest.param("मुझे हिन्दी पसंद है", "हिन्दी", id="Hindi"),
        pytest.param("Das Café in der Hauptstraße", "cafe hauptstrasse", id="accents and sharp s"),
        pytest.param("İstanbul ve ŁÓDŹ", "istanbul", id="dotted capital I"),
        pytest.param("كِتَابٌ", "كتاب", id="Arabic vowel signs"),
        pytest.param("ＡＢＣ－１２３", "abc-123", id="full width"),
        pytest.param("ticket ٣٥٨", "358", id="Arabic digits"),
        pytest.param("so\u00adft hy\u200bphen", "soft hyphen", id="invisible characters"),
        pytest.param("shipped 🎉", "🎉", id="emoji"),
        pytest.param("👍🏽 from everyone", "👍", id="emoji without its skin tone"),
        pytest.param("in user_name", "userName", id="snake as camel"),
        pytest.param("call getUserName()", "user name", id="camel parts"),
        pytest.param("read foo/bar.py first", "bar.py", id="file of a path"),
        pytest.param("read foo/bar.py first", "foo/bar.py", id="path"),
        pytest.param(r"C:\data\new.csv", "new.csv", id="Windows path"),
        pytest.param("write to a@b.co", "a@b.co", id="address"),
        pytest.param("https://docs.example.com/a?b=1", "docs.example.com", id="host of an address"),
        pytest.param("learns C++", "C++", id="C++"),
        pytest.param("learns C#", "csharp", id="C#"),
        pytest.param("on .NET 8", "dotnet", id=".NET"),
        pytest.param("fixed in #42", "42", id="number sign"),
        pytest.param("POL358", "POL-358", id="hyphen left out"),
        pytest.param("the port of itgc2", "itgc", id="name before its number"),
        pytest.param("10,000 rows", "10000", id="thousands"),
        pytest.param("pengembang memigrasikan server", "migrasi", id="Indonesian: a nasal that kept its m"),
        pytest.param("hasil migrasi", "memigrasikan", id="Indonesian: the other way round"),
        pytest.param("dia menulis surat", "tulisan", id="Indonesian: t melted away"),
        pytest.param("pengiriman barang", "kirim", id="Indonesian: k melted away"),
        pytest.param("anak-anak sekolah", "anak", id="Indonesian: plural by repetition"),
        pytest.param("l’équipe", "equipe", id="French article"),
    ],
)
def test_found(content: str, query: str) -> None:
    assert shared(content, query)


@pytest.mark.parametrize(
    ("content", "query"),
    [
        ("38 people came", "38.101"),
        ("381.01", "38.101"),
        ("38101", "38.101"),
        ("released v15.0", "v1.5.0"),
        ("plain c", "C++"),
        ("read the policy", "police"),
        ("腾飞的云", "腾讯云"),
        ("а мои", "мой"),
        ("हिन", "हिन्दी"),
    ],
)
def test_not_found(content: str, query: str) -> None:
    assert not shared(content, query)


@pytest.mark.parametrize(
    "identifier",
    ["POL-358", "v1.5.0", "38.101", "grammar::fa", "gen-itgc", "user_name", "foo/bar.py", "a@b.co", "C++",
     "C#", ".NET", "itgc2", "getUserName", "E_TIMEOUT_504", "2026-09-12",
     "550e8400-e29b-41d4-a716-446655440000"],
)  # fmt: skip
def test_an_identifier_is_exact_and_more_than_its_parts(identifier: str) -> None:
    assert exact_shared(f"it says {identifier}, so", identifier)
    parts = " ".join(index_terms(identifier)[1:])
    assert shared(parts, identifier) < shared(identifier, identifier)


@pytest.mark.parametrize("text", ["in 2026", "5 users", "don't", "the database", "腾讯云", "anak-anak"])
def test_ordinary_words_are_not_exact(text: str) -> None:
    assert not any(asked.exact for asked in query_terms(text))


def test_a_count_inside_an_identifier_is_not_looked_for() -> None:
    assert [asked.term for asked in query_terms("PR-42")] == ["pr42", "pr"]
    assert "42" in index_terms("PR-42")


@pytest.mark.parametrize(
    ("query", "terms"),
    [
        ("what is the deadline of the project", ["deadlin", "project"]),
        ("apa kata sandi yang dipakai", ["kata", "sandi", "paka"]),
        ("opo sing dadi prioritas", ["priorita"]),
        ("to be or not to be", ["to", "be", "or", "not"]),
        ("the who", ["the", "who"]),
        ('AND OR NOT NEAR(x, "y") *', ["near", "x", "y"]),
        ("to-do", ["todo"]),
        ("", []),
        (' "" -- * ( ) : ^ \x00', []),
    ],
)
def test_function_words_go_unless_nothing_else_is_left(query: str, terms: list[str]) -> None:
    assert [asked.term for asked in query_terms(query)] == terms


def test_stop_words_are_written_as_the_analysis_folds_them() -> None:
    assert all(index_terms(word) for word in STOP_WORDS)
    assert all(word.isascii() and word.isalpha() and word.islower() for word in STOP_WORDS)


def test_terms_come_once_in_order_of_appearance() -> None:
    assert index_terms("Beta alpha beta POL-358 alpha") == ("beta", "alpha", "pol358", "pol", "358")
    assert query_terms("POL-358 beta POL-358")[0] == QueryTerm("pol358", exact=True)


def test_many_terms_keep_the_exact_and_the_long_ones() -> None:
    names = [f"x{'abcdefghij'[i // 10]}{'abcdefghij'[i % 10]}" for i in range(90)]
    kept = [asked.term for asked in query_terms(f"{' '.join(names)} POL-358 extraordinarily")]
    assert len(kept) == QUERY_TERMS_COUNT
    assert kept[0] == "xaa"
    assert {"pol358", "extraordinarili"} <= set(kept)


def test_the_last_word_of_the_longest_content_is_found() -> None:
    content = "lorem ipsum " * ((CONTENT_BYTES - 8) // 12) + "zebrafish"
    content = content[-CONTENT_BYTES:]
    assert shared(content, "zebrafish")


def test_a_very_long_word_is_found_whole_by_a_short_term() -> None:
    token = "q" * (CONTENT_BYTES - 1)
    assert shared(token, token)
    assert not shared(token + "x", token)
    assert len(index_terms(token)[0]) == TERM_CHARS_MAX


def test_few_terms_per_word() -> None:
    text = "Kami memindahkan basis data pengguna ke server baru because the old one kept failing every night"
    assert len(index_terms(text)) <= 1.3 * len(text.split())


@given(st.text(alphabet="abcdefghijklmnopqrstuvwxyz", min_size=1, max_size=40))
def test_roots_are_stable_and_never_empty(word: str) -> None:
    found = roots(word)
    assert found == roots(word)
    assert 1 <= len(found) <= 2
    assert all(root.isalpha() for root in found)


@given(st.text(alphabet="abcdefghijklmnopqrstuvwxyz", min_size=3, max_size=20), st.sampled_from("abfhjkopquvwxz"))
def test_english_has_no_suffix_with_the_endings_that_skip_its_stemmer(word: str, ending: str) -> None:
    assert EnglishStemmer().stemWord(word + ending) == word + ending


def test_only_the_two_stemmers_and_their_base_are_needed(tmp_path: Path) -> None:
    """As the Worker has it: no PyStemmer, and a package whose root has nothing."""
    installed = Path(snowballstemmer.__file__).parent
    vendored = tmp_path / "snowballstemmer"
    vendored.mkdir()
    (vendored / "__init__.py").touch()
    for module in ("among", "basestemmer", "english_stemmer", "indonesian_stemmer"):
        shutil.copy(installed / f"{module}.py", vendored)
    text = "migrations memigrasikan policies penulisan"
    code = f"from titen_core.text import index_terms; print(*index_terms({text!r}))"
    paths = os.pathsep.join((str(tmp_path), str(Path(titen_core.__file__).parents[1])))
    run = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": paths}, capture_output=True, text=True, check=True
    )
    assert run.stdout.split() == list(index_terms(text))


HOSTILE = [
    "x\ud83d",
    "a\x00b",
    '" OR 1=1 --',
    "NEAR(a b, 3) AND content:secret NOT *",
    "\u202eevil\u202c \u2028 \u3000 \xa0",
    "Ⅷ ﷺ ŉ İ ß ͅ a\u0345 … ½ ™",
    "e\u0301\u0323" * 50,
    "ก\u0e49\u0e49\u0e49",
    "\ue000 \U0010ffff \ufffd \u0378",
    "👨‍👩‍👧 🇮🇩 1️⃣",
    "a/.b/.c ::: //",
    "t7xहिन्दी",
]


def is_term(term: str) -> bool:
    return 0 < len(term) <= TERM_CHARS_MAX and all(char == JOINT or is_term_char(char) for char in term)


def is_term_char(char: str) -> bool:
    if char.isascii():
        return char.isdigit() or "a" <= char <= "z"
    return unicodedata.category(char)[0] not in "PZ" and unicodedata.category(char) not in ("Cc", "Cf", "Cs")


@given(st.text(alphabet=st.characters(codec=None), max_size=300))
@example("".join(HOSTILE))
def test_any_text_gives_clean_terms_the_same_each_time(text: str) -> None:
    terms = index_terms(text)
    assert all(map(is_term, terms))
    assert len(set(terms)) == len(terms)
    assert terms == index_terms(text)
    asked = query_terms(text)
    assert len(asked) <= QUERY_TERMS_COUNT
    assert {one.term for one in asked} <= set(terms)
    assert bool(asked) == bool(terms)


def test_every_character_outside_han_and_hangul_gives_clean_terms() -> None:
    for code in (*range(0x3400), *range(0xA000, 0xAC00), *range(0xD700, 0x10000), *range(0x1D000, 0x20000)):
        assert all(map(is_term, index_terms(f"a{chr(code)}1"))), hex(code)


words = st.text(alphabet=st.characters(codec="utf-8", categories=["L", "N"]), min_size=1, max_size=12)


@given(st.lists(words, min_size=1, max_size=20), st.data())
def test_what_a_word_of_a_text_asks_for_the_text_holds(some: list[str], data: st.DataObject) -> None:
    word = data.draw(st.sampled_from(some))
    assert {asked.term for asked in query_terms(word)} <= set(index_terms(" ".join(some)))


@pytest.mark.parametrize(
    "text",
    ["a." * 4096, "a/." * 2700, "aB1" * 2700, "a" + "\u0301\u0323" * 2000, "\ufdfa" * 2700,
     "ก" + "\u0e49" * 2700, "#a" * 4000, "1,000" * 1600, "a++" * 2700, "." * 8192, "\ud800" * 2700,
     "😀" * 2048],
)  # fmt: skip
@pytest.mark.timeout(5)
def test_hostile_texts_of_full_size_take_no_long(text: str) -> None:
    assert all(map(is_term, index_terms(text)))
    assert len(query_terms(text)) <= QUERY_TERMS_COUNT


@pytest.fixture
def fts() -> apsw.Connection:
    db = apsw.Connection(":memory:")
    db.execute("CREATE VIRTUAL TABLE memory_text USING fts5(terms, tokenize='ascii', detail=none)")
    return db


TENANT = "t7w"


def store(db: apsw.Connection, seq: int, content: str) -> None:
    terms = " ".join(TENANT + term for term in index_terms(content))
    db.execute("INSERT INTO memory_text(rowid, terms) VALUES (?, ?)", (seq, terms))


def found_by(db: apsw.Connection, term: str) -> list[int]:
    match = f'"{TENANT}{term}"'
    return [seq for (seq,) in db.execute("SELECT rowid FROM memory_text WHERE memory_text MATCH ?", (match,))]


@pytest.mark.parametrize(
    "content",
    [
        *HOSTILE,
        "Ticket POL-358",
        "38.101",
        "用户服务器部署在腾讯云国内节点",
        "ที่นี่ประเทศไทย",
        "don't",
        "C++ .NET",
        "q" * 8000,
    ],
)
def test_fts5_keeps_every_term_in_one_piece(fts: apsw.Connection, content: str) -> None:
    store(fts, 1, "something else entirely")
    store(fts, 2, content)
    fts.execute("CREATE VIRTUAL TABLE vocab USING fts5vocab(memory_text, 'row')")
    stored = {term for (term,) in fts.execute("SELECT term FROM vocab WHERE doc > 0")}
    assert stored == {TENANT + term for term in index_terms(f"something else entirely \n {content}")}
    assert all(2 in found_by(fts, asked.term) for asked in query_terms(content))
