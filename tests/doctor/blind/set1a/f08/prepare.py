"""Writes a synthetic export of the meter readings (one row an hour)."""
import math
import random


def write_export(path, rows=1600, seed=21):
    rnd = random.Random(seed)
    with open(path, "w") as f:
        f.write("hour,temp,wind,humidity,occupancy,price,load\n")
        for i in range(rows):
            temp = 12 + 9 * math.sin(i / 180) + rnd.gauss(0, 2)
            wind = abs(rnd.gauss(4, 2))
            hum = f"{min(100.0, max(5.0, rnd.gauss(60, 15))):.1f}"
            occ = max(0, int(rnd.gauss(40, 20)))
            price = 20 + 0.4 * occ + rnd.gauss(0, 3)
            load = 3.0 * occ + 2.2 * abs(temp - 18) + 0.5 * wind + rnd.gauss(0, 4)
            if 1180 <= i < 1182:
                hum = ""
            f.write(f"{i % 24},{temp:.2f},{wind:.2f},{hum},{occ},{price:.2f},{load:.2f}\n")
    return path
