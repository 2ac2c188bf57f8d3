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

TABLE_2: dict[str, Figures] = {
    "BERT BASE (single)": (80.8, 88.5),
    "BERT LARGE (single)": (84.1, 90.9),
    "BERT LARGE (ensemble)": (85.8, 91.8),
    "BERT LARGE (single + TriviaQA)": (84.2, 91.1),
    "BERT LARGE (ensemble + TriviaQA)": (86.2, 92.2),
}
"""Exact match and F1 on SQuAD 1.1's Dev."""
TABLE_2_TEST: dict[str, Figures] = {
    "Human": (82.3, 91.2),
    "BERT LARGE (single + TriviaQA)": (85.1, 91.8),
    "BERT LARGE (ensemble + TriviaQA)": (87.4, 93.2),
}
"""The same on the test set."""
TABLE_3: dict[str, Figures] = {"Human": (86.3, 89.0), "BERT LARGE (single)": (78.7, 81.9)}
"""Exact match and F1 on SQuAD 2.0's Dev."""
TABLE_3_TEST: dict[str, Figures] = {"Human": (86.9, 89.5), "BERT LARGE (single)": (80.0, 83.1)}
"""The same on the test set."""
TABLE_4: dict[str, Figures] = {
    "ESIM+GloVe": (51.9,),
    "ESIM+ELMo": (59.1,),
    "BERT BASE": (81.6,),
    "BERT LARGE": (86.6,),
}
"""Accuracy on SWAG's Dev."""

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
    "ELMo": (95.7,),
    "Fine-tuning, LARGE": (96.6,),
    "Fine-tuning, BASE": (96.4,),
    "Embeddings": (91.0,),
    "Second-to-Last Hidden": (95.6,),
    "Last Hidden": (94.9,),
    "Weighted Sum Last Four Hidden": (95.9,),
    "Concat Last Four Hidden": (96.1,),
    "Weighted Sum All Layers": (95.5,),
}
"""F1 of CoNLL-2003's Dev; ELMo is of Peters et al. 2018."""

TABLE_8_COLUMNS = ("MNLI fine-tuned", "NER fine-tuned", "NER feature-based")
TABLE_8: tuple[Figures, ...] = (
    (84.2, 95.4, 94.9),
    (84.3, 94.9, 94.0),
    (84.1, 95.2, 94.6),
    (84.4, 95.2, 94.7),
    (83.7, 94.8, 94.6),
    (83.6, 94.9, 94.6),
)
