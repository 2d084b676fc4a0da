"""Feature building for the credit table."""
import numpy as np

COLUMNS = ["age", "income", "debt", "months_employed", "num_accounts"]


def synthesize(n, seed=0):
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 80, n)
    employed = rng.integers(0, 400, n)
    income = rng.lognormal(10, 0.6, n).round(2)
    income[rng.random(n) < 0.002] = 0.0
    debt = rng.lognormal(8, 1.0, n)
    accounts = rng.poisson(3, n)
    table = {"age": age, "income": income, "debt": debt, "months_employed": employed, "num_accounts": accounts}
    risk = 0.8 * (np.log1p(debt) - 8) - 0.9 * (np.log1p(income) - 10) - 0.01 * (age - 40)
    target = (risk + rng.normal(0, 0.4, n) > 0).astype(np.float32)
    return table, target


def build(table):
    cols = [
        (table["age"] - 45) / 18.0,
        np.log(table["income"]) - 10.0,
        np.log1p(table["debt"]) - 8.0,
        np.sqrt(table["months_employed"]) / 10.0 - 1.3,
        table["num_accounts"] / 3.0 - 1.0,
        np.log1p(table["debt"]) - np.log1p(table["income"]),
    ]
    return np.stack(cols, axis=1).astype(np.float32)


def split(x, y, frac=0.8, seed=1):
    order = np.random.default_rng(seed).permutation(len(x))
    k = int(len(x) * frac)
    return (x[order[:k]], y[order[:k]]), (x[order[k:]], y[order[k:]])
