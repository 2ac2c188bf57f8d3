// The same with weights in eight bits, beside hidden states of either type: a library of its own, since
// few ask for it.

#include "cpu_layer.h"

LAYER(fp32, float, LevelPanels, int8_t, MULTIPLIES_INT8)
LAYER(bf16, uint16_t, LevelPanels, int8_t, MULTIPLIES_INT8)
