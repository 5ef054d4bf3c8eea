"""The contract between the stack, the runtime and users: keys, names, custom resources and admission policies.

Everything here is pure. It must not do I/O, read a clock or know who calls it.
"""
