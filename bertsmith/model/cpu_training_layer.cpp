// A Transformer layer that learns in bfloat16, on a CPU: cpu_training_functions.h says how.

#define HAS_BANDS 1
#define LEARNING_NUMBER uint16_t

#include "cpu_training_functions.h"

LEARNING_LAYER(bf16, MULTIPLIES_BF16)
