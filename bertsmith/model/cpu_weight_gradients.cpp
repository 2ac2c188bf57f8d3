// Gradients of the weights and the bias of one linear map, on a CPU: what cpu_linear.py calls.

#define HAS_BANDS 1

#include "cpu_weight_gradients.h"

// Rows one behind the other.
struct PlainGiven {
  const uint16_t *gradients, *rows;   // (T, O), (T, I)
  uint16_t* grad_weight;              // (O, I)
  float* grad_bias;                   // (O,)
  int64_t num_rows, width, outputs;  // T, I, O
};

extern "C" float weight_gradients_bf16(const PlainGiven* of, int num_threads) {
  return weight_gradients(
      Given<uint16_t>{
          {of->gradients, of->outputs}, {of->rows, of->width}, of->grad_weight, of->grad_bias,
          of->num_rows, of->width, of->outputs},
      num_threads);
}

// By vectors it is not faster than others.
extern "C" float multiplies_bf16(int) { return way_of_products<uint16_t>(false); }
