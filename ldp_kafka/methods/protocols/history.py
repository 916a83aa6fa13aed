"""stub"""


class History:
    def __init__(self, window, lag=0): ...
