"""The values: what we chose, run by run.

A recipe's docstring ends with where the paper has it, its command, and what to expect at each scale
of `bertsmith reproduce`: time; memory; score. Measured are the rows of benchmarks/results/, of one
thread and without what reading takes, half of `tiny` of a processor with AVX2 in float32, the rest
of ones with AVX-512, most in bfloat16; of pre-trainings of `mini` that have no row, what their runs
said. "Planned" is what `--plan-only` says, of one thread of 0.3 TFLOP/s on the official sets' sizes
(`mini`: of the sets at hand), at `paper` with the `--accumulation` that stands there; of a
fine-tuning at `paper`, one run of the recipe's values at that rate; of its memory, what `finetune`
and `search` plan. At hand are CoLA, SST-2, MRPC, STS-B, RTE and CoNLL-2003 as they are handed out,
stand-ins for MNLI, QQP, QNLI and the Dev of SQuAD 1.1, and of SQuAD 2.0 a part of Dev alone
(docs/models.md). Recipes that belong to no scale say what is expected of them as they are.
"""
