"""A packed batch -> hidden states -> losses.

Words used in this folder:

- definition: the plain form in torch operators that every faster one is tested equal to.
- stream: a packed batch as tensors, its sequences one behind the other, none padded.
- rows asked for: the tokens whose states somebody needs of the highest layer: those predicted, or
  those that a head pools.
- a layer that learns, one that only answers: with its backward pass; for inference alone.
- laid out: packed for products, columns in blocks as the processor's vectors or tiles take them.
- way back: the backward pass.
- levels: the whole numbers that eight bits hold, of weights and of activations.
- lone queries: one query a sequence, that of the pooled token.
"""
