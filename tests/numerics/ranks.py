"""What several ranks do together: the workers behind test_ranks.py, gloo on one machine.

All scenarios run in one group of processes, because starting them is what takes time. Each rank
saves what it found; the tests compare.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from formats import Recipe, load_recipe
from kernels import convert
from kernels.rounding import Draws
from suites.models import LanguageModel
from suites.sizes import ModelConfig

WORLD = 4
TIMEOUT = timedelta(seconds=120)
MIXTURE = ModelConfig("ranks", 1, 32, 2, 32, vocabulary=40, experts=4, top_k=2)
TOKENS = 16  # of each rank


def run(rank: int, folder: str) -> None:
    """One process: all scenarios in order, their results in one file."""
    torch.set_num_threads(1)
    torch.compiler.set_stance("force_eager")
    store = dist.FileStore(f"{folder}/store", WORLD)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=WORLD, timeout=TIMEOUT)
    scenarios: dict[str, Callable[[int], Any]] = {
        "replicas": replicas,
        "sharded": sharded,
        "seeds": seeds,
        "idle experts": idle_experts,
    }
    found = {name: scenario(rank) for name, scenario in scenarios.items()}
    torch.save(found, Path(folder) / f"rank{rank}.pt")
    dist.destroy_process_group()


def inputs(rank: int, step: int, width: int = 32) -> Tensor:
    generator = torch.Generator().manual_seed(100 * step + rank)
    return torch.randn(TOKENS, width, generator=generator)


def replicas(rank: int) -> list[Tensor]:
    """Weights of a data-parallel layer after each of three steps; ranks see different data."""
    torch.manual_seed(0)
    layer = convert(nn.Linear(32, 48), load_recipe("ufp4"))
    model = DistributedDataParallel(layer)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    weights = []
    for step in range(3):
        layer.quantization.set_step(step, token_offset=rank * TOKENS)
        model(inputs(rank, step)).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        weights.append(layer.weight.detach().clone())
    return weights


def outlier_layer(rows: int) -> nn.Module:
    """Five (or so) output rows, one outlier in the first: scales of a shard would differ."""
    torch.manual_seed(0)
    linear = nn.Linear(32, rows, bias=False)
    with torch.no_grad():
        linear.weight[0, 3] = 50.0
    return nn.Sequential(linear)


def sharded(rank: int) -> dict[str, Tensor]:
    """Output and weight gradient of layers sharded by rows over all ranks, gathered again."""
    found = {}
    for name in ("nvfp4", "nvint4-ufp4"):
        for rows in (5, 48):
            model = outlier_layer(rows)
            convert(model, everywhere(name))
            fully_shard(model, mesh=init_device_mesh("cpu", (WORLD,)))
            y = model(inputs(0, 0))
            y.sum().backward()
            found[f"{name} {rows}"] = y.detach()
            gradient = model[0].weight.grad
            found[f"{name} {rows} gradient"] = gradient.full_tensor()
    return found


def everywhere(name: str) -> Recipe:
    """A recipe without the blocks that it keeps, for a model of one layer."""
    return replace(load_recipe(name), keep_last=0.0)


def seeds(rank: int) -> dict[str, Tensor]:
    """Bits for activations under replicate x shard = 2 x 2: each rank has its own tokens."""
    mesh = init_device_mesh("cpu", (2, WORLD // 2), mesh_dim_names=("replicate", "shard"))
    place = mesh["replicate"].get_local_rank() * (WORLD // 2) + mesh["shard"].get_local_rank()
    layer = convert(nn.Linear(32, 48), load_recipe("ufp4"))
    layer.quantization.set_step(0, token_offset=place * TOKENS)
    draws: dict[str, Draws | None] = {
        name: layer.treatment(name).draws for name in ("dy.dgrad", "dy.wgrad")
    }
    shapes = {"dy.dgrad": (TOKENS, 48), "dy.wgrad": (48, TOKENS)}
    cpu = torch.device("cpu")
    return {name: named.bits16(*shapes[name], device=cpu) for name, named in draws.items() if named}


def idle_experts(rank: int) -> dict[str, Tensor]:
    """Gradients of a mixture whose tokens all go to experts 0 and 1, under data parallelism."""
    model = LanguageModel(MIXTURE, sequence=8, seed=0)
    convert(model, load_recipe("ufp4"))
    for block in model.blocks:
        nn.init.zeros_(block.mlp.router.weight)
    replica = DistributedDataParallel(model)
    tokens = torch.arange(8).unsqueeze(0) + rank
    logits, balance = replica(tokens)
    (logits.sum() + balance).backward()
    return {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
