// Transformer layers of a model that only answers, on a CPU, with weights in eight bits: what
// cpu_layers.py calls beside hidden states of either type. A library of its own, since few ask for it.

#include "cpu_layer.h"

LAYER(fp32, float, LevelPanels, int8_t, int8_t, MULTIPLIES_INT8)
LAYER(bf16, uint16_t, LevelPanels, int8_t, int8_t, MULTIPLIES_INT8)
