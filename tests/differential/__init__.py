"""The differential test: random training programs are run under torch, and linted; both must say the same.

`generate` writes programs, `observe` runs them for every value of their flags and watches the scaler, the optimizers
and the gradients, `codes` says which finding an observation calls for, `compare` puts the two side by side.
"""
