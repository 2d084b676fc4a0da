import argparse
from types import SimpleNamespace

RECIPES = {
    "base": {"lr": 2e-3, "fp16": True, "loss_scale": None, "clip": 1.0},
    "fixed": {"lr": 2e-3, "fp16": True, "loss_scale": 2.0 ** 26, "clip": 1.0},
}


def get_options():
    ap = argparse.ArgumentParser()
    ap.add_argument("--recipe", choices=sorted(RECIPES), default="fixed")
    ap.add_argument("--updates", type=int, default=70)
    ap.add_argument("--update-freq", type=int, default=2)
    ap.add_argument("--seed", type=int, default=4)
    ns = ap.parse_args()
    return SimpleNamespace(**RECIPES[ns.recipe], **vars(ns))
