// Transformer layers of a model that only answers in bfloat16, on a CPU, in one call: what
// cpu_layers.py calls.

#include "cpu_layer.h"

LAYER(bf16, uint16_t, Panels<uint16_t>, uint16_t, uint16_t, MULTIPLIES_BF16)
