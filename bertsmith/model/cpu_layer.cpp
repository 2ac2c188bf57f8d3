// Transformer layers of a model that only answers, on a CPU, in one call: what cpu_layers.py calls.

#include "cpu_layer.h"

LAYER(fp32, float, Panels<float>, float, float, VECTOR_BYTES > 16)
LAYER(bf16, uint16_t, Panels<uint16_t>, uint16_t, uint16_t, MULTIPLIES_BF16)
