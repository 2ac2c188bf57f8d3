// A Transformer layer that learns in float32, on a CPU: cpu_training_functions.h says how.

#define HAS_BANDS 0
#define LEARNING_NUMBER float

#include "cpu_training_functions.h"

LEARNING_LAYER(fp32, 1)
