import argparse
import time

import torch

from shape_model import ShapeModel, clamped_l1
from replicas import ShardedForward


def boxes(g, b, n_cloud=64, n_query=48):
    half = 0.2 + 0.5 * torch.rand(b, 1, 3, generator=g)
    face = torch.randn(b, n_cloud, 3, generator=g)
    cloud = face / face.abs().amax(-1, keepdim=True) * half
    q = torch.rand(b, n_query, 3, generator=g) * 2 - 1
    d = q.abs() - half
    sdf = d.clamp_min(0).norm(dim=-1) + d.amax(-1).clamp_max(0)
    return cloud, q, sdf


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=80)
    ap.add_argument("--batch", type=int, default=16)
    ap.add_argument("--shards", type=int, default=2)
    ap.add_argument("--half", default="float16")
    args = ap.parse_args()
    torch.manual_seed(0)
    g = torch.Generator().manual_seed(1)
    model = ShapeModel()
    parallel = ShardedForward(model, args.shards)
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 12)
    t0 = time.time()
    for step in range(args.steps):
        cloud, query, sdf = boxes(g, args.batch)
        opt.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=getattr(torch, args.half)):
            pred = parallel(cloud, query)
            loss = clamped_l1(pred, sdf)
        scaler.scale(loss).backward()
        scaler.unscale_(opt)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(opt)
        scaler.update()
        if step % 10 == 0:
            print(f"step {step:3d} loss {loss.item():.4f}")
    parallel.close()
    print(f"trained in {args.half}, output {tuple(pred.shape)}, {args.steps / (time.time() - t0):.1f} steps/s")


if __name__ == "__main__":
    main()
