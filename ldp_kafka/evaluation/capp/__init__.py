"""The experiments of the CAPP paper (Du et al., section VI) on its two open series, with what a
constant would give beside every figure.
"""
