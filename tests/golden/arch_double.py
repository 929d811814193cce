"""arch_double.py - architectures of transformers with doubles all the way.

As llama_double.py, for every architecture whose config.json AutoModel knows,
and for transformers 5, which has all of the rotation in rope_parameters.
"""
import sys

_here = sys.path.pop(0)  # transformers would import kernels.py as its own

import math

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoModelForCausalLM
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

sys.path.insert(0, _here)
torch.set_num_threads(1)


def head_dim(config):
    return getattr(config, "head_dim", None) or (
        config.hidden_size // config.num_attention_heads)


def _llama3(p, f):
    turns = p["original_max_position_embeddings"] * f / (2 * math.pi)
    low, high = p["low_freq_factor"], p["high_freq_factor"]
    smooth = min(1.0, max(0.0, (turns - low) / (high - low)))
    return (1 - smooth) * f / p["factor"] + smooth * f


def _yarn(config, p, i, f):
    n, old = head_dim(config), p["original_max_position_embeddings"]

    def pair(turns):
        return n * math.log(old / (turns * 2 * math.pi)) / (
            2 * math.log(p["rope_theta"]))

    low = pair(p.get("beta_fast") or 32)
    high = pair(p.get("beta_slow") or 1)
    if p.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, n - 1)
    high = high + 0.001 if low == high else high
    slow = min(1.0, max(0.0, (i - low) / (high - low)))
    return f / p["factor"] * slow + f * (1 - slow)


def _mscale(factor, by=1.0):
    return 0.1 * by * math.log(factor) + 1 if factor > 1 else 1.0


def rotation(config):
    """The angle per position of each pair, and the factor of sin and cos."""
    p, ret, by = config.rope_parameters, [], 1.0
    kind = p["rope_type"]
    for i in range(head_dim(config) // 2):
        f = p["rope_theta"] ** (-2.0 * i / head_dim(config))
        if kind == "linear":
            f /= p["factor"]
        elif kind == "llama3":
            f = _llama3(p, f)
        elif kind == "yarn":
            f = _yarn(config, p, i, f)
        elif kind not in ("default", "dynamic"):
            sys.exit("rope_type %s is not known here" % kind)
        ret.append(f)
    if kind == "yarn":
        by = p.get("attention_factor")
        if by is None and p.get("mscale") and p.get("mscale_all_dim"):
            by = (_mscale(p["factor"], p["mscale"]) /
                  _mscale(p["factor"], p["mscale_all_dim"]))
        elif by is None:
            by = _mscale(p["factor"])
    return torch.tensor(ret, dtype=torch.float64), by


def frequencies(config):
    return rotation(config)[0]


class Rotary(torch.nn.Module):
    def __init__(self, config):
        super().__init__()
        self.frequencies, self.by = rotation(config)

    def forward(self, x, position_ids):
        angle = position_ids[..., None].double() * self.frequencies
        angle = torch.cat((angle, angle), dim=-1)
        return angle.cos() * self.by, angle.sin() * self.by


def _norm(self, x):
    scale = torch.rsqrt((x * x).mean(-1, keepdim=True) + self.variance_epsilon)
    return self.weight * (x * scale)


def _attention(module, query, key, value, attention_mask, scaling,
               sliding_window=None, **_):
    n = module.num_key_value_groups
    key, value = (t.repeat_interleave(n, 1) for t in (key, value))
    scores = query @ key.transpose(2, 3) * scaling
    rows, cols = scores.shape[-2:]
    later = torch.ones(rows, cols, dtype=torch.bool).triu(1 + cols - rows)
    scores = scores.masked_fill(later, -math.inf)
    if sliding_window is not None:
        earlier = torch.ones(rows, cols, dtype=torch.bool).tril(
            cols - rows - sliding_window)
        scores = scores.masked_fill(earlier, -math.inf)
    return (scores.softmax(-1) @ value).transpose(1, 2).contiguous(), None


def check_rotation(config):
    """Ours is that of transformers."""
    kind = config.rope_parameters["rope_type"]
    ours, by = rotation(config)
    if kind != "default":
        given, factor = ROPE_INIT_FUNCTIONS[kind](config, "cpu")
        if (abs(factor - by) > 1e-12 or
                not torch.allclose(given.double(), ours, 1e-6, 0)):
            sys.exit("the rotation is not that of transformers: %s" % kind)


def load(path):
    """The model of a directory: causal, without a mask for padding."""
    model = AutoModelForCausalLM.from_pretrained(
        path, dtype=torch.float64, attn_implementation="eager")
    code = sys.modules[type(model).__module__]
    check_rotation(model.config)
    ids = torch.arange(24).reshape(2, 12)
    with torch.no_grad():
        before = model(ids, use_cache=False).logits
        model.model.rotary_emb = Rotary(model.config)
        for name in dir(code):
            if name.endswith("RMSNorm"):
                getattr(code, name).forward = _norm
        code.eager_attention_forward = _attention
        after = model(ids, use_cache=False).logits
    if not torch.allclose(before, after, 1e-5, 1e-5):
        sys.exit("the logits are not those of transformers")
    return model.eval()


def wrap(model, **lora):
    """With new adapters, in fp64."""
    return get_peft_model(model, LoraConfig(task_type="CAUSAL_LM", **lora),
                          autocast_adapter_dtype=False).double().eval()


def load_adapter(model, path):
    """With the adapters of a directory, in fp64."""
    return PeftModel.from_pretrained(
        model, path, autocast_adapter_dtype=False).double().eval()
