#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "evenkeel/core/dropout_mask.hpp"
#include "evenkeel/core/tensor_view.hpp"
#include "evenkeel/detail/in_blocks.hpp"
#include "evenkeel/kernels/storage.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {
namespace detail {

/// An axis that x, y and the positions of the mask are walked along together.
struct DropoutAxis {
  Index extent = 1, x = 0, y = 0, position = 0;

  bool joins(const DropoutAxis& inner) const noexcept {
    return x == inner.x * inner.extent && y == inner.y * inner.extent && position == inner.position * inner.extent;
  }
};

/// The axes of x and y in logical order, joined where one step of an axis is a full run of the next. There are at least
/// two: the last holds runs of positions, the one before runs fastest in memory of all others.
struct DropoutAxes {
  std::array<DropoutAxis, max_rank + 2> axes = {};
  int count = 0;

  void append(const DropoutAxis& axis) noexcept {
    if (axis.extent == 1) return;
    DropoutAxis& last = axes[static_cast<std::size_t>(count > 0 ? count - 1 : 0)];
    if (count > 0 && last.joins(axis)) {
      last = {last.extent * axis.extent, axis.x, axis.y, axis.position};
    } else {
      axes[static_cast<std::size_t>(count++)] = axis;
    }
  }
  void finish() noexcept {
    while (count < 2) {
      std::copy_backward(axes.begin(), axes.begin() + count, axes.begin() + count + 1);
      axes[0] = {};
      ++count;
    }
    const auto slower = axes.begin() + count - 1;
    const auto fastest =
        std::min_element(axes.begin(), slower, [](const DropoutAxis& a, const DropoutAxis& b) { return a.x < b.x; });
    std::rotate(fastest, fastest + 1, slower);
  }
};

template <class Scalar>
DropoutAxes dropout_axes(DropoutKind kind, const TensorView<const Scalar>& x, const TensorView<Scalar>& y) {
  const TensorView<const Scalar> row_major(x.data(), x.shape());
  DropoutAxes axes;
  for (int axis = 0; axis < x.rank(); ++axis) {
    const Index sample = axis == 0 ? 1 : 0;
    axes.append({x.shape()[axis], x.stride(axis), y.stride(axis),
                 kind == DropoutKind::per_element ? row_major.stride(axis) : sample});
  }
  axes.finish();
  return axes;
}

/// One pass of dropout over tensors, in tiles whose part of the mask stays in L1.
template <class Scalar>
class DropoutPass {
 public:
  DropoutPass(const DropoutMask& mask, const DropoutAxes& axes, bool adds, Index first_position)
      : mask_(mask),
        axes_(axes),
        scale_(static_cast<kernels::Compute<Scalar>>(mask.scale())),
        adds_(adds),
        first_position_(first_position) {}

  /// All of x, from the first element on, tile by tile.
  void run(const Scalar* x, Scalar* y, const Executor& executor) const {
    Index all_tiles = row_tiles() * column_tiles();
    for (int a = 0; a < axes_.count - 2; ++a) all_tiles *= axis(a).extent;
    const Index bytes = std::min(tile_rows, rows().extent) * std::min(tile_width(), columns().extent) *
                        static_cast<Index>(sizeof(Scalar));
    InBlocks{executor}(all_tiles, bytes, [&](Index first, Index last) {
      for (Index i = first; i < last; ++i) run_tile(i, x, y);
    });
  }

 private:
  static constexpr Index tile_rows = 64, tile_columns = 128;

  const DropoutAxis& axis(int a) const noexcept { return axes_.axes[static_cast<std::size_t>(a)]; }
  const DropoutAxis& rows() const noexcept { return axis(axes_.count - 2); }
  const DropoutAxis& columns() const noexcept { return axis(axes_.count - 1); }

  static Index tiles(Index extent, Index tile) noexcept { return (extent + tile - 1) / tile; }
  Index row_tiles() const noexcept { return tiles(rows().extent, tile_rows); }
  Index column_tiles() const noexcept { return tiles(columns().extent, tile_width()); }
  /// Of a single row, several tiles are counted as one.
  Index tile_width() const noexcept { return rows().extent == 1 ? tile_rows * tile_columns : tile_columns; }

  /// Tiles are counted along rows, then along columns, then along the other axes from the last to the first.
  void run_tile(Index rest, const Scalar* x, Scalar* y) const {
    Index position = first_position_;
    const auto move = [&](const DropoutAxis& along, Index by) {
      x += by * along.x;
      y += by * along.y;
      position += by * along.position;
    };
    const Index i = rest % row_tiles() * tile_rows;
    rest /= row_tiles();
    const Index j = rest % column_tiles() * tile_width();
    rest /= column_tiles();
    for (int a = axes_.count - 3; a >= 0; --a) {
      move(axis(a), rest % axis(a).extent);
      rest /= axis(a).extent;
    }
    move(rows(), i);
    move(columns(), j);
    const Index height = std::min(tile_rows, rows().extent - i), end = std::min(j + tile_width(), columns().extent);
    for (Index start = j; start < end; start += tile_columns) {
      tile(x, y, position, height, std::min(tile_columns, end - start));
      move(columns(), tile_columns);
    }
  }

  /// Its mask by rows, its numbers in the order of memory.
  void tile(const Scalar* x, Scalar* y, Index position, Index height, Index width) const {
    std::uint8_t kept[tile_rows * tile_columns];
    const DropoutAxis &row = rows(), &column = columns();
    for (Index i = 0; i < height; ++i) fill_kept(position + i * row.position, width, kept + i * tile_columns);
    if (height > 1 && row.x < column.x) {
      for (Index j = 0; j < width; ++j) {
        line(x + j * column.x, row.x, y + j * column.y, row.y, kept + j, tile_columns, height);
      }
    } else {
      for (Index i = 0; i < height; ++i) {
        line(x + i * row.x, column.x, y + i * row.y, column.y, kept + i * tile_columns, 1, width);
      }
    }
  }

  void fill_kept(Index position, Index width, std::uint8_t* kept) const {
    const auto first = static_cast<std::uint64_t>(position);
    if (columns().position == 1) {
      mask_.keeps_run(first, width, kept);
    } else {  // one sample: its position is that of all
      std::memset(kept, mask_.keeps(first) ? 1 : 0, static_cast<std::size_t>(width));
    }
  }

  /// Strides of 1, which most are, as constants: for vectors.
  void line(const Scalar* x, Index x_stride, Scalar* y, Index y_stride, const std::uint8_t* kept, Index kept_stride,
            Index n) const {
    using One = std::integral_constant<Index, 1>;
    if (x_stride == 1 && y_stride == 1 && kept_stride == 1) {
      numbers(x, One(), y, One(), kept, One(), n);
    } else {
      numbers(x, x_stride, y, y_stride, kept, kept_stride, n);
    }
  }

  template <class Stride>
  void numbers(const Scalar* x, Stride x_stride, Scalar* y, Stride y_stride, const std::uint8_t* kept,
               Stride kept_stride, Index n) const {
    using T = kernels::Compute<Scalar>;
    const auto dropped = [&](Index i) {  // selected, not multiplied: 0 where x is NaN too
      const T scaled = kernels::to_compute(x[i * x_stride]) * scale_;
      return kept[i * kept_stride] != 0 ? scaled : T(0);
    };
    if (adds_) {
      for (Index i = 0; i < n; ++i) {
        Scalar& y_i = y[i * y_stride];
        y_i = kernels::from_compute<Scalar>(T(kernels::to_compute(y_i) + dropped(i)));
      }
    } else {
      for (Index i = 0; i < n; ++i) y[i * y_stride] = kernels::from_compute<Scalar>(dropped(i));
    }
  }

  const DropoutMask& mask_;
  const DropoutAxes& axes_;
  kernels::Compute<Scalar> scale_;
  bool adds_;
  Index first_position_;
};

/// y = kept ? x / (1 - p) : 0, or y += that. Shapes are alike; y may be x. Where they are some rows of a tensor, the
/// first of their positions is given.
template <class Scalar>
void dropout(const Executor& executor, const DropoutMask& mask, const TensorView<const Scalar>& x,
             const TensorView<Scalar>& y, bool adds = false, Index first_position = 0) {
  if (x.size() == 0) return;
  const DropoutAxes axes = dropout_axes(mask.kind(), x, y);
  DropoutPass<Scalar>(mask, axes, adds, first_position).run(x.data(), y.data(), executor);
}

}  // namespace detail
}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
