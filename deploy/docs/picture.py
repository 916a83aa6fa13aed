"""The picture of the guarantee: two streams, and every output that either can give.

A window of three slots, epsilon 1, and Duchi's mechanism, which reports one of two values. So there
are eight outputs, and their probabilities are products of the mechanism's own weights.

The files lie beside the page, where GitHub finds them. ``python deploy/docs/picture.py`` draws
them.
"""

from __future__ import annotations

import io
from itertools import product
from math import exp, prod
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

import ldp_kafka as lk

__all__ = ["HERE", "files", "probabilities"]

HERE = Path(__file__).with_name("pages")

EPSILON, WINDOW = 1.0, 3
BEFORE, AFTER = (0.45, 0.6), (0.5, 0.35, 0.4)
FIRST, SECOND = (0.9, 1.0, 0.8), (0.1, 0.0, 0.2)  # the slots of the window
PALETTES = {
    "light": {"ink": "#1f2430", "faint": "#8a91a0", "first": "#3949ab", "second": "#e07b00"},
    "dark": {"ink": "#e6e8ee", "faint": "#8f97a8", "first": "#8c9eff", "second": "#ffb74d"},
}


def probabilities(values: tuple[float, ...]) -> dict[tuple[int, ...], float]:
    """Of each output, low (0) or high (1) in each slot of the window, exactly as the mechanism
    draws it.
    """
    domain = (0.0, 1.0)
    method = lk.method(
        "sw_direct", mechanism="duchi", epsilon=EPSILON, window=WINDOW, domain=domain
    )
    laws = [method.mechanism.law(value) for value in values]
    return {
        output: prod(
            law.weights[high] / law.denominator for law, high in zip(laws, output, strict=True)
        )
        for output in product((0, 1), repeat=WINDOW)
    }


def files() -> dict[str, bytes]:
    """The picture as SVG, for light and for dark pages, by its path among the pages."""
    return {f"guarantee-{name}.svg": drawn(colours) for name, colours in PALETTES.items()}


def drawn(colours: dict[str, str]) -> bytes:
    """The picture in these colours, the same bytes each time."""
    style = {"svg.hashsalt": "guarantee", "font.size": 11, "text.color": colours["ink"]}
    with mpl.rc_context(style):
        figure = Figure(figsize=(10, 4.4), layout="constrained")
        left, right = figure.subplots(1, 2, width_ratios=(2, 3))
        streams(left, colours)
        outputs(right, colours)
        for axes in (left, right):
            axes.patch.set_alpha(0)
            axes.spines[["top", "right"]].set_visible(False)
            axes.spines[["left", "bottom"]].set_color(colours["faint"])
            axes.tick_params(colors=colours["ink"], length=0)
            axes.xaxis.label.set_color(colours["ink"])
            axes.title.set_color(colours["ink"])
        written = io.BytesIO()
        figure.savefig(written, format="svg", transparent=True, metadata={"Date": None})
    return written.getvalue()


def streams(axes: Any, colours: dict[str, str]) -> None:
    """Two streams of a user that differ in one window."""
    start = len(BEFORE)
    axes.axvspan(start - 0.4, start + WINDOW - 0.6, color=colours["faint"], alpha=0.18, lw=0)
    for name, inside in (("first", FIRST), ("second", SECOND)):
        axes.plot((*BEFORE, *inside, *AFTER), color=colours[name], marker="o", lw=2, ms=6)
    # where both are the same, neither hides the other
    for part, first in ((BEFORE, 0), (AFTER, start + WINDOW)):
        axes.plot(range(first, first + len(part)), part, color=colours["ink"], marker="o", lw=2)
    axes.text(start - 0.5, 0.93, "stream A", color=colours["first"], ha="right", weight="bold")
    axes.text(start - 0.5, 0.05, "stream B", color=colours["second"], ha="right", weight="bold")
    axes.text(start + 1, 1.12, f"window: {WINDOW} slots", ha="center")
    axes.set(title="Two streams of one user", xlabel="time slot", ylim=(-0.12, 1.22), yticks=())
    axes.set_xticks(range(len((*BEFORE, *FIRST, *AFTER))))


def outputs(axes: Any, colours: dict[str, str]) -> None:
    """The probability of each output under either stream, and the odds between them."""
    first, second = probabilities(FIRST), probabilities(SECOND)
    order = sorted(first, key=lambda output: first[output] / second[output])
    for name, law, shift in (("first", first, -0.2), ("second", second, 0.2)):
        at = [place + shift for place in range(len(order))]
        axes.bar(at, [law[output] for output in order], 0.38, color=colours[name])
    for place, output in enumerate(order):
        odds = first[output] / second[output]
        text = f"{odds:.1f} : 1" if odds >= 1 else f"1 : {1 / odds:.1f}"
        axes.text(place, max(first[output], second[output]) + 0.006, text, ha="center", size=10)
    labels = ["".join("▲" if high else "▽" for high in output) for output in order]
    axes.set_xticks(range(len(order)), labels, fontsize=9)
    limit = f"$e^\\varepsilon$ = {exp(EPSILON):.1f}"
    axes.set(
        title=f"How likely they give each output: odds of at most {limit}",
        xlabel="the window's three reports, high ▲ or low ▽; odds of A to B",
        yticks=(),
    )
    axes.margins(y=0.1)


if __name__ == "__main__":
    for name, content in files().items():
        (HERE / name).write_bytes(content)
