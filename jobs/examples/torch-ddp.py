"""torch-ddp.py - a training with PyTorch's DistributedDataParallel.

It runs with `launch: torch`, and below torchrun. Each process reads RANK,
WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT through env://.

 - The global batch is the same on any number of ranks, so the losses are, too.
 - Every --check steps all gradients are gathered. They must be the same on all
   ranks, and those of the whole batch on one.
 - On SIGTERM all ranks stop after the same step, rank 0 saves, and the next
   attempt continues, on as many ranks as it has (saves: true). A file `stop`
   in the output directory ends the training in the same way.
"""
import argparse
import json
import os
import signal

import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

INPUTS, HIDDEN, CLASSES = 64, 256, 10

told_to_stop = False


def on_sigterm(_signo, _frame):
    global told_to_stop
    told_to_stop = True


def batch_of(step, size):
    """The samples of a step, which any rank can make."""
    rng = torch.Generator().manual_seed(step)
    x = torch.randn(size, INPUTS, generator=rng)
    teacher = torch.Generator().manual_seed(1 << 30)
    y = (x @ torch.randn(INPUTS, CLASSES, generator=teacher)).argmax(1)
    return x, y


def compare_gradients(model, x, y, step):
    """Ends this rank, and so the job, if the gradients are not as they must be."""
    ours = torch.cat([p.grad.flatten() for p in model.parameters()])
    all_ranks = [torch.empty_like(ours) for _ in range(dist.get_world_size())]
    dist.all_gather(all_ranks, ours)
    for rank, theirs in enumerate(all_ranks):
        if not torch.equal(ours, theirs):
            raise SystemExit(f"step {step}: the gradient of rank {rank} differs")
    whole = torch.autograd.grad(cross_entropy(model(x), y), list(model.parameters()))
    whole = torch.cat([g.flatten() for g in whole])
    apart = ((ours - whole).norm() / whole.norm()).item()
    # Other orders of sums of 6,000 fp32 products are sqrt(6000) * 2**-24 = 5e-6
    # apart; a gradient without one rank's samples is tenths apart.
    if not apart < 1e-4:
        raise SystemExit(f"step {step}: {apart} from the gradient of the whole batch")


def save(path, model, optimizer, step):
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
    torch.save(state, path + ".new")
    os.replace(path + ".new", path)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--batch", type=int, default=96, help="of all ranks together")
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--check", type=int, default=10)
    args = parser.parse_args()
    out = os.environ.get("MGPU_OUTPUT_DIR", ".")
    checkpoint = os.path.join(out, "torch-ddp.pt")
    signal.signal(signal.SIGTERM, on_sigterm)

    use_gpu = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if use_gpu else torch.device("cpu")
    if use_gpu:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if use_gpu else "gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    if args.batch % size != 0:
        raise SystemExit(f"--batch {args.batch} is no multiple of {size} ranks")

    torch.manual_seed(1)
    model = torch.nn.Sequential(
        torch.nn.Linear(INPUTS, HIDDEN), torch.nn.Tanh(),
        torch.nn.Linear(HIDDEN, HIDDEN), torch.nn.Tanh(),
        torch.nn.Linear(HIDDEN, CLASSES)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)
    first = 0
    if os.path.exists(checkpoint):
        state = torch.load(checkpoint, map_location=device)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        first = state["step"]
    ddp = DistributedDataParallel(model)
    if rank == 0:
        print(f"{size} ranks, from step {first}", flush=True)

    step, checks = first, 0
    while step < args.steps:
        x, y = (t.to(device) for t in batch_of(step, args.batch))
        optimizer.zero_grad()
        loss = cross_entropy(ddp(x[rank::size]), y[rank::size])
        loss.backward()
        if step % args.check == 0:
            compare_gradients(model, x, y, step)
            checks += 1
        optimizer.step()
        step += 1
        # What all ranks decide together: the loss, and whether to stop.
        is_over = rank == 0 and os.path.exists(os.path.join(out, "stop"))
        word = torch.tensor([loss.item(), told_to_stop, is_over], device=device)
        dist.all_reduce(word)
        if rank == 0 and "MGPU_METRICS" in os.environ:
            row = {"iteration": step, "loss": word[0].item() / size, "lr": args.lr}
            with open(os.environ["MGPU_METRICS"], "a") as f:
                f.write(json.dumps(row) + "\n")
        if word[1] > 0 or word[2] > 0:
            break

    if rank == 0:
        save(checkpoint, model, optimizer, step)
        print(f"step {step}: saved; the gradients of {size} ranks agreed {checks} times", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
