#include <gtest/gtest.h>

#include "evenkeel/ops/layer_norm.hpp"
#include "evenkeel/ops/rms_norm.hpp"
#include "support/compiled_norms.hpp"
#include "threads/threads_test.hpp"

namespace evenkeel_test {
namespace {

using evenkeel::add_to;
using evenkeel::Axes;
using evenkeel::NormStatistics;
namespace kernels = evenkeel::kernels;

/// A tensor that a norm takes in one of its ways.
struct NormCase {
  std::string name;
  Shape shape;
  StorageOrder order = StorageOrder::row_major;
  Index gap = 0;
  Axes axis = -1;
};
constexpr StorageOrder column_major = StorageOrder::column_major;

const std::vector<NormCase>& norm_cases() {
  static const std::vector<NormCase> all = {
      {"rows", {1100, 100}},
      {"rows apart", {700, 101}, StorageOrder::row_major, 7},
      {"rows of 9", {20000, 9}},
      {"few long rows", {3, 20000}},
      {"one long row", {1, 400003}},
      {"long rows apart", {4, 140009}, StorageOrder::row_major, 5},
      {"as many rows as are summed together", {128, 4100}},
      {"lanes", {2100, 70}, column_major},
      {"lanes in pieces", {2100, 150}, column_major, 3},
      {"lanes of several outer indices", {30, 50, 96}, StorageOrder::row_major, 0, 1},
  };
  return all;
}

template <class S>
struct LayerNormThreads {
  using Scalar = S;
  static constexpr bool has_beta = true;
  struct Parameters {
    std::vector<S> gamma, beta;
  };
  static void forward(const auto& x, const auto& y, auto& saved, const auto& p, const auto& axis, const auto& mask,
                      const Context& context) {
    evenkeel::layer_norm_into(x, y, saved, {.gamma = p.gamma, .beta = p.beta, .axis = axis, .mask = mask}, context);
  }
  static void backward(const auto& dy, const auto& x, const auto& saved, const auto& p, const auto& axis,
                       const auto& mask, const auto& dx, auto& dgamma, auto& dbeta, const Context& context) {
    evenkeel::layer_norm_backward(dy, x, saved, {.gamma = p.gamma, .axis = axis, .mask = mask},
                                  {.dx = dx, .dgamma = add_to(dgamma), .dbeta = dbeta}, context);
  }
};
template <class S>
struct RMSNormThreads : LayerNormThreads<S> {
  static void forward(const auto& x, const auto& y, auto& saved, const auto& p, const auto& axis, const auto& mask,
                      const Context& context) {
    evenkeel::rms_norm_into(x, y, saved, {.gamma = p.gamma, .axis = axis, .mask = mask}, context);
  }
  static void backward(const auto& dy, const auto& x, const auto& saved, const auto& p, const auto& axis,
                       const auto& mask, const auto& dx, auto& dgamma, auto&, const Context& context) {
    evenkeel::rms_norm_backward(dy, x, saved, {.gamma = p.gamma, .axis = axis, .mask = mask},
                                {.dx = dx, .dgamma = add_to(dgamma)}, context);
  }
};

/// A norm of one of the cases, forward and backward, at addresses that are aligned to nothing but an element.
template <class Norm>
class NormRun {
 public:
  using S = typename Norm::Scalar;

  explicit NormRun(const NormCase& c, const evenkeel::MaskView& mask = {})
      : case_(c),
        mask_(mask),
        x_(c.shape, c.order, c.gap, 1, 1),
        dy_(c.shape, c.order, c.gap, 3, 2),
        features_(static_cast<std::size_t>(evenkeel::axis_view("", "x", x_.view(), c.axis).length.extent)),
        parameters_{normal_vector<S>(features_, 3), normal_vector<S>(features_, 4)} {
    forward({});
  }

  Bits forward(const Context& context) {
    const OwnTensor<S> y(case_.shape, case_.order, case_.gap, 2);
    Norm::forward(x_.view(), y.view(), saved_, parameters_, case_.axis, mask_, context);
    return Bits(y.memory(), saved_.mean, saved_.mean_rest, saved_.rstd);
  }
  Bits backward(const Context& context) const {
    const OwnTensor<S> dx(case_.shape, case_.order, case_.gap, 1);
    auto dgamma = normal_vector<S>(features_, 7);
    std::vector<S> dbeta(features_);
    Norm::backward(dy_.view(), x_.view(), saved_, parameters_, case_.axis, mask_, dx.view(), dgamma, dbeta, context);
    return Bits(dx.memory(), dgamma, dbeta);
  }
  Bits input_gradient(const Context& context) const {
    const OwnTensor<S> dx(dy_);  // what is added to
    evenkeel::ParameterGradient<S> none, not_wanted;
    Norm::backward(dy_.view(), x_.view(), saved_, parameters_, case_.axis, mask_, add_to(dx.view()), none, not_wanted,
                   context);
    return Bits(dx.memory());
  }

 private:
  NormCase case_;
  evenkeel::MaskView mask_;
  OwnTensor<S> x_, dy_;
  std::size_t features_;
  typename Norm::Parameters parameters_;
  NormStatistics<S> saved_;
};

template <class Norm>
class RowNormThreads : public testing::Test {};
using Norms =
    testing::Types<LayerNormThreads<float>, LayerNormThreads<double>, RMSNormThreads<float>, RMSNormThreads<double>>;
TYPED_TEST_SUITE(RowNormThreads, Norms);

TYPED_TEST(RowNormThreads, ForwardHasTheBitsOfOneThread) {
  for (const NormCase& c : norm_cases()) {
    SCOPED_TRACE(c.name);
    NormRun<TypeParam> run(c);
    expect_parallel([&](const Context& context) { return run.forward(context); });
  }
}

TYPED_TEST(RowNormThreads, BackwardHasTheBitsOfOneThread) {
  for (const NormCase& c : norm_cases()) {
    SCOPED_TRACE(c.name);
    const NormRun<TypeParam> run(c);
    const auto backward = [&](const Context& context) { return run.backward(context); };
    c.name == "few long rows" ? expect_serial(backward) : expect_parallel(backward);
  }
}

TYPED_TEST(RowNormThreads, InputGradientHasTheBitsOfOneThread) {
  for (const NormCase& c : norm_cases()) {
    SCOPED_TRACE(c.name);
    const NormRun<TypeParam> run(c);
    expect_parallel([&](const Context& context) { return run.input_gradient(context); });
  }
}

TYPED_TEST(RowNormThreads, MaskedRowsHaveTheBitsOfOneThread) {
  std::vector<std::uint8_t> mask(5000, 1);
  std::fill(mask.begin() + 500, mask.begin() + 520, std::uint8_t{0});
  std::fill(mask.end() - 700, mask.end(), std::uint8_t{0});
  for (const NormCase& c : {NormCase{"rows", {5000, 40}}, NormCase{"lanes", {5000, 70}, column_major}}) {
    SCOPED_TRACE(c.name);
    NormRun<TypeParam> run(c, mask);
    expect_parallel([&](const Context& context) { return run.forward(context); });
    expect_parallel([&](const Context& context) { return run.backward(context); });
  }
}

/// Runs items one by one, the last first.
struct ItemsBackwards {
  void operator()(Index items, Index, const auto& body) const {
    for (Index i = items; i-- > 0;) body(i, i + 1);
  }
  static bool cuts(Index, Index) { return false; }
};

TEST(RowNormSlots, ChunksHaveTheBitsOfOneThreadWithAnyNumberOfSlots) {
  constexpr Index rows = 1300, features = 37;
  const auto x = normal_vector<float>(rows * features, 1), dy = normal_vector<float>(rows * features, 2);
  const auto mean = normal_vector<float>(rows, 3), rstd = normal_vector<float>(rows, 4, 1, 0.01);
  const auto with_slots = [&](Index slots, const auto& run) {
    std::vector<float> dx(x.size()), dgamma(features), dbeta(features);
    std::vector<char> workspace(kernels::row_norm_backward_workspace_bytes<float>(rows, features, slots));
    kernels::row_norm_backward<evenkeel::native, kernels::LayerNormRow>(
        kernels::RowNormBackward<float>{.dy = dy.data(),
                                        .x = x.data(),
                                        .mean = mean.data(),
                                        .rstd = rstd.data(),
                                        .dx = dx.data(),
                                        .dgamma = dgamma.data(),
                                        .dbeta = dbeta.data(),
                                        .rows = rows,
                                        .features = features,
                                        .dy_stride = features,
                                        .x_stride = features,
                                        .dx_stride = features,
                                        .workspace = workspace.data()},
        run, slots);
    return Bits(dx, dgamma, dbeta);
  };
  const Bits expected = with_slots(1, kernels::InOnePiece());
  for (const Index slots : {1, 2, 3, 7, 10, 11, 64})
    EXPECT_TRUE(with_slots(slots, ItemsBackwards()) == expected) << slots;
}

TYPED_TEST(RowNormThreads, RowsThatAreGatheredAreLeftToTheCaller) {
  using S = typename TypeParam::Scalar;
  const std::vector<S> memory = normal_vector<S>(2 * 900 * 60, 1), gamma = normal_vector<S>(60, 2);
  const TensorView<const S> x(memory.data(), {900, 60}, {2, 2 * 900}, column_major);
  expect_serial([&](const Context& context) {
    std::vector<S> y(memory.size());
    NormStatistics<S> saved;
    TypeParam::forward(x, TensorView<S>(y.data(), {900, 60}, {2, 2 * 900}, column_major), saved,
                       typename TypeParam::Parameters{gamma, gamma}, Axes(-1), evenkeel::MaskView(), context);
    return Bits(y);
  });
}

TYPED_TEST(RowNormThreads, SmallWorkNeverLeavesTheCallersThread) {
  NormRun<TypeParam> run(NormCase{"small", {16, 256}});
  expect_serial([&](const Context& context) { return run.forward(context); });
  expect_serial([&](const Context& context) { return run.backward(context); });
}

TYPED_TEST(RowNormThreads, OneWorkspaceServesEveryExecutor) {
  using S = typename TypeParam::Scalar;
  for (const NormCase& c : norm_cases()) {
    SCOPED_TRACE(c.name);
    std::vector<std::byte> memory(evenkeel::layer_norm_workspace_bytes<S>(c.shape, c.axis));
    NormRun<TypeParam> run(c);
    expect_same_bits_on_all_executors([&](Context context) {
      context.workspace = memory;
      run.forward(context);
      return run.backward(context);
    });
  }
}

TYPED_TEST(RowNormThreads, WorksInsideATaskOfThePool) {
  NormRun<TypeParam> run(norm_cases()[0]);
  const Bits expected = run.backward({});
  Eigen::ThreadPool pool(2);
  std::atomic<int> done{0};
  for (int i = 0; i < 4; ++i) {
    pool.Schedule([&] {
      EXPECT_TRUE(run.backward({.executor = pool}) == expected);
      ++done;
    });
  }
  while (done < 4) std::this_thread::yield();
}

}  // namespace
}  // namespace evenkeel_test
