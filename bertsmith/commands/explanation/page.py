"""Boxes, words, bars and maps at places in inches -> a picture as high as what is on it.

A page is filled from the top. Words are drawn as they are: a dollar sign is no formula, and in an
SVG they stay words, so that whoever looks at it draws them with a font of their own. It does not
know what the page shows.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

import matplotlib
import numpy as np
import numpy.typing as npt
from matplotlib.collections import LineCollection
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, Rectangle
from rich.cells import cell_len

from bertsmith.commands.explanation.aligned import printable, prose, shortened
from bertsmith.files import atomic_file

WIDTH, MARGIN = 11.0, 0.4
INK, PALE = "#222222", "#777777"
RIGHT = "#1a7f37"
_BAR = "#6c8ebf"
_MOST_PIXELS = 65_000
"""Of a picture's height: matplotlib draws no higher ones."""
_INCHES_PER_CELL = 0.0085
"""Of each point of size, for half a Hangul syllable or a Latin letter."""

Places = Sequence[tuple[float, float]]
FloatArray = npt.NDArray[np.floating]


class Page:
    """A sheet of a fixed width; x counts inches from the left, y from the top."""

    def __init__(self) -> None:
        self.figure = Figure(figsize=(WIDTH, 1.0))
        self._axes = self.figure.add_axes((0.0, 0.0, 1.0, 1.0))
        self._axes.axis("off")
        self.y = MARGIN
        """Where the next thing goes."""

    def words(
        self, x: float, y: float, text: str, *, size: float = 9.0, color: str = INK,
        align: str = "left", is_bold: bool = False, turned: float = 0.0,
    ) -> None:  # fmt: skip
        """One line, its middle at `y`."""
        self._axes.text(
            x, y, printable(text), fontsize=size, color=color, ha=align, rotation=turned,
            va="center", weight="bold" if is_bold else "normal", rotation_mode="anchor",
            parse_math=False,
        )  # fmt: skip

    def box(self, x: float, y: float, width: float, height: float, color: str) -> None:
        """A rounded box, its left upper corner at (x, y)."""
        self._axes.add_patch(
            FancyBboxPatch(
                (x, y),
                width,
                height,
                boxstyle="round,pad=0,rounding_size=0.05",
                facecolor=color,
                edgecolor=PALE,
                linewidth=0.6,
            )
        )

    def bar(self, x: float, y: float, width: float, height: float, color: str = _BAR) -> None:
        """A filled rectangle, its middle line at `y`."""
        self._axes.add_patch(
            Rectangle((x, y - height / 2), width, height, facecolor=color, edgecolor="none")
        )

    def lines(self, ends: Sequence[Places], color: str, width: float) -> None:
        """Straight lines, each between its two ends."""
        self._axes.add_collection(
            LineCollection(ends, colors=color, linewidths=width, zorder=0.5), autolim=False
        )

    def dots(self, places: Places, color: str, size: float) -> None:
        """Circles of `size` points."""
        x, y = zip(*places, strict=True)
        self._axes.plot(
            x, y, linestyle="none", marker="o", markersize=size, markerfacecolor=color,
            markeredgecolor=PALE, markeredgewidth=0.6,
        )  # fmt: skip

    def map(
        self, values: FloatArray, x: float, y: float, side: float,
        *, largest: float, power: float = 1.0,
    ) -> None:  # fmt: skip
        """A square of shades, from 0 to `largest`; `power` below 1 lifts the faint ones."""
        self._axes.imshow(
            values, extent=(x, x + side, y + side, y), cmap="Blues", aspect="auto",
            norm=PowerNorm(power, 0.0, largest), interpolation="none",
        )  # fmt: skip
        self._axes.add_patch(
            Rectangle((x, y), side, side, facecolor="none", edgecolor=PALE, linewidth=0.5)
        )

    def write(self, path: Path) -> None:
        """Saves it, in the kind that the file's name says, whole or not at all."""
        height = self.y + MARGIN
        self._axes.set(xlim=(0.0, WIDTH), ylim=(height, 0.0))
        self.figure.set_size_inches(WIDTH, height)
        kind = path.suffix.lower().removeprefix(".")
        # Without a date, equal pages are equal files.
        metadata = {"Date": None} if kind == "svg" else None
        with atomic_file(path) as file:
            dpi = min(130.0, _MOST_PIXELS / height)
            self.figure.savefig(file, format=kind, dpi=dpi, metadata=metadata)


def headed(page: Page, line: str) -> None:
    """What is said of the whole page, in lines."""
    for each in prose(line, _cells_in(WIDTH - 2 * MARGIN, 13.0)):
        page.words(MARGIN, page.y, each.plain, size=13.0, is_bold=True)
        page.y += 0.25


def titled(page: Page, title: str, line: str) -> None:
    """A title, and what is said under it, in lines."""
    page.y += 0.25
    page.words(MARGIN, page.y, title, size=11.0, is_bold=True)
    for each in prose(line, _cells_in(WIDTH - 2 * MARGIN, 9.0)):
        page.y += 0.22
        page.words(MARGIN, page.y, each.plain, color=PALE)
    page.y += 0.3


def width_of(text: str, size: float = 9.0) -> float:
    """About the inches that a line takes, whatever fonts there are."""
    return cell_len(printable(text)) * size * _INCHES_PER_CELL


def cut(text: str, inches: float, size: float = 9.0) -> str:
    """As much of a line as there is room for."""
    return shortened(text, _cells_in(inches, size))


def _cells_in(inches: float, size: float) -> int:
    return max(1, int(inches / size / _INCHES_PER_CELL))


@contextlib.contextmanager
def drawn_with(families: Sequence[str]) -> Iterator[None]:
    """Pages are made and written with these fonts; in an SVG, with any plain one in their place."""
    with (
        warnings.catch_warnings(),
        matplotlib.rc_context(
            {
                "font.family": ["sans-serif"],
                "font.sans-serif": [*families, "sans-serif"],
                "svg.fonttype": "none",
                "svg.hashsalt": "bertsmith",
            }
        ),
    ):
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        yield
