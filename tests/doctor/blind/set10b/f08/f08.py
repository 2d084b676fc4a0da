"""Character language model, float16, plain SGD with momentum."""
import argparse
import logging
import math

import torch
import torch.nn.functional as F

from engine import Trainer
from lm import CharLM, corpus

log = logging.getLogger("charlm")


def main():
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=160)
    ap.add_argument("--block", type=int, default=32)
    ap.add_argument("--batch", type=int, default=24)
    ap.add_argument("--lr", type=float, default=0.3)
    ap.add_argument("--max-norm", type=float, default=1.0)
    args = ap.parse_args()

    torch.manual_seed(17)
    ids, chars = corpus()
    split = int(0.9 * len(ids))
    net = CharLM(len(chars))
    opt = torch.optim.SGD(net.parameters(), lr=args.lr, momentum=0.9)
    trainer = Trainer(net, opt, max_norm=args.max_norm)

    def batch(source):
        at = torch.randint(0, len(source) - args.block - 1, (args.batch,))
        x = torch.stack([source[i:i + args.block] for i in at])
        y = torch.stack([source[i + 1:i + args.block + 1] for i in at])
        return x, y

    for step in range(1, args.steps + 1):
        loss = trainer.step(*batch(ids[:split]))
        if step % 40 == 0:
            with torch.no_grad():
                x, y = batch(ids[split:])
                val = F.cross_entropy(net(x).flatten(0, 1), y.flatten()).item()
            log.info("step %d train %.4f val %.4f (uniform %.4f) norm %.3g", step, loss, val,
                     math.log(len(chars)), trainer.last_norm)
    trainer.save("charlm.pt")


if __name__ == "__main__":
    main()
