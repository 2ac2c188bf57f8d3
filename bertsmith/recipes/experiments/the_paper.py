"""The figures of the paper's tables, as they are printed there.

Source: Devlin et al. 2018 (arXiv 1810.04805v2), Tables 1 to 8 and Figure 5.
"""

from __future__ import annotations

Figures = tuple[float | None, ...]

GLUE = ("MNLI-m", "MNLI-mm", "QQP", "QNLI", "SST-2", "CoLA", "STS-B", "MRPC", "RTE")
TABLE_1: dict[str, Figures] = {
    "Pre-OpenAI SOTA": (80.6, 80.1, 66.1, 82.3, 93.2, 35.0, 81.0, 86.0, 61.7, 74.0),
    "BiLSTM+ELMo+Attn": (76.4, 76.1, 64.8, 79.8, 90.4, 36.0, 73.3, 84.9, 56.8, 71.0),
    "OpenAI GPT": (82.1, 81.4, 70.3, 87.4, 91.3, 45.4, 80.0, 82.3, 56.0, 75.1),
    "BERT BASE": (84.6, 83.4, 71.2, 90.5, 93.5, 52.1, 85.8, 88.9, 66.4, 79.6),
    "BERT LARGE": (86.7, 85.9, 72.1, 92.7, 94.9, 60.5, 86.5, 89.3, 70.1, 82.1),
}
"""On GLUE's test sets; the last figure is the average."""

DEV_AND_TEST = ("EM", "F1", "test EM", "test F1")
TABLE_2: dict[str, Figures] = {
    "Human": (None, None, 82.3, 91.2),
    "nlnet (ensemble)": (None, None, 86.0, 91.7),
    "QANet (ensemble)": (None, None, 84.5, 90.5),
    "BiDAF+ELMo (single)": (None, 85.6, None, 85.8),
    "R.M. Reader (ensemble)": (81.2, 87.9, 82.3, 88.5),
    "BERT BASE (single)": (80.8, 88.5, None, None),
    "BERT LARGE (single)": (84.1, 90.9, None, None),
    "BERT LARGE (ensemble)": (85.8, 91.8, None, None),
    "BERT LARGE (single + TriviaQA)": (84.2, 91.1, 85.1, 91.8),
    "BERT LARGE (ensemble + TriviaQA)": (86.2, 92.2, 87.4, 93.2),
}
"""SQuAD 1.1."""
TABLE_3: dict[str, Figures] = {
    "Human": (86.3, 89.0, 86.9, 89.5),
    "MIR-MRC, F-Net (single)": (None, None, 74.8, 78.0),
    "nlnet (single)": (None, None, 74.2, 77.1),
    "unet (ensemble)": (None, None, 71.4, 74.9),
    "SLQA+ (single)": (None, None, 71.4, 74.4),
    "BERT LARGE (single)": (78.7, 81.9, 80.0, 83.1),
}
"""SQuAD 2.0."""
TABLE_4: dict[str, Figures] = {
    "ESIM+GloVe": (51.9, 52.7),
    "ESIM+ELMo": (59.1, 59.2),
    "OpenAI GPT": (None, 78.0),
    "BERT BASE": (81.6, None),
    "BERT LARGE": (86.6, 86.3),
    "Human (expert)": (None, 85.0),
    "Human (five annotations)": (None, 88.0),
}
"""Accuracy on SWAG's Dev and test."""

TABLE_5_COLUMNS = ("MNLI-m", "QNLI", "MRPC", "SST-2", "SQuAD 1.1")
TABLE_5: dict[str, Figures] = {
    "BASE": (84.4, 88.4, 86.7, 92.7, 88.5),
    "No NSP": (83.9, 84.9, 86.5, 92.6, 87.9),
    "LTR & No NSP": (82.1, 84.3, 77.5, 92.1, 77.8),
    "+ BiLSTM": (82.1, 84.1, 75.7, 91.6, 84.9),
}

TABLE_6_COLUMNS = ("perplexity", "MNLI-m", "MRPC", "SST-2")
TABLE_6: tuple[Figures, ...] = (
    (5.84, 77.9, 79.8, 88.4),
    (5.24, 80.6, 82.2, 90.7),
    (4.68, 81.9, 84.8, 91.3),
    (3.99, 84.4, 86.7, 92.9),
    (3.54, 85.7, 86.9, 93.3),
    (3.23, 86.6, 87.8, 93.7),
)

TABLE_7: dict[str, Figures] = {
    "ELMo": (95.7, 92.2),
    "CVT": (None, 92.6),
    "CSE": (None, 93.1),
    "Fine-tuning, LARGE": (96.6, 92.8),
    "Fine-tuning, BASE": (96.4, 92.4),
    "Embeddings": (91.0, None),
    "Second-to-Last Hidden": (95.6, None),
    "Last Hidden": (94.9, None),
    "Weighted Sum Last Four Hidden": (95.9, None),
    "Concat Last Four Hidden": (96.1, None),
    "Weighted Sum All Layers": (95.5, None),
}
"""F1 of CoNLL-2003's Dev and test; ELMo is of Peters et al. 2018, CVT of Clark et al. 2018, CSE of
Akbik et al. 2018."""

TABLE_8_COLUMNS = ("MNLI fine-tuned", "NER fine-tuned", "NER feature-based")
TABLE_8: tuple[Figures, ...] = (
    (84.2, 95.4, 94.9),
    (84.3, 94.9, 94.0),
    (84.1, 95.2, 94.6),
    (84.4, 95.2, 94.7),
    (83.7, 94.8, 94.6),
    (83.6, 94.9, 94.6),
)

CONTEMPORARIES: dict[str, Figures] = {
    "BERT BASE": (TABLE_1["BERT BASE"][0], TABLE_1["BERT BASE"][4], 96.4, 96.1),
    "OpenAI GPT": (TABLE_1["OpenAI GPT"][0], TABLE_1["OpenAI GPT"][4], None, None),
    "ELMo": (None, None, None, 95.7),
}
"""MNLI and SST-2 on GLUE's test (Table 1); named entities of Dev, fine-tuned and from features
(Table 7)."""
