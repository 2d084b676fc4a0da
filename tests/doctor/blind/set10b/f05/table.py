import numpy as np

COLUMNS = ["age", "tenure", "balance", "products", "region_code", "card", "salary", "logins"]


def load_customers(n=2400, seed=21):
    """Customers of one branch; churn is decided by a few columns."""
    rng = np.random.default_rng(seed)
    table = {
        "age": rng.normal(44, 11, n),
        "tenure": rng.gamma(2.0, 2.5, n),
        "balance": rng.lognormal(8.0, 1.2, n),
        "products": rng.integers(1, 5, n).astype(float),
        "region_code": np.full(n, 7.0),
        "card": rng.integers(0, 2, n).astype(float),
        "salary": rng.lognormal(10.5, 0.4, n),
        "logins": rng.poisson(9, n).astype(float),
    }
    score = (0.05 * (table["age"] - 44) - 0.3 * (table["tenure"] - 5)
             - 0.15 * (table["logins"] - 9) + 0.4 * (table["products"] - 2.5))
    y = (score + rng.normal(0, 0.5, n) > 0).astype(np.float32)
    x = np.stack([table[c] for c in COLUMNS], axis=1)
    return x, y


class Standardizer:
    def fit(self, x):
        self.mean = x.mean(axis=0)
        self.std = x.std(axis=0)
        return self

    def __call__(self, x):
        with np.errstate(all="ignore"):
            return ((x - self.mean) / self.std).astype(np.float32)
