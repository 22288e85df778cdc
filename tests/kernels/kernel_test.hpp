// What the kernel tests share: the two norms under one interface, and calls that take vectors and check the memory.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iomanip>
#include <limits>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "evenkeel/kernels/layer_norm.hpp"
#include "evenkeel/kernels/rms_norm.hpp"
#include "support/gradient_check.hpp"
#include "support/oracle.hpp"
#include "support/random.hpp"
#include "support/tolerance.hpp"

namespace evenkeel_test {

namespace kernels = evenkeel::kernels;
using kernels::Index;

/// With -ffast-math nothing is promised of NaN, infinities and subnormal numbers: their tests are skipped.
#ifdef __FAST_MATH__
inline constexpr bool fast_math = true;
#else
inline constexpr bool fast_math = false;
#endif

/// The accuracy contract, in ulp of the scale.
inline constexpr long double contract_ulps = fast_math ? 16 : 4;

// ---------------------------------------------------------------- what is tested

/// The kernels, which are compiled once for all test files, in layer_norm_kernel_test.cpp; and the oracle.
struct LayerNorm {
  static constexpr const char* name = "LayerNorm";
  static constexpr bool centred = true;

  template <class Arch, class T>
  static void run(const kernels::RowNormForward<T>& args);
  template <class Arch, class T>
  static void run(const kernels::RowNormBackward<T>& args);
  template <class T>
  static std::size_t workspace_bytes(Index rows, Index features) {
    return kernels::layer_norm_backward_workspace_bytes<T>(rows, features);
  }

  static oracle::Row<long double> row(const Reals& x, long double eps) { return oracle::layer_norm_row(x, eps); }
  template <class T>
  static std::vector<T> y(const std::vector<T>& x, std::size_t rows, std::size_t features, const std::vector<T>& gamma,
                          const std::vector<T>& beta, long double eps) {
    return oracle::layer_norm(x, rows, features, gamma, beta, eps);
  }
  static oracle::NormGradients gradients(const Reals& dy, const Reals& x, std::size_t rows, std::size_t features,
                                         const Reals& gamma, long double eps) {
    return oracle::layer_norm_backward(dy, x, rows, features, gamma, eps);
  }
};

/// The same; rms_norm_kernel_test.cpp. beta is ignored: there is none.
struct RMSNorm {
  static constexpr const char* name = "RMSNorm";
  static constexpr bool centred = false;

  template <class Arch, class T>
  static void run(const kernels::RowNormForward<T>& args);
  template <class Arch, class T>
  static void run(const kernels::RowNormBackward<T>& args);
  template <class T>
  static std::size_t workspace_bytes(Index rows, Index features) {
    return kernels::rms_norm_backward_workspace_bytes<T>(rows, features);
  }

  static oracle::Row<long double> row(const Reals& x, long double eps) { return oracle::rms_norm_row(x, eps); }
  template <class T>
  static std::vector<T> y(const std::vector<T>& x, std::size_t rows, std::size_t features, const std::vector<T>& gamma,
                          const std::vector<T>&, long double eps) {
    return oracle::rms_norm(x, rows, features, gamma, eps);
  }
  static oracle::NormGradients gradients(const Reals& dy, const Reals& x, std::size_t rows, std::size_t features,
                                         const Reals& gamma, long double eps) {
    return oracle::rms_norm_backward(dy, x, rows, features, gamma, eps);
  }
};

/// One way to run a kernel.
template <class NormType, class ArchType, class ScalarType>
struct Config {
  using Norm = NormType;
  using Arch = ArchType;
  using Scalar = ScalarType;
};

template <class Norm>
using ConfigsOf = testing::Types<Config<Norm, evenkeel::native, float>, Config<Norm, evenkeel::native, double>,
                                 Config<Norm, evenkeel::scalar, float>, Config<Norm, evenkeel::scalar, double>>;

template <class... A, class... B>
testing::Types<A..., B...> join(testing::Types<A...>, testing::Types<B...>);
using BothNorms = decltype(join(ConfigsOf<LayerNorm>(), ConfigsOf<RMSNorm>()));

/// Where there is no norm.
struct NoNorm {
  static constexpr const char* name = "";
};

struct ConfigName {
  template <class C>
  static std::string GetName(int) {
    std::string name = C::Norm::name;
    if (!name.empty()) name += '_';
    name += std::is_same_v<typename C::Scalar, float> ? "float" : "double";
    return name + (std::is_same_v<typename C::Arch, evenkeel::scalar> ? "_scalar" : "_native");
  }
};

/// Sizes around the width of a vector, and around powers of two, at which kernels turn from one scheme to another.
template <class T>
std::vector<Index> edge_features() {
  const Index width = kernels::Simd<evenkeel::native, T>::width;
  std::vector<Index> sizes = {1, width - 1, width, width + 1, 2 * width + 1, 3 * width, 4 * width - 1, 768, 1001};
  for (Index power = 128; power <= 2048; power *= 2) sizes.insert(sizes.end(), {power - 1, power, power + 1});
  sizes.push_back(2048 + 3);
  std::ranges::sort(sizes);
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  return sizes;
}

/// Rows that together are beyond any L2 cache's share: 6 MiB.
template <class T>
constexpr Index rows_beyond_cache(Index features) {
  return (Index{6} << 20) / (features * static_cast<Index>(sizeof(T)));
}

// ---------------------------------------------------------------- data

/// The data of one call. Empty gamma or beta: absent.
template <class T>
struct Data {
  Index rows = 0, features = 0;
  std::vector<T> x = {}, dy = {};        // [rows, features]
  std::vector<T> gamma = {}, beta = {};  // [features]
  double eps = 1e-5;
};

/// All of it from N(0,1), but for the mean of x.
template <class T>
Data<T> random_data(Index rows, Index features, std::uint64_t seed, double mean = 0) {
  const auto size = static_cast<std::size_t>(rows * features), parameters = static_cast<std::size_t>(features);
  return {.rows = rows,
          .features = features,
          .x = normal_vector<T>(size, seed, mean),
          .dy = normal_vector<T>(size, seed + 1),
          .gamma = normal_vector<T>(parameters, seed + 2),
          .beta = normal_vector<T>(parameters, seed + 3)};
}

template <class T>
Data<T> one_row(std::vector<T> x, double eps = 1e-5) {
  return {.rows = 1, .features = static_cast<Index>(x.size()), .x = std::move(x), .eps = eps};
}

/// A row whose gradients are known.
template <class T>
Data<T> reference_box(double eps) {
  auto d = one_row<T>({1, 2, 4, 9}, eps);
  d.dy = {1, 0, -2, 3}, d.gamma = {T(0.5), 1, 2, -1};
  return d;
}

/// What numbers with seven digits behind the point are compared with: half of the last one, and a float's rounding.
inline constexpr long double seven_digits = 4e-7L;

/// Row i is of family i, over and over: every kind of row next to every other.
template <class T>
Data<T> mixed_data(Index rows, Index features, std::uint64_t seed) {
  Data<T> data = random_data<T>(rows, features, seed);
  Random random(seed);
  const auto families = input_families<T>();
  for (Index i = 0; i < rows; ++i) {
    const std::span row(data.x.data() + i * features, static_cast<std::size_t>(features));
    families[static_cast<std::size_t>(i) % families.size()].fill(row, random);
  }
  return data;
}

/// Rows [first, first + count) of `values` [*, features].
template <class T>
std::vector<T> rows_of(const std::vector<T>& values, Index features, Index first, Index count) {
  return {values.begin() + first * features, values.begin() + (first + count) * features};
}

/// Rows of all that is one entry for each row, or nothing.
template <class T>
std::vector<T> entries_of(const std::vector<T>& values, Index first, Index count) {
  return values.empty() ? values : rows_of(values, 1, first, count);
}

template <class T>
Data<T> rows_of(Data<T> data, Index first, Index count) {
  data.x = rows_of(data.x, data.features, first, count);
  data.dy = rows_of(data.dy, data.features, first, count);
  data.rows = count;
  return data;
}

template <class C, class T>
Reals expected_y(const Data<T>& d) {
  using oracle::widen;
  return C::Norm::y(widen(d.x), d.rows, d.features, widen(d.gamma), widen(d.beta), d.eps);
}

/// What errors of y are measured in: the contract's max(|x_hat|, 1), through gamma and beta as x_hat goes.
template <class C, class T>
Reals y_scale(const Data<T>& d) {
  Data<T> plain = d;
  plain.gamma.clear(), plain.beta.clear();
  Reals scale = output_scale(expected_y<C>(plain));
  for (std::size_t i = 0; i < scale.size(); ++i) {
    const std::size_t j = i % static_cast<std::size_t>(d.features);
    if (!d.gamma.empty()) scale[i] *= std::abs(d.gamma[j]);
    if (!d.beta.empty() && C::Norm::centred) scale[i] += std::abs(d.beta[j]);
  }
  return scale;
}

template <class C, class T>
oracle::NormGradients expected_gradients(const Data<T>& d) {
  using oracle::widen;
  return C::Norm::gradients(widen(d.dy), widen(d.x), static_cast<std::size_t>(d.rows),
                            static_cast<std::size_t>(d.features), widen(d.gamma), static_cast<long double>(d.eps));
}

// ---------------------------------------------------------------- memory

/// Equal as memory, which tells 0 from -0 and asks nothing of NaN.
template <class T>
testing::AssertionResult same_bits(const std::vector<T>& got, const std::vector<T>& expected) {
  if (got.size() != expected.size())
    return testing::AssertionFailure() << "got " << got.size() << " elements, expected " << expected.size();
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (std::memcmp(&got[i], &expected[i], sizeof(T)) != 0)
      return testing::AssertionFailure() << std::setprecision(std::numeric_limits<T>::max_digits10) << "element " << i
                                         << " is " << got[i] << ", expected the bits of " << expected[i];
  }
  return testing::AssertionSuccess();
}

/// What must be neither read into a result nor overwritten.
template <class T>
inline constexpr T poison = fast_math ? T(-12345.678) : std::numeric_limits<T>::quiet_NaN();
template <>
inline constexpr char poison<char> = -1;  // a workspace of NaN

/// Where an array lies, in elements: `offset` behind a 64-byte boundary, with `gap` between rows.
struct Place {
  Index offset = 0, gap = 0;
};

struct Layout {
  Place x = {}, dy = {}, gamma = {}, beta = {}, y = {}, dx = {}, dgamma = {}, dbeta = {}, statistics = {};
  Index workspace_offset = 0;  // bytes
};

/// An array [rows, features] that ends where its memory ends, for the address sanitizer; poison around its values.
template <class T>
class Array {
 public:
  /// Null if not `wanted`; without values, all poison.
  Array(bool wanted, Index rows, Index features, Place place, const std::vector<T>& values = {})
      : rows_(wanted ? rows : 0), features_(features), stride_(features + place.gap), offset_(place.offset) {
    if (rows_ * features_ == 0) return;
    size_ = offset_ + (rows_ - 1) * stride_ + features_;
    memory_.reset(static_cast<T*>(::operator new(static_cast<std::size_t>(size_) * sizeof(T), alignment)));
    std::uninitialized_fill_n(memory_.get(), size_, poison<T>);
    if (!values.empty()) {
      for (Index i = 0; i < rows_; ++i) std::copy_n(values.data() + i * features_, features_, row(i));
    }
  }
  /// An input: null if empty.
  Array(const std::vector<T>& values, Index rows, Index features, Place place)
      : Array(!values.empty(), rows, features, place, values) {}

  T* data() const { return memory_ ? row(0) : nullptr; }
  Index stride() const { return stride_; }
  std::vector<T> values() const {
    std::vector<T> values;
    for (Index i = 0; i < rows_; ++i) values.insert(values.end(), row(i), row(i) + features_);
    return values;
  }
  testing::AssertionResult is_intact_around() const {
    std::vector<T> around(memory_.get(), memory_.get() + size_);
    for (Index i = 0; i < rows_; ++i) std::fill_n(around.begin() + offset_ + i * stride_, features_, poison<T>);
    return same_bits(around, std::vector<T>(around.size(), poison<T>));
  }

 private:
  static constexpr std::align_val_t alignment{64};
  struct Delete {
    void operator()(T* memory) const { ::operator delete(memory, alignment); }
  };
  T* row(Index i) const { return memory_.get() + offset_ + i * stride_; }

  Index rows_, features_, stride_, offset_, size_ = 0;
  std::unique_ptr<T, Delete> memory_;
};

// ---------------------------------------------------------------- calls

template <class T>
struct ForwardResult {
  std::vector<T> y = {}, mean = {}, mean_rest = {}, rstd = {};
};

template <class T>
ForwardResult<T> rows_of(const ForwardResult<T>& all, Index features, Index first, Index count) {
  return {.y = rows_of(all.y, features, first, count),
          .mean = entries_of(all.mean, first, count),
          .mean_rest = entries_of(all.mean_rest, first, count),
          .rstd = entries_of(all.rstd, first, count)};
}

template <class T>
void expect_same_bits(const ForwardResult<T>& got, const ForwardResult<T>& expected) {
  EXPECT_TRUE(same_bits(got.y, expected.y));
  EXPECT_TRUE(same_bits(got.mean, expected.mean));
  EXPECT_TRUE(same_bits(got.mean_rest, expected.mean_rest));
  EXPECT_TRUE(same_bits(got.rstd, expected.rstd));
}

struct ForwardOptions {
  Layout layout = {};
  bool in_place = false;
  bool mean = true, mean_rest = true, rstd = true;  // wanted; RMSNorm has only rstd
};

template <class C, class T = typename C::Scalar>
ForwardResult<T> forward(const Data<T>& d, const ForwardOptions& o = {}) {
  constexpr bool centred = C::Norm::centred;
  const Layout& at = o.layout;
  const Array<T> x(d.x, d.rows, d.features, at.x), gamma(d.gamma, 1, d.features, at.gamma);
  const Array<T> beta(centred ? d.beta : std::vector<T>(), 1, d.features, at.beta);
  const Array<T> own_y(!o.in_place, d.rows, d.features, at.y);
  const Array<T>& y = o.in_place ? x : own_y;
  const Array<T> mean(centred && o.mean, 1, d.rows, at.statistics);
  const Array<T> mean_rest(centred && o.mean_rest, 1, d.rows, at.statistics), rstd(o.rstd, 1, d.rows, at.statistics);

  C::Norm::template run<typename C::Arch>(kernels::RowNormForward<T>{.x = x.data(),
                                                                     .gamma = gamma.data(),
                                                                     .beta = beta.data(),
                                                                     .y = y.data(),
                                                                     .mean = mean.data(),
                                                                     .mean_rest = mean_rest.data(),
                                                                     .rstd = rstd.data(),
                                                                     .rows = d.rows,
                                                                     .features = d.features,
                                                                     .x_stride = x.stride(),
                                                                     .y_stride = y.stride(),
                                                                     .eps = d.eps});
  for (const Array<T>* array : {&x, &gamma, &beta, &y, &mean, &mean_rest, &rstd})
    EXPECT_TRUE(array->is_intact_around());
  EXPECT_TRUE(o.in_place || same_bits(x.values(), d.x));
  EXPECT_TRUE(same_bits(gamma.values(), d.gamma));
  return {y.values(), mean.values(), mean_rest.values(), rstd.values()};
}

/// y, checked against the contract.
template <class C, class T = typename C::Scalar>
std::vector<T> checked_y(const Data<T>& d) {
  const auto y = forward<C>(d).y;
  EXPECT_TRUE(within_ulp(y, expected_y<C>(d), contract_ulps, y_scale<C>(d)));
  return y;
}

template <class T>
struct Gradients {
  std::vector<T> dx = {}, dgamma = {}, dbeta = {};
};

template <class T>
void expect_same_bits(const Gradients<T>& got, const Gradients<T>& expected) {
  EXPECT_TRUE(same_bits(got.dx, expected.dx));
  EXPECT_TRUE(same_bits(got.dgamma, expected.dgamma));
  EXPECT_TRUE(same_bits(got.dbeta, expected.dbeta));
}

struct Wanted {
  bool dx = true, dgamma = true, dbeta = true;
};

template <class T>
struct BackwardOptions {
  Wanted wanted = {};        // RMSNorm has no dbeta
  Gradients<T> add_to = {};  // what is there already; empty: assign
  Layout layout = {};
  bool in_place = false;
};

/// `saved` without mean_rest: null.
template <class C, class T = typename C::Scalar>
Gradients<T> backward(const Data<T>& d, const ForwardResult<T>& saved, const BackwardOptions<T>& o = {}) {
  const Layout& at = o.layout;
  const Array<T> x(d.x, d.rows, d.features, at.x), dy(d.dy, d.rows, d.features, at.dy);
  const Array<T> gamma(d.gamma, 1, d.features, at.gamma);
  const Array<T> mean(saved.mean, 1, d.rows, at.statistics), mean_rest(saved.mean_rest, 1, d.rows, at.statistics);
  const Array<T> rstd(saved.rstd, 1, d.rows, at.statistics);
  const Array<T> own_dx(o.wanted.dx && !o.in_place, d.rows, d.features, at.dx, o.add_to.dx);
  const Array<T>& dx = o.in_place ? dy : own_dx;
  const Array<T> dgamma(o.wanted.dgamma, 1, d.features, at.dgamma, o.add_to.dgamma);
  const Array<T> dbeta(o.wanted.dbeta && C::Norm::centred, 1, d.features, at.dbeta, o.add_to.dbeta);
  const bool needs_workspace = dgamma.data() || dbeta.data();
  const auto bytes = static_cast<Index>(C::Norm::template workspace_bytes<T>(d.rows, d.features));
  const Array<char> workspace(needs_workspace, 1, bytes, {.offset = at.workspace_offset});

  C::Norm::template run<typename C::Arch>(kernels::RowNormBackward<T>{.dy = dy.data(),
                                                                      .x = x.data(),
                                                                      .gamma = gamma.data(),
                                                                      .mean = mean.data(),
                                                                      .mean_rest = mean_rest.data(),
                                                                      .rstd = rstd.data(),
                                                                      .dx = dx.data(),
                                                                      .dgamma = dgamma.data(),
                                                                      .dbeta = dbeta.data(),
                                                                      .add_dx = !o.add_to.dx.empty(),
                                                                      .add_dgamma = !o.add_to.dgamma.empty(),
                                                                      .add_dbeta = !o.add_to.dbeta.empty(),
                                                                      .rows = d.rows,
                                                                      .features = d.features,
                                                                      .dy_stride = dy.stride(),
                                                                      .x_stride = x.stride(),
                                                                      .dx_stride = dx.stride(),
                                                                      .workspace = workspace.data()});
  for (const Array<T>* array : {&x, &dy, &gamma, &mean, &mean_rest, &rstd, &dx, &dgamma, &dbeta})
    EXPECT_TRUE(array->is_intact_around());
  EXPECT_TRUE(same_bits(x.values(), d.x));
  EXPECT_TRUE(o.in_place || same_bits(dy.values(), d.dy));
  EXPECT_TRUE(same_bits(gamma.values(), d.gamma));
  return {dx.values(), dgamma.values(), dbeta.values()};
}

template <class C, class T = typename C::Scalar>
Gradients<T> gradients(const Data<T>& d, const BackwardOptions<T>& o = {}) {
  return backward<C>(d, forward<C>(d), o);
}

}  // namespace evenkeel_test
