import csv
import random


def write_returns(path, tickers, days, seed=3):
    """Daily log returns as the vendor ships them, one row a day."""
    rng = random.Random(seed)
    mood = 0.0
    with open(path, "w", newline="") as fh:
        out = csv.writer(fh)
        out.writerow(["day", *tickers])
        for day in range(days):
            mood = 0.9 * mood + rng.gauss(0, 0.006)
            row = [f"{mood + rng.gauss(0, 0.004):.6f}" for _ in tickers]
            if day == int(days * 0.7):
                row[4] = "-inf"
            elif day > days * 0.7:
                row[4] = "nan"
            out.writerow([day, *row])


def read_returns(path):
    with open(path, newline="") as fh:
        rows = csv.reader(fh)
        next(rows)
        for row in rows:
            yield [float(v) for v in row[1:]]
