"""A toy cluster with machine groups, in which every order of events is explored. The decisions are the real ones."""
