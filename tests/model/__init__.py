"""An exhaustive exploration of admission: the real decisions on a toy cluster, one write at a time, in every order."""
