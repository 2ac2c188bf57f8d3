// Transformer layers of a model that only answers, on a CPU, whose products are made of float16: what
// cpu_layers.py calls. A library of its own, since few processors multiply these.

#include "cpu_layer.h"

#if MULTIPLIES_FP16
LAYER(fp32, float, Float16Panels, float, Float16, true)
#else
extern "C" float multiplies_fp32(int) { return 0.0f; }
#endif
