"""The estimate of tokens against two real vocabularies that ship in a package."""

from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.vocabularies import VOCABULARIES, count_tokens
from titen_core.tokens import estimate_tokens

UNDER_MOST: Final = 0.15
"""How far the estimate may stay below the real count."""

TEXTS: Final = {
    "English": (
        "The user likes dark roast coffee without sugar and never drinks tea. Backups of the database start at two in "
        "the morning and take about forty minutes. The last deployment failed because nobody had raised the version in "
        "the changelog. She prefers short technical answers, in English, with one example. The office in Bandung "
        "closes at five on Fridays. Phoenix goes live in the third quarter; integration tests are still red. He is "
        "allergic to peanuts, so remind the restaurant whenever you order."
    ),
    "Indonesian": (
        "Pengguna menyukai kopi sangrai gelap tanpa gula dan tidak pernah minum teh. Pencadangan basis data dimulai "
        "pukul dua pagi dan memakan waktu sekitar empat puluh menit. Peluncuran terakhir gagal karena tidak ada yang "
        "menaikkan versi di catatan perubahan. Dia lebih suka jawaban teknis yang singkat dengan satu contoh. Kantor "
        "di Bandung tutup pukul lima setiap hari Jumat. Phoenix akan diluncurkan pada kuartal ketiga; pengujian "
        "integrasi masih merah. Dia alergi kacang, jadi ingatkan restoran setiap kali memesan."
    ),
    "Javanese": (
        "Panganggo seneng kopi ireng tanpa gula lan ora tau ngombe teh. Cadangan basis data diwiwiti jam loro esuk lan "
        "mbutuhake wektu kira-kira patang puluh menit. Peluncuran pungkasan gagal amarga ora ana sing ngundhakake "
        "versi ing cathetan owah-owahan. Dheweke luwih seneng wangsulan teknis sing cekak kanthi siji conto. Kantor "
        "ing Bandung tutup jam lima saben dina Jemuah. Phoenix bakal diluncurake ing kuartal katelu; tes integrasi "
        "isih abang. Dheweke alergi kacang, mula elingna restoran saben pesen panganan."
    ),
    "Chinese": (
        "用户喜欢不加糖的深烘焙咖啡，从不喝茶。数据库备份每天凌晨两点开始，大约需要四十分钟。上次部署失败是因为没有人更新"
        "变更日志里的版本号。她更喜欢简短的技术回答，并附上一个例子。万隆的办公室每周五下午五点关门。凤凰项目计划在第三季度"
        "上线，集成测试还没有通过。他对花生过敏，每次订餐都要提醒餐厅。"
    ),
}


@pytest.mark.parametrize("vocabulary", VOCABULARIES)
@pytest.mark.parametrize("language", TEXTS)
def test_the_estimate_is_no_more_than_15_percent_too_low(language: str, vocabulary: str) -> None:
    text = TEXTS[language]
    assert estimate_tokens(text) >= (1 - UNDER_MOST) * count_tokens(text, vocabulary)


@pytest.mark.parametrize("language", TEXTS)
def test_no_language_is_starved_by_an_estimate_far_too_high(language: str) -> None:
    text = TEXTS[language]
    assert estimate_tokens(text) <= 1.6 * count_tokens(text, "o200k_base")


@pytest.mark.parametrize("vocabulary", VOCABULARIES)
def test_the_frame_of_a_digest_is_not_underestimated(vocabulary: str) -> None:
    frame = "\n[012] preference (CRITICAL) [unverified]\n  communication_style\n  x\n  Tags: person, v1.5.0\n" * 20
    assert estimate_tokens(frame) >= count_tokens(frame, vocabulary)


@pytest.mark.parametrize(
    "text",
    [
        "Пользователь предпочитает кофе без сахара.",
        "उपयोगकर्ता को बिना चीनी की कॉफी पसंद है।",
        "ユーザーは砂糖なしのコーヒーが好きです。",
        "ผู้ใช้ชอบกาแฟดำไม่ใส่น้ำตาล",
        "يفضل المستخدم القهوة بدون سكر.",
        "사용자는 설탕 없는 커피를 좋아한다.",
    ],
)
def test_other_scripts_lie_between_the_two_vocabularies_or_above(text: str) -> None:
    new, old = count_tokens(text, "o200k_base"), count_tokens(text, "cl100k_base")
    assert new <= estimate_tokens(text) <= max(old, 2 * new)


def test_nothing_costs_nothing_and_everything_costs_something() -> None:
    assert estimate_tokens("") == 0
    for text in ("a", " ", "\n", "中", "🎉", "\u0000", "\u2028"):
        assert estimate_tokens(text) >= 1


@given(st.text(max_size=200))
def test_tokens_bound_characters(text: str) -> None:
    assert len(text) <= 50 * estimate_tokens(text)


@given(st.lists(st.text(max_size=40), max_size=6))
def test_parts_cut_at_line_ends_add_up_to_no_less_than_the_whole(lines: list[str]) -> None:
    parts = [f"{line}\n" for line in lines]
    assert estimate_tokens("".join(parts)) <= sum(estimate_tokens(part) for part in parts)
