"""The experiments of LDP-IDS (Ren et al., SIGMOD 2022, section 7) with our protocols, and what the
paper does not have: means of numbers, and its largest stream on one machine.
"""
