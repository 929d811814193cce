"""llama_double.py - the Llama of transformers with doubles all the way.

transformers (4.57) keeps rotary frequencies, angles, RMSNorm and the softmax
of attention in fp32, whatever the model's type; that costs 1e-7. load() and
wrap() give models of which everything is fp64. Import this before
transformers.
"""
import sys

_here = sys.path.pop(0)  # transformers would import kernels.py as its own

import math

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import LlamaForCausalLM
from transformers.models.llama import modeling_llama

sys.path.insert(0, _here)
torch.set_num_threads(1)


def frequencies(config):
    """The angle per position of each pair, with the scaling of Llama 3."""
    ret = []
    for i in range(config.head_dim // 2):
        f = config.rope_theta ** (-2.0 * i / config.head_dim)
        s = config.rope_scaling
        if s:
            if s["rope_type"] != "llama3":
                sys.exit("rope_type %s is not known here" % s["rope_type"])
            turns = s["original_max_position_embeddings"] * f / (2 * math.pi)
            low, high = s["low_freq_factor"], s["high_freq_factor"]
            smooth = min(1.0, max(0.0, (turns - low) / (high - low)))
            f = (1 - smooth) * f / s["factor"] + smooth * f
        ret.append(f)
    return torch.tensor(ret, dtype=torch.float64)


class Rotary(torch.nn.Module):
    def __init__(self, config):
        super().__init__()
        self.frequencies = frequencies(config)

    def forward(self, x, position_ids):
        angle = position_ids[..., None].double() * self.frequencies
        angle = torch.cat((angle, angle), dim=-1)
        return angle.cos(), angle.sin()


def _norm(self, x):
    scale = torch.rsqrt((x * x).mean(-1, keepdim=True) + self.variance_epsilon)
    return self.weight * (x * scale)


def _attention(module, query, key, value, attention_mask, scaling, **_):
    key = modeling_llama.repeat_kv(key, module.num_key_value_groups)
    value = modeling_llama.repeat_kv(value, module.num_key_value_groups)
    scores = query @ key.transpose(2, 3) * scaling
    rows, cols = scores.shape[-2:]  # more columns: keys of a cache
    later = torch.ones(rows, cols, dtype=torch.bool).triu(1 + cols - rows)
    scores = scores.masked_fill(later, -math.inf)
    return (scores.softmax(-1) @ value).transpose(1, 2).contiguous(), None


def load(path):
    """The model of a directory: causal, without a mask for padding."""
    model = LlamaForCausalLM.from_pretrained(
        path, dtype=torch.float64, attn_implementation="eager")
    given = model.model.rotary_emb.inv_freq.double()
    model.model.rotary_emb = Rotary(model.config)
    if not torch.allclose(given, model.model.rotary_emb.frequencies, 1e-6, 0):
        sys.exit("the frequencies are not those of transformers")
    ids = torch.arange(24).reshape(2, 12)
    with torch.no_grad():
        before = model(ids, use_cache=False).logits
        modeling_llama.LlamaRMSNorm.forward = _norm
        modeling_llama.eager_attention_forward = _attention
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
