"""`simulate`: the whole runtime on the simulation, through a day that a trace tells, and a report of what happened.

It stands above the runtime and the simulation, which do not know each other.
"""
