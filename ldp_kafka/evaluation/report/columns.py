"""What the columns of all experiments mean."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["COLUMNS", "TIMES", "unexplained"]

# fmt: off
COLUMNS = {
    "auc": "area under the ROC curve; .5 is chance",
    "away": "ours over what is printed or given, less 1",
    "block": "slots after which the sum of what noise has moved starts at zero again",
    "bound": "what the theorem says that the error is at most (Theorem 5: that the chance is at"
    " least)",
    "by_clipping": "share of the gain over unclipped naive noise, in logarithms, that clipping that"
    " noise gives: 1 for all of it, more where the method is worse than clipped naive noise",
    "calibration": "published: as the paper has it; sound: so that the guarantee holds",
    "categories": "that a value may be",
    "category": "the one that is monitored",
    "cfpu": "reports of a user in a slot",
    "cleaned": "mean squared error after sorting",
    "clip": "how far the clip range goes beyond the domain, in its lengths",
    "clip_bound": "C, the most that a stream may move in a slot, in lengths of the domain",
    "clipped": "mean absolute error of releases that are clipped to the domain",
    "clipped_over_naive": "the same over the error of unclipped naive noise",
    "constant": "mean squared error of the best constant, which nobody knows: the variance of the"
    " window means",
    "constant_cosine": "cosine distance of any constant stream",
    "constant_jsd": "Jensen-Shannon divergence of a constant at the midpoint",
    "cosine": "cosine distance of the smoothed releases of a window",
    "cpu_minutes": "of the processor, which do not depend on who else uses the machine",
    "default": "whether it is what the planner chooses",
    "delay": "slots that a release waits, at most",
    "delta": "how far inside the domain the clip range ends, in lengths of it: T of the code",
    "dimension": "coordinates of a value",
    "distance": "mean distance of the two maps, over the mean of the true one",
    "domain": "the upper end of the domain, which starts at 0",
    "epsilon": "privacy budget: of a window, or of all slots where there is none",
    "events": "share of the slots that are above the threshold",
    "farthest": "of the single run that is farthest from what is printed: its figure over that,"
    " less 1",
    "fastest": "fastest step of a user in the releases, mean over users",
    "floor": "a true frequency below it counts as this one in a relative error",
    "form": "the bound as printed, or with the slips of the print mended",
    "given": "what an independent computation gave",
    "holds": "whether the bound does",
    "in_place_of": "data sets of the paper that are not free",
    "jsd": "Jensen-Shannon divergence of the values' histograms",
    "lag": "slots that releases are shifted back before they are compared",
    "law": "what the paper derives for the column beside it",
    "left": "share of the error that sorting leaves",
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
    "mse_of_mean": "mean squared error of the mean over all users",
    "n": "values in the group",
    "noise": "where a mechanism is judged: what it states of its reports; of a crowd: the distance"
    " of raw means of users who all sit at the midpoint",
    "oracle": "the mechanism that was chosen for the number of categories",
    "over_clipped_naive": "error of clipped releases over that of clipped naive noise",
    "parameter": "theta in lengths of the domain, buckets in their number, segments in slots",
    "printed": "as printed in the paper, of the column beside it",
    "printed_of_taxi": "what the paper prints, of its own Taxi",
    "published": "mean squared error of capp as published",
    "query": "q, slots of a query",
    "rank_auc": "area under the usual ROC curve, of events above one fixed threshold",
    "ratio": "over what is printed, of a theorem over its bound",
    "raw": "mean squared error before shrinkage",
    "recommended": "whether it is the automatic clip range",
    "reliability": "share of the spread of releases that is signal",
    "repeats": "runs with noise of their own",
    "report": "the how many-th report of a user",
    "reports": "of a slot",
    "rmse": "root mean square error of the mean, in lengths of the domain",
    "runs": "runs with noise of their own",
    "sampled_mae": "mean absolute error with a domain that a fifth of groups' values truncate",
    "series": "the stream, in consecutive windows",
    "setting": "batch: windows one after the other; sliding: one that ends in every slot",
    "shrunk": "Wasserstein distance where each mean is drawn to the crowd's as far as noise hides"
    " it",
    "slot": "number of the report, from 1",
    "slots": "points of time",
    "smoothed_mae": "mean absolute error after smoothing",
    "smoothed_mre": "mean relative error after smoothing",
    "source": "tried; default: this package's; authors: theirs",
    "spent": "epsilons of the window that are truly spent in it",
    "spread": "Wasserstein distance where means are drawn so that they are spread as the crowd is",
    "stand_in": "the data that stand in for the paper's",
    "stated": "what the releases state of their own error, in the form of the error beside it",
    "stream": "whose values they are",
    "streams_megabytes": "of the streams alone",
    "tau": "periods of sampling that differ by no more slots are not told apart",
    "theirs": "error over that of naive noise in the authors' own setting",
    "theorem": "its number in the paper",
    "threshold": "of the true frequency: a slot above it is an event",
    "times": "how many times smaller the error is with it",
    "true_fastest": "the same of the true streams",
    "truncated_mae": "mean absolute error with a truncated domain",
    "unclipped": "mean absolute error of releases that may lie outside the domain",
    "unclipped_over_naive": "the same over that of naive noise",
    "users": "who report",
    "value": "of what is varied, or of the parameter",
    "variance": "of a report's noise, over that of the first",
    "varied": "what the axis is: epsilon, window, users, sqrt_q (step of a walk), b (speed of the"
    " sine)",
    "whole_mean": "deviation up to which the mean of the whole group has less error, exactly",
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
