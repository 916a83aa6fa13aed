"""Errors of the methods that release late, on the streams of their paper (Li et al., Delay-allowed
Differentially Private Data Stream Release), in public domains and beside two baselines that the
paper does not have: the middle of the domain, and naive noise that is clipped.
"""
