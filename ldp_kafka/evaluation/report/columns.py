"""What the columns of all experiments mean."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["COLUMNS", "TIMES", "unexplained"]

# fmt: off
COLUMNS = {
    "auc": "area under the ROC curve; .5 is chance",
    "away": "ours over what is printed or given, less 1",
    "block": "slots after which the sum of what noise has moved starts at zero again",
    "by_clipping": "share of the gain over unclipped naive noise, in logarithms, that clipping that"
    " noise gives: 1 for all of it, more where the method is worse than clipped naive noise",
    "calibration": "published: as the paper has it; sound: so that the guarantee holds",
    "categories": "that a value may be",
    "category": "the one that is monitored",
    "cfpu": "reports of a user in a slot",
    "clipped": "mean absolute error of releases that are clipped to the domain",
    "clipped_over_naive": "the same over the error of unclipped naive noise",
    "constant": "mean squared error of the best constant, which nobody knows: the variance of the"
    " window means",
    "constant_cosine": "cosine distance of any constant stream",
    "cosine": "cosine distance of the smoothed releases of a window",
    "cpu_minutes": "of the processor, which do not depend on who else uses the machine",
    "default": "whether it is what the planner chooses",
    "delay": "slots that a release waits, at most",
    "domain": "the upper end of the domain, which starts at 0",
    "epsilon": "privacy budget: of a window, or of all slots where there is none",
    "events": "share of the slots that are above the threshold",
    "farthest": "of the single run that is farthest from what is printed: its figure over that,"
    " less 1",
    "floor": "a true frequency below it counts as this one in a relative error",
    "given": "what an independent computation gave",
    "law": "what the paper derives for the column beside it",
    "mae": "mean absolute error, in the unit of the stream",
    "measured": "1.96 times the root mean square error of what is released",
    "mechanism": "what makes a report noisy",
    "megabytes": "the most memory that the process has had until then, the streams included",
    "method": "what is compared",
    "midpoint": "mean squared error of the domain's midpoint, published without a look at anything",
    "minutes": "of the run, the streams being there",
    "mre": "mean relative error; small true values count as a floor",
    "mse": "mean squared error, in lengths of the domain squared; of frequencies over all"
    " categories, of window means in the experiments of CAPP",
    "noise": "half-width of the 95 % interval that the mechanism states of its reports, given the"
    " values",
    "oracle": "the mechanism that was chosen for the number of categories",
    "over_clipped_naive": "error of clipped releases over that of clipped naive noise",
    "parameter": "theta in lengths of the domain, buckets in their number, segments in slots",
    "printed": "as printed in the paper, of the column beside it",
    "printed_of_taxi": "as printed in the paper, of its Taxi, which is not the stream here",
    "published": "mean squared error of capp as published",
    "rank_auc": "area under the usual ROC curve, of events above one fixed threshold",
    "raw": "mean squared error before shrinkage",
    "reliability": "share of the spread of releases that is signal",
    "repeats": "runs with noise of their own",
    "report": "the how many-th report of a user",
    "reports": "of a slot",
    "rmse": "root mean square error of the mean, in lengths of the domain",
    "runs": "runs with noise of their own",
    "series": "the stream, in consecutive windows",
    "setting": "batch: windows one after the other; sliding: one that ends in every slot",
    "slots": "points of time",
    "smoothed_mae": "mean absolute error after smoothing",
    "smoothed_mre": "mean relative error after smoothing",
    "source": "tried; default: this package's; authors: theirs",
    "stated": "what the releases state of their own error, in the form of the error beside it",
    "stream": "whose values they are",
    "streams_megabytes": "of the streams alone",
    "tau": "periods of sampling that differ by no more slots are not told apart",
    "threshold": "of the true frequency: a slot above it is an event",
    "unclipped": "mean absolute error of releases that may lie outside the domain",
    "unclipped_over_naive": "the same over that of naive noise",
    "users": "who report",
    "value": "of what is varied, or of the parameter",
    "variance": "of a report's noise, over that of the first",
    "varied": "what the axis is: epsilon, window, users, sqrt_q (step of a walk), b (speed of the"
    " sine)",
    "window": "slots that the privacy budget is of",
}
# fmt: on
TIMES = frozenset({"minutes", "cpu_minutes", "megabytes"})
"""Columns that differ from run to run: all others repeat."""


def unexplained(columns: Iterable[str]) -> list[str]:
    """Those without words; the standard error of a column needs none.

    Examples
    --------
    >>> unexplained(["mse", "mse_error", "luck"])
    ['luck']
    """
    names = list(columns)
    return [
        name
        for name in names
        if name not in COLUMNS
        and not (name.endswith("_error") and name.removesuffix("_error") in names)
    ]
