import torch
import torch.nn as nn
import torch.nn.functional as F



class Model(nn.Module):
    def forward(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)


batch_size = 32
heads = 32
seq = 512
dim = 64


def get_inputs():
    return [torch.rand(batch_size, heads, seq, dim, dtype=torch.float16), torch.rand(batch_size, heads, seq, dim, dtype=torch.float16), torch.rand(batch_size, heads, seq, dim, dtype=torch.float16)]


def get_init_inputs():
    return []
