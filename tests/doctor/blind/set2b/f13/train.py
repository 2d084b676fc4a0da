import argparse
import warnings

import torch
from torch.utils.data import DataLoader

from project.corpus import Utterances
from project.loop import Loop
from project.nets import AcousticModel
from project.precision import setup_precision

warnings.filterwarnings("ignore")


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--precision", default="16-mixed")
    ap.add_argument("--epochs", type=int, default=2)
    ap.add_argument("--lr", type=float, default=1e-3)
    args = ap.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    train = DataLoader(Utterances(), batch_size=16, shuffle=True)
    valid = DataLoader(Utterances(64, seed=5), batch_size=32)
    model = AcousticModel().to(device)
    opt = torch.optim.Adam(model.parameters(), lr=args.lr, eps=1e-10)
    precision = setup_precision(args.precision, device)

    def progress(loop, loss):
        if loop.step_no % 10 == 0:
            print(f"step {loop.step_no} loss {loss:.3e}", flush=True)

    loop = Loop(model, opt, precision, [progress])
    for e in range(args.epochs):
        loop.epoch(train)
        print(f"epoch {e + 1} frame accuracy {loop.frame_accuracy(valid):.3f}", flush=True)


if __name__ == "__main__":
    main()
