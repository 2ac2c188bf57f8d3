// A Transformer layer that learns, on a CPU, forward in one call and backward in another: what
// cpu_training_layers.py calls, for numbers of one type.
//
// The stream is read in chunks of whole sequences, so that a chunk's rows are still in the cache when
// the next product reads them. Weights are laid out anew in every call, for every step changes them.
// Where only some rows are asked for, queries and all that follows attention are made for these alone;
// where they are a pooler's, which are few, of one chunk and without keys and values (cpu_lone_queries.h).
// Sums are made in float32, and what lies between two parts is of that type. What a row becomes depends
// neither on the sequences beside its own nor on the number of threads, nor does any gradient on the
// latter. It knows no Python.
//
// Source: Devlin et al. 2018, section 3; google-research/bert, modeling.py, transformer_model.

#pragma once

#include "cpu_training_backward.h"
#include "cpu_training_forward.h"

#define LEARNING_LAYER(NAME, MULTIPLIES)                                                           \
  extern "C" int64_t training_layer_bytes_##NAME(const Layer* layer, const Input* input) {         \
    Cutter counter{nullptr};                                                                       \
    Kept(counter, *layer, *input);                                                                 \
    return counter.next - static_cast<char*>(nullptr);                                             \
  }                                                                                                \
  extern "C" float training_layer_forward_##NAME(                                                  \
      const Layer* layer, const Input* input, Number* output, int num_threads) {                   \
    return forward(*layer, *input, output, num_threads);                                           \
  }                                                                                                \
  extern "C" float training_layer_backward_##NAME(                                                 \
      const Layer* layer, const Input* input, const Number* grad_output, Number* grad_hidden,      \
      const Gradients* gradients, int num_threads) {                                               \
    return backward(*layer, *input, grad_output, grad_hidden, *gradients, num_threads);            \
  }                                                                                                \
  extern "C" float multiplies_##NAME(int) { return way_of_products<Number>(MULTIPLIES); }
