// Transformer layers of a model that only answers in float32, on a CPU, in one call: what
// cpu_layers.py calls.

#include "cpu_layer.h"

LAYER(fp32, float, Panels<float>, float, float, VECTOR_BYTES > 16)
