"""The kinds of jobs that can wait for quota."""
