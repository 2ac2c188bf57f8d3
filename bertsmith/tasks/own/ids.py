"""Ids of rows, one after the other -> which stood there before, and a line on how many."""

from __future__ import annotations

from bertsmith.reading.counted import counted


class SeenIds:
    """The ids of one column, as they are met."""

    def __init__(self, column: str) -> None:
        self._column = column
        self._place_of: dict[str, str] = {}
        self._num_repeated = 0
        self._first_repeated = ""

    def first_place(self, key: str, place: str) -> str:
        """Where the id stood before; empty where it is met for the first time."""
        first = self._place_of.setdefault(key, place)
        if first == place:
            return ""
        self._num_repeated += 1
        self._first_repeated = self._first_repeated or place
        return first

    def note(self) -> str:
        """A line on rows with the id of an earlier one; empty where there are none."""
        if not self._num_repeated:
            return ""
        rows_have = counted(self._num_repeated, "row has", "rows have")
        return (
            f"{rows_have} the {self._column} of an earlier one, the first at {self._first_repeated}"
        )
