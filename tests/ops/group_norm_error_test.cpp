// Errors of GroupNorm and InstanceNorm: each text, and that nothing is written before.
#include "core/error_text.hpp"
#include "ops/group_op_test.hpp"

namespace evenkeel_test {
namespace {

using Options = evenkeel::GroupNormOptions<float>;
using Gradients = evenkeel::GroupNormGradients<float>;
using View = TensorView<float>;

/// Memory for images [2, 6, 3] and everything that goes with them.
struct Call {
  std::vector<float> x = normal_vector<float>(36, 1), y = std::vector<float>(36, -1), dy = x, dx = y;
  std::vector<float> parameters = std::vector<float>(6, 1), dgamma = std::vector<float>(6, -1), dbeta = dgamma;
  NormStatistics<float> saved;
  Shape shape = {2, 6, 3};

  View of(std::vector<float>& memory, const Shape& as) { return View(memory.data(), as); }
  View of(std::vector<float>& memory) { return of(memory, shape); }
  void forward(const Options& options) { evenkeel::group_norm_into(of(x), of(y), saved, options); }
  void backward(const Options& options, const Gradients& to) {
    evenkeel::group_norm_backward(of(dy), of(x), saved, options, to);
  }

  std::string forward_error(const Options& options) {
    const auto text = error_text<std::invalid_argument>([&] { forward(options); });
    EXPECT_EQ(y, std::vector<float>(36, -1));
    EXPECT_TRUE(saved.is_empty());
    return text;
  }
  std::string backward_error(const Options& options, const Gradients& to) {
    const auto text = error_text<std::invalid_argument>([&] { backward(options, to); });
    EXPECT_EQ(dx, std::vector<float>(36, -1));
    EXPECT_EQ(dgamma, std::vector<float>(6, -1));
    EXPECT_EQ(dbeta, std::vector<float>(6, -1));
    return text;
  }
};

// B76
TEST(GroupNormError, GroupsThatDoNotDivideTheChannelsAreRefused) {
  EXPECT_EQ(
      Call().forward_error({.groups = 4}),
      "evenkeel::group_norm_into: groups is 4, expected a divisor of 6, the number of channels (x has shape [2, 6, "
      "3])");
  EXPECT_EQ(Call().forward_error({.groups = 0}),
            "evenkeel::group_norm_into: groups is 0, expected at least 1 (x has shape [2, 6, 3])");
  EXPECT_EQ(Call().forward_error({.groups = -1}),
            "evenkeel::group_norm_into: groups is -1, expected at least 1 (x has shape [2, 6, 3])");
}

TEST(GroupNormError, AxesThatXDoesNotHaveAreRefused) {
  EXPECT_EQ(Call().forward_error({.groups = 2, .channel_axis = 3}),
            "evenkeel::group_norm_into: channel_axis is 3, expected -3 to 2 (x has shape [2, 6, 3])");
  EXPECT_EQ(Call().forward_error({.groups = 2, .batch_axis = -4}),
            "evenkeel::group_norm_into: batch_axis is -4, expected -3 to 2 (x has shape [2, 6, 3])");
  EXPECT_EQ(Call().forward_error({.groups = 2, .channel_axis = 0}),
            "evenkeel::group_norm_into: channel_axis and batch_axis are both 0, expected two axes (x has shape [2, 6, "
            "3])");
  Call call;
  call.shape = {36};
  EXPECT_EQ(call.forward_error({.groups = 2}),
            "evenkeel::group_norm_into: x has 1 axis, expected at least 2, of examples and of channels (x has shape "
            "[36])");
}

// B58
TEST(GroupNormError, ParametersOfAnotherSizeAreRefused) {
  Call call;
  const std::vector<float> three(3), five(5);
  EXPECT_EQ(call.forward_error({.gamma = three, .groups = 2}),
            "evenkeel::group_norm_into: gamma has 3 elements, expected 6 (channels are axis 1; x has shape [2, 6, 3], "
            "whose axis 2 has 3)");
  EXPECT_EQ(call.forward_error({.beta = five, .groups = 2}),
            "evenkeel::group_norm_into: beta has 5 elements, expected 6 (channels are axis 1; x has shape [2, 6, 3])");
  call.forward({.groups = 2});
  std::vector<float> small(2);
  EXPECT_EQ(call.backward_error({.groups = 2}, {.dx = call.of(call.dx), .dgamma = small}),
            "evenkeel::group_norm_backward: dgamma has 2 elements, expected 6 (channels are axis 1; x has shape [2, 6, "
            "3], whose axis 0 has 2)");
  EXPECT_EQ(call.backward_error({.groups = 2}, {.dx = call.of(call.dx), .dbeta = small}),
            "evenkeel::group_norm_backward: dbeta has 2 elements, expected 6 (channels are axis 1; x has shape [2, 6, "
            "3], whose axis 0 has 2)");
  EXPECT_EQ(
      call.backward_error({.gamma = five, .groups = 2}, {.dx = call.of(call.dx)}),
      "evenkeel::group_norm_backward: gamma has 5 elements, expected 6 (channels are axis 1; x has shape [2, 6, 3])");
}

TEST(GroupNormError, EpsBelowZeroIsRefused) {
  EXPECT_EQ(Call().forward_error({.groups = 2, .eps = -1}),
            "evenkeel::group_norm_into: eps is -1.000000, expected a finite number of at least 0");
}

TEST(GroupNormError, OutputsOfAnotherShapeOrOrderAreRefused) {
  Call call;
  const auto into = [&](const View& y) {
    return error_text<std::invalid_argument>([&] { evenkeel::group_norm_into(call.of(call.x), y, {.groups = 2}); });
  };
  EXPECT_EQ(into(call.of(call.y, {2, 3, 6})),
            "evenkeel::group_norm_into: y has shape [2, 3, 6], expected [2, 6, 3] (the shape of x)");
  EXPECT_EQ(
      into(View(call.y.data(), call.shape, StorageOrder::column_major)),
      "evenkeel::group_norm_into: y is column-major, expected row-major as x is (copy into a tensor of that order "
      "first)");
  call.forward({.groups = 2});
  const Options options{.groups = 2};
  EXPECT_EQ(call.backward_error(options, {.dx = call.of(call.dx, {6, 2, 3})}),
            "evenkeel::group_norm_backward: dx has shape [6, 2, 3], expected [2, 6, 3] (the shape of x)");
  EXPECT_EQ(call.backward_error(options, {.dx = View(call.dx.data(), call.shape, StorageOrder::column_major)}),
            "evenkeel::group_norm_backward: dx is column-major, expected row-major as x is (copy into a tensor of that "
            "order first)");
  EXPECT_EQ(error_text<std::invalid_argument>([&] {
              evenkeel::group_norm_backward(call.of(call.dy, {6, 2, 3}), call.of(call.x), call.saved, options, {});
            }),
            "evenkeel::group_norm_backward: dy has shape [6, 2, 3], expected [2, 6, 3] (the shape of x)");
  EXPECT_EQ(error_text<std::invalid_argument>([&] {
              evenkeel::group_norm_backward(View(call.dy.data(), call.shape, StorageOrder::column_major),
                                            call.of(call.x), call.saved, options, {});
            }),
            "evenkeel::group_norm_backward: dy is column-major, expected row-major as x is (copy into a tensor of that "
            "order first)");
}

TEST(GroupNormError, MemoryThatOverlapsIsRefused) {
  std::vector<float> memory(100), parameters(6);
  const Shape shape = {2, 6, 3};
  const View x(memory.data(), shape), shifted(memory.data() + 1, shape), y(memory.data() + 50, shape);
  const auto forward = [&](const View& to, const Options& options) {
    return error_text<std::invalid_argument>([&] { evenkeel::group_norm_into(x, to, options); });
  };
  EXPECT_EQ(forward(shifted, {.groups = 2}),
            "evenkeel::group_norm_into: y overlaps x in memory, expected the identical view or memory of its own");
  EXPECT_EQ(forward(y, {.gamma = {y.data(), 6}, .groups = 2}),
            "evenkeel::group_norm_into: y overlaps gamma in memory, expected memory of its own");
  EXPECT_EQ(forward(y, {.beta = {y.data(), 6}, .groups = 2}),
            "evenkeel::group_norm_into: y overlaps beta in memory, expected memory of its own");
  NormStatistics<float> saved;
  evenkeel::group_norm_into(x, y, saved, {.groups = 2});
  const auto backward = [&](const Gradients& to) {
    return error_text<std::invalid_argument>([&] { evenkeel::group_norm_backward(y, x, saved, {.groups = 2}, to); });
  };
  EXPECT_EQ(backward({.dx = x}), "evenkeel::group_norm_backward: dx overlaps x in memory, expected memory of its own");
  EXPECT_EQ(backward({.dgamma = {x.data(), 6}}),
            "evenkeel::group_norm_backward: dgamma overlaps x in memory, expected memory of its own");
  EXPECT_EQ(backward({.dgamma = parameters, .dbeta = parameters}),
            "evenkeel::group_norm_backward: dgamma overlaps dbeta in memory, expected memory of its own");
}

TEST(GroupNormError, SavedOfNothingOrOfSomethingElseIsRefused) {
  Call call;
  EXPECT_EQ(error_text<std::logic_error>([&] { call.backward({.groups = 2}, {.dx = call.of(call.dx)}); }),
            "evenkeel::group_norm_backward: saved is empty, expected what a forward of x has saved (x has shape [2, 6, "
            "3])");
  call.forward({.groups = 2});
  EXPECT_EQ(
      call.backward_error({.groups = 3}, {.dx = call.of(call.dx)}),
      "evenkeel::group_norm_backward: saved has statistics of 4 groups, expected 6 (saved by another norm, or with "
      "other groups or axes?)");
  call.saved.shape = {4, 3, 3};
  EXPECT_EQ(call.backward_error({.groups = 2}, {.dx = call.of(call.dx)}),
            "evenkeel::group_norm_backward: x has shape [2, 6, 3], expected [4, 3, 3] (the shape of the x that was "
            "saved)");
}

TEST(GroupNormError, AWorkspaceThatIsTooSmallIsRefused) {
  Call call;
  call.forward({.groups = 2});
  std::byte workspace[10];
  EXPECT_EQ(error_text<std::invalid_argument>([&] {
              evenkeel::group_norm_backward(call.of(call.dy), call.of(call.x), call.saved, {.groups = 2},
                                            {.dgamma = call.dgamma}, {.workspace = workspace});
            }),
            "evenkeel::group_norm_backward: workspace has 10 bytes, expected at least 262");
  EXPECT_EQ(call.dgamma, std::vector<float>(6, -1));
}

TEST(GroupNormError, OfInstanceNormHaveItsName) {
  Call call;
  EXPECT_EQ(error_text<std::invalid_argument>(
                [&] { evenkeel::instance_norm_into(call.of(call.x), call.of(call.y), {.channel_axis = 7}); }),
            "evenkeel::instance_norm_into: channel_axis is 7, expected -3 to 2 (x has shape [2, 6, 3])");
  EXPECT_EQ(error_text<std::logic_error>(
                [&] { evenkeel::instance_norm_backward(call.of(call.dy), call.of(call.x), call.saved, {}, {}); }),
            "evenkeel::instance_norm_backward: saved is empty, expected what a forward of x has saved (x has shape [2, "
            "6, 3])");
  EXPECT_EQ(
      error_text<std::invalid_argument>([&] { evenkeel::instance_norm_workspace_bytes<float>(Shape{4}); }),
      "evenkeel::instance_norm_workspace_bytes: x has 1 axis, expected at least 2, of examples and of channels (x "
      "has shape [4])");
}

}  // namespace
}  // namespace evenkeel_test
