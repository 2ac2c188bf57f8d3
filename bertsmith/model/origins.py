"""Whether weights and parts are those that they were, for whoever keeps what was made of them.

A change in place counts up a tensor's version, and another tensor is another one; a change in place
through `.data`, or a part of the same block put there, nobody can see. Where another block is
assigned to `.data`, the one before is kept as long as this is, so that none comes to lie there. It
does not know what is made of weights.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence

from torch import Tensor, nn

_ADDRESS, _VERSION = Tensor.data_ptr, operator.attrgetter("_version")
Named = Sequence[tuple[nn.Module, str]]
"""Modules, and what is theirs by a name."""


class Origins:
    """Weights as they were when something was made of them; asked for every text, in few steps."""

    def __init__(
        self, weights: Named, *, wholes: Sequence[nn.Module] = (), settings: Named = ()
    ) -> None:
        """Of weights, of the parts of wholes, and of plain values, which are compared as such.

        A weight that is made anew each time is never here.
        """
        self._wholes = [each._modules for each in wholes]
        self._parts = [{**each} for each in self._wholes]
        self._settings = [(vars(module), name) for module, name in settings]
        self._values = self._values_now()
        self._places = [module._parameters for module, _ in weights]
        self._names = [name for _, name in weights]
        now = [*self._weights_now()]
        self._weights = there = [each for each in now if each is not None]
        self._are_made = len(there) < len(now)
        self._blocks = [each.untyped_storage() for each in there]  # held
        # Of one made in inference mode no change in place is seen.
        self._counted = [each for each in there if not each.is_inference()]
        self._addresses = [*map(_ADDRESS, there)]
        self._versions = [*map(_VERSION, self._counted)]

    def are_here(self) -> bool:
        """Whether each is where it was, with the values that it had."""
        return (
            not self._are_made
            and self._wholes == self._parts
            and self._values_now() == self._values
            and all(map(operator.is_, self._weights_now(), self._weights))
            and [*map(_ADDRESS, self._weights)] == self._addresses
            and [*map(_VERSION, self._counted)] == self._versions
        )

    def _values_now(self) -> list[object]:
        return [place.get(name) for place, name in self._settings]

    def _weights_now(self) -> Iterable[nn.Parameter | None]:
        return map(dict.get, self._places, self._names)
