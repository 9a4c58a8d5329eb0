"""Recall by words: exact identifiers always work, user text is never syntax (field cases 1 to 16)."""

import pytest

from tests.contract.client import Api

DISTRACTORS = (
    "The weather in Solo is warm",
    "Rapat tim setiap hari Senin",
    "Ticket POL-12 is open",
    "Version v2.0.1 was skipped",
    "会议在星期一举行",
)
LONG_TEXT = "lorem " * 1360 + "zanzibar"


@pytest.mark.parametrize(
    ("content", "query"),
    [
        pytest.param("Ticket POL-358 is closed", "POL-358", id="case 1"),
        pytest.param("Ticket POL-358 is closed", "what about pol-358?", id="case 1, asked"),
        pytest.param("Please don't use agents here", "don't use agents", id="case 2"),
        pytest.param("Please dont use agents here", "don't use agents", id="case 2, without apostrophe"),
        pytest.param("Please don’t use agents here", "don't use agents", id="case 2, typographic"),
        pytest.param("Built on grammar::fa parsers", "grammar::fa", id="case 4"),
        pytest.param("The secret word is content:secret here", "content:secret", id="case 4, column name"),
        pytest.param("Tune to 38.101 at night", "38.101", id="case 5, number"),
        pytest.param("The option is -band wide", "-band", id="case 5, minus"),
        pytest.param("Pinned to v1.5.0 since May", "v1.5.0", id="case 5, version"),
        pytest.param("We migrated the users database", "database migration steps", id="case 7"),
        pytest.param("用户服务器部署在腾讯云国内节点", "腾讯云", id="case 8"),
        pytest.param("新的设备已经安装", "设备", id="case 8, two characters"),
        pytest.param("重跑gen-itgc后", "itgc", id="case 10"),
        pytest.param("Команда любит зелёный чай", "команда любит чёрный кофе", id="case 11, Cyrillic"),
        pytest.param("الفريق يحب الشاي الأخضر", "الفريق يحب القهوة السوداء", id="case 11, Arabic"),
        pytest.param(LONG_TEXT, "zanzibar", id="last word of 8 KiB"),
        pytest.param("Contact: ana.maria+test@example.org", "ana.maria+test@example.org", id="address"),
        pytest.param("The file is src/app/main_loop.py", "main_loop.py", id="file name"),
        pytest.param("Run build #1042 again", "#1042", id="number sign"),
        pytest.param("Er wohnt in der Straße am Fluß", "straße", id="sharp s"),
        pytest.param("Café Müller sudah tutup", "cafe muller", id="diacritics"),
        pytest.param("サーバーは東京にあります", "東京", id="Japanese"),
        pytest.param("서버는 서울에 있습니다", "서울", id="Korean"),
        pytest.param("เซิร์ฟเวอร์อยู่ที่กรุงเทพ", "กรุงเทพ", id="Thai"),
        pytest.param("Ibu menyukai makanan pedas", "suka makan pedas", id="Indonesian stems"),
        pytest.param("C++ beats C# for this job", "C++", id="C++"),
    ],
)
def test_words_are_found(api: Api, subject: str, content: str, query: str) -> None:
    for other in DISTRACTORS:
        api.stored(subject_id=subject, content=other)
    memory = api.stored(subject_id=subject, content=content)
    answer = api.search(query, subject_id=subject).expect(200)
    assert answer.ids[0] == memory["id"]
    assert answer.data[0]["score"]["text_rank"] == 1
    assert answer.meta["degraded"]["lexical"] is False


def test_a_column_name_gives_no_access(api: Api, subject: str) -> None:
    """Field case 4: a colon was read as a column."""
    api.stored(subject_id=subject, content="Plain row", tags=["hidden"])
    for query in ("terms:hidden", "scope:hidden", "content:hidden", f"subject_id:{subject}", "rowid:1"):
        assert all(m["score"]["text_rank"] is None for m in api.found(query, subject_id=subject))


def test_full_matches_rank_above_partial_ones(api: Api, subject: str) -> None:
    """Field case 7."""
    api.stored(subject_id=subject, content="database database database")
    api.stored(subject_id=subject, content="steps to the harbour")
    full = api.stored(subject_id=subject, content="Steps of the database migration we made")
    items = api.found("database migration steps", subject_id=subject)
    ranks = {m["id"]: m["score"]["text_rank"] for m in items}
    assert ranks[full["id"]] == 1


def test_rarer_words_count_more(api: Api, subject: str) -> None:
    for n in range(12):
        api.stored(subject_id=subject, content=f"Meeting notes of week {n}")
    rare = api.stored(subject_id=subject, content="Notes on the quokka")
    first = api.found("meeting notes quokka", subject_id=subject)[0]
    assert (first["id"], first["score"]["text_rank"]) == (rare["id"], 1)


def test_a_full_sentence_finds_its_row(api: Api, subject: str) -> None:
    for n in range(12):
        api.stored(subject_id=subject, content=f"The user has asked about the invoice of month {n} and it is paid")
    sentence = "The user has asked whether the marmalade factory in Kediri is open on Sunday"
    memory = api.stored(subject_id=subject, content=sentence)
    assert api.found(sentence, subject_id=subject)[0]["id"] == memory["id"]


HOSTILE = {
    "quote": '"',
    "two quotes": '""',
    "unbalanced": '"foo',
    "apostrophe": "'",
    "injection": "'; DROP TABLE memories; --",
    "tautology": '" OR 1=1 --',
    "union": "x' UNION SELECT secret_hash FROM api_keys --",
    "near": "NEAR(a b, 5)",
    "and": "AND",
    "or not": "a OR NOT b",
    "dangling": "a AND",
    "star": "*",
    "prefix": "a*",
    "caret": "^a",
    "column": "{terms scope} : x",
    "minus": "- -- ---",
    "colon": "::",
    "parentheses": "(((",
    "plus": "a + b",
    "percent": "%",
    "underscore": "_",
    "backslash": "\\",
    "placeholder": "? ?1 :a @b $c",
    "dots": "... . ..",
    "emoji": "🙂🏽‍💻",
    "zero width": "\u200b\u200d\ufeff",
    "right to left": "\u202eabc\u202c",
    "combining": "e" + "\u0301" * 200,
    "private use": "\ue000\U0010fffd",
    "noncharacter": "\uffff\ufdd0",
    "tab and line": "a\tb\nc\r",
    "quotes 8 KiB": '"' * 8192,
    "one word 8 KiB": "x" * 8192,
    "many words": "ab " * 2730,
    "many distinct words": " ".join(str(n) for n in range(1600)),
    "cjk 8 KiB": "设" * 2730,
    "digits": "9" * 4000,
    "json": '{"query": ["x"]}',
    "html": "<script>alert(1)</script>",
}


@pytest.mark.parametrize("query", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_text_is_only_text(api: Api, subject: str, query: str) -> None:
    """Blueprint 20.1, case 12; also as content, found by itself or not, never an error."""
    memory = api.stored(subject_id=subject, content="An innocent row")
    before = api.search(query, subject_id=subject).expect(200)
    assert before.meta["degraded"] == {"semantic": False, "lexical": False}
    if query.strip():
        api.remember(subject_id=subject, content=query).expect(201)
        api.search(query, subject_id=subject).expect(200)
    assert api.read(memory["id"])["content"] == "An innocent row"
