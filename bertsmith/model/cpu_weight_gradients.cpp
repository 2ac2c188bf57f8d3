// Gradients of the weights and the bias of one linear map, on a CPU: what cpu_linear.py calls.

#include "cpu_weight_gradients.h"

extern "C" float weight_gradients_bf16(const Given<uint16_t>* of, int num_threads) {
  return weight_gradients(*of, num_threads);
}

// By vectors it is not faster than others.
extern "C" float multiplies_bf16(int) { return way_of_products<uint16_t>(false); }
