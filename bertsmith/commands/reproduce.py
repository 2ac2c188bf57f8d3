"""`bertsmith reproduce`: a table or figure of the paper, made anew, beside the paper's own figures.

    bertsmith reproduce --list --data DATA
    bertsmith reproduce table5 --text TEXT --data DATA             hours on two cores
    bertsmith reproduce table5 table8 --scale tiny ...             minutes: does all work?
    bertsmith reproduce table5 --scale paper --plan-only ...       what the paper's own would take

First everything that can be missing is looked for, then the plan is printed, then what is missing
is made, part by part: vocabulary and corpus, pre-training runs, fine-tuning runs. Each part is
what `pretrain` and `search` would make, in a directory named by all that decides its numbers.
"""

from __future__ import annotations

from bertsmith.commands.reproduce_options import Reproduce
from bertsmith.commands.reproduction.needs import listed
from bertsmith.recipes.experiments.scales import SCALES

__all__ = ["Reproduce", "reproduce"]


def reproduce(options: Reproduce) -> None:
    """Carries out what the options name, or lists what there is.

    Ctrl-C keeps all that is finished and raises KeyboardInterrupt.
    """
    scale = SCALES[options.scale]()
    if options.list:
        print(*listed(scale, options.data, tuple(dict.fromkeys(options.experiments))), sep="\n")
        return
    # They import torch, which takes seconds: only now, when the options are known to be sound.
    from rich.console import Console

    from bertsmith.commands.reproduction.carry_out import reproduce_at
    from bertsmith.train.device import processes_of_environment

    if processes_of_environment().world_size > 1:
        raise ValueError(
            "reproduce runs in one process: start it without torchrun (a pre-training run that it "
            "has begun may be carried on with `torchrun ... bertsmith pretrain --resume`)"
        )
    reproduce_at(scale, options, Console())
