"""Fixed texts for tokenizers: ordinary ones in several languages, and some for the rare rules.

In the ordinary texts the original and every library that follows it agree; the rare ones are the
rows of characters and words on which they are known to part.
"""

from __future__ import annotations

ORDINARY: dict[str, str] = {
    "English": "My dog is cute. He likes playing, doesn't he? It cost $3.50 (or 3,50 €)!",
    "English, WordPiece": "unaffable, unwanted running of the anti-disestablishmentarians",
    "Korean": "어제 늦게 잤어? 어쩐지 피곤해 보이더라. 기계식 키보드는 무엇입니까?",
    "Chinese": "自然语言处理 BERT 模型，今天天气很好。",
    "Japanese": "今日はBERTを使って、日本語の文を読みます。カタカナも。",
    "German": "Der Fluß fließt über die Brücke; Äpfel kosten 3 Mark.",
    "French": "L'été dernier, où étiez-vous? À Nîmes, garçon!",
    "Spanish": "¿Dónde está el niño? ¡Mañana será otro día!",
    "Russian": "Съешь же ещё этих мягких французских булок, да выпей чаю.",
    "Greek": "ο σκύλος είναι μικρός και γρήγορος",
    "Turkish": "Iğdır'da güneşli bir gün; şoför çok hızlı",
    "Vietnamese": "Tiếng Việt có nhiều dấu thanh điệu.",
    "Arabic": "اللغة العربية جميلة، أليس كذلك؟",
    "Hebrew": "שלום עולם, מה שלומך?",
    "Hindi": "नमस्ते दुनिया, आप कैसे हैं?",
    "Thai": "ภาษาไทยไม่มีช่องว่าง",
    "decomposed accents": "cafe\u0301 nai\u0308ve Ångstro\u0308m",
    "signs": "a_b+c=d^e `f` <g> ~h|i {j} k\\l #m @n 5%&6*7",
    "blanks": " tab\there\u00a0and\u3000there\r\n ",
    "controls": "zero\u200bwidth soft\u00adhyphen nul\x00 replaced\ufffd",
    "emoji": "good 😀 morning 👩\u200d👩 ok",
    "nothing": "",
    "blanks only": " \t\n",
}
"""Language or subject -> text."""

LONG_WORDS = "words of 101 to 200 characters"
EXTENSION_E = "Chinese characters U+2B820 to U+2B91F"
PRIVATE_USE = "private-use and unassigned characters"
SPECIAL_TOKENS = "special tokens written in a text"
FINAL_SIGMA = "capital sigma at a word's end"
HANGUL = "Hangul under accent stripping"

RARE: dict[str, tuple[str, ...]] = {
    LONG_WORDS: ("a" * 100, "a" * 101, "a" * 200, "a" * 201),
    EXTENSION_E: ("a\U0002b820a", "\U0002b91f\U0002b820", "a\U0002b81fa\U0002b920a"),
    PRIVATE_USE: ("a\ue000a", "a\u0378a", "\uf8ff"),
    SPECIAL_TOKENS: ("my [MASK] is [SEP]", "[CLS]a[PAD]a", "a [UNK] a"),
    FINAL_SIGMA: ("ΑΣ", "ΟΔΥΣΣΕΥΣ ΚΑΙ ΣΟΦΟΣ.", "Σ"),
    HANGUL: ("한국어", "각 값"),
}
"""Rule -> texts: the rows on which the original and the `tokenizers` library are compared."""
