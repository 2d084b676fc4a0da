import argparse
import sys

import torch

from autoencoder import SpeechVQ
from trainer import Trainer

parser = argparse.ArgumentParser()
parser.add_argument("--updates", type=int, default=90)
parser.add_argument("--batch", type=int, default=8)
parser.add_argument("--frames", type=int, default=40)
parser.add_argument("--lr", type=float, default=2e-3)
parser.add_argument("--seed", type=int, default=11)


def stream(args):
    g = torch.Generator().manual_seed(args.seed)
    centres = torch.randn(12, 24, generator=g)
    while True:
        z = torch.randint(0, 12, (args.batch, args.frames), generator=g)
        yield centres[z] + 0.2 * torch.randn(args.batch, args.frames, 24, generator=g)


def main():
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    trainer = Trainer(SpeechVQ(), args.lr)
    for i, x in zip(range(args.updates), stream(args)):
        trainer.train_step(x)
    return 0


if __name__ == "__main__":
    sys.exit(main())
