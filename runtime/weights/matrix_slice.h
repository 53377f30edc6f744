// A part of a matrix as a matrix of its own: offsets are translated, so that whoever packs the part reads no byte of the rest.
// Plain functions; the results may be used on any thread as long as their source may.
#pragma once
#include "kernels/backend.h"

#include <cstddef>

namespace troupe::weights {

/// Outputs [first, first + count) of `whole`, which has a reader: neighbouring bytes.
kernels::MatrixSource slice_outputs(kernels::MatrixSource whole, std::size_t first, std::size_t count);
/// Inputs [first, first + count), both multiples of the storage format's block: a piece of each row.
kernels::MatrixSource slice_inputs(kernels::MatrixSource whole, std::size_t first, std::size_t count);

}  // namespace troupe::weights
