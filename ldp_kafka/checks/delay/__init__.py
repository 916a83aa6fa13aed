"""The checks of methods that release windows, and their exact outcomes."""
