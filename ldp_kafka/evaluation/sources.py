"""Where the data sets come from, under which licence, and which columns of them are wanted: none of
them is part of this package.
"""

from __future__ import annotations

__all__ = ["SOURCES"]


def _origin(what: str, place: str, licence: str, columns: str) -> str:
    """In a sentence: where to get it, what its origin states of a licence, and the columns that the
    CSV file must have.
    """
    return f"{what}, from {place} ({licence}), as CSV with {columns}"


_DELAY = "github.com/XiaochenLi-w/Stream-release-with-delay-time, branch ae, data_release/data"
_SLIDING = "github.com/XiaochenLi-w/Sliding-window-data-release-revision, dataset/real_dataset/"
_TRAFFIC = "https://archive.ics.uci.edu/dataset/492"

SOURCES = {
    "volume.csv": _origin(
        "Metro Interstate Traffic Volume",
        _TRAFFIC,
        "UCI, CC BY 4.0",
        "the columns t,value: row number and traffic_volume, in the order of the file",
    ),
    "volume_hourly_dedup.csv": _origin(
        "Metro Interstate Traffic Volume",
        _TRAFFIC,
        "UCI, CC BY 4.0",
        "the columns datetime,value: date_time and traffic_volume, the first row of each hour",
    ),
    "c6h6.csv": _origin(
        "Air Quality",
        "https://archive.ics.uci.edu/dataset/360",
        "UCI, CC BY 4.0",
        "the columns t,value: row number and C6H6(GT), without the rows of -200",
    ),
    "covid19_death.csv": _origin(
        "weekly deaths from COVID-19 in the United States",
        f"{_DELAY}/COVID19_DEATH.csv",
        "MIT; the figures are the CDC's, in the public domain",
        "the columns t,value: week number and deaths",
    ),
    "unemployment.csv": _origin(
        "Unemployment Level, Black or African American, 16 to 19 years",
        "https://fred.stlouisfed.org/series/LNU03000018",
        "the Bureau of Labor Statistics', in the public domain",
        "the columns date,value",
    ),
    "outpatient.csv": _origin(
        "outpatient visits in the United States (ILINet)",
        f"{_SLIDING}outpatient.csv",
        "no licence stated; the figures are the CDC's, in the public domain",
        "a column total_patients",
    ),
    "foodmart.csv": _origin(
        "items of FoodMart's transactions (SPMF)",
        f"{_DELAY}/footmart.csv",
        "MIT; of SPMF's data nothing is stated",
        "the columns t,value: row number and item",
    ),
    "appliances_energy.csv": _origin(
        "Appliances Energy Prediction",
        "https://archive.ics.uci.edu/dataset/374",
        "UCI, CC BY 4.0",
        "a column Appliances, in watt-hours",
    ),
    "tdrive_region_counts.csv": _origin(
        "taxis in 64 regions of Beijing (Microsoft's T-Drive sample)",
        f"{_SLIDING}td.csv",
        "no licence stated",
        "the columns t,c0,...,c63: slot number and taxis in each region",
    ),
    "pwgtp_montana.csv": _origin(
        "replicate weights of the American Community Survey 2018, Montana",
        "github.com/hharcolezi/LOLOHA, datasets/PWGTP_Montana.csv",
        "MIT; the figures are the Census Bureau's, in the public domain",
        "the columns PWGTP1,...,PWGTP80",
    ),
}
"""By the name of the file that tables and demos look for."""
