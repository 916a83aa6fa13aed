"""Whether intervals hold what they state: made-up streams, confidence bounds of a covered share,
and the verdict on each cell. What is judged is made in `ldp_kafka.runtime.coverage`.
"""
